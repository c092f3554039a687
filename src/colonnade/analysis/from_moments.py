"""Models of a number or of a yes or no from a release's second moments: what of them noise lets be known.

Each estimator here solves the same normal equations (`equations`), and ends in weights of all coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from colonnade.analysis.accepted import Found, Prospect, blur_of, quadratic
from colonnade.analysis.denoise import Estimate
from colonnade.analysis.equations import Target, equations, possible, raw_gram
from colonnade.analysis.explained import explained
from colonnade.analysis.families import GAUSSIAN
from colonnade.analysis.logistic import SHAPES, cautious, discriminant, log_odds
from colonnade.analysis.model import FittedModel
from colonnade.analysis.plausible import plausible_records, with_target
from colonnade.analysis.posterior import (
    Fit,
    NoisyEquations,
    equivalent_ridge,
    followed_noise,
    posterior,
    ridge_weights,
    sound_part,
    widened,
)
from colonnade.analysis.question import Problem
from colonnade.analysis.shrinkage import bounded_mean
from colonnade.analysis.slopes import Sample, line_through
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Encoding, Floats, Layout
from colonnade.numerics.spectra import solve_usable

RECORDS = 8192
"""Plausible records that stand for the features' law in a logistic fit."""
NO_INTERCEPT = (
    "the release does not tell the label's mean or share: the model has no intercept, and cannot be compared with them"
)
MOST_COLUMNS = 300
"""Above this a logistic fit takes the features as Gaussian: the linear discriminant."""


@dataclass(frozen=True)
class Solved:
    """The linear fit: its equations, weights and penalty, and what of w'c is expected to be noise."""

    system: NoisyEquations
    fit: Fit
    ridge: float
    followed: float
    shrunk: bool
    """Whether the noise posterior has shrunk them."""

    @property
    def sound(self) -> float:
        """The part of w'c that is no outlier of noise."""
        return sound_part(self.system, self.fit) if self.shrunk else 1.0


def by_posterior(problem: Problem) -> Solved:
    """The noise posterior; with a penalty that was asked for the ridge fit of its equations."""
    system = possible(_equations(problem), _largest_variance(problem))
    fit = posterior(system)
    system = system.after(fit, problem.moments.n)
    if problem.question.strength is not None:
        return _penalised(system, problem.question.strength)
    fit = posterior(system)
    if problem.family.identity or len(problem.columns) > MOST_COLUMNS:
        raw = raw_gram(problem.moments, problem.estimate, problem.columns, problem.centred)
        system = widened(system, fit, *raw)
        fit = posterior(system)
    ridge = equivalent_ridge(system.gram, fit.freedom)
    return Solved(system, fit, ridge, followed_noise(system.judged, fit), True)


def by_raw(problem: Problem) -> Solved:
    """The stationary point of the noisy quadratic form, or the ridge fit that is asked for."""
    system = _equations(problem)
    system = system.after(posterior(system), problem.moments.n)
    if problem.question.strength is not None:
        return _penalised(system, problem.question.strength)

    def usable(values: Floats) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.abs(values) > 1e-12 * np.abs(values).max()
        return found

    return _unshrunk(system, solve_usable(system.gram, system.right, usable, 0.0), 0.0, len(system.right))


def by_zhang(problem: Problem) -> Solved:
    """Zhang et al. 2012, section 6: 4 standard deviations on the diagonal, then only positive eigenvalues."""
    if problem.question.strength is not None:
        raise StudyError(f"method zhang has a penalty of its own, got ridge={problem.question.strength:g}")
    system, own = _equations(problem), np.diag(problem.moments.std)[problem.columns]
    system = system.after(posterior(system), problem.moments.n)
    ridge = 4.0 * float(np.max(own[np.isfinite(own)], initial=0.0)) / problem.moments.n
    weights = solve_usable(system.gram, system.right, lambda values: values > 0, ridge)
    return _unshrunk(system, weights, ridge, len(system.right))


def _equations(problem: Problem) -> NoisyEquations:
    return equations(problem.moments, problem.estimate, problem.columns, problem.target, problem.centred)


def _penalised(system: NoisyEquations, ridge: float) -> Solved:
    """The ridge fit of a strength that was asked for."""
    values = np.maximum(np.linalg.eigvalsh(system.gram), 0.0)
    freedom = float((values / np.maximum(values + ridge, 1e-300)).sum())
    return _unshrunk(system, ridge_weights(system.gram, system.right, ridge), ridge, freedom)


def _unshrunk(system: NoisyEquations, weights: Floats, ridge: float, freedom: float) -> Solved:
    # Of weights that are not shrunk the noise that they followed grows without limit: what shrinking leaves is asked.
    believed = system.gram @ posterior(system.judged).weights
    followed = float(weights @ (system.right - believed))
    return Solved(system, Fit(weights, float("nan"), float(freedom)), ridge, followed, False)


def _largest_variance(problem: Problem) -> float:
    """Of a coordinate in [0, 1] by its mean; of a signed one 1."""
    if problem.layout.attributes[problem.target.attribute].kind is Encoding.SIGNED or not problem.centred:
        return 1.0
    mean = float(np.clip(problem.estimate.margin[problem.target.coordinate] / problem.estimate.n, 0.0, 1.0))
    return mean * (1.0 - mean)


# From weights to a model ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Ending:
    """Weights of all coordinates, the constant's first, and what is known of them."""

    full: Floats
    evidence: Prospect | None = None
    told: str = ""
    sample: Sample | None = None
    """Records that stand for the features' law, where one was drawn."""


def base_rate(problem: Problem) -> Found:
    """The model of margins alone: the label's mean or share, whatever the features are."""
    question, target, family = problem.question, problem.target, problem.family
    if question.strength is not None or question.method != "default":
        asked = f"ridge={question.strength:g}" if question.strength is not None else f"method={question.method!r}"
        raise StudyError(
            f"a release of margins alone gives no feature a weight that a penalty could change, got {asked}"
        )
    full = np.zeros(problem.layout.width)
    if family.identity:
        full[0] = target.shift + target.scale * float(problem.estimate.margin[target.coordinate]) / problem.estimate.n
    else:
        full[0] = float(logit(released_share(problem.estimate, target)))
    told = (
        f"the release holds margins alone: the model is the {family.base} of {target.name}, whatever the features are"
    )
    return Found(_model(problem, problem.layout, full, float("inf"), 0.0), told=told)


def numbers(problem: Problem, solved: Solved) -> Found:
    """A linear model of the label itself."""
    target, estimate, system = problem.target, problem.estimate, solved.system
    stated = None
    if problem.centred and problem.question.method == "default":
        refit: Callable[[Floats], Floats] = lambda right: ridge_weights(system.gram, right, solved.ridge)  # noqa: E731
        if solved.shrunk:
            refit = lambda right: posterior(replace(system, right=right)).weights  # noqa: E731
        stated = explained(problem.moments, estimate, target, problem.columns, system, solved.fit.weights, refit)
    known, told = _linear_evidence(problem, solved)
    full = np.zeros(problem.layout.width)
    full[problem.columns] = target.scale * solved.fit.weights
    if problem.centred:
        middle = target.shift + target.scale * estimate.margin[target.coordinate] / estimate.n
        full[0] = middle - full @ _means(estimate)
    found = _ended(problem, solved, _Ending(full, known, told))
    # What a line through bins loses of their R^2 is not known.
    if stated is None or _taken(problem):
        return found
    model = replace(found.model, r_squared=stated.value, r_squared_interval=(stated.low, stated.high))
    return replace(found, model=model)


def expansion(problem: Problem, solved: Solved) -> Found:
    """The paper's expansion at 0: the log-odds are 4 times the linear fit to y - 1/2."""
    full = np.zeros(problem.layout.width)
    full[problem.columns] = 4.0 * problem.target.scale * solved.fit.weights
    return _ended(problem, solved, _Ending(full, told=NO_INTERCEPT))


def trace(problem: Problem, solved: Solved) -> Found:
    """Log-odds where of the features' products their sums are known, and of the label its share."""
    full, share = np.zeros(problem.layout.width), released_share(problem.estimate, problem.target)
    odds = cautious(solved.system, solved.fit, share, solved.followed, problem.target.scale)
    full[problem.columns] = odds.fit.weights
    full[0] = odds.intercept if problem.question.intercept else 0.0
    return _ended(problem, solved, _Ending(full, odds.evidence) if full[0] else _Ending(full, told=NO_INTERCEPT))


def fisher(problem: Problem, solved: Solved) -> Found:
    """The linear discriminant: features are taken as Gaussian in each class."""
    share = released_share(problem.estimate, problem.target)
    odds = discriminant(solved.system, solved.fit, share, solved.followed, solved.shrunk)
    full = _odds(problem, odds.fit.weights, odds.intercept)
    return _ended(problem, replace(solved, fit=odds.fit), _Ending(full, odds.evidence))


def log_odds_of(problem: Problem) -> Found:
    """The likeliest log-odds, by records that the release makes plausible."""
    solved, target, estimate = by_posterior(problem), problem.target, problem.estimate
    system, layout = solved.system, problem.layout
    share, start = released_share(estimate, target), posterior(system, SHAPES)
    two = layout.attributes[target.attribute].size == 2
    if two:
        own = np.arange(2) == target.coordinate - layout.starts[target.attribute]
        levels = np.outer(system.gram @ start.weights, np.where(own, 1.0, -1.0))
        estimate = with_target(estimate, problem.columns, target.attribute, levels)
    records, weights = plausible_records(estimate, problem.chosen, RECORDS, target.attribute if two else None)
    odds = log_odds(system, start, share, records[:, problem.columns], weights, problem.moments.n)
    full = _odds(problem, odds.fit.weights, odds.intercept)
    return _ended(problem, solved, _Ending(full, odds.evidence, sample=(records, weights)))


def _odds(problem: Problem, weights: Floats, intercept: float) -> Floats:
    """Weights of all coordinates, from those of centred features."""
    full = np.zeros(problem.layout.width)
    full[problem.columns] = weights
    full[0] = intercept - full @ _means(problem.estimate)
    return full


def _taken(problem: Problem) -> dict[int, Column]:
    """The features released by their bins that the model takes as numbers."""
    return {i: column for i, column in problem.held.numbers.items() if i in problem.chosen}


def _ended(problem: Problem, solved: Solved, end: _Ending) -> Found:
    """The model with what is known of it, its bins put on a line where that was asked for."""
    layout, full, known = problem.layout, end.full, end.evidence
    if taken := _taken(problem):
        if not problem.centred:
            raise StudyError("a number in the place of its bins needs the columns' means and an intercept")
        layout, full, lost = line_through(problem.estimate, full, problem.chosen, taken, end.sample)
        unit = 1.0 if end.sample else problem.target.scale**2
        known = known and replace(known, reached=known.reached - lost / unit)
    if known is not None:
        known = replace(known, blur=known.blur + _blur(problem, known))
    return Found(_model(problem, layout, full, solved.ridge, solved.fit.freedom), known, end.told)


def _model(problem: Problem, layout: Layout, full: Floats, ridge: float, freedom: float) -> FittedModel:
    """The same function without the dropped levels: their weight moves to the intercept."""
    names: list[str] = []
    weights: list[float] = []
    constant = float(full[0])
    for i in problem.chosen:
        attribute, span = layout.attributes[i], layout.span(i)
        own, base = full[span], 0.0
        if attribute.kind is Encoding.SIMPLEX and attribute.drop is not None:
            base = float(own[attribute.drop])
            constant += base
        kept = [j for j in range(attribute.size) if j != attribute.drop]
        names += [layout.names[span][j] for j in kept]
        weights += [float(own[j]) - base for j in kept]
    question, rows = problem.question, (tuple(weights),)
    name = problem.target.name
    return FittedModel(
        question.task, name, tuple(names), rows, (constant,), question.method, float(ridge), float(freedom)
    )


def _linear_evidence(problem: Problem, solved: Solved) -> tuple[Prospect | None, str]:
    """What the release says of a linear fit, in units of the target's coordinate; or why it says nothing."""
    at, w, system, estimate = problem.target.coordinate, solved.fit.weights, solved.system.judged, problem.estimate
    middle = 0.0
    if not problem.centred:
        if not np.isfinite(estimate.std[0, at]):
            return None, NO_INTERCEPT
        # Without an intercept predictions start from the middle of the label's bounds.
        split = problem.layout.attributes[problem.target.attribute].kind is Encoding.SIMPLEX
        middle = float(estimate.margin[at]) / estimate.n - (0.5 if split else 0.0)
    # Half of w'Cw is the cost, and noise on C is noise on that.
    bent = 0.5 * float(w**2 @ system.gram_noise @ w**2)
    noise = float(np.sqrt(w**2 @ system.right_noise + system.sampling * (w @ system.sampled @ w) + bent))
    unit = max(problem.moments.n * system.sampling, 1e-300)
    reached = solved.sound * (float(w @ system.right) - solved.followed)
    law, blur = quadratic(system.sampled), 0.5 * middle**2
    found = Prospect(law, GAUSSIAN, np.zeros(1), w[:, None], reached, noise, blur, unit)
    mean = float(estimate.margin[at]) / estimate.n
    # Of a label in its own units, which count from -1 to 1.
    ends = [(end - problem.target.shift) / problem.target.scale - mean for end in (-1.0, 1.0)]
    bounds = (min(ends), max(ends)) if problem.centred else None
    return replace(found, guessed=solved.system.guessed, bounds=bounds), ""


def _blur(problem: Problem, known: Prospect) -> float:
    """What the noise on the means of label and features is expected to cost."""
    target, estimate, columns = problem.target, problem.estimate, problem.columns
    std = float(estimate.std[0, target.coordinate]) / estimate.n
    if not known.family.identity:
        std *= abs(target.scale)
    own = blur_of(known.family, known.means, np.array([std]))
    means = np.where(np.isfinite(estimate.std[0, columns]), estimate.std[0, columns], 0.0) / estimate.n
    moved = 0.5 * float(known.family.variance(known.means) @ ((known.weights.T * means) ** 2).sum(axis=1))
    return own + moved


def has_pairs(problem: Problem) -> bool:
    """Whether anything was released about the label and a feature, or about two attributes together."""
    if np.isfinite(problem.estimate.std[problem.target.coordinate, problem.columns]).any():
        return True
    attribute = problem.layout.attribute_of[1:]
    return bool(np.isfinite(problem.moments.std[1:, 1:])[attribute[:, None] != attribute].any())


def released_share(estimate: Estimate, target: Target) -> float:
    """The positive class's share, as far as its noise lets it be known."""
    mean = target.shift + target.scale * float(estimate.margin[target.coordinate]) / estimate.n
    std = abs(target.scale) * float(estimate.std[0, target.coordinate]) / estimate.n
    if estimate.layout.attributes[target.attribute].kind is Encoding.SIGNED:
        mean = bounded_mean(mean, std, 0.0, 1.0)
    return float(np.clip(mean, 1e-6, 1 - 1e-6))


def _means(estimate: Estimate) -> Floats:
    means = np.where(np.isfinite(estimate.std[0]), estimate.margin / estimate.n, 0.0)
    means[0] = 0.0
    result: Floats = means
    return result
