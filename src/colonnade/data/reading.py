"""A party's CSV or Parquet files as blocks of numbers and level codes, and its ids."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.forms import plain_series, readable
from colonnade.data.ids import IdColumns, forms_found
from colonnade.data.storage import STORED
from colonnade.data.store import DiskTexts, Values
from colonnade.data.unfit import LeftOut, Unfit
from colonnade.data.written import PLAIN, SEPARATORS, Written
from colonnade.foundation.columns import INDICATOR
from colonnade.foundation.errors import AlignmentError, DataError
from colonnade.foundation.kinds import Missing
from colonnade.foundation.parts import data_files, is_feather, is_parquet
from colonnade.foundation.schema import Column
from colonnade.foundation.toml import toml_value

ROW_BLOCK = 1 << 17  # rows read at once, so that memory stays flat
BLOCK_VALUES = 1 << 21
"""A piece of work holds about as many values, so that wide tables are cut in shorter blocks."""
SHORTEST_BLOCK = 1 << 12  # rows of a block at least, however wide: calls must not cost more than work

LONGEST_ROW = 8 << 20
"""Bytes: one cell is read whole, and takes seven times as much memory. Rows of twice as many are surely refused."""
USUAL_EXPANSION = 20
"""Compressed tables of many rows expand less; what states more is looked through before it is read."""
LARGEST_EXPANSION = 1000
"""Of a kind that cannot be looked through here."""
ZSTANDARD = b"\x28\xb5\x2f\xfd"

# Polars reads this many row groups ahead, by default so many that memory grows with the number of parts.
os.environ.setdefault("POLARS_ROW_GROUP_PREFETCH_SIZE", "2")


PLAIN_WORDS = {
    "invalid utf-8": 'it is not in UTF-8; save it so, or write encoding = "latin-1", or what it is in, into '
    "[party.NAME.read]",
    "found more fields": "a row has more fields than the header",
    "empty CSV": "it is empty",
    "CSV malformed": 'a quote (") stands in a cell that has none around it: quote such a cell, and double the quote',
}
OTHER_FILES = {
    b"PK\x03\x04": "a zip file or a spreadsheet (save that as .xlsx)",
    b"\xd0\xcf\x11\xe0": "an old Excel file (save that as .xlsx)",
    b"PAR1": "Parquet",
    b"ARRO": "Feather",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""What a file that is called CSV may be, by its first bytes."""
NAMED = {",": "commas", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


@dataclass(frozen=True)
class Reading:
    """What is read of a party's records, and how they are written; small enough to be sent to a worker."""

    party: str
    columns: Mapping[str, Column]
    ids: IdColumns | None = None
    written: Written = PLAIN

    @property
    def filed(self) -> list[str]:
        """The columns that stand in the party's file; the others are computed from them."""
        return filed(self.columns)

    @property
    def id_names(self) -> tuple[str, ...]:
        """The columns of the file that ids are made of."""
        return () if self.ids is None else self.ids.columns


def filed(columns: Mapping[str, Column]) -> list[str]:
    """The columns that are computed from no others."""
    return [name for name, column in columns.items() if not column.sources]


def block_rows(width: int) -> int:
    """Rows of a block of so many columns."""
    return min(ROW_BLOCK, max(SHORTEST_BLOCK, BLOCK_VALUES // width))


class Blocks:
    """A table's frames with what their reading needs; ids, if any, are gathered on the way."""

    def __init__(self, frames: Iterator[pl.DataFrame], how: Reading) -> None:
        self._frames, self._columns = frames, how.columns
        self.ids = None if how.ids is None else GatheredIds(how.party, how.ids)
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, Mapping[str, Column], int]]:
        for frame in self._frames:
            if self.ids is not None:
                self.ids.append(frame)
            yield frame.select(filed(self._columns)), self._columns, self.rows
            self.rows += frame.height


class GatheredIds:
    """Gathers ids on disk, and finds repeated ones by their hashes; a row without an id has an empty text."""

    def __init__(self, party: str, ids: IdColumns) -> None:
        self._party, self._ids = party, ids
        self._raw: list[NDArray[np.uint64]] = []
        self.forms: dict[str, int] = {}
        """How many ids have something about them that another party's may not have."""
        self._texts = DiskTexts()
        self._missing: list[NDArray[np.bool_]] = []
        self._hashes: list[NDArray[np.uint64]] = []

    def append(self, frame: pl.DataFrame) -> None:
        series, raw = self._ids.texts(frame)
        for name, count in forms_found(raw).items():
            self.forms[name] = self.forms.get(name, 0) + count
        if not self._ids.plain:
            self._raw.append(raw.hash().to_numpy())
        self._missing.append(series.is_null().to_numpy())
        series = series.fill_null("")
        data = (series.str.join("").item() or "").encode()
        self._texts.append(np.frombuffer(data, np.uint8), series.str.len_bytes().cast(pl.Int64).to_numpy())
        self._hashes.append(series.hash().to_numpy())

    @property
    def texts(self) -> DiskTexts:
        """Of every row."""
        return self._texts

    def distinct(self) -> tuple[DiskTexts, NDArray[np.int64], LeftOut]:
        """The ids that are left, their rows, and what is left out: rows without an id, or with that of an earlier."""
        missing, hashes = np.concatenate(self._missing), np.concatenate(self._hashes)
        left = ~missing
        repeated, merged = list[int](), list[tuple[int, int]]()
        in_order = np.sort(hashes[left])
        if (in_order[1:] == in_order[:-1]).any():
            # Different ids may share a hash: the texts decide.
            order = np.flatnonzero(left)
            order = order[np.argsort(hashes[order], kind="stable")]
            alike = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
            seen: dict[str, int] = {}
            raw = np.concatenate(self._raw) if self._raw else hashes
            for row in map(int, np.unique(order[np.concatenate([alike, alike + 1])])):
                first = seen.setdefault(self._texts[row], row)
                if first != row:
                    repeated.append(row)
                    merged += [(first + 1, row + 1)] if raw[first] != raw[row] else []
            left[repeated] = False
        rows = np.flatnonzero(left)
        if not len(rows):
            raise AlignmentError(f"no row has an id in column {self._ids.name}").of(self._party)
        none = np.flatnonzero(missing)
        first_none, first_repeated = (int(found[0]) + 1 if len(found) else 0 for found in (none, repeated))
        found = LeftOut(self._ids.name, len(none), len(repeated), first_none, first_repeated, tuple(merged))
        return self._taken(left) if found.count else self._texts, rows, found

    def _taken(self, left: NDArray[np.bool_]) -> DiskTexts:
        out, texts = DiskTexts(), iter(self._texts)
        for start in range(0, len(left), ROW_BLOCK):
            stop = start + ROW_BLOCK
            chosen = [text.encode() for text in compress(islice(texts, ROW_BLOCK), left[start:stop])]
            out.append(np.frombuffer(b"".join(chosen), np.uint8), np.array([len(text) for text in chosen], np.int64))
        return out


@contextmanager
def explain_errors(party: str, path: Path | str) -> Iterator[None]:
    """What is wrong with a file, or with what is named, in one sentence that names the party."""
    where = path if isinstance(path, str) else path.name
    try:
        yield
    except DataError as error:
        raise error.of(error.party or party) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{where} cannot be read: {reason(error)}").of(party) from None


def reason(error: BaseException) -> str:
    """Why a file cannot be read, in plain words where the library's are known."""
    # The library quotes cells in backticks; no value of a file belongs in a text.
    first = str(error).partition("`")[0].strip().partition("\n")[0] or type(error).__name__
    return next((told for said, told in PLAIN_WORDS.items() if said in first), first)


def scan(files: list[Path], *, typed: int | None = None, written: Written = PLAIN) -> pl.LazyFrame:
    """A file, or parts, as the library reads it: texts in CSV, unless so many rows are to tell the types."""
    if is_parquet(files[0]):
        return pl.scan_parquet(files)
    if is_feather(files[0]):
        return pl.scan_ipc(files)
    for file in files:
        with file.open("rb") as opened:
            head = opened.read(4)
        for mark, kind in OTHER_FILES.items():
            if head.startswith(mark):
                told = ': write encoding = "utf-16" into [party.NAME.read]' if kind == "UTF-16" else ""
                raise DataError(f"{file.name} must be CSV in UTF-8 by its name, and is {kind}{told}")
        _require_short_rows(file)
    found = pl.scan_csv(
        files,
        separator=written.separator,
        skip_lines=written.skip,
        infer_schema=typed is not None,
        infer_schema_length=typed,
        try_parse_dates=typed is not None,
        # A text that is not in UTF-8 is an undeclared one; no record ends the reading.
        encoding="utf8-lossy" if typed is None else "utf8",
        # The library leaves quotes in a header doubled.
        with_column_names=lambda names: [name.replace('""', '"') for name in names],
    )
    names = found.collect_schema().names()
    if len(names) == 1 and (marks := [mark for mark in SEPARATORS if mark in names[0] and mark != written.separator]):
        told, key = NAMED[marks[0]], f"separator = {toml_value(marks[0])}"
        needs = f"{files[0].name} must separate its fields by {NAMED[written.separator]}"
        raise DataError(f"{needs}, and its header has {told} instead").advise(f"write {key} into [party.NAME.read]")
    for name in names:
        if f"{name}_duplicated_0" in names:
            raise DataError(f"{files[0].name} must have columns of different names, and has two called {name!r}")
    return found


def _require_short_rows(file: Path) -> None:
    """Raise where a piece of this length has no end of a row in it; others end at once, so that it costs little."""
    name = file.name.lower()
    if name.endswith(".zst"):
        if (stated := _stated_size(file)) > max(LONGEST_ROW, LARGEST_EXPANSION * file.stat().st_size):
            told = f"states {stated:,} bytes in {file.stat().st_size:,}, more than {LARGEST_EXPANSION} times as many"
            raise DataError(f"{file.name} {told}: save it as .csv.gz or Parquet")
        return
    if name.endswith(".gz") and not _expands(file):
        return
    with gzip.open(file) if name.endswith(".gz") else file.open("rb") as opened:
        try:
            while piece := opened.read(LONGEST_ROW):
                if len(piece) == LONGEST_ROW and b"\n" not in piece:
                    raise DataError(f"{file.name} has a row of more than {LONGEST_ROW >> 20} MB, which is no record")
        except (EOFError, zlib.error):
            # The reader says it best.
            return


def _expands(file: Path) -> bool:
    """By the size that a gzip file states at its end, modulo 2^32."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(0, size - 4))
        stated = int.from_bytes(opened.read(4), "little")
    return not size <= stated <= USUAL_EXPANSION * size


def _stated_size(file: Path) -> int:
    """By the header of a Zstandard frame (RFC 8878, 3.1.1.1); 0 where it does not say."""
    with file.open("rb") as opened:
        head = opened.read(18)
    if len(head) < 18 or head[:4] != ZSTANDARD:
        return 0
    size, single, dictionary = head[4] >> 6, head[4] >> 5 & 1, (0, 1, 2, 4)[head[4] & 3]
    length = (single, 2, 4, 8)[size]
    start = 5 + (1 - single) + dictionary
    stated = int.from_bytes(head[start : start + length], "little")
    return stated + 256 if length == 2 else stated


def file_schema(path: Path, written: Written = PLAIN) -> pl.Schema:
    """The names of a file's columns, with their types where it knows some."""
    try:
        with readable(data_files(path), written) as files:
            return scan(files, written=written).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name} cannot be read: {reason(error)}") from None


def select_columns(path: Path, how: Reading, files: list[Path] | None = None) -> pl.LazyFrame:
    """The columns that are wanted, of the path's files or their copies."""
    wanted = list(dict.fromkeys([*how.filed, *how.id_names]))
    found = scan(files or data_files(path), written=how.written)
    present = found.collect_schema().names()
    for name in wanted:
        if name not in present:
            raise DataError(f"{path.name} has no column {name!r}")
    return found.select(wanted)


def file_frames(path: Path, how: Reading) -> Iterator[pl.DataFrame]:
    """A file's wanted columns, block by block, in the house's own forms."""
    with explain_errors(how.party, path), readable(data_files(path), how.written) as files:
        wanted = select_columns(path, how, files)
        rows = block_rows(len(how.columns) + 1)
        found = 0
        for frame in wanted.collect_batches(chunk_size=rows, maintain_order=True):
            start = 0
            found += frame.height
            # Cut where the reader glued: numbers in one piece of memory need not be copied.
            for height in frame.to_series(0).chunk_lengths():
                yield _plain(frame.slice(start, height), how)
                start += height
        if is_parquet(data_files(path)[0]):
            _require_whole(path, found)


def _plain(frame: pl.DataFrame, how: Reading) -> pl.DataFrame:
    """The frame's texts in the house's own forms."""
    if how.written == PLAIN:
        return frame
    series = (plain_series(how.party, s, how.columns.get(s.name), how.written) for s in frame.get_columns())
    return pl.DataFrame(series)


@dataclass(frozen=True)
class FilePart:
    """Records of a Parquet file, to be read by whoever has the same file."""

    file: Path
    stamp: tuple[int, int]
    """Bytes and time of change, by which the same file is known."""
    start: int
    rows: int

    def there(self) -> bool:
        """Whether this process sees the same file."""
        try:
            return stamp_of(self.file) == self.stamp
        except OSError:
            return False

    def frame(self, how: Reading) -> pl.DataFrame:
        """Its wanted columns in the house's own forms."""
        with explain_errors(how.party, self.file):
            found = pl.scan_parquet(self.file).select(how.filed).slice(self.start, self.rows).collect()
            if found.height != self.rows:
                raise DataError(f"{self.file.name} is damaged: it states more records than can be read")
            return _plain(found, how)


def stamp_of(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def parquet_parts(path: Path, columns: Mapping[str, Column]) -> Iterator[tuple[FilePart, int]]:
    """Pieces of all files in their order, each with how many records come before it."""
    # Several blocks each: what lies in one row group is decoded together.
    step, before = 4 * block_rows(len(columns) + 1), 0
    for file in data_files(path):
        stamp, rows = stamp_of(file), pl.scan_parquet(file).select(pl.len()).collect().item()
        for start in range(0, rows, step):
            yield FilePart(file.resolve(), stamp, start, min(step, rows - start)), before + start
        before += rows


def _require_whole(path: Path, found: int) -> None:
    """Where its decoder breaks, the library ends the batches without a word: the files' own counts tell."""
    stated = pl.scan_parquet(data_files(path)).select(pl.len()).collect().item()
    if stated != found:
        raise DataError(f"{path.name} is damaged: it states {stated} records, {found} can be read")


def check_block(
    frame: pl.DataFrame, columns: Mapping[str, Column], before: int
) -> tuple[dict[str, Values], dict[str, int], dict[str, Unfit]]:
    """A block's columns as they are stored, how many numbers will be clipped, and what is not as declared.

    `before` rows came earlier.
    """
    values: dict[str, Values] = {}
    clipped: dict[str, int] = {}
    unfit: dict[str, Unfit] = {}
    for name in filed(columns):
        storage = STORED[columns[name].storage]
        values[name], outside, found = storage.read(frame.get_column(name), columns[name], before)
        if storage.clips:
            clipped[name] = outside
        if found.count:
            unfit[name] = found
    for name, column in columns.items():
        if isinstance(column, Missing):
            values[name] = column.compute(values, columns)
    for name, column in columns.items():
        if column.missing == INDICATOR and name in values:
            gone = np.isnan(values[name])
            values[name] = np.where(gone, column.fallback(missing=False), values[name])
    for name, column in columns.items():
        if column.sources and name not in values:
            values[name] = column.compute(values, columns)
            clipped[name] = 0
    return values, clipped, unfit
