"""The loops of an alignment over ids and bits, in numpy; `compiled` has the same, bit for bit, for numba."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Words

_BLOCK = 64  # words of a column that are turned at once, while a cache holds them
# Hacker's Delight, 7.3: bits swapped at distance 7, 14, 28.
_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


def turn_squares(words: Words) -> None:
    """Transpose, in place, each word as a square of eight by eight bits, byte r being row r."""
    for shift, mask in _SWAPS:
        part = words >> np.uint64(shift)
        part ^= words
        part &= np.uint64(mask)
        words ^= part
        part <<= np.uint64(shift)
        words ^= part


def rows_of(columns: Words) -> Words:
    """(c columns of w words) to (64 w rows of c / 64 words): bit r of column j becomes bit j of row r."""
    count, width = columns.shape
    out = np.empty((64 * width, count // 64), np.uint64)
    for start in range(0, width, _BLOCK):
        part = np.ascontiguousarray(columns[:, start : start + _BLOCK])
        by_bytes = part.view(np.uint8).reshape(count // 8, 8, -1)
        squares = np.ascontiguousarray(by_bytes.transpose(2, 0, 1)).view(np.uint64).reshape(-1, count // 8)
        turn_squares(squares)
        turned = squares.view(np.uint8).reshape(-1, count // 8, 8).transpose(0, 2, 1)
        goal = out[64 * start : 64 * (start + _BLOCK)].view(np.uint8).reshape(-1, 8, count // 8)
        goal[:] = turned
    return out


def columns_of(rows: Words, count: int) -> Words:
    """The first `count` columns, a multiple of 8, of a number of rows that is a multiple of 64."""
    height = len(rows)
    by_bytes = rows.view(np.uint8).reshape(height // 8, 8, -1)[:, :, : count // 8]
    squares = np.ascontiguousarray(by_bytes.transpose(0, 2, 1)).view(np.uint64)[:, :, 0]
    turn_squares(squares)
    turned = squares.view(np.uint8).reshape(height // 8, count // 8, 8).transpose(1, 2, 0)
    return np.ascontiguousarray(turned).reshape(count, height // 8).view(np.uint64)


Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]

SUMS = 128
"""Random sums of rows that a check compares."""
_GROUP = 11  # bits of a challenge that are looked at together
_KINDS = 1 << _GROUP  # values of a group
_SORTED_AT_ONCE = 1 << 15  # rows that are sorted at once, while a cache holds them


@dataclass(frozen=True)
class Peeling:
    """Entries in the order in which each had a slot to itself, those slots, where rounds end, and who never had one."""

    rows: Rows
    slots: Rows
    ends: list[int]
    rest: Rows


class AlignmentKernels:
    """Gathers and sums of rows of words."""

    def rows_of(self, columns: Words) -> Words:
        """Bit r of column j becomes bit j of row r."""
        return rows_of(columns)

    def columns_of(self, rows: Words, count: int) -> Words:
        """The first `count` columns of rows."""
        return columns_of(rows, count)

    def peel(self, places: Rows, slots: int) -> Peeling:
        """Take entries off in rounds: whoever has a slot that no other entry left uses."""
        left = np.arange(len(places))
        degree = np.bincount(places.ravel(), minlength=slots).astype(np.int32)
        mine = [np.ascontiguousarray(places[:, i]) for i in range(3)]
        rounds: list[tuple[Rows, Rows]] = []
        while len(left):
            alone = [degree[column] == 1 for column in mine]
            free = alone[0] | alone[1] | alone[2]
            found = np.flatnonzero(free)
            if not len(found):
                break
            first, second, third = taken = [column[found] for column in mine]
            own = np.where(alone[0][found], first, np.where(alone[1][found], second, third))
            rounds.append((left[found], own))
            _take_off(degree, np.concatenate(taken))
            kept = np.flatnonzero(~free)
            left, mine = left[kept], [column[kept] for column in mine]
        none = [np.empty(0, np.int64)]
        ends = np.cumsum([0, *(len(rows) for rows, _ in rounds)]).tolist()
        rows, slots_of_rows = (np.concatenate([*none, *(r[i] for r in rounds)]) for i in range(2))
        return Peeling(rows, slots_of_rows, ends, left)

    def fill(self, table: Words, places: Rows, goals: Words, peeling: Peeling) -> None:
        """Give each entry's own slot the value with which its three slots sum to its goal; last taken off, first."""
        for start, stop in reversed(list(zip(peeling.ends[:-1], peeling.ends[1:], strict=True))):
            rows, slots = peeling.rows[start:stop], peeling.slots[start:stop]
            table[slots] = 0
            table[slots] = take(goals, rows) ^ self.three(table, places[rows])

    def three(self, table: Words, places: Rows) -> Words:
        """The sum of each entry's three slots."""
        sums = take(table, places[:, 0])
        sums ^= take(table, places[:, 1])
        sums ^= take(table, places[:, 2])
        return sums

    def add_bytes(self, out: Words, sums: Words, chosen: Bytes) -> None:
        """out[i] ^= sums[b, chosen[i, b]] for every b."""
        for b in range(len(sums)):
            out ^= take(sums[b], chosen[:, b])

    def combine(self, rows: Words, challenge: Words) -> Words:
        """The 128 sums of rows; row i is in sum l if bit l of its challenge is set."""
        width = rows.shape[1]
        bits = np.zeros((len(rows), 3), np.uint64)
        bits[:, :2] = challenge
        out = np.zeros((SUMS, width), np.uint64)
        for first in range(0, SUMS, _GROUP):
            word, shift = divmod(first, 64)
            group = bits[:, word] >> np.uint64(shift)
            if shift + _GROUP > 64:
                group |= bits[:, word + 1] << np.uint64(64 - shift)
            totals = _by_kind(rows, (group & np.uint64(_KINDS - 1)).astype(np.uint16))
            for bit in reversed(range(min(_GROUP, SUMS - first))):
                half = 1 << bit
                upper = totals[half : 2 * half]
                out[first + bit] = np.bitwise_xor.reduce(upper, axis=0)
                totals[:half] ^= upper
        return out

    def digests(self, prefix: bytes, data: Bytes, ends: Rows, words: int) -> Words:
        """BLAKE2b of the prefix and each text: texts lie one after the other, `ends` says where each of them ends."""
        begun, texts, found = blake2b(prefix, digest_size=8 * words), data.tobytes(), []
        for first, last in pairwise([0, *ends.tolist()]):
            one = begun.copy()
            one.update(texts[first:last])
            found.append(one.digest())
        return np.frombuffer(b"".join(found), "<u8").reshape(-1, words)


def _take_off(degree: NDArray[np.int32], slots: Rows) -> None:
    """One user less for each of these slots, some of which may be there twice."""
    if 8 * len(slots) > len(degree):
        degree -= np.bincount(slots, minlength=len(degree)).astype(np.int32)
    else:
        np.subtract.at(degree, slots, np.int32(1))


def _by_kind(rows: Words, kinds: NDArray[np.uint16]) -> Words:
    """For each number below 2048 the sum of the rows of that kind."""
    totals = np.zeros((_KINDS, rows.shape[1]), np.uint64)
    for start in range(0, len(rows), _SORTED_AT_ONCE):
        part = kinds[start : start + _SORTED_AT_ONCE]
        counts = np.bincount(part, minlength=_KINDS)
        there = np.flatnonzero(counts)
        sorted_rows = take(rows[start : start + _SORTED_AT_ONCE], np.argsort(part, kind="stable"))
        totals[there] ^= np.bitwise_xor.reduceat(sorted_rows, (np.cumsum(counts) - counts)[there], axis=0)
    return totals


def take(rows: Words, chosen: NDArray[np.integer]) -> Words:
    """Rows by number; as one item each they are moved faster."""
    width = rows.shape[1]
    items = rows.view(f"V{8 * width}")[:, 0]
    taken = np.take(items, chosen) if items.flags.c_contiguous else items[chosen]
    return taken.view(np.uint64).reshape(-1, width)


WORTHWHILE = 1 << 18
"""Ids of a list from which on compiled loops save more than the time that it takes to load them."""
_COMPILED = "colonnade.crypto.alignment.compiled_kernels"


def available() -> bool:
    """Whether numba is installed; its first use on a machine compiles for some seconds, and is kept on disk."""
    return find_spec("numba") is not None


def best_kernels(ids: int) -> AlignmentKernels:
    """Those that take the least time for so many ids; what they compute is the same."""
    if available() and (ids >= WORTHWHILE or _COMPILED in sys.modules):
        from colonnade.crypto.alignment.compiled_kernels import CompiledAlignmentKernels

        return CompiledAlignmentKernels()
    return AlignmentKernels()
