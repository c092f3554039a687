"""Tables of two columns, shrunk together: each towards the best path through a third column, not to independence.

For columns i, j and another k the path is T_ik diag(1 / m_k) T_kj: the table of i and j if k told all that they have
in common. Its noise is not that of T_ij, so the distance of the two says which k serves, hardly biased by the choice.
The base of a table is independence and the share, at most 1, of the way to that path which fits best; what is left,
noisy table less base, is shrunk by empirical Bayes, all tables together, and again with the new tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.shrinkage import Deviations, shrink
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import fit_margins

ROUNDS = 2
"""On the ACS excerpt a second round takes the distance from .0381 to .0376; a third was not tried."""
FITTING_STEPS = 60
"""Of proportional fitting: tables are met to the digits that are shown."""
LARGEST_SEARCH = 4e9
"""Cells looked at in a round, all paths together, some ten seconds: beyond it the weaker columns are no mediators."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class NoisyTables:
    """Tables of two columns as they were released over their combined margins, n records, columns side by side."""

    n: int
    starts: Sequence[int]
    """Where the levels of each column begin, and, last, where they end."""
    margin: Floats
    tables: Mapping[Pair, Floats]
    """By two columns, the smaller first: the unshrunk table."""
    noise: Mapping[Pair, float]
    """The variance of the noise on a cell of it."""

    def span(self, column: int) -> slice:
        return slice(self.starts[column], self.starts[column + 1])

    def free(self, pair: Pair) -> float:
        """Free cells of a table over all of them: its margins bind the rest."""
        sizes = [self.starts[i + 1] - self.starts[i] for i in pair]
        return (1 - 1 / sizes[0]) * (1 - 1 / sizes[1])


def shrink_tables(noisy: NoisyTables, value: Floats) -> dict[Pair, tuple[Floats, Floats]]:
    """Return each table at its most plausible, and the standard deviation that is left in its cells.

    value: tables of all columns, cleaned one by one, for the first paths.
    """
    if not noisy.tables:
        return {}
    margin, n = noisy.margin, noisy.n
    variances = np.maximum(margin - margin**2 / n, 0.0)
    search = _Search(noisy)
    out: dict[Pair, tuple[Floats, Floats]] = {}
    for _ in range(ROUNDS):
        bases, blocks = search.bases(value), []
        for (i, j), table in noisy.tables.items():
            ceiling = np.outer(variances[noisy.span(i)], variances[noisy.span(j)])
            spread = np.full(table.shape, noisy.noise[i, j] * noisy.free((i, j)) + 1e-12)
            blocks.append(Deviations(table - bases[i, j], ceiling, spread, noisy.free((i, j))))
        value = value.copy()
        for (i, j), found in zip(noisy.tables, shrink(blocks), strict=True):
            rows, columns = noisy.span(i), noisy.span(j)
            table = fit_margins(bases[i, j] + found.value, margin[rows], margin[columns], FITTING_STEPS)
            value[rows, columns], value[columns, rows] = table, table.T
            out[i, j] = table, np.sqrt(found.variance)
    return out


class _Search:
    """Finds for every table the column through which it is explained best."""

    def __init__(self, noisy: NoisyTables) -> None:
        self._noisy, self._apart = noisy, np.outer(noisy.margin, noisy.margin) / noisy.n
        count = len(noisy.starts) - 1
        self._released = np.zeros((count, count), dtype=bool)
        self._weight, self._seen = np.zeros_like(self._apart), np.zeros_like(self._apart)
        for (i, j), table in noisy.tables.items():
            self._released[i, j] = self._released[j, i] = True
            weight = 1.0 / (noisy.noise[i, j] * noisy.free((i, j)) + 1e-12)
            for rows, columns, seen in ((i, j, table), (j, i, table.T)):
                at = noisy.span(rows), noisy.span(columns)
                self._weight[at], self._seen[at] = weight, (seen - self._apart[at]) * weight

    def bases(self, value: Floats) -> dict[Pair, Floats]:
        """Return the base of each table: independence, or nearer to the best path of these tables."""
        noisy, count = self._noisy, len(self._released)
        gain, share, by = (np.zeros((count, count)) for _ in range(3))
        for k in self._mediators(value):
            away = self._path(value, k, slice(None), slice(None)) - self._apart
            size, met = self._summed(away**2 * self._weight), self._summed(away * self._seen)
            part = np.clip(met / np.where(size > 0, size, np.inf), 0.0, 1.0)
            # How much nearer the noisy table is to this base than to independence.
            nearer = part * (2.0 * met - part * size)
            through = self._released[:, k]
            nearer[~(through[:, None] & through)] = 0.0
            better = nearer > gain
            gain[better], share[better], by[better] = nearer[better], part[better], k
        out = {}
        for i, j in noisy.tables:
            rows, columns = noisy.span(i), noisy.span(j)
            base = self._apart[rows, columns]
            if gain[i, j] > 0:
                base = base + share[i, j] * (self._path(value, int(by[i, j]), rows, columns) - base)
            out[i, j] = base
        return out

    def _path(self, value: Floats, k: int, rows: slice, columns: slice) -> Floats:
        middle = self._noisy.span(k)
        own = self._noisy.margin[middle]
        weight = np.divide(1.0, own, out=np.zeros_like(own), where=own > 1e-9)
        result: Floats = (value[rows, middle] * weight) @ value[middle, columns]
        return result

    def _summed(self, cells: Floats) -> Floats:
        starts = np.asarray(self._noisy.starts[:-1])
        result: Floats = np.add.reduceat(np.add.reduceat(cells, starts, axis=0), starts, axis=1)
        return result

    def _mediators(self, value: Floats) -> NDArray[np.intp]:
        """The columns that are tried: all, or those that go with others most where all would take too long."""
        strength = self._summed((value - self._apart) ** 2 * self._weight).sum(axis=1)
        most = int(LARGEST_SEARCH // value.size)
        result: NDArray[np.intp] = np.argsort(-strength, kind="stable")[:most]
        return result
