"""Sobol' points are those of scipy.stats.qmc, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson
from scipy.stats.qmc import Sobol

from colonnade.analysis.draws import counts, seeded, uniform
from colonnade.analysis.sobol import DIMENSIONS, sobol_points


@pytest.mark.parametrize("columns", [1, 2, 13, DIMENSIONS, DIMENSIONS + 1])
@pytest.mark.parametrize("rows", [1, 5, 4096])
def test_points(rows: int, columns: int) -> None:
    expected = Sobol(columns, scramble=False).random_base2(int(np.ceil(np.log2(rows))))[:rows]
    assert np.array_equal(sobol_points(rows, columns), expected)


def test_counts_are_the_inverse_of_their_law() -> None:
    means = np.array([0.3, 7.5, 59.0])
    drawn, levels = counts(seeded(1, "counts"), means, 500), uniform(seeded(1, "counts"), 500, 3)
    assert np.array_equal(drawn, poisson.ppf(levels, means))
