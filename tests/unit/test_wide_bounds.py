"""Bounds that are far too wide or too narrow are told: by the plan, the model, and the count of what is clipped."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.mechanism.forecast import mean_noise
from colonnade.planning.session_plan import SessionPlan
from colonnade.planning.warnings import LOUD_MEAN

N = 2000


def _study(high: float, x_high: float = 1.0, epsilon: float = 2.0) -> Any:
    """A label of mean 1 under the bounds 0 to `high`, and x from 0 to 1 under the bounds 0 to `x_high`."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.1, 1, N)
    a = cn.Party(
        pl.DataFrame({"x": x, "y": rng.poisson(1.0, N)}),
        columns={"x": cn.Numeric(0, x_high), "y": cn.Numeric(0, high)},
    )
    b = cn.Party(pl.DataFrame({"u": rng.uniform(0, 1, N)}), columns={"u": cn.Numeric(0, 1)})
    return cn.Study("y", {"a": a, "b": b}, epsilon=epsilon, product="plain")


def _said(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in found]


def test_a_plan_tells_how_far_noise_moves_the_labels_mean() -> None:
    session: SessionPlan = _study(10**6).plan(rows=N).session
    share = mean_noise(session.plan, N)
    release = _study(10**6).fit(seed=1, progress=False).released
    start = release.layout.span(release.layout.label).stop - 1
    assert share == pytest.approx(release.moments().std[0, start] / N), "the noise that the release has"
    assert "noise alone moves the mean of y by about" in session.label_noise_text
    assert "(its bounds are 0 to 1e+06)" in session.label_noise_text
    assert str(_study(10**6).plan(rows=N).to_dict()["label_mean_noise"]).startswith("noise alone moves the mean of y")


def test_it_is_a_warning_only_where_it_is_a_large_part_of_the_bounds() -> None:
    told = {rows: _study(8, epsilon=2.0).plan(rows=rows).session for rows in (100, 100_000)}
    assert (told[100].label_noise or 0) > LOUD_MEAN > (told[100_000].label_noise or 1)
    assert any("noise alone moves the mean of y" in w for w in told[100].warnings())
    assert not any("noise alone moves" in w for w in told[100_000].warnings())


def test_a_model_whose_label_is_lost_in_its_bounds_says_so() -> None:
    release = _study(10**6).fit(seed=1, progress=False)
    told = "the released mean of y cannot be told from one of its bounds, which are 0 to 1"
    assert any(note.startswith(told) for note in _said(release.solve))
    assert not _said(_study(8).fit(seed=1, progress=False).solve), "bounds that fit need no word"


def test_estimators_say_it_too() -> None:
    rng = np.random.default_rng(0)
    X, y = pl.DataFrame({"x": rng.uniform(0, 1, N), "u": rng.uniform(0, 1, N)}), rng.poisson(1.0, N)
    known: dict[str, Any] = {"schema": {"x": cn.Numeric(0, 1), "u": cn.Numeric(0, 1)}, "product": "plain"}
    known |= {"parties": {"a": ["x"], "b": ["u"]}, "random_state": 1}
    wide = cn.VerticalPoissonRegressor(1.0, label=cn.Numeric(0, 10**6), **known)
    assert any("cannot be told from one of its bounds" in note for note in _said(lambda: wide.fit(X, y)))
    known["schema"]["x"] = cn.Numeric(-1, -0.5)
    clipped = cn.VerticalLinearRegression(5.0, label=cn.Numeric(0, 8), **known)
    told = "all 2,000 values of x of party a lie outside its bounds -1 to -0.5 and were clipped"
    assert f"{told}: the column is constant now" in _said(lambda: clipped.fit(X, y))
    assert clipped.clipped_["a"]["x"] == N and clipped.clipped_["b"]["u"] == 0


def test_a_study_warns_where_most_values_are_clipped() -> None:
    notes = _said(lambda: _study(8, 0.05).fit(seed=1, progress=False))
    told = (
        "all 2,000 values of x of party a lie outside its bounds 0 to 0.05 and were clipped: the column is constant now"
    )
    assert told in notes
    some = _said(lambda: _study(8, 0.4).fit(seed=1, progress=False))
    assert any(" of 2,000 values of x of party a lie outside" in note and "constant" not in note for note in some)
    assert not any("clipped" in note for note in _said(lambda: _study(8, 0.9).fit(seed=1, progress=False)))


def test_rows_that_are_needed_come_with_their_condition(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\ntask = "linear"\nlabel = "y"\nepsilon = 1\nalignment = "none"\nproduct = "plain"\n'
        '[party.a]\ndata = "a.csv"\n[party.a.columns]\nx = { kind = "numeric", low = 0, high = 1 }\n'
        'y = { kind = "numeric", low = 0, high = 1 }\n'
        '[party.b]\ndata = "b.csv"\n[party.b.columns]\nu = { kind = "numeric", low = 0, high = 1 }\n'
    )
    told = json.loads(CliRunner().invoke(app, ["plan", str(tmp_path / "study.toml"), "--rows", "5", "--json"]).stdout)
    (note,) = [w for w in told["warnings"] if "no better than the trivial one" in w]
    low, high = told["forecast"]["explained_range"]
    assert f"leaves {100 * low:.2g} to {100 * high:.2g}% of what the columns could explain at n=5" in note
    assert told["label_mean_noise"] in told["warnings"]
