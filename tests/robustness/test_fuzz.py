"""A bounded smoke of `make fuzz`, and one test for every bug that it found."""

from __future__ import annotations

import io
import json
import resource
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from colonnade.consent.entries import Booking, DataSet, read_back
from colonnade.consent.ledger import Ledger
from colonnade.data.table import read_table
from colonnade.foundation.errors import (
    ColonnadeError,
    DataError,
    LedgerError,
    MessageError,
    PrivacyError,
    ReleaseError,
    SchemaError,
    StudyError,
)
from colonnade.foundation.schema import Numeric, Schema, column_from
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.composition import Cap, Charge
from colonnade.mechanism.release import read_release, write_sealed
from colonnade.model import read_model
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.messages import Envelope, Join, Step, body_of
from colonnade.study import read_study, study_from
from fuzz import corpus
from fuzz.__main__ import run
from fuzz.targets import TARGETS, Target, _model, _release, tried

SMOKE = 20_000
BIG = 10**400
"""An integer that no float holds; TOML and JSON files may have one."""
NUMERIC = {"kind": "numeric", "low": 0, "high": 1}


@pytest.mark.parametrize("name", TARGETS)
def test_only_our_own_errors_come_out(name: str) -> None:
    count = max(20, SMOKE * TARGETS[name].share // sum(t.share for t in TARGETS.values()))
    found = run(name, count, seed=2)
    assert not found["failures"], found["failures"]


def test_other_errors_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        raise KeyError("planted") if len(data) % 2 else ReleaseError("refused")

    monkeypatch.setitem(TARGETS, "planted", Target(broken, lambda: [b"abc"], 1))
    found = run("planted", 50, seed=1)
    assert [key.split(" at ")[0] for key in found["failures"]] == ["KeyError"]  # type: ignore[attr-defined]
    assert not tried(Target(lambda _: broken(b""), list, 1), b"")


def test_a_million_cases_are_shared_out() -> None:
    assert sum(target.share for target in TARGETS.values()) == 1_000_000


def test_a_kept_corpus_is_small_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpus, "CORPUS", tmp_path)
    try:
        corpus.keep("a reader", [b"longer", b"x" * (corpus.LONGEST + 1), b"", *(bytes([i]) for i in range(40))])
        corpus.kept.cache_clear()
        kept = corpus.kept("a reader")
        assert len(kept) == corpus.MOST and all(len(data) == 1 for data in kept)
        corpus.keep("a reader", [b"later"])
        corpus.kept.cache_clear()
        assert corpus.kept("a reader") == kept
    finally:
        corpus.kept.cache_clear()


# --- what fuzzing found


@pytest.mark.parametrize(
    "declared",
    [
        {"kind": ["numeric"], "low": 0, "high": 1},
        {"kind": {}, "low": 0, "high": 1},
        {**NUMERIC, "high": BIG},
        {**NUMERIC, "low": -BIG},
        {**NUMERIC, "fill": BIG},
        {**NUMERIC, "bins": [0.5, BIG]},
        {**NUMERIC, "bins": [True]},
        {**NUMERIC, "low": -1.7e308, "high": 1.7e308},
    ],
)
def test_columns_with_numbers_beyond_floats_and_kinds_beyond_texts(declared: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="column x: ") as refused:
        column_from("x", declared)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "names", [{b"a": {"x": Numeric(0, 1)}}, {"a": {b"x": Numeric(0, 1)}}, {"a": {"": Numeric(0, 1)}}]
)
def test_names_are_texts(names: Any) -> None:
    """A message may have any key where a file has texts; a plan that holds bytes could not be digested."""
    with pytest.raises(SchemaError):
        Schema(names)


def test_an_epsilon_beyond_floats() -> None:
    with pytest.raises(PrivacyError, match="epsilon must be at most 1e\\+12, got epsilon=an integer beyond"):
        check_epsilon(BIG)


@pytest.mark.parametrize("terms", [{"epsilon": 2**63, "delta": 1e-6}, {"delta": BIG}, {"epsilon": float("inf")}])
def test_a_plan_of_numbers_beyond_the_accountant(terms: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError, match=r"epsilon must be|delta must lie"):
        plan_session(Agreement.of(agreed(**terms)), 100, bytes(32))


def test_a_ledger_whose_text_is_no_text(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "a.ledger")
    booking = Booking("a" * 64, "a", "s", "d" * 64, DataSet("t.csv", "e" * 64), Charge(0.5, 0.0, None), 1.0)
    book.book(booking, Cap(3.0))
    damaged = book.path.read_bytes().replace(b'"party":"a"', b'"party":"\xe3"')
    book.path.write_bytes(damaged)
    with pytest.raises(LedgerError, match="cannot be used"):
        book.entries()


def agreed(**changes: Any) -> dict[str, Any]:
    schema = Schema({"a": {"x": Numeric(0, 1), "y": Numeric(0, 1)}})
    content = {"name": "s", "schema": schema.to(), "norms": {}, "label": "y", "task": "linear", "epsilon": 1.0}
    content |= {"offers": {}, "delta": 0.0, "collusion": 0, "calibration": "exact", "product": "plain"}
    return {**content, "release": "auto", "label_square": False, **changes}


@pytest.mark.parametrize(
    "changes", [{"epsilon": BIG}, {"label_square": b"x"}, {"norms": {"a": BIG}}, {"offers": {"a": 1}}, {"delta": "0"}]
)
def test_a_hostile_agreement_is_refused(changes: dict[str, Any]) -> None:
    Agreement.of(agreed())
    with pytest.raises(ColonnadeError):
        Agreement.of(agreed(**changes))


def study(**changes: Any) -> dict[str, Any]:
    columns = {"x": NUMERIC, "y": NUMERIC}
    terms = {"name": "s", "task": "linear", "label": "y", "epsilon": 1.0, "alignment": "none", **changes}
    return {"study": terms, "party": {"a": {"columns": columns}}}


@pytest.mark.parametrize("key", ["delta", "epsilon"])
def test_a_study_with_a_number_beyond_floats(key: str) -> None:
    study_from(study(), Path())
    with pytest.raises(ColonnadeError, match=key):
        study_from(study(**{key: BIG}), Path())


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "9" * 5000])
def test_a_study_nested_too_deeply_or_with_a_number_too_long(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(StudyError, match="is not valid TOML"):
        read_study(tmp_path / "s.toml")


def altered_release(change: Any) -> bytes:
    content = json.loads(_release())
    del content["digest"]
    change(content)
    return write_sealed(content)


def first_block(**changes: Any) -> Any:
    return lambda content: content["blocks"][0].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        first_block(std=[[10**12, 1.0]]),
        first_block(std=[[-1, 1.0]]),
        first_block(values=[BIG]),
        first_block(factors=[[0, 10**6]]),
        first_block(unit=0),
        first_block(summed="no"),
        lambda content: content.update(n="many"),
        lambda content: content.update(n=BIG),
        lambda content: content.update(plan=[]),
        lambda content: content["attributes"][0].update(coordinates=[]),
        lambda content: content["attributes"][0].update(drop=99),
        lambda content: [a.update(role="feature") for a in content["attributes"]],
    ],
)
def test_a_release_with_wrong_content_under_a_right_digest(change: Any) -> None:
    """The digest finds accidents; whoever makes the file can make the digest."""
    read_release(altered_release(lambda content: None)).moments()
    with pytest.raises(ReleaseError, match="the release file cannot be read"):
        read_release(altered_release(change))


def test_a_booking_of_other_types() -> None:
    data = {"name": "d", "digest": ["e"]}
    content = {"session": "a", "party": "p", "study": "s", "plan": "q", "data": data, "charge": {}, "record_epsilon": 1}
    charge = {"epsilon": 1.0, "delta": 0.0, "rho": None}
    whole = content | {"data": data | {"digest": "e"}, "charge": charge}
    for altered, told in (
        (content, "cannot be read: Expected `str`, got `array`"),
        (content | {"data": data | {"digest": "e"}}, "cannot be read: Object missing required field `epsilon`"),
        (whole | {"bits_told": -1}, "`int` >= 0"),
        (whole | {"bits_told": True}, "Expected `int`, got `bool`"),
        (whole | {"charge": charge | {"theta": 1.0}}, "must say what is known here, and says more"),
    ):
        with pytest.raises(LedgerError, match=told):
            read_back(altered, Booking)
    assert read_back({**whole, "kind": "booked", "time": "now"}, Booking).to() == whole


# --- headers that claim more than there is


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


CLAIMS = {
    "array": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "text": b"\xdb\xff\xff\xff\xff",
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_message_that_claims_four_gigabytes(claim: bytes) -> None:
    before = peak()
    with pytest.raises(MessageError):
        Envelope.decode(b"CLN1" + claim)
    body = b"\x83\xa7columns\x80\xa4rows\x01\xa8mask_key" + claim
    with pytest.raises(MessageError):
        body_of(Envelope(bytes(32), "", "a", "", Step.JOIN, body), Join)
    assert peak() - before < 64 << 20


def varint(value: int) -> bytes:
    """A signed integer as Thrift's compact protocol writes it."""
    value, out = 2 * value, b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_a_parquet_footer_that_claims_a_trillion_rows(tmp_path: Path) -> None:
    """Each count in the footer in turn: the table is as it was or it is refused, and memory stays small."""
    rows, groups = 600, 3
    file, path = io.BytesIO(), tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": [float(i % 10) for i in range(rows)]})
    frame.write_parquet(file, row_group_size=rows // groups, statistics=False)
    data = file.getvalue()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer, before = data[-8 - size : -8], peak()
    refused = 0
    for count in (rows, rows // groups):
        here = varint(count)
        for place in (i for i in range(size) if footer.startswith(here, i)):
            for claim in (count + 1, 10**12):
                forged = footer[:place] + varint(claim) + footer[place + len(here) :]
                path.write_bytes(data[: -8 - size] + forged + struct.pack("<I", len(forged)) + b"PAR1")
                try:
                    assert read_table("a", path, {"x": Numeric(0, 10)}).rows == rows
                except DataError:
                    refused += 1
    assert refused >= 2 * (1 + groups)
    assert peak() - before < 512 << 20


def test_a_damaged_csv_file_does_not_quote_its_cells(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n" + '"5551234\n')
    with pytest.raises(DataError) as refused:
        read_table("a", tmp_path / "t.csv", {"x": Numeric(0, 10)})
    assert "5551234" not in str(refused.value)


@pytest.mark.parametrize("changes", [{"coefficients": [BIG]}, {"r_squared_interval": [0, BIG]}])
def test_a_model_with_a_number_beyond_floats(changes: dict[str, Any]) -> None:
    content = json.loads(_model())
    content.pop("digest")
    read_model(write_sealed(content))
    content["model"] = {**content["model"], **changes}
    with pytest.raises(ReleaseError, match="the model file cannot be read"):
        read_model(write_sealed(content))
