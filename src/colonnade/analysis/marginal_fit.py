"""Weights of features that a release says nothing of together: each has a noisy number of its own.

Where C is diagonal, c_j = C_j w_j + e_j separates. A weight is zero, or normal with variance t^2 with chance p; every
(p, t) counts by the likelihood it gives to all c_j, and the law of the noise is taken as it is: tails of Laplace noise
are no signals, and near zero its peak tells twice as much as its variance says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from colonnade.foundation.proven import proven
from colonnade.mechanism.moments import Distribution, Floats

PARTS = (1.0, 0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.13, 0.1, 0.07, 0.05, 0.035, 0.025, 0.015, 0.01, 0.005)
"""Shares of weights that are not zero; each is as likely as any other beforehand."""
SPREADS = np.geomspace(1e-5, 1e3, 161)
LEAST = 1e-9
"""Of the noise's variance: what a number varies by besides it, at least."""


@dataclass(frozen=True)
class Separate:
    """The equations C_j w_j = c_j of all features."""

    squares: Floats
    """C_j."""
    right: Floats
    noise: Floats
    """Variance of the noise on each c_j."""
    sampling: float
    """Variance of the sampling error of c_j over C_j."""
    explainable: float
    law: Distribution


@proven("trivial_bound")
def separate_weights(equations: Separate) -> tuple[Floats, float, float]:
    """The posterior mean of all weights, the root mean square of their prior, and how many of them are decided.

    Domain: C diagonal and known.
    Unit: weights of encoded features.
    Guarantee: of utility: as posterior's, .288 with Laplace noise by computation. Proof: trivial_bound.
    """
    cases = list(_cases(equations))
    top = max(case.evidence for case in cases)
    chances = np.array([np.exp(case.evidence - top) for case in cases])
    chances /= chances.sum()
    weights, spread, freedom = np.zeros_like(equations.right), 0.0, 0.0
    for chance, case in zip(chances, cases, strict=True):
        weights += chance * case.weights
        spread += chance * case.spread
        freedom += chance * case.freedom
    return weights, spread, freedom


@dataclass(frozen=True)
class _Case:
    """What one share of non-zero weights says, averaged over their spreads."""

    evidence: float
    weights: Floats
    spread: float
    freedom: float


def _cases(equations: Separate) -> Iterator[_Case]:
    """One for each share of non-zero weights; no spread counts under which more is explained than there is."""
    squares = np.maximum(equations.squares, 0.0)
    noise = np.maximum(equations.noise, 1e-300)
    other = np.maximum(equations.sampling * squares, LEAST * noise)
    absent, _ = log_likelihood(equations.right, other, noise, equations.law)
    for part in PARTS:
        spreads = SPREADS[part * SPREADS**2 * float(squares.sum()) <= equations.explainable]
        prior = np.concatenate([[0.0], spreads])[:, None] ** 2 * squares**2
        present, pull = log_likelihood(equations.right, other + prior, noise, equations.law)
        if part < 1:
            both = np.logaddexp(np.log(part) + present, np.log1p(-part) + absent)
            chance = np.exp(np.log(part) + present - both)
        else:
            both, chance = present, np.ones_like(present)
        evidence = both.sum(axis=1) - np.log(len(prior))
        top = float(evidence.max())
        likely = np.exp(evidence - top)
        # The normal part of c_j is -variance times the slope of its log-density (Tweedie), the signal its share of it.
        signal = likely @ (chance * prior * pull) / likely.sum()
        weights = np.divide(signal, squares, out=np.zeros_like(signal), where=squares > 0)
        told = (chance * prior / (other + prior + noise)).sum(axis=1)
        spread = np.sqrt(part) * np.concatenate([[0.0], spreads])
        yield _Case(
            top + float(np.log(likely.sum())),
            weights,
            float(likely @ spread / likely.sum()),
            float(likely @ told / likely.sum()),
        )


def log_likelihood(x: Floats, variance: Floats, noise: Floats, law: Distribution) -> tuple[Floats, Floats]:
    """Log-density of a normal number of that variance plus noise, and minus its slope."""
    if law is Distribution.GAUSSIAN:
        total = variance + noise
        return -0.5 * (np.log(total) + x**2 / total), x / total
    scale = np.sqrt(noise / 2)
    at, wide = np.abs(x) / scale, np.sqrt(variance) / scale
    # e^(v/2 - x) Phi((x - v)/s) + e^(v/2 + x) Phi((-x - v)/s) in units of the noise's scale, v = s^2.
    falling = log_ndtr((at - wide**2) / wide) - at
    rising = log_ndtr((-at - wide**2) / wide) + at
    both = np.logaddexp(falling, rising)
    slope = np.sign(x) * (np.exp(falling - both) - np.exp(rising - both)) / scale
    return both + wide**2 / 2 - np.log(scale), slope
