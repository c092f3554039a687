"""A table that gives chosen values at chosen tags and is uniform to whoever knows no tag.

An oblivious key-value store over GF(2), of the kind of Garimella, Pinkas, Rosulek, Trieu and Yanai (Oblivious
Key-Value Stores and Amplification for Private Set Intersection, 2021): the value at a tag is the sum of three sparse
slots and of a subset of 64 dense ones. A slot has as many words as a value.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from colonnade.crypto.alignment.code import BYTE
from colonnade.crypto.alignment.kernels import AlignmentKernels, Peeling, Rows
from colonnade.crypto.product import Words
from colonnade.foundation.errors import AlignmentError
from colonnade.foundation.randomness import Randomness

_DENSE = 64  # slots of which any subset may be summed, as in the paper above
_LOAD = 1.3  # slots an entry; three-way peeling needs more than 1.22
_SPARE = 32  # a segment's extra slots, which keep the rest small where there are few entries


def segment_of(entries: int) -> int:
    """Slots in each of the three segments of a table for that many entries."""
    return int(np.ceil(_LOAD * entries / 3)) + _SPARE


def slots_of(entries: int) -> int:
    """Slots of the whole table: what a table of that size can be made to say, at most."""
    return 3 * segment_of(entries) + _DENSE


class Store:
    """Where each tag's value lies in tables for so many entries, by three numbers of a tag and 64 coin flips."""

    def __init__(self, slots: Words, coins: Words, entries: int, kernels: AlignmentKernels, segment: int = 0) -> None:
        self._segment = segment or segment_of(entries)
        self._coins, self._kernels = coins, kernels
        self.places: Rows = (slots % np.uint64(self._segment)).astype(np.int64)
        self.places += self._segment * np.arange(3)
        self.size = 3 * self._segment + _DENSE

    @cached_property
    def _peeling(self) -> Peeling:
        return self._kernels.peel(self.places, 3 * self._segment)

    def read(self, table: Words) -> Words:
        """The value at each tag: what was written there, else noise."""
        values = self._kernels.three(table, self.places)
        self._add_dense(values, table)
        return values

    def write(self, values: Words, randomness: Randomness, further: int = 0) -> Words:
        """A uniform one among the tables with these values at these tags, and `further` uniform rows after it."""
        width = values.shape[1]
        table = randomness.words((self.size + further) * width).reshape(-1, width)
        rest = self._peeling.rest
        # What cannot be peeled, two entries or four in a run out of a hundred at most, is solved by the dense slots.
        self._solve(table, values[rest] ^ self._kernels.three(table, self.places[rest]))
        goals = values.copy()
        self._add_dense(goals, table)
        self._kernels.fill(table, self.places, goals, self._peeling)
        return table

    def _add_dense(self, values: Words, table: Words) -> None:
        """Add the sum of each tag's subset of the dense slots."""
        dense = table[3 * self._segment : self.size]
        sums = np.zeros((_DENSE // 8, BYTE, dense.shape[1]), np.uint64)
        for i in range(_DENSE):
            group, j = divmod(i, 8)
            sums[group, 1 << j : 2 << j] = sums[group, : 1 << j] ^ dense[i]
        self._kernels.add_bytes(values, sums, self._coins.view(np.uint8).reshape(-1, 8))

    def _solve(self, table: Words, goals: Words) -> None:
        """Change dense slots, in place, so that each row's subset sums to its goal: elimination over GF(2)."""
        rest, pivots = self._peeling.rest, list[tuple[int, int, int]]()
        for row, goal in zip(rest.tolist(), goals, strict=True):
            mask, value = int(self._coins[row]), int.from_bytes(goal.tobytes(), "little")
            for bit, other, other_value in pivots:
                if mask >> bit & 1:
                    mask, value = mask ^ other, value ^ other_value
            if not mask:
                raise AlignmentError(
                    f"the rest of a table of {len(self.places)} ids must be solvable, got {len(rest)} dependent rows: "
                    "start again"
                )
            pivots.append((mask.bit_length() - 1, mask, value))
        dense = table[3 * self._segment : self.size]
        slots = [int.from_bytes(slot.tobytes(), "little") for slot in dense]
        for bit, mask, value in reversed(pivots):
            for j in range(_DENSE):
                if j != bit and mask >> j & 1:
                    value ^= slots[j]
            slots[bit] = value
        raw = b"".join(slot.to_bytes(8 * dense.shape[1], "little") for slot in slots)
        dense[:] = np.frombuffer(raw, np.uint64).reshape(dense.shape)
