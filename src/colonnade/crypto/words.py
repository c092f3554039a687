"""Words of 32 to 52 bits in as many whole bytes as they need, and their exact products with small integers."""

from __future__ import annotations

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

    def write(
        self,
        columns: slice,
        rows: slice,
        words: NDArray[np.uint64],
        message: NDArray[np.int32] | None = None,
        upper: NDArray[np.uint32] | None = None,
    ) -> None:
        """Keep the low modulus_bits of words + message + 2^32 upper, of the rows that fit; overwrites its arguments."""
        fit = slice(0, rows.stop - rows.start)
        words, message, upper = words[:, fit], _cut(message, fit), _cut(upper, fit)
        halves = words.view(np.uint32).reshape(*words.shape, 2)
        low, *rest = (plane[columns, rows] for plane in self.arrays)
        if not rest:
            np.add(halves[..., 0], 0 if message is None else message.view(np.uint32), out=low)
            return
        if message is not None:
            signed = words.view(np.int64)
            signed += message
        np.copyto(low, halves[..., 0])
        if self.modulus_bits == 40 and upper is not None:
            # Byte arithmetic does where only the lowest byte of the sum is kept.
            fifth = words.view(np.uint8).reshape(*words.shape, 8)[..., 4]
            np.add(fifth, upper.view(np.uint8).reshape(*words.shape, 4)[..., 0], out=rest[0])
            return
        mask = np.uint32((1 << (self.modulus_bits - 32)) - 1)
        if upper is not None:
            upper += halves[..., 1]
        high = (halves[..., 1] if upper is None else upper) & mask
        np.copyto(rest[0], high, casting="unsafe")
        if len(rest) == 2:
            np.copyto(rest[1], high >> np.uint32(16), casting="unsafe")

    def words(self) -> Words:
        words: Words = self.arrays[0].astype(np.uint64)
        if len(self.arrays) > 1:
            words |= self._high().astype(np.uint64) << np.uint64(32)
        return words

    def times(self, small: Floats, bound: int, scratch: Scratch) -> Words:
        """This matrix times one of integers of absolute value at most `bound`, modulo 2^64."""
        shape, chunk = self.arrays[0].shape, rows_per_chunk(self.modulus_bits, bound)
        if chunk >= SHORTEST_CHUNK:
            floats: Floats = scratch("words", shape, np.float64)
            self._centre(floats)
            return _chunked(floats, small, chunk)
        limbs: Floats = scratch("words", (2, *shape), np.float64)
        np.copyto(limbs[0], self.arrays[0])
        np.copyto(limbs[1], self._high())
        low, high = _chunked(limbs.reshape(-1, shape[1]), small, (1 << (EXACT_BITS - 32)) // bound).reshape(
            2, shape[0], -1
        )
        return low + (high << np.uint64(32))

    def _high(self) -> Plane:
        if len(self.arrays) == 2:
            return self.arrays[1]
        return self.arrays[1].astype(np.uint32) | (self.arrays[2].astype(np.uint32) << np.uint32(16))

    def _centre(self, floats: Floats) -> None:
        """Write the words as floats around zero."""
        if len(self.arrays) == 1:
            np.copyto(floats, self.arrays[0].view(np.int32))
            return
        # With its top bit turned, a centred word plus half the modulus is a plain positive number.
        half = 1 << (self.modulus_bits - 1)
        halves = floats.view(np.uint32).reshape(*floats.shape, 2)
        np.copyto(halves[..., 0], self.arrays[0])
        np.bitwise_xor(self._high(), np.uint32(_PATTERN ^ half >> 32), out=halves[..., 1])
        floats -= 2.0**52 + half


def rows_per_chunk(modulus_bits: int, bound: int) -> int:
    """Rows over which a float64 sum of centred words times small integers cannot leave the exact range."""
    return (1 << (EXACT_BITS - modulus_bits + 1)) // bound


def _types(modulus_bits: int) -> tuple[type[np.uint8] | type[np.uint16] | type[np.uint32], ...]:
    return {4: (np.uint32,), 5: (np.uint32, np.uint8), 6: (np.uint32, np.uint16), 7: (np.uint32, np.uint16, np.uint8)}[
        width(modulus_bits)
    ]


def _cut(array: NDArray[Any] | None, fit: slice) -> NDArray[Any] | None:
    return None if array is None else array[:, fit]


def _chunked(words: Floats, small: Floats, chunk: int) -> Words:
    """words @ small as a sum of products over chunks of rows that float64 holds exactly."""
    total: Integers = np.zeros((len(words), small.shape[1]), dtype=np.int64)
    start = 0
    if len(small) >= 2 * chunk:
        # One call for all whole chunks: narrow matrices would else spend their time on calls.
        start = len(small) // chunk * chunk
        left = words[:, :start].reshape(len(words), -1, chunk).swapaxes(0, 1)
        total += np.matmul(left, small[:start].reshape(-1, chunk, small.shape[1])).astype(np.int64).sum(axis=0)
    for first in range(start, len(small), chunk):
        total += (words[:, first : first + chunk] @ small[first : first + chunk]).astype(np.int64)
    return total.view(np.uint64)
