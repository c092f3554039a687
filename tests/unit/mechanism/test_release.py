"""The release file: canonical, complete, and no byte of it can be changed unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from colonnade.foundation.canonical import RELEASE_FORMAT
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Distribution, Encoding, Layout, ReleasedSum, Role
from colonnade.mechanism.objective import with_products
from colonnade.mechanism.release import (
    ReleasedBlock,
    ReleaseRecord,
    _from_runs,
    read_release,
    read_sealed,
    write_release,
    write_sealed,
)
from tests.helpers.adversary import layout_from


def layout() -> Layout:
    return layout_from(
        [
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("B", Encoding.SIMPLEX, 3, Role.FEATURE),
            ("B", Encoding.SIMPLEX, 2, Role.LABEL),
        ]
    )


def release(task: str = "logistic") -> ReleaseRecord:
    blocks = (
        ReleasedBlock(
            ("A", "B"),
            Role.FEATURE,
            False,
            49,
            np.array([[1, 2], [1, 3], [1, 4]]),
            np.array([98, -49, 7]),
            np.array([2.0, 2.0, 3.5]),
        ),
        ReleasedBlock(("A",), Role.FEATURE, True, 49, np.array([[1, 1]]), np.array([490]), np.array([1.5])),
    )
    return ReleaseRecord(
        100, layout(), Distribution.LAPLACE, blocks, {"task": task, "study": "größe"}, {"session": "ab"}
    )


def test_round_trip() -> None:
    data = write_release(release())
    back = read_release(data)
    assert write_release(back) == data
    assert back.layout == release().layout and back.n == 100 and back.law is Distribution.LAPLACE
    for one, two in zip(back.blocks, release().blocks, strict=True):
        assert np.array_equal(one.values, two.values) and np.array_equal(one.std, two.std)
        assert np.array_equal(one.factors, two.factors) and one.owners == two.owners


def test_equal_content_has_equal_bytes() -> None:
    assert write_release(release()) == write_release(release())
    assert write_sealed({"b": 1, "a": 2}) == write_sealed({"a": 2, "b": 1})


def test_every_altered_byte_is_noticed() -> None:
    data = write_release(release())
    for at in range(len(data)):
        for flip in (1, 2, 32):
            altered = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            with pytest.raises(ReleaseError):
                read_release(altered)


def test_other_spellings_of_the_same_content_are_refused() -> None:
    data = write_release(release())
    content = json.loads(data)
    for other in (
        data + b"\n",
        data[:-1],
        b" " + data,
        json.dumps(content, sort_keys=True).encode() + b"\n",
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n",
        data.replace(b'"n":100', b'"n":100,"n":100'),
        data.decode().encode("utf-16"),
    ):
        with pytest.raises(ReleaseError):
            read_release(other)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format":"colonnade-release/1"}\n', b"NaN"],
)
def test_rubbish_is_refused(data: bytes) -> None:
    with pytest.raises(ReleaseError):
        read_release(data)


def test_runs_cover_exactly_their_numbers() -> None:
    assert _from_runs([(1, 0.5), (2, 3.0)], 3).tolist() == [0.5, 3.0, 3.0]
    for runs in ([(0, 1.0), (3, 2.0)], [(4, 1.0)], [(2, 1.0)], [(4, 1.0), (-1, 1.0)]):
        with pytest.raises(ReleaseError):
            _from_runs(runs, 3)


def test_a_sealed_file_that_lacks_a_part_is_no_release() -> None:
    content = release().to()
    for key in ("n", "law", "attributes", "blocks", "plan", "provenance"):
        partial = {k: v for k, v in content.items() if k != key}
        with pytest.raises(ReleaseError, match="not a complete release"):
            read_release(write_sealed(partial))


def test_another_format_is_named() -> None:
    with pytest.raises(ReleaseError, match=f"a release file must have the format {RELEASE_FORMAT}"):
        read_release(write_sealed({"format": "other/1"}))
    assert read_sealed(write_sealed({"format": "other/1", "x": 1}), "other/1", "thing") == {"format": "other/1", "x": 1}


@pytest.mark.parametrize("key", ["interval", "ball"])
def test_a_radius_is_below_a_thousand_million(key: str) -> None:
    """The largest whole number below 10^9 is read, and 10^9 itself is not."""
    below, at = (replace(release(), plan={"task": "linear", key: radius}) for radius in (999_999_999, 10**9))
    assert read_release(write_release(below)).plan[key] == 999_999_999
    with pytest.raises(ReleaseError, match="a part of it has a wrong type, size or range"):
        read_release(write_release(at))


def test_a_declared_number_whose_name_ends_like_a_levels_is_a_column() -> None:
    """Party B declares a number "x=2": it is that column, not the second level of a column "x" that nobody has."""
    name, whole = ColumnRef("B", "x=2"), release()
    _, *others = whole.layout.attributes
    number = replace(whole.layout.attributes[0], of=name, coordinates=(name.column,))
    schema = {"B": {column: {} for column in ("x=2", "a1", "a2")}}
    blocks = (ReleasedBlock(("B",), Role.FEATURE, True, 49, np.array([[1, 1]]), np.array([490]), np.array([1.5])),)
    content = replace(
        whole, layout=Layout((number, *others)), blocks=blocks, provenance={"agreement": {"schema": schema}}
    )
    assert read_release(write_release(content)).layout.attributes[0].of == name


def test_moments_know_what_is_known() -> None:
    moments = release().moments()
    assert moments.value[0, 0] == 100 and moments.std[0, 0] == 0
    assert moments.value[1, 2] == moments.value[2, 1] == 2.0
    assert moments.std[1, 4] == 3.5
    # Two levels of one attribute multiply to 0; the same level is not known.
    assert moments.std[2, 3] == 0 and moments.value[2, 3] == 0
    assert np.isinf(moments.std[2, 2]) and np.isinf(moments.std[0, 1])
    # Halves of a numeric label do not multiply to 0.
    assert moments.std[5, 6] == 0 and np.isinf(release("linear").moments().std[5, 6])
    (trace,) = moments.traces
    assert trace.coordinates == (1,) and trace.value == 10.0 and trace.std == 1.5


def test_sums_of_products_are_told_apart_from_the_models_columns() -> None:
    """The seventh and eighth coordinate are the first one's square and its product with level 2; only sums of both."""
    wide = with_products(layout(), [(1, 1), (1, 2)])
    sums = ReleasedBlock(("A",), Role.FEATURE, False, 49, np.array([[0, 7], [0, 8]]), np.array([98, -49]), np.ones(2))
    whole = replace(release(), layout=wide, blocks=(*release().blocks, sums))
    moments = read_release(write_release(whole)).moments()
    assert moments.layout == layout() and moments.value.shape == moments.std.shape == (7, 7)
    assert moments.sums == (ReleasedSum((1, 1), 2.0, 1.0), ReleasedSum((1, 2), -1.0, 1.0))
    assert release().moments().sums == () and release().moments().layout == layout()
    for product in ((9,), (1, 7)):
        content = whole.to()
        content["attributes"][-1]["products"] = [list(product)]
        with pytest.raises(ReleaseError):
            read_release(write_sealed(content))
