"""What is proved of sealed words (S) and of answers (M): linear relations between committed bits and public words.

Of each of T random masks t, each column j and, in (S), each span of rows, over the integers:

    (S)  gain <t, x_j> + <c, s_j> + z + 2^k h = L,            L = <t, b_j> centred modulo 2^k
    (M)  <c, y_j> + <c', rho_j> + z + 2^k h = L,              L = <t, u_j> centred modulo 2^k

x, y, s, rho, z and h are spelt by committed bits, so that their ranges are exact. The images c, c' of t under the
public elements, and L, follow from the masks and the words. z is a random sum of errors: where it is small for all t,
no error is above twice its range. Columns with levels have one relation more of each mask on rows: all levels of all
chosen records sum to their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.kernels import Kernels
from colonnade.crypto.lattice.parameters import (
    DEVIATIONS,
    ERROR_VARIANCE,
    NORM_SLACK,
    SECRET_BOUND,
    SPAN,
    WIDE_BOUND,
    WIDE_VARIANCE,
    N,
    error_sum,
    multiply_limbs,
    seal_limbs,
)
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.lattice.work import pad_rows, public_elements
from colonnade.crypto.product import Integers, ProductSpec, Words, centred
from colonnade.crypto.ranges.coding import BitCoding, weights_to
from colonnade.crypto.ranges.field import Field
from colonnade.foundation.randomness import Stream, derive

T = 64
"""Masks of each sum: what is wrong passes all of them with 2^-64."""
SEED_BYTES = 32
"""Of a challenge."""
PIECE_BITS = 1 << 16
"""Bits committed at once, about: their rows stay in a cache."""
LEAST_ROWS = 64

DATA, KEYS, SUMS = "data", "keys", "sums"


@dataclass(frozen=True)
class CommittedPiece:
    """Bits committed at once: of some records, of some columns' keys, or of sums that are known after the challenge."""

    kind: str
    start: int
    """Of records, of columns, or of bits of sums."""
    stop: int
    bits: int


@dataclass(frozen=True)
class RangeStatement:
    """What both sides know of one party's statement before a challenge."""

    spec: ProductSpec
    coding: BitCoding
    seals: bool
    """Whether it is (S), of a party that seals; else it is (M)."""

    @property
    def k(self) -> int:
        return self.spec.modulus_bits

    @property
    def columns(self) -> int:
        return self.coding.columns

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Rows whose errors are summed together: those of sealed words in spans, the coefficients of u at once."""
        n = self.spec.rows
        return tuple(slice(s, min(n, s + SPAN)) for s in range(0, n, SPAN)) if self.seals else (slice(0, n),)

    @property
    def reach(self) -> int:
        """The largest coefficient of a key: of s, or of rho."""
        return SECRET_BOUND if self.seals else WIDE_BOUND

    @cached_property
    def key_weights(self) -> tuple[int, ...]:
        return weights_to(2 * self.reach)

    @cached_property
    def z(self) -> int:
        """Z: sums of errors are within [-Z, Z]."""
        return error_sum(min(self.spec.rows, SPAN) + N, ERROR_VARIANCE) if self.seals else error_sum(N, WIDE_VARIANCE)

    @cached_property
    def h(self) -> int:
        """H: carries are within [-H, H]. A carry is a sum of uniform numbers in [-1/2, 1/2) times short ones."""
        squares = NORM_SLACK * N if self.seals else N * WIDE_BOUND**2 + self.spec.rows * self.spec.bound**2
        return ceil(DEVIATIONS * sqrt(squares) / 2) + 3

    @cached_property
    def sum_weights(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of z and of h."""
        return weights_to(2 * self.z), weights_to(2 * self.h)

    @property
    def scale(self) -> int:
        return self.spec.gain if self.seals else 1

    @property
    def coefficient_bits(self) -> int:
        """Of what multiplies the columns: masks in (S), images in (M)."""
        return 1 if self.seals else self.k

    @cached_property
    def field(self) -> Field:
        """In which no relation is 0 unless it is 0 as an integer."""
        n, bound, half = self.spec.rows, self.spec.bound, 1 << (self.k - 1)
        columns = self.spec.gain * bound * n if self.seals else half * n * bound
        keys = half * N * self.reach
        levels = n * max(group.size for group in self.coding.groups)
        return Field.beyond(max(columns + keys + self.z + (self.h << self.k) + half, levels))

    @cached_property
    def sum_bits(self) -> int:
        """Bits of all z and h."""
        return len(self.spans) * T * self.columns * sum(map(len, self.sum_weights))

    @cached_property
    def pieces(self) -> tuple[CommittedPiece, ...]:
        """All committed bits, in the order in which they are committed."""
        return tuple(self._pieces())

    def _pieces(self) -> Iterator[CommittedPiece]:
        n, width, of_key = self.spec.rows, self.coding.width, N * len(self.key_weights)
        rows = N
        while rows > LEAST_ROWS and rows * width > 2 * PIECE_BITS:
            rows //= 2
        for start in range(0, n, rows):
            stop = min(n, start + rows)
            yield CommittedPiece(DATA, start, stop, (stop - start) * width)
        columns = max(1, PIECE_BITS // of_key)
        for start in range(0, self.columns, columns):
            stop = min(self.columns, start + columns)
            yield CommittedPiece(KEYS, start, stop, (stop - start) * of_key)
        for start in range(0, self.sum_bits, PIECE_BITS):
            stop = min(self.sum_bits, start + PIECE_BITS)
            yield CommittedPiece(SUMS, start, stop, stop - start)

    @cached_property
    def committed(self) -> int:
        """Bits, of all pieces."""
        return sum(piece.bits for piece in self.pieces)


class RandomMasks:
    """The T masks of one challenge, in {0, 1}, and their images under a session's public elements."""

    def __init__(self, statement: RangeStatement, seed: bytes, kernels: Kernels) -> None:
        self._spec, self._seals, self._kernels = statement.spec, statement.seals, kernels
        self._rows_key = derive(seed, "proof rows")
        self._total = -(-self._spec.rows // N)
        self.key = np.ascontiguousarray(_bits(Stream(derive(seed, "proof key")).bytes(N * T // 8)).T)
        """On the words of the block p in (S), on the coefficients of u in (M); T rows."""
        if statement.seals:
            self._limbs, _ = multiply_limbs(self._spec.modulus_bits, 1)
        else:
            self._limbs = seal_limbs(self._spec.modulus_bits)
            self._keys = kernels.keys(self.key.view(np.int8), self._limbs)
            self._image_of = lru_cache(maxsize=1)(self._image)

    def rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Masks on records [start, stop), T rows; `start` is even."""
        raw = Stream(self._rows_key, start * T // 8).bytes((stop - start) * T // 8)
        return np.ascontiguousarray(_bits(raw).T)

    def span_image(self, span: slice) -> Integers:
        """(S): c = sum of a_r t_r(1/X) over the blocks of a span, centred; with the last span goes p."""
        kernels, block = self._kernels, span.start // N
        sums, count = kernels.sums(T, self._limbs), -(-span.stop // N) - block
        rows = np.ascontiguousarray(self.rows(span.start, span.stop).T).astype(np.int16)
        kernels.accumulate(sums, self._elements(block, count), pad_rows(rows))
        if span.stop == self._spec.rows:
            kernels.accumulate(sums, self._elements(self._total, 1), np.ascontiguousarray(self.key.T).astype(np.int16))
        return centred(kernels.collect(sums, self._limbs), self._spec.modulus_bits)

    def row_image(self, start: int, stop: int) -> Integers:
        """(M): c = a_r t, centred, at records of one block."""
        block = start // N
        return self._image_of(block)[:, start - block * N : stop - block * N]

    def key_image(self) -> Integers:
        """(M): c' = p t, centred."""
        return self._image(self._total)

    def _image(self, block: int) -> Integers:
        planes = Planes.empty((T, N), self._spec.modulus_bits, Scratch())
        blank = np.zeros((N, T), np.int16)
        self._kernels.seal(planes, self._keys, slice(0, T), self._elements(block, 1), blank)
        return centred(planes.words(), self._spec.modulus_bits)

    def _elements(self, block: int, blocks: int) -> object:
        return self._kernels.elements(public_elements(self._spec, block, blocks), self._limbs)


class Targets:
    """L of every relation, from a sender's words as they come."""

    def __init__(self, statement: RangeStatement, masks: RandomMasks) -> None:
        self._statement, self._masks = statement, masks
        self._sums = np.zeros((len(statement.spans), T, statement.columns), np.uint64)

    def add(self, columns: slice, row: int, words: Words) -> None:
        """Add a parcel's words, a row for each of these columns, from this row on; keys follow the last record."""
        n = self._statement.spec.rows
        if not self._statement.seals or row >= n:
            self._sums[-1][:, columns] += _chosen(self._masks.key, words)
            return
        for number, span in enumerate(self._statement.spans):
            start, stop = max(span.start, row), min(span.stop, row + words.shape[1])
            if start < stop:
                masks = self._masks.rows(start, stop)
                self._sums[number][:, columns] += _chosen(masks, words[:, start - row : stop - row])

    def value(self) -> Integers:
        """(spans, T, columns) integers, centred."""
        return centred(self._sums, self._statement.k)


def _chosen(masks: NDArray[np.uint8], words: Words) -> Words:
    """Sums of the words that each mask chooses, modulo 2^64."""
    low, high = (words & np.uint64((1 << 32) - 1)).astype(np.float64), (words >> np.uint64(32)).astype(np.float64)
    chosen = masks.astype(np.float64)
    sums: Words = (chosen @ low.T).astype(np.uint64) + ((chosen @ high.T).astype(np.uint64) << np.uint64(32))
    return sums


def _bits(raw: bytes) -> NDArray[np.uint8]:
    """A row of T bits for each T / 8 bytes."""
    return np.unpackbits(np.frombuffer(raw, np.uint8)).reshape(-1, T)
