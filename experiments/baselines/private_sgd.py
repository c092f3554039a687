"""DPSGD: one pass of stochastic gradient descent with noisy mini-batch gradients of the logistic loss.

Source: Song, Chaudhuri and Sarwate, "Stochastic gradient descent with differentially private updates",
GlobalSIP 2013: w <- w - eta_t (lambda w + (sum of the batch's gradients + Z) / b), with Z of density proportional to
exp(-(epsilon/2) |z|_2) when every record has norm at most 1. Each record is in one batch, batches are disjoint.

Accounting: pure epsilon under replacement of one record. Only one batch sees the record; its gradient sum moves by at
most 2 R in L2, where R bounds a record's norm (the logistic loss is 1-Lipschitz in x'w), so the noise is
exp(-epsilon |z| / (2 R)); the other steps are functions of what was released before and of other records (parallel
composition).

Left open by the source: step size c / sqrt(t) with c to be chosen, lambda and b. Left open by the paper that reports
this baseline: everything, its remark that the noise grows with the number of iterations reads like many passes.
Chosen here: features divided by R (public, sqrt(number of attributes) for one-hot features, default sqrt(d)), one pass,
b = 50, c = R^2 (a unit step in the features as they were before the division),
lambda = 1e-4, the last iterate.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BATCH = 50
RIDGE = 1e-4


def gradient_noise(d: int, epsilon: float, rng: np.random.Generator) -> Array:
    """A vector of density proportional to exp(-(epsilon/2) |z|): Gamma(d) length, uniform direction."""
    direction = rng.standard_normal(d)
    length = rng.gamma(d, 2.0 / epsilon)
    noise: Array = direction * (length / np.linalg.norm(direction))
    return noise


def fit(
    X: Array,
    y: Array,
    epsilon: float,
    rng: np.random.Generator,
    R: float | None = None,
    batch: int = BATCH,
    step: float | None = None,
    ridge: float = RIDGE,
) -> Array:
    """Weights of the logistic regression, for features as given (not divided by R)."""
    n, d = X.shape
    bound = math.sqrt(d) if R is None else R
    unit, sign = X / bound, 2.0 * (y > 0.5) - 1.0
    c = bound * bound if step is None else step
    w = np.zeros(d)
    order = rng.permutation(n)
    for t, start in enumerate(range(0, n - batch + 1, batch), start=1):
        rows = order[start : start + batch]
        x, s = unit[rows], sign[rows]
        margin = s * (x @ w)
        total = -x.T @ (s / (1.0 + np.exp(np.clip(margin, -500.0, 500.0))))
        w -= c / math.sqrt(t) * (ridge * w + (total + gradient_noise(d, epsilon, rng)) / batch)
    return w / bound
