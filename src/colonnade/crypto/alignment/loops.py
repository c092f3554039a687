"""An alignment's inner loops for numba; what they compute is what `kernels` computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Array = NDArray[Any]

SIDE = 64


def _compiled(function: F) -> F:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
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
