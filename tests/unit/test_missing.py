"""Missing values as a column declares them: what is released, what a model is, and how a prediction takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import colonnade as cn
from colonnade.data.sources import FrameSource, Source
from colonnade.foundation.columns import Column, column_from, column_to
from colonnade.foundation.errors import ColonnadeError, SchemaError, StudyError
from colonnade.foundation.schema import Binary, Boolean, Categorical, Date, Numeric, Schema, derive_columns
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.study import read_study
from tests.helpers.cli_study import runner

run = pytest.fixture(runner)
PEOPLE = 1500
NUMBER = {"kind": "numeric", "low": 0, "high": 10}
BINS = (3.0, 6.0)
WAYS: dict[str, dict[str, Any]] = {
    "level": {**NUMBER, "bins": list(BINS), "missing": "level"},
    "indicator": {**NUMBER, "missing": "indicator", "fill": 4},
    "fill": {**NUMBER, "missing": "fill", "fill": 4},
    "drop": {**NUMBER, "missing": "drop"},
}


def data() -> pl.DataFrame:
    """A number that is missing more often where the outcome is high, and a second column."""
    draw = np.random.default_rng(3)
    x, z = draw.uniform(0, 10, PEOPLE), draw.uniform(-1, 1, PEOPLE)
    gone = draw.random(PEOPLE) < 0.25
    y = 20 + 3 * x + 8 * z + 15 * gone + draw.normal(0, 3, PEOPLE)
    return pl.DataFrame({"id": np.arange(PEOPLE), "x": np.where(gone, np.nan, x), "z": z, "y": y}).with_columns(
        pl.col("x").fill_nan(None)
    )


def expected(frame: pl.DataFrame, way: str) -> dict[str, float]:
    """The same regression by statsmodels, on an encoding that is written out here."""
    x = frame["x"].to_numpy()
    gone = np.isnan(x)
    parts: dict[str, Any] = {"z": frame["z"].to_numpy()}
    if way == "level":
        parts |= {"3<=x<6": (x >= 3) & (x < 6), "x>=6": x >= 6, "x=missing": gone}
    else:
        parts["x"] = np.where(gone, 4.0, x)
    if way == "indicator":
        parts["x=missing=true"] = gone
    keep = ~gone if way == "drop" else np.ones(len(x), bool)
    design = np.column_stack([np.ones(keep.sum()), *(np.asarray(p, float)[keep] for p in parts.values())])
    found = sm.OLS(frame["y"].to_numpy()[keep], design).fit()
    return dict(zip(parts, found.params[1:], strict=True))


def study_of(frame: pl.DataFrame, way: str, epsilon: float = 1e7) -> cn.Study:
    a = cn.Party(frame.select("id", "y", "z"), {"y": cn.Numeric(-40, 120), "z": cn.Numeric(-1, 1)}, id="id")
    b = cn.Party(frame.select("id", "x"), {"x": WAYS[way]}, id="id")
    return cn.Study(label="a.y", task="linear", epsilon=epsilon, product="plain", parties={"a": a, "b": b}, name="m")


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_the_regression_of_the_same_encoding(way: str) -> None:
    frame = data()
    release = study_of(frame, way).fit()
    kept = frame["x"].drop_nulls().len() if way == "drop" else PEOPLE
    assert release.n == kept
    model, wanted = release.solve(ridge=0.0), expected(frame, way)
    assert model.coef == pytest.approx(wanted, rel=0.01, abs=0.05)
    told = " ".join(model.public.warnings)
    said = {"level": "level of their own", "drop": "partners learn", "fill": "for true", "indicator": "says where"}
    assert said[way] in told


@pytest.mark.parametrize("way", WAYS)
def test_a_prediction_takes_missing_values_as_the_study_did(way: str, tmp_path: Path) -> None:
    frame = data()
    release = study_of(frame, way).fit()
    model = release.solve(ridge=0.0)
    model.save(tmp_path / "m.json")
    model = cn.Model.read(tmp_path / "m.json")
    some = frame.sort(pl.col("x").is_null(), descending=True).select("id", "x", "z").head(400)
    wanted = expected(frame, way)
    parts = {"a": some.select("id", "z"), "b": some.select("id", "x")}
    scores = model.scores(parts, id={"a": "id", "b": "id"})
    x, z = some["x"].to_numpy(), some["z"].to_numpy()
    if way == "drop":
        some = some.drop_nulls()
        assert scores["id"].cast(pl.Int64).to_list() == some["id"].to_list()
        x, z = some["x"].to_numpy(), some["z"].to_numpy()
    gone = np.isnan(x)
    score = wanted["z"] * z
    if way == "level":
        score += wanted["3<=x<6"] * ((x >= 3) & (x < 6)) + wanted["x>=6"] * (x >= 6) + wanted["x=missing"] * gone
    else:
        score += wanted["x"] * np.where(gone, 4.0, x) + wanted.get("x=missing=true", 0.0) * gone
    found = scores["predicted"].to_numpy() - score
    # What is left is the intercept, the same for everybody.
    assert np.ptp(found) < 0.5


def test_levels_of_categories_and_truth_values() -> None:
    columns: dict[str, Column] = {
        "c": Categorical(("a", "b"), other=True, missing="level"),
        "b": Binary(("no", "yes"), missing="level"),
        "t": Boolean(missing="level"),
        "d": Date("2020-01-01", "2021-01-01", ("2020-06-01",), missing="level"),
    }
    frame = pl.DataFrame(
        {
            "c": ["a", "z", None, ""],
            "b": ["no", None, "yes", "yes"],
            "t": ["yes", None, "no", "1"],
            "d": ["2020-01-05", None, "2020-07-01", None],
        }
    )
    table = Source(FrameSource(frame)).read("p", columns)
    assert [list(column.coordinates(name))[-1] for name, column in columns.items()] == [f"{n}=missing" for n in "cbtd"]
    codes = {name: columns[name].codes(np.asarray(table.values[name])).tolist() for name in columns}
    assert codes == {"c": [0, 2, 3, 3], "b": [0, 2, 1, 1], "t": [1, 2, 0, 1], "d": [0, 2, 1, 2]}
    assert table.surprises() == []
    table.require_fit(strict=True)


def test_an_indicator_stands_behind_its_number_and_round_trips() -> None:
    schema = Schema.of({"p": {"x": WAYS["indicator"], "z": NUMBER}})
    assert list(schema.parties["p"]) == ["x", "x=missing", "z"]
    assert Schema.of(schema.to()) == schema
    only = Source(FrameSource(pl.DataFrame({"x": [1.0, None]}))).read("p", {"x": schema.parties["p"]["x"]})
    assert np.asarray(only.values["x"]).tolist() == [1.0, 4.0]


WRONG = [
    ({**NUMBER, "missing": "level"}, "bins"),
    ({**NUMBER, "missing": "indicator"}, "fill"),
    ({**NUMBER, "missing": "fill"}, "fill"),
    ({**NUMBER, "missing": "drop", "fill": 3}, "fill"),
    ({**NUMBER, "missing": "impute"}, "impute"),
    ({**NUMBER, "missing": "level", "bins": [5], "model": "number"}, "model"),
    ({"kind": "categorical", "levels": ["a", "missing"], "missing": "level"}, "distinct"),
    ({"kind": "categorical", "levels": ["a", "b"], "missing": "indicator"}, "level"),
    ({**NUMBER, "unit": 3}, "unit"),
    ({**NUMBER, "description": "a\nb"}, "description"),
]


@pytest.mark.parametrize(("declared", "named"), WRONG)
def test_what_cannot_be_meant_is_one_sentence(declared: dict[str, Any], named: str) -> None:
    with pytest.raises(SchemaError, match=named):
        column_from("x", declared)


def test_what_is_not_stated_changes_no_byte() -> None:
    for declared in (NUMBER, {**NUMBER, "fill": 3}, {"kind": "boolean"}):
        assert column_to(column_from("x", declared)) == declared


def test_the_label_and_expressions_need_a_value() -> None:
    for way in ("level", "indicator"):
        with pytest.raises(StudyError, match="missing"):
            Agreement.from_terms("m", Schema.of({"p": {"y": WAYS[way], "x": NUMBER}}), "y", Task.LINEAR, 1.0)
    columns = {"x": column_from("x", WAYS["level"])}
    with pytest.raises(SchemaError, match="missing"):
        derive_columns({"w": "x * 2"}, columns, "[derived]")
    with pytest.raises(SchemaError, match="x=missing"):
        Schema({"p": {"x": column_from("x", WAYS["indicator"]), "x=missing": Numeric(0, 1)}})


def test_drop_needs_ids_that_are_matched(tmp_path: Path) -> None:
    text = """[study]
name = "m"
task = "linear"
label = "a.y"
epsilon = 1
alignment = "none"
[party.a.columns]
y = { kind = "numeric", low = 0, high = 1 }
[party.b.columns]
x = { kind = "numeric", low = 0, high = 1, missing = "drop" }
"""
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ColonnadeError, match=r"s\.toml:10: .*matched"):
        read_study(tmp_path / "s.toml")


def test_synthetic_records_miss_what_the_release_says(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    n = 3000
    gone = draw.random(n) < 0.4
    x, y = np.where(gone, np.nan, draw.integers(0, 10, n)), np.where(gone, "b", "a")
    frame = pl.DataFrame({"id": np.arange(n), "x": x, "y": y})
    parties = {
        "a": cn.Party(frame.select("id", "y"), {"y": cn.Binary(("a", "b"))}, id="id"),
        "b": cn.Party(frame.select("id", "x"), {"x": WAYS["level"]}, id="id"),
    }
    release = cn.Study(label="a.y", task="logistic", epsilon=50.0, product="plain", parties=parties, name="s").fit()
    rows = release.synthesize(2000).frame
    share = rows["x"].cast(pl.Float64).fill_nan(None).is_null().to_numpy()
    assert share.mean() == pytest.approx(0.4, abs=0.05)
    assert (rows["y"].to_numpy()[share] == "b").mean() > 0.9
