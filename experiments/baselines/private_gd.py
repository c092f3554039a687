"""DP gradient descent: full-batch steps on the logistic loss with clipped records and Gaussian noise, tuning paid for.

Source of the steps: Bassily, Smith and Thakurta 2014 and Abadi et al. 2016 without subsampling. A record's gradient is
clipped to L2 norm 1, so that replacing a record moves their sum by at most 2; T steps with noise of deviation sigma
cost rho = 2 T / sigma^2 of zCDP.

Tuning: each of `SETTINGS` (steps, step size) is trained with an equal share of nine tenths of rho, and the best is
taken by its number of right answers on the same records plus Gaussian noise (replacing a record moves a count by at
most 1), which the last tenth pays for. Nothing is tuned beside the budget.

Accounting: (epsilon, delta) by zCDP, replacement of one record.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from experiments.baselines.accounting import zcdp_rho

Array = NDArray[np.float64]
SETTINGS = ((20, 1.0), (20, 4.0), (100, 1.0), (100, 4.0))
"""Steps and step sizes; a step is in units of the mean clipped gradient."""
CHOOSING = 0.1


def fit(X: Array, y: Array, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
    """Weights of the logistic regression; a column of ones in X is its intercept."""
    rho = zcdp_rho(epsilon, delta)
    share = (1 - CHOOSING) * rho / len(SETTINGS)
    found = [train(X, y, steps, size, math.sqrt(2 * steps / share), rng) for steps, size in SETTINGS]
    # A count of each setting: together they move by at most sqrt(settings) in L2.
    noise = math.sqrt(len(SETTINGS) / (2 * CHOOSING * rho))
    right = [float(((X @ w > 0) == (y > 0.5)).sum()) + noise * rng.standard_normal() for w in found]
    return found[int(np.argmax(right))]


def train(X: Array, y: Array, steps: int, size: float, sigma: float, rng: np.random.Generator) -> Array:
    """The last iterate."""
    norms = np.linalg.norm(X, axis=1)
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        pull = expit(X @ w) - y
        scale = pull / np.maximum(1.0, np.abs(pull) * norms)
        w = w - size / len(X) * (scale @ X + sigma * rng.standard_normal(len(w)))
    return w
