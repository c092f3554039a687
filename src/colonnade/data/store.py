"""Columns that outgrow memory: appended to a file in row blocks, read back in row blocks, gone with their owner."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import IO, Any, overload

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import BrokenError

Values = NDArray[np.float64] | NDArray[np.int32]

MEMORY = 32 << 20
"""Bytes of one table that stay in memory; beyond, its columns go to disk."""
_TAKEN_ROWS = 1 << 20  # 8 MB of numbers taken at once


class ScratchFile:
    """An unlinked temporary file: no other process can open it, and it ends with the last object that uses it."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="colonnade-", buffering=0)  # noqa: SIM115 - lives as long
        self._lock = Lock()

    def append(self, values: NDArray[Any]) -> int:
        """Where the values begin."""
        rest = np.ascontiguousarray(values).data.cast("B") if values.size else memoryview(b"")
        with self._lock:
            start = self._file.seek(0, 2)
            while rest:
                # A signal may end a write early.
                rest = rest[self._file.write(rest) or 0 :]
        return start

    def read(self, start: int, out: NDArray[Any]) -> None:
        rest = out.data.cast("B") if out.size else memoryview(b"")
        with self._lock:
            self._file.seek(start)
            while rest:
                # A signal may end a read early; one of nothing says that the file is shorter than what was written.
                if not (count := self._file.readinto(rest)):  # type: ignore[attr-defined]
                    raise BrokenError("a column that was put on disk must be there to its end")
                rest = rest[count:]


class DiskColumn:
    """One column on disk, in segments; the columns of a table share a file, for files are few and columns are many."""

    def __init__(self, disk: ScratchFile, dtype: Any) -> None:
        self._disk, self._dtype = disk, np.dtype(dtype)
        self._starts: list[int] = []
        self._places: list[int] = []
        self._rows = 0

    def append(self, values: NDArray[Any]) -> None:
        self._starts.append(self._rows)
        self._places.append(self._disk.append(values.astype(self._dtype, copy=False)))
        self._rows += len(values)

    def __len__(self) -> int:
        return self._rows

    def rows(self, start: int, stop: int) -> Values:
        stop = min(stop, self._rows)
        out = np.empty(max(0, stop - start), dtype=self._dtype)
        place = start
        segment = max(0, bisect_right(self._starts, start) - 1)
        while place < stop:
            first = self._starts[segment]
            end = self._starts[segment + 1] if segment + 1 < len(self._starts) else self._rows
            here = out[place - start : min(end, stop) - start]
            self._disk.read(self._places[segment] + (place - first) * self._dtype.itemsize, here)
            place, segment = min(end, stop), segment + 1
        return out

    def take(self, order: NDArray[np.int64], disk: ScratchFile) -> DiskColumn:
        """The same column in another order; one column at a time is in memory."""
        out, whole = DiskColumn(disk, self._dtype), self.rows(0, self._rows)
        for start in range(0, len(order), _TAKEN_ROWS):
            out.append(whole[order[start : start + _TAKEN_ROWS]])
        return out

    def __repr__(self) -> str:
        return f"DiskColumn({self._rows} rows)"


class MemoryRows:
    """Integer rows in memory; implements foundation.integers.RowStore."""

    def __init__(self, rows: int, width: int) -> None:
        self._whole, self._rows = np.empty((rows, width), np.int16), 0

    def append(self, rows: NDArray[np.int16]) -> None:
        stop = self._rows + len(rows)
        if stop > len(self._whole):
            raise BrokenError(f"a table of {len(self._whole)} records must be coded as so many, got more")
        self._whole[self._rows : stop] = rows
        self._rows = stop

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self._whole.shape[1]

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self._whole[start : min(stop, self._rows)]

    def __repr__(self) -> str:
        return f"MemoryRows{self.shape}"


class DiskRows:
    """Integer rows on disk; implements foundation.integers.RowStore."""

    def __init__(self, width: int) -> None:
        self._disk, self._width, self._rows = ScratchFile(), width, 0

    def append(self, rows: NDArray[np.int16]) -> None:
        self._disk.append(rows)
        self._rows += len(rows)

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self._width

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        out = np.empty((max(0, min(stop, self._rows) - start), self._width), dtype=np.int16)
        self._disk.read(2 * start * self._width, out)
        return out

    def __repr__(self) -> str:
        return f"DiskRows{self.shape}"


class DiskTexts(Sequence[str]):
    """Texts on disk; in memory is where each ends."""

    def __init__(self) -> None:
        self._data = DiskColumn(ScratchFile(), np.uint8)
        self._ends = [np.zeros(1, np.int64)]

    def append(self, texts: NDArray[np.uint8], lengths: NDArray[np.int64]) -> None:
        """Texts one after the other in UTF-8, and how many bytes each has."""
        self._ends.append(len(self._data) + np.cumsum(lengths, dtype=np.int64))
        self._data.append(texts)

    def __len__(self) -> int:
        return sum(map(len, self._ends)) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._between(index % len(self), index % len(self) + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TAKEN_ROWS):
            yield from self._between(start, min(len(self), start + _TAKEN_ROWS))

    def encoded(self, start: int, stop: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Texts [start, stop) in UTF-8, one after the other, and where each of them ends."""
        if len(self._ends) > 1:
            self._ends = [np.concatenate(self._ends)]
        ends = self._ends[0][start : stop + 1]
        return np.asarray(self._data.rows(int(ends[0]), int(ends[-1])), np.uint8), ends[1:] - ends[0]

    def _between(self, start: int, stop: int) -> list[str]:
        data, ends = self.encoded(start, stop)
        whole = data.tobytes()
        return [whole[a:b].decode() for a, b in pairwise([0, *ends.tolist()])]

    def __repr__(self) -> str:
        return f"DiskTexts({len(self)} rows)"


ColumnValues = Values | DiskColumn


def read_rows(column: ColumnValues, start: int, stop: int) -> Values:
    """Rows [start, stop) of a column, wherever it lies."""
    return column.rows(start, stop) if isinstance(column, DiskColumn) else column[start:stop]


def take_rows(columns: Mapping[str, ColumnValues], order: NDArray[np.int64]) -> dict[str, ColumnValues]:
    """Columns in another order."""
    disk = ScratchFile() if any(isinstance(column, DiskColumn) for column in columns.values()) else None
    return {
        name: column.take(order, disk or ScratchFile()) if isinstance(column, DiskColumn) else column[order]
        for name, column in columns.items()
    }


class ColumnStore:
    """Gathers a table's blocks; moves everything to disk once it exceeds the memory it was given."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[Values]] = {}
        self._stored: dict[str, DiskColumn] = {}
        self._held = 0

    def append(self, values: Mapping[str, Values]) -> None:
        for name, block in values.items():
            if name in self._stored:
                self._stored[name].append(block)
            else:
                self._blocks.setdefault(name, []).append(block)
                self._held += block.nbytes
        if self._held > MEMORY:
            self._spill()

    def _spill(self) -> None:
        disk = ScratchFile()
        for name, blocks in self._blocks.items():
            self._stored[name] = DiskColumn(disk, blocks[0].dtype)
            for block in blocks:
                self._stored[name].append(block)
        self._blocks, self._held = {}, 0

    def columns(self) -> dict[str, ColumnValues]:
        """All columns, in memory or on disk."""
        if self._stored:
            return dict(self._stored)
        return {name: _join(blocks) for name, blocks in self._blocks.items()}


def _join(blocks: list[Values]) -> Values:
    whole: Values = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]  # type: ignore[assignment]
    return whole
