"""Which columns the noise leaves readable: a reduced model, chosen from the features' products alone.

Splits of attributes are added one by one (a level from the rest, a cut between two bins, a number), the one with the
most variance of its own first, as long as the noise stays small against the covariance of the columns in its weakest
direction. Levels that are not split off are merged; attributes without a split are left out. The products with the
label are not looked at, so that no coefficient is chosen because noise made it large.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from colonnade.analysis.contrasts import Contrast, NoisyCovariance, noisy_covariance
from colonnade.analysis.denoise import Estimate
from colonnade.mechanism.moments import Encoding, Floats, Layout, Moments

AGAIN = 0.5
"""What a further split of an attribute counts against the first one of another."""
MISSES = 12
"""Splits that are refused one after another before the search ends."""
MOST = 64
"""Most columns of a reduced model."""


def choose_columns(moments: Moments, raw: Estimate, attributes: Sequence[int], quiet: float) -> tuple[Contrast, ...]:
    """The columns of the model with the most splits that the noise leaves readable; all of them where it can."""
    layout = moments.layout
    splits = [split for i in attributes for split in _splits(layout, i)]
    whole = whole_columns(layout, attributes)
    if loudness(noisy_covariance(moments, raw, whole)) <= quiet:
        return whole
    every = noisy_covariance(moments, raw, splits)
    noise = np.sqrt(np.diag(every.overlap) * every.table.sum(axis=1)[every.member])
    chosen: list[int] = []
    left = set(range(len(splits)))
    misses = 0
    while left and misses < MISSES and len(chosen) < MOST:
        own = _own_variances(every.matrix, chosen) / np.maximum(noise, 1e-300)
        again = np.isin(every.member, every.member[chosen])
        own = np.where(again, AGAIN * own, own)
        best = max(sorted(left), key=lambda k: own[k])
        left.discard(best)
        tried = [splits[k] for k in (*chosen, best)]
        taken = sum(s.attribute == splits[best].attribute for s in tried)
        if taken > _most_splits(layout, splits[best].attribute):
            continue
        if loudness(noisy_covariance(moments, raw, columns_of(layout, tried))) <= quiet:
            chosen.append(best)
            misses = 0
        else:
            misses += 1
    return columns_of(layout, [splits[k] for k in chosen])


def loudness(covariance: NoisyCovariance) -> float:
    """How large the noise is against the covariance in its weakest direction; infinite where that is not positive.

    A symmetric matrix of noise with deviation s in each of p rows has a norm of about 2 s sqrt(p).
    """
    size = len(covariance.matrix)
    if not size:
        return 0.0
    if not np.all(np.isfinite(covariance.table)):
        return float("inf")
    scale = np.sqrt(np.diag(covariance.overlap))
    values, vectors = np.linalg.eigh(covariance.matrix / np.outer(scale, scale))
    if values[0] <= 1e-9 * values[-1]:
        return float("inf")
    worst = 0.0
    for k in range(min(3, size)):
        v = vectors[:, k] / scale
        signal, noise = covariance.matrix @ v, covariance.noise(v)
        floor = max(1e-12 * float(np.trace(noise)), 1e-300)
        square = float(signal @ np.linalg.solve(noise + floor * np.eye(size), signal))
        worst = max(worst, 2.0 * np.sqrt(size / max(square, 1e-300)))
    return float(worst)


def unidentified_directions(covariance: NoisyCovariance) -> int:
    """How many directions of a covariance do not stand above its noise."""
    scale = np.sqrt(np.diag(covariance.overlap))
    cells = covariance.table[np.ix_(covariance.member, covariance.member)] + np.diag(covariance.square)
    norm = 2.0 * np.sqrt(float(cells.sum(axis=1).mean()))
    values = np.linalg.eigvalsh(covariance.matrix / np.outer(scale, scale))
    return int((values <= norm).sum())


def columns_of(layout: Layout, splits: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """The columns of attributes that are split in some ways: one for each group of levels but the base's."""
    out: list[Contrast] = []
    for i in sorted({s.attribute for s in splits}):
        groups = groups_of(layout, i, [s for s in splits if s.attribute == i])
        out += [Contrast(i, group) for group in groups[1:]]
    return tuple(out)


def groups_of(layout: Layout, i: int, splits: Sequence[Contrast]) -> list[tuple[int, ...]]:
    """An attribute's levels in groups, the base's first: the one with the declared base, or with the first level."""
    attribute = layout.attributes[i]
    if attribute.kind is Encoding.SIGNED:
        return [(), (0,)]
    if attribute.ordered:
        cuts = [0, *sorted(len(s.levels) for s in splits), attribute.size]
        groups = [tuple(range(a, b)) for a, b in pairwise(cuts)]
    else:
        alone = sorted(s.levels[0] for s in splits)
        groups = [*((k,) for k in alone), tuple(k for k in range(attribute.size) if k not in alone)]
    groups.sort(key=lambda group: (attribute.drop not in group if attribute.drop is not None else 0, group[0]))
    return groups


def _splits(layout: Layout, i: int) -> list[Contrast]:
    """Every way to split an attribute: a number, a level from the rest, or the bins below a cut from those above."""
    attribute = layout.attributes[i]
    if attribute.kind is Encoding.SIMPLEX and attribute.ordered:
        return [Contrast(i, tuple(range(k))) for k in range(1, attribute.size)]
    return [Contrast(i, (k,)) for k in range(attribute.size)]


def whole_columns(layout: Layout, attributes: Sequence[int]) -> tuple[Contrast, ...]:
    """The columns of the full model."""
    out: list[Contrast] = []
    for i in attributes:
        drop = layout.attributes[i].drop
        own = _splits(layout, i)
        full = layout.attributes[i].kind is Encoding.SIGNED or layout.attributes[i].ordered
        out += own if full else [s for s in own if s.levels != (drop or 0,)]
    return columns_of(layout, out)


def _most_splits(layout: Layout, i: int) -> int:
    attribute = layout.attributes[i]
    return attribute.size - (attribute.kind is Encoding.SIMPLEX)


def _own_variances(matrix: Floats, chosen: Sequence[int]) -> Floats:
    """What the chosen splits leave of each split's variance."""
    variances: Floats = np.diag(matrix).copy()
    if chosen:
        across = matrix[chosen]
        variances -= (across * np.linalg.solve(matrix[np.ix_(chosen, chosen)], across)).sum(axis=0)
    return variances
