"""Numbers modulo a prime just below 2^64, 2^72, 2^80 or 2^88, as two planes of words, and their exact sums.

A number is its low 64 bits in one plane and the rest in the other; each has one form, below p. What comes from outside
is refused if it is not below p: numbers with two forms would have two offsets (proofs/proven_ranges.md, the opening).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Words
from colonnade.foundation.errors import BrokenError, MessageError

PRIMES = {8: 2**64 - 59, 9: 2**72 - 93, 10: 2**80 - 65, 11: 2**88 - 299}
"""By the bytes of a number: the largest prime of that size."""
EXACT_BITS = 52
"""Products of digits and limbs, summed, stay below 2^52, so that float64 adds them exactly in any order."""
DIGIT = 26
FOLDED = 1 << 10
"""Sums below 2^52 that 63 bits hold together."""

Numbers = NDArray[np.uint64]
"""Two planes: the low 64 bits, and the rest."""
Objects = NDArray[Any]
"""Python's integers."""


class Field:
    """The integers modulo one of the primes."""

    def __init__(self, size: int) -> None:
        self.size, self.p = size, PRIMES[size]
        self._low, self._high = np.uint64(self.p & (2**64 - 1)), np.uint64(self.p >> 64)

    @classmethod
    def beyond(cls, reach: int) -> Field:
        """Return the smallest field in which no integer of absolute value at most `reach`, but 0, is 0."""
        sizes = [size for size, p in PRIMES.items() if p > 2 * reach]
        if not sizes:
            raise BrokenError(f"relations of proven ranges must stay below 2^87, got one that reaches {reach}")
        return cls(sizes[0])

    def _at_least_p(self, a: Numbers) -> NDArray[np.bool_]:
        large: NDArray[np.bool_] = (a[1] > self._high) | ((a[1] == self._high) & (a[0] >= self._low))
        return large

    def _reduced(self, a: Numbers) -> Numbers:
        """Take p off, in place, where a number is not below it; all are below 2p."""
        large = self._at_least_p(a).astype(np.uint64)
        borrow = (a[0] < self._low) * large
        a[0] -= self._low * large
        a[1] -= self._high * large + borrow
        return a

    def uniform(self, rows: Words) -> Numbers:
        """Return a number for each row of two uniform words: uniform but for a distance of 2^-55."""
        a = np.ascontiguousarray(rows.T)
        a[1] &= np.uint64((1 << (8 * self.size - 64)) - 1)
        return self._reduced(a)

    def add(self, a: Numbers, b: Numbers) -> Numbers:
        """Return a + b, both below p; of eight bytes, sums have a carry in the upper plane."""
        out: Numbers = a + b
        out[1] += out[0] < a[0]
        return self._reduced(out)

    def negative(self, a: Numbers) -> Numbers:
        """Return -a."""
        out = np.stack([self._low - a[0], self._high - a[1]])
        out[1] -= self._low < a[0]
        return self._reduced(out)

    def whole(self, number: int) -> Numbers:
        """Return one number, to be added to any count of them."""
        if not 0 <= number < self.p:
            raise MessageError("a number of a proof must be below the prime of its field, got a larger one")
        return np.array([[number & (2**64 - 1)], [number >> 64]], np.uint64)

    def pack(self, a: Numbers) -> bytes:
        """Return `size` bytes a number: all low words, then all other bytes."""
        high = np.ascontiguousarray(a[1]).view(np.uint8).reshape(-1, 8)[:, : self.size - 8]
        return bytes(a[0].tobytes() + high.tobytes())

    def unpack(self, raw: bytes, count: int) -> Numbers:
        """Return the numbers of `pack`; raises MessageError unless all are there and each is below p."""
        if len(raw) != count * self.size:
            raise MessageError(f"{count} numbers of a proof must have {count * self.size} bytes, got {len(raw)}")
        out: Numbers = np.zeros((2, count), np.uint64)
        out[0] = np.frombuffer(raw, np.uint64, count)
        rest = np.frombuffer(raw, np.uint8, count * (self.size - 8), 8 * count)
        out[1].view(np.uint8).reshape(-1, 8)[:, : self.size - 8] = rest.reshape(count, self.size - 8)
        if self._at_least_p(out).any():
            raise MessageError("a number of a proof must be below the prime of its field, got a larger one")
        return out


class LimbSums:
    """Exact sums over rows of signed integers below 2^bits times numbers that are cut in limbs.

    Coefficients are cut in signed digits, so that a product of matrices of floats is exact; sums of products stay
    integers of 64 bits until there are FOLDED of them.
    """

    def __init__(self, bits: int, limb: int, limbs: int = 1) -> None:
        self._limb, self._limbs, self._parts = limb, limbs, -(-bits // DIGIT)
        self._wide = -(-bits // self._parts)
        self._step = min(1 << 13, 1 << (EXACT_BITS - limb - self._wide))
        self._sums: NDArray[np.int64] | None = None
        self._held, self._value = 0, np.zeros(0, object)

    @classmethod
    def of_numbers(cls, bits: int, field: Field) -> LimbSums:
        """Sums of numbers of a field."""
        limb = 32 if bits == 1 else 18
        return cls(bits, limb, -(-8 * field.size // limb))

    def add(self, coefficients: NDArray[np.integer], limbs: NDArray[np.float64]) -> None:
        """Add (sums, rows) coefficients times (rows, limbs * columns) limbs, those of one place side by side."""
        for start in range(0, coefficients.shape[1], self._step):
            at = slice(start, start + self._step)
            digits = _digits(coefficients[:, at], self._wide, self._parts)
            left = np.concatenate([digit.astype(np.float64) for digit in digits])
            found = (left @ limbs[at]).astype(np.int64)
            if self._sums is None:
                self._sums, self._held = found, 1
            else:
                self._sums += found
                self._held += 1
            if self._held == FOLDED // 2:
                self._fold()

    def add_numbers(self, coefficients: NDArray[np.integer], numbers: Numbers) -> None:
        """Add (sums, rows) coefficients times (2, rows, columns) numbers."""
        self.add(coefficients, _limbs(numbers, self._limb, self._limbs))

    def _fold(self) -> None:
        assert self._sums is not None
        columns = self._sums.shape[1] // self._limbs
        parts = self._sums.reshape(self._parts, -1, self._limbs, columns)
        total: Objects = np.zeros((parts.shape[1], columns), object)
        for part, block in enumerate(parts):
            for place in range(self._limbs):
                total += block[:, place].astype(object) << (part * self._wide + place * self._limb)
        self._value = self._value + total if self._value.size else total
        self._sums = None

    def value(self) -> Objects:
        """Return the sums as Python's integers, not reduced."""
        if self._sums is not None:
            self._fold()
        return self._value


def _digits(numbers: NDArray[np.integer], wide: int, parts: int) -> Iterator[NDArray[np.integer]]:
    """Signed digits of `wide` bits, lowest first."""
    for _ in range(parts - 1):
        low = (numbers + (1 << (wide - 1)) & ((1 << wide) - 1)) - (1 << (wide - 1))
        yield low
        numbers = (numbers - low) >> wide
    yield numbers


def _limbs(numbers: Numbers, limb: int, limbs: int) -> NDArray[np.float64]:
    """(2, rows, columns) numbers as (rows, limbs * columns) floats."""
    out = np.empty((numbers.shape[1], limbs, numbers.shape[2]))
    for place in range(limbs):
        at = place * limb
        word = numbers[0] >> np.uint64(at) if at < 64 else numbers[1] >> np.uint64(at - 64)
        if at < 64 < at + limb:
            word = word | numbers[1] << np.uint64(64 - at)
        out[:, place] = word & np.uint64((1 << limb) - 1)
    return out.reshape(len(out), -1)
