"""A logistic model from sums of products of up to four features: a quartic stands for the loss on an interval.

ln(1 + e^z) = z/2 + ln(2 cosh(z/2)), of which the even part is fitted by c0 + c2 z^2 + c4 z^4 on an interval of scores.
c4 is negative: the polynomial has no minimum, and is minimised where the root mean square of z is at most the ball's
radius. How many records may lie outside the interval follows from the released fourth moments (Markov).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.polynomial import Polynomial as Powers

from colonnade.analysis.accepted import Found, Prospect, along, blur_of
from colonnade.analysis.families import BERNOULLI
from colonnade.analysis.model import FittedModel
from colonnade.analysis.polynomials import Polynomial, minimise, released_sums
from colonnade.analysis.question import Problem
from colonnade.foundation.errors import StudyError
from colonnade.mechanism.moments import Floats, Layout, Moments
from colonnade.mechanism.objective import monomial, reduced
from colonnade.numerics.spectra import positive_part

INTERVAL, REACH = 4.0, 2.0
"""Of scores, from minus to plus this, and the largest root mean square of them, where a study says nothing else."""
Means = Mapping[tuple[int, ...], float]
"""Of products of the constant, 0, and the features, 1, 2, ...: their mean over records."""


@dataclass(frozen=True)
class QuarticFit:
    """Weights, intercept first, and the share of records whose score may lie outside the interval."""

    weights: Floats
    outside: float
    interval: float
    on_edge: bool
    """Whether a larger ball would have another minimum."""
    evidence: Prospect
    """What the second moments say of it."""
    converged: bool


def loss_coefficients(interval: float = INTERVAL) -> tuple[float, float]:
    """c2 and c4 of the even part of the loss on the interval."""
    even = Chebyshev.interpolate(lambda z: np.logaddexp(z / 2, -z / 2), 4, [-interval, interval])
    found = even.convert(kind=Powers).coef
    return float(found[2]), float(found[4])


def quartic_fit(moments: Moments, features: Sequence[int] | None = None) -> QuarticFit:
    """The minimum of the quartic objective in the declared ball, from the released sums of these coordinates alone."""
    if not moments.sums:
        raise StudyError("a quartic needs a release of order 4, got one of order 2")
    layout, n = moments.layout, moments.n
    interval, radius = moments.interval or INTERVAL, moments.ball or REACH
    columns = [0, *(layout.features if features is None else features)]
    sums = released_sums(moments)
    label = layout.span(layout.label)
    right = moments.value[label.stop - 1][columns] / n
    right[0] = sums.get((label.stop - 1,), n / 2) / n
    label_noise = np.where(np.isfinite(own_noise := moments.std[label.stop - 1][columns]), own_noise, 0.0) / n
    second, mean = _second(sums, layout, columns, n)
    own = moments.std[np.ix_(columns[1:], columns[1:])]
    noise = float(np.median(own[(own > 0) & np.isfinite(own)])) / n
    second = positive_part(second, noise)
    c2, c4 = loss_coefficients(interval)
    fourth = _of_degree(_means(sums, layout, columns, n), 4)
    terms: dict[tuple[int, ...], float] = {(i,): float(value) for i, value in enumerate(mean / 2 - right)}
    for i, j in combinations_with_replacement(range(len(columns)), 2):
        terms[i, j] = (1 + (i != j)) * c2 * float(second[i, j]) + (i == j) * noise
    terms |= {key: c4 * value for key, value in fourth.items()}
    start = -np.linalg.solve(2 * c2 * second + 2 * noise * np.eye(len(columns)), mean / 2 - right)
    # Noise on fourth moments makes minima far out that are not the loss's: only the one near the quadratic's counts.
    found = minimise(Polynomial.of(terms, len(columns)), radius, second, [np.zeros(len(columns)), start])
    outside = Polynomial.of(fourth, len(columns)).value(found.weights) / interval**4
    known = _evidence(found.weights, second, right, label_noise, n)
    share = min(max(outside, 0.0), 1.0)
    return QuarticFit(found.weights, share, interval, found.on_edge, known, found.converged)


def quartic(problem: Problem) -> Found:
    """The model of a release of order 4."""
    layout, nan = problem.layout, float("nan")
    columns = [c for c in layout.features if layout.attribute_of[c] in problem.chosen]
    found, names = quartic_fit(problem.moments, columns), tuple(layout.names[c] for c in columns)
    told = f"quartic on scores of ±{found.interval:g}, at most {100 * found.outside:.2g}% of records outside"
    if found.on_edge:
        told += ", minimum on the edge of the ball"
    constant, *weights = (float(w) for w in found.weights)
    freedom = float(len(names))
    model = FittedModel(
        problem.question.task, problem.target.name, names, (tuple(weights),), (constant,), told, nan, freedom
    )
    return Found(model, found.evidence, converged=found.converged)


def _evidence(weights: Floats, second: Floats, right: Floats, noise: Floats, n: int) -> Prospect:
    """Scores as normal ones; the fit has followed as much noise as a quadratic one does."""
    share = float(np.clip(right[0], 1e-6, 1.0 - 1e-6))
    means, w = second[0, 1:], weights[1:]
    gram = second[1:, 1:] - np.outer(means, means)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 1e-9)
    spread = share * (1.0 - share)
    sampled = (vectors * values) @ vectors.T * spread / n + np.diag(noise[1:] ** 2)
    followed = float(((vectors / (spread * values)) @ vectors.T * sampled).sum())
    reached = float(w @ (right[1:] - share * means)) - followed
    blur = blur_of(BERNOULLI, np.array([share]), noise[:1])
    error = float(np.sqrt(w @ sampled @ w))
    return Prospect(along(w, gram), BERNOULLI, np.array([share]), w[:, None], reached, error, blur)


def _means(sums: Mapping[tuple[int, ...], float], layout: Layout, columns: list[int], n: int) -> Means:
    """The mean of every product of four of the constant and the features."""
    out: dict[tuple[int, ...], float] = {}
    for places in combinations_with_replacement(range(len(columns)), 4):
        term = reduced(layout, monomial(layout, (columns[i] for i in places)))
        out[places] = 0.0 if term is None else sums[term] / n
    return out


def _of_degree(means: Means, degree: int) -> dict[tuple[int, ...], float]:
    """The terms of the mean of a score's power: each product as often as its factors can be ordered."""
    return {
        key: value * factorial(degree) / prod(factorial(k) for k in Counter(key).values())
        for key, value in means.items()
    }


def _second(sums: Mapping[tuple[int, ...], float], layout: Layout, columns: list[int], n: int) -> tuple[Floats, Floats]:
    """The matrix of mean products of two, and its first row."""
    out = np.zeros((len(columns), len(columns)))
    for i, j in combinations_with_replacement(range(len(columns)), 2):
        term = reduced(layout, monomial(layout, (columns[i], columns[j])))
        out[i, j] = out[j, i] = 0.0 if term is None else sums[term] / n
    return out, out[0].copy()
