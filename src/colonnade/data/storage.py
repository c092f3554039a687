"""How a file's values are read and checked, by the storage type that their column names: numbers, or levels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.store import Values
from colonnade.foundation.errors import DataError, MissingError
from colonnade.foundation.schema import Column, Storage
from colonnade.foundation.shown import shown

MOST_SHOWN = 12
"""Levels that an error lists."""


class StorageType(ABC):
    """One way to read a column."""

    from_text: ClassVar[bool]
    """Whether the file's values are turned into texts first."""
    clips: ClassVar[bool]
    """Whether values may lie outside of the column's bounds, and are counted."""

    @abstractmethod
    def read(self, party: str, name: str, series: pl.Series, column: Column, before: int) -> tuple[Values, int]:
        """A block of a column as it is stored, and how many values lie outside its bounds, after `before` rows."""

    @abstractmethod
    def missing(self, series: pl.Series, column: Column) -> int:
        """How many values a block lacks."""


class NumberStorage(StorageType):
    """Floats; an empty text and a NaN are missing."""

    from_text = False
    clips = True

    def read(self, party: str, name: str, series: pl.Series, column: Column, before: int) -> tuple[Values, int]:
        numbers: NDArray[np.float64]
        if column.dated:
            series = _days(party, name, series, before)
        if series.dtype == pl.Float64 and not series.null_count():
            numbers = series.to_numpy()
            # The minimum is NaN if any number is.
            least = float(numbers.min(initial=inf))
            if not isnan(least):
                return numbers, _outside(numbers, least, column)
        if series.dtype.is_temporal():
            raise DataError(
                f'party {party}: column {name} must hold numbers, got dates or times, which kind = "date" takes'
            )
        series = _trimmed(series)
        cast = series.cast(pl.Float64, strict=False)
        wrong = cast.is_null() & series.is_not_null()
        if wrong.any():
            row = before + int(wrong.arg_max() or 0) + 1
            raise DataError(f"party {party}: column {name} must hold numbers such as 1234.5, row {row} does not")
        cast = cast.fill_nan(None)
        if column.fill is not None:
            cast = cast.fill_null(column.read_number(column.fill) if isinstance(column.fill, str) else column.fill)
        _require_complete(party, name, cast, before)
        numbers = cast.to_numpy()
        return numbers, _outside(numbers, float(numbers.min(initial=inf)), column)

    def missing(self, series: pl.Series, column: Column) -> int:
        series = _trimmed(series)
        if column.dated:
            return series.null_count()
        numbers = series.drop_nulls().cast(pl.Float64, strict=False)
        return series.null_count() + int(numbers.is_nan().sum())


class LevelStorage(StorageType):
    """The place of each text among the declared levels; an undeclared one is an error, unless the column has a code."""

    from_text = True
    clips = False

    def read(self, party: str, name: str, series: pl.Series, column: Column, before: int) -> tuple[Values, int]:
        texts = _texts(series, column)
        if column.spelled:
            texts = texts.str.to_lowercase().replace(column.spelled)
        if column.fill is not None:
            texts = texts.fill_null(column.fill)
        _require_complete(party, name, texts, before)
        levels = column.all_levels
        codes = texts.replace_strict(
            list(levels), list(range(len(levels))), default=column.undeclared, return_dtype=pl.Int32
        )
        numbers: NDArray[np.int32] = codes.to_numpy()
        if numbers.size and int(numbers.min()) < 0:
            first = int(np.argmin(numbers))
            raise DataError(
                f"party {party}: column {name}: level {shown(texts[first])} is not among the declared levels "
                f"{_few(levels)}, in row {before + first + 1}"
            )
        return numbers, 0

    def missing(self, series: pl.Series, column: Column) -> int:
        return _texts(series, column).null_count()


STORED: Mapping[Storage, StorageType] = {Storage.NUMBERS: NumberStorage(), Storage.LEVELS: LevelStorage()}


def count_missing(series: pl.Series, column: Column) -> int:
    """How many values a block of a column lacks."""
    return STORED[column.storage].missing(series, column)


def none_clipped(columns: Mapping[str, Column]) -> dict[str, int]:
    """No value outside its bounds yet, for each column whose values may be."""
    return {name: 0 for name, column in columns.items() if STORED[column.storage].clips}


def _trimmed(series: pl.Series) -> pl.Series:
    """Texts without the spaces around them; an empty one is no value."""
    if series.dtype != pl.String:
        return series
    series = series.str.strip_chars()
    return series.set(series == "", None)


_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:.*)?$"


def _days(party: str, name: str, series: pl.Series, before: int) -> pl.Series:
    """Dates, or texts such as 2024-05-31, as days since 1970-01-01; a time of day is left out."""
    if series.dtype == pl.String:
        series = _trimmed(series)
        dates = series.set(~series.str.contains(_DATE), None).str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        wrong = dates.is_null() & series.is_not_null()
        if wrong.any():
            row = before + int(wrong.arg_max() or 0) + 1
            raise DataError(f"party {party}: column {name} must hold dates such as 2024-05-31, row {row} does not")
    elif series.dtype == pl.Date or isinstance(series.dtype, pl.Datetime) or series.dtype == pl.Null:
        dates = series.cast(pl.Date)
    else:
        raise DataError(f"party {party}: column {name} must hold dates such as 2024-05-31, got another type")
    return dates.to_physical().cast(pl.Float64)


def _texts(series: pl.Series, column: Column) -> pl.Series:
    """Levels as texts."""
    texts = series.cast(pl.String)
    return texts.str.strip_chars() if "" in column.all_levels else _trimmed(texts)


def _outside(numbers: NDArray[np.float64], least: float, column: Column) -> int:
    if column.bounds is None:
        return 0
    low, high = column.bounds
    if low <= least and float(numbers.max(initial=-inf)) <= high:
        return 0
    return int(np.count_nonzero((numbers < low) | (numbers > high)))


def _few(levels: Sequence[str]) -> str:
    more = len(levels) - MOST_SHOWN
    few = f"[{', '.join(map(shown, levels[:MOST_SHOWN]))}]"
    return few if more <= 0 else f"{few} and {more} more"


def _require_complete(party: str, name: str, series: pl.Series, before: int) -> None:
    if series.null_count():
        row = before + int(series.is_null().arg_max() or 0) + 1
        raise MissingError(party, name, series.null_count(), row)
