"""The centralised functional mechanism: noise on the coefficients of the objective, then minimise.

Sources: Xu, Yuan and Wu, Sections 2-3 (coefficients and sensitivities as printed); Zhang, Zhang, Xiao, Yang and
Winslett, "Functional mechanism", PVLDB 5(11), 2012, Section 6 (regularise and trim).

Objective a'w + w'Mw. Linear: a = -2 X'y, M = X'X, Delta = 2(1 + 2d + d^2). Logistic, degree-2 Taylor at 0:
a = X'(1/2 - y), M = X'X/8, Delta = d^2/4 + d. Every coefficient of a *distinct* monomial gets one Lap(Delta/epsilon):
w_p w_q with p < q has the coefficient 2 M_pq, so the matrix entry gets half of that noise.
The constant term does not move the minimum and is not drawn.

Accounting: pure epsilon under replacement of one record; Delta bounds the L1 change of all coefficients when features
and label lie in [-1, 1] (label in {0, 1} for logistic). Delta is the printed one, twice what is needed
(docs/paper.md, h).

Left open by the sources, and chosen here: no intercept unless X has a column of ones; the paper does not say what its
argmin does with an indefinite M, so `fit_printed` returns the stationary point that a linear solve gives and says
whether it is a minimum; Zhang et al. add lambda = 4 standard deviations of the Laplace noise to the diagonal and
drop the eigenvectors whose eigenvalue stays non-positive; nothing guards against an eigenvalue just above zero, so the
error of a repaired linear fit has heavy tails.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Task = Literal["logistic", "linear"]
ZHANG_MULTIPLE = 4.0


@dataclass(frozen=True)
class Quadratic:
    """The objective a'w + w'Mw, M symmetric."""

    a: Array
    M: Array


@dataclass(frozen=True)
class PrintedFit:
    """The stationary point of the noisy objective; `bounded` says whether the objective has a minimum at all."""

    w: Array
    bounded: bool


def sensitivity(d: int, task: Task) -> float:
    """The paper's Delta_f."""
    return 2.0 * (1 + 2 * d + d * d) if task == "linear" else d * d / 4 + d


def objective(X: Array, y: Array, task: Task) -> Quadratic:
    """The exact coefficients of the objective."""
    if task == "linear":
        return Quadratic(-2.0 * (X.T @ y), X.T @ X)
    return Quadratic(X.T @ (0.5 - y), (X.T @ X) / 8.0)


def perturb(exact: Quadratic, scale: float, rng: np.random.Generator) -> Quadratic:
    """Laplace noise of the given scale on every distinct coefficient."""
    d = len(exact.a)
    drawn = np.triu(rng.laplace(0.0, scale, (d, d)))
    return Quadratic(exact.a + rng.laplace(0.0, scale, d), exact.M + (drawn + drawn.T) / 2.0)


def stationary_point(noisy: Quadratic) -> PrintedFit:
    """Where the gradient is zero, be it a minimum, a saddle or a maximum."""
    w = np.asarray(np.linalg.lstsq(2.0 * noisy.M, -noisy.a, rcond=None)[0], dtype=np.float64)
    return PrintedFit(w, bool(np.linalg.eigvalsh(noisy.M)[0] > 0))


def regularise_and_trim(noisy: Quadratic, ridge: float) -> Array:
    """Add the ridge, keep the eigenvectors with a positive eigenvalue, minimise in their span."""
    values, vectors = np.linalg.eigh(noisy.M + ridge * np.eye(len(noisy.a)))
    kept = values > 0
    Q = vectors[:, kept]
    return -Q @ ((Q.T @ noisy.a) / (2.0 * values[kept]))


def fit_printed(X: Array, y: Array, task: Task, epsilon: float, rng: np.random.Generator) -> PrintedFit:
    """The mechanism as printed, without repair."""
    return stationary_point(perturb(objective(X, y, task), sensitivity(X.shape[1], task) / epsilon, rng))


def fit_repaired(X: Array, y: Array, task: Task, epsilon: float, rng: np.random.Generator) -> Array:
    """The mechanism with Zhang et al.'s repair."""
    scale = sensitivity(X.shape[1], task) / epsilon
    ridge = ZHANG_MULTIPLE * math.sqrt(2.0) * scale
    return regularise_and_trim(perturb(objective(X, y, task), scale, rng), ridge)
