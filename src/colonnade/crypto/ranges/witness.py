"""What a party's statements are true of: columns, keys and errors, drawn again as the product draws them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import draw_secrets, draw_wide, needed_columns, source_of
from colonnade.crypto.lattice.work import draw_errors
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness, Stream


class LatticeWitness:
    """What `LatticeParty` makes its sealed words, or its answer, of; `randomness` gives the same child each time."""

    def __init__(
        self, spec: ProductSpec, me: int, columns: IntegerColumns, randomness: Randomness, seals: bool
    ) -> None:
        self._spec, self._columns, self._randomness, self._seals = spec, columns, randomness, seals
        self._needed = needed_columns(spec, me, left=seals)
        self.keys: NDArray[np.int8] = self._drawn()[1]

    def _drawn(self) -> tuple[Randomness, NDArray[np.int8]]:
        """The source of a round after its keys, and these."""
        count = len(self._needed)
        source = source_of(self._randomness, self._spec, "seal" if self._seals else "multiply")
        if self._seals:
            return source, draw_secrets(source, count)
        return source, draw_wide(source, count * N).reshape(count, N)

    def wipe(self) -> None:
        """Forget keys, and what they and errors are drawn from."""
        self.keys.fill(0)
        del self._randomness

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self._columns.rows(start, stop)[:, self._needed]

    def errors(self) -> Iterator[tuple[int, slice, NDArray[np.int8]]]:
        count, (source, _), n = len(self._needed), self._drawn(), self._spec.rows
        if not self._seals:
            yield n, slice(0, count), draw_wide(source, count * N).reshape(count, N).T
            return
        for place in parcel_places(count, n):
            key = source.bytes(32)
            errors = draw_errors(Stream(key), place.blocks * N * place.columns).reshape(-1, place.columns)
            yield min(place.block * N, n), place.all_columns, errors[: place.rows]
