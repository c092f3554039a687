"""A logistic fit from second moments: the likelihood equations with the features' law replaced by a plausible one.

The maximum of the logistic likelihood solves sum_i s(b'x_i) x_i = sum_i y_i x_i. The right-hand side is released; the
left-hand side needs the law of x, of which the release gives margins and pair tables: take a sample that has them
(`plausible_records`). With Gaussian x this is the linear discriminant; with indicators it is much nearer to the
logistic fit. Each Gauss-Newton step is a noisy linear system and is solved as one (`posterior`), so that noise is
shrunk as in the linear fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from colonnade.mechanism.moments import Floats
from colonnade.mechanism.posterior import Fit, NoisyEquations, posterior

SHAPES = (0.5,)
"""Powers of the prior of log-odds (`posterior`). Equal weights cost Adult up to 0.01 of accuracy at epsilon 0.1, on
splits that no table uses, and gave Dutch 0.005: rare levels decide there, and the likelihood did not see it."""
STEPS = 8
FULL_STEPS = 3
LARGEST_SHARE = 0.5
"""R^2 is kept below this when the first scale of the log-odds is computed from it."""


CERTAIN = 0.99
"""The same for the linear discriminant itself."""


SETTLED = 0.25
"""Steps that still move the log-odds by more than this share of their spread have not found a solution."""


WIDEST = 10.0
"""Largest standard deviation of the log-odds: beyond it every record is certain."""


@dataclass(frozen=True)
class LogOdds:
    """Log-odds = intercept + coefficients'(x - means), and the linear system of the last step."""

    intercept: float
    fit: Fit
    equations: NoisyEquations


def log_odds(equations: NoisyEquations, share: float, records: Floats, weights: Floats, n: int) -> LogOdds:
    """The logistic fit of a target of given share; `records` are centred at the released means."""
    centred = records - weights @ records
    sample = (centred * weights[:, None]).T @ centred
    start = posterior(equations, SHAPES)
    spread = share * (1.0 - share)
    explained = float(np.clip(start.weights @ equations.right / spread, 0.0, LARGEST_SHARE))
    odds = start.weights / (spread * (1.0 - explained))
    constant = float(logit(share))
    step = LogOdds(constant, Fit(odds, start.spread, start.freedom), equations)
    if not odds.any():
        return step
    for i in range(STEPS):
        score = centred @ odds
        constant = _intercept(score, weights, share, constant)
        system = _linearised(equations, centred, weights, sample, score, constant, odds, n)
        fit = posterior(system, SHAPES)
        change = fit.weights - odds
        odds = odds + (1.0 if i < FULL_STEPS else 0.5) * change
        # Classes that a line separates have no finite maximum: the steps would run away.
        odds *= min(1.0, WIDEST / max(float(odds @ sample @ odds), 1e-300) ** 0.5)
        step = LogOdds(constant, replace(fit, weights=odds), system)
    if change @ sample @ change > SETTLED**2 * (odds @ sample @ odds):
        # Noise can leave equations without a solution; the discriminant always is one.
        return discriminant(equations, start, share)
    return replace(step, intercept=_intercept(centred @ odds, weights, share, constant))


def discriminant(equations: NoisyEquations, fit: Fit, share: float) -> LogOdds:
    """Log-odds with the direction of a linear fit, for Gaussian classes with a common covariance (Fisher 1936)."""
    spread = share * (1.0 - share)
    # w_discriminant = w_least_squares / (spread (1 - R^2)).
    explained = float(np.clip(fit.weights @ equations.right / spread, 0.0, CERTAIN))
    odds = fit.weights / (spread * (1.0 - explained))
    middle = (0.5 - share) / spread * equations.right
    return LogOdds(float(logit(share)) - float(odds @ middle), replace(fit, weights=odds), equations)


def _intercept(score: Floats, weights: Floats, share: float, start: float) -> float:
    """The constant at which the mean probability is the share, by safeguarded Newton steps."""
    constant = start
    for _ in range(60):
        chance = expit(constant + score)
        gap = float(weights @ chance) - share
        slope = float(weights @ (chance * (1.0 - chance)))
        constant -= float(np.clip(gap / max(slope, 1e-6), -2.0, 2.0))
        if abs(gap) < 1e-10:
            break
    return constant


def _linearised(
    equations: NoisyEquations,
    centred: Floats,
    weights: Floats,
    sample: Floats,
    score: Floats,
    constant: float,
    odds: Floats,
    n: int,
) -> NoisyEquations:
    """H b = c - F(b0) + H b0 at the current b0, where F(b) is the covariance of x with s(b'x)."""
    chance = expit(constant + score)
    slope = weights * chance * (1.0 - chance)
    pull = centred * slope[:, None]
    across = pull.sum(axis=0)
    curvature = pull.T @ centred - np.outer(across, across) / slope.sum()
    moved = centred.T @ (weights * chance)
    # Control variate: the linear part of s(b'x) is taken under the released covariance, not under the sample's.
    energy = float(weights @ score**2)
    linear = float(weights @ (chance * score)) / energy if energy > 1e-12 else float(slope.sum())
    gap = equations.gram - sample
    curvature += linear * gap
    moved += linear * (gap @ odds)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    curvature = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return replace(
        equations,
        gram=curvature,
        right=equations.right - moved + curvature @ odds,
        gram_noise=equations.gram_noise * linear**2,
        sampling=1.0 / n,
        # Weights are log-odds here: what they can explain is bounded by certainty, not by the target's variance.
        explainable=WIDEST**2 * float(slope.sum()),
    )
