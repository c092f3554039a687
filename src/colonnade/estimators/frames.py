"""What scikit-learn users hand over, as the columns of a party's table: data frames, arrays, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.frames import NO, YES, is_missing, level_of, one_by_one, typed
from colonnade.foundation.errors import DataError, SchemaError
from colonnade.foundation.schema import Column, Storage


def is_frame(X: Any) -> bool:
    """Whether its columns have types of their own."""
    return isinstance(X, pl.DataFrame) or hasattr(X, "iloc")


def refuse_dates(X: Any) -> None:
    """A date would pass for a number of nanoseconds."""
    types = [(str(n), c.dtype) for n, c in _columns(X)] if is_frame(X) else [("x0", getattr(X, "dtype", None))]
    for name, dtype in types:
        temporal = dtype.is_temporal() if isinstance(dtype, pl.DataType) else getattr(dtype, "kind", "") in tuple("mM")
        if temporal:
            raise DataError(f"column {name} must hold numbers, got dates or times")


def holds_numbers(X: Any) -> bool:
    """Whether every value is of a type of numbers; a list is taken to hold them."""
    if is_frame(X):
        kinds = [column.dtype for _, column in _columns(X)]
        return all(
            kind.is_numeric() if isinstance(kind, pl.DataType) else getattr(kind, "kind", "O") in tuple("iuf")
            for kind in kinds
        )
    return getattr(X, "dtype", np.dtype(float)).kind in "iufb"


def object_array(X: Any) -> NDArray[Any]:
    """A data frame's values as they are: one array of numbers would turn truth values into 0.0 and 1.0."""
    out = np.empty(X.shape, dtype=object)
    for i, (_, column) in enumerate(_columns(X)):
        out[:, i] = column.to_list()
    return out


def _columns(X: Any) -> list[tuple[Any, Any]]:
    if isinstance(X, pl.DataFrame):
        return [(column.name, column) for column in X.get_columns()]
    return [(name, X.iloc[:, i]) for i, name in enumerate(X.columns)]


def names_by_position(declared: Mapping[str, Column], width: int) -> list[str] | None:
    """The schema's names for an array that has none, in the order of the schema; None: the array's own x0, x1, ..."""
    own = [f"x{i}" for i in range(width)]
    if not declared or all(name in declared for name in own):
        return None
    if len(declared) != width:
        told = ", ".join(list(declared)[:8]) + (", ..." if len(declared) > 8 else "")
        raise SchemaError(
            f"X has {width} columns without names, and the schema declares {len(declared)} ({told}): "
            "give a data frame, or declare each column by its position"
        )
    return list(declared)


def undeclared(name: str, declared: Mapping[str, Column]) -> str:
    """What to say of a column of X that the schema does not have."""
    plain = name.rpartition("__")[2]
    hint = "; a ColumnTransformer keeps names with verbose_feature_names_out=False" if plain in declared else ""
    return f"the schema must declare every column of X, got none for {name!r}{hint}"


def series_of(name: str, column: Column, values: NDArray[Any]) -> pl.Series:
    """A column of X as a table reads it: numbers as numbers, levels as text."""
    if column.storage is Storage.LEVELS:
        return pl.Series(name, [level_of(value, column.all_levels) for value in values], dtype=pl.String)
    if column.dated:
        return pl.Series(name, [None if is_missing(v) else str(v) for v in values], dtype=pl.String)
    if values.dtype.kind in "mM":
        raise DataError(f"column {name} must hold numbers, got dates or times")
    found = typed(name, values.tolist(), number=True)
    if found.dtype.is_temporal() or any(hasattr(value, "isoformat") for value in found if found.dtype == pl.Object):
        raise DataError(f"column {name} must hold numbers, got dates or times")
    return one_by_one("", found, column) if found.dtype == pl.Object else found


def classes_of(label: Column, y: NDArray[Any]) -> NDArray[Any]:
    """The declared classes as values of y's type, sorted."""
    if y.dtype.kind == "b":
        if not all(level in YES + NO for level in label.all_levels):
            raise DataError(f"y must hold the declared classes {list(label.all_levels)}, got truth values")
        return np.array([False, True])
    if y.dtype.kind == "O":
        seen = {str(value): value for value in y}
        return np.sort(np.array([seen.get(level, level) for level in label.all_levels], dtype=object))
    if y.dtype.kind not in "iuf":
        return np.sort(np.array(label.all_levels))
    try:
        return np.sort(np.array(label.all_levels, dtype=np.float64).astype(y.dtype))
    except ValueError:
        raise DataError(f"y must hold the declared classes {list(label.all_levels)}, got numbers") from None
