"""DPFW-C: private Frank-Wolfe for least squares over an L1 ball, all columns in one place.

Source: Talwar, Thakurta and Zhang, "Nearly optimal private LASSO", NIPS 2015, the variant for polytopes (the
centralised algorithm that Lou and Cheung 2018 start from). Each step picks a vertex +-C e_j of the ball by a
noisy minimum of <s, gradient> and moves towards it by 2 / (t + 2).

Accounting: (epsilon, delta) under replacement of one record. With loss sum (x'w - y)^2 / (2n), |x|, |y| <= 1 and
|w|_1 <= C one record moves a score by at most Delta = 2 C (1 + C) / n. The source adds Laplace noise and uses advanced
composition; here the vertex is drawn by the exponential mechanism (Gumbel noise of scale 2 Delta / e) and the T steps
are composed as zCDP, T e^2 / 8 in all, which needs less noise for the same promise.

Left open: the radius C and the number of steps T. C = 1, the unit ball. The source's theorem asks for T of the order of
(n epsilon)^(2/3); T is that with factor 1, at least 10 and at most 200.
"""

import math

import numpy as np
from numpy.typing import NDArray

from experiments.baselines.accounting import selection_epsilon, zcdp_rho

Array = NDArray[np.float64]
RADIUS = 1.0
STEPS = (10, 200)


def steps_for(n: int, epsilon: float) -> int:
    """The number of Frank-Wolfe steps T."""
    return int(np.clip(math.ceil((n * epsilon) ** (2 / 3)), *STEPS))


def score_sensitivity(radius: float, n: int) -> float:
    """How far one record can move <s, gradient> of a vertex s."""
    return 2 * radius * (1 + radius) / n


def noisy_vertex(gradient: Array, radius: float, temperature: float, rng: np.random.Generator) -> tuple[int, float]:
    """Coordinate and value of the vertex that the exponential mechanism draws; temperature = 2 Delta / e."""
    scores = radius * np.concatenate([-gradient, gradient]) + rng.gumbel(0.0, temperature, 2 * len(gradient))
    best = int(np.argmax(scores))
    return best % len(gradient), radius if best < len(gradient) else -radius


def fit(
    X: Array,
    y: Array,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    radius: float = RADIUS,
    steps: int | None = None,
) -> Array:
    """Weights in the L1 ball; X as given, so append a column of ones for an intercept."""
    n, d = X.shape
    T = steps_for(n, epsilon) if steps is None else steps
    G, b = X.T @ X / n, X.T @ y / n
    step_epsilon = selection_epsilon(zcdp_rho(epsilon, delta), T)
    temperature = 2 * score_sensitivity(radius, n) / step_epsilon
    w = np.zeros(d)
    for t in range(T):
        j, value = noisy_vertex(G @ w - b, radius, temperature, rng)
        w *= 1 - 2 / (t + 2)
        w[j] += 2 / (t + 2) * value
    return w
