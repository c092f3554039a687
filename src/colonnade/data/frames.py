"""Values of data frames, of polars, pandas or Arrow, as a table reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from colonnade.data.ids import id_names
from colonnade.data.reading import Id, explain_errors, filed
from colonnade.foundation.errors import DataError
from colonnade.foundation.schema import Column, Storage

YES, NO = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")
"""How a truth value may be declared as a level."""


def chosen_from(party: str, data: Any, wanted: Sequence[str]) -> pl.DataFrame:
    """These columns of a polars, pandas or Arrow frame."""
    if hasattr(data, "iloc"):
        held = [str(name) for name in data.columns]
    else:
        with explain_errors(party, "its data frame"):
            data = data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)
        held = data.columns
    for name in wanted:
        if name not in held:
            raise DataError(f"party {party}: its data frame has no column {name!r}")
        if held.count(name) > 1:
            raise DataError(f"party {party}: its data frame has two columns called {name!r}")
    if isinstance(data, pl.DataFrame):
        return data.select(wanted)
    return pl.DataFrame([_series(name, data.iloc[:, held.index(name)]) for name in wanted])


def _series(name: str, values: Any) -> pl.Series:
    """A pandas column; its missing values are none, and what is of no one type is text."""
    if getattr(values.dtype, "kind", "O") in "iufbM" and isinstance(values.dtype, np.dtype):
        return pl.Series(name, values.to_numpy())
    found = [None if is_missing(value) else value for value in values]
    try:
        return pl.Series(name, found)
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if value is None else str(value) for value in found], dtype=pl.String)


def select_from(party: str, frame: pl.DataFrame, columns: Mapping[str, Column], id_column: Id = None) -> pl.DataFrame:
    """The columns that are wanted, levels as the texts that a file would have."""
    out = []
    for name in filed(columns):
        series, column = frame.get_column(name), columns[name]
        out.append(_as_levels(series, column) if column.storage is Storage.LEVELS else series)
    for name in id_names(id_column):
        if name in columns:
            raise DataError(f"party {party}: the id column {name!r} must not be a column of the study")
        out.append(frame.get_column(name))
    return pl.DataFrame(out)


def _as_levels(series: pl.Series, column: Column) -> pl.Series:
    """Levels as texts, decided once for each value that occurs."""
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
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
        if not isinstance(value, (bool, np.bool_)) and float(value).is_integer():
            text = str(int(value))
        if text not in levels and text in YES + NO:
            return next((level for level in (YES if text in YES else NO) if level in levels), text)
    return text


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, not a number, or pandas' own marks."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
