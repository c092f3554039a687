"""A level or an id column that is called as a column of a table is neither lost nor taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade import simulation
from colonnade.foundation.shown import figure
from colonnade.report.answers.coefficients import class_keys

ROWS = 400
NAMES = (["feature", "party", "base"], ["encoded", "estimate", "odds_ratio"], ["value", "class base", "base"])


def model_of(levels: list[str], person: str = "id") -> tuple[cn.Model, pl.DataFrame]:
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, ROWS)
    y = np.array(levels)[np.clip(np.round(x + 1 + draw.normal(size=ROWS) / 2), 0, 2).astype(int)]
    frame = pl.DataFrame({"x": x, "y": y, person: [f"p{k}" for k in range(ROWS)]})
    columns = {"x": cn.Numeric(-1, 1), "y": cn.Categorical(levels, drop=levels[0])}
    study = cn.Study("y", {"p": cn.Party(frame, columns)}, epsilon=500.0)
    return simulation.fit(study, 1, progress=False).solve(), frame


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("levels", NAMES, ids=" ".join)
def test_a_class_called_as_a_column_keeps_its_coefficients(levels: list[str]) -> None:
    pytest.importorskip("markupsafe")
    model, _ = model_of(levels)
    plain, _ = model_of(["a", "b", "c"])
    # Other names, the same numbers: in the table, the summary and the page.
    expected = [plain.coef[name]["x"] for name in "abc"]
    assert [model.coef[name]["x"] for name in levels] == expected
    table = model.params
    assert table.columns[:3] == ["feature", "party", "base"] and table.height == 1
    assert table.select(table.columns[3:]).rows() == [tuple(expected)]
    assert table["feature"].to_list() == ["x"] and table["party"].to_list() == ["p"]
    page, told = model._repr_html_() or "", repr(model.summary())
    known = repr(plain.summary())
    for number in expected:
        assert f">{figure(number, sign='+')}</td>" in page
    assert page.count('data-value="x"') == 0
    line = next(line for line in known.splitlines() if line.startswith("x "))
    assert [line.split()[:5]] == [own.split()[:5] for own in told.splitlines() if own.startswith("x ")]


def test_keys_of_classes_are_apart() -> None:
    assert class_keys(["a", "b"]) == ["a", "b"]
    assert class_keys(["base", "class base", "party"]) == ["class class base", "class base", "class party"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("person", ["predicted", "probability b"])
def test_ids_called_as_scores_are_kept(person: str, tmp_path: Path) -> None:
    from colonnade.model import score_tables, scores_csv

    model, frame = model_of(["a", "b", "c"], person)
    scores: Any = model.scores({"p": frame}, id=person)
    assert scores[f"{person}_"].to_list() == frame[person].to_list() and scores.width == 5
    table = (
        cn.Party(frame, {"x": cn.Numeric(-1, 1)}, id=person)
        ._source("p", model_source(person))
        .read("p", {"x": cn.Numeric(-1, 1)})
    )
    text = scores_csv(model.public, score_tables(model.public, {"p": table}, True, person), person)
    assert text.splitlines()[0].split(",") == scores.columns and text.count("p399,") == 1


def model_source(person: str) -> Any:
    from colonnade.data.sources import Source

    return Source(None, person)
