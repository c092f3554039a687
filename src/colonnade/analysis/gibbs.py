"""Gibbs chains over the levels of all columns: each unit of columns is drawn given the rest, again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.draws import uniform32
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import resample

Singles = NDArray[np.float32]
Levels = NDArray[np.int64]

WIDE = 128
"""A column with more levels than this is drawn by the other columns' coordinates alone, its own being zero: most of the
work. Narrower ones are not, since sums in another order would draw other levels from the same seed."""
RENEWED = 0.5
"""Chains are drawn anew when their weights are worth fewer than this share of them."""


class Walk:
    """Many chains at once. A unit of several columns is drawn jointly."""

    def __init__(
        self, spans: Sequence[slice], units: Sequence[Sequence[int]], levels: Levels, field: Floats, coupling: Floats
    ) -> None:
        self.spans, self.units, self.levels = spans, units, levels.copy()
        self._hot = np.zeros((len(levels), spans[-1].stop), dtype=np.float32)
        for i, span in enumerate(spans):
            self._hot[np.arange(len(levels)), span.start + levels[:, i]] = 1.0
        self.weights = np.full(len(levels), 1.0 / len(levels))
        self._wide = max(span.stop - span.start for span in spans) > WIDE
        self.set(field, coupling)

    def _outside(self, unit: Sequence[int]) -> slice | Levels:
        """The coordinates of columns outside a unit, where it is wide; else all."""
        if max(self.spans[i].stop - self.spans[i].start for i in unit) <= WIDE:
            return slice(None)
        kept = np.ones(self._hot.shape[1], dtype=bool)
        for i in unit:
            kept[self.spans[i]] = False
        return np.flatnonzero(kept)

    def _likelier(self, field: Floats, coupling: Floats) -> NDArray[np.floating]:
        """How much a model adds to the logarithm of each chain's probability."""
        if not self._wide:
            change = self._hot @ (coupling - self.coupling).astype(np.float32)
            extra: NDArray[np.floating] = 0.5 * np.einsum("nd,nd->n", change, self._hot)
            extra = extra + self._hot @ (field - self.field).astype(np.float32)
            return extra
        more, pairs = field - self.field, coupling - self.coupling
        at = [span.start + self.levels[:, i] for i, span in enumerate(self.spans)]
        total = np.zeros(len(self.levels))
        for i, own in enumerate(at):
            total += more[own]
            for other in at[:i]:
                total += pairs[own, other]
        return total

    def set(self, field: Floats, coupling: Floats) -> None:
        """Go on with another model."""
        self.field, self.coupling = field, coupling
        self._field, self._coupling = field.astype(np.float32), coupling.astype(np.float32)

    def move(self, field: Floats, coupling: Floats, randomness: Randomness) -> None:
        """Go on with a model near by: chains that it makes likelier weigh more, and are drawn anew by their weights."""
        logs = self._likelier(field, coupling)
        self.set(field, coupling)
        weights = self.weights * np.exp(logs - logs.max())
        self.weights = weights / weights.sum()
        if 1.0 / float((self.weights**2).sum()) < RENEWED * len(weights):
            kept = resample(self.weights, len(weights), float(uniform32(randomness, 1)[0]))
            self.levels, self._hot = self.levels[kept], self._hot[kept]
            self.weights = np.full(len(weights), 1.0 / len(weights))

    def hold(self, given: Mapping[int, int]) -> None:
        """Put the same levels of some columns into all chains."""
        for i, level in given.items():
            self.levels[:, i] = level
            self._hot[:, self.spans[i]] = 0.0
            self._hot[:, self.spans[i].start + level] = 1.0

    def sweep(self, randomness: Randomness, given: Mapping[int, int] | None = None, tables: bool = True) -> Floats:
        """Draw every unit once; the chains' pair tables, with the law of each unit in place of its draw."""
        width = len(self.field)
        scaled = self.weights.astype(np.float32)[:, None]
        out = np.zeros((width, width), dtype=np.float32)
        for unit in self.units:
            free = [i for i in unit if given is None or i not in given]
            if not free:
                continue
            laws = self._draw(free, randomness, out if tables else None)
            if tables:
                outside = self._outside(unit)
                for i, law in zip(free, laws, strict=True):
                    span = self.spans[i]
                    across = np.zeros((width, law.shape[1]), dtype=np.float32)
                    across[outside] = self._hot[:, outside].T @ (law * scaled)
                    for j in unit:
                        across[self.spans[j]] = 0.0
                    out[:, span] += 0.5 * across
                    out[span, :] += 0.5 * across.T
                    out[np.arange(width)[span], np.arange(width)[span]] = scaled[:, 0] @ law
        return out.astype(np.float64)

    def _draw(self, unit: Sequence[int], randomness: Randomness, tables: Singles | None) -> list[Singles]:
        """New levels of a unit's columns; the law of each given the columns outside the unit."""
        count, hot = len(self.levels), self._hot
        for i in unit:
            hot[:, self.spans[i]] = 0.0
        sizes = [self.spans[i].stop - self.spans[i].start for i in unit]
        outside = self._outside(unit)
        rest = hot[:, outside]
        logits = [rest @ self._coupling[outside, self.spans[i]] + self._field[self.spans[i]] for i in unit]
        joint = logits[0]
        for k in range(1, len(unit)):
            inner = np.zeros((int(np.prod(sizes[:k])), sizes[k]), dtype=np.float32)
            for earlier in range(k):
                block = self._coupling[self.spans[unit[earlier]], self.spans[unit[k]]]
                inner += block[_digit(sizes[:k], earlier)]
            joint = (joint[:, :, None] + logits[k][:, None, :] + inner).reshape(count, -1)
        joint -= joint.max(axis=1, keepdims=True)
        np.exp(joint, out=joint)
        total = np.cumsum(joint, axis=1)
        draw = uniform32(randomness, count) * total[:, -1]
        chosen = np.minimum((total <= draw[:, None]).sum(axis=1), joint.shape[1] - 1)
        joint /= total[:, -1:]
        laws = []
        for k, i in enumerate(unit):
            level = _digit(sizes, k)
            self.levels[:, i] = level[chosen]
            hot[np.arange(count), self.spans[i].start + self.levels[:, i]] = 1.0
            laws.append(joint.reshape(count, *sizes).sum(axis=tuple(a + 1 for a in range(len(unit)) if a != k)))
            if tables is None:
                continue
            for other in range(k):
                axes = tuple(a for a in range(len(unit)) if a not in (other, k))
                table = (self.weights.astype(np.float32) @ joint).reshape(sizes).sum(axis=axes)
                first, second = self.spans[unit[other]], self.spans[i]
                tables[first, second], tables[second, first] = table, table.T
        return laws


def _digit(sizes: Sequence[int], place: int) -> Levels:
    """For each joint level the level of one of its columns."""
    return np.arange(int(np.prod(sizes))) // int(np.prod(sizes[place + 1 :], dtype=np.int64)) % sizes[place]
