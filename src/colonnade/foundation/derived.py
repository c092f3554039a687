"""Derived columns: numbers that a party computes from its own, by a public expression and with derived bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ulp
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.columns import BINS, LEVEL, Column, Numbers, Numeric, Storage, cut_texts, register_kind
from colonnade.foundation.errors import SchemaError
from colonnade.foundation.expressions import Expression, expression_bounds, parse_expression
from colonnade.foundation.shown import shown

STEPS_APART = 4
"""Between floats: a bound that was computed elsewhere is taken, and kept, if it is so near."""


@register_kind
@dataclass(frozen=True)
class Derived(Numeric):
    """An expression of other columns of the same party; its bounds follow from theirs."""

    of_columns: str = ""
    """The expression."""

    kind = "derived"
    keys = {"of": True, "low": True, "high": True, "bins": False, "model": False}  # noqa: RUF012 - as the base class declares

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sources:
            raise SchemaError(f"an expression must name a column, got {shown(self.of_columns)}")

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        return cls(of_columns=declared["of"], **{key: value for key, value in declared.items() if key != "of"})

    def declared(self) -> dict[str, Any]:
        return {"of": self.of_columns, **super().declared()}

    @cached_property
    def expression(self) -> Expression:
        return parse_expression(self.of_columns)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.expression.columns()))

    def require_sources(self, name: str, columns: Mapping[str, Column]) -> None:
        bounds = derived_bounds(name, self.expression, columns)
        if not (nearly(bounds[0], self.low) and nearly(bounds[1], self.high)):
            raise SchemaError(
                f"column {name}: the bounds of {shown(self.of_columns)} are {bounds[0]!r} to {bounds[1]!r}, got "
                f"low={self.low!r}, high={self.high!r}"
            )

    def follow(self, name: str, columns: Mapping[str, Column]) -> Column:
        low, high = derived_bounds(name, self.expression, columns)
        return replace(self, low=low, high=high, bins=tuple(b for b in self.bins if low < b < high))

    def compute(self, values: Mapping[str, NDArray[Any]], columns: Mapping[str, Column]) -> Numbers:
        """Of values clipped to their bounds; what leaves its own bounds, or is no number, the gate projects."""
        clipped = {n: np.clip(np.asarray(values[n], np.float64), *columns[n].require_bounds()) for n in self.sources}
        rows = len(values[self.sources[0]])
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(np.broadcast_to(self.expression.compute(clipped), (rows,)))

    def is_like(self, other: Column | None) -> bool:
        """Another machine, or an earlier version, may have computed the bounds to other last bits."""
        return isinstance(other, Derived) and other == replace(
            self,
            low=other.low if nearly(self.low, other.low) else self.low,
            high=other.high if nearly(self.high, other.high) else self.high,
        )

    def describe(self, most: int) -> str:
        return f"{self.of_columns}, {super().describe(most)}"


def nearly(one: float, two: float) -> bool:
    """Whether two bounds are as near as different libraries compute them."""
    return abs(one - two) <= STEPS_APART * ulp(max(abs(one), abs(two)))


def derived_bounds(name: str, expression: Expression, columns: Mapping[str, Column]) -> tuple[float, float]:
    """The bounds of an expression of a party's columns, each of which must be a number from its file."""
    of: dict[str, tuple[float, float]] = {}
    for source in expression.columns():
        column = columns.get(source)
        if column is None or column.sources or column.storage is not Storage.NUMBERS or column.missing == LEVEL:
            told = "is none" if column is None else f"is a {column.noun} column"
            told += " with a level of missing values" if column is not None and column.missing == LEVEL else ""
            raise SchemaError(
                f"column {name}: an expression names numbers from the file of its own party, {shown(source)} {told}"
            )
        of[source] = column.require_bounds()
    try:
        return expression_bounds(expression, of)
    except SchemaError as error:
        raise SchemaError(f"column {name}: {error}") from None


def derive_columns(declared: Mapping[str, Any], columns: Mapping[str, Column], where: str) -> dict[str, Column]:
    """The columns of a [party.NAME.derived] section.

    A value is an expression, or a table with `of` and either `bins` (inner cut points, and what `model` has of them)
    or `knots` (of a linear spline, one column for what lies above each).
    """
    found: dict[str, Column] = {}
    for name, value in declared.items():
        table = {"of": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or "of" not in table or set(table) - {"of", "bins", "model", "knots"}:
            raise SchemaError(
                f'{where} {name} must be an expression, or a table with "of" and "bins" or "knots", got {shown(value)}'
            )
        if "bins" in table and "knots" in table:
            raise SchemaError(f"{where} {name} takes bins or knots, got both")
        if name in columns:
            raise SchemaError(f"{where} {name} must not have the name of a declared column")
        for each, text, bins in _parts(name, table, where):
            if each in columns or each in found:
                raise SchemaError(f"{where} {name} makes the column {each}, and there is another of this name")
            low, high = derived_bounds(each, parse_expression(text), columns)
            try:
                found[each] = Derived(low, high, bins, None, text, model=table.get("model", BINS))
            except SchemaError as error:
                raise SchemaError(f"column {each}: {error}") from None
    return found


def _parts(name: str, table: Mapping[str, Any], where: str) -> list[tuple[str, str, tuple[float, ...]]]:
    """A derived column's name, expression and bins; a spline has several."""
    for key in ("bins", "knots"):
        if key in table and not (isinstance(table[key], list) and table[key]):
            raise SchemaError(f"{where} {name}: {key} must be a list of numbers, got {shown(table[key])}")
    if "knots" not in table:
        return [(name, table["of"], tuple(table.get("bins", ())))]
    knots = table["knots"]
    if not all(isinstance(k, (int, float)) and not isinstance(k, bool) for k in knots):
        raise SchemaError(f"{where} {name}: knots must be numbers, got {shown(knots)}")
    texts = zip(cut_texts(knots), knots, strict=True)
    return [(f"{name}>{text}", f"hinge({table['of']}, {knot:.17g})", ()) for text, knot in texts]
