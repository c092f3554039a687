"""A logistic model from sums of products of up to four features: a quartic stands for the loss on an interval.

ln(1 + e^z) = z/2 + ln(2 cosh(z/2)), of which the even part is fitted by c0 + c2 z^2 + c4 z^4 on [-INTERVAL, INTERVAL].
c4 is negative: the polynomial has no minimum, and is minimised where the root mean square of z is at most REACH. How
many records may lie outside the interval follows from the released fourth moments (Markov).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from colonnade.foundation.errors import StudyError
from colonnade.mechanism.moments import Floats, Moments

INTERVAL, REACH = 4.0, 2.0
STEPS = 200


@dataclass(frozen=True)
class QuarticFit:
    """Weights, intercept first, and the share of records whose score may lie outside the interval."""

    weights: Floats
    outside: float


def loss_coefficients() -> tuple[float, float]:
    """c2 and c4 of the even part of the loss on the interval."""
    even = Chebyshev.interpolate(lambda z: np.logaddexp(z / 2, -z / 2), 4, [-INTERVAL, INTERVAL])
    found = even.convert(kind=Polynomial).coef
    return float(found[2]), float(found[4])


def quartic_fit(moments: Moments) -> QuarticFit:
    """The minimum of the quartic objective in the declared ball, from the released sums alone."""
    if not moments.sums:
        raise StudyError("a quartic needs a release of order 4, got one of order 2")
    layout, n = moments.layout, moments.n
    columns = [0, *layout.features]
    label = layout.span(layout.label)
    halves = moments.value[label, :]
    mean = halves.sum(axis=0)[columns] / n
    mean[0] = 1.0
    right = halves[-1][columns] / n
    right[0] = moments.value[0, label.stop - 1] / n if np.isfinite(moments.std[0, label.stop - 1]) else 0.5
    second = moments.value[np.ix_(columns, columns)] / n
    second[0], second[:, 0] = mean, mean
    fourth = _fourth(moments, columns, mean, second)
    values, vectors = np.linalg.eigh(second)
    noise = float(np.median(moments.std[np.ix_(columns[1:], columns[1:])])) / n
    second = (vectors * np.maximum(values, noise)) @ vectors.T
    weights = _minimise(mean / 2 - right, second, fourth, noise)
    outside = float(np.einsum("ijkl,i,j,k,l", fourth, *([weights] * 4))) / INTERVAL**4
    return QuarticFit(weights, min(max(outside, 0.0), 1.0))


def _fourth(moments: Moments, columns: list[int], mean: Floats, second: Floats) -> Floats:
    """The mean of z_i z_j z_k z_l for all four of the constant and the features."""
    place, size = {c: i for i, c in enumerate(columns)}, len(columns)
    out = np.zeros((size,) * 4)
    known = {(0, 0, 0, 0): 1.0}
    known |= {(0, 0, 0, i): float(mean[i]) for i in range(1, size)}
    known |= {(0, 0, i, j): float(second[i, j]) for i in range(1, size) for j in range(i, size)}
    for item in moments.sums:
        own = sorted(place[factor] for factor in item.factors)
        a, b, c, d = [0] * (4 - len(own)) + own
        known[a, b, c, d] = item.value / moments.n
    for key, value in known.items():
        for turned in set(permutations(key)):
            out[turned] = value
    return out


def _minimise(linear: Floats, second: Floats, fourth: Floats, ridge: float) -> Floats:
    # Loaded where it is needed: a fit of order 2 starts faster without it.
    from scipy.optimize import minimize

    c2, c4 = loss_coefficients()

    def value(w: Floats) -> float:
        cubed = np.einsum("ijkl,j,k,l->i", fourth, w, w, w)
        return float(linear @ w + c2 * w @ second @ w + c4 * w @ cubed + ridge * w @ w)

    def slope(w: Floats) -> Floats:
        cubed = np.einsum("ijkl,j,k,l->i", fourth, w, w, w)
        found: Floats = linear + 2 * c2 * second @ w + 4 * c4 * cubed + 2 * ridge * w
        return found

    inside = {
        "type": "ineq",
        "fun": lambda w: REACH**2 - w @ second @ w,
        "jac": lambda w: -2 * second @ w,
    }
    quadratic = -np.linalg.solve(2 * c2 * second + 2 * ridge * np.eye(len(linear)), linear)
    best = np.zeros(len(linear))
    for start in (best, quadratic * min(1.0, REACH / np.sqrt(max(float(quadratic @ second @ quadratic), 1e-12)))):
        found = minimize(value, start, jac=slope, constraints=[inside], method="SLSQP", options={"maxiter": STEPS}).x
        if found @ second @ found <= REACH**2 * (1 + 1e-6) and value(found) < value(best):
            best = found
    result: Floats = best
    return result
