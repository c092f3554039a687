"""Moment equations of generalised linear models: released products with the label, a law of the features from records.

With natural parameter x'w and log-partition A the equations are

    mean of y x (from the release)  =  mean over records of A'(x'w) x  +  penalty

and their solution minimises the convex function mean A(x'w) - <moments, w> + penalty. What the records lack of the
features' covariance counts as a quadratic form, so that a column which no record shows has no weight without limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.analysis.families import Family
from colonnade.mechanism.moments import Floats

ITERATIONS = 1000
STARTS, SETTLED = 5, 1e-6
"""So often the optimiser is started where it stopped, unless all equations are met up to so much."""
EXACT = 0.1
"""A fit has converged where it is the exact one of products that differ by less than this share of their own error."""


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
    stopped: str = ""
    """Why the optimiser stopped before it called that a success; empty where it did."""


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
        value, gradient = family.partition(records @ w + b)
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
    flat = start.ravel()
    for _ in range(STARTS):
        found = minimize(objective, flat, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        flat = np.asarray(found.x, dtype=np.float64)
        parts = flat.reshape(rows, outputs)
        w = parts[:features] - parts[features : 2 * features] if sparse else parts[:features]
        _, slope, last = smooth(w, parts[-1])
        # Whether it is good enough the equations say: at rounding an optimiser stops without calling it success, and
        # along a bound it may stop before, and go on from there when it is started again.
        left = np.where(w == 0.0, np.maximum(np.abs(slope) - absolute, 0.0), np.abs(slope + np.sign(w) * absolute))
        left = np.vstack([left * spread[:, None], np.abs(last)])
        if not left.max() > SETTLED or found.nit >= ITERATIONS:
            break
    left = np.where(np.isfinite(left), left, np.inf)
    return MomentFit(w / spread[:, None], parts[-1], left, "" if found.success else str(found.message))
