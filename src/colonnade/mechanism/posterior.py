"""Weights of a linear fit when both sides of the normal equations are noisy, by empirical Bayes.

C is the covariance of the features and c their covariance with the target, per record, both seen with noise of known
variance. With w ~ N(0, t^2 I) the right-hand side is

    c = C w + e,   Var e = s^2 C / n (sampling) + diag(a) (noise on c) + t^2 diag(sum_j V_ij) (noise on C, times w)

so t follows from the data by maximum marginal likelihood and w is its posterior mean. Nothing is tuned: the noise is
known, and t^2 -> 0 when it drowns the signal, which leaves the trivial model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from colonnade.mechanism.moments import Floats

SPREADS = np.geomspace(1e-4, 1e2, 37)
"""Grid of t, refined once around its best point."""


@dataclass(frozen=True)
class Fit:
    """Weights, with the spread of their prior and how many of them the data decides."""

    weights: Floats
    spread: float
    freedom: float


@dataclass(frozen=True)
class NoisyEquations:
    """C w = c per record, with the variances of the noise on each entry of both."""

    gram: Floats
    right: Floats
    gram_noise: Floats
    right_noise: Floats
    residual: float
    """Variance of the target over the number of records: the sampling noise of c is at most this times C."""

    def spectrum(self, spread: float) -> Floats:
        """Variance of c under the prior of that spread."""
        square = spread**2
        total = square * (self.gram @ self.gram) + self.residual * self.gram
        total[np.diag_indices_from(total)] += self.right_noise + square * self.gram_noise.sum(axis=1)
        total[np.diag_indices_from(total)] += 1e-12 * max(float(np.trace(total)) / len(total), 1e-300)
        return total


def posterior(equations: NoisyEquations) -> Fit:
    """The posterior mean of w at the spread that makes c most likely."""
    coarse = [_evidence(equations, float(t)) for t in SPREADS]
    best = int(np.argmax(coarse))
    around = np.geomspace(SPREADS[max(best - 1, 0)], SPREADS[min(best + 1, SPREADS.size - 1)], 9)
    fine = [_evidence(equations, float(t)) for t in around]
    spread = float(around[int(np.argmax(fine))])
    if max(fine) <= _evidence(equations, 0.0):
        return Fit(np.zeros_like(equations.right), 0.0, 0.0)
    factor = cho_factor(equations.spectrum(spread), lower=True)
    smoother = spread**2 * equations.gram @ cho_solve(factor, np.column_stack([equations.right, equations.gram]))
    return Fit(smoother[:, 0], spread, float(np.trace(smoother[:, 1:])))


def _evidence(equations: NoisyEquations, spread: float) -> float:
    """Log marginal likelihood of c."""
    lower, _ = cho_factor(equations.spectrum(spread), lower=True)
    half = np.log(np.diag(lower)).sum()
    fit = float(equations.right @ cho_solve((lower, True), equations.right))
    return float(-0.5 * fit - half)


def ridge_weights(gram: Floats, right: Floats, ridge: float) -> Floats:
    """Ordinary ridge regression with a given penalty per record; directions without information get no weight."""
    values, vectors = np.linalg.eigh(gram)
    shifted = values + ridge
    usable = shifted > 1e-10 * max(float(shifted[-1]), 1e-300)
    inverse = np.where(usable, 1.0 / np.where(usable, shifted, 1.0), 0.0)
    result: Floats = vectors @ (inverse * (vectors.T @ right))
    return result


def equivalent_ridge(gram: Floats, freedom: float) -> float:
    """The ridge penalty whose effective number of parameters, tr C (C + ridge)^-1, is the given one."""
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    top = float(values[-1])
    if top <= 0 or freedom <= 0:
        return float("inf")
    low, high = 1e-12 * top, 1e12 * top
    for _ in range(100):
        middle = float(np.sqrt(low * high))
        if (values / (values + middle)).sum() > freedom:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))
