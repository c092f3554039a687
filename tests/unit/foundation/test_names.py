"""Names that could show people something else than they say are refused at every door, and so are endless schemas."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colonnade.foundation.errors import ColonnadeError, PolicyError, ReleaseError, SchemaError, StudyError
from colonnade.foundation.names import LONGEST_NAME, is_visible, require_name
from colonnade.foundation.schema import LARGEST_NAMES, MOST_COORDINATES, MOST_PARTIES, Binary, Categorical, Schema
from colonnade.foundation.sections import DEEPEST, parse_toml
from colonnade.foundation.shown import LARGEST_SHOWN, shown
from colonnade.mechanism.release import read_release, write_sealed
from colonnade.model import read_model
from colonnade.sites.site import read_site
from colonnade.studio.workspace import Workspace
from colonnade.study import study_from

GOLDENS = Path(__file__).resolve().parents[2] / "goldens"
NUMBER = {"kind": "numeric", "low": 0, "high": 1}
BAD = {
    "terminal code": "pay\x1b[8m",
    "newline": "pay\nepsilon = 0.1",
    "carriage return": "pay\rok",
    "delete": "pay\x7f",
    "c1 control": "pay\x9b8m",
    "right-to-left override": "pay\u202eyap",
    "isolate": "pay\u2066",
    "zero width": "pa\u200by",
    "byte order mark": "\ufeffpay",
    "tag": "pay\U000e0041",
    "line separator": "pay\u2028",
    "no-break space": "pay\xa0",
    "filler": "pay\u3164",
    "variation selector": "pay\ufe0f",
    "unassigned": "pay\u0378",
    "lone surrogate": "pay\ud800",
    "overlong": "p" * (LONGEST_NAME + 1),
}
GOOD = ("pay", " >50K", "Zürich", "año", "收入", "доход", "الدخل", "a=b, c < d & \"e\" 'f'", "🙂", "p" * LONGEST_NAME)


def content(name: str = "pay", party: str = "bank", column: str = "x", level: str = "no") -> dict[str, Any]:
    return {
        "study": {"name": name, "task": "logistic", "label": "y", "epsilon": 1.0, "alignment": "none"},
        "party": {
            party: {"columns": {column: NUMBER}},
            "works": {"columns": {"y": {"kind": "binary", "levels": [level, "yes"]}}},
        },
    }


DOORS: dict[str, Callable[[str], object]] = {
    "study": lambda bad: study_from(content(name=bad), Path()),
    "party": lambda bad: study_from(content(party=bad), Path()),
    "column": lambda bad: study_from(content(column=bad), Path()),
    "level": lambda bad: study_from(content(level=bad), Path()),
    "party of a schema": lambda bad: Schema.of({bad: {"x": NUMBER}}),
    "column of a schema": lambda bad: Schema.of({"a": {bad: NUMBER}}),
    "level of a schema": lambda bad: Schema({"a": {"x": Categorical(("b", bad))}}),
    "label's level": lambda bad: Schema({"a": {"x": Binary((bad, "b"))}}),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", BAD)
def test_a_name_that_cannot_be_seen_is_refused_and_shown_escaped(door: str, kind: str) -> None:
    with pytest.raises((SchemaError, StudyError)) as refused:
        DOORS[door](BAD[kind])
    told = str(refused.value)
    assert "visible" in told and "characters" in told and is_visible(told), told
    assert len(told) < 300


@pytest.mark.parametrize("name", GOOD)
def test_names_of_people_who_write_otherwise_are_taken(name: str) -> None:
    assert require_name("a name", name) == name
    if "." not in name:
        study_from(content(name, f"{name[:-1]}1", f"{name[:-1]}2", name), Path())


def test_the_studio_refuses_such_a_name_in_one_sentence(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    for door in ("name", "party", "column", "level"):
        space.content = content(**{door: BAD["right-to-left override"]})
        with pytest.raises(ColonnadeError, match=r"visible, got 'pay\\u202eyap'"):
            space.study()


def test_a_site_file_states_visible_texts(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\ntask = "linear"\nlabel = "y"\nepsilon = 1.0\n'
        '[party.a]\nid = "i"\n[party.a.columns]\nx = { kind = "numeric", low = 0, high = 1 }\n'
        '[party.b]\nid = "i"\n[party.b.columns]\ny = { kind = "numeric", low = 0, high = 1 }\n'
    )
    (tmp_path / "d.csv").write_text("i,x\n1,0\n")
    (tmp_path / "site.toml").write_text(
        '[site]\nrole = "party"\nparty = "a"\ndata = "d.csv"\ndataset = "people\\u202e"\n'
    )
    with pytest.raises(StudyError, match=r"dataset must be a text .* visible"):
        read_site(tmp_path).source.data_set("a")
    (tmp_path / "site.toml").write_text('[site]\nrole = "party"\nparty = "a\\u001b[8m"\n')
    with pytest.raises(StudyError, match="visible"):
        read_site(tmp_path)


@pytest.mark.parametrize("where", ["study", "attribute", "level"])
def test_a_release_file_with_such_a_name_is_refused(where: str) -> None:
    release = json.loads((GOLDENS / "release.json").read_bytes())
    release.pop("digest")
    if where == "study":
        release["plan"]["study"] = BAD["terminal code"]
    elif where == "attribute":
        release["attributes"][0]["name"] = BAD["right-to-left override"]
    else:
        release["attributes"][0]["coordinates"][0] = BAD["newline"]
    with pytest.raises(ReleaseError, match="a text of a release must be"):
        read_release(write_sealed(release))


@pytest.mark.parametrize("where", ["study", "column"])
def test_a_model_file_with_such_a_name_is_refused(where: str) -> None:
    model = json.loads((GOLDENS / "model.json").read_bytes())
    model.pop("digest")
    if where == "study":
        model["study"] = BAD["terminal code"]
    else:
        columns = next(iter(model["schema"].values()))
        columns[BAD["newline"]] = columns.pop(next(iter(columns)))
    with pytest.raises(ReleaseError, match="a text of a model must be"):
        read_model(write_sealed(model))


def test_estimators_refuse_a_frame_with_such_a_column() -> None:
    import polars as pl

    from colonnade.estimators import VerticalLinearRegression

    bad = BAD["terminal code"]
    frame = pl.DataFrame({bad: [0.0, 1.0] * 20})
    with pytest.raises(SchemaError, match="visible"):
        VerticalLinearRegression(epsilon=1.0, schema={bad: NUMBER}).fit(frame, [0.0, 1.0] * 20)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({f"p{i}": {f"c{i}": NUMBER} for i in range(MOST_PARTIES + 1)}, f"at most {MOST_PARTIES} parties"),
        ({"p": {f"c{i}": NUMBER for i in range(MOST_COORDINATES + 1)}}, f"at most {MOST_COORDINATES} columns"),
        (
            {"p": {"c": {"kind": "categorical", "levels": [str(i) for i in range(MOST_COORDINATES + 1)]}}},
            f"at most {MOST_COORDINATES} columns",
        ),
        (
            {"p": {"c": {**NUMBER, "bins": [(i + 1) / (MOST_COORDINATES + 2) for i in range(MOST_COORDINATES + 1)]}}},
            f"at most {MOST_COORDINATES} columns",
        ),
        (
            {"p": {"c": {"kind": "categorical", "levels": [f"{i:0200}" for i in range(LARGEST_NAMES // 200 + 2)]}}},
            f"at most {LARGEST_NAMES} bytes",
        ),
    ],
    ids=["parties", "columns", "levels", "bins", "bytes"],
)
def test_a_schema_has_bounds(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=told) as refused:
        Schema.of(declared)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "{a=" * 5000 + "1" + "}" * 5000,
        ".".join("a" * 5000) + " = 1",
        "x = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "x = " + "9" * 5000,
        "x = 1 #" + "-" * 100_000,
        ".".join("a" * 60_000) + " = 1",
        "[" + " . ".join(['"\\""'] * 20_000) + "]",
        "x = '" + "a" * 100_000,
    ],
    ids=[
        *("lists", "tables", "dotted keys", "just too deep", "long number", "too large", "endless key"),
        *("quoted keys", "one word"),
    ],
)
def test_nested_and_huge_toml_is_told_in_one_sentence(text: str, tmp_path: Path) -> None:
    started = time.process_time()
    with pytest.raises(StudyError) as refused:
        parse_toml(text, "the study", 50_000 if "---" in text else 150_000, StudyError)
    assert len(str(refused.value)) < 200 and "\n" not in str(refused.value)
    assert time.process_time() - started < 1


def test_a_long_value_is_cut_before_it_is_written_out() -> None:
    deep = [["x" * 10_000_000] * 1000] * 1000
    tracemalloc.start()
    try:
        assert len(shown(deep)) == LARGEST_SHOWN + 3
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_the_rule_names_the_thing_and_the_value() -> None:
    with pytest.raises(PolicyError) as refused:
        require_name("a partner's name", "a\x00b", PolicyError)
    assert str(refused.value) == (
        f"a partner's name must be a text of at most {LONGEST_NAME} characters, all of them visible, got 'a\\x00b'"
    )
    with pytest.raises(SchemaError, match="got 201 characters"):
        require_name("a level", "x" * 201)
    with pytest.raises(SchemaError, match="got 7"):
        require_name("a level", 7)
