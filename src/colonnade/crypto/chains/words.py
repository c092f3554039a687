"""The lattice product with shares of any size on the sealed side: the last step of a product of several owners."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.work import seal_words
from colonnade.crypto.product import Columns, Cross, Integers, ProductSpec, Words
from colonnade.foundation.randomness import Randomness


class _Widened:
    """Columns that count as wide as the shares that are sealed beside them."""

    def __init__(self, columns: Columns, width: int) -> None:
        self._columns, self._width = columns, width

    @property
    def shape(self) -> tuple[int, int]:
        rows, width = self._columns.shape
        return rows, max(width, self._width)

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self._columns.rows(start, stop)


class SharedWords(LatticeParty):
    """A party that seals words modulo 2^modulus_bits in place of its columns, and multiplies with its columns.

    The kernels of numpy do it: those of a device, and compiled ones, take small integers only.
    """

    def __init__(self, spec: ProductSpec, me: int, columns: Columns, words: Words, randomness: Randomness) -> None:
        none: dict[Cross, Integers] = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
        super().__init__(spec, me, _Widened(columns, words.shape[1]), none, randomness)
        self._words = words

    def _seal(self) -> Iterator[bytes]:
        spec, count = self._spec, len(self._left)
        keys = self._states.own.kernels.keys(self._secrets, self._seal_bits)
        for place in parcel_places(count, spec.rows):
            start = place.block * N
            words = np.zeros((0, place.columns), np.uint64)
            if start < spec.rows:
                words = self._words[start : start + place.rows][:, self._left[place.all_columns]]
            source = self._randomness["seal"].bytes(32)
            yield seal_words(self._states, spec, self._me, place, keys, words, source)

    def wipe(self) -> None:
        super().wipe()
        self._words.fill(0)
