"""Fixed point: integers within the bound, exact sums, small rounding."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.grid import LARGEST_BOUND, Grid, rounded_norm


@pytest.mark.parametrize(("norm", "features", "bound"), [(1.0, 1, 7), (0.3, 5, 63), (5.0, 400, 31), (11.5, 400, 7)])
def test_rounded_records_keep_the_rounded_norm(norm: float, features: int, bound: int) -> None:
    draw = np.random.default_rng(3)
    values = draw.standard_normal((20_000, features)) * draw.uniform(0.1, 1, features)
    values *= norm / np.linalg.norm(values, axis=1, keepdims=True)
    rounded = np.floor(values * bound + draw.uniform(size=values.shape)) / bound
    lengths = np.linalg.norm(rounded, axis=1)
    assert lengths.max() <= rounded_norm(norm, features, bound)
    # It is no waste: the mean is near it, in steps of the grid.
    assert rounded_norm(norm, features, bound) - lengths.mean() < 4 / bound + features / (4 * norm * bound**2)


def test_rounded_norm() -> None:
    """norm + (6 norm B + m/4 + 1.5 sqrt(m)) / (2 norm B^2), by hand for norm 2, 16 features and B = 10."""
    assert rounded_norm(2.0, 16, 10) == pytest.approx(2 + (120 + 4 + 6) / 400, rel=1e-12)


@pytest.mark.parametrize("bound", [0, -1, LARGEST_BOUND + 1])
def test_bounds_are_checked(bound: int) -> None:
    with pytest.raises(StudyError, match=f"between 1 and {LARGEST_BOUND}, got bound={bound}"):
        Grid(bound)


def test_unit() -> None:
    assert Grid(15).unit == 225
