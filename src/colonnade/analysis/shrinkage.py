"""Empirical Bayes with a known noise variance: how far a noisy deviation from independence can be believed.

Model: a block of deviations D_i from independence has D_i ~ N(0, r^2 u_i) with u_i the largest value that D_i^2 can
take (Cauchy-Schwarz), so r is a correlation in [0, 1]; it is observed with known noise variance s_i^2. The law of r is
shared by all blocks and estimated from them by maximum likelihood on a grid (Kiefer & Wolfowitz 1956; Laird 1978).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp

from colonnade.mechanism.moments import Floats

CORRELATIONS = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 31)])
"""Grid of r: no association at all, then 0.001 to 1."""
EM_STEPS = 200
EVEN = 3.0
"""So many blocks more, spread evenly over the grid, keep the law of few blocks from collapsing to one r."""


@dataclass(frozen=True)
class Deviations:
    """Deviations from independence of one block, with their largest squares and their noise variances."""

    value: Floats
    ceiling: Floats
    noise: Floats
    freedom: float = 1.0
    """Free deviations over all of them: margins bind the rest."""


@dataclass(frozen=True)
class Shrunk:
    """Posterior means of a block's deviations and their posterior variances."""

    value: Floats
    variance: Floats


def shrink(blocks: Sequence[Deviations], even: float = 0.0) -> list[Shrunk]:
    """Posterior means under the law of r that explains all blocks best, and `even` blocks spread evenly over it."""
    if not blocks:
        return []
    likelihood = np.array([_log_likelihoods(block) for block in blocks])
    weights = _mixing_law(likelihood, even)
    return [_posterior(block, row + np.log(weights)) for block, row in zip(blocks, likelihood, strict=True)]


def _prior_variances(block: Deviations) -> Floats:
    spread: Floats = CORRELATIONS[:, None] ** 2 * np.maximum(block.ceiling, 0.0).ravel()
    return spread


def _log_likelihoods(block: Deviations) -> Floats:
    """Log-likelihood of each r on the grid."""
    total = _prior_variances(block) + block.noise.ravel()
    terms = np.log(total) + block.value.ravel() ** 2 / total
    scores: Floats = -0.5 * block.freedom * terms.sum(axis=1)
    return scores


def _mixing_law(likelihood: Floats, even: float) -> Floats:
    """Maximum likelihood weights of the grid, by EM; a vanishing floor keeps logarithms finite."""
    blocks, size = likelihood.shape
    law = np.full(size, 1.0 / size)
    ratio = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    for _ in range(EM_STEPS):
        found = law * (ratio / (ratio @ law)[:, None]).sum(axis=0)
        law = np.maximum((found + even / size) / (blocks + even), 1e-12)
    result: Floats = law / law.sum()
    return result


def _posterior(block: Deviations, log_weights: Floats) -> Shrunk:
    weights = np.exp(log_weights - logsumexp(log_weights))
    prior = _prior_variances(block)
    noise = block.noise.ravel()
    gain = prior / (prior + noise)
    value = block.value.ravel()
    mean_gain = weights @ gain
    within = weights @ (gain * noise)
    between = (weights @ gain**2 - mean_gain**2) * value**2
    shape = block.value.shape
    return Shrunk((mean_gain * value).reshape(shape), (within + np.maximum(between, 0.0)).reshape(shape))


def bounded_mean(value: float, std: float, low: float, high: float) -> float:
    """Posterior mean of a quantity known to lie in [low, high], seen once with Gaussian noise."""
    if high <= low:
        return low
    if std <= 1e-9 * (high - low):
        return float(np.clip(value, low, high))
    a, b = (low - value) / std, (high - value) / std
    if a > 0:  # the far tail is computed on the left, where log_ndtr is exact
        return low + high - bounded_mean(low + high - value, std, low, high)
    log_mass = float(log_ndtr(b) + np.log1p(-np.exp(min(log_ndtr(a) - log_ndtr(b), -1e-15))))
    densities = np.exp(-0.5 * np.array([a, b]) ** 2 - 0.5 * np.log(2 * np.pi) - log_mass)
    mean = value + std * float(densities[0] - densities[1])
    return float(np.clip(mean, low, high)) if np.isfinite(mean) else float(np.clip(value, low, high))
