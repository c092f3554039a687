"""Drawn rows: numbers keep their spread, derived columns follow their sources, and poor rows are refused or told."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.bins import is_whole, says_whole, within_bins
from colonnade.analysis.released import Released
from colonnade.analysis.synthesis import (
    FittedRelease,
    Synthetic,
    draw_rows,
    expected_distance,
    fit_release,
    synthesize,
)
from colonnade.analysis.tables import Tables
from colonnade.data.table import table_from
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Boolean, Column, Date, Derived, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded

N = 4000
SCHEMA: dict[str, dict[str, Column]] = {
    "a": {
        "share": Numeric(0, 1),
        "z": Numeric(-4, 4, (-1, 0, 1)),
        "age": Numeric(0, 60, (20, 40)),
        "square": Derived(0.0, 16.0, (1.0, 4.0), None, "z^2"),
        "y": Boolean(),
    },
    "b": {"c": Binary(("u", "v"))},
}


@cache
def tables_at(epsilon: float) -> Tables:
    rng = np.random.default_rng(1)
    y = rng.random(N) < 0.5
    z = np.clip(rng.normal(0.3, 1.0, N), -4, 4)
    data = {
        "a": {"share": rng.normal(0.2, 0.05, N), "z": z, "age": rng.integers(0, 61, N), "y": y},
        "b": {"c": np.where(rng.random(N) < 0.2 + 0.6 * y, "v", "u")},
    }
    tables = {p: table_from(p, pl.DataFrame(columns), SCHEMA[p]) for p, columns in data.items()}
    agreement = Agreement.from_terms("rows", Schema(SCHEMA), "a.y", Task.LOGISTIC, epsilon, product="plain")
    found = Released(run_unguarded(agreement, tables, "none", Randomness(seed=b"rows")).release)
    return Tables.of(found)


@cache
def fitted() -> FittedRelease:
    return fit_release(tables_at(50.0))


def drawn(rows: int) -> Synthetic:
    return synthesize(fitted(), rows)


def told(rows: Synthetic, word: str) -> list[str]:
    return [note for note in rows.notes() if word in note]


def test_numbers_are_rounded_only_where_that_moves_little() -> None:
    assert is_whole(Numeric(0, 60, (20, 40))) and is_whole(Date("2020-01-01", "2020-02-01"))
    for continuous in (Numeric(0, 1), Numeric(0, 100), Numeric(-4, 4, (-1, 0, 1)), Numeric(0, 3, (1, 2))):
        assert not is_whole(continuous)
    codes = np.repeat([0, 1, 2], 500)
    numbers = within_bins(Numeric(0, 3, (1, 2)), np.full(3, 1 / 3), codes, np.tile((np.arange(500) + 0.5) / 500, 3))
    assert numbers.mean() == pytest.approx(1.5) and numbers.std() == pytest.approx(np.sqrt(0.75), abs=1e-3)


def test_a_share_keeps_its_mean_and_spread() -> None:
    rows = drawn(4000)
    share, z = np.asarray(rows.values["share"]), np.asarray(rows.values["z"])
    assert abs(share.mean() - 0.2) < 0.01 and 0.03 < share.std() < 0.08
    assert abs(z.mean() - 0.3) < 0.2 and len(np.unique(z)) > 1000
    age = np.asarray(rows.values["age"])
    assert np.array_equal(age, np.rint(age)) and told(rows, "whole numbers") == [
        note for note in rows.notes() if note.startswith("age: drawn as whole numbers")
    ]
    assert rows.whole == ("age",) and rows.unbinned == ("share",)


def test_derived_columns_follow_from_their_sources() -> None:
    rows = drawn(500)
    assert np.allclose(np.asarray(rows.values["square"]), np.asarray(rows.values["z"]) ** 2)
    assert rows.derived == ("square",) and told(rows, "square: computed in each row")
    released = fitted().released
    given = synthesize(fitted(), 200, released.conditions(["square=9"]))
    assert "square" not in given.values and told(given, "square: left out")


def test_few_rows_and_much_noise_are_told_apart() -> None:
    few, many = drawn(10), drawn(4000)
    assert told(few, "10 rows are too few") and not told(few, "noise is too large")
    assert not told(many, "too few") and not told(many, "WORSE")
    expected, independent = expected_distance(tables_at(1e-5), 3)
    assert max(expected, independent) <= 1.0
    noisy = replace(few, expected=expected, independent=independent, at_best=expected_distance(tables_at(1e-5))[0])
    assert told(noisy, "the noise is too large") and told(noisy, "no better than 1 (") and not told(noisy, "too few")


def test_poor_rows_are_refused_before_the_model_is_fitted() -> None:
    def never() -> FittedRelease:
        raise AssertionError

    with pytest.raises(ReleaseError, match=r"no better than independent columns: .* expected to be no better than 1 "):
        draw_rows(tables_at(1e-5), never, 20)
    assert draw_rows(tables_at(1e-5), fitted, 20, anyway=True).rows == 20
    assert draw_rows(tables_at(50.0), fitted, 20).rows == 20


def test_declared_integers_are_drawn_whole_whatever_their_bins() -> None:
    even = np.tile((np.arange(500) + 0.5) / 500, 3)
    for column in (Numeric(0, 2, (0.5, 1.5), integer=True), Numeric(0, 2, (1, 2 - 1e-9), integer=True)):
        assert is_whole(column)
        codes = np.repeat(np.arange(3), 500)
        assert within_bins(column, np.full(3, 1 / 3), codes, even).tolist() == codes.tolist()
    wide = Numeric(0, 5, (3,), integer=True)
    drawn = within_bins(wide, np.array([0.5, 0.5]), np.repeat([0, 1], 500), even[:1000])
    assert set(drawn[:500]) == {0.0, 1.0, 2.0} and set(drawn[500:]) == {3.0, 4.0, 5.0}
    assert is_whole(Numeric(0, 5, integer=True)) and not is_whole(Numeric(0, 5))
    # Who declared it needs no warning that it was guessed.
    assert says_whole(wide) and not says_whole(Numeric(0, 60, (20, 40)))
