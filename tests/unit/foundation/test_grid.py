"""Fixed point: integers within the bound, exact sums, small rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.foundation.errors import StudyError
from colonnade.foundation.grid import LARGEST_BOUND, Grid


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, LARGEST_BOUND), st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_values_stay_within_the_bound(bound: int, values: list[float]) -> None:
    grid, real = Grid(bound), np.array(values)
    signed = grid.signed(real)
    assert np.abs(signed.astype(int)).max() <= bound
    assert np.abs(signed / bound - real).max() <= 0.5 / bound + 1e-12
    halves = grid.halves(real).astype(int)
    assert (halves >= 0).all() and (halves.sum(axis=1) == bound).all()
    assert np.abs((halves[:, 1] - halves[:, 0]) / bound - real).max() <= 1.0 / bound + 1e-12


def test_indicators_sum_to_the_bound() -> None:
    encoded = Grid(7).indicators(np.array([2, 0, 1], dtype=np.int32), 3)
    assert encoded.tolist() == [[0, 0, 7], [7, 0, 0], [0, 7, 0]]


@pytest.mark.parametrize("bound", [0, -1, LARGEST_BOUND + 1])
def test_bounds_are_checked(bound: int) -> None:
    with pytest.raises(StudyError, match=f"between 1 and {LARGEST_BOUND}, got bound={bound}"):
        Grid(bound)


def test_unit() -> None:
    assert Grid(15).unit == 225
