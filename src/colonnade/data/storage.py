"""How a file's values are read, by the storage type that their column names: numbers, or levels.

Nothing is refused here: what is not as declared is counted, and the column's fallback stands for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import inf, isnan
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.forms import WRONG
from colonnade.data.store import Values
from colonnade.data.unfit import Unfit
from colonnade.foundation.schema import Column, Storage


class StorageType(ABC):
    """One way to read a column."""

    clips: ClassVar[bool]
    """Whether values may lie outside of the column's bounds, and are counted."""

    @abstractmethod
    def read(self, series: pl.Series, column: Column, before: int) -> tuple[Values, int, Unfit]:
        """A block of a column as it is stored, how many values lie outside its bounds, and what is not as declared.

        `before` rows came earlier.
        """


class NumberStorage(StorageType):
    """Floats; an empty text and a NaN are missing."""

    clips = True

    def read(self, series: pl.Series, column: Column, before: int) -> tuple[Values, int, Unfit]:
        numbers: NDArray[np.float64]
        if series.dtype == pl.Float64 and not series.null_count() and not column.dated:
            numbers = series.to_numpy()
            # The minimum is NaN if any number is.
            least = float(numbers.min(initial=inf))
            if not isnan(least):
                return numbers, _outside(numbers, least, column), Unfit(column)
        series = trimmed(series)
        cast, wrong = numbers_in(series, column)
        unfit = counted(column, cast.is_null() & ~wrong, wrong, before)
        if unfit.wrong:
            held, text = held_at(series, int(wrong.arg_max() or 0))
            unfit = replace(unfit, held=held, text=text)
            cast = cast.set(wrong, column.fallback(missing=False))
        numbers = cast.fill_null(column.fallback(missing=True)).to_numpy()
        return numbers, _outside(numbers, float(numbers.min(initial=inf)), column), unfit


class LevelStorage(StorageType):
    """The place of each text among the declared levels."""

    clips = False

    def read(self, series: pl.Series, column: Column, before: int) -> tuple[Values, int, Unfit]:
        texts, levels = as_texts(series), column.all_levels
        if not column.spelled and all(level == level.strip() for level in levels):
            # Where every text is a level as it stands, nothing has to be trimmed or counted.
            plain = texts.cast(pl.Enum(levels), strict=False)
            if not plain.null_count():
                return plain.to_physical().cast(pl.Int32).to_numpy(), 0, Unfit(column)
        texts = level_texts(texts, column)
        missing = texts.is_null()
        codes = texts.replace_strict(list(levels), list(range(len(levels))), default=-1, return_dtype=pl.Int32)
        numbers: NDArray[np.int32] = codes.to_numpy()
        if not numbers.size or int(numbers.min()) >= 0:
            return numbers, 0, Unfit(column)
        wrong = (codes < 0) & ~missing
        unfit = counted(column, missing, wrong, before)
        if unfit.wrong:
            unfit = replace(unfit, text=as_texts(series)[int(wrong.arg_max() or 0)].strip())
        codes = codes.set(wrong, int(column.fallback(missing=False)))
        return codes.set(missing, int(column.fallback(missing=True))).to_numpy(), 0, unfit


STORED: Mapping[Storage, StorageType] = {Storage.NUMBERS: NumberStorage(), Storage.LEVELS: LevelStorage()}


def none_clipped(columns: Mapping[str, Column]) -> dict[str, int]:
    """No value outside its bounds yet, for each column whose values may be."""
    return {name: 0 for name, column in columns.items() if STORED[column.storage].clips}


def numbers_in(series: pl.Series, column: Column) -> tuple[pl.Series, pl.Series]:
    """Numbers, or days, of trimmed values, none where there is no value or a wrong one, and which are wrong."""
    cast = _days(series) if column.dated else _floats(series)
    return cast.fill_nan(None), cast.is_null() & series.is_not_null()


def level_texts(texts: pl.Series, column: Column) -> pl.Series:
    """Texts as levels are compared: trimmed, and by the words that a kind takes; none where there is no value."""
    texts = texts.str.strip_chars() if "" in column.all_levels else trimmed(texts)
    return texts.str.to_lowercase().replace(column.spelled) if column.spelled else texts


def values_in(series: pl.Series, column: Column) -> tuple[pl.Series, pl.Series]:
    """A column's values as numbers, days or texts of levels, none where there is none, and which are wrong numbers."""
    if column.storage is Storage.NUMBERS:
        return numbers_in(trimmed(series), column)
    texts = level_texts(as_texts(series), column)
    return texts, texts.is_null() & False


def counted(column: Column, missing: pl.Series, wrong: pl.Series, before: int) -> Unfit:
    """How many, and in which row the first."""
    row_of_missing, row_of_wrong = (
        before + int(found.arg_max() or 0) + 1 if found.any() else 0 for found in (missing, wrong)
    )
    return Unfit(column, int(missing.sum()), int(wrong.sum()), row_of_missing, row_of_wrong)


def as_texts(series: pl.Series) -> pl.Series:
    """Values of any type as the texts that a file would have."""
    kind = series.dtype
    if kind == pl.Binary:
        # A cast would end at the first value that is not in UTF-8.
        texts = [None if value is None else value.decode(errors="replace") for value in series]
        return pl.Series(series.name, texts, dtype=pl.String)
    if kind.is_nested() or kind in (pl.Object, pl.Duration):
        texts = [None if value is None else str(value) for value in series]
        return pl.Series(series.name, texts, dtype=pl.String)
    return series.cast(pl.String)


def plain_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame whose columns of several types are texts."""
    return frame.with_columns(as_texts(series) for series in frame.get_columns() if series.dtype == pl.Object)


def id_texts(series: pl.Series) -> pl.Series:
    """Ids as texts; whole numbers that a missing value turned into floats are whole numbers, an empty text is no id."""
    if series.dtype.is_float():
        series = series.fill_nan(None)
        whole = ((series.round() == series) & (series.abs() < 2**53)).fill_null(False)
        return as_texts(series.cast(pl.Int64, strict=False)).zip_with(whole, as_texts(series))
    texts = as_texts(series)
    return texts.set(texts == "", None)


def trimmed(series: pl.Series) -> pl.Series:
    """Texts without the spaces around them; an empty one is no value."""
    if series.dtype in (pl.Categorical, pl.Enum, pl.Binary):
        series = as_texts(series)
    if series.dtype != pl.String:
        return series
    series = series.str.strip_chars()
    return series.set(series == "", None)


def _floats(series: pl.Series) -> pl.Series:
    """Numbers, and texts that say one; None for anything else."""
    kind = series.dtype
    if kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Null):
        return series.cast(pl.Float64, strict=False)
    return pl.Series(series.name, [None], dtype=pl.Float64).new_from_index(0, len(series))


_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:.*)?$"


def _days(series: pl.Series) -> pl.Series:
    """Dates, or texts such as 2024-05-31, as days since 1970-01-01 without the time of day; None for anything else."""
    kind = series.dtype
    if kind == pl.String:
        series = series.set(~series.str.contains(_DATE), None).str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    elif not (kind == pl.Date or isinstance(kind, pl.Datetime) or kind == pl.Null):
        series = pl.Series(series.name, [None], dtype=pl.Date).new_from_index(0, len(series))
    return series.cast(pl.Date).to_physical().cast(pl.Float64)


def held_at(series: pl.Series, first: int) -> tuple[str, str | None]:
    """What stands in the place of numbers or dates, by the type of a block and the first value that is none, and it."""
    if series.dtype.is_temporal():
        return 'dates or times, which kind = "date" takes', None
    if series.dtype != pl.String:
        return f"another type ({series.dtype})", None
    text = series[first].removeprefix(WRONG)
    return "texts that are not in UTF-8" if "\ufffd" in text else "", text


def _outside(numbers: NDArray[np.float64], least: float, column: Column) -> int:
    if column.bounds is None:
        return 0
    low, high = column.bounds
    if low <= least and float(numbers.max(initial=-inf)) <= high:
        return 0
    return int(np.count_nonzero((numbers < low) | (numbers > high)))
