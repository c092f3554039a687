"""A proved upper bound on a quadratic over a box: the one optimisation behind every exact sensitivity.

Variables come in families of alike coordinates s in [-1, 1]. The bound is on
    sum_i g_i |s| - sum_i h_i s - sum_pairs w s s' - sum_i q_i s^2,
by weak duality: for any diagonal D with N - D positive semidefinite, -z'Nz <= -z'Dz (proofs/box_bound.md).
The search for a good D need not succeed for the bound to hold; only its last step, which is checked, matters.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proven import proven

Floats = NDArray[np.float64]

SAFETY = 1e-9
"""Relative margin added to every bound; the floating-point error of the last step is some 1e-13."""


@proven("box_bound")
def box_bound(count: Floats, pair: Floats, square: Floats, linear: Floats, absolute: Floats) -> float:
    """An upper bound of the quadratic above.

    `count[i]` coordinates in family i; `pair[i, j]` the weight of a pair of coordinates of i and j (two different ones
    of i when i = j), `square`, `linear` (h) and `absolute` (g) per coordinate; all weights non-negative.

    Domain: one number or row for each family; count: 1 and more.
    Unit: that of the weights.
    Guarantee: no point of the box exceeds it. Proof: box_bound, claims 1 to 4.
    """
    idle = (pair.sum(axis=1) == 0) & (linear == 0) & (absolute == 0)
    if idle.all():
        return 0.0
    busy = ~idle
    count, square, linear, absolute = count[busy], square[busy], linear[busy], absolute[busy]
    pair = pair[np.ix_(busy, busy)]
    return _cached(
        *(np.ascontiguousarray(v, dtype=np.float64).tobytes() for v in (count, pair, square, linear, absolute))
    )


@lru_cache(maxsize=4096)
def _cached(count_: bytes, pair_: bytes, square_: bytes, linear_: bytes, absolute_: bytes) -> float:
    count, square, linear, absolute = (np.frombuffer(v) for v in (count_, square_, linear_, absolute_))
    pair = np.frombuffer(pair_).reshape(count.size, count.size)
    # Above 0: families without weights, but for their squares, are left out.
    scale = max(float(v.max()) for v in (pair, square, linear, absolute))
    dual = _Dual(count, pair / scale, square / scale, linear / scale, absolute / scale)
    trivial = float((count * (linear + absolute)).sum() + _largest_negative(count, pair))
    return min(trivial, dual.minimise() * scale) * (1.0 + SAFETY)


def _largest_negative(count: Floats, pair: Floats) -> float:
    """Every pair at its largest, w: a bound that needs no optimisation."""
    total = count @ pair @ count - float(count @ np.diag(pair))
    return float(total) / 2


class _Dual:
    """The dual function of D, one value for each family; alike coordinates may share theirs by convexity."""

    def __init__(self, count: Floats, pair: Floats, square: Floats, linear: Floats, absolute: Floats) -> None:
        root = np.sqrt(count)
        self.count = count
        self.absolute = absolute
        # Spread inside a family: eigenvalue q - w/2 with multiplicity count - 1; along the family: the quotient matrix.
        self.inside = np.where(count > 1, square - np.diag(pair) / 2, np.inf)
        self.quotient = pair * np.outer(root, root) / 2
        np.fill_diagonal(self.quotient, square + (count - 1) * np.diag(pair) / 2)
        self.shift = linear * root / 2
        self.shifted = bool(self.shift.any())
        self.alone = np.isinf(self.inside)
        self.inward = np.where(self.alone, 0.0, self.inside)

    def less(self, d: Floats) -> Floats:
        """The quotient matrix less D."""
        matrix: Floats = self.quotient.copy()
        matrix.ravel()[:: d.size + 1] -= d
        return matrix

    def minimise(self) -> float:
        floor = min(float(np.linalg.eigvalsh(self.quotient)[0]), float(self.inside.min()))
        d = np.full(self.count.size, floor - 1.0)
        best = self.checked(d)
        weight = 1.0
        while weight > 1e-11:
            # |s| has a kink at 0 in the dual; it is rounded off while the barrier is high.
            d = self._descend(d, weight, np.maximum(self.absolute, weight))
            best = min(best, self.checked(d))
            weight /= 10
        return best

    def checked(self, d: Floats) -> float:
        """The dual value at d, with a bound on the error of the linear solve added; infinite outside the domain."""
        matrix = self.quotient - np.diag(d)
        smallest = float(np.linalg.eigvalsh(matrix)[0]) - 1e-14 * float(np.abs(matrix).sum())
        if smallest < 1e-8 or (self.inside < d).any():
            return np.inf
        y = np.linalg.solve(matrix, self.shift)
        residual = matrix @ y - self.shift
        quadratic = 2 * self.shift @ y - y @ matrix @ y + residual @ residual / smallest
        return float(quadratic + self.count @ _corner(d, self.absolute))

    def _descend(self, d: Floats, weight: float, absolute: Floats) -> Floats:
        """Damped Newton steps on dual + barrier."""
        value = self._barred(d, weight, absolute)
        for _ in range(25):
            try:
                inverse = np.linalg.inv(self.less(d))
            except np.linalg.LinAlgError:
                break
            gap = np.where(self.alone, 1e100, self.inward - d)
            inner = inverse @ self.shift
            v = _reach(d, absolute)
            gradient = inner**2 - self.count * v * v + weight * (np.diag(inverse) + 1 / gap)
            hessian = 2 * (inner[:, None] * inner) * inverse + weight * inverse**2
            curved = np.where(v < 1.0, 4 * self.count * v**3 / absolute, 0.0)
            diagonal = np.einsum("ii->i", hessian)
            diagonal += curved + weight / gap**2 + 1e-12
            # Scaled to a unit diagonal, for the barrier spans many orders of magnitude.
            unit = 1 / np.sqrt(diagonal)
            try:
                step = unit * np.linalg.solve(hessian * (unit[:, None] * unit), unit * gradient)
            except np.linalg.LinAlgError:
                break
            slope = float(gradient @ step)
            for halvings in range(30):
                size = 0.5**halvings
                tried = d - size * step
                lower = self._barred(tried, weight, absolute)
                if lower < value - 1e-4 * size * slope:
                    break
            else:
                break
            if slope < 1e-10 * (1 + abs(value)):
                break
            d, value = tried, lower
        return d

    def _barred(self, d: Floats, weight: float, absolute: Floats) -> float:
        gap = np.where(self.alone, 1.0, self.inward - d)
        if (gap <= 0).any():
            return np.inf
        matrix = self.less(d)
        try:
            root = np.linalg.cholesky(matrix)
            quadratic = self.shift @ np.linalg.solve(matrix, self.shift) if self.shifted else 0.0
        except np.linalg.LinAlgError:
            return np.inf
        barrier = -2 * np.log(np.diag(root)).sum() - np.log(gap).sum()
        return float(quadratic + self.count @ _corner(d, absolute) + weight * barrier)


def _reach(d: Floats, absolute: Floats) -> Floats:
    """The maximiser v in [0, 1] of -d v^2 + g v."""
    inner = d > absolute / 2
    return np.where(inner, absolute / (2 * np.where(inner, d, 1.0)), 1.0)


def _corner(d: Floats, absolute: Floats) -> Floats:
    v = _reach(d, absolute)
    return -d * v * v + absolute * v
