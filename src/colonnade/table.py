"""A party's CSV or Parquet files: streamed in row blocks, checked, clipped to public bounds, and put on the grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.crypto.product import Columns
from colonnade.foundation.errors import DataError
from colonnade.foundation.grid import Grid
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric
from colonnade.mechanism.moments import Attribute, Kind, Layout, Role
from colonnade.spool import Spool, Stored, Values, part, taken

ROW_BLOCK = 1 << 17
CACHE_BYTES = 128 << 20
"""Integer columns up to this size are encoded once; larger ones are encoded again for every block that is read."""


@dataclass(frozen=True, repr=False)
class IntegerColumns:
    """Integer columns in memory; implements crypto.product.Columns."""

    matrix: NDArray[np.int16]

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self.matrix[start:stop]


@dataclass(frozen=True, repr=False)
class EncodedColumns:
    """Integer columns made from a table block by block; implements crypto.product.Columns."""

    table: Table
    attributes: tuple[Attribute, ...]
    grid: Grid
    norm: float | None = None
    """The declared L2 norm of the signed features in each record, in [-1, 1] units."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.rows, sum(a.size for a in self.attributes)

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        out = np.empty((stop - start, self.shape[1]), dtype=np.int16)
        place = 0
        for attribute in self.attributes:
            out[:, place : place + attribute.size] = self.table.encoded(attribute, self.grid, start, stop)
            place += attribute.size
        return out if self.norm is None else self._within(out, self.norm * self.grid.bound)

    def _within(self, rows: NDArray[np.int16], reach: float) -> NDArray[np.int16]:
        """Records whose signed features are longer than `reach` are shortened and cut towards zero, so as to fit."""
        sizes = [a.size for a in self.attributes]
        signed = [a.kind is Kind.SIGNED and a.role is Role.FEATURE for a in self.attributes]
        own = np.repeat(signed, sizes)
        part = rows[:, own].astype(np.float64)
        length = np.sqrt(np.square(part).sum(axis=1))
        long = length > reach
        part[long] = np.trunc(part[long] * (reach / length[long])[:, None])
        rows[:, own] = part.astype(np.int16)
        return rows


@dataclass(frozen=True, repr=False)
class Table:
    """One party's records as the schema sees them: clipped numbers and level codes. It never leaves the party."""

    party: str
    columns: Mapping[str, Column]
    values: Mapping[str, Stored]
    rows: int
    ids: Sequence[str] | None = None
    clipped: Mapping[str, int] | None = None
    """How many values of each numeric column lay outside its bounds; for the party's own eyes."""

    def take(self, rows: NDArray[np.int64]) -> Table:
        """These rows in this order, without ids."""
        return Table(self.party, self.columns, {n: taken(v, rows) for n, v in self.values.items()}, len(rows))

    def encode(self, layout: Layout, grid: Grid) -> Columns:
        """The party's coordinates in the layout's order, as integers."""
        own = tuple(a for a in layout.attributes if a.owner == self.party)
        columns = EncodedColumns(self, own, grid, dict(layout.norms).get(self.party))
        if 2 * self.rows * columns.shape[1] > CACHE_BYTES:
            return columns
        return IntegerColumns(columns.rows(0, self.rows))

    def encoded(self, attribute: Attribute, grid: Grid, start: int, stop: int) -> NDArray[np.int16]:
        """One attribute's coordinates of some rows."""
        name = attribute.name.removeprefix(f"{self.party}.")
        if name not in self.columns:
            # The paper's features: one indicator of a column, named by its level's number.
            name, _, level = name.rpartition("=")
            codes = self._codes(name, start, stop)
            return np.where(codes == int(level), grid.bound, 0).astype(np.int16)[:, None]
        column = self.columns[name]
        if isinstance(column, Numeric) and not column.bins:
            signed = column.signed(np.asarray(part(self.values[name], start, stop), dtype=np.float64))
            halves = attribute.role is Role.LABEL and attribute.size == 2
            return grid.halves(signed) if halves else grid.signed(signed)[:, None]
        codes = self._codes(name, start, stop)
        if attribute.role is Role.LABEL and attribute.size == 1:
            # A binary label in one coordinate is carried as 1 - 2y.
            return np.where(codes == 1, -grid.bound, grid.bound).astype(np.int16)[:, None]
        return grid.indicators(codes, attribute.size)

    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Every encoded coordinate of the party by its name, unrounded: what a released model's weights apply to."""
        out: dict[str, NDArray[np.float64]] = {}
        for name, column in self.columns.items():
            if isinstance(column, Numeric) and not column.bins:
                out[name] = column.signed(np.asarray(part(self.values[name], 0, self.rows), dtype=np.float64))
                continue
            levels = (
                column.levels_of(name) if isinstance(column, Numeric) else [f"{name}={v}" for v in column.all_levels]
            )
            codes = self._codes(name, 0, self.rows)
            out |= {level: (codes == i).astype(np.float64) for i, level in enumerate(levels)}
        return out

    def _codes(self, name: str, start: int, stop: int) -> NDArray[np.int32]:
        column = self.columns[name]
        values = part(self.values[name], start, stop)
        if isinstance(column, Numeric):
            return column.codes(np.asarray(values, dtype=np.float64))
        return np.asarray(values, dtype=np.int32)


def read_table(party: str, path: Path, columns: Mapping[str, Column], id_column: str | None = None) -> Table:
    """A party's table from a CSV (plain or gzipped) or Parquet file, a folder of Parquet files, or a glob of either."""
    spool = Spool()
    clipped = {name: 0 for name, column in columns.items() if isinstance(column, Numeric)}
    ids: list[str] | None = None if id_column is None else []
    rows = 0
    for frame in _batches(party, path, columns, id_column):
        values, outside = _checked(party, frame, columns, rows)
        spool.append(values)
        for name, count in outside.items():
            clipped[name] += count
        if ids is not None and id_column is not None:
            missing = frame.get_column(id_column).null_count()
            if missing:
                raise DataError(f"party {party}: the id column {id_column} has {missing} missing values")
            ids += frame.get_column(id_column).to_list()
        rows += frame.height
    if ids is not None and len(set(ids)) != len(ids):
        raise DataError(f"party {party}: ids must be unique, {len(ids) - len(set(ids))} rows of {path.name} repeat one")
    if not rows:
        raise DataError(f"party {party}: {path.name} holds no records")
    return Table(party, dict(columns), spool.columns(), rows, ids, clipped)


def _batches(party: str, path: Path, columns: Mapping[str, Column], id_column: str | None) -> Iterator[pl.DataFrame]:
    pattern = any(c in str(path) for c in "*?[")
    if not pattern and not path.exists():
        raise DataError(f"party {party}: there is no data file {path}")
    wanted = [*columns, *([id_column] if id_column is not None else [])]
    try:
        if path.suffix.lower() in (".parquet", ".pq") or path.is_dir():
            scan = pl.scan_parquet(path / "*.parquet" if path.is_dir() else path)
        else:
            scan = pl.scan_csv(path, infer_schema=False)
        present = scan.collect_schema().names()
        for name in wanted:
            if name not in present:
                raise DataError(f"party {party}: {path.name} has no column {name!r}")
        texts = [n for n, c in columns.items() if not isinstance(c, Numeric)] + ([id_column] if id_column else [])
        chosen = scan.select(pl.col(n).cast(pl.String) if n in texts else pl.col(n) for n in wanted)
        yield from chosen.collect_batches(chunk_size=ROW_BLOCK, maintain_order=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"party {party}: {path.name} cannot be read: {first}") from None


def table_from(
    party: str, frame: pl.DataFrame, columns: Mapping[str, Column], ids: Sequence[str] | None = None
) -> Table:
    """A party's table from a data frame that holds its columns."""
    for name in columns:
        if name not in frame.columns:
            raise DataError(f"party {party}: there is no column {name!r}")
    values, clipped = _checked(party, frame, columns, 0)
    return Table(party, dict(columns), values, frame.height, ids, clipped)


def _checked(
    party: str, frame: pl.DataFrame, columns: Mapping[str, Column], before: int
) -> tuple[dict[str, Values], dict[str, int]]:
    """A block's columns as numbers and codes, and how many numbers were clipped; `before` rows came earlier."""
    values: dict[str, Values] = {}
    clipped: dict[str, int] = {}
    for name, column in columns.items():
        series = frame.get_column(name)
        if isinstance(column, Numeric):
            numbers = _numbers(party, name, series, column, before)
            clipped[name] = int(((numbers < column.low) | (numbers > column.high)).sum())
            values[name] = np.clip(numbers, column.low, column.high)
        else:
            values[name] = _level_codes(party, name, series, column, before)
    return values, clipped


def _numbers(party: str, name: str, series: pl.Series, column: Numeric, before: int) -> NDArray[np.float64]:
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        series = series.set(series == "", None)
    numbers = series.cast(pl.Float64, strict=False)
    wrong = numbers.is_null() & series.is_not_null()
    if wrong.any():
        row = before + int(wrong.arg_max() or 0) + 1
        raise DataError(f"party {party}: column {name} must hold numbers, row {row} does not")
    numbers = numbers.fill_nan(None)
    if column.fill is not None:
        numbers = numbers.fill_null(column.fill)
    _complete(party, name, numbers, before)
    return numbers.to_numpy()


def _level_codes(
    party: str, name: str, series: pl.Series, column: Categorical | Binary, before: int
) -> NDArray[np.int32]:
    """The index of each value's level; an undeclared level is "other" where declared, otherwise an error."""
    texts = series.cast(pl.String).str.strip_chars()
    if column.fill is not None:
        texts = texts.fill_null(column.fill)
    _complete(party, name, texts, before)
    levels = column.all_levels
    unknown = len(levels) - 1 if isinstance(column, Categorical) and column.other else -1
    codes = texts.replace_strict(list(levels), list(range(len(levels))), default=unknown, return_dtype=pl.Int32)
    numbers: NDArray[np.int32] = codes.to_numpy()
    if numbers.size and int(numbers.min()) < 0:
        bad = texts[int(np.argmin(numbers))]
        raise DataError(f"party {party}: column {name}: level {bad!r} is not among the declared levels {list(levels)}")
    return numbers


def _complete(party: str, name: str, series: pl.Series, before: int) -> None:
    if series.null_count():
        row = before + int(series.is_null().arg_max() or 0) + 1
        raise DataError(
            f"party {party}: column {name} misses {series.null_count()} values, the first in row {row}; "
            "declare a fill value or leave these records out"
        )
