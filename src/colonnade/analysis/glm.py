"""Moment equations of generalised linear models: released products with the label, a law of the features from records.

With natural parameter x'w and log-partition A the equations are

    mean of y x (from the tables)  =  mean over records of A'(x'w) x  +  penalty

and their solution minimises the convex function mean A(x'w) - <moments, w> + penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from colonnade.mechanism.moments import Floats

STEEPEST = 30.0
ITERATIONS = 200
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
class Penalty:
    """Strength per record of absolute and squared weights, for each feature."""

    absolute: Floats
    squared: Floats


def fit_moments(
    records: Floats, weights: Floats, moments: Floats, means: Floats, law: LogPartition, penalty: Penalty
) -> tuple[Floats, Floats]:
    """Weights (features x outputs) and intercepts; `moments` are means of y x, `means` those of y."""
    from scipy.optimize import minimize  # takes long to import, and few commands need it

    features, outputs = moments.shape
    sparse = bool(penalty.absolute.any())
    absolute, squared = penalty.absolute[:, None], penalty.squared[:, None]

    def objective(flat: Floats) -> tuple[float, Floats]:
        parts = flat.reshape(-1, outputs)
        w, b = parts[:features], parts[-1]
        if sparse:
            w = w - parts[features : 2 * features]
        value, gradient = law(records @ w + b)
        pulled = weights[:, None] * gradient
        slope = records.T @ pulled - moments + squared * w
        total = float(weights @ value - (moments * w).sum() - means @ b + 0.5 * (squared * w * w).sum())
        last = pulled.sum(axis=0) - means
        if not sparse:
            return total, np.vstack([slope, last]).ravel()
        total += float((absolute * parts[: 2 * features].reshape(2, features, outputs)).sum())
        return total, np.vstack([slope + absolute, absolute - slope, last]).ravel()

    rows = (2 if sparse else 1) * features + 1
    start = np.zeros((rows, outputs))
    if law is poisson:
        start[-1] = np.log(np.maximum(means, 1e-9))
    bounds = [(0.0, None)] * ((rows - 1) * outputs) + [(None, None)] * outputs if sparse else None
    found = minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-6, "ftol": 1e-10},
    )
    parts = np.asarray(found.x, dtype=np.float64).reshape(rows, outputs)
    w = parts[:features] - parts[features : 2 * features] if sparse else parts[:features]
    return w, parts[-1]
