"""The lattice product's arithmetic in compiled loops, where numba is installed; the same words as with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.kernels import NumpyKernels, Small, check_norm, paired
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.words import PAIR_BITS, Floats, Planes
from colonnade.crypto.product import ProductSpec, Words

WORTHWHILE = 1 << 27
"""Words of a session from which on compiled loops save more than the half second or so that it takes to load them."""


def available() -> bool:
    """Whether numba is installed; its first use on a machine compiles for some seconds, and is kept on disk."""
    return find_spec("numba") is not None


def best_party(spec: ProductSpec) -> type[LatticeParty]:
    """The party's side that takes the least time for a session, when nothing is loaded yet."""
    columns = {(c.left, j) for c in spec.crosses for j in range(c.left_start, c.left_stop)}
    columns |= {(c.right, j) for c in spec.crosses for j in range(c.right_start, c.right_stop)}
    return CompiledParty if available() and spec.rows * len(columns) >= WORTHWHILE else LatticeParty


class CompiledKernels(NumpyKernels):
    """Kernels that pass over an element once, while a first-level cache holds it."""

    def __init__(self) -> None:
        super().__init__()
        from colonnade.crypto.lattice import loops

        self._loops = loops

    def keys(self, secrets: NDArray[np.int8], bits: Sequence[int]) -> Any:
        values = self._values(secrets.astype(np.float64))
        pairs: Floats = np.empty((0, N))
        if paired(bits):
            pairs = values[::2].copy()
            pairs[: len(values) // 2] += values[1::2] * 2.0**PAIR_BITS
        return values, pairs

    def elements(self, words: Words, bits: Sequence[int]) -> Any:
        values: Floats = np.empty((len(bits), *words.shape))
        places = [sum(bits[:limb]) for limb in range(len(bits))]
        half = sum(1 << (place + count - 1) for place, count in zip(places, bits, strict=True))
        roots, twist = self._loops.ROOTS, self._loops.TWIST
        for limb, (place, count) in enumerate(zip(places, bits, strict=True)):
            check_norm(self._loops.values_of_limb(words, place, count, half, values[limb], roots, twist), count)
        return values, bits[0]

    def _values(self, elements: Floats) -> Floats:
        values: Floats = np.empty((len(elements), N))
        self._loops.values_of(elements, values, self._loops.ROOTS, self._loops.TWIST)
        return values

    def seal(self, planes: Planes, keys: Any, columns: slice, elements: Any, message: Small) -> None:
        low, *rest = planes.arrays
        empty = np.empty((0, 0), np.uint8)
        high, top = [*rest, empty, empty][:2]
        (all_keys, all_pairs), (values, place) = keys, elements
        secrets, pairs = all_keys[columns], all_pairs[columns.start // 2 : (columns.stop + 1) // 2]
        roots, twist = self._loops.ROOTS, self._loops.TWIST
        self._loops.sealed(low, high, top, secrets, pairs, values, place, message, roots, twist)
        planes.cut()

    def sums(self, columns: int, bits: Sequence[int]) -> Any:
        return np.zeros((len(bits), columns, N))

    def accumulate(self, sums: Any, elements: Any, rows: Small) -> None:
        # One kind of integers, so that the loops are compiled once.
        rows = rows.astype(np.int16, copy=False)
        self._loops.summed(sums, elements[0], rows, self._loops.ROOTS, self._loops.TWIST)

    def collect(self, sums: Any, bits: Sequence[int]) -> Words:
        words: Words = np.zeros((sums.shape[1], N), np.uint64)
        for limb, total in enumerate(sums):
            self._loops.integers_of(total, words, sum(bits[:limb]), self._loops.ROOTS, self._loops.TWIST)
        sums.fill(0)
        return words

    def times(self, planes: Planes, small: Small, bound: int) -> Words:
        return planes.times(small, bound, self._scratch, self._centre if len(planes.arrays) == 2 else None)

    def _centre(self, planes: Planes, rows: slice, floats: Floats) -> None:
        low, high = (plane[:, rows] for plane in planes.arrays)
        self._loops.centred(floats, low, high, planes.modulus_bits)


class CompiledParty(LatticeParty):
    """One party's side of the lattice product, in compiled loops."""

    kernels = CompiledKernels
