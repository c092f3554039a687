"""Projection, proportional fitting, drawing by weight and halving, beside scipy and what each is defined by."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from colonnade.numerics.fitting import bisect, fit_margins, interaction, onto_simplex, rake, resample


@pytest.mark.parametrize("total", [1.0, 7.5])
def test_the_projection_is_the_nearest_point_of_the_simplex(total: float) -> None:
    rows = np.random.default_rng(1).normal(0.3, 2.0, (6, 5))
    found = onto_simplex(rows, total)
    for row, point in zip(rows, found, strict=True):
        nearest = minimize(
            lambda p, row=row: float(((p - row) ** 2).sum()),
            np.full(5, total / 5),
            jac=lambda p, row=row: 2 * (p - row),
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda p: p.sum() - total},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert point == pytest.approx(nearest.x, abs=1e-6)


def test_a_point_of_the_simplex_stays() -> None:
    assert onto_simplex(np.array([[0.25, 0.75, 0.0]]), 1.0) == pytest.approx(np.array([[0.25, 0.75, 0.0]]), abs=1e-15)
    assert onto_simplex(np.array([[3.0, -1.0, 0.5]]), 2.0) == pytest.approx(np.array([[2.0, 0.0, 0.0]]))


def test_fitted_tables_have_the_margins_and_the_same_odds_ratios() -> None:
    draw = np.random.default_rng(2)
    tables, down, across = draw.uniform(1, 5, (3, 2, 4)), np.array([30.0, 10.0]), np.array([4.0, 6.0, 10.0, 20.0])
    found = fit_margins(tables, down, across, 60)
    assert found.sum(axis=2) == pytest.approx(np.tile(down, (3, 1)))
    assert found.sum(axis=1) == pytest.approx(np.tile(across, (3, 1)))
    ratio = tables[:, 0, 1:] * tables[:, 1, :1] / (tables[:, 1, 1:] * tables[:, 0, :1])
    kept = found[:, 0, 1:] * found[:, 1, :1] / (found[:, 1, 1:] * found[:, 0, :1])
    assert kept == pytest.approx(ratio, rel=1e-6)


def test_a_fitted_table_has_nothing_where_nothing_is_possible() -> None:
    possible = np.array([[1.0, 1.0], [0.0, 1.0]])
    found = fit_margins(np.array([[-3.0, 2.0], [5.0, 4.0]]), np.array([6.0, 4.0]), np.array([3.0, 7.0]), 200, possible)
    assert found == pytest.approx(np.array([[3.0, 3.0], [0.0, 4.0]]), abs=1e-6)
    assert fit_margins(np.ones((2, 2)), np.array([0.0, 8.0]), np.array([3.0, 5.0]), 5)[0] == pytest.approx([0.0, 0.0])


def test_raked_records_have_the_table() -> None:
    draw = np.random.default_rng(3)
    cells, table = draw.integers(0, 6, 500), np.array([[5.0, 1.0, 2.0], [3.0, 4.0, 0.0]])
    weights = draw.uniform(0.5, 1.5, 500)
    found = rake(weights, cells, table)
    assert np.bincount(cells, found, 6) == pytest.approx(table.ravel())
    half = rake(weights, cells, table, 0.5)
    assert np.bincount(cells, half, 6) == pytest.approx(np.sqrt(table.ravel() * np.bincount(cells, weights, 6)))
    assert np.isfinite(rake(weights, np.zeros(500, np.int64), table)).all()


def test_drawn_indices_are_within_one_of_their_share() -> None:
    weights = np.random.default_rng(4).exponential(1.0, 40)
    for start in (0.0, 0.3, 1.0 - 1e-12):
        found = np.bincount(resample(weights, 1000, start), minlength=40)
        assert found.sum() == 1000
        assert np.abs(found - 1000 * weights / weights.sum()).max() <= 1.0 + 1e-9


def test_halving_finds_the_root() -> None:
    low, high = bisect(lambda x: x**3 - 2 * x < 5, 0.0, 10.0, 50)
    assert low <= brentq(lambda x: x**3 - 2 * x - 5, 0, 10) + 1e-12 and high - low == pytest.approx(0.0, abs=1e-13)
    assert bisect(lambda x: True, 0.0, 1.0, 3) == (0.875, 1.0)


def test_an_interaction_has_no_margins() -> None:
    """By hand: of a table of counts 1 2 | 3 8 the four cells lie 1 above or below what margins alone would give."""
    found = interaction(np.array([[1.0, 2.0], [3.0, 8.0]]))
    assert np.allclose(found, [[1.0, -1.0], [-1.0, 1.0]])
    assert np.allclose(interaction(np.stack([np.eye(3), np.ones((3, 3))]))[1], 0.0)
