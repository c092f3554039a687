"""From the noisy moments to a model. Everything here is post-processing and costs no privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from colonnade.analysis.accepted import Prospect, accepted, blur_of, quadratic
from colonnade.analysis.denoise import Estimate, complete, denoise
from colonnade.analysis.equations import (
    Target,
    chosen_attributes,
    coordinates_of,
    equations,
    known_means,
    possible,
    raw_gram,
    target_of,
)
from colonnade.analysis.explained import Refit, explained
from colonnade.analysis.glm import GAUSSIAN
from colonnade.analysis.logistic import SHAPES, LogOdds, cautious, discriminant, log_odds
from colonnade.analysis.model import FittedModel
from colonnade.analysis.plausible import plausible_records, with_target
from colonnade.analysis.posterior import (
    Fit,
    NoisyEquations,
    equivalent_ridge,
    followed_noise,
    posterior,
    ridge_weights,
    widened,
)
from colonnade.analysis.quartic import quartic_fit
from colonnade.analysis.shrinkage import bounded_mean
from colonnade.analysis.slopes import Sample, line_through
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.foundation.threads import small_on_one_thread
from colonnade.mechanism.moments import Encoding, Floats, Layout, Moments
from colonnade.mechanism.objective import Task
from colonnade.numerics.spectra import solve_usable

METHODS = ("default", "zhang", "raw")
RECORDS = 8192
"""Plausible records that stand for the features' law in a logistic fit."""
NO_INTERCEPT = (
    "the release does not tell the label's mean or share: the model has no intercept, and cannot be compared with them"
)
MOST_COLUMNS = 300
"""Above this a logistic fit takes the features as Gaussian: the linear discriminant."""


@small_on_one_thread
def solve(
    moments: Moments,
    task: Task,
    *,
    method: str = "default",
    ridge: float | None = None,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
    numbers: Mapping[int, Column] | None = None,
) -> FittedModel:
    """The model of a release; `features` (columns) and `label` choose among what was released, at no cost.

    `numbers` are attributes released by their bins that the model has one weight for (`lines.cut_numbers`).
    Alg. 1, lines 16 and 17.
    """
    if method not in METHODS:
        raise StudyError(f"method must be one of {', '.join(METHODS)}, got method={method!r}")
    if ridge is not None and not ridge >= 0:
        raise StudyError(f"ridge must be at least 0, got ridge={ridge}")
    plainly = task is Task.LOGISTIC and ridge is None and features is None and label is None and intercept
    if method == "default" and moments.sums and plainly:
        return _quartic(moments)
    estimate = denoise(moments) if method == "default" else complete(moments)
    return _solve(moments, estimate, task, method, ridge, features, label, intercept, numbers or {})


def _quartic(moments: Moments) -> FittedModel:
    """The model of a release of order 4."""
    found, layout = quartic_fit(moments), moments.layout
    names = tuple(layout.names[c] for c in layout.features)
    weights = tuple(float(w) for w in found.weights)
    told = f"quartic on scores of ±{found.interval:g}, at most {100 * found.outside:.2g}% of records outside"
    if found.on_edge:
        told += ", minimum on the edge of the ball"
    label = target_of(layout, Task.LOGISTIC, None).name
    nan = float("nan")
    model = FittedModel(Task.LOGISTIC.value, label, names, weights[1:], weights[0], told, nan, float(len(names)), nan)
    return accepted(model, "quartic, logistic", found.evidence)


@small_on_one_thread
def ridge_path(
    moments: Moments,
    task: Task,
    ridges: Sequence[float],
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
    numbers: Mapping[int, Column] | None = None,
) -> tuple[FittedModel, ...]:
    """One model for each ridge, all from the same release."""
    estimate, lines = denoise(moments), numbers or {}
    return tuple(_solve(moments, estimate, task, "default", r, features, label, intercept, lines) for r in ridges)


def _solve(
    moments: Moments,
    estimate: Estimate,
    task: Task,
    method: str,
    ridge: float | None,
    features: Sequence[str] | None,
    label: str | None,
    intercept: bool,
    numbers: Mapping[int, Column],
) -> FittedModel:
    layout = moments.layout
    target = target_of(layout, task, label)
    chosen = chosen_attributes(layout, target, features)
    centred = intercept and known_means(estimate, [*coordinates_of(layout, chosen), target.coordinate])
    columns = coordinates_of(layout, chosen, dropped=not centred)
    if centred and not np.isfinite(estimate.std[target.coordinate, columns]).any() and not _has_pairs(moments):
        return _trivial(layout, estimate, target, task, chosen, method)
    system = equations(moments, estimate, columns, target, centred)
    if method == "default":
        system = possible(system, _largest_variance(estimate, target, centred))
    own_ridge = ridge is None
    system, fit, ridge, followed = _weights(moments, estimate, task, method, ridge, columns, system, centred)
    shrunk = method == "default" and own_ridge
    stated = known = None
    told = ""
    if task is Task.LINEAR and method == "default" and centred:
        refit = _refit(system, None if own_ridge else ridge)
        stated = explained(moments, estimate, target, columns, system, fit.weights, refit)
    full = np.zeros(layout.width)
    full[columns] = fit.weights
    sample: Sample | None = None
    if task is Task.LINEAR:
        known, told = _linear_evidence(moments, estimate, target, system, fit, followed, centred)
        full *= target.scale
        if centred:
            middle = target.shift + target.scale * estimate.margin[target.coordinate] / moments.n
            full[0] = middle - full @ _means(estimate)
    elif not centred:
        full, constant = _uncentred(moments, estimate, target, columns, system, fit, shrunk)
        full[0] = constant if intercept else 0.0
        told = "" if full[0] else NO_INTERCEPT
    else:
        odds, sample = _log_odds(moments, estimate, target, chosen, columns, system, fit, followed, shrunk)
        known = odds.evidence
        full[columns] = odds.fit.weights
        full[0] = odds.intercept - full @ _means(estimate)
    numbers = {i: column for i, column in numbers.items() if i in chosen}
    if numbers:
        _require_lines(centred)
        layout, full, lost = line_through(estimate, full, chosen, numbers, sample)
        known = known and replace(known, reached=known.reached - lost / (1.0 if sample else target.scale**2))
        # What the line loses of the bins' R^2 is not known.
        stated = None
    names, coefficients, constant = _dropped(layout, chosen, full)
    share, interval = (float("nan"), None) if stated is None else (stated.value, (stated.low, stated.high))
    penalty, freedom = float(ridge), float(fit.freedom)
    model = FittedModel(
        task.value, target.name, names, coefficients, constant, method, penalty, freedom, share, interval
    )
    if known is not None:
        known = replace(known, blur=known.blur + _blur(estimate, target, columns, known))
    return accepted(model, _estimator(task, method, None if own_ridge else ridge), known, known=told)


def _weights(
    moments: Moments,
    estimate: Estimate,
    task: Task,
    method: str,
    ridge: float | None,
    columns: Sequence[int],
    system: NoisyEquations,
    centred: bool,
) -> tuple[NoisyEquations, Fit, float, float]:
    """The linear fit: its equations, weights and ridge, and what of w'c is expected to be noise."""
    if ridge is not None:
        weights = ridge_weights(system.gram, system.right, ridge)
        values = np.maximum(np.linalg.eigvalsh(system.gram), 0.0)
        fit = Fit(weights, float("nan"), float((values / np.maximum(values + ridge, 1e-300)).sum()))
    elif method == "default":
        fit = posterior(system)
        if task is Task.LINEAR or len(columns) > MOST_COLUMNS:
            system = widened(system, fit, *raw_gram(moments, estimate, columns, centred))
            fit = posterior(system)
        return system, fit, equivalent_ridge(system.gram, fit.freedom), followed_noise(system.judged, fit)
    else:
        ridge = 0.0
        if method == "zhang":
            # Zhang et al. 2012, section 6: 4 standard deviations on the diagonal, then only positive eigenvalues.
            own = np.diag(moments.std)[columns]
            ridge = 4.0 * float(np.max(own[np.isfinite(own)], initial=0.0)) / moments.n
        fit = Fit(_unrepaired(system, ridge, trim=method == "zhang"), float("nan"), float(len(columns)))
    # Of weights that are not shrunk the noise that they followed grows without limit: what shrinking leaves is asked.
    believed = system.gram @ posterior(system.judged).weights
    return system, fit, ridge, float(fit.weights @ (system.right - believed))


def _estimator(task: Task, method: str, ridge: float | None) -> str:
    """What a reader may call it."""
    told = "noise posterior" if method == "default" else method
    return f"{told if ridge is None else f'ridge {ridge:g}'}, {task.value}"


def _linear_evidence(
    moments: Moments,
    estimate: Estimate,
    target: Target,
    system: NoisyEquations,
    fit: Fit,
    followed: float,
    centred: bool,
) -> tuple[Prospect | None, str]:
    """What the release says of a linear fit, in units of the target's coordinate; or why it says nothing."""
    at, w, system = target.coordinate, fit.weights, system.judged
    middle = 0.0
    if not centred:
        if not np.isfinite(estimate.std[0, at]):
            return None, NO_INTERCEPT
        # Without an intercept predictions start from the middle of the label's bounds.
        split = estimate.layout.attributes[target.attribute].kind is Encoding.SIMPLEX
        middle = float(estimate.margin[at]) / estimate.n - (0.5 if split else 0.0)
    noise = float(np.sqrt(w**2 @ system.right_noise + system.sampling * (w @ system.sampled @ w)))
    unit = max(moments.n * system.sampling, 1e-300)
    reached = float(w @ system.right) - followed
    law, blur = quadratic(system.sampled), 0.5 * middle**2
    found = Prospect(law, GAUSSIAN, np.zeros(1), w[:, None], reached, noise, blur, unit)
    return replace(found, guessed=system.guessed), ""


def _blur(estimate: Estimate, target: Target, columns: Sequence[int], known: Prospect) -> float:
    """What the noise on the means of label and features is expected to cost."""
    std = float(estimate.std[0, target.coordinate]) / estimate.n
    if known.family is not GAUSSIAN:
        std *= abs(target.scale)
    own = blur_of(known.family, known.means, np.array([std]))
    means = np.where(np.isfinite(estimate.std[0, list(columns)]), estimate.std[0, list(columns)], 0.0) / estimate.n
    moved = 0.5 * float(known.family.variance(known.means) @ ((known.weights.T * means) ** 2).sum(axis=1))
    return own + moved


def _has_pairs(moments: Moments) -> bool:
    """Whether anything was released about two attributes together."""
    attribute = moments.layout.attribute_of[1:]
    return bool(np.isfinite(moments.std[1:, 1:])[attribute[:, None] != attribute].any())


def _trivial(
    layout: Layout, estimate: Estimate, target: Target, task: Task, chosen: Sequence[int], method: str
) -> FittedModel:
    """The model of margins alone: the label's mean or share, whatever the features are."""
    if task is Task.LINEAR:
        constant = target.shift + target.scale * float(estimate.margin[target.coordinate]) / estimate.n
    else:
        constant = float(logit(released_share(estimate, target)))
    names, coefficients, _ = _dropped(layout, chosen, np.zeros(layout.width))
    nan = float("nan")
    model = FittedModel(task.value, target.name, names, coefficients, constant, method, float("inf"), 0.0, nan)
    what = "mean" if task is Task.LINEAR else "share"
    told = f"the release holds margins alone: the model is the {what} of {target.name}, whatever the features are"
    return accepted(model, what, known=told)


def _log_odds(
    moments: Moments,
    estimate: Estimate,
    target: Target,
    chosen: Sequence[int],
    columns: Sequence[int],
    system: NoisyEquations,
    fit: Fit,
    followed: float,
    shrunk: bool,
) -> tuple[LogOdds, Sample | None]:
    """The logistic fit by the features' law where noise is shrunk and columns are few enough; else the discriminant.

    With it the sample that stands for that law.
    """
    share = released_share(estimate, target)
    if not shrunk or len(columns) > MOST_COLUMNS:
        return discriminant(system, fit, share, followed, shrunk), None
    start = posterior(system, SHAPES)
    two = moments.layout.attributes[target.attribute].size == 2
    drawn = estimate
    if two:
        own = np.arange(2) == target.coordinate - moments.layout.starts[target.attribute]
        levels = np.outer(system.gram @ start.weights, np.where(own, 1.0, -1.0))
        drawn = with_target(estimate, columns, target.attribute, levels)
    records, weights = plausible_records(drawn, chosen, RECORDS, target.attribute if two else None)
    return log_odds(system, start, share, records[:, columns], weights, moments.n), (records, weights)


def _require_lines(centred: bool) -> None:
    if not centred:
        raise StudyError("a number in the place of its bins needs the columns' means and an intercept")


def _uncentred(
    moments: Moments,
    estimate: Estimate,
    target: Target,
    columns: Sequence[int],
    system: NoisyEquations,
    fit: Fit,
    shrunk: bool,
) -> tuple[Floats, float]:
    """Log-odds and intercept where the features' means are unknown."""
    full = np.zeros(moments.layout.width)
    if shrunk and moments.traces and np.isfinite(estimate.std[0, target.coordinate]):
        odds = cautious(system, fit, released_share(estimate, target))
        full[columns] = target.scale * odds.fit.weights
        return full, odds.intercept
    # The paper's expansion at 0: the log-odds are 4 times the linear fit to y - 1/2.
    full[columns] = 4.0 * target.scale * fit.weights
    return full, 0.0


def _largest_variance(estimate: Estimate, target: Target, centred: bool) -> float:
    """Of a coordinate in [0, 1] by its mean; of a signed one 1."""
    if estimate.layout.attributes[target.attribute].kind is Encoding.SIGNED or not centred:
        return 1.0
    mean = float(np.clip(estimate.margin[target.coordinate] / estimate.n, 0.0, 1.0))
    return mean * (1.0 - mean)


def released_share(estimate: Estimate, target: Target) -> float:
    """The positive class's share, as far as its noise lets it be known."""
    mean = target.shift + target.scale * float(estimate.margin[target.coordinate]) / estimate.n
    std = abs(target.scale) * float(estimate.std[0, target.coordinate]) / estimate.n
    if estimate.layout.attributes[target.attribute].kind is Encoding.SIGNED:
        mean = bounded_mean(mean, std, 0.0, 1.0)
    return float(np.clip(mean, 1e-6, 1 - 1e-6))


def _unrepaired(system: NoisyEquations, ridge: float, *, trim: bool) -> Floats:
    """The stationary point of the noisy quadratic form, on its positive eigenvectors only where `trim` is set."""

    def usable(values: Floats) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = values > 0 if trim else np.abs(values) > 1e-12 * np.abs(values).max()
        return found

    return solve_usable(system.gram, system.right, usable, ridge)


def _refit(system: NoisyEquations, ridge: float | None) -> Refit:
    """How the weights follow from a right-hand side."""
    if ridge is not None:
        return lambda right: ridge_weights(system.gram, right, ridge)
    return lambda right: posterior(replace(system, right=right)).weights


def _means(estimate: Estimate) -> Floats:
    means = estimate.margin / estimate.n
    means = np.where(np.isfinite(estimate.std[0]), means, 0.0)
    means[0] = 0.0
    result: Floats = means
    return result


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
        if attribute.kind is Encoding.SIMPLEX and attribute.drop is not None:
            base = float(own[attribute.drop])
            constant += base
        for j, name in enumerate(layout.names[span]):
            if j != attribute.drop:
                names.append(name)
                coefficients.append(float(own[j]) - base)
    return tuple(names), tuple(coefficients), constant
