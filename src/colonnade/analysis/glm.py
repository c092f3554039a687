"""Moment equations of generalised linear models: released products with the label, a law of the features from records.

With natural parameter x'w and log-partition A the equations are

    mean of y x (from the release)  =  mean over records of A'(x'w) x  +  penalty

and their solution minimises the convex function mean A(x'w) - <moments, w> + penalty. What the records lack of the
features' covariance counts as a quadratic form, so that a column which no record shows has no weight without limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from colonnade.mechanism.moments import Floats

STEEPEST = 30.0
ITERATIONS = 1000
EXACT = 0.1
"""A fit has converged where it is the exact one of products that differ by less than this share of their own error."""
LogPartition = Callable[[Floats], tuple[Floats, Floats]]
"""From natural parameters (records x outputs) to A of each record and its gradient."""


def gaussian(scores: Floats) -> tuple[Floats, Floats]:
    """A linear model of the label itself."""
    return 0.5 * (scores**2).sum(axis=1), scores


def bernoulli(scores: Floats) -> tuple[Floats, Floats]:
    """One yes or no."""
    return np.logaddexp(0.0, scores).sum(axis=1), expit(scores)


def categories(scores: Floats) -> tuple[Floats, Floats]:
    """One of several classes."""
    top = scores.max(axis=1, keepdims=True)
    odds = np.exp(scores - top)
    total = odds.sum(axis=1, keepdims=True)
    odds /= total
    return (top + np.log(total))[:, 0], odds


def poisson(scores: Floats) -> tuple[Floats, Floats]:
    """A count with a log-linear mean; beyond the steepest score A goes on in a straight line."""
    inside = np.minimum(scores, STEEPEST)
    rate = np.exp(inside)
    return (rate * (1.0 + scores - inside)).sum(axis=1), rate


@dataclass(frozen=True)
class Family:
    """A law of the label: its log-partition, and what its mean says of its scores and of its variance."""

    law: LogPartition
    constant: Callable[[Floats], Floats]
    """The scores of a model without features that has these means."""
    variance: Callable[[Floats], Floats]
    bounded: bool = False
    """Whether its means are shares."""


GAUSSIAN = Family(gaussian, lambda mean: mean, np.ones_like)
BERNOULLI = Family(bernoulli, lambda mean: np.log(mean) - np.log1p(-mean), lambda mean: mean * (1.0 - mean), True)
CATEGORIES = Family(categories, np.log, lambda mean: mean * (1.0 - mean), True)
POISSON = Family(poisson, np.log, lambda mean: mean)


@dataclass(frozen=True)
class Penalty:
    """Strength per record of absolute and squared weights, for each feature."""

    absolute: Floats
    squared: Floats


@dataclass(frozen=True)
class Prior:
    """Half of (w - centre)' form (w - centre) times a factor, for each output: towards what the noise leaves likely."""

    form: Floats
    factors: Floats
    centre: Floats


@dataclass(frozen=True)
class FeatureLaw:
    """Records that stand for the law of the features, centred, with their weights, and what they lack of it."""

    records: Floats
    weights: Floats
    gap: Floats
    """Of the features' covariance, a form that is nowhere negative."""

    @property
    def covariance(self) -> Floats:
        result: Floats = (self.records * self.weights[:, None]).T @ self.records + self.gap
        return result


@dataclass(frozen=True)
class MomentFit:
    """Weights (features x outputs) and the constants of centred features; what the equations leave, per feature."""

    weights: Floats
    constants: Floats
    left: Floats


def fit_moments(
    law: FeatureLaw, moments: Floats, means: Floats, family: Family, penalty: Penalty, pull: Prior
) -> MomentFit:
    """The penalised fit to covariances `moments` (features x outputs) and `means` of the label's outputs."""
    from scipy.optimize import minimize  # takes long to import, and few commands need it

    # In units of their own spread features are alike to the solver, the rare level and the common one.
    spread = np.sqrt(np.maximum(np.diag(law.covariance), 1e-12))
    records, gap, right = law.records / spread, law.gap / np.outer(spread, spread), moments / spread[:, None]
    absolute, squared = (penalty.absolute / spread)[:, None], (penalty.squared / spread**2)[:, None]
    form, centre = pull.form / np.outer(spread, spread), pull.centre * spread[:, None]
    slopes = family.variance(means)
    features, outputs = moments.shape
    sparse = bool(penalty.absolute.any())

    def smooth(w: Floats, b: Floats) -> tuple[float, Floats, Floats]:
        value, gradient = family.law(records @ w + b)
        pulled = law.weights[:, None] * gradient
        bent, drawn = slopes * (gap @ w) + squared * w, pull.factors * (form @ (w - centre))
        total = float(law.weights @ value - (right * w).sum() - means @ b + 0.5 * (bent * w).sum())
        total += 0.5 * float((drawn * (w - centre)).sum())
        return total, records.T @ pulled - right + bent + drawn, pulled.sum(axis=0) - means

    def objective(flat: Floats) -> tuple[float, Floats]:
        parts = flat.reshape(-1, outputs)
        w, b = parts[:features], parts[-1]
        if not sparse:
            total, slope, last = smooth(w, b)
            return total, np.vstack([slope, last]).ravel()
        total, slope, last = smooth(w - parts[features : 2 * features], b)
        total += float((absolute * parts[: 2 * features].reshape(2, features, outputs)).sum())
        return total, np.vstack([slope + absolute, absolute - slope, last]).ravel()

    rows = (2 if sparse else 1) * features + 1
    first = [np.maximum(centre, 0.0), np.maximum(-centre, 0.0)] if sparse else [centre]
    start = np.vstack([*first, family.constant(means)[None, :]])
    bounds = [(0.0, None)] * ((rows - 1) * outputs) + [(None, None)] * outputs if sparse else None
    options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-7, "ftol": 1e-16, "maxcor": 20}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    parts = np.asarray(found.x, dtype=np.float64).reshape(rows, outputs)
    w = parts[:features] - parts[features : 2 * features] if sparse else parts[:features]
    _, slope, last = smooth(w, parts[-1])
    # What an optimiser calls a success is not asked: the equations themselves say how far they are met.
    left = np.where(w == 0.0, np.maximum(np.abs(slope) - absolute, 0.0), np.abs(slope + np.sign(w) * absolute))
    left = np.vstack([left * spread[:, None], np.abs(last)])
    return MomentFit(w / spread[:, None], parts[-1], np.where(np.isfinite(left), left, np.inf))
