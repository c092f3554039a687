"""Values of data frames, of polars, pandas or Arrow, and of queries, as a table reads them.

Each value is read by itself: if a text among numbers made texts of them all, one person could change all records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import inf
from typing import Any

import numpy as np
import polars as pl

from colonnade.data.forms import plain_series
from colonnade.data.reading import Reading, explain_errors
from colonnade.data.storage import as_texts, id_texts
from colonnade.data.written import PLAIN, Written
from colonnade.foundation.errors import DataError
from colonnade.foundation.schema import Column, Storage

YES, NO = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")
"""How a truth value may be declared as a level."""
TYPES: Mapping[type, Any] = {
    bool: pl.Boolean,
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
    datetime: pl.Datetime,
    date: pl.Date,
}
"""What a column can hold; anything else is its text."""


def chosen_from(data: Any, how: Reading) -> pl.DataFrame:
    """The columns and ids that are wanted of a polars, pandas or Arrow frame."""
    party, wanted, numbers = how.party, list(dict.fromkeys([*how.filed, *how.id_names])), numbers_among(how.columns)
    if hasattr(data, "iloc"):
        held = [str(name) for name in data.columns]
    else:
        with explain_errors(party, "its data frame"):
            data = data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)
        held = data.columns
    for name in wanted:
        if name not in held:
            raise DataError(f"its data frame has no column {name!r}").of(party)
        if held.count(name) > 1:
            raise DataError(f"its data frame has two columns called {name!r}").of(party)
    if isinstance(data, pl.DataFrame):
        return data.select(wanted)
    return pl.DataFrame([_series(name, data.iloc[:, held.index(name)], name in numbers) for name in wanted])


def _series(name: str, values: Any, number: bool) -> pl.Series:
    if getattr(values.dtype, "kind", "O") in "iufbM" and isinstance(values.dtype, np.dtype):
        return pl.Series(name, values.to_numpy())
    return typed(name, list(values), number)


def numbers_among(columns: Mapping[str, Column]) -> Collection[str]:
    """The columns that are read as numbers."""
    return {name for name, column in columns.items() if column.storage is Storage.NUMBERS and not column.dated}


def typed(name: str, values: Sequence[Any], number: bool = False) -> pl.Series:
    """Values as a column of their type, or as objects where they have several that cannot be told from another."""
    exact = set(map(type, values)) - {type(None)}
    if exact in ({float}, {str}, {date}) or (exact == {int} and not any(map(_beyond, values))):
        return pl.Series(name, values, dtype=TYPES[exact.pop()])
    values = [_plain(value, number) for value in values]
    kinds = {_kind(value) for value in values} - {None}
    if number and kinds and kinds <= {bool, int, float}:
        return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)
    if len(kinds) > 1:
        return pl.Series(name, values, dtype=pl.Object)
    return pl.Series(name, values, dtype=TYPES[kinds.pop() or str] if kinds else pl.String)


def _plain(value: Any, number: bool) -> Any:
    """A value of a type that a column can hold, or its text; numbers as such where one is wanted."""
    if is_missing(value) and not isinstance(value, float):
        return None
    value = value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
    if isinstance(value, Decimal):
        return float(value) if number else format(value, "f") if value.is_finite() else str(value)
    if isinstance(value, int) and _beyond(value):
        return _float(value) if number else str(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.isoformat()
    return value if value is None or isinstance(value, tuple(TYPES)) else str(value)


def _beyond(value: int | None) -> bool:
    """Whether it is too large for a column."""
    return value is not None and not -(2**63) <= value < 2**63


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _kind(value: Any) -> type | None:
    """The first that it is of: a truth value is a whole number, and a time a day, too."""
    return next((kind for kind in TYPES if isinstance(value, kind)), None)


def select_from(frame: pl.DataFrame, how: Reading) -> pl.DataFrame:
    """The columns that are wanted in the house's own forms, levels as the texts that a file would have."""
    for name in how.id_names:
        if name in how.columns:
            raise DataError(f"the id column {name!r} must not be a column of the study").of(how.party)
    wanted = (*how.filed, *how.id_names)
    return pl.DataFrame(
        [_read(how.party, frame.get_column(name), how.columns.get(name), how.written) for name in wanted]
    )


def _read(party: str, series: pl.Series, column: Column | None, written: Written) -> pl.Series:
    if series.dtype != pl.Object:
        levels = column is not None and column.storage is Storage.LEVELS
        return plain_series(party, _as_levels(series, column) if levels and column else series, column, written)
    return one_by_one(party, series, column, written)


def one_by_one(party: str, series: pl.Series, column: Column | None, written: Written = PLAIN) -> pl.Series:
    """Values of several types as texts, each as it is read among others of its type."""
    number = column is not None and column.storage is Storage.NUMBERS and not column.dated
    values = [_plain(value, number) for value in series.to_list()]
    texts = []
    for kind in dict.fromkeys(map(_kind, values)):
        own = typed(series.name, [value if _kind(value) is kind else None for value in values], number)
        own = _read(party, own, column, written)
        if column is None:
            own = id_texts(own)
        texts.append((own.cast(pl.Date) if own.dtype.is_temporal() else own).cast(pl.String).alias(f"{kind}"))
    return pl.DataFrame(texts).select(pl.coalesce(pl.all()).alias(series.name)).to_series()


def _as_levels(series: pl.Series, column: Column) -> pl.Series:
    """Levels as texts, decided once for each value that occurs."""
    if series.dtype in (pl.String, pl.Categorical, pl.Enum) or series.dtype.is_nested():
        return as_texts(series)
    seen = series.unique()
    texts = [level_of(value, column.all_levels) for value in seen]
    return series.replace_strict(seen, pl.Series(texts, dtype=pl.String), return_dtype=pl.String)


def level_of(value: Any, levels: Sequence[str]) -> str | None:
    """A level as text: 1.0 in an array may stand for the declared 1, and True or 1 for each other."""
    if is_missing(value):
        return None
    text = str(value)
    if text in levels:
        return text
    if isinstance(value, (bool, np.bool_, int, float, np.number)):
        if isinstance(value, (float, np.floating)) and float(value).is_integer():
            text = str(int(value))
        if text not in levels and text in YES + NO:
            return next((level for level in (YES if text in YES else NO) if level in levels), text)
    return text


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, not a number, or pandas' own marks."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
