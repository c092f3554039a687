"""A data set with its public schema, in the form a study file writes it."""

from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

Task = Literal["logistic", "linear"]
ColumnSpec = dict[str, Any]


@dataclass(frozen=True)
class Dataset:
    """Raw columns, what everybody may know about them, and which one is the label."""

    name: str
    frame: pl.DataFrame
    columns: dict[str, ColumnSpec]
    label: str
    task: Task
    norm: float | None = None
    """Publicly known length of a record's numeric features, scaled to [-1, 1], for each square root of their number."""

    @property
    def features(self) -> list[str]:
        """Names of the raw columns that are not the label, in schema order."""
        return [column for column in self.columns if column != self.label]


def integer(low: int, high: int) -> ColumnSpec:
    """A column of whole numbers, clipped to its bounds."""
    return {"kind": "numeric", "low": low, "high": high, "integer": True}


def numeric(low: float, high: float) -> ColumnSpec:
    """One feature in [-1, 1]."""
    return {"kind": "numeric", "low": low, "high": high}


def binned(low: float, high: float, bins: list[int]) -> ColumnSpec:
    """A numeric column cut at the inner points `bins`; a value on a cut belongs to the bin above it."""
    return {"kind": "numeric", "low": low, "high": high, "bins": bins}


def categorical(levels: list[str]) -> ColumnSpec:
    """Indicators of all levels but the first."""
    return {"kind": "categorical", "levels": levels, "drop": levels[0]}


def binary(negative: str, positive: str) -> ColumnSpec:
    """Two levels, the second one is 1."""
    return {"kind": "binary", "levels": [negative, positive]}
