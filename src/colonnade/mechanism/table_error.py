"""How far released tables will be from the rows' own, predicted from public facts: numbers of levels, noise and n.

A cell of two columns departs from independence by d ~ N(0, r^2 v_a v_b), v = p (1 - p). Seen with noise s and shrunk,
it keeps an error of variance s^2 u / (s^2 + u), u = r^2 v_a v_b; the margins under it are known from all tables of a
column. The guesses below are the only constants; Adult, Dutch and NIST's ACS were in view when they were made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.mechanism.moments import Floats

CORRELATIONS = np.geomspace(0.001, 0.3, 13)
"""Guess of r: every order of magnitude is equally likely."""
NO_BETTER = 0.9
"""Rows whose expected distance is more than this share of independent columns' are not worth having."""
MEAN_SIZE = sqrt(2.0 / pi)
"""The mean size of a Gaussian of variance 1."""


@dataclass(frozen=True)
class TableForecast:
    """Expected total variation of a table of two columns from that of the rows, on average over all pairs."""

    expected: float
    independent: float
    """The same for independent columns with exact margins."""

    @property
    def worse(self) -> bool:
        """Whether tables, and rows that have them, are expected to be no better than those of independent columns."""
        return self.expected > NO_BETTER * self.independent


def forecast_distance(sizes: NDArray[np.int64], std: Floats, alone: Floats | None = None) -> TableForecast:
    """The forecast for columns with so many levels each and noise of std[i, j] in shares of the records.

    An infinite std says that a table is not released: its columns are taken as independent. `alone` is the std of
    margins that are released by themselves.
    """
    with np.errstate(divide="ignore"):
        precision = np.where(np.eye(len(sizes), dtype=bool), 0.0, 1.0 / (sizes[None, :] * std**2)).sum(axis=1)
        if alone is not None:
            precision = precision + 1.0 / alone**2
        margin = 1.0 / precision
    first, second = np.triu_indices(len(sizes), 1)
    # Many columns have few kinds of tables: each is computed once.
    told = np.column_stack([sizes[first], sizes[second], margin[first], margin[second], std[first, second]])
    _, place, counts = np.unique(np.round(np.log(told), 9), axis=0, return_index=True, return_counts=True)
    found = np.array([_distances(int(m), int(k), a, b, s) for m, k, a, b, s in told[place]])
    expected, independent = counts @ found / counts.sum()
    return TableForecast(float(expected), float(independent))


@lru_cache(maxsize=1024)
def _shares(size: int) -> Floats:
    """Guess of how common levels are: the k-th 1/k times as common as the first."""
    share = 1.0 / np.arange(1, size + 1)
    result: Floats = share / share.sum()
    return result


def _distances(rows: int, columns: int, first: float, second: float, std: float) -> tuple[float, float]:
    """Expected distance of one table and of an independent one; `first` and `second` are variances of margins."""
    down, across = _shares(rows), _shares(columns)
    spread_down, spread_across = down * (1.0 - down), across * (1.0 - across)
    free_down, free_across = 1.0 - 1.0 / rows, 1.0 - 1.0 / columns
    dependence = CORRELATIONS[:, None, None] ** 2 * np.outer(spread_down, spread_across)
    noise = std**2 * free_down * free_across
    left = dependence if np.isinf(noise) else noise * dependence / (noise + dependence)
    # A share is known to lie between 0 and 1.
    margins = np.outer(np.minimum(first * free_down, spread_down), across**2)
    margins += np.outer(down**2, np.minimum(second * free_across, spread_across))
    expected = np.sqrt(left + margins).sum(axis=(1, 2)).mean()
    independent = np.sqrt(dependence).sum(axis=(1, 2)).mean()
    return 0.5 * MEAN_SIZE * float(expected), 0.5 * MEAN_SIZE * float(independent)
