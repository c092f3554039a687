"""Weights of a linear fit when both sides of the normal equations are noisy, by empirical Bayes.

C is the covariance of the features and c their covariance with the target, per record, both seen with noise of known
variance. With w ~ N(0, t^2 P) the right-hand side is

    c = C w + e,   Var e = s^2 C / n (sampling) + diag(a) (noise on c) + diag(V w^2) (noise on C, times w)

and w is its posterior mean, averaged over t by the likelihood that each t gives to c (every order of magnitude counts
the same beforehand). Nothing is tuned: the noise is known, and when it drowns the signal the small t, which leave the
trivial model, weigh as much as the large ones.

P is the inverse root of each attribute's own covariance: half way between equal weights (ridge in the units of the
encoding) and equal explained variance (Zellner's g-prior), so that rare levels may weigh more, but not without limit.
Half of the variance of an ordered attribute's weights (bins of a number) is shared by neighbouring levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from colonnade.mechanism.moments import Floats

SPREADS = np.geomspace(1e-5, 1e3, 321)
"""Grid of t, and t = 0 besides."""
ROUNDS = 6
"""Rounds of w -> noise of C w -> w."""
NEGLIGIBLE = 1e-9
FLOOR = 1e-15


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
    sampling: float
    """Variance of the target over the number of records: the sampling noise of c is at most this times C."""
    groups: tuple[int, ...]
    """The attribute of each column."""
    ordered: frozenset[int] = frozenset()
    """Attributes whose levels have an order."""


def posterior(equations: NoisyEquations) -> Fit:
    """The posterior mean of w."""
    gram, right = equations.gram, equations.right
    prior = prior_shape(gram, equations.groups, equations.ordered)
    signal = gram @ prior @ gram
    fit = Fit(np.zeros_like(right), 0.0, 0.0)
    squares = np.zeros_like(right)
    for _ in range(ROUNDS):
        noise = equations.right_noise + equations.gram_noise @ squares
        dual, spread, freedom = _average(signal, equations.sampling * gram, noise, right)
        fit = Fit(prior @ (gram @ dual), spread, freedom)
        if not equations.gram_noise.any():
            break
        # Half a step: a whole one may swing between too large and too small weights.
        squares = 0.5 * (squares + fit.weights**2)
    return fit


def prior_shape(gram: Floats, groups: Sequence[int], ordered: frozenset[int] = frozenset()) -> Floats:
    """P: the inverse square root of each attribute's own block of C, zero where the block is."""
    shape = np.zeros_like(gram)
    member = np.asarray(groups)
    scale = float(np.max(np.diag(gram), initial=0.0))
    for group in np.unique(member):
        at = np.ix_(member == group, member == group)
        values, vectors = np.linalg.eigh(gram[at])
        usable = values > NEGLIGIBLE * scale
        root = np.where(usable, 1.0 / np.sqrt(np.where(usable, values, 1.0)), 0.0)
        shape[at] = (vectors * root) @ vectors.T
        if int(group) in ordered:
            level = np.arange(len(values))
            near = np.exp(-np.abs(level[:, None] - level) * 2.0 / len(values))
            own = np.sqrt(np.diag(shape[at]))
            shape[at] = 0.5 * np.outer(own, own) * (near + np.eye(len(values)))
    return shape


def _average(signal: Floats, sampling: Floats, noise: Floats, right: Floats) -> tuple[Floats, float, float]:
    """t^2 (t^2 signal + sampling + noise)^-1 c, t and the number of effective weights, averaged over t."""
    base = sampling + np.diag(noise)
    # Numbers are per record and of order 1: what is below the floor is rounding.
    floor = max(NEGLIGIBLE * float(np.trace(base)) / len(base), FLOOR)
    values, vectors = eigh(signal, base + floor * np.eye(len(base)))
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ right
    spreads = np.concatenate([[0.0], SPREADS])
    total = 1.0 + spreads[:, None] ** 2 * values
    evidence = -0.5 * (np.log(total) + rotated**2 / total).sum(axis=1)
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    shrunk = chance @ (spreads[:, None] ** 2 / total) * rotated
    freedom = float(chance @ (1.0 - 1.0 / total).sum(axis=1))
    return vectors @ shrunk, float(chance @ spreads), freedom


def widened(equations: NoisyEquations, fit: Fit, raw: Floats, raw_noise: Floats) -> NoisyEquations:
    """C stretched along Cw where the raw, unbiased C says that w'Cw is larger than the shrunk one does.

    Shrinkage forgets that features which follow the target follow each other; a single number, w'Cw, can still be read
    from the raw C. Its excess is believed by positive-part James-Stein.
    """
    w = fit.weights
    direction = equations.gram @ w
    modelled = float(w @ direction)
    variance = 2.0 * float(w**2 @ raw_noise @ w**2)
    excess = float(w @ raw @ w) - modelled
    if modelled <= 0 or excess <= 0 or excess**2 <= variance:
        return equations
    believed = excess - variance / excess
    return replace(equations, gram=equations.gram + (believed / modelled**2) * np.outer(direction, direction))


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
