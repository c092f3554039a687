"""A model's coefficients in the units of the data: of the columns' own numbers, and of the label's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colonnade.analysis.intervals import Intervals
from colonnade.analysis.model import FittedModel
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Column, Schema


@dataclass(frozen=True)
class Units:
    """How encoded units become those of the data."""

    half: float
    """What one unit of the model's value is worth in the label's."""
    middle: float
    """The label where the model's value is 0."""
    bounds: Mapping[str, tuple[float, float]]
    """Low and high of every coordinate that is a number; a level counts 0 or 1 in all units."""

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[ColumnRef], half: float = 1.0, middle: float = 0.0) -> Units:
        """Units of these columns, by their names."""
        numbers = [ref for ref in columns if not schema.columns[ref].has_levels]
        return cls(half, middle, {schema.title(ref): schema.columns[ref].require_bounds() for ref in numbers})

    def factor(self, coordinate: str) -> float:
        """What a coefficient of a coordinate, or of a column, is times in the data's units."""
        low, high = self.bounds.get(coordinate, (-1.0, 1.0))
        return self.half * 2.0 / (high - low)

    def convert(
        self, features: Sequence[str], coefficients: Sequence[float], intercept: float
    ) -> tuple[dict[str, float], float]:
        """Coefficients and the intercept of the same function in the data's units."""
        out, constant = {}, self.middle + self.half * intercept
        for name, value in zip(features, coefficients, strict=True):
            out[name] = self.factor(name) * value
            low, high = self.bounds.get(name, (-1.0, 1.0))
            constant -= out[name] * (high + low) / 2.0
        return out, constant

    def intervals(self, found: Intervals) -> Intervals:
        """The same intervals in the data's units."""
        return found.in_units({one.column: self.factor(one.column) for one in found.coefficients})


def label_units(model: FittedModel, column: Column, level: str | None, declared: bool) -> tuple[float, float]:
    """Half and middle of a model's label; `declared`: it is the one that the study named.

    A linear model of a level has it as -1 and 1 where the study named it, and as 0 and 1 elsewhere.
    """
    if not model.is_number:
        return 1.0, 0.0
    if column.bounds is not None and level is None:
        low, high = column.require_bounds()
        return (high - low) / 2.0, (high + low) / 2.0
    return (0.5, 0.5) if declared else (1.0, 0.0)
