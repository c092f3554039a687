"""Numbers in the model of a release that has their bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade import Party, Study
from colonnade.foundation.columns import Numeric, column_from, column_to
from colonnade.foundation.errors import SchemaError, StudyError
from colonnade.foundation.kinds import Date
from colonnade.model import read_model, write_model

N = 6000
CUTS = [1, 10, 20, 50, 100, 200, 500]


def frame_of(seed: int = 0) -> pl.DataFrame:
    """Money of many magnitudes, in which log-odds are linear; an age; a colour."""
    rng = np.random.default_rng(seed)
    money = np.minimum(np.floor(rng.lognormal(3.0, 1.5, N) * (rng.random(N) < 0.7)), 1000.0)
    age = rng.integers(20, 80, N).astype(float)
    colour = rng.choice(["red", "blue"], N)
    score = -1.5 + 0.01 * money + 0.02 * (age - 50) + 0.8 * (colour == "blue")
    yes = rng.random(N) < 1 / (1 + np.exp(-score))
    spent = np.clip(200 + 0.3 * money + 20 * rng.standard_normal(N), 0, 600)
    return pl.DataFrame(
        {"money": money, "age": age, "colour": colour, "bought": np.where(yes, "yes", "no"), "spent": spent}
    )


def study_of(label: str, frame: pl.DataFrame, **money: Any) -> Study:
    kinds: dict[str, dict[str, Any]] = {
        "bought": {"kind": "binary", "levels": ["no", "yes"]},
        "spent": {"kind": "numeric", "low": 0, "high": 600},
    }
    shop = {"money": {"kind": "numeric", "low": 0, "high": 1000, **money}, label: kinds[label]}
    bank = {"age": {"kind": "numeric", "low": 20, "high": 80}, "colour": {"kind": "binary", "levels": ["red", "blue"]}}
    parties = {
        "shop": Party(frame.select(list(shop)), columns=shop),
        "bank": Party(frame.select(list(bank)), columns=bank),
    }
    return Study(label, parties, epsilon=20.0, product="plain", collusion=0)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_number_released_by_its_bins_has_one_weight_in_the_model() -> None:
    frame = frame_of()
    release = study_of("bought", frame, bins=CUTS, model="number").fit(seed=1)
    assert "money<1" in release.released.layout.names
    model = release.solve()
    assert "money" in model.features and not any("<money" in name for name in model.features)
    # 0.01 a dollar is 5 over half of the range; bins and noise shrink it.
    assert model.coef["money"] == pytest.approx(0.01, rel=0.35)
    scored = model.predict_proba(frame)[:, 1]
    poor, rich = frame["money"].to_numpy() == 0, frame["money"].to_numpy() > 400
    assert scored[rich].mean() > 0.9 > 0.4 > scored[poor].mean()
    # Two sums within the last bin are two numbers to the model.
    pair = frame.head(2).with_columns(pl.Series("money", [600.0, 900.0]), age=pl.lit(50.0), colour=pl.lit("red"))
    low, high = model.predict_proba(pair)[:, 1]
    assert high > low
    kept = read_model(write_model(model.public))
    assert kept.schema == model.public.schema and kept.model.features == model.features
    assert model.intervals is None and "money" in str(model.summary().frame)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_which_numbers_is_a_choice_after_the_release() -> None:
    release = study_of("bought", frame_of(), bins=CUTS).fit(seed=1)
    assert "money" not in release.solve().features
    assert "money" in release.solve(numbers=["money"]).features
    assert "money" in release.path(numbers="money")[0].features
    with pytest.raises(StudyError, match="column age has none"):
        release.solve(numbers=["age"])
    with pytest.raises(StudyError, match="must be a released column, got 'shoe'"):
        release.solve(numbers=["shoe"])
    with pytest.raises(StudyError, match="numbers in the place of bins go with"):
        release.solve("colour", penalty="lasso", numbers=["money"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_linear_model_takes_the_line_of_least_squares() -> None:
    model = study_of("spent", frame_of(), bins=CUTS, model="number").fit(seed=1).solve()
    assert model.coef["money"] == pytest.approx(0.3, rel=0.1)
    assert np.isnan(model.public.model.r_squared)


def test_what_a_binned_column_is_in_models_is_declared() -> None:
    declared = {"kind": "numeric", "low": 0, "high": 10, "bins": [5], "model": "number"}
    column = column_from("x", declared)
    assert column_to(column) == declared and column.in_model == column.uncut == Numeric(0, 10)
    assert Numeric(0, 10, (5,)).in_model.has_levels
    assert Date("2020-01-01", "2021-01-01", ("2020-06-01",)).uncut == Date("2020-01-01", "2021-01-01")
    with pytest.raises(SchemaError, match='model must be "bins" or "number", got model='):
        column_from("x", declared | {"model": "line"})
