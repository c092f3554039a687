"""Columns that outgrow memory: appended to a file in row blocks, read back in row blocks, gone with their owner."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64] | NDArray[np.int32]

MEMORY = 256 << 20
"""Bytes of one table that stay in memory; beyond, its columns go to disk."""


class StoredColumn:
    """One column in an unlinked temporary file: no other process can open it, and it ends with this object."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="colonnade-", buffering=0)  # noqa: SIM115 - lives as long
        self._rows = 0

    def append(self, values: Values) -> None:
        self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._rows += len(values)

    def __len__(self) -> int:
        return self._rows

    def rows(self, start: int, stop: int) -> Values:
        self._file.seek(start * self._dtype.itemsize)
        out: Values = np.fromfile(self._file, dtype=self._dtype, count=max(0, min(stop, self._rows) - start))
        return out

    def take(self, order: NDArray[np.int64]) -> StoredColumn:
        """The same column in another order; one column at a time is in memory."""
        out = StoredColumn(self._dtype)
        out.append(self.rows(0, self._rows)[order])
        return out

    def __repr__(self) -> str:
        return f"StoredColumn({self._rows} rows)"


Stored = Values | StoredColumn


def part(column: Stored, start: int, stop: int) -> Values:
    """Rows [start, stop) of a column, wherever it lies."""
    return column.rows(start, stop) if isinstance(column, StoredColumn) else column[start:stop]


def taken(column: Stored, order: NDArray[np.int64]) -> Stored:
    """A column in another order."""
    return column.take(order) if isinstance(column, StoredColumn) else column[order]


class Spool:
    """Gathers a table's blocks; moves everything to disk once it exceeds the memory it was given."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._blocks: dict[str, list[Values]] = {}
        self._stored: dict[str, StoredColumn] = {}
        self._held = 0

    def append(self, values: Mapping[str, Values]) -> None:
        for name, block in values.items():
            if name in self._stored:
                self._stored[name].append(block)
            else:
                self._blocks.setdefault(name, []).append(block)
                self._held += block.nbytes
        if self._held > self._memory:
            self._spill()

    def _spill(self) -> None:
        for name, blocks in self._blocks.items():
            self._stored[name] = StoredColumn(blocks[0].dtype)
            for block in blocks:
                self._stored[name].append(block)
        self._blocks, self._held = {}, 0

    def columns(self) -> dict[str, Stored]:
        """All columns, in memory or on disk."""
        if self._stored:
            return dict(self._stored)
        return {name: _joined(blocks) for name, blocks in self._blocks.items()}


def _joined(blocks: list[Values]) -> Values:
    whole: Values = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]  # type: ignore[assignment]
    return whole
