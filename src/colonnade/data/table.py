"""A party's CSV or Parquet files: streamed in row blocks, checked, clipped to public bounds, and put on the grid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.crypto.product import Columns
from colonnade.data.encode import Coding, SumsOfBlocks, code_block
from colonnade.data.reading import (
    FileBlocks,
    block_rows,
    check_block,
    explain_errors,
    filed,
    recount_missing,
    select_columns,
)
from colonnade.data.storage import none_clipped
from colonnade.data.store import ColumnStore, ColumnValues, DiskRows, read_rows, take_rows
from colonnade.foundation.errors import DataError
from colonnade.foundation.grid import Grid
from colonnade.foundation.parts import data_files, is_parquet
from colonnade.foundation.schema import Column
from colonnade.foundation.sums import Sums
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.moments import Floats, Layout

DIGEST_ROWS = 1 << 16
CACHE_BYTES = 32 << 20
"""Integer columns up to this size stay in memory; larger ones lie on disk."""


@dataclass(frozen=True, repr=False)
class IntegerColumns:
    """Integer columns in memory or on disk; implements crypto.product.Columns."""

    stored: NDArray[np.int16] | DiskRows
    sums: Sums
    """Formed in the one pass that makes the columns."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.stored.shape[0], self.stored.shape[1]

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self.stored.rows(start, stop) if isinstance(self.stored, DiskRows) else self.stored[start:stop]


@dataclass(frozen=True, repr=False)
class Table:
    """One party's records: numbers, which the grid will clip, and level codes. It never leaves the party."""

    party: str
    columns: Mapping[str, Column]
    values: Mapping[str, ColumnValues]
    rows: int
    ids: Sequence[str] | None = None
    clipped: Mapping[str, int] | None = None
    """How many values of each numeric column lay outside its bounds; for the party's own eyes."""

    @property
    def late(self) -> bool:
        """Whether the file is read, and what is clipped counted, when the table is encoded."""
        return isinstance(self.values, UnreadColumns)

    def is_constant(self, name: str) -> bool:
        """Whether all values of a number lie beyond the same bound, so that nothing is left of it."""
        if (self.clipped or {}).get(name) != self.rows or not self.rows:
            return False
        signed = self.columns[name].signed(read_rows(self.values[name], 0, self.rows))
        return bool(signed.min() == signed.max())

    def heavy_clipping(self) -> list[str]:
        """A sentence for each number of which more than half of the values lie outside its bounds."""
        out = []
        for name, count in (self.clipped or {}).items():
            if 2 * count > self.rows:
                bounds = " to ".join(map(self.columns[name].write, self.columns[name].require_bounds()))
                share = f"all {count:,}" if count == self.rows else f"{count:,} of {self.rows:,}"
                left = ": the column is constant now" if self.is_constant(name) else ""
                out.append(
                    f"{share} values of {name} of party {self.party} lie outside its bounds {bounds} and were clipped"
                    f"{left}"
                )
        return out

    def take(self, rows: NDArray[np.int64]) -> Table:
        """These rows in this order, without ids."""
        return Table(self.party, self.columns, take_rows(self.values, rows), len(rows))

    def digest(self) -> bytes:
        """Of all values, column by column in their order; ids are not among them."""
        digest = hashlib.sha256(f"{self.rows} records;".encode())
        for name in self.columns:
            digest.update(f"{len(name)}:{name};".encode())
            for start in range(0, self.rows, DIGEST_ROWS):
                block = read_rows(self.values[name], start, min(self.rows, start + DIGEST_ROWS))
                digest.update(block.dtype.str.encode())
                digest.update(np.ascontiguousarray(block).data)
        return digest.digest()

    def encode(self, layout: Layout, grid: Grid, coins: bytes, workers: Workers = HERE) -> Columns:
        """The party's coordinates in the layout's order, as integers, block by block; `coins` decide the rounding."""
        own = tuple(a for a in layout.attributes if a.owner == self.party)
        coding = Coding(self.party, self.columns, own, grid, coins, dict(layout.norms).get(self.party))
        width = coding.width
        small = 2 * self.rows * width <= CACHE_BYTES
        out = np.empty((self.rows, width), np.int16) if small else DiskRows(width)
        total, start = SumsOfBlocks(coding), 0
        for rows, sums, enlarged in self._code_blocks(coding, workers):
            if isinstance(out, DiskRows):
                out.append(rows)
            else:
                out[start : start + len(rows)] = rows
            total.add(sums, enlarged)
            start += len(rows)
        return IntegerColumns(out, total.total)

    def _code_blocks(self, coding: Coding, workers: Workers) -> Iterator[tuple[NDArray[np.int16], Floats, Floats]]:
        if isinstance(self.values, UnreadColumns) and not self.values.known:
            return self.values.code_blocks(coding, workers)
        names = {name for name, _ in coding.sources}
        step = block_rows(coding.width)
        spans = [(start, min(self.rows, start + step)) for start in range(0, self.rows, step)]
        inside = {name for name, count in (self.clipped or {}).items() if not count}
        pieces = (
            (coding, {n: read_rows(self.values[n], *span) for n in names}, span[0], span[1] - span[0], inside)
            for span in spans
        )
        return workers.map(code_block, pieces)

    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Every encoded coordinate of the party by its name, unrounded: what a released model's weights apply to."""
        out: dict[str, NDArray[np.float64]] = {}
        for name, column in self.columns.items():
            out |= column.encode(name, read_rows(self.values[name], 0, self.rows))
        return out


class UnreadColumns(Mapping[str, ColumnValues]):
    """A Parquet file's columns that are coded as they are read, and stored only if they are asked for otherwise."""

    def __init__(self, party: str, path: Path, columns: Mapping[str, Column]) -> None:
        self._party, self._path, self._columns = party, path, columns
        self._known: dict[str, ColumnValues] | None = None
        self.rows = sum(int(pl.scan_parquet(file).select(pl.len()).collect().item()) for file in data_files(path))
        self.clipped = none_clipped(columns)
        """Known after the first reading."""

    @property
    def known(self) -> bool:
        return self._known is not None

    def code_blocks(self, coding: Coding, workers: Workers) -> Iterator[tuple[NDArray[np.int16], Floats, Floats]]:
        """Integer rows and sums of products, block by block, in one pass through the file."""
        pieces, seen = FileBlocks(self._party, self._path, self._columns), 0
        self.clipped.update(dict.fromkeys(self.clipped, 0))
        with recount_missing(self._party, self._path, self._columns):
            for rows, sums, more, outside in workers.map(_code_frame, ((coding, *piece) for piece in pieces)):
                seen += len(rows)
                for name, count in outside.items():
                    self.clipped[name] += count
                yield rows, sums, more
        if seen != self.rows:
            raise DataError(f"party {self._party}: {self._path.name} had {self.rows} records and has {seen} now")

    def __getitem__(self, name: str) -> ColumnValues:
        if self._known is None:
            self._known = dict(read_table(self._party, self._path, self._columns).values)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def read_table(
    party: str, path: Path, columns: Mapping[str, Column], id_column: str | None = None, workers: Workers = HERE
) -> Table:
    """A party's table from a CSV (plain or compressed) or Parquet file, a folder of either, or a pattern of parts."""
    store = ColumnStore()
    clipped = none_clipped(columns)
    pieces = FileBlocks(party, path, columns, id_column)
    with recount_missing(party, path, columns):
        for values, outside in workers.map(check_block, pieces):
            store.append(values)
            for name, count in outside.items():
                clipped[name] += count
    if not pieces.rows:
        raise DataError(f"party {party}: {path.name} holds no records")
    ids = None if pieces.ids is None else pieces.ids.unique(path.name)
    return Table(party, dict(columns), store.columns(), pieces.rows, ids, clipped)


def open_table(party: str, path: Path, columns: Mapping[str, Column], workers: Workers = HERE) -> Table:
    """A party's table in the file's own order: Parquet is checked and coded in one pass, when it is encoded."""
    try:
        parquet = all(is_parquet(file) for file in data_files(path))
    except DataError as error:
        raise DataError(f"party {party}: {error}") from None
    if not parquet:
        return read_table(party, path, columns, None, workers)
    with explain_errors(party, path):
        select_columns(party, path, columns, None).collect_schema()
        values = UnreadColumns(party, path, dict(columns))
    if not values.rows:
        raise DataError(f"party {party}: {path.name} holds no records")
    return Table(party, dict(columns), values, values.rows, None, values.clipped)


def table_from(
    party: str, frame: pl.DataFrame, columns: Mapping[str, Column], ids: Sequence[str] | None = None
) -> Table:
    """A party's table from a data frame that holds its columns."""
    for name in filed(columns):
        if name not in frame.columns:
            raise DataError(f"party {party}: there is no column {name!r}")
    if ids is not None and (isinstance(ids, str) or len(ids) != frame.height):
        told = f"the text {ids!r}" if isinstance(ids, str) else f"{len(ids)} ids"
        raise DataError(f"party {party}: there must be one id for each of {frame.height} records, got {told}")
    values, clipped = check_block(party, frame, columns, 0)
    return Table(party, dict(columns), values, frame.height, ids, clipped)


def _code_frame(
    coding: Coding, party: str, frame: pl.DataFrame, columns: Mapping[str, Column], before: int
) -> tuple[NDArray[np.int16], Floats, Floats, dict[str, int]]:
    values, outside = check_block(party, frame, columns, before)
    inside = {name for name, count in outside.items() if not count}
    return *code_block(coding, values, before, frame.height, inside), outside
