"""The pairwise maximum-entropy model of released tables, fitted by persistent Gibbs chains.

    log p(levels) = sum_i h_i(level of i) + sum_{i<j} T_ij(levels of i and j) + constant

Among all laws with the given pair tables it is the one of largest entropy. Chains are moved and T, h are stepped at the
same time, towards the tables that are asked for (stochastic approximation: Robbins & Monro 1951; Younes 1989). A step
is taken in log units, as proportional fitting does (Deming & Stephan 1940), and is made smaller whenever the chains'
tables drift away. Columns that nearly determine each other move together, since one alone could hardly move.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.draws import uniform32
from colonnade.analysis.gibbs import Levels, Walk
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.threads import one_thread
from colonnade.mechanism.moments import Floats

CHAINS = 8192
SWEEPS = 200
WINDOW = 20
"""Sweeps between two looks at how far the chains' tables are from the target."""
STEP = 0.2
ROUNDING = 0.75
"""A cell's step is divided by its probability to this power: 1 would be a full log step, noisy where cells are rare."""
WORSE = 1.1
"""A distance this many times the best one so far halves the step."""
TOGETHER = 0.8
"""Columns move together where one tells more than this share of what is open in the other."""
LARGEST_UNIT = 128
STEEPEST = 12.0
FORBIDDEN = -40.0
"""What an impossible pair of levels has for T: its probability is below 1e-17."""


@dataclass(frozen=True)
class TargetTables:
    """Tables to be met, as probabilities: `pairs` holds the margins on its diagonal."""

    spans: tuple[slice, ...]
    pairs: Floats
    wanted: NDArray[np.bool_]
    """Entries that are asked for: everything but the inside of a column and pairs that were not released."""
    impossible: NDArray[np.bool_]

    @property
    def margin(self) -> Floats:
        return np.diag(self.pairs).copy()


@dataclass(frozen=True)
class PairModel:
    """The fitted law, with the chains that it was fitted by."""

    spans: tuple[slice, ...]
    field: Floats
    coupling: Floats
    units: tuple[tuple[int, ...], ...]
    chains: Levels
    weights: Floats
    tables: Floats = dataclasses.field(repr=False)
    """The model's own pair tables, margins on the diagonal, by its chains."""

    def conditional(self, column: int, levels: Levels) -> Floats:
        """The law of one column given all others, for each record."""
        logits = np.tile(self.field[self.spans[column]], (len(levels), 1))
        for j, span in enumerate(self.spans):
            if j != column:
                logits += self.coupling[span, self.spans[column]][levels[:, j]]
        logits -= logits.max(axis=1, keepdims=True)
        law = np.exp(logits)
        shares: Floats = law / law.sum(axis=1, keepdims=True)
        return shares


def fit_maxent(target: TargetTables, randomness: Randomness, chains: int = CHAINS) -> PairModel:
    """The model whose tables are the target's; on one thread, so that the same seed gives the same model."""
    with one_thread(always=True):
        return _fit(target, randomness, chains)


def _fit(target: TargetTables, randomness: Randomness, chains: int) -> PairModel:
    spans, margin = target.spans, np.maximum(target.margin, 1e-7)
    units = units_of(target)
    start = [_pick(margin[s], uniform32(randomness, chains)) for s in spans]
    walk = Walk(spans, units, np.column_stack(start), np.log(margin), _forbid(target, np.zeros_like(target.pairs)))
    small = 0.5 / chains
    scale = (np.maximum(target.pairs, np.outer(margin, margin)) + small) ** -ROUNDING
    margin_scale = (margin + small) ** -ROUNDING
    # The more columns, the more tables pull at one level.
    step, best = STEP * min(1.0, 12.0 / len(spans)), np.inf
    mean = np.zeros_like(target.pairs)
    for t in range(SWEEPS):
        tables = walk.sweep(randomness)
        mean += tables / WINDOW
        error = margin - np.diag(tables)
        gap = np.where(target.wanted, target.pairs - tables - np.outer(margin, error) - np.outer(error, margin), 0.0)
        rate = step * min(1.0, max(0.02, 2.0 * (1.0 - t / SWEEPS)))
        coupling = _forbid(target, np.clip(walk.coupling + rate * gap * scale, -STEEPEST, STEEPEST))
        walk.move(walk.field + rate * error * margin_scale, coupling, randomness)
        if (t + 1) % WINDOW == 0:
            distance = float(np.abs(np.where(target.wanted, mean - target.pairs, 0.0)).sum())
            step = 0.5 * step if distance > WORSE * best else step
            best, mean = min(best, distance), np.zeros_like(mean)
    tables = np.mean([walk.sweep(randomness) for _ in range(WINDOW)], axis=0)
    return PairModel(spans, walk.field, walk.coupling, units, walk.levels, walk.weights, tables)


def units_of(target: TargetTables) -> tuple[tuple[int, ...], ...]:
    """Columns that nearly determine each other together, as far as their joint levels stay few; others alone."""
    spans, margin = target.spans, np.maximum(target.margin, 1e-12)
    sizes = [s.stop - s.start for s in spans]
    unit = {i: [i] for i in range(len(spans))}
    told = []
    for i, first in enumerate(spans):
        for j in range(i + 1, len(spans)):
            second = spans[j]
            if target.wanted[first, second].any():
                open_ = max(min(_entropy(margin[first]), _entropy(margin[second])), 1e-9)
                shared = _entropy(margin[first]) + _entropy(margin[second]) - _entropy(target.pairs[first, second])
                told.append((shared / open_, i, j))
    for share, i, j in sorted(told, reverse=True):
        if share < TOGETHER:
            break
        merged = sorted({*unit[i], *unit[j]})
        if np.prod([sizes[k] for k in merged]) <= LARGEST_UNIT:
            for k in merged:
                unit[k] = merged
    return tuple(dict.fromkeys(tuple(u) for u in unit.values()))


def _entropy(shares: Floats) -> float:
    p = shares[shares > 0]
    return float(-(p * np.log(p)).sum())


def _forbid(target: TargetTables, coupling: Floats) -> Floats:
    coupling[target.impossible] = FORBIDDEN
    return coupling


def _pick(shares: Floats, uniform: NDArray[np.float32]) -> Levels:
    edges = np.cumsum(shares) / shares.sum()
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(shares) - 1).astype(np.int64)
