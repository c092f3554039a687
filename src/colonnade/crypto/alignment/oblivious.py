"""A table that gives chosen values at chosen tags and is uniform to whoever knows no tag.

An oblivious key-value store over GF(2)^128, of the kind of Garimella, Pinkas, Rosulek, Trieu and Yanai (Oblivious
Key-Value Stores and Amplification for Private Set Intersection, 2021): the value at a tag is the sum of three sparse
slots and of a subset of 64 dense ones. Values are linear in the table: the sum of tables is the table of the sums.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import AlignmentError
from colonnade.foundation.randomness import Randomness

Words = NDArray[np.uint64]
Rows = NDArray[np.int64]

TAG_BYTES = 16
SLOT_BYTES = 16
_DENSE = 64
_LOAD = 1.3  # slots an entry; three-way peeling needs more than 1.22
_SPARE = 32  # a segment's extra slots, which keep the rest small where there are few entries


class Tags:
    """What n secret points say about a table: 16 bytes each to compare and sort by, three slots, 64 coin flips."""

    def __init__(self, points: list[bytes], session: bytes) -> None:
        digests = [blake2b(point, digest_size=48, key=session).digest() for point in points]
        self.names = [digest[:TAG_BYTES] for digest in digests]
        whole = b"".join(digests)
        words = np.frombuffer(whole, dtype="<u8").reshape(-1, 6)
        self._slots, self._coins = words[:, 2:5], words[:, 5]
        self._keys = np.frombuffer(whole, dtype=">u8").reshape(-1, 6)[:, : TAG_BYTES // 8]

    def __len__(self) -> int:
        return len(self.names)

    def ranks(self, rows: Rows) -> Rows:
        """The order that sorts these rows by name, first byte first."""
        high, low = self._keys[rows].astype(np.uint64).T
        return np.lexsort((low, high))

    def places(self, segment: int) -> Rows:
        """Three sparse slots a tag, one in each segment."""
        return (self._slots % np.uint64(segment)).astype(np.int64) + segment * np.arange(3)

    def dense(self, slots: Words) -> Words:
        """The sum of each tag's subset of the dense slots."""
        out = np.zeros((len(self), 2), dtype=np.uint64)
        for start in range(0, _DENSE, 8):
            sums = np.zeros((256, 2), dtype=np.uint64)  # of every subset of eight slots
            for j in range(8):
                sums[1 << j : 2 << j] = sums[: 1 << j] ^ slots[start + j]
            out ^= sums[(self._coins >> np.uint64(start)) & np.uint64(255)]
        return out

    def coins(self, row: int) -> int:
        return int(self._coins[row])


def segment_of(entries: int) -> int:
    """Slots in each of the three segments of a table for that many entries."""
    return int(np.ceil(_LOAD * entries / 3)) + _SPARE


def slots_of(entries: int) -> int:
    """Slots of the whole table."""
    return 3 * segment_of(entries) + _DENSE


def read(table: Words, tags: Tags, segment: int) -> Words:
    """The value at each tag: what was written there, else noise."""
    return _sparse(table, tags.places(segment)) ^ tags.dense(table[3 * segment :])


def write(tags: Tags, values: Words, segment: int, randomness: Randomness) -> Words:
    """A uniform one among the tables with these values at these tags."""
    size = 3 * segment + _DENSE
    table = randomness.words(2 * size).reshape(size, 2)
    places = tags.places(segment)
    rounds, rest = _peel(places, 3 * segment)
    # What cannot be peeled, two entries or four in a run out of a hundred at most, is solved by the dense slots.
    _solve(table[3 * segment :], tags, values[rest] ^ _sparse(table, places[rest]), rest)
    goals = values ^ tags.dense(table[3 * segment :])
    for rows, slots in reversed(rounds):
        table[slots] = 0
        table[slots] = goals[rows] ^ _sparse(table, places[rows])
    return table


def _sparse(table: Words, places: Rows) -> Words:
    sums: Words = table[places[:, 0]] ^ table[places[:, 1]] ^ table[places[:, 2]]
    return sums


def _peel(places: Rows, slots: int) -> tuple[list[tuple[Rows, Rows]], Rows]:
    """Rounds of (rows, slot that no other row left uses), and the rows that never get one."""
    left = np.arange(len(places))
    degree = np.bincount(places.ravel(), minlength=slots)
    rounds = []
    while len(left):
        alone = degree[places[left]] == 1
        free = alone.any(axis=1)
        if not free.any():
            break
        rows = left[free]
        rounds.append((rows, places[rows, alone[free].argmax(axis=1)]))
        degree -= np.bincount(places[rows].ravel(), minlength=slots)
        left = left[~free]
    return rounds, left


def _solve(dense: Words, tags: Tags, goals: Words, rows: Rows) -> None:
    """Change dense slots, in place, so that each row's subset sums to its goal: elimination over GF(2)."""
    pivots: list[tuple[int, int, int]] = []
    for row, goal in zip(rows.tolist(), goals, strict=True):
        mask, value = tags.coins(row), int(goal[0]) | int(goal[1]) << 64
        for bit, other, other_value in pivots:
            if mask >> bit & 1:
                mask, value = mask ^ other, value ^ other_value
        if not mask:
            raise AlignmentError(
                f"the rest of a table of {len(tags)} ids must be solvable, got {len(rows)} dependent rows: start again"
            )
        pivots.append((mask.bit_length() - 1, mask, value))
    slots = [int(low) | int(high) << 64 for low, high in dense]
    for bit, mask, value in reversed(pivots):
        for j in range(_DENSE):
            if j != bit and mask >> j & 1:
                value ^= slots[j]
        slots[bit] = value
    for j, slot in enumerate(slots):
        dense[j] = slot & (2**64 - 1), slot >> 64
