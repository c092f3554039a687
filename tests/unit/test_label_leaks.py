"""A model of another label uses no column that is computed from it, and none that a condition makes constant."""

from __future__ import annotations

import json
import warnings
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.foundation.errors import StudyError


@cache
def _release() -> Any:
    """Columns x, y, c and w, with x2 = x^2, x3 = x^3 and the interaction of x and c, which decides y."""
    rng = np.random.default_rng(5)
    n = 4000
    x, c = rng.uniform(-1, 1, n), rng.integers(0, 2, n)
    y = rng.random(n) < 1 / (1 + np.exp(-4 * x * np.where(c == 1, 1, -1)))
    a = cn.Party(
        pl.DataFrame({"x": x, "y": y}),
        columns={"x": cn.Numeric(-1, 1), "y": cn.Boolean()},
        derived={"x2": "x^2", "x3": "x^3"},
    )
    levels = np.array(["u", "v"])[c]
    b = cn.Party(
        pl.DataFrame({"c": levels, "w": rng.uniform(-1, 1, n)}),
        columns={"c": cn.Binary(("u", "v")), "w": cn.Numeric(-1, 1)},
    )
    study = cn.Study("y", {"a": a, "b": b}, epsilon=20, product="plain", interactions=[["x", "c"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return study.fit(seed=1, progress=False)


@pytest.mark.parametrize(
    ("label", "task", "used", "told"),
    [
        ("x", "linear", {"c=v", "w"}, "x2 (computed from x), x3 (computed from x), x:c=v (a product with x)"),
        ("x2", "linear", {"c=v", "w"}, "x (x2 is computed from it), x3 (computed from x), x:c=v (a product with x)"),
        ("c", None, {"x", "x2", "x3", "w"}, "x:c=v (a product with c)"),
        ("c=v", None, {"x", "x2", "x3", "w"}, "x:c=v (a product with c)"),
    ],
)
def test_what_is_computed_from_the_label_is_no_feature(label: str, task: str | None, used: set[str], told: str) -> None:
    with pytest.warns(UserWarning, match="not used as features"):
        model = _release().solve(label, task=task)
    assert set(model.features) == used
    assert f"not used as features: {told}" in model.notes
    with pytest.warns(UserWarning, match="not used as features"):
        assert all(set(each.features) == used for each in _release().path(label, task=task))


def test_models_from_rows_leave_the_same_out() -> None:
    with pytest.warns(UserWarning, match="not used as features"):
        model = _release().solve("x", task="linear", penalty="lasso", given="y=true")
    assert set(model.features) == {"c=v", "w"}


def test_a_model_of_the_studys_own_label_leaves_nothing_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = _release().solve()
    assert set(model.features) == {"x", "x2", "x3", "c=v", "w", "x:c=v"} and not model.notes


@pytest.mark.parametrize("feature", ["x2", "a.x2", "x:c=v"])
def test_a_named_feature_that_tells_the_label_is_refused_in_one_sentence(feature: str) -> None:
    with pytest.raises(StudyError, match=f"must not tell the label by how it is computed, got {feature}, "):
        _release().solve("x", task="linear", features=["w", feature])


def test_the_command_line_says_it_too(tmp_path: Path) -> None:
    _release().save(tmp_path / "r.json")
    call = partial(CliRunner().invoke, app)
    asked = ["solve", str(tmp_path / "r.json"), "--label", "x", "--task", "linear"]
    assert "not used as features: x2 (computed from x)" in " ".join(call(asked).output.split())
    notes = json.loads(call([*asked, "--json"]).stdout)["notes"]
    assert any(note.startswith("not used as features: x2 (computed") for note in notes)
    assert "must not tell the label" in str(call([*asked, "--features", "w,x2"]).exception)


@pytest.mark.parametrize(("level", "sign"), [("u", -1.0), ("v", 1.0)])
def test_a_condition_leaves_no_feature_that_is_constant_under_it(level: str, sign: float) -> None:
    with pytest.warns(UserWarning, match=r"x:c=v is .*: left out of the model"):
        model = _release().solve(given=f"c={level}")
    assert set(model.features) == {"x", "x2", "x3", "w"}
    x = np.linspace(-0.9, 0.9, 7)
    data = pl.DataFrame({"x": x, "x2": x**2, "x3": x**3, "w": np.zeros(7)})
    slope = np.polyfit(x, np.log(model.predict_proba(data)[:, 1] / model.predict_proba(data)[:, 0]), 1)[0]
    assert 1.0 < sign * slope < 8.0, "the product's weight went to x where it is x, and nowhere where it is 0"


@pytest.mark.parametrize("level", ["k", "l", "m"])
def test_an_interaction_of_levels_is_known_under_a_condition(level: str) -> None:
    """Of y, yes or no by d and a column of three levels, each of which turns d's part around or takes it away."""
    rng = np.random.default_rng(6)
    n = 6000
    c, d = rng.choice(["k", "l", "m"], n), rng.choice(["no", "yes"], n)
    part = np.select([c == "k", c == "l"], [1.5, -1.5], 0.0)
    y = rng.random(n) < 1 / (1 + np.exp(-part * np.where(d == "yes", 1, -1)))
    a = cn.Party(pl.DataFrame({"y": y, "d": d}), columns={"y": cn.Boolean(), "d": cn.Binary(("no", "yes"))})
    b = cn.Party(pl.DataFrame({"c": c}), columns={"c": cn.Categorical(("k", "l", "m"))})
    study = cn.Study("y", {"a": a, "b": b}, epsilon=1e4, product="plain", release="full", interactions=[["d", "c"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = study.fit(seed=1, progress=False).solve(given=f"c={level}")
    held = c == level
    rate = [y[held & (d == answer)].mean() for answer in ("no", "yes")]
    found = model.predict_proba(pl.DataFrame({"d": ["no", "yes"]}))[:, 1]
    assert found == pytest.approx(rate, abs=0.03)
