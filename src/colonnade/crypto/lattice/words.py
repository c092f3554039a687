"""Words of 32 to 52 bits in as many whole bytes as they need, and their exact products with small integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Integers, Words

Floats = NDArray[np.float64]
Plane = NDArray[Any]
"""Of uint32, uint16 or uint8."""

EXACT_BITS = 53
"""Integers up to 2^53 add and multiply exactly in float64, in any order and with or without fused operations."""

SHORTEST_CHUNK = 256
"""Rows that a chunk must have to be worth its own matrix product; else two limbs in longer chunks are."""

FEW_COLUMNS = 8
"""Where no more columns than this are multiplied by, a second matrix product costs less than to join two planes."""

PAIR_BITS = 24
"""Where the second of two integers of at most 23 bits lies that share a word: at a whole byte."""

CACHED_WORDS, LEAST_ROWS = 1 << 15, 1024
"""Words turned into floats at once: they are used while a second-level cache still holds them."""

# The float64 2^52 + w has w in the low bits of its pattern, so a word becomes a float by writing its bytes.
_PATTERN = 0x43300000


class Scratch:
    """Buffers by name, used again and again: fresh memory costs more than the arithmetic in it."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
        size = prod(shape) * np.dtype(dtype).itemsize
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size, np.uint8)
        return self._buffers[name][:size].view(dtype).reshape(shape)

    def wipe(self) -> None:
        for buffer in self._buffers.values():
            buffer.fill(0)
        self._buffers.clear()


def width(modulus_bits: int) -> int:
    """Bytes that one word takes on the wire."""
    return (modulus_bits + 7) // 8


Centre = Callable[["Planes", slice, Floats], None]
"""Writes some rows' words as floats around zero."""


@dataclass(frozen=True)
class Planes:
    """A matrix of words as byte planes: all low halves first, then all next bytes. It copies and widens fast."""

    arrays: tuple[Plane, ...]
    modulus_bits: int

    @staticmethod
    def empty(shape: tuple[int, int], modulus_bits: int, scratch: Scratch) -> Planes:
        size = shape[0] * shape[1] * width(modulus_bits)
        return Planes.read(scratch("planes", (size,), np.uint8).data, shape, modulus_bits)

    @staticmethod
    def read(payload: memoryview, shape: tuple[int, int], modulus_bits: int) -> Planes:
        """Views of a payload, which must have rows * columns * width bytes."""
        count, offset, arrays = shape[0] * shape[1], 0, []
        for dtype in _types(modulus_bits):
            arrays.append(np.frombuffer(payload, dtype, count, offset).reshape(shape))
            offset += count * np.dtype(dtype).itemsize
        return Planes(tuple(arrays), modulus_bits)

    def write(self, columns: slice, row: int, words: Words, upper: Words | None = None) -> None:
        """Keep the low modulus_bits of words, from this row on, of the rows that fit; overwrites `upper`.

        `upper` is for words of five bytes: it holds, for each pair of columns, what is to be added to the fifth byte
        of the first, and at PAIR_BITS what is to be added to that of the second.
        """
        fit, rows = slice(0, self.arrays[0].shape[1] - row), slice(row, row + words.shape[1])
        words = words[:, fit]
        low, *rest = (plane[columns, rows] for plane in self.arrays)
        np.copyto(low, words, casting="unsafe")
        if not rest:
            return
        high = words >> np.uint64(32)
        np.copyto(rest[0], high, casting="unsafe")
        if upper is not None:
            # A multiple of 256 under which the first of a pair cannot be negative, and borrow from the second.
            upper += np.uint64(1 << (PAIR_BITS - 1))
            for place in range(2):
                to = rest[0][place::2]
                to += upper[: len(to), fit].astype(np.uint8)
                upper >>= np.uint64(PAIR_BITS)
        if len(rest) == 2:
            high >>= np.uint64(16)
            np.copyto(rest[1], high, casting="unsafe")
        rest[-1] &= rest[-1].dtype.type(self._last_mask)

    @property
    def _last_mask(self) -> int:
        return (1 << self.modulus_bits - (48 if len(self.arrays) == 3 else 32)) - 1

    @property
    def below_modulus(self) -> bool:
        """Whether no word has a bit above modulus_bits: of others `times` is not exact, nor in one form."""
        return len(self.arrays) == 1 or int(self.arrays[-1].max(initial=0)) <= self._last_mask

    def cut(self) -> None:
        """Clear what the last plane holds above modulus_bits."""
        if len(self.arrays) > 1 and self.modulus_bits % 8:
            self.arrays[-1][...] &= self.arrays[-1].dtype.type(self._last_mask)

    def words(self) -> Words:
        words: Words = self.arrays[0].astype(np.uint64)
        if len(self.arrays) > 1:
            words |= self._high().astype(np.uint64) << np.uint64(32)
        return words

    def times(self, small: NDArray[Any], bound: int, scratch: Scratch, centre: Centre | None = None) -> Words:
        """This matrix times one of integers of absolute value at most `bound`, modulo 2^64."""
        columns, rows = self.arrays[0].shape
        exact, limbs = rows_per_chunk(self.modulus_bits, bound), 1
        few = centre is None and len(self.arrays) > 1 and small.shape[1] <= FEW_COLUMNS
        if exact < SHORTEST_CHUNK or few:
            exact, limbs = (1 << (EXACT_BITS - 32)) // bound, 2
        step = max(CACHED_WORDS // (limbs * columns), LEAST_ROWS)
        # As many whole exact chunks as fit the cache, or a part of one.
        step = step // exact * exact or min(step, exact)
        total: Integers = np.zeros((limbs * columns, small.shape[1]), dtype=np.int64)
        sums: Floats = scratch("sums", total.shape, np.float64)
        held = 0
        for start in range(0, rows, step):
            part = slice(start, min(start + step, rows))
            count = part.stop - start
            right: Floats = scratch("small", (count, small.shape[1]), np.float64)
            np.copyto(right, small[part])
            words: Floats = scratch("words", (limbs * columns, count), np.float64)
            if limbs == 1:
                (centre or Planes._centre)(self, part, words)
            else:
                np.copyto(words[:columns], self.arrays[0][:, part])
                np.copyto(words[columns:], self._high(part))
            if count > exact:
                total += _chunked(words, right, exact)
            elif held and held + count <= exact:
                sums += np.matmul(words, right, out=scratch("product", sums.shape, np.float64))
                held += count
            else:
                if held:
                    total += sums.astype(np.int64)
                np.matmul(words, right, out=sums)
                held = count
        if held:
            total += sums.astype(np.int64)
        result: Words = total[:columns].view(np.uint64)
        if limbs == 2:
            result += total[columns:].view(np.uint64) << np.uint64(32)
        return result

    def _high(self, rows: slice = slice(None)) -> Plane:
        if len(self.arrays) == 2:
            return self.arrays[1][:, rows]
        high: Plane = self.arrays[2][:, rows].astype(np.uint32)
        high <<= np.uint32(16)
        high |= self.arrays[1][:, rows]
        return high

    def _centre(self, rows: slice, floats: Floats) -> None:
        """Write these rows' words as floats around zero."""
        if len(self.arrays) == 1:
            np.copyto(floats, self.arrays[0][:, rows].view(np.int32))
            return
        # With its top bit turned, a centred word plus half the modulus is a plain positive number.
        half = 1 << (self.modulus_bits - 1)
        halves = floats.view(np.uint32).reshape(*floats.shape, 2)
        np.copyto(halves[..., 0], self.arrays[0][:, rows])
        np.copyto(halves[..., 1], self._high(rows))
        words = floats.view(np.uint64)
        words ^= np.uint64(_PATTERN << 32 ^ half)
        floats -= 2.0**52 + half


def rows_per_chunk(modulus_bits: int, bound: int) -> int:
    """Rows over which a float64 sum of centred words times small integers cannot leave the exact range."""
    return (1 << (EXACT_BITS - modulus_bits + 1)) // bound


def _types(modulus_bits: int) -> tuple[type[np.uint8] | type[np.uint16] | type[np.uint32], ...]:
    return {4: (np.uint32,), 5: (np.uint32, np.uint8), 6: (np.uint32, np.uint16), 7: (np.uint32, np.uint16, np.uint8)}[
        width(modulus_bits)
    ]


def _chunked(words: Floats, small: Floats, chunk: int) -> Integers:
    """words @ small as a sum of products over chunks of rows that float64 holds exactly."""
    # One call for all whole chunks: narrow matrices would else spend their time on calls.
    whole = len(small) // chunk * chunk
    left = words[:, :whole].reshape(len(words), -1, chunk).swapaxes(0, 1)
    total: Integers = np.matmul(left, small[:whole].reshape(-1, chunk, small.shape[1])).astype(np.int64).sum(axis=0)
    if whole < len(small):
        total += (words[:, whole:] @ small[whole:]).astype(np.int64)
    return total
