"""An alignment's loops compiled, where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment import loops
from colonnade.crypto.alignment.kernels import SUMS, AlignmentKernels, Bytes, Peeling, Rows
from colonnade.crypto.product import Words

BLOCK_BYTES = 128
"""What BLAKE2b takes at once; longer messages are rare, and are hashed one by one."""


class CompiledAlignmentKernels(AlignmentKernels):
    """The same gathers and sums, each in one pass."""

    def rows_of(self, columns: Words) -> Words:
        count, width = columns.shape
        out = np.empty((64 * width, count // 64), np.uint64)
        loops.rows_of(columns, out)
        return out

    def columns_of(self, rows: Words, count: int) -> Words:
        out = np.empty((count, len(rows) // 64), np.uint64)
        loops.columns_of(rows, out)
        return out

    def peel(self, places: Rows, slots: int) -> Peeling:
        rows, own, ends, rest = loops.peel(places, slots)
        return Peeling(rows, own, ends.tolist(), rest)

    def fill(self, table: Words, places: Rows, goals: Words, peeling: Peeling) -> None:
        loops.fill(table, places, goals, peeling.rows, peeling.slots)

    def three(self, table: Words, places: Rows) -> Words:
        out = np.empty((len(places), table.shape[1]), np.uint64)
        # One kind of array, so that the loop is compiled once: bodies of messages may not be written to.
        loops.three(_own(table), places, out)
        return out

    def add_bytes(self, out: Words, sums: Words, chosen: Bytes) -> None:
        loops.add_bytes(out, sums, _own(chosen))

    def combine(self, rows: Words, challenge: Words) -> Words:
        out = np.zeros((SUMS, rows.shape[1]), np.uint64)
        loops.combine(rows, challenge.view(np.uint8).reshape(-1, 16), out)
        return out

    def digests(self, prefix: bytes, data: Bytes, ends: Rows, words: int) -> Words:
        if len(ends) and len(prefix) + int(np.diff(ends, prepend=0).max()) > BLOCK_BYTES:
            return super().digests(prefix, data, ends, words)
        out = np.empty((len(ends), words), np.uint64)
        loops.digests(np.frombuffer(prefix, np.uint8).copy(), _own(data), _own(ends), out)
        return out


def _own(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
