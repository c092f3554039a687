"""Which values of a coefficient the release does not contradict: a test of every value, turned round.

The coefficients theta of a reduced model solve M v = k with v made of theta, M the covariance of all its columns. Of M
only a noisy copy is known, but at the true theta the residual r = M v - k of the noisy copy is noise alone, and its
covariance V(theta) is known. So T(theta) = r' V^-1 r measures how far the release contradicts theta (Anderson & Rubin
1949), however large the noise is. A coefficient's interval holds the values b for which some theta with theta_j = b has
a T below a quantile. The least T over the other coefficients lies below a chi-square of one degree of freedom if the
noise is normal and of a Kronecker form (Guggenberger, Kleibergen, Mavroeidis & Chen 2012); here it nearly is. Where
noise hides the covariance the interval has no end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from colonnade.analysis.contrasts import NoisyCovariance
from colonnade.mechanism.moments import Floats

STEPS = 30
"""Most steps towards the least T for one value of a coefficient; where they do not settle there is no end."""
LOOKS = 12
"""Most values that are tried for one end of an interval."""
FARTHEST = 16.0
"""An end that lies farther away than this many times the linear one does not exist."""


@dataclass(frozen=True)
class Equations:
    """M v = k, where the first `size` entries of v are theta and the others are fixed, on the first rows."""

    covariance: NoisyCovariance
    fixed: Floats
    """Entries of v after theta."""
    constant: Floats
    """k, one entry for each row that counts."""
    sampling: Floats
    """Covariance of what drawing the records adds to the residual."""

    @property
    def size(self) -> int:
        return len(self.covariance.matrix) - len(self.fixed)

    def residual(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """v, r and V."""
        v: Floats = np.concatenate([theta, self.fixed])
        rows = len(self.constant)
        r: Floats = self.covariance.matrix[:rows] @ v - self.constant
        return v, r, self.covariance.noise(v)[:rows, :rows] + self.sampling

    def solution(self) -> Floats:
        """The theta that the noisy copy gives, of T = 0."""
        rows = len(self.constant)
        matrix = self.covariance.matrix
        right = self.constant - matrix[:rows, self.size :] @ self.fixed
        return np.asarray(np.linalg.solve(matrix[:rows, : self.size], right), dtype=np.float64)

    def look(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """T, its gradient and a positive definite stand-in for its second derivative."""
        v, r, spread = self.residual(theta)
        rows, size = len(r), self.size
        lower, _ = dpotrf(spread, lower=1)
        half, _ = dtrtrs(lower, np.column_stack([r, self.covariance.matrix[:rows, :size]]), lower=1)
        g = np.zeros(len(v))
        g[:rows] = dtrtrs(lower, half[:, 0], lower=1, trans=1)[0]
        # V is quadratic in v: the derivative of g' V(v) g at fixed g is 2 V(g) v.
        own = self.covariance.noise_times(g, v)
        gradient = 2.0 * (half[:, 1:].T @ half[:, 0] - own[:size])
        return float(half[:, 0] @ half[:, 0]), gradient, 2.0 * half[:, 1:].T @ half[:, 1:]


@dataclass(frozen=True)
class Ends:
    """An interval's ends, infinite where noise leaves none, and the standard error next to the estimate."""

    estimate: float
    std: float
    low: float
    high: float


def all_ends(equations: Equations, quantile: float, wanted: int) -> tuple[Ends, ...]:
    """The intervals of the first `wanted` coefficients; `quantile` is in standard deviations."""
    theta, covariance = _centre(equations)
    out = []
    for j in range(wanted):
        std = float(np.sqrt(covariance[j, j]))
        # As theta_j moves, the others follow as in a normal law.
        along = covariance[:, j] / covariance[j, j]
        low, high = (_end(equations, theta, along, j, side * std * quantile, quantile**2) for side in (-1.0, 1.0))
        out.append(Ends(float(theta[j]), std, low, high))
    return tuple(out)


def linear_ends(equations: Equations, quantile: float, wanted: int) -> tuple[Ends, ...]:
    """The same where the noise on M counts as small: symmetric, and quick for hundreds of coefficients."""
    theta, covariance = _centre(equations)
    std = np.sqrt(np.diag(covariance))
    return tuple(
        Ends(float(b), float(s), float(b - quantile * s), float(b + quantile * s))
        for b, s in zip(theta, std, strict=True)
    )[:wanted]


def _centre(equations: Equations) -> tuple[Floats, Floats]:
    """The solution and its covariance next to it."""
    theta = equations.solution()
    _, _, curvature = equations.look(theta)
    return theta, np.asarray(np.linalg.inv(0.5 * curvature), dtype=np.float64)


def _end(equations: Equations, theta: Floats, along: Floats, j: int, step: float, level: float) -> float:
    """The nearest value on one side whose least T is the level."""
    near, near_gap, at = 0.0, -level, theta
    far: float | None = None
    far_gap = 0.0
    reach = 1.0
    for _ in range(LOOKS):
        start = at + along * (step * reach - (at[j] - theta[j]))
        least, at_new = _profile(equations, start, j)
        if not np.isfinite(least):
            break
        gap = least - level
        if abs(gap) < 0.01 * level:
            return float(theta[j] + step * reach)
        if gap < 0:
            near, near_gap, at = reach, gap, at_new
        else:
            far, far_gap = reach, gap
        if far is None:
            if reach >= FARTHEST:
                return float(np.copysign(np.inf, step))
            root = np.sqrt(level / (level + gap)) if level + gap > 0 else 2.0
            reach *= float(np.clip(1.05 * root, 1.1, 2.0))
        else:
            # T grows about with the square of the distance: the secant goes through its root.
            a, b = np.sqrt(max(level + near_gap, 0.0)), np.sqrt(level + far_gap)
            share = (np.sqrt(level) - a) / max(b - a, 1e-12)
            reach = near + (far - near) * float(np.clip(share, 0.05, 0.95))
    else:
        return float(theta[j] + step * far) if far is not None else float(np.copysign(np.inf, step))
    # A T that may be smaller than it looks refutes nothing.
    return float(np.copysign(np.inf, step))


def _profile(equations: Equations, start: Floats, j: int) -> tuple[float, Floats]:
    """The least T over all coefficients but one (nan if the steps do not settle), and where it lies."""
    theta = start
    free = np.arange(len(theta)) != j
    value, gradient, curvature = equations.look(theta)
    if not free.any():
        return value, theta
    inverse: Floats = np.asarray(np.linalg.inv(curvature[np.ix_(free, free)]), dtype=np.float64)
    move = np.zeros_like(theta)
    for _ in range(STEPS):
        move[free] = -inverse @ gradient[free]
        promised = -float(gradient @ move)
        if promised < 2e-3 * max(value, 1e-2):
            return value, theta
        damping = 1.0
        tried = equations.look(theta + move)
        while damping > 0.05 and not tried[0] < value - 0.1 * damping * promised:
            damping *= 0.5
            tried = equations.look(theta + damping * move)
        if not tried[0] < value:
            break
        inverse = _updated(inverse, damping * move[free], tried[1][free] - gradient[free])
        theta = theta + damping * move
        value, gradient = tried[:2]
    return float("nan"), theta


def _updated(inverse: Floats, step: Floats, change: Floats) -> Floats:
    """The inverse of the second derivative after a step that changed the gradient (BFGS)."""
    along = float(step @ change)
    if along <= 1e-12 * float(np.sqrt((step @ step) * (change @ change))):
        return inverse
    turned = inverse @ change
    both = np.outer(step, turned)
    result: Floats = inverse + (1.0 + float(change @ turned) / along) * np.outer(step, step) / along
    return result - (both + both.T) / along
