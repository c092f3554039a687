"""Kinds of columns beyond numbers and levels: truth values and dates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.columns import (
    INDICATOR,
    LEVEL,
    MISSING,
    Binned,
    Codes,
    Column,
    Storage,
    listed,
    register_kind,
)
from colonnade.foundation.errors import SchemaError
from colonnade.foundation.shown import plain, shown

FALSE, TRUE = "false", "true"
SPELLED = {
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), FALSE),
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), TRUE),
}
"""Words for a truth value, in lower case."""
FIRST_DAY, LAST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@register_kind
@dataclass(frozen=True)
class Boolean(Column):
    """A truth value: 1 where it is true, against 0 where it is false. Nothing about it has to be declared."""

    fill: str | None = None

    kind = "boolean"
    keys = {"fill": False}  # noqa: RUF012 - as the base class declares
    storage = Storage.LEVELS
    has_levels = True
    spelled = SPELLED

    def __post_init__(self) -> None:
        if self.fill is not None:
            found = SPELLED.get(str(self.fill).lower())
            if found is None:
                raise SchemaError(f"fill must be true or false, got fill={shown(self.fill)}").at("fill")
            self.settle(fill=found)
        super().__post_init__()

    @property
    def all_levels(self) -> tuple[str, ...]:
        return (FALSE, TRUE, *self._missing_level)

    @property
    def positive(self) -> str | None:
        return None if self.missing == LEVEL else TRUE


@register_kind
@dataclass(frozen=True)
class Missing(Boolean):
    """Whether a record misses a number of its party: what `missing = "indicator"` adds to that column."""

    of_column: str = ""

    kind = "missing"
    keys = {"of": True}  # noqa: RUF012 - as the base class declares

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        return cls(of_column=str(declared["of"]))

    def declared(self) -> dict[str, Any]:
        return {"of": self.of_column}

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.of_column,)

    def require_sources(self, name: str, columns: Mapping[str, Column]) -> None:
        source = columns.get(self.of_column)
        if source is None or source.missing != INDICATOR or name != indicator_name(self.of_column):
            told = f'COLUMN=missing for a column with missing = "{INDICATOR}"'
            raise SchemaError(
                f"column {name}: whether a value is missing is called {told}, and {self.of_column} is none"
            )

    def compute(self, values: Mapping[str, NDArray[Any]], columns: Mapping[str, Column]) -> Codes:
        codes: Codes = np.isnan(values[self.of_column]).astype(np.int32)
        return codes

    def describe(self, most: int) -> str:
        return f"whether {self.of_column} is missing"


def indicator_name(column: str) -> str:
    """What the column is called that says where another one is missing."""
    return f"{column}={MISSING}"


def with_indicators(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns with those that say where a number is missing, each behind its number."""
    out: dict[str, Column] = {}
    for name, column in columns.items():
        if name not in out:
            out[name] = column
        if column.missing == INDICATOR:
            own = Missing(of_column=name)
            if columns.get(indicator_name(name), own) != own:
                raise SchemaError(
                    f'column {name}: missing = "{INDICATOR}" needs the name {indicator_name(name)}, which is taken'
                )
            out[indicator_name(name)] = own
    return out


@register_kind
@dataclass(frozen=True)
class Date(Binned):
    """A day clipped to [earliest, latest]; `bins` (days at which a new interval begins) encode it as its interval.

    Days are counted from 1970-01-01; the time of day is left out.
    """

    earliest: str
    latest: str
    bins: tuple[str, ...] = ()
    fill: str | None = None

    kind = "date"
    keys = {"earliest": True, "latest": True, "bins": False, "fill": False}  # noqa: RUF012 - as the base class declares
    dated = True

    def __post_init__(self) -> None:
        self.settle(earliest=_text("earliest", self.earliest), latest=_text("latest", self.latest))
        self.settle(bins=tuple(_text("bins", b) for b in listed("bins", self.bins, "dates")))
        self.settle(fill=None if self.fill is None else _text("fill", self.fill))
        super().__post_init__()
        if not all(a < b for a, b in pairwise(self.edges)):
            if self.earliest >= self.latest:
                told = f"earliest={self.earliest}, latest={self.latest}"
                raise SchemaError(f"earliest must be before latest, got {told}").at("earliest")
            told = f"bins must increase strictly between earliest and latest, got {shown(list(self.bins))}"
            raise SchemaError(told).at("bins")
        if self.fill is not None and not self.earliest <= self.fill <= self.latest:
            raise SchemaError(f"fill must lie between earliest and latest, got fill={self.fill}").at("fill")

    @cached_property
    def edges(self) -> tuple[float, ...]:
        return tuple(days_of(text) for text in (self.earliest, *self.bins, self.latest))

    @property
    def cuts(self) -> Sequence[str]:
        return self.bins

    def examples(self) -> list[Any]:
        return [self.write(a) for a in self.edges[:-1]]

    def read_number(self, text: str) -> float:
        return days_of(text.strip())

    def describe(self, most: int) -> str:
        cuts = f", cut at {', '.join(self.bins)}" if self.bins else ""
        return f"{self.earliest} to {self.latest}{cuts}"

    def write(self, value: float) -> str:
        return str(np.datetime64(round(min(max(value, FIRST_DAY), LAST_DAY)), "D"))


def days_of(text: str) -> float:
    """Days from 1970-01-01 to a date written as 2024-05-31."""
    try:
        if _DATE.fullmatch(text):
            return float(np.datetime64(text, "D").astype(np.int64))
    except ValueError:
        pass
    raise SchemaError(f"a date is written as 2024-05-31, got {shown(text)}")


def _text(key: str, value: object) -> str:
    """A declared date, from a file's own dates, from Python's or from a text."""
    found = plain(value)
    # Python's own dates; a timestamp is one where its time is midnight.
    written = getattr(found, "isoformat", None)
    text = str(written()).removesuffix("T00:00:00") if written else found
    try:
        if isinstance(text, str):
            days_of(text)
            return text
    except SchemaError:
        pass
    raise SchemaError(f"{key} must be a date such as 2024-05-31, got {key}={shown(value)}").at(key)
