"""The lattice product with shares of any size on the sealed side: the last step of a product of several owners."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.work import seal_words
from colonnade.crypto.product import Cross, Integers, ProductSpec, Words
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness


class SharedWords(LatticeParty):
    """A party that seals words modulo 2^modulus_bits in place of its columns, and multiplies with its columns.

    The kernels of numpy do it: those of a device, and compiled ones, take small integers only.
    """

    def __init__(
        self, spec: ProductSpec, me: int, columns: IntegerColumns, words: Words, randomness: Randomness
    ) -> None:
        none: dict[Cross, Integers] = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
        self._words = words
        super().__init__(spec, me, columns, none, randomness)

    def _shape(self, columns: IntegerColumns) -> tuple[int, int]:
        """Columns count as wide as the shares that are sealed beside them."""
        rows, width = columns.shape
        return rows, max(width, self._words.shape[1])

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
