"""Derived columns: a small language of expressions, bounds that follow, and the whole way from a study to a score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.solve import solve
from colonnade.foundation.errors import SchemaError, StudyError
from colonnade.foundation.expressions import expression_bounds, parse_expression
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Numeric, Schema, column_from, column_to, derive_columns
from colonnade.mechanism.objective import Task
from colonnade.model import publish, score_files
from colonnade.planning.agreement import Agreement
from colonnade.planning.variants import compare, read_choices
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study

OF = {"x": (-2.0, 3.0), "y": (1.0, 4.0), "hours-per-week": (0.0, 10.0)}


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("x^2", (0.0, 9.0)),
        ("x^3", (-8.0, 27.0)),
        ("x*y", (-8.0, 12.0)),
        ("-x + 2*y - 1", (-2.0, 9.0)),
        ("(y-2)^2", (0.0, 4.0)),
        ("log1p(y)", (np.log(2.0), np.log(5.0))),
        ("sqrt('hours-per-week')", (0.0, np.sqrt(10.0))),
        ("hinge(x, 1)", (0.0, 2.0)),
    ],
)
def test_bounds_follow_and_hold(text: str, bounds: tuple[float, float]) -> None:
    expression = parse_expression(text)
    assert expression_bounds(expression, OF) == pytest.approx(bounds)
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(*ends, 1000) for name, ends in OF.items()}
    found = expression.compute(values)
    assert bounds[0] - 1e-9 <= found.min() and found.max() <= bounds[1] + 1e-9


@pytest.mark.parametrize(
    "text",
    [
        *("x +", "x^0", "x^99", "exp(x)", "x y", "__import__('os')", "(" * 40 + "x" + ")" * 40, "x; y", "x**2", ""),
        *("1/x", "1e999*x", "x^1e999"),
    ],
)
def test_what_is_no_expression_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_expression(text)


def test_domains_and_names_are_checked() -> None:
    columns = {"x": Numeric(-2.0, 3.0), "c": column_from("c", {"kind": "binary", "levels": ["a", "b"]})}
    for declared, told in (
        ({"l": "log1p(x)"}, "log1p needs"),
        ({"l": "z^2"}, "is none"),
        ({"l": "c*x"}, "binary"),
        ({"x": "x^2"}, "name of a declared column"),
        ({"l": {"of": "x", "bins": [0], "knots": [1]}}, "both"),
        ({"l": "x - x + 1e400"}, "finite"),
        ({"c": {"of": "x", "knots": [1]}}, "name of a declared column"),
        ({"l": {"of": "x", "knots": [1, 1]}}, "makes the column l>1, and there is another"),
        ({"l": {"of": "x", "knots": [1]}, "l>1": "x^2"}, "l>1"),
    ):
        with pytest.raises(SchemaError, match=told):
            derive_columns(declared, columns, "[party.a.derived]")


def test_no_column_takes_the_place_of_another() -> None:
    """Before 0.2.0 a spline's column replaced a declared one of its name, and knots alike in six digits were one."""
    columns: dict[str, Column] = {"x": Numeric(0.0, 1e7), "l>30": Numeric(0.0, 1.0)}
    with pytest.raises(SchemaError, match="makes the column l>30, and there is another of this name"):
        derive_columns({"l": {"of": "x", "knots": [30]}}, columns, "[party.a.derived]")
    found = derive_columns({"z": {"of": "x", "knots": [1234567, 1234568]}}, columns, "[party.a.derived]")
    assert list(found) == ["z>1234567", "z>1234568"]


def test_bounds_that_are_compared_take_derived_columns_along() -> None:
    x, square = {"kind": "numeric", "low": 0, "high": 2}, {"kind": "derived", "of": "x^2", "low": 0, "high": 4}
    schema = Schema.of({"a": {"x": x, "y": x, "s": square | {"bins": [0.5, 3]}}})
    agreement = Agreement.from_terms("s", schema, "y", Task.LINEAR, 1.0)
    for name in ("bounds", "bounds:x"):
        (found,) = compare(agreement, 1000, {name: [0.5]})
        assert found.refused is None and found.agreement is not None
        own = found.agreement.schema.parties["a"]["s"]
        assert (own.bounds, own.edges) == ((0, 1), (0, 0.5, 1))
    assert read_choices(["bins:a=b=0,5"]) == {"bins:a=b": [0, 5]}


def test_stated_bounds_must_be_the_derived_ones() -> None:
    x = {"kind": "numeric", "low": -1, "high": 1}
    good = {"kind": "derived", "of": "x^2", "low": 0.0, "high": 1.0}
    schema = Schema.of({"a": {"x": x, "x2": good}})
    assert column_to(schema.columns[schema.find("x2")]) == good
    with pytest.raises(SchemaError, match="bounds"):
        Schema.of({"a": {"x": x, "x2": good | {"high": 0.5}}})


def _study(folder: Path, derived: str) -> Path:
    rng = np.random.default_rng(3)
    x, u = rng.uniform(-1, 1, 2000), rng.uniform(-1, 1, 2000)
    pl.DataFrame({"x": x}).write_parquet(folder / "a.parquet")
    pl.DataFrame({"u": u, "y": np.clip(1.6 * (x**2 - 0.5), -1, 1)}).write_csv(folder / "b.csv")
    number = '{ kind = "numeric", low = -1, high = 1 }'
    (folder / "s.toml").write_text(
        '[study]\nname = "d"\ntask = "linear"\nlabel = "b.y"\nepsilon = 1e5\nalignment = "none"\n'
        f'[party.a]\ndata = "a.parquet"\n[party.a.columns]\nx = {number}\n[party.a.derived]\n{derived}\n'
        f'[party.b]\ndata = "b.csv"\n[party.b.columns]\nu = {number}\ny = {number}\n'
    )
    return folder / "s.toml"


def test_a_square_explains_what_the_column_cannot(tmp_path: Path) -> None:
    path = _study(tmp_path, 'square = "x^2"\nsteps = { of = "x", bins = [0] }\nbend = { of = "x", knots = [0.5] }')
    release = fit(read_study(path), RunOptions(randomness=Randomness(b"d" * 32))).release
    model = solve(release.moments(), Task.LINEAR, features=("x", "square", "u"))
    assert dict(zip(model.features, model.coefficients, strict=True))["square"] == pytest.approx(0.8, abs=0.01)
    public = publish(release, model)
    assert set(public.needs()["a"]) == {"x", "square"}
    scores = score_files(public, ["a=" + str(tmp_path / "a.parquet"), "b=" + str(tmp_path / "b.csv")])
    wanted = pl.read_csv(tmp_path / "b.csv").get_column("y").to_numpy()
    assert np.abs(scores.values - wanted).max() < 0.05 < np.abs(wanted).mean()


def test_no_feature_is_derived_from_the_label(tmp_path: Path) -> None:
    path = _study(tmp_path, "")
    path.write_text(path.read_text() + '[party.b.derived]\nbad = "y^2"\n')
    with pytest.raises(StudyError, match="derived from the label"):
        read_study(path)
