"""Synthetic sparse regression after the paper's Table 2: n records, d features, sparsity s.

The paper fixes n = 80,000, d = 800, s in {0.1, 0.5, 1.0} and says that s is the share of nonzero entries and of
nonzero true coefficients; it leaves the distributions open. Here an entry is nonzero with probability s and then
uniform on [-1, 1]; exactly round(s d) true coefficients are nonzero and standard normal; the label is x'w plus
Gaussian noise with NOISE_SHARE of the signal's expected variance. The label is then divided by the public constant
`label_scale(d, s)`, four expected standard deviations, and clipped to [-1, 1] (a few records in 1,000 at most).
"""

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError
from experiments.data.dataset import Dataset, numeric

NOISE_SHARE = 0.05
NORM_MARGIN = 1.0
"""A record is declared to be at most this many times as long as the generator lets expect: about half are shortened, by
1.3% at s = 1 and 6% at s = 0.1, and all noise is smaller by as much as the declared length is."""


def signal_variance(d: int, s: float) -> float:
    """Expected variance of x'w: round(s d) coefficients of variance 1 times entries of variance s/3."""
    return round(s * d) * s / 3


def label_scale(d: int, s: float) -> float:
    """The public constant that the label is divided by."""
    return 4.0 * math.sqrt((1 + NOISE_SHARE) * signal_variance(d, s))


def synthetic_arrays(
    n: int = 80_000, d: int = 800, s: float = 0.1, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Features, scaled label and scaled true coefficients; equal arguments give equal arrays."""
    if not (n > 0 and d > 0 and 0 < s <= 1 and round(s * d) > 0):
        raise StudyError(f"n, d and round(s d) must be positive and s at most 1, got n={n}, d={d}, s={s}")
    rng = np.random.default_rng([seed, n, d, round(1000 * s)])
    X = rng.uniform(-1.0, 1.0, (n, d))
    if s < 1:
        X[rng.random((n, d)) >= s] = 0.0
    w = np.zeros(d)
    w[rng.choice(d, round(s * d), replace=False)] = rng.standard_normal(round(s * d))
    noise = math.sqrt(NOISE_SHARE * signal_variance(d, s)) * rng.standard_normal(n)
    scale = label_scale(d, s)
    y = np.clip((X @ w + noise) / scale, -1.0, 1.0)
    return X, y, w / scale


def synthetic(n: int = 80_000, d: int = 800, s: float = 0.1, seed: int = 0) -> Dataset:
    """The same as a data set; every column is declared numeric on [-1, 1]."""
    X, y, _ = synthetic_arrays(n, d, s, seed)
    names = [f"x{j:03d}" for j in range(d)]
    frame = pl.DataFrame({name: X[:, j] for j, name in enumerate(names)} | {"y": y})
    columns = {name: numeric(-1, 1) for name in [*names, "y"]}
    return Dataset(f"Synthetic s={s}", frame, columns, "y", "linear", NORM_MARGIN * math.sqrt(s / 3))
