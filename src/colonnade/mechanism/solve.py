"""Alg. 1, line 17: from the noisy moments to a model. Everything here is post-processing and costs no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.mechanism.denoise import Estimate, complete, denoise
from colonnade.mechanism.moments import Floats, Kind, Layout, Moments, Role
from colonnade.mechanism.objective import Task
from colonnade.mechanism.posterior import Fit, NoisyEquations, equivalent_ridge, posterior, ridge_weights

METHODS = ("default", "zhang", "raw")
LARGEST_SHARE = 0.99
"""R^2 is kept below this when the scale of a probability is computed from it."""


@dataclass(frozen=True)
class Model:
    """A fitted model in encoded units: numerics in [-1, 1], indicators 0 or 1, a linear target in [-1, 1]."""

    task: str
    label: str
    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    intercept: float
    method: str
    ridge: float
    """Penalty per record with as many effective parameters as the fit used; infinite for the trivial model."""
    freedom: float
    """Effective number of parameters that the release decided."""
    r_squared: float
    """Share of the target's variance that the linear fit explains, by the denoised release; nan where unknown."""

    def decision(self, encoded: Floats) -> Floats:
        """Predicted label of a linear model, log-odds of a logistic one."""
        result: Floats = np.asarray(encoded, dtype=np.float64) @ np.array(self.coefficients) + self.intercept
        return result

    def predict(self, encoded: Floats) -> Floats:
        """Label clipped to its public range, or probability of the positive class."""
        value = self.decision(encoded)
        result: Floats = np.clip(value, -1.0, 1.0) if self.task == Task.LINEAR.value else expit(value)
        return result


@dataclass(frozen=True)
class Target:
    """What is predicted, as a linear map of one coordinate: label = scale * coordinate + shift."""

    name: str
    attribute: int
    coordinate: int
    scale: float
    shift: float


def solve(
    moments: Moments,
    task: Task,
    *,
    method: str = "default",
    ridge: float | None = None,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
) -> Model:
    """The model of a release; `features` (columns) and `label` choose among what was released, at no cost."""
    if method not in METHODS:
        raise StudyError(f"method must be one of {', '.join(METHODS)}, got method={method!r}")
    if ridge is not None and not ridge >= 0:
        raise StudyError(f"ridge must be at least 0, got ridge={ridge}")
    estimate = denoise(moments) if method == "default" else complete(moments)
    return _solve(moments, estimate, task, method, ridge, features, label, intercept)


def ridge_path(
    moments: Moments,
    task: Task,
    ridges: Sequence[float],
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
) -> tuple[Model, ...]:
    """One model for each ridge, all from the same release."""
    estimate = denoise(moments)
    return tuple(_solve(moments, estimate, task, "default", r, features, label, intercept) for r in ridges)


def r_squared(moments: Moments, model: Model) -> float:
    """Share of the target's variance that a model's linear fit explains, by the denoised release."""
    if not np.isfinite(model.r_squared):
        raise ReleaseError(f"R^2 needs the square of the label, which the release lacks, label={model.label}")
    return model.r_squared


def _solve(
    moments: Moments,
    estimate: Estimate,
    task: Task,
    method: str,
    ridge: float | None,
    features: Sequence[str] | None,
    label: str | None,
    intercept: bool,
) -> Model:
    layout = moments.layout
    target = target_of(layout, task, label)
    chosen = chosen_attributes(layout, target, features)
    columns = coordinates_of(layout, chosen)
    centred = intercept and bool(np.all(np.isfinite(estimate.std[0, [*columns, target.coordinate]])))
    system = equations(moments, estimate, columns, target, centred)
    if ridge is not None:
        weights = ridge_weights(system.gram, system.right, ridge)
        values = np.maximum(np.linalg.eigvalsh(system.gram), 0.0)
        fit = Fit(weights, float("nan"), float((values / np.maximum(values + ridge, 1e-300)).sum()))
    elif method == "default":
        fit = posterior(system)
        ridge = equivalent_ridge(system.gram, fit.freedom)
    else:
        ridge = 0.0
        if method == "zhang":
            # Zhang et al. 2012, section 6: 4 standard deviations on the diagonal, then only positive eigenvalues.
            own = np.diag(moments.std)[columns]
            ridge = 4.0 * float(np.max(own[np.isfinite(own)], initial=0.0)) / moments.n
        fit = Fit(_unrepaired(system, ridge, trim=method == "zhang"), float("nan"), float(len(columns)))
    full = np.zeros(layout.width)
    full[list(columns)] = fit.weights
    explained = _explained(estimate, system, target, fit)
    if task is Task.LINEAR:
        full *= target.scale
        full[0] = target.shift
        if centred:
            full[0] += target.scale * estimate.margin[target.coordinate] / moments.n - full @ _means(estimate)
    else:
        full = _log_odds(estimate, target, full, centred, system)
    names, coefficients, constant = _dropped(layout, chosen, full)
    return Model(
        task.value, target.name, names, coefficients, constant, method, float(ridge), float(fit.freedom), explained
    )


def target_of(layout: Layout, task: Task, label: str | None) -> Target:
    """The declared label, or another attribute (or one of its levels) that the release has the products of."""
    if label is None or _matches(layout.attributes[layout.label].name, label):
        at, attribute = layout.label, layout.attributes[layout.label]
        last = layout.span(at).stop - 1
        if attribute.kind is Kind.SIGNED:
            # The paper's logistic label stands as 1 - 2y.
            scale, shift = (1.0, 0.0) if task is Task.LINEAR else (-0.5, 0.5)
            return Target(attribute.name, at, last, scale, shift)
        scale, shift = (2.0, -1.0) if task is Task.LINEAR else (1.0, 0.0)
        return Target(attribute.name, at, last, scale, shift)
    for at, attribute in enumerate(layout.attributes):
        span = layout.span(at)
        if _matches(attribute.name, label) and (attribute.kind is Kind.SIGNED or attribute.size == 2):
            coordinate = span.stop - 1
        elif label in attribute.coordinates:
            coordinate = span.start + attribute.coordinates.index(label)
        else:
            continue
        if attribute.kind is Kind.SIGNED and task is Task.LOGISTIC:
            raise StudyError(f"the label of a logistic regression must be a level, got numeric column {label}")
        return Target(label, at, coordinate, 1.0, 0.0)
    raise StudyError(f"the label must be a numeric column or a level that was released, got label={label!r}")


def chosen_attributes(layout: Layout, target: Target, features: Sequence[str] | None) -> tuple[int, ...]:
    """Attributes that the model may use; by default every feature but the target."""
    if features is None:
        return tuple(i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE and i != target.attribute)
    chosen: list[int] = []
    for name in features:
        found = [i for i, a in enumerate(layout.attributes) if _matches(a.name, name)]
        if not found or found[0] == target.attribute:
            raise StudyError(f"a feature must be a released column other than the label, got {name!r}")
        chosen.append(found[0])
    return tuple(sorted(set(chosen)))


def coordinates_of(layout: Layout, attributes: Sequence[int]) -> list[int]:
    """Every coordinate of some attributes, dropped levels included."""
    return [k for i in attributes for k in range(layout.span(i).start, layout.span(i).stop)]


def equations(
    moments: Moments, estimate: Estimate, columns: Sequence[int], target: Target, centred: bool
) -> NoisyEquations:
    """The normal equations of the target's coordinate on some columns, per record."""
    n, at = moments.n, target.coordinate
    second = estimate.covariance if centred else estimate.value
    right_std = estimate.std[list(columns), at]
    if not np.all(np.isfinite(right_std)):
        missing = estimate.layout.names[columns[int(np.argmax(~np.isfinite(right_std)))]]
        raise ReleaseError(f"a label needs its products with every feature, which the release lacks for {missing}")
    mean = float(np.clip(estimate.margin[at] / n, 0.0, 1.0))
    # Split sums: a covariance with one half weighs both noisy halves, by 1-mean and by mean.
    split = moments.layout.attributes[target.attribute].kind is Kind.SIMPLEX and centred
    factor = mean**2 + (1 - mean) ** 2 if split else 1.0
    grid = np.ix_(columns, columns)
    noise = np.where(np.isfinite(estimate.std[grid]), estimate.std[grid], 0.0) ** 2
    inside = moments.layout.attribute_of[list(columns)]
    noise[inside[:, None] == inside[None, :]] = 0.0
    variance = max(float(second[at, at]) / n, 0.0)
    if not np.isfinite(estimate.std[at, at]):
        variance = mean * (1 - mean) if split else 1.0
    return NoisyEquations(
        second[grid] / n,
        second[list(columns), at] / n,
        noise / n**2,
        factor * right_std**2 / n**2,
        variance / n,
        tuple(int(i) for i in inside),
    )


def _unrepaired(system: NoisyEquations, ridge: float, *, trim: bool) -> Floats:
    """The stationary point of the noisy quadratic form, on its positive eigenvectors only where `trim` is set."""
    gram = system.gram + ridge * np.eye(len(system.gram))
    values, vectors = np.linalg.eigh(gram)
    usable = values > 0 if trim else np.abs(values) > 1e-12 * np.abs(values).max()
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    result: Floats = vectors @ (inverse * (vectors.T @ system.right))
    return result


def _explained(estimate: Estimate, system: NoisyEquations, target: Target, fit: Fit) -> float:
    at = target.coordinate
    total = float(estimate.covariance[at, at]) / estimate.n
    if not np.isfinite(estimate.std[at, at]) or total <= 0:
        return float("nan")
    w = fit.weights
    return float(np.clip((2 * w @ system.right - w @ system.gram @ w) / total, -1.0, 1.0))


def _means(estimate: Estimate) -> Floats:
    means = estimate.margin / estimate.n
    means = np.where(np.isfinite(estimate.std[0]), means, 0.0)
    means[0] = 0.0
    result: Floats = means
    return result


def _log_odds(estimate: Estimate, target: Target, full: Floats, centred: bool, system: NoisyEquations) -> Floats:
    """Log-odds of the linear discriminant with the same direction: Gaussian classes with a common covariance."""
    if not centred:
        # The paper's expansion at 0: the log-odds are 4 times the linear fit to y - 1/2.
        return 4.0 * target.scale * full
    means = _means(estimate)
    share = float(np.clip(estimate.margin[target.coordinate] / estimate.n, 1e-6, 1 - 1e-6))
    spread = share * (1 - share)
    used = full != 0
    covariance = np.where(used, estimate.covariance[:, target.coordinate] / estimate.n, 0.0)
    # Fisher: w_discriminant = w_least_squares / (spread (1 - R^2)).
    explained = float(np.clip(full @ covariance / spread, 0.0, LARGEST_SHARE))
    odds = full / (spread * (1 - explained))
    difference = covariance / spread
    middle = means + (0.5 - share) * difference
    odds[0] = float(logit(share)) - float(odds @ middle)
    return odds


def _dropped(
    layout: Layout, attributes: Sequence[int], full: Floats
) -> tuple[tuple[str, ...], tuple[float, ...], float]:
    """The same function without the dropped levels: their weight moves to the intercept."""
    names: list[str] = []
    coefficients: list[float] = []
    constant = float(full[0])
    for i in attributes:
        attribute, span = layout.attributes[i], layout.span(i)
        own = full[span]
        base = 0.0
        if attribute.kind is Kind.SIMPLEX and attribute.drop is not None:
            base = float(own[attribute.drop])
            constant += base
        for j, name in enumerate(attribute.coordinates):
            if j != attribute.drop:
                names.append(name)
                coefficients.append(float(own[j]) - base)
    return tuple(names), tuple(coefficients), constant


def _matches(attribute: str, name: str) -> bool:
    return name in (attribute, attribute.rpartition(".")[2])
