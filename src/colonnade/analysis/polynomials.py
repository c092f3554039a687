"""Polynomials in a model's weights, made of released sums, and their minimum in a ball.

Order 4 of the logistic loss and a declared objective are both such polynomials (the paper's Eq. 1). A polynomial may
have no minimum: it is looked for in the ball alone, and the answer says whether it lies on the ball's edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from colonnade.analysis.accepted import Found
from colonnade.analysis.model import FittedModel
from colonnade.analysis.question import Problem
from colonnade.analysis.sobol import sobol_points
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.mechanism.declared import DeclaredObjective
from colonnade.mechanism.moments import Encoding, Floats, Moments
from colonnade.mechanism.objective import monomial, reduced
from colonnade.mechanism.release import ReleaseRecord

STEPS = 300
SPREAD = 32
"""Starts that fill the ball evenly, besides its middle and two on each axis."""
MOST_AXES = 16
AT_ROUNDING = 8
"""SLSQP's status where no direction goes down any more, but for rounding."""
ON_EDGE = 1e-5
"""Of the radius: a minimum that is nearer to the edge lies on it."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of weights times products of powers, one row of `powers` for each term."""

    powers: NDArray[np.int64]
    weights: Floats

    @classmethod
    def of(cls, terms: Mapping[tuple[int, ...], float], size: int) -> Polynomial:
        """From factors, each as often as it is one, of `size` variables."""
        powers = np.zeros((len(terms), size), dtype=np.int64)
        for row, factors in zip(powers, terms, strict=True):
            np.add.at(row, list(factors), 1)
        return cls(powers, np.array(list(terms.values()), dtype=np.float64))

    @cached_property
    def _steps(self) -> list[tuple[NDArray[np.intp], NDArray[np.int64], Floats]]:
        """Of each variable: the terms that it is in, their powers with one less of it, and their weights."""
        out = []
        for v in range(self.powers.shape[1]):
            rows = np.flatnonzero(self.powers[:, v])
            lowered = self.powers[rows].copy()
            lowered[:, v] -= 1
            out.append((rows, lowered, self.weights[rows] * self.powers[rows, v]))
        return out

    def value(self, w: Floats) -> float:
        return float(self.weights @ np.prod(w**self.powers, axis=1))

    def slope(self, w: Floats) -> Floats:
        return np.array([weights @ np.prod(w**lowered, axis=1) for _, lowered, weights in self._steps])

    def scaled(self, by: float) -> Polynomial:
        return Polynomial(self.powers, self.weights * by)


@dataclass(frozen=True)
class Minimum:
    """The least value that was found in the ball, where, and whether that is on its edge."""

    weights: Floats
    value: float
    on_edge: bool
    converged: bool = True
    """Whether some descent has ended in a minimum, and the one that found this did."""


def minimise(polynomial: Polynomial, radius: float, metric: Floats, starts: Sequence[Floats] | None = None) -> Minimum:
    """The least of all minima that descents find where w' metric w is at most radius^2.

    They begin at `starts`, or at points that fill the ball.
    """
    # Loaded where it is needed: a fit of order 2 starts faster without it.
    from scipy.optimize import minimize

    size = float(np.abs(polynomial.weights).max(initial=0.0))
    unit = polynomial.scaled(1 / size) if size else polynomial
    inside = {
        "type": "ineq",
        "fun": lambda w: 1 - w @ metric @ w / radius**2,
        "jac": lambda w: -2 * metric @ w / radius**2,
    }
    options = {"maxiter": STEPS, "ftol": 1e-13}
    best = Minimum(np.zeros(len(metric)), unit.value(np.zeros(len(metric))), False, False)
    for start in _starts(radius, metric) if starts is None else starts:
        ended = minimize(
            unit.value, _within(start, radius, metric), jac=unit.slope, constraints=[inside], method="SLSQP",
            options=options,
        )  # fmt: skip
        if not np.isfinite(ended.x).all():
            continue
        found, settled = _within(ended.x, radius, metric), bool(ended.success) or ended.status == AT_ROUNDING
        # A start that does better by rounding alone changes nothing: the answer is the first of its kind.
        if unit.value(found) < best.value - 1e-12 * max(1.0, abs(best.value)):
            on_edge = bool(np.sqrt(found @ metric @ found) >= radius * (1 - ON_EDGE))
            best = Minimum(found, unit.value(found), on_edge, settled)
        elif settled and np.allclose(found, best.weights, rtol=0.0, atol=ON_EDGE * radius):
            best = replace(best, converged=True)
    return replace(best, value=best.value * (size or 1.0))


def _within(w: Floats, radius: float, metric: Floats) -> Floats:
    length = float(np.sqrt(max(float(w @ metric @ w), 0.0)))
    return w if length <= radius else w * (radius / length)


def _starts(radius: float, metric: Floats) -> Iterable[Floats]:
    """The middle of the ball, both halves of each axis, and points that fill it."""
    size = len(metric)
    yield np.zeros(size)
    # Columns of the inverse root turn a sphere into the ball.
    values, vectors = np.linalg.eigh(metric)
    turned = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max(initial=1e-300)))
    for axis in range(min(size, MOST_AXES)):
        for part in (0.5, -0.5):
            yield part * radius * turned[:, axis]
    points = ndtri(sobol_points(SPREAD + 1, size)[1:])
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    for i, point in enumerate(points / np.maximum(lengths, 1e-12)):
        yield radius * ((i + 1) / SPREAD) ** (1 / size) * (turned @ point)


def released_sums(moments: Moments) -> dict[tuple[int, ...], float]:
    """For each product of coordinates whose sum is known its value, levels counted once."""
    layout = moments.layout
    out: dict[tuple[int, ...], float] = {}
    noise: dict[tuple[int, ...], float] = {}

    def note(key: tuple[int, ...] | None, value: float, std: float) -> None:
        if key is not None and std < noise.get(key, np.inf):
            out[key], noise[key] = value, std

    note((), float(moments.n), 0.0)
    for i, j in combinations_with_replacement(range(layout.width), 2):
        if (i, j) != (0, 0) and np.isfinite(moments.std[i, j]):
            note(reduced(layout, monomial(layout, (i, j))), float(moments.value[i, j]), float(moments.std[i, j]))
    for item in moments.sums:
        note(reduced(layout, item.factors), item.value, item.std)
    for c in range(1, layout.width):
        key = reduced(layout, monomial(layout, (c,)))
        if key not in out:
            # Of all levels of another column one counts in every record.
            for i, attribute in enumerate(layout.attributes):
                if attribute.kind is Encoding.SIMPLEX and i != layout.attribute_of[c]:
                    levels = layout.span(i)
                    std = float(np.sqrt((moments.std[levels, c] ** 2).sum()))
                    note(key, float(moments.value[levels, c].sum()), std)
    return out


# A declared objective -------------------------------------------------------------------------------------------------
def objective_of(release: ReleaseRecord) -> DeclaredObjective:
    """The objective that a release was made for."""
    agreement = release.agreement
    try:
        text, parameters = str(agreement["objective"]), tuple(map(str, agreement["parameters"]))
        return DeclaredObjective(text, parameters, agreement["ball"])
    except (KeyError, TypeError):
        raise ReleaseError("the release was made for no declared objective") from None


def noisy_objective(moments: Moments, declared: DeclaredObjective) -> Polynomial:
    """The objective as a polynomial in its parameters, its coefficients divided by n."""
    sums, place = released_sums(moments), {name: i for i, name in enumerate(declared.parameters)}
    terms: dict[tuple[int, ...], float] = {}
    for names, columns in declared.written(moments.layout).items():
        value = sum(weight * sums[term] for term, weight in columns.items()) / moments.n
        terms[tuple(place[name] for name in names)] = value
    return Polynomial.of(terms, len(declared.parameters))


def declared_objective(problem: Problem) -> Found:
    """The parameters as a model's coefficients; it scores nothing."""
    asked, release = problem.question, problem.held.record
    if release is None or asked.strength is not None:
        raise StudyError(f"a declared objective has a minimum and takes no penalty, got ridge={asked.strength}")
    declared = objective_of(release)
    found = minimise(noisy_objective(problem.moments, declared), declared.ball, np.eye(len(declared.parameters)))
    told, edge = f"minimum in the ball of radius {declared.ball:g}", ""
    if found.on_edge:
        told += ", on its edge: the objective may have no minimum, or one farther out"
        edge = (
            "the declared objective is least on the edge of its ball: it may have no minimum of radius "
            f"{declared.ball:g}"
        )
    if not found.converged:
        edge = "no descent of the declared objective has converged: the parameters may be no minimum"
    nan, name = float("nan"), release.layout.columns[release.layout.label]
    weights = tuple(float(w) for w in found.weights)
    return Found(
        FittedModel(asked.task, name, declared.parameters, (weights,), (0.0,), told, nan, float(len(weights))),
        told=edge,
    )
