"""A party's CSV or Parquet file: read, checked against its schema, clipped to public bounds, and put on the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.crypto.product import Columns
from colonnade.foundation.errors import DataError, SchemaError
from colonnade.foundation.grid import Grid
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, codes_of
from colonnade.mechanism.moments import Attribute, Layout, Role

Values = NDArray[np.float64] | NDArray[np.int32]


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
class Table:
    """One party's records as the schema sees them: clipped numbers and level codes. It never leaves the party."""

    party: str
    columns: Mapping[str, Column]
    values: Mapping[str, Values]
    rows: int
    ids: Sequence[str] | None = None
    clipped: Mapping[str, int] | None = None
    """How many values of each numeric column lay outside its bounds; for the party's own eyes."""

    def take(self, rows: NDArray[np.int64]) -> Table:
        """These rows in this order, without ids."""
        return Table(self.party, self.columns, {n: v[rows] for n, v in self.values.items()}, len(rows))

    def encode(self, layout: Layout, grid: Grid) -> Columns:
        """The party's coordinates in the layout's order, as integers."""
        own = [a for a in layout.attributes if a.owner == self.party]
        out = np.empty((self.rows, sum(a.size for a in own)), dtype=np.int16)
        place = 0
        for attribute in own:
            out[:, place : place + attribute.size] = self._encode(attribute, grid)
            place += attribute.size
        return IntegerColumns(out)

    def _encode(self, attribute: Attribute, grid: Grid) -> NDArray[np.int16]:
        name = attribute.name.removeprefix(f"{self.party}.")
        if name not in self.columns:
            # The paper's features: one indicator of a column, named by its level's number.
            name, _, level = name.rpartition("=")
            indicator: NDArray[np.int16] = np.where(self._codes(name) == int(level), grid.bound, 0).astype(np.int16)
            return indicator[:, None]
        column = self.columns[name]
        if isinstance(column, Numeric) and not column.bins:
            signed = column.signed(np.asarray(self.values[name], dtype=np.float64))
            halves = attribute.role is Role.LABEL and attribute.size == 2
            return grid.halves(signed) if halves else grid.signed(signed)[:, None]
        codes = self._codes(name)
        if attribute.role is Role.LABEL and attribute.size == 1:
            # The paper's logistic label is carried as 1 - 2y.
            return np.where(codes == 1, -grid.bound, grid.bound).astype(np.int16)[:, None]
        return grid.indicators(codes, attribute.size)

    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Every encoded coordinate of the party by its name, unrounded: what a released model's weights apply to."""
        out: dict[str, NDArray[np.float64]] = {}
        for name, column in self.columns.items():
            if isinstance(column, Numeric) and not column.bins:
                out[name] = column.signed(np.asarray(self.values[name], dtype=np.float64))
                continue
            levels = (
                column.levels_of(name) if isinstance(column, Numeric) else [f"{name}={v}" for v in column.all_levels]
            )
            codes = self._codes(name)
            out |= {level: (codes == i).astype(np.float64) for i, level in enumerate(levels)}
        return out

    def _codes(self, name: str) -> NDArray[np.int32]:
        column = self.columns[name]
        if isinstance(column, Numeric):
            return column.codes(np.asarray(self.values[name], dtype=np.float64))
        return np.asarray(self.values[name], dtype=np.int32)


def read_table(party: str, path: Path, columns: Mapping[str, Column], id_column: str | None = None) -> Table:
    """A party's table from a CSV (plain or gzipped) or Parquet file."""
    frame = _read(party, path, columns, id_column)
    ids = None
    if id_column is not None:
        column = frame.get_column(id_column)
        if column.null_count():
            raise DataError(f"party {party}: the id column {id_column} has {column.null_count()} missing values")
        ids = column.to_list()
        if len(set(ids)) != len(ids):
            raise DataError(
                f"party {party}: ids must be unique, {len(ids) - len(set(ids))} rows of {path.name} repeat one"
            )
    return table_from(party, frame, columns, ids)


def _read(party: str, path: Path, columns: Mapping[str, Column], id_column: str | None) -> pl.DataFrame:
    if not path.is_file():
        raise DataError(f"party {party}: there is no data file {path}")
    wanted = [*columns, *([id_column] if id_column is not None else [])]
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            scan = pl.scan_parquet(path)
        else:
            scan = pl.scan_csv(path, infer_schema=False)
        present = scan.collect_schema().names()
        for name in wanted:
            if name not in present:
                raise DataError(f"party {party}: {path.name} has no column {name!r}")
        texts = [n for n, c in columns.items() if not isinstance(c, Numeric)] + ([id_column] if id_column else [])
        return scan.select(pl.col(n).cast(pl.String) if n in texts else pl.col(n) for n in wanted).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"party {party}: {path.name} cannot be read: {first}") from None


def table_from(
    party: str, frame: pl.DataFrame, columns: Mapping[str, Column], ids: Sequence[str] | None = None
) -> Table:
    """A party's table from a data frame that holds its columns."""
    values: dict[str, Values] = {}
    clipped: dict[str, int] = {}
    for name, column in columns.items():
        if name not in frame.columns:
            raise DataError(f"party {party}: there is no column {name!r}")
        series = frame.get_column(name)
        try:
            if isinstance(column, Numeric):
                numbers = _numbers(party, name, series, column)
                outside = (numbers < column.low) | (numbers > column.high)
                clipped[name] = int(outside.sum())
                values[name] = np.clip(numbers, column.low, column.high)
            else:
                values[name] = codes_of(name, column, _texts(party, name, series, column))
        except SchemaError as error:
            raise DataError(f"party {party}: {error}") from None
    return Table(party, dict(columns), values, frame.height, ids, clipped)


def _numbers(party: str, name: str, series: pl.Series, column: Numeric) -> NDArray[np.float64]:
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        series = series.set(series == "", None)
    numbers = series.cast(pl.Float64, strict=False)
    wrong = numbers.is_null() & series.is_not_null()
    if wrong.any():
        raise DataError(f"party {party}: column {name} must hold numbers, row {int(wrong.arg_max() or 0) + 1} does not")
    numbers = numbers.fill_nan(None)
    if column.fill is not None:
        numbers = numbers.fill_null(column.fill)
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0) + 1
        raise DataError(
            f"party {party}: column {name} misses {numbers.null_count()} values, the first in row {row}; "
            "declare a fill value or leave these records out"
        )
    return numbers.to_numpy()


def _texts(party: str, name: str, series: pl.Series, column: Categorical | Binary) -> list[str]:
    texts = series.cast(pl.String).str.strip_chars()
    if column.fill is not None:
        texts = texts.fill_null(column.fill)
    if texts.null_count():
        row = int(texts.is_null().arg_max() or 0) + 1
        raise DataError(
            f"party {party}: column {name} misses {texts.null_count()} values, the first in row {row}; "
            "declare a fill value or leave these records out"
        )
    return texts.to_list()
