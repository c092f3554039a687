"""Seeded draws for post-processing: uniform numbers, Poisson counts, and noise as a release carries it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, pdtr

from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Floats

GRID = (np.arange(1 << 14) + 0.5) / (1 << 14)
EXACT_COUNTS = 60.0
"""Above this mean a count is drawn from the normal law with its skewness corrected."""


def seeded(seed: int, label: str) -> Randomness:
    """The source of one question: the same seed and label give the same draws."""
    return Randomness(seed=b"colonnade/analysis" + str(int(seed)).encode()).child(label)


def uniform(randomness: Randomness, *shape: int) -> Floats:
    """Numbers strictly between 0 and 1."""
    words = randomness.words(int(np.prod(shape)))
    numbers: Floats = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return numbers.reshape(shape)


def uniform32(randomness: Randomness, count: int) -> NDArray[np.float32]:
    """Numbers in [0, 1) of 24 bits, two from each word."""
    words = randomness.words((count + 1) // 2).view(np.uint32)[:count]
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def normal(randomness: Randomness, *shape: int) -> Floats:
    """Standard normal numbers."""
    numbers: Floats = ndtri(uniform(randomness, *shape))
    return numbers


def noise(randomness: Randomness, shape: float, *size: int) -> Floats:
    """Noise of variance 1: a normal number times the root of a Gamma(shape) number over its mean; infinite is Gaussian.

    Shares of Laplace noise are differences of Gamma numbers, and the sum of K of them, of which K - c make one Laplace
    number, has the shape K / (K - c); shape 1 is Laplace.
    """
    draws = normal(randomness, *size)
    if np.isfinite(shape):
        draws *= np.interp(uniform(randomness, *size), GRID, _mixing(shape))
    return draws


@lru_cache(maxsize=8)
def _mixing(shape: float) -> Floats:
    """The roots of a Gamma(shape) number over its mean, at the quantiles of the grid."""
    roots: Floats = np.sqrt(gammaincinv(shape, GRID) / shape)
    roots.setflags(write=False)
    return roots


def counts(randomness: Randomness, means: Floats, draws: int) -> Floats:
    """Poisson counts, `draws` rows of one for each mean."""
    levels = uniform(randomness, draws, means.size)
    out = np.zeros_like(levels)
    large = means > EXACT_COUNTS
    z = ndtri(levels[:, large])
    out[:, large] = np.rint(means[large] + np.sqrt(means[large]) * z + (z * z - 1.0) / 6.0)
    reach = np.arange(int(EXACT_COUNTS + 12.0 * np.sqrt(EXACT_COUNTS)))
    for k in np.flatnonzero(~large & (means > 0)):
        out[:, k] = np.searchsorted(pdtr(reach, means[k]), levels[:, k])
    return out
