"""A party's CSV or Parquet files: streamed in row blocks, checked, clipped to public bounds, and put on the grid."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.gate import Coding, code_block
from colonnade.data.ids import TOLD, IdColumns
from colonnade.data.reading import (
    Blocks,
    FilePart,
    Reading,
    block_rows,
    check_block,
    explain_errors,
    file_frames,
    filed,
    parquet_parts,
    select_columns,
)
from colonnade.data.storage import none_clipped
from colonnade.data.store import ColumnStore, ColumnValues, DiskRows, MemoryRows, read_rows, take_rows
from colonnade.data.unfit import LeftOut, Unfit, add_unfit, require_agreed, require_fit
from colonnade.data.written import PLAIN, Written
from colonnade.foundation.errors import BrokenColumns, DataError
from colonnade.foundation.grid import Grid
from colonnade.foundation.integers import CodedBlock, IntegerColumns
from colonnade.foundation.names import ColumnRef, Coordinate
from colonnade.foundation.parts import data_files, is_parquet
from colonnade.foundation.schema import Column
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.moments import Layout

DIGEST_ROWS = 1 << 16  # rows hashed at once, so that memory stays flat: part of the digest, as each block has its type
CACHE_BYTES = 32 << 20
"""Integer columns up to this size stay in memory; larger ones lie on disk."""


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
    unfit: Mapping[str, Unfit] = field(default_factory=dict)
    """Of each column that has some, the values that are missing or not as declared; for the party's own eyes."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """Rows that had no id, or an earlier row's; for the party's own eyes."""
    id_forms: Mapping[str, int] = field(default_factory=dict)
    """How many ids have something about them that another party's may not have; for the party's own eyes."""
    gathered: int = 0
    """Rows that its records were made of, where a person has several."""

    @property
    def seen(self) -> int:
        """Records whose values were looked at: its own, and rows that ids left out."""
        return self.rows + (0 if self.gathered else self.left_out.count)

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

    def require_fit(self, strict: bool = False, look: Look | None = None) -> Table:
        """Itself; raise DataError where more than one value in twenty of a column does not fit, or with `strict` any.

        For whoever sees all parties' data. A file that is read when it is encoded is judged then. `look` is shown the
        table, for that party's own eyes.
        """
        if isinstance(self.values, UnreadColumns) and not self.values.known:
            self.values.strict = strict
        else:
            require_fit(self.party, self.unfit, self.left_out, self.seen, strict)
        if look is not None:
            look(self)
        return self

    @property
    def unfit_counts(self) -> dict[str, int]:
        """How many values of each column are missing or not as declared, and rows that were left out by their ids."""
        left = {self.left_out.column: self.left_out.count} if self.left_out.count else {}
        return {name: own.count for name, own in self.unfit.items()} | left

    def surprises(self) -> list[str]:
        """A sentence for each thing that is not as declared, and of which the declaration does not say what follows."""
        return [note for note, declared in self._unfit_notes() if not declared]

    def notes(self) -> list[str]:
        """Whatever the party alone should know of how its records were taken."""
        out = [
            f"{count:,} values of {name} were clipped to its bounds"
            + (": the column is constant now" if self.is_constant(name) else "")
            for name, count in (self.clipped or {}).items()
            if count
        ]
        out += [note for note, _ in self._unfit_notes()]
        out += [f"{self.gathered:,} rows are those of {self.rows:,} people"] * bool(self.gathered)
        return out + [f"{count:,} ids have {TOLD[name]}" for name, count in self.id_forms.items()]

    def _unfit_notes(self) -> list[tuple[str, bool]]:
        found = [note for name, own in self.unfit.items() for note in own.notes(name, self.seen)]
        return found + self.left_out.notes(self.seen)

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

    def encode(self, layout: Layout, grid: Grid, coins: bytes, workers: Workers = HERE) -> IntegerColumns:
        """The party's coordinates in the layout's order, as integers, block by block; `coins` decide the rounding."""
        own = tuple(a for a in layout.attributes if a.owner == self.party)
        coding = Coding(self.party, self.columns, own, grid, coins, dict(layout.norms).get(self.party))
        small = 2 * self.rows * coding.width <= CACHE_BYTES
        store = MemoryRows(self.rows, coding.width) if small else DiskRows(coding.width)
        columns = IntegerColumns.of_blocks(coding.shape, self._code_blocks(coding, workers), store)
        if columns.shape[0] != self.rows:
            raise BrokenColumns(f"a table of {self.rows} records must be coded as so many, got {columns.shape[0]}")
        return columns

    def _code_blocks(self, coding: Coding, workers: Workers) -> Iterator[CodedBlock]:
        if isinstance(self.values, UnreadColumns) and not self.values.known:
            return self.values.code_blocks(coding, workers)
        names = {name for name, _ in coding.sources}
        step = block_rows(coding.width)
        spans = [(start, min(self.rows, start + step)) for start in range(0, self.rows, step)]
        pieces = (
            (coding, {n: read_rows(self.values[n], *span) for n in names}, span[0], span[1] - span[0]) for span in spans
        )
        return workers.map(code_block, pieces)

    def coordinates(self) -> dict[Coordinate, NDArray[np.float64]]:
        """Every encoded coordinate of the party, unrounded: what a released model's weights apply to."""
        return {
            Coordinate(ColumnRef(self.party, name), place): encoded
            for name, column in self.columns.items()
            for place, encoded in column.encode(read_rows(self.values[name], 0, self.rows)).items()
        }


Look = Callable[[Table], None]
"""Is shown each party's own table once it is read, for that party's own eyes."""


class UnreadColumns(Mapping[str, ColumnValues]):
    """A Parquet file's columns that are coded as they are read, and stored only if they are asked for otherwise."""

    def __init__(self, path: Path, how: Reading) -> None:
        self._path, self._how = path, how
        self._known: dict[str, ColumnValues] | None = None
        self.rows = sum(int(pl.scan_parquet(file).select(pl.len()).collect().item()) for file in data_files(path))
        self.clipped = none_clipped(how.columns)
        """Known after the first reading."""
        self.unfit: dict[str, Unfit] = {}
        """The same."""
        self.strict: bool | None = None
        """How much may not fit; None where nobody asked."""

    @property
    def known(self) -> bool:
        return self._known is not None

    def code_blocks(self, coding: Coding, workers: Workers) -> Iterator[CodedBlock]:
        """Coded records, block by block, in one pass through the file."""
        seen = 0
        self.clipped.update(dict.fromkeys(self.clipped, 0))
        self.unfit.clear()
        coded = self._read_apart(coding, workers) if workers.remote else self._read_here(coding, workers)
        for block, outside, unfit in coded:
            seen += len(block.rows)
            for name, count in outside.items():
                self.clipped[name] += count
            add_unfit(self.unfit, unfit)
            yield block
        if seen != self.rows:
            raise DataError(f"{self._path.name} had {self.rows} records and has {seen} now").of(self._how.party)
        self._judge()

    def _read_here(self, coding: Coding, workers: Workers) -> Iterator[Coded]:
        pieces = Blocks(file_frames(self._path, self._how), self._how)
        return workers.map(_code_frame, ((coding, *piece) for piece in pieces))

    def _read_apart(self, coding: Coding, workers: Workers) -> Iterator[Coded]:
        """Other processes read the parts that they see; the others are read here."""
        given, kept = tee(parquet_parts(self._path, self._how.columns))
        told = workers.map(_code_part_there, ((coding, self._how, *piece) for piece in given))
        for coded, piece in zip(told, kept, strict=True):
            yield _code_part(coding, self._how, *piece) if coded is None else coded

    def _judge(self) -> None:
        require_agreed(self._how.party, self.unfit, self.rows)
        if self.strict is not None:
            require_fit(self._how.party, self.unfit, LeftOut(), self.rows, self.strict)

    def __getitem__(self, name: str) -> ColumnValues:
        if self._known is None:
            read = gather_table(file_frames(self._path, self._how), self._how, f"{self._path.name} holds")
            self._known = dict(read.values)
            self.unfit.update(read.unfit)
            self.clipped.update(read.clipped or {})
            self._judge()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._how.columns)

    def __len__(self) -> int:
        return len(self._how.columns)


def gather_table(
    frames: Iterator[pl.DataFrame], how: Reading, where: str, *, matched: bool = True, workers: Workers = HERE
) -> Table:
    """A party's table from frames that hold its columns and ids, block by block; `where` says whence they come.

    Ids that are `matched` tell records apart: of rows with the same id the first stays, and one without any is left
    out. Where rows are taken in their order all stay, and ids are names for people.
    """
    party, store, clipped, pieces = how.party, ColumnStore(), none_clipped(how.columns), Blocks(frames, how)
    unfit: dict[str, Unfit] = {}
    for values, outside, found in workers.map(check_block, pieces):
        store.append(values)
        for name, count in outside.items():
            clipped[name] += count
        add_unfit(unfit, found)
    if not pieces.rows:
        raise DataError(f"{where} no records").of(party)
    require_agreed(party, unfit, pieces.rows)
    held, gathered = store.columns(), pieces.ids
    texts = None if gathered is None else gathered.texts
    table = Table(party, dict(how.columns), held, pieces.rows, texts, clipped, unfit)
    if gathered is None or not matched:
        return table
    texts, rows, left = gathered.distinct()
    table = replace(table, id_forms=gathered.forms)
    if not left.count:
        return table
    return replace(table, values=take_rows(held, rows), rows=len(rows), ids=texts, left_out=left)


def read_table(
    party: str,
    path: Path,
    columns: Mapping[str, Column],
    ids: IdColumns | None = None,
    workers: Workers = HERE,
    written: Written = PLAIN,
) -> Table:
    """A party's table from a CSV (plain or compressed) or Parquet file, a folder of either, or a pattern of parts."""
    how = Reading(party, columns, ids, written)
    return gather_table(file_frames(path, how), how, f"{path.name} holds", workers=workers)


def open_table(
    party: str, path: Path, columns: Mapping[str, Column], workers: Workers = HERE, written: Written = PLAIN
) -> Table:
    """A party's table in the file's own order: Parquet is checked and coded in one pass, when it is encoded."""
    with explain_errors(party, path):
        if not all(is_parquet(file) for file in data_files(path)):
            return read_table(party, path, columns, None, workers, written=written)
        how = Reading(party, dict(columns), None, written)
        select_columns(path, how).collect_schema()
        values = UnreadColumns(path, how)
    if not values.rows:
        raise DataError(f"{path.name} holds no records").of(party)
    return Table(party, dict(columns), values, values.rows, None, values.clipped, values.unfit)


def table_from(
    party: str, frame: pl.DataFrame, columns: Mapping[str, Column], ids: Sequence[str] | None = None
) -> Table:
    """A party's table from a data frame that holds its columns."""
    for name in filed(columns):
        if name not in frame.columns:
            raise DataError(f"there is no column {name!r}").of(party)
    if ids is not None and (isinstance(ids, str) or len(ids) != frame.height):
        told = f"the text {ids!r}" if isinstance(ids, str) else f"{len(ids)} ids"
        raise DataError(f"there must be one id for each of {frame.height} records, got {told}").of(party)
    values, clipped, unfit = check_block(frame, columns, 0)
    require_agreed(party, unfit, frame.height)
    return Table(party, dict(columns), values, frame.height, ids, clipped, unfit)


Coded = tuple[CodedBlock, dict[str, int], dict[str, Unfit]]
"""A block, how many numbers of each column were clipped, and what does not fit."""


def _code_part(coding: Coding, how: Reading, part: FilePart, before: int) -> Coded:
    return _code_frame(coding, part.frame(how), how.columns, before)


def _code_part_there(coding: Coding, how: Reading, part: FilePart, before: int) -> Coded | None:
    """None where this process does not see the file as its party does."""
    return _code_part(coding, how, part, before) if part.there() else None


def _code_frame(coding: Coding, frame: pl.DataFrame, columns: Mapping[str, Column], before: int) -> Coded:
    values, outside, unfit = check_block(frame, columns, before)
    return code_block(coding, values, before, frame.height), outside, unfit
