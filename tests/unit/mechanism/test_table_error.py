"""The forecast of tables: nearer with less noise, and no better than independence where noise drowns all."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.mechanism.table_error import MEAN_SIZE, forecast_distance

SIZES = np.array([2, 3, 8, 3])


def test_less_noise_brings_tables_nearer() -> None:
    found = [forecast_distance(SIZES, np.full((4, 4), std)) for std in (1e-9, 1e-3, 1e-2, 1e-1)]
    distances = [f.expected for f in found]
    assert distances == sorted(distances) and distances[0] < 1e-6
    assert len({f.independent for f in found}) == 1
    assert not found[0].worse and found[-1].worse


def test_small_noise_is_all_of_the_error() -> None:
    """Two columns: cells keep the noise that the margins leave free, and each margin what the table says of it."""
    std = 1e-7
    found = forecast_distance(np.array([2, 2]), np.full((2, 2), std)).expected
    share = np.array([2 / 3, 1 / 3])
    margins = 2 * std**2 * 0.5 * (share[None, :] ** 2 + share[:, None] ** 2)
    expected = 0.5 * MEAN_SIZE * np.sqrt(std**2 * 0.25 + margins).sum()
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_table_that_is_not_released_is_taken_as_independent() -> None:
    std = np.full((4, 4), 1e-7)
    whole = forecast_distance(SIZES, std)
    std[1, 2] = std[2, 1] = np.inf
    part = forecast_distance(SIZES, std)
    nothing = forecast_distance(SIZES, np.where(np.eye(4, dtype=bool), 0.0, np.inf))
    assert whole.expected < part.expected < part.independent < nothing.expected
