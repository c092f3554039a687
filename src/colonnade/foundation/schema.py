"""Public facts about columns, declared before anyone looks at data: kinds, bounds, levels, bins, fills."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import SchemaError
from colonnade.foundation.shown import OPEN, shown

OTHER = "other"


def _is_number(value: object) -> bool:
    """Whether it is a finite number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


@dataclass(frozen=True)
class Numeric:
    """A number clipped to [low, high]; `bins` (inner cut points) encode it as the indicator of its interval."""

    low: float
    high: float
    bins: tuple[float, ...] = ()
    fill: float | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("low", self.low),
            ("high", self.high),
            ("fill", self.fill),
            *(("bins", b) for b in self.bins),
        ):
            if not (name == "fill" and value is None) and not _is_number(value):
                raise SchemaError(f"{name} must be a finite number, got {name}={shown(value)}")
        if not math.isfinite(float(self.high) - float(self.low)):
            raise SchemaError(f"low and high must be less than 1.8e308 apart, got low={self.low}, high={self.high}")
        if not self.low < self.high:
            raise SchemaError(f"low must be below high, got low={self.low}, high={self.high}")
        edges = (self.low, *self.bins, self.high)
        if not all(a < b for a, b in pairwise(edges)):
            raise SchemaError(f"bins must increase strictly between low and high, got bins={list(self.bins)}")
        if self.fill is not None and not self.low <= self.fill <= self.high:
            raise SchemaError(f"fill must lie between low and high, got fill={self.fill}")

    def levels_of(self, name: str) -> tuple[str, ...]:
        """Coordinate names of the binned encoding."""
        edges = [f"{v:g}" for v in self.bins]
        inner = [f"{a}<={name}<{b}" for a, b in pairwise(edges)]
        return (f"{name}<{edges[0]}", *inner, f"{name}>={edges[-1]}")

    def signed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clipped and mapped linearly to [-1, 1]."""
        clipped = np.clip(values, self.low, self.high)
        return np.clip((2.0 * clipped - self.low - self.high) / (self.high - self.low), -1.0, 1.0)

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """The index of the bin that each value falls into."""
        return np.searchsorted(np.asarray(self.bins), values, side="right").astype(np.int32)


@dataclass(frozen=True)
class Categorical:
    """One of several declared levels; with `other` an undeclared level is mapped to the level "other"."""

    levels: tuple[str, ...]
    other: bool = False
    drop: str | None = None
    fill: str | None = None

    def __post_init__(self) -> None:
        if len(self.all_levels) < 2:
            raise SchemaError(f"a categorical column needs at least 2 levels, got levels={list(self.levels)}")
        if len(set(self.all_levels)) != len(self.all_levels):
            raise SchemaError(f"levels must be distinct, got levels={list(self.all_levels)}")
        for name, value in (("drop", self.drop), ("fill", self.fill)):
            if value is not None and value not in self.all_levels:
                raise SchemaError(f"{name} must be one of the levels, got {name}={value!r}")

    @property
    def all_levels(self) -> tuple[str, ...]:
        return (*self.levels, OTHER) if self.other else self.levels


@dataclass(frozen=True)
class Binary:
    """One of two declared levels; the second is the positive one."""

    levels: tuple[str, str]
    fill: str | None = None

    def __post_init__(self) -> None:
        if len(self.levels) != 2 or self.levels[0] == self.levels[1]:
            raise SchemaError(f"a binary column needs 2 distinct levels, got levels={list(self.levels)}")
        if self.fill is not None and self.fill not in self.levels:
            raise SchemaError(f"fill must be one of the levels, got fill={self.fill!r}")

    @property
    def all_levels(self) -> tuple[str, ...]:
        return self.levels


Column = Numeric | Categorical | Binary

_KEYS: dict[str, dict[str, bool]] = {
    "numeric": {"low": True, "high": True, "bins": False, "fill": False},
    "categorical": {"levels": True, "other": False, "drop": False, "fill": False},
    "binary": {"levels": True, "fill": False},
}


def column_from(name: str, declared: Mapping[str, Any]) -> Column:
    """A checked column from its declared form, e.g. {"kind": "numeric", "low": 17, "high": 90}."""
    kind = declared.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise SchemaError(f"column {name}: kind must be one of {', '.join(_KEYS)}, got kind={shown(kind)}")
    keys = _KEYS[kind]
    for key in declared:
        if key != "kind" and key not in keys:
            raise SchemaError(f"column {name}: a {kind} column has no key {key!r}; it takes {', '.join(keys)}")
    for key, needed in keys.items():
        if needed and key not in declared:
            raise SchemaError(f"column {name}: a {kind} column needs {key!r}")
    values = {key: value for key, value in declared.items() if key != "kind"}
    for key, value in values.items():
        # A "?" beside other levels may be one: some data marks what is missing by it.
        if value == OPEN or (isinstance(value, (list, tuple)) and value and all(v == OPEN for v in value)):
            raise SchemaError(
                f'column {name}: {key} still has the "?" of a draft: replace it by what is publicly known of the column'
            )
    try:
        if kind == "numeric":
            return Numeric(values["low"], values["high"], tuple(values.get("bins", ())), values.get("fill"))
        if not isinstance(values["levels"], (list, tuple)):
            raise SchemaError(f"levels must be a list of texts, got levels={shown(values['levels'])}")
        if not isinstance(values.get("other", False), bool):
            raise SchemaError(f"other must be true or false, got other={shown(values['other'])}")
        levels = tuple(str(level) for level in values["levels"])
        fill = None if values.get("fill") is None else str(values["fill"])
        if kind == "binary":
            return Binary(levels, fill)  # type: ignore[arg-type]
        drop = None if values.get("drop") is None else str(values["drop"])
        return Categorical(levels, values.get("other", False), drop, fill)
    except SchemaError as error:
        raise SchemaError(f"column {name}: {error}") from None
    except (TypeError, ValueError):
        raise SchemaError(f"column {name}: cannot read {shown(dict(declared))} as a {kind} column") from None


def column_to(column: Column) -> dict[str, Any]:
    """The declared form of a column; `column_from` reads it back."""
    match column:
        case Numeric():
            out: dict[str, Any] = {"kind": "numeric", "low": column.low, "high": column.high}
            if column.bins:
                out["bins"] = list(column.bins)
        case Categorical():
            out = {"kind": "categorical", "levels": list(column.levels)}
            if column.other:
                out["other"] = True
            if column.drop is not None:
                out["drop"] = column.drop
        case Binary():
            out = {"kind": "binary", "levels": list(column.levels)}
    if column.fill is not None:
        out["fill"] = column.fill
    return out


@dataclass(frozen=True)
class Schema:
    """Every party's columns, in order. This is all that the plan is computed from."""

    parties: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    norms: Mapping[str, float] = field(default_factory=dict)
    """A public L2 norm to which a party clips its numeric features, scaled to [-1, 1], in every record."""

    def __post_init__(self) -> None:
        for party, norm in self.norms.items():
            if party not in self.parties:
                raise SchemaError(f"a norm must be declared by a party of the schema, got party {party!r}")
            if not _is_number(norm) or not norm > 0:
                raise SchemaError(f"party {party}: norm must be a positive number, got norm={shown(norm)}")
        if not self.parties:
            raise SchemaError("a schema needs at least one party")
        owners: dict[str, str] = {}
        for party, columns in self.parties.items():
            if not isinstance(party, str) or not party or "." in party:
                raise SchemaError(f"a party's name must be non-empty and without a dot, got {party!r}")
            if not columns:
                raise SchemaError(f"party {party} declares no column")
            for name in columns:
                if not isinstance(name, str) or not name:
                    raise SchemaError(f"party {party}: a column's name must be a non-empty text, got {shown(name)}")
                if name in owners:
                    raise SchemaError(f"column {name} is declared by two parties, {owners[name]} and {party}")
                owners[name] = party

    @classmethod
    def of(
        cls, declared: Mapping[str, Mapping[str, Mapping[str, Any] | Column]], norms: Mapping[str, float] | None = None
    ) -> Schema:
        """A schema from declared forms: {party: {column: {"kind": ...}}}."""
        parties = {
            party: {
                name: column if isinstance(column, (Numeric, Categorical, Binary)) else column_from(name, column)
                for name, column in columns.items()
            }
            for party, columns in declared.items()
        }
        return cls(parties, dict(norms or {}))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parties)

    def find(self, reference: str) -> tuple[str, str]:
        """The (party, column) that "party.column" or a bare column name refers to."""
        party, _, name = reference.rpartition(".")
        for owner, columns in self.parties.items():
            if name in columns and party in ("", owner):
                return owner, name
        raise SchemaError(f"column {reference} is declared by no party")

    def to(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {party: {n: column_to(c) for n, c in columns.items()} for party, columns in self.parties.items()}
