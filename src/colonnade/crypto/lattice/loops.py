"""The lattice product's inner loops for numba: one ring element at a time, from its first level to its last in cache.

A ring element's N/2 complex numbers are stored as M real parts and then M imaginary parts. Its transform is five levels
of radix 4 without multiplications inside them: levels of stride 256, 64 and 16 in place, a transposition, and levels of
stride 4 and 1 across rows. So values lie in an order of their own, which only the way back here understands. There are
10 levels of additions and 4 of multiplications by roots, which are within 4 roundings of the true ones (`_roots`):
`lattice_plan.fft_error` allows for 6. A fused multiplication and addition errs by less than the two it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.words import PAIR_BITS

F = TypeVar("F", bound=Callable[..., Any])
Array = NDArray[Any]

M = N // 2  # complex numbers of a ring element
Q = M // 4  # transforms are of radix four
GROUP, ROWS = 16, 32
"""Columns, and rows of them, that are turned at once."""
ROUND = 1.5 * 2.0**52  # adding it rounds a float to an integer, which its low bits then are
PATTERN = np.uint64(0x4330000000000000)
"""That of 2^52."""


def _compiled(function: F) -> F:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        compiled: Any = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder to keep compiled code in
        compiled = numba.njit(**settings)(function)
    return cast(F, compiled)


def _roots(count: int, power: int, of: int) -> tuple[Array, Array]:
    """exp(-2 pi i j power / of) for j < count, computed within an eighth of a turn, where arguments are accurate."""
    steps = np.arange(count) * power % of
    quarter = (8 * steps + of) // (2 * of)
    angle = 2 * np.pi * (steps - quarter * of / 4) / of
    cos, sin, turn = np.cos(angle), np.sin(angle), quarter % 4
    real = np.choose(turn, (cos, -sin, -cos, sin))
    imaginary = np.choose(turn, (sin, cos, -sin, -cos))
    return real, -imaginary


def _table(stride: int) -> Array:
    """Real and imaginary parts of the first, second and third powers of a level's roots."""
    return np.concatenate([part for power in (1, 2, 3) for part in _roots(stride, power, 4 * stride)])


ROOTS = np.concatenate([_table(stride) for stride in (Q, 64, 16, 4)])
_AT = (0, 6 * Q, 6 * (Q + 64), 6 * (Q + 80))  # where each stage's roots begin in ROOTS
TWIST = np.concatenate([part if i == 0 else -part for i, part in enumerate(_roots(M, 1, 2 * N))])
"""exp(pi i j / N): real parts, then imaginary ones."""


def _down(stride: int, at: int) -> Callable[[Array, Array], None]:
    """A level of the way to values: butterflies, then multiplications by roots."""

    @_compiled
    def down(z: Array, w: Array) -> None:
        for start in range(0, M, 4 * stride):
            for j in range(stride):
                i, t = start + j, at + j
                a, b, c, d = z[i], z[i + stride], z[i + 2 * stride], z[i + 3 * stride]
                e, f, g, h = z[i + M], z[i + stride + M], z[i + 2 * stride + M], z[i + 3 * stride + M]
                z[i], z[i + M] = a + c + (b + d), e + g + (f + h)
                x, y = a - c + (f - h), e - g - (b - d)
                z[i + stride] = x * w[t] - y * w[t + stride]
                z[i + stride + M] = x * w[t + stride] + y * w[t]
                x, y = a + c - (b + d), e + g - (f + h)
                z[i + 2 * stride] = x * w[t + 2 * stride] - y * w[t + 3 * stride]
                z[i + 2 * stride + M] = x * w[t + 3 * stride] + y * w[t + 2 * stride]
                x, y = a - c - (f - h), e - g + (b - d)
                z[i + 3 * stride] = x * w[t + 4 * stride] - y * w[t + 5 * stride]
                z[i + 3 * stride + M] = x * w[t + 5 * stride] + y * w[t + 4 * stride]

    return down


def _up(stride: int, at: int) -> Callable[[Array, Array], None]:
    """The same level on the way back: multiplications by conjugated roots, then butterflies."""

    @_compiled
    def up(z: Array, w: Array) -> None:
        for start in range(0, M, 4 * stride):
            for j in range(stride):
                i, t = start + j, at + j
                a, e = z[i], z[i + M]
                x, y = z[i + stride], z[i + stride + M]
                b, f = x * w[t] + y * w[t + stride], y * w[t] - x * w[t + stride]
                x, y = z[i + 2 * stride], z[i + 2 * stride + M]
                c, g = x * w[t + 2 * stride] + y * w[t + 3 * stride], y * w[t + 2 * stride] - x * w[t + 3 * stride]
                x, y = z[i + 3 * stride], z[i + 3 * stride + M]
                d, h = x * w[t + 4 * stride] + y * w[t + 5 * stride], y * w[t + 4 * stride] - x * w[t + 5 * stride]
                z[i], z[i + M] = a + c + (b + d), e + g + (f + h)
                z[i + stride], z[i + stride + M] = a - c - (f - h), e - g + (b - d)
                z[i + 2 * stride], z[i + 2 * stride + M] = a + c - (b + d), e + g - (f + h)
                z[i + 3 * stride], z[i + 3 * stride + M] = a - c + (f - h), e - g - (b - d)

    return up


_down_256, _down_64, _down_16 = (_down(stride, at) for stride, at in zip((Q, 64, 16), _AT, strict=False))
_up_256, _up_64, _up_16 = (_up(stride, at) for stride, at in zip((Q, 64, 16), _AT, strict=False))
_LAST = _AT[3]  # roots of the last stage


def _turn(rows: int, columns: int) -> Callable[[Array, Array], None]:
    """Transpose both parts, in squares of four: longer loops would be made of gathers, which are slow."""

    @_compiled
    def square(x: Array, y: Array, i: int, o: int) -> None:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        i += columns
        e, f, g, h = x[i], x[i + 1], x[i + 2], x[i + 3]
        i += columns
        j, k, m, n = x[i], x[i + 1], x[i + 2], x[i + 3]
        i += columns
        p, q, s, t = x[i], x[i + 1], x[i + 2], x[i + 3]
        y[o], y[o + 1], y[o + 2], y[o + 3] = a, e, j, p
        o += rows
        y[o], y[o + 1], y[o + 2], y[o + 3] = b, f, k, q
        o += rows
        y[o], y[o + 1], y[o + 2], y[o + 3] = c, g, m, s
        o += rows
        y[o], y[o + 1], y[o + 2], y[o + 3] = d, h, n, t

    # The short side inside, which is faster.
    @_compiled
    def tall(x: Array, y: Array) -> None:
        for part in range(0, N, M):
            for r in range(0, rows, 4):
                for c in range(0, columns, 4):
                    square(x, y, part + r * columns + c, part + c * rows + r)

    @_compiled
    def wide(x: Array, y: Array) -> None:
        for part in range(0, N, M):
            for c in range(0, columns, 4):
                for r in range(0, rows, 4):
                    square(x, y, part + r * columns + c, part + c * rows + r)

    return tall if rows > columns else wide


_turn_there, _turn_back = _turn(64, 16), _turn(16, 64)


@_compiled
def _columns(source: Array, start: int, first: int, last: int, turned: Array) -> None:
    """Some columns of a block of rows, as rows."""
    for i in range(0, N, ROWS):
        for c in range(first, last):
            for k in range(i, i + ROWS):
                turned[c - first, k] = source[start + k, c]


@_compiled
def _to_values(x: Array, y: Array, w: Array) -> None:
    """Values, in y, of a twisted element in x, which is overwritten."""
    _down_256(x, w)
    _down_64(x, w)
    _down_16(x, w)
    _turn_there(x, y)
    for c in range(4):
        t = _LAST + c
        p, q, r, s, u, v = w[t], w[t + 4], w[t + 8], w[t + 12], w[t + 16], w[t + 20]
        for i in range(64 * c, 64 * c + 64):
            a, b, k, d = y[i], y[i + Q], y[i + 2 * Q], y[i + 3 * Q]
            e, f, g, h = y[i + M], y[i + Q + M], y[i + 2 * Q + M], y[i + 3 * Q + M]
            y[i], y[i + M] = a + k + (b + d), e + g + (f + h)
            m, n = a - k + (f - h), e - g - (b - d)
            y[i + Q], y[i + Q + M] = m * p - n * q, m * q + n * p
            m, n = a + k - (b + d), e + g - (f + h)
            y[i + 2 * Q], y[i + 2 * Q + M] = m * r - n * s, m * s + n * r
            m, n = a - k - (f - h), e - g + (b - d)
            y[i + 3 * Q], y[i + 3 * Q + M] = m * u - n * v, m * v + n * u
    for c in range(4):
        for i in range(Q * c, Q * c + 64):
            a, b, k, d = y[i], y[i + 64], y[i + 128], y[i + 192]
            e, f, g, h = y[i + M], y[i + 64 + M], y[i + 128 + M], y[i + 192 + M]
            y[i], y[i + M] = a + k + (b + d), e + g + (f + h)
            y[i + 64], y[i + 64 + M] = a - k + (f - h), e - g - (b - d)
            y[i + 128], y[i + 128 + M] = a + k - (b + d), e + g - (f + h)
            y[i + 192], y[i + 192 + M] = a - k - (f - h), e - g + (b - d)


@_compiled
def _from_values(y: Array, x: Array, w: Array) -> None:
    """M times a twisted element, in x, from its values in y, which are overwritten."""
    for c in range(4):
        for i in range(Q * c, Q * c + 64):
            a, b, k, d = y[i], y[i + 64], y[i + 128], y[i + 192]
            e, f, g, h = y[i + M], y[i + 64 + M], y[i + 128 + M], y[i + 192 + M]
            y[i], y[i + M] = a + k + (b + d), e + g + (f + h)
            y[i + 64], y[i + 64 + M] = a - k - (f - h), e - g + (b - d)
            y[i + 128], y[i + 128 + M] = a + k - (b + d), e + g - (f + h)
            y[i + 192], y[i + 192 + M] = a - k + (f - h), e - g - (b - d)
    for c in range(4):
        t = _LAST + c
        p, q, r, s, u, v = w[t], w[t + 4], w[t + 8], w[t + 12], w[t + 16], w[t + 20]
        for i in range(64 * c, 64 * c + 64):
            a, e = y[i], y[i + M]
            m, n = y[i + Q], y[i + Q + M]
            b, f = m * p + n * q, n * p - m * q
            m, n = y[i + 2 * Q], y[i + 2 * Q + M]
            k, g = m * r + n * s, n * r - m * s
            m, n = y[i + 3 * Q], y[i + 3 * Q + M]
            d, h = m * u + n * v, n * u - m * v
            y[i], y[i + M] = a + k + (b + d), e + g + (f + h)
            y[i + Q], y[i + Q + M] = a - k - (f - h), e - g + (b - d)
            y[i + 2 * Q], y[i + 2 * Q + M] = a + k - (b + d), e + g - (f + h)
            y[i + 3 * Q], y[i + 3 * Q + M] = a - k + (f - h), e - g - (b - d)
    _turn_back(y, x)
    _up_16(x, w)
    _up_64(x, w)
    _up_256(x, w)


@_compiled
def _twisted(source: Array, x: Array, twist: Array) -> None:
    for k in range(M):
        a, b = np.float64(source[2 * k]), np.float64(source[2 * k + 1])
        x[k] = a * twist[k] - b * twist[k + M]
        x[k + M] = a * twist[k + M] + b * twist[k]


@_compiled
def _untwisted(x: Array, out: Array, twist: Array) -> None:
    """The coefficients plus ROUND, and so integers in the low bits of their patterns, right modulo 2^51."""
    for k in range(M):
        a, b, c, d = x[k] * (1.0 / M), x[k + M] * (1.0 / M), twist[k], twist[k + M]
        out[2 * k] = a * c + b * d + ROUND
        out[2 * k + 1] = b * c - a * d + ROUND


@_compiled
def _integers(y: Array, x: Array, f: Array, w: Array, twist: Array) -> None:
    """The patterns of integers, in f, from the values in y."""
    _from_values(y, x, w)
    _untwisted(x, f, twist)


@_compiled
def values_of(elements: Array, values: Array, w: Array, twist: Array) -> None:
    """The values of ring elements of any kind of number, one in each row."""
    x = np.empty(N)
    for row in range(len(elements)):
        _twisted(elements[row], x, twist)
        _to_values(x, values[row], w)
    x.fill(0.0)


@_compiled
def values_of_limb(words: Array, place: int, count: int, half: int, values: Array, w: Array, twist: Array) -> float:
    """The values of a centred limb of words, one element in each row; the largest squared norm of them.

    `half`, half the range of every limb, makes plain digits of them; in the low bits of 2^52 these are floats.
    """
    x, f, squares = np.empty(N), np.empty(N), np.empty(8)
    bits = f.view(np.uint64)
    shift, mask, added = np.uint64(place), np.uint64((1 << count) - 1), np.uint64(half)
    centre, most = 2.0**52 + 2.0 ** (count - 1), 0.0
    for row in range(len(words)):
        for i in range(N):
            bits[i] = (words[row, i] + added) >> shift & mask | PATTERN
        squares[:] = 0.0
        for i in range(0, N, 8):
            for k in range(8):
                f[i + k] -= centre
                squares[k] += f[i + k] * f[i + k]
        most = max(most, squares.sum())
        _twisted(f, x, twist)
        _to_values(x, values[row], w)
    return most


@_compiled
def integers_of(values: Array, words: Array, place: int, w: Array, twist: Array) -> None:
    """Add 2^place times the ring elements whose conjugated values are given, right modulo 2^51 before the shift."""
    y, x, f = np.empty(N), np.empty(N), np.empty(N)
    for row in range(len(values)):
        for k in range(M):
            y[k], y[k + M] = values[row, k], -values[row, k + M]
        _integers(y, x, f, w, twist)
        bits = f.view(np.uint64)
        for i in range(N):
            words[row, i] += bits[i] << np.uint64(place)
    for buffer in (y, x, f):
        buffer.fill(0.0)


@_compiled
def _product(key: Array, element: Array, y: Array) -> None:
    """The values of a s(1/X), from those of s and a."""
    for k in range(M):
        a, b, c, d = key[k], key[k + M], element[k], element[k + M]
        y[k] = a * c + b * d
        y[k + M] = a * d - b * c


@_compiled
def sealed(
    low: Array,
    high: Array,
    top: Array,
    keys: Array,
    pairs: Array,
    elements: Array,
    place: int,
    message: Array,
    w: Array,
    twist: Array,
) -> None:
    """Write a s + message in planes of 32 bits, of 8 or 16 (`high`), and of 8 more (`top`); some may be empty.

    `pairs` are the values of s_j + 2^PAIR_BITS s_(j+1), or are empty where a second limb is too long for them.
    """
    y, x, f, words = np.empty(N), np.empty(N), np.empty(N), np.empty((2, N), np.uint64)
    turned = np.empty((GROUP, N + ROWS), message.dtype)
    bits = f.view(np.uint64)
    shift, apart = np.uint64(place), np.uint64(64 - PAIR_BITS)
    for block in range(elements.shape[1]):
        start = block * N
        fit = min(N, low.shape[1] - start)
        for first in range(0, len(low), GROUP):
            last = min(first + GROUP, len(low))
            _columns(message, start, first, last, turned)
            for c in range(first, last, 2):
                both = min(2, last - c)
                # With pairs, the second limb's turn comes after the first's of both columns.
                for turn in range(both if elements.shape[0] == 1 else both + (1 if pairs.size else both)):
                    own = turn % both
                    if turn < both:
                        _product(keys[c + own], elements[0, block], y)
                    elif pairs.size:
                        _product(pairs[c // 2], elements[1, block], y)
                    else:
                        _product(keys[c + own], elements[1, block], y)
                    _integers(y, x, f, w, twist)
                    if turn < both:
                        add = turned[c + own - first]
                        for i in range(N):
                            words[own, i] = bits[i] + np.uint64(np.int64(add[i]))
                    elif pairs.size:
                        for i in range(N):
                            digit = np.int64(bits[i] << apart) >> np.int64(apart)
                            words[0, i] += np.uint64(digit) << shift
                            words[1, i] += ((bits[i] - np.uint64(digit)) >> np.uint64(PAIR_BITS)) << shift
                    else:
                        for i in range(N):
                            words[own, i] += bits[i] << shift
                for own in range(both):
                    for i in range(fit):
                        low[c + own, start + i] = words[own, i]
                    if high.size:
                        for i in range(fit):
                            high[c + own, start + i] = words[own, i] >> np.uint64(32)
                    if top.size:
                        for i in range(fit):
                            top[c + own, start + i] = words[own, i] >> np.uint64(48)
    for buffer in (y, x, f):
        buffer.fill(0.0)
    words.fill(0)
    turned.fill(0)


@_compiled
def summed(sums: Array, elements: Array, rows: Array, w: Array, twist: Array) -> None:
    """Add the values of y conj(a) over all blocks, for each column of rows and each limb of a."""
    x, y = np.empty(N), np.empty(N)
    limbs, blocks, columns = elements.shape[0], elements.shape[1], rows.shape[1]
    turned = np.empty((GROUP, N + ROWS), rows.dtype)
    for first in range(0, columns, GROUP):
        last = min(first + GROUP, columns)
        for block in range(blocks):
            start = block * N
            _columns(rows, start, first, last, turned)
            for c in range(first, last):
                _twisted(turned[c - first], x, twist)
                _to_values(x, y, w)
                for limb in range(limbs):
                    total, element = sums[limb, c], elements[limb, block]
                    for k in range(M):
                        a, b, p, q = y[k], y[k + M], element[k], element[k + M]
                        total[k] += a * p + b * q
                        total[k + M] += b * p - a * q
    x.fill(0.0)
    y.fill(0.0)
    turned.fill(0)


@_compiled
def centred(floats: Array, low: Array, high: Array, bits: int) -> None:
    """Words of 33 to 48 bits, in two planes, as floats around zero."""
    half, scale = 1 << (bits - 33), 2.0**32
    for c in range(len(low)):
        for i in range(low.shape[1]):
            floats[c, i] = np.float64(low[c, i]) + scale * np.float64((np.int64(high[c, i]) ^ half) - half)
