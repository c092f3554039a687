"""From noisy second moments to the most plausible ones: margins, tables, covariances.

Everything here is computed from the release alone and costs no privacy.
1. margins: every pair table carries noisy copies of both its margins; combine them by inverse variance.
2. tables: keep the interaction of each noisy table, put the combined margins under it, shrink its deviation from
   independence given the label with the known noise variance, and project on what a table can be.
3. squares of signed attributes: posterior mean on the possible range.
4. covariances of the features: posterior mean of every eigenvalue, which cannot be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from colonnade.analysis.shrinkage import EVEN, Deviations, Shrunk, bounded_mean, shrink
from colonnade.mechanism.moments import Encoding, Floats, Layout, Moments, Role
from colonnade.numerics.fitting import fit_margins, onto_simplex
from colonnade.numerics.spectra import diagonal, eigenvalues, positive_part

FITTING_STEPS = 30
"""Of proportional fitting: margins are met far within their noise."""
NEGLIGIBLE = 1e-12
INCONSISTENT = 1e-5
"""A guess of unreleased products is possible unless an eigenvalue is more negative than this share of the largest."""
BEHIND = 0.4
"""Guess: of what a label and the columns that follow it have in common the label shows this share. Between columns that
were not released together it makes a correlation of r r' / BEHIND, r and r' being theirs with the label."""


@dataclass(frozen=True)
class Estimate:
    """Second moments completed and cleaned: sums over records of z_a z_b, with the noise left in each.

    `std` is infinite where the release says nothing; `value` there is a neutral guess (0, or the middle of its range).
    """

    n: int
    layout: Layout
    value: Floats
    std: Floats

    @property
    def margin(self) -> Floats:
        """Sums of every coordinate."""
        sums: Floats = self.value[0]
        return sums

    @property
    def covariance(self) -> Floats:
        """Centred second moments, summed over records."""
        centred: Floats = self.value - np.outer(self.margin, self.margin) / self.n
        return centred


@dataclass
class _Work:
    """The release and the estimate that grows out of it."""

    moments: Moments
    value: Floats = field(init=False)
    std: Floats = field(init=False)
    through_label: Floats = field(init=False)
    """For each coordinate its shrunk covariance with the label over the label's standard deviation."""

    def __post_init__(self) -> None:
        self.value = np.where(np.isfinite(self.moments.std), self.moments.value, 0.0)
        self.std = self.moments.std.copy()
        self.through_label = np.zeros(len(self.value))

    def put(self, rows: slice, columns: slice, value: Floats, std: Floats) -> None:
        self.value[rows, columns], self.value[columns, rows] = value, value.T
        self.std[rows, columns], self.std[columns, rows] = std, std.T


def _once(make: Callable[[Moments], Estimate]) -> Callable[[Moments], Estimate]:
    """What is made of moments is kept with them, and nobody may change it."""

    @wraps(make)
    def kept(moments: Moments) -> Estimate:
        known = vars(moments)
        if make.__name__ not in known:
            known[make.__name__] = make(moments)
        found: Estimate = known[make.__name__]
        return found

    return kept


@_once
def denoise(moments: Moments) -> Estimate:
    """Complete and clean a release."""
    work = _Work(moments)
    _margins(work)
    _own_blocks(work)
    _traces(work)
    _label_blocks(work)
    _feature_blocks(work)
    _project(work)
    return Estimate(moments.n, moments.layout, work.value, work.std)


@_once
def complete(moments: Moments) -> Estimate:
    """The release as it is, with the structurally known entries filled in: no shrinkage, no projection."""
    work = _Work(moments)
    _margins(work)
    layout = moments.layout
    for i in range(len(layout.attributes)):
        span = layout.span(i)
        if holds_indicators(moments, i):
            work.put(span, span, np.diag(work.value[0, span]), np.diag(work.std[0, span]))
    _traces(work)
    return Estimate(moments.n, layout, work.value, work.std)


def holds_indicators(moments: Moments, attribute: int) -> bool:
    """Whether an attribute's coordinates are 0 or 1: the product of any two is known to be 0."""
    span = moments.layout.span(attribute)
    if moments.layout.attributes[attribute].kind is not Encoding.SIMPLEX:
        return False
    inside = ~np.eye(span.stop - span.start, dtype=bool)
    return bool(np.all(moments.std[span, span][inside] == 0) and np.all(moments.value[span, span][inside] == 0))


def _margins(work: _Work) -> None:
    moments, layout, n = work.moments, work.moments.layout, work.moments.n
    work.value[0, 0], work.std[0, 0] = n, 0.0
    simplexes = [j for j, other in enumerate(layout.attributes) if other.kind is Encoding.SIMPLEX]
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        copies = _copies(moments, i, simplexes)
        if not copies:
            guess = n / attribute.size if attribute.kind is Encoding.SIMPLEX else 0.0
            work.put(slice(0, 1), span, np.full((1, attribute.size), guess), np.full((1, attribute.size), np.inf))
            continue
        values, variances = (np.array(part) for part in zip(*copies, strict=True))
        variance = 1.0 / (1.0 / variances).sum(axis=0)
        mean = variance * (values / variances).sum(axis=0)
        if attribute.kind is Encoding.SIMPLEX and attribute.size == 2:
            upper = bounded_mean(0.5 * (n + mean[1] - mean[0]), float(np.sqrt(0.25 * variance.sum())), 0.0, n)
            mean = np.array([n - upper, upper])
        elif attribute.kind is Encoding.SIMPLEX:
            mean = onto_simplex((mean + (n - mean.sum()) / attribute.size)[None], n)[0]
        else:
            mean = np.clip(mean, -n, n)
        work.put(slice(0, 1), span, mean[None, :], np.sqrt(variance)[None, :])


def _copies(moments: Moments, i: int, simplexes: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Every noisy copy of an attribute's margin, with its variance."""
    layout, span = moments.layout, moments.layout.span(i)
    copies = []
    if np.all(np.isfinite(moments.std[0, span])):
        copies.append((moments.value[0, span], np.maximum(moments.std[0, span], 1e-9) ** 2))
    elif layout.attributes[i].size == 2 and np.any(np.isfinite(moments.std[0, span])):
        # Two halves sum to one in every record: the sum of one gives the other's.
        known = span.start + int(np.argmax(np.isfinite(moments.std[0, span])))
        sums = np.full(2, moments.n - moments.value[0, known])
        sums[known - span.start] = moments.value[0, known]
        copies.append((sums, np.full(2, max(float(moments.std[0, known]), 1e-9) ** 2)))
    if holds_indicators(moments, i):
        squares = np.diag(moments.std)[span]
        if np.all(np.isfinite(squares)) and np.all(squares > 0):
            copies.append((np.diag(moments.value)[span], squares**2))
    for j in simplexes:
        across = layout.span(j)
        if j != i and np.all(np.isfinite(moments.std[span, across])):
            variance = (np.maximum(moments.std[span, across], 1e-9) ** 2).sum(axis=1)
            copies.append((moments.value[span, across].sum(axis=1), variance))
    return copies


def _own_blocks(work: _Work) -> None:
    """Products within one attribute: squares, indicators, halves of a label."""
    moments, layout, n = work.moments, work.moments.layout, work.moments.n
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        margin, margin_std = work.value[0, span], work.std[0, span]
        if attribute.kind is Encoding.SIGNED:
            at = span.start
            std = float(moments.std[at, at])
            low = float(margin[0] ** 2 / n) if np.isfinite(margin_std[0]) else 0.0
            if np.isfinite(std):
                work.value[at, at] = bounded_mean(float(moments.value[at, at]), std, low, n)
            else:
                work.value[at, at] = 0.5 * (low + n)
        elif holds_indicators(moments, i):
            work.put(span, span, np.diag(margin), np.diag(margin_std))
        else:
            _halves(work, span)


def _halves(work: _Work, span: slice) -> None:
    """The 2x2 block of two halves that sum to one: any one of its entries gives the others."""
    moments, n = work.moments, work.moments.n
    low, high = float(work.value[0, span.start]), float(work.value[0, span.start + 1])
    noise = moments.std[span, span]
    ceiling = low * high / n
    if np.isfinite(noise[0, 1]):
        cross, std = float(moments.value[span.start, span.start + 1]), float(noise[0, 1])
    elif np.isfinite(noise[1, 1]):
        cross, std = high - float(moments.value[span.start + 1, span.start + 1]), float(noise[1, 1])
    elif np.isfinite(noise[0, 0]):
        cross, std = low - float(moments.value[span.start, span.start]), float(noise[0, 0])
    else:
        cross, std = 0.5 * ceiling, np.inf
    if np.isfinite(std):
        cross = bounded_mean(cross, std, 0.0, ceiling)
    work.put(span, span, np.array([[low - cross, cross], [cross, high - cross]]), np.full((2, 2), std))


def _traces(work: _Work) -> None:
    """Squares known only by their sum share it equally; their products stay at independence."""
    for trace in work.moments.traces:
        at = np.array(trace.coordinates)
        total = bounded_mean(trace.value, trace.std, 0.0, float(work.moments.n * at.size))
        work.value[at, at] = total / at.size
        work.std[at, at] = trace.std / at.size


def _variances(work: _Work) -> Floats:
    """Centred squares of every coordinate: the ceiling of a deviation's square is a product of two of them."""
    margin = work.value[0]
    result: Floats = np.maximum(np.diag(work.value) - margin**2 / work.moments.n, 0.0)
    return result


def _label_blocks(work: _Work) -> None:
    """Label-split sums: put the combined margin under them and keep them in range. The solver shrinks them."""
    layout, moments = work.moments.layout, work.moments
    label = layout.label
    for i, attribute in enumerate(layout.attributes):
        if i == label:
            continue
        rows, columns = layout.span(label), layout.span(i)
        std = moments.std[rows, columns]
        if not np.all(np.isfinite(std)):
            _independent(work, rows, columns)
            continue
        table = _recompose(work, label, i)
        if layout.attributes[label].kind is Encoding.SIMPLEX and attribute.kind is Encoding.SIMPLEX:
            table = fit_margins(table, work.value[0, rows], work.value[0, columns], FITTING_STEPS)
        else:
            table = _in_range(work, label, i, table)
        work.put(rows, columns, table, std)
    _through_label(work)


def _through_label(work: _Work) -> None:
    """How far the label alone makes features dependent: two features that follow it follow each other."""
    layout, moments, n = work.moments.layout, work.moments, work.moments.n
    at = layout.span(layout.label).stop - 1
    variances = _variances(work)
    if layout.attributes[layout.label].kind is Encoding.SIMPLEX:
        share = work.value[0, at] / n
        factor, spread = share**2 + (1 - share) ** 2, n * share * (1 - share)
    else:
        factor, spread = 1.0, n - work.value[0, at] ** 2 / n
    if np.isfinite(work.std[at, at]):
        spread = float(variances[at])
    if spread <= 0:
        return
    spans, blocks = [], []
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        if attribute.role is Role.FEATURE and np.all(np.isfinite(moments.std[span, at])):
            noise = factor * moments.std[span, at] ** 2 * _freedom(layout, i) + 1e-12
            value = work.value[span, at] - work.value[0, span] * work.value[0, at] / n
            spans.append(span)
            blocks.append(Deviations(value, variances[span] * spread, noise, _freedom(layout, i)))
    for span, shrunk in zip(spans, shrink(blocks), strict=True):
        work.through_label[span] = shrunk.value / np.sqrt(spread)


def _base(work: _Work, rows: slice, columns: slice) -> Floats:
    """What a block would be if its attributes were independent given the label."""
    together = np.outer(work.value[0, rows], work.value[0, columns]) / work.moments.n
    base: Floats = together + np.outer(work.through_label[rows], work.through_label[columns])
    return base


def _feature_blocks(work: _Work) -> None:
    layout, moments = work.moments.layout, work.moments
    features = [i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE]
    variances = _variances(work)
    released = _released(moments)
    _unreleased_blocks(work, features, released)
    pairs = [(i, j) for x, i in enumerate(features) for j in features[x + 1 :] if released[i, j]]
    blocks: list[Deviations] = []
    for i, j in pairs:
        rows, columns = layout.span(i), layout.span(j)
        freedom = _freedom(layout, i) * _freedom(layout, j)
        ceiling = np.outer(variances[rows], variances[columns])
        deviation = _recompose(work, i, j) - _base(work, rows, columns)
        blocks.append(Deviations(deviation, ceiling, moments.std[rows, columns] ** 2 * freedom + 1e-12, freedom))
    for (i, j), shrunk in zip(pairs, shrink(blocks, EVEN), strict=True):
        _put_shrunk(work, i, j, shrunk)


def _released(moments: Moments) -> NDArray[np.bool_]:
    """For each pair of attributes whether the whole of its block was released."""
    starts, known = moments.layout.starts, np.isfinite(moments.std)
    rows = np.logical_and.reduceat(known, starts, axis=0)
    result: NDArray[np.bool_] = np.logical_and.reduceat(rows, starts, axis=1)
    return result


def _unreleased_blocks(work: _Work, features: list[int], released: NDArray[np.bool_]) -> None:
    """A guess for every pair of features that the release leaves out, all at once: there may be 320,000.

    Where squares are known one by one, independence given what lies behind the label: columns that follow it follow
    each other, and a model that took each as news would be far too certain. Beside a trace, plain independence: many
    features that explain the label well cannot follow it separately.
    """
    layout = work.moments.layout
    owner = np.array([i for i in features for _ in range(layout.attributes[i].size)], dtype=np.intp)
    at = np.array([k for i in features for k in range(layout.width)[layout.span(i)]], dtype=np.intp)
    apart = ~released[np.ix_(owner, owner)] & (owner[:, None] != owner)
    if not apart.any():
        return
    grid = np.ix_(at, at)
    margin = work.value[0, at]
    guess = np.outer(margin, margin) / work.moments.n
    if not work.moments.traces:
        through = work.through_label[at] * _possible_share(work, at, owner)
        guess += np.outer(through, through) / BEHIND
    work.value[grid] = np.where(apart, guess, work.value[grid])
    work.std[grid] = np.where(apart, np.inf, work.std[grid])


def _possible_share(work: _Work, at: NDArray[np.intp], owner: NDArray[np.intp]) -> Floats:
    """What of a coordinate's share in the guess is possible: what lies behind the label explains no column twice over.

    A column of which the label explains more than `BEHIND` would have less than nothing of its own, and a guess that is
    impossible moves squares that were released, to make it possible.
    """
    layout, through = work.moments.layout, work.through_label[at]
    levels = np.array([layout.attributes[i].kind is Encoding.SIMPLEX for i in owner])
    # Of levels the inverse of their covariance is that of their counts, as deviations sum to 0.
    own = np.where(levels, np.maximum(work.value[0, at], 1.0), np.maximum(_variances(work)[at], 1e-300))
    _, place = np.unique(owner, return_inverse=True)
    explained = np.bincount(place, through**2 / own)[place]
    share: Floats = np.sqrt(np.minimum(1.0, BEHIND / np.maximum(explained, 1e-300)))
    return share


def _put_shrunk(work: _Work, i: int, j: int, shrunk: Shrunk) -> None:
    layout = work.moments.layout
    rows, columns = layout.span(i), layout.span(j)
    table = _base(work, rows, columns) + shrunk.value
    if layout.attributes[i].kind is Encoding.SIMPLEX and layout.attributes[j].kind is Encoding.SIMPLEX:
        table = fit_margins(table, work.value[0, rows], work.value[0, columns], FITTING_STEPS)
    else:
        table = _in_range(work, i, j, table)
    work.put(rows, columns, table, np.sqrt(shrunk.variance))


def _freedom(layout: Layout, i: int) -> float:
    """Share of free deviations along one side of a table."""
    attribute = layout.attributes[i]
    return 1.0 - 1.0 / attribute.size if attribute.kind is Encoding.SIMPLEX else 1.0


def _independent(work: _Work, rows: slice, columns: slice) -> None:
    """Nothing was released: independence is the guess."""
    base = _base(work, rows, columns)
    work.put(rows, columns, base, np.full(base.shape, np.inf))


def _recompose(work: _Work, i: int, j: int) -> Floats:
    """A noisy block with its own noisy margins replaced by the combined ones (least squares: they are orthogonal)."""
    layout, n = work.moments.layout, work.moments.n
    rows, columns = layout.span(i), layout.span(j)
    table = work.moments.value[rows, columns].copy()
    down, across = work.value[0, rows], work.value[0, columns]
    first, second = layout.attributes[i].kind is Encoding.SIMPLEX, layout.attributes[j].kind is Encoding.SIMPLEX
    if first and np.all(np.isfinite(work.std[0, columns])):
        table += (across - table.sum(axis=0)) / down.size
    if second and np.all(np.isfinite(work.std[0, rows])):
        table += ((down - table.sum(axis=1)) / across.size)[:, None]
    if first and second:
        table += (n - table.sum()) / table.size
    return table


def _in_range(work: _Work, i: int, j: int, table: Floats) -> Floats:
    """Sums over a level stay within its count; sums of products within what their squares allow."""
    layout = work.moments.layout
    rows, columns = layout.span(i), layout.span(j)
    if layout.attributes[i].kind is Encoding.SIMPLEX:
        reach = work.value[0, rows][:, None] * np.ones((1, table.shape[1]))
    elif layout.attributes[j].kind is Encoding.SIMPLEX:
        reach = np.ones((table.shape[0], 1)) * work.value[0, columns]
    else:
        squares = np.diag(work.value)
        reach = np.sqrt(np.outer(squares[rows], squares[columns]))
    clipped: Floats = np.clip(table, -reach, reach)
    return clipped


def _project(work: _Work) -> None:
    """Make the features' covariance possible; margins and label stay, for the solver.

    Each eigenvalue that has noise is taken at its mean, given that it is positive. The nearest matrix without negative
    ones would say of some directions that nothing varies along them, where noise hides what does.
    """
    layout, n = work.moments.layout, work.moments.n
    owners = [i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE for _ in range(a.size)]
    at = [k for i in dict.fromkeys(owners) for k in range(layout.width)[layout.span(i)]]
    grid, member = np.ix_(at, at), np.array(owners)
    base = np.outer(work.value[0, at], work.value[0, at]) / n
    centred = work.value[grid] - base
    noise = np.where(np.isfinite(work.std[grid]) & (member[:, None] != member), work.std[grid], 0.0) ** 2
    if diagonal(centred) and not noise.any():
        work.value[grid] = base + np.maximum(centred, 0.0)
        return
    basis = _free_basis(layout, owners)
    if noise.any():
        work.value[grid] = base + _possible(centred, noise, basis)
        return
    values = eigenvalues(basis.T @ centred @ basis)
    if values.size and values[0] < -INCONSISTENT * values[-1]:
        work.value[grid] = base + positive_part(centred)


def _possible(centred: Floats, noise: Floats, basis: Floats) -> Floats:
    """A covariance with its eigenvalues at their means given that they are positive."""
    values, vectors = np.linalg.eigh(basis.T @ centred @ basis)
    vectors = basis @ vectors
    std = np.sqrt(2.0 * np.einsum("ik,ik->k", vectors**2, noise @ vectors**2))
    negligible = NEGLIGIBLE * float(np.abs(values).max(initial=0.0))
    seen = std > negligible
    moved = np.where(values > negligible, values, 0.0)
    moved[seen] = _positive_mean(values[seen], std[seen])
    result: Floats = (vectors * moved) @ vectors.T
    return result


def _free_basis(layout: Layout, owners: Sequence[int]) -> Floats:
    """Directions in which coordinates can vary: the levels of an attribute sum to one."""
    basis = np.eye(len(owners))
    simplex = [layout.attributes[i].kind is Encoding.SIMPLEX for i in owners]
    levels, kept = np.array(owners), np.ones(len(owners), dtype=bool)
    for i in {i for i, whole in zip(owners, simplex, strict=True) if whole}:
        own = np.flatnonzero(levels == i)
        ones = np.column_stack([np.ones(own.size), np.eye(own.size)[:, 1:]])
        basis[np.ix_(own, own)] = np.linalg.qr(ones)[0]
        kept[own[0]] = False
    return basis[:, kept]


def _positive_mean(value: Floats, std: Floats) -> Floats:
    """Means of positive numbers that were seen with normal noise: value + std pdf(z) / cdf(z), z = value / std."""
    z = np.clip(value / std, -1e6, 1e6)
    result: Floats = value + std * np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z))
    return np.maximum(result, 0.0)
