"""R^2 of a linear fit by the release itself, corrected for the known noise, with an interval; or nothing.

The share of the target's variance that weights w explain on the records is R^2 = (2 w'c - w'Cw - e) / v: c and C are
covariances, v is the target's variance, e the square of the error that the noisy means leave in the intercept. Each is
released with noise of known variance. w was chosen by the same noisy c, so that w'c is too large by what the noise on
c does to w: this is measured by refitting from the denoised c with noise of the same variance put on it (a parametric
bootstrap). C is taken as released, without bias. Where the interval would be wide, R^2 is not known, and none is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.equations import Target
from colonnade.analysis.plausible import even_points
from colonnade.analysis.posterior import NoisyEquations
from colonnade.mechanism.moments import Encoding, Floats, Moments

Refit = Callable[[Floats], Floats]
"""From a right-hand side c to the weights that the same method gives."""

PAIRS = 8
"""Refits are made in pairs, with a noise and with its opposite."""
MOST_COLUMNS = 150
"""Above this the refits take too long, and R^2 is not given."""
REACH = 3.0
"""Standard deviations on either side. Two would do for the noise alone; the rest is room for the bias that the refits
leave: up to one deviation on Adult hours."""
NARROWEST = 0.005
"""No interval is narrower on either side: rounding and the refits themselves are not counted."""
WIDEST = 0.05
"""An interval that reaches farther than this on either side is not worth giving."""


@dataclass(frozen=True)
class Explained:
    """R^2 on the records and its 95% interval."""

    value: float
    low: float
    high: float


def explained(
    moments: Moments,
    estimate: Estimate,
    target: Target,
    columns: Sequence[int],
    system: NoisyEquations,
    weights: Floats,
    refit: Refit,
) -> Explained | None:
    """R^2 of `weights`, or None where the release does not tell it."""
    at, n = target.coordinate, moments.n
    variance = float(estimate.covariance[at, at]) / n
    if not np.isfinite(estimate.std[at, at]) or variance <= 0 or moments.traces or len(columns) > MOST_COLUMNS:
        return None
    used = _raw(moments, estimate, columns)
    if used is None:
        return None
    gram, noise = used
    squares = weights**2
    means = squares @ (estimate.std[0, list(columns)] / n) ** 2 + (estimate.std[0, at] / n) ** 2
    centres = float(weights @ estimate.margin[list(columns)]) / n * float(estimate.std[0, at]) / n
    gained, gain_error = _gained(system, weights, refit)
    gain_error += centres**2
    value = (2.0 * gained - float(weights @ gram @ weights) - float(means)) / variance
    load_error = 2.0 * float(squares @ noise @ squares)
    own_error = value * float(estimate.std[at, at]) / n
    # The square of a normal error has twice the square of its mean as variance.
    whole = 4.0 * gain_error + load_error + 2.0 * float(means) ** 2 + own_error**2
    half = max(REACH * float(np.sqrt(whole)) / variance, NARROWEST)
    if not half <= WIDEST:
        return None
    value = float(np.clip(value, -1.0, 1.0))
    return Explained(value, max(value - half, -1.0), min(value + half, 1.0))


def _gained(system: NoisyEquations, weights: Floats, refit: Refit) -> tuple[float, float]:
    """w'c without what the noise on c has put into w, and the variance of what is left."""
    std = np.sqrt(system.right_noise)
    truth = system.gram @ weights
    points = ndtri(even_points(PAIRS, len(std)))
    draws = np.concatenate([points, -points]) * std
    errors = np.array([refit(truth + draw) @ draw for draw in draws])
    return float(weights @ system.right) - float(errors.mean()), float(errors.var(ddof=1))


def _raw(moments: Moments, estimate: Estimate, columns: Sequence[int]) -> tuple[Floats, Floats] | None:
    """The covariance of the columns as released, per record, and its noise variance; None where parts are unknown."""
    grid, at, n = np.ix_(columns, columns), list(columns), moments.n
    layout = moments.layout
    inside = layout.attribute_of[at]
    simplex = np.array([layout.attributes[i].kind is Encoding.SIMPLEX for i in inside])
    # Within one attribute of levels nothing is released but counts, which are clean already.
    own = (inside[:, None] == inside) & simplex[:, None]
    std = np.where(own, np.where(np.eye(len(at), dtype=bool), estimate.std[0, at], 0.0), moments.std[grid])
    if not np.all(np.isfinite(std)) or not np.all(np.isfinite(estimate.std[0, at])):
        return None
    means, margin = estimate.margin[at] / n, estimate.std[0, at] ** 2
    value = np.where(own, estimate.value[grid], moments.value[grid]) / n - np.outer(means, means)
    # A covariance has the noise of both means in it besides its own.
    spread = np.outer(means**2, margin)
    return value, (std**2 + spread + spread.T) / n**2
