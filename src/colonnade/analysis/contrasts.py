"""Second moments of a reduced model's columns, with the exact covariance of their noise.

A column is a number, or the indicator of some levels of one attribute (levels without an own column are the base). Its
products with other columns are sums over cells of noisy tables. With the margins of a table known better than its
cells, only the table's interaction carries the noise of the cells: the indicator counts as its distance from its plain
mean over the levels, u - mean(u), and the margins enter with their own, smaller noise.

For any vector v the noise E of the covariance matrix M gives E v the covariance `noise(v)`. It is quadratic in v, and
since E is symmetric, g' noise(v) g = v' noise(g) v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.denoise import Estimate
from colonnade.mechanism.moments import Encoding, Floats, Layout, Moments


@dataclass(frozen=True)
class Contrast:
    """A column of a reduced model: a number, or the indicator that an attribute has one of some levels."""

    attribute: int
    levels: tuple[int, ...]
    """Positions among the attribute's coordinates; (0,) for a number."""


@dataclass(frozen=True)
class NoisyCovariance:
    """M, the covariance per record of some columns as released, and what is known of its noise."""

    matrix: Floats
    means: Floats
    member: NDArray[np.int64]
    """For each column a number for its attribute."""
    simplex: NDArray[np.bool_]
    overlap: Floats
    """Inner products of the columns' centred indicators; 0 between attributes, 1 for a number."""
    table: Floats
    """Variance per record of the noise on a cell, by attributes; 0 on the diagonal."""
    square: Floats
    """Variance of the noise on each number's square."""
    margin: Floats
    """Covariance of the noise on the columns' sums."""
    offset: Floats
    """How far a column's plain mean over its levels lies above its mean: what a sum's noise weighs in a product."""

    @cached_property
    def _same(self) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = self.member[:, None] == self.member
        return result

    @cached_property
    def _cells(self) -> Floats:
        result: Floats = self.table[np.ix_(self.member, self.member)]
        return result

    def noise(self, v: Floats) -> Floats:
        """Covariance of the noise in M v."""
        spread = self.overlap @ v
        energy = np.bincount(self.member, v * spread, len(self.table))
        result: Floats = self.overlap * (self.table @ energy)[self.member] + np.outer(spread, spread) * self._cells
        result.flat[:: len(v) + 1] += self.square * v**2
        swing = self._margins(v)
        result += swing @ self.margin @ swing.T
        return result

    def noise_times(self, g: Floats, v: Floats) -> Floats:
        """`noise(g) @ v`, without the matrix."""
        spread, turned = self.overlap @ g, self.overlap @ v
        energy = np.bincount(self.member, g * spread, len(self.table))
        swing = self._margins(g)
        result: Floats = (self.table @ energy)[self.member] * turned + spread * (self._cells @ (spread * v))
        result += self.square * g**2 * v + swing @ (self.margin @ (swing.T @ v))
        return result

    def _margins(self, v: Floats) -> Floats:
        """What noise on the columns' sums does to M v: one column for each sum."""
        weighted = self.offset * v
        inside = np.bincount(self.member, self.means * v, len(self.table))[self.member]
        others = weighted.sum() - np.bincount(self.member, weighted, len(self.table))[self.member]
        swing: Floats = np.where(self._same, -self.means[:, None], self.offset[:, None]) * v
        swing.flat[:: len(v) + 1] += others - inside + self.simplex * v
        return swing


def noisy_covariance(moments: Moments, raw: Estimate, columns: Sequence[Contrast]) -> NoisyCovariance:
    """The covariance of some columns by `complete`; `noise` needs those of one attribute to have no level in common."""
    layout, n = moments.layout, moments.n
    owners = list(dict.fromkeys(c.attribute for c in columns))
    member = np.array([owners.index(c.attribute) for c in columns], dtype=np.int64)
    simplex = np.array([layout.attributes[c.attribute].kind is Encoding.SIMPLEX for c in columns])
    marks = _marks(layout, columns)
    sizes = np.array([layout.attributes[c.attribute].size for c in columns], dtype=np.float64)
    plain = np.where(simplex, marks.sum(axis=0) / sizes, 0.0)
    same = member[:, None] == member
    overlap = np.where(same, marks.T @ marks - np.where(simplex, sizes, 1.0) * np.outer(plain, plain), 0.0)
    means = raw.margin @ marks / n
    interaction = _interaction(moments, raw, owners, marks)
    matrix = interaction + np.outer(means, plain) + np.outer(plain, means) - np.outer(plain, plain)
    own = (marks * raw.margin[:, None]).T @ marks / n
    numbers = [j for j, is_simplex in enumerate(simplex) if not is_simplex]
    at = [layout.starts[columns[j].attribute] for j in numbers]
    own[numbers, numbers] = raw.value[at, at] / n
    square = np.zeros(len(columns))
    # A target's square may be missing, and is then not used.
    square[numbers] = np.where(np.isfinite(raw.std[at, at]), raw.std[at, at] / n, 0.0) ** 2
    spread = np.array([float(np.max(raw.std[0, layout.span(i)])) / n for i in owners])[member]
    return NoisyCovariance(
        np.where(same, own, matrix) - np.outer(means, means),
        means,
        member,
        simplex,
        overlap,
        _cell_noise(moments, owners),
        square,
        np.where(same, overlap * np.outer(spread, spread), 0.0),
        plain - means,
    )


def _marks(layout: Layout, columns: Sequence[Contrast]) -> Floats:
    """For each coordinate and column whether the one counts in the other."""
    marks = np.zeros((layout.width, len(columns)))
    for j, column in enumerate(columns):
        marks[[layout.starts[column.attribute] + k for k in column.levels], j] = 1.0
    return marks


def _interaction(moments: Moments, raw: Estimate, owners: Sequence[int], marks: Floats) -> Floats:
    """Sums over cells of each pair of columns of different attributes, as distances from the plain means."""
    layout = moments.layout
    centred = marks.copy()
    for i in owners:
        if layout.attributes[i].kind is Encoding.SIMPLEX:
            centred[layout.span(i)] -= np.where(
                marks[layout.span(i)].any(axis=0), marks[layout.span(i)].mean(axis=0), 0
            )
    value = np.where(np.isfinite(moments.std), moments.value, 0.0)
    result: Floats = centred.T @ value @ centred / moments.n
    return result


def _cell_noise(moments: Moments, owners: Sequence[int]) -> Floats:
    """The largest variance of a cell in each pair of attributes; infinite where the pair was not released."""
    starts = moments.layout.starts
    largest = np.maximum.reduceat(np.maximum.reduceat(moments.std, starts, axis=0), starts, axis=1)
    out: Floats = (largest[np.ix_(owners, owners)] / moments.n) ** 2
    np.fill_diagonal(out, 0.0)
    return out
