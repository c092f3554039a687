"""Confidence intervals that count both the sampling of the records and the noise: parametric bootstrap of the release.

The denoised release plays the truth. Each draw adds noise of the released law and scale to every released entry, and
sampling noise to the label's products, and is solved without shrinkage. The intervals stand around the unshrunk
solution of the real release, since a shrunk one is biased by design. Noise on the products with the label makes them
wide; noise on the features' own products that reaches their covariance in some direction leaves no solution to stand
around, and intervals are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.denoise import Estimate, complete, denoise
from colonnade.mechanism.equations import Target, chosen_attributes, coordinates_of, equations, known_means, target_of
from colonnade.mechanism.logistic import discriminant
from colonnade.mechanism.moments import Floats, Kind, Law, Moments
from colonnade.mechanism.objective import Task
from colonnade.mechanism.posterior import Fit, NoisyEquations, ridge_weights

DRAWS = 400
LOUDEST = 1.0
"""Largest noise on the features' covariance, over that covariance, in all draws but one of twenty."""
SEED = b"intervals"


@dataclass(frozen=True)
class Interval:
    """A coefficient in encoded units with its standard error and its confidence interval."""

    feature: str
    estimate: float
    std: float
    low: float
    high: float


@dataclass(frozen=True)
class _Question:
    """What is fitted: target, columns, whether with an intercept."""

    task: Task
    target: Target
    columns: tuple[int, ...]
    centred: bool


def intervals(
    moments: Moments,
    task: Task,
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
    level: float = 0.95,
    draws: int = DRAWS,
) -> tuple[Interval, ...]:
    """Intervals for every coefficient; for a logistic model they are those of its linear discriminant."""
    if not 0 < level < 1:
        raise StudyError(f"a confidence level must lie between 0 and 1, got level={level}")
    if draws < 20:
        raise StudyError(f"a bootstrap needs at least 20 draws, got draws={draws}")
    layout = moments.layout
    target = target_of(layout, task, label)
    chosen = chosen_attributes(layout, target, features)
    raw, clean = complete(moments), denoise(moments)
    centred = intercept and known_means(raw, [*coordinates_of(layout, chosen), target.coordinate])
    question = _Question(task, target, tuple(coordinates_of(layout, chosen, dropped=True)), centred)
    if moments.traces:
        raise ReleaseError("intervals need the products of the features, got a release of traces")
    centre = _coefficients(moments, raw, question)
    truth = _truth(moments, clean, question)
    drawn = [(m, complete(m)) for m in _draws(truth, clean, question, draws)]
    loudness = _loudness(truth, drawn, question)
    if not loudness < LOUDEST:
        raise ReleaseError(
            "intervals need noise on the products of the features that is smaller than their covariance in every "
            f"direction, got noise of {loudness:.3g} times it"
        )
    error = np.array([_coefficients(*draw, question) for draw in drawn]) - _coefficients(
        truth, complete(truth), question
    )
    # Half the central 68% is the standard deviation of a normal law, and stays finite when a draw is nearly singular.
    below, above = np.quantile(error, [0.15865525, 0.84134475], axis=0)
    std = 0.5 * (above - below)
    # The errors of the draws stand for the error of the release. Both tails together give the outer quantile, which
    # under Laplace noise lies beyond that of a normal law with the same middle.
    reach = np.quantile(np.abs(error), level, axis=0, method="weibull")
    return tuple(
        Interval(layout.names[k], float(w), float(s), float(w - r), float(w + r))
        for k, w, s, r in zip(question.columns, centre, std, reach, strict=True)
    )


def _coefficients(moments: Moments, estimate: Estimate, question: _Question) -> Floats:
    """The unshrunk solution."""
    system = _system(moments, estimate, question)
    weights = _solution(system)
    if question.task is Task.LINEAR:
        return question.target.scale * weights
    if not question.centred:
        return 4.0 * question.target.scale * weights
    share = float(np.clip(estimate.margin[question.target.coordinate] / moments.n, 1e-6, 1 - 1e-6))
    return discriminant(system, Fit(weights, float("nan"), float(weights.size)), share).fit.weights


def _loudness(truth: Moments, drawn: Sequence[tuple[Moments, Estimate]], question: _Question) -> float:
    """How large the noise of C is against C in its worst direction, in all draws but one of twenty."""
    values, vectors = np.linalg.eigh(_system(truth, complete(truth), question).gram)
    if values[0] <= 1e-9 * max(float(values[-1]), 1e-300):
        return float("inf")
    whitening = vectors / np.sqrt(values)
    worst = []
    for draw in drawn:
        changed = np.linalg.eigvalsh(whitening.T @ _system(*draw, question).gram @ whitening)
        worst.append(max(float(changed[-1]) - 1.0, 1.0 - float(changed[0])))
    return float(np.quantile(worst, 0.95))


def _system(moments: Moments, estimate: Estimate, question: _Question) -> NoisyEquations:
    return equations(moments, estimate, question.columns, question.target, question.centred)


def _solution(system: NoisyEquations) -> Floats:
    values, vectors = np.linalg.eigh(system.gram)
    usable = np.abs(values) > 1e-12 * max(float(np.abs(values).max()), 1e-300)
    inverse = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    result: Floats = vectors @ (inverse * (vectors.T @ system.right))
    return result


def _truth(moments: Moments, clean: Estimate, question: _Question) -> Moments:
    """The denoised values in the places that were released."""
    released = np.isfinite(moments.std) & (moments.std > 0)
    return replace(moments, value=np.where(released, clean.value, moments.value))


def _draws(truth: Moments, clean: Estimate, question: _Question, draws: int) -> list[Moments]:
    """Releases that might have come of the truth."""
    source = Randomness(seed=SEED)
    upper = np.triu(np.isfinite(truth.std) & (truth.std > 0))
    rows, columns = np.nonzero(upper)
    spread = truth.std[rows, columns]
    sampling = _sampling(truth, clean, question)
    at, split = question.target.coordinate, truth.layout.attributes[question.target.attribute].kind is Kind.SIMPLEX
    other = at - 1 if split and question.target.attribute == truth.layout.label else None
    out = []
    for _ in range(draws):
        value = truth.value.copy()
        noise = spread * _standard(source, rows.size, truth.law)
        value[rows, columns] += noise
        value[columns, rows] = value[rows, columns]
        if sampling.root.size:
            moved = sampling.draw(source)
            index = list(question.columns)
            _add(value, index, at, moved)
            if other is not None:
                # Records that leave one half of the label enter the other: margins stay.
                _add(value, index, other, -moved)
            _rebalance(value, truth, question, moved, at, other)
        out.append(replace(truth, value=value))
    return out


def _add(value: Floats, index: list[int], at: int, moved: Floats) -> None:
    value[index, at] += moved
    value[at, index] = value[index, at]


def _rebalance(value: Floats, truth: Moments, question: _Question, moved: Floats, at: int, other: int | None) -> None:
    """A dropped level takes up what the other levels of its attribute gained, so that the label's margin stays."""
    layout = truth.layout
    place = {k: i for i, k in enumerate(question.columns)}
    for i in {int(layout.attribute_of[k]) for k in question.columns}:
        attribute = layout.attributes[i]
        if attribute.kind is Kind.SIMPLEX and attribute.drop is not None:
            span = layout.span(i)
            gained = sum(float(moved[place[k]]) for k in range(span.start, span.stop) if k in place)
            _add(value, [span.start + attribute.drop], at, np.array([-gained]))
            if other is not None:
                _add(value, [span.start + attribute.drop], other, np.array([gained]))


@dataclass(frozen=True)
class _Sampling:
    """What drawing n records does to the label's products: a residual variance, known with some noise, times n C."""

    root: Floats
    """A root of n C."""
    residual: float
    std: float
    total: float

    def draw(self, source: Randomness) -> Floats:
        """One change of the products. A residual that the square's noise may hide is drawn anew, not taken as known."""
        low, high = ndtr((np.array([0.0, self.total]) - self.residual) / max(self.std, 1e-12 * self.total))
        place = float(np.clip(low + (high - low) * float(_uniform(source, 1)[0]), 1e-15, 1 - 1e-15))
        variance = np.clip(self.residual + self.std * float(ndtri(place)), 0.01 * self.total, self.total)
        moved: Floats = np.sqrt(variance) * (self.root @ _standard(source, self.root.shape[1], Law.GAUSSIAN))
        return moved


def _sampling(truth: Moments, clean: Estimate, question: _Question) -> _Sampling:
    system = _system(truth, clean, question)
    at = question.target.coordinate
    total, std = system.sampling * truth.n, 0.0
    if np.isfinite(clean.std[at, at]):
        std = float(clean.std[at, at]) / truth.n
    else:
        # The label's square was not released: `total` is the largest it can be, and the intervals are too wide.
        mean = float(np.clip(clean.margin[at] / truth.n, 0.0, 1.0))
        total = mean * (1.0 - mean) if truth.layout.attributes[question.target.attribute].kind is Kind.SIMPLEX else 1.0
    weights = ridge_weights(system.gram, system.right, 0.0)
    values, vectors = np.linalg.eigh(system.gram)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0) * truth.n)
    return _Sampling(root, total - float(weights @ system.right), std, total)


def _uniform(source: Randomness, count: int) -> Floats:
    """No secret: these numbers perturb what is published already."""
    uniform: Floats = ((source.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return uniform


def _standard(source: Randomness, count: int, law: Law) -> Floats:
    """Numbers of mean 0 and variance 1."""
    uniform = _uniform(source, count)
    if law is Law.GAUSSIAN:
        normal: Floats = ndtri(uniform)
        return normal
    centred = uniform - 0.5
    laplace: Floats = -np.sign(centred) * np.log1p(-2.0 * np.abs(centred)) / np.sqrt(2.0)
    return laplace
