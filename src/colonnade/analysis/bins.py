"""Numbers inside the bins that were released of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Floats

Levels = NDArray[np.int64]

PIECES = 64
NARROWEST = 5.0
"""Of the bins of a number that is drawn as a whole one."""


def says_whole(column: Column) -> bool:
    """Whether values are known to be whole: those of days and declared integers."""
    return column.dated or getattr(column, "integer", False)


def is_whole(column: Column) -> bool:
    """Whether drawn numbers are whole: known ones, and numbers whose bounds and cuts are whole and far apart.

    Where values of these are not whole, whole ones are at most half a unit off on average, a tenth of the narrowest
    bin. A number without bins that does not say so is never rounded: a share has whole bounds too.
    """
    if says_whole(column):
        return True
    edges = column.edges or ()
    return len(edges) > 2 and bool(np.all(np.diff(edges) >= NARROWEST)) and all(float(v).is_integer() for v in edges)


def within_bins(column: Column, shares: Floats, codes: Levels, draws: Floats) -> Floats:
    """A number inside each record's bin, by a density that rises or falls towards its neighbours; NaN in none."""
    edges = np.array(column.edges, dtype=np.float64)
    whole = is_whole(column)
    if whole:
        # The last bin holds its upper end, the others do not.
        edges = np.append(np.ceil(edges[:-1]), np.floor(edges[-1]) + 1.0)
    width = np.diff(edges)
    # A level of missing values stands after all bins.
    height, inside = shares[: len(width)] / width, codes < len(width)
    out = np.where(inside, 0.0, np.nan)
    for k in range(len(width)):
        at = codes == k
        out[at] = edges[k] + width[k] * _tilted(draws[at], _tilt(height, width, k))
    if whole:
        out = np.floor(np.minimum(out, np.nextafter(edges[np.minimum(codes, len(width) - 1) + 1], -np.inf)))
    numbers: Floats = np.clip(out, *column.require_bounds())
    return numbers


def bin_means(column: Column, shares: Floats) -> Floats:
    """The mean number in each bin, under the same density."""
    points = (np.arange(PIECES) + 0.5) / PIECES
    return np.array([within_bins(column, shares, np.full(PIECES, k), points).mean() for k in range(len(shares))])


def _tilt(height: Floats, width: Floats, k: int) -> float:
    """Slope of the density over its height in bin k, in [-2, 2]: the smaller of those towards both neighbours."""
    if height[k] <= 0 or k in (0, len(height) - 1):
        return 0.0
    left = (height[k] - height[k - 1]) / (0.5 * (width[k] + width[k - 1]))
    right = (height[k + 1] - height[k]) / (0.5 * (width[k] + width[k + 1]))
    if left * right <= 0:
        return 0.0
    slope = min(left, right, key=abs) * width[k] / height[k]
    return float(np.clip(slope, -2.0, 2.0))


def _tilted(draws: Floats, tilt: float) -> Floats:
    """Quantiles of the density 1 + tilt (x - 1/2) on the unit interval."""
    if abs(tilt) < 1e-9:
        return draws
    lead = 1.0 - 0.5 * tilt
    quantiles: Floats = (np.sqrt(lead**2 + 2.0 * tilt * draws) - lead) / tilt
    return quantiles
