"""An alignment's inner loops for numba; what they compute is what `kernels` computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Array = NDArray[Any]

SIDE = 64  # bits of a word
LANES = 16
"""Messages that are hashed side by side, so that one instruction serves several."""
# BLAKE2b's initial state (RFC 7693).
START = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
ORDERS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)  # fmt: skip
"""BLAKE2b's first state and the order of a message's words by round (RFC 7693, 2.6 and 2.7)."""


def _compiled(function: F, **more: Any) -> F:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    try:
        compiled: Any = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder to keep compiled code in
        compiled = numba.njit(**settings)(function)
    return cast(F, compiled)


@_compiled
def _turn(square: Array) -> None:
    """Transpose 64 words of 64 bits."""
    step = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while step:
        first = 0
        while first < SIDE:
            for k in range(first, first + step):
                part = ((square[k] >> np.uint64(step)) ^ square[k + step]) & mask
                square[k + step] ^= part
                square[k] ^= part << np.uint64(step)
            first += 2 * step
        step >>= 1
        mask ^= mask << np.uint64(step)


@_compiled
def rows_of(columns: Array, out: Array) -> None:
    square = np.empty(SIDE, np.uint64)
    count, width = columns.shape
    for group in range(count // SIDE):
        for j in range(width):
            for i in range(SIDE):
                square[i] = columns[SIDE * group + i, j]
            _turn(square)
            for i in range(SIDE):
                out[SIDE * j + i, group] = square[i]


@_compiled
def columns_of(rows: Array, out: Array) -> None:
    square = np.empty(SIDE, np.uint64)
    count = len(out)
    for group in range((count + SIDE - 1) // SIDE):
        for j in range(len(rows) // SIDE):
            for i in range(SIDE):
                square[i] = rows[SIDE * j + i, group]
            _turn(square)
            for i in range(min(SIDE, count - SIDE * group)):
                out[SIDE * group + i, j] = square[i]


@_compiled
def peel(places: Array, slots: int) -> tuple[Array, Array, Array, Array]:
    """Rounds of entries with a slot to themselves: entries, slots, where rounds end, and the rest."""
    n = len(places)
    degree, users = np.zeros(slots, np.int32), np.zeros(slots, np.int64)
    rows, own, ends = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    rounds, done, gone = 0, 0, np.zeros(n, np.uint8)
    for i in range(n):
        for j in range(3):
            degree[places[i, j]] += 1
            users[places[i, j]] ^= i
    free = np.zeros(n, np.uint8)
    for s in range(slots):
        if degree[s] == 1:
            free[users[s]] = 1
    for i in range(n):
        if free[i]:
            rows[done] = i
            done += 1
    while done > ends[rounds]:
        start, stop = ends[rounds], done
        for k in range(start, stop):
            i = rows[k]
            gone[i] = 1
            for j in range(2, -1, -1):
                if degree[places[i, j]] == 1:
                    own[k] = places[i, j]
        for k in range(start, stop):
            for j in range(3):
                s = places[rows[k], j]
                degree[s] -= 1
                users[s] ^= rows[k]
        for k in range(start, stop):
            for j in range(3):
                s = places[rows[k], j]
                if degree[s] == 1 and not free[users[s]]:
                    free[users[s]] = 1
                    rows[done] = users[s]
                    done += 1
        rounds += 1
        ends[rounds] = stop
    rest = np.empty(n - done, np.int64)
    k = 0
    for i in range(n):
        if not gone[i]:
            rest[k] = i
            k += 1
    return rows[:done], own[:done], ends[: rounds + 1], rest


@_compiled
def fill(table: Array, places: Array, goals: Array, rows: Array, own: Array) -> None:
    width = table.shape[1]
    for k in range(len(rows) - 1, -1, -1):
        i, s = rows[k], own[k]
        a, b, c = places[i, 0], places[i, 1], places[i, 2]
        for w in range(width):
            table[s, w] = np.uint64(0)
            table[s, w] = goals[i, w] ^ table[a, w] ^ table[b, w] ^ table[c, w]


@_compiled
def three(table: Array, places: Array, out: Array) -> None:
    for i in range(len(places)):
        a, b, c = places[i, 0], places[i, 1], places[i, 2]
        for w in range(table.shape[1]):
            out[i, w] = table[a, w] ^ table[b, w] ^ table[c, w]


@_compiled
def add_bytes(out: Array, sums: Array, chosen: Array) -> None:
    for i in range(len(out)):
        for b in range(len(sums)):
            row = sums[b, chosen[i, b]]
            for w in range(out.shape[1]):
                out[i, w] ^= row[w]


@_compiled
def combine(rows: Array, challenge: Array, out: Array) -> None:
    """Sums by the challenge's bytes first, then of those in which a bit is set."""
    count, width = rows.shape
    totals = np.zeros((16, 256, width), np.uint64)
    for i in range(count):
        for group in range(16):
            total = totals[group, challenge[i, group]]
            for w in range(width):
                total[w] ^= rows[i, w]
    for group in range(16):
        for value in range(256):
            for bit in range(8):
                if value >> bit & 1:
                    for w in range(width):
                        out[8 * group + bit, w] ^= totals[group, value, w]


def _mixed(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> None:
    """BLAKE2b's function G, in every lane."""
    for k in range(LANES):
        p = a[k] + b[k] + x[k]
        s = d[k] ^ p
        s = s >> np.uint64(32) | s << np.uint64(32)
        r = c[k] + s
        q = b[k] ^ r
        q = q >> np.uint64(24) | q << np.uint64(40)
        p = p + q + y[k]
        s ^= p
        s = s >> np.uint64(16) | s << np.uint64(48)
        r = r + s
        q ^= r
        a[k], b[k], c[k], d[k] = p, q >> np.uint64(63) | q << np.uint64(1), r, s


# In line: LLVM sees then that rows of the state do not overlap, and works on several lanes at once.
_mix = _compiled(_mixed, inline="always")


@_compiled
def digests(prefix: Array, data: Array, ends: Array, out: Array) -> None:
    """BLAKE2b of the prefix and each text, 128 bytes at most together, with digests as wide as `out`."""
    head, width, start = len(prefix), out.shape[1], 0
    block = np.zeros((LANES, 128), np.uint8)
    words = block.view(np.uint64)
    m, v = np.zeros((16, LANES), np.uint64), np.zeros((16, LANES), np.uint64)
    first = START.copy()
    first[0] ^= np.uint64(0x01010000 | 8 * width)
    for k in range(LANES):
        block[k, :head] = prefix
    for row in range(0, len(ends), LANES):
        many = min(LANES, len(ends) - row)
        for i in range(8):
            for k in range(LANES):
                v[i, k], v[8 + i, k] = first[i], START[i]
        for k in range(many):
            size = head + ends[row + k] - start
            block[k, head:size] = data[start : ends[row + k]]
            block[k, size:] = 0
            v[12, k] ^= np.uint64(size)
            v[14, k] = ~v[14, k]
            start = ends[row + k]
        for w in range(16):
            for k in range(LANES):
                m[w, k] = words[k, w]
        for t in range(12):
            o = ORDERS[t % 10]
            _mix(v[0], v[4], v[8], v[12], m[o[0]], m[o[1]])
            _mix(v[1], v[5], v[9], v[13], m[o[2]], m[o[3]])
            _mix(v[2], v[6], v[10], v[14], m[o[4]], m[o[5]])
            _mix(v[3], v[7], v[11], v[15], m[o[6]], m[o[7]])
            _mix(v[0], v[5], v[10], v[15], m[o[8]], m[o[9]])
            _mix(v[1], v[6], v[11], v[12], m[o[10]], m[o[11]])
            _mix(v[2], v[7], v[8], v[13], m[o[12]], m[o[13]])
            _mix(v[3], v[4], v[9], v[14], m[o[14]], m[o[15]])
        for k in range(many):
            for i in range(width):
                out[row + k, i] = first[i] ^ v[i, k] ^ v[8 + i, k]
