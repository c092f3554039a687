"""Kinds of columns: what each declares, how its values become coordinates, and how it is shown and written.

A kind is a class that says so of itself, and is known by its name in `KINDS`. How a file's values are read is decided
by the storage type that it names (`data/storage.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import SchemaError
from colonnade.foundation.names import require_name
from colonnade.foundation.registry import Registry
from colonnade.foundation.shown import OPEN, is_number, plain, shown

OTHER = "other"
BINS, NUMBER = "bins", "number"
"""What a number that is released by its bins is in a model."""
REFUSE = "refuse"
"""Of `undeclared`: a value that is not as declared ends the session, and partners hear of it."""
LEVEL, INDICATOR, FILL, DROP = "level", "indicator", "fill", "drop"
"""Of `missing`: a missing value is a level of its own; filled, with a column that says so; filled; no record's."""
MISSING = "missing"
"""The level of missing values, and at the end of the name of the column that says which are."""
COMMON = ("missing", "undeclared", "unit", "description")
"""What any kind of column takes besides its own keys."""
LONGEST_DESCRIPTION = 500  # characters: a few sentences
LARGEST_WHOLE = 2**53
"""Up to it a float holds every whole number."""
COUNT, ANY, SHARE, FIRST, LAST = "count", "any", "share", "first", "last"
OF_NUMBERS, OF_ORDERED, DATED = ("sum", "mean"), ("min", "max"), (FIRST, LAST)
HOW = (COUNT, *OF_NUMBERS, *OF_ORDERED, ANY, SHARE, *DATED)
"""What a value of a person is made of its several rows by."""
Codes = NDArray[np.int32]
Numbers = NDArray[np.float64]


class Storage(Enum):
    """What a column's values are in a table."""

    NUMBERS = "numbers"
    """Floats, as they stand in the file."""
    LEVELS = "levels"
    """The place of each text among the column's `all_levels`."""


@dataclass(frozen=True)
class Aggregate:
    """How one value of a person is made of its rows; rows without a value do not count."""

    how: str
    of: str = ""
    """The column of the file; empty: a count of all rows."""
    by: str = ""
    """The column of dates that says which row is first or last; of equal ones the file's order does."""

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise SchemaError(f"how must be one of {', '.join(HOW)}, got {shown(self.how)}")
        for key in ("of", "by"):
            require_name(key, getattr(self, key))
        if not self.of and self.how != COUNT:
            raise SchemaError(f'how = "{self.how}" needs of, a column of the file')
        if bool(self.by) != (self.how in DATED):
            told = "needs by, a column of dates" if self.how in DATED else "takes no by"
            raise SchemaError(f'how = "{self.how}" {told}')

    def to(self) -> dict[str, str]:
        return {"how": self.how} | ({"of": self.of} if self.of else {}) | ({"by": self.by} if self.by else {})

    @classmethod
    def read(cls, declared: object, name: str) -> Self:
        """The aggregate of a declared form; the file's column has the name of the result where none is stated."""
        if not isinstance(declared, Mapping) or "how" not in declared:
            raise SchemaError(f'must be a table such as {{ how = "sum", of = "COLUMN" }}, got {shown(declared)}')
        if unknown := [key for key in declared if key not in ("how", "of", "by")]:
            raise SchemaError(f"takes how, of and by, got {shown(unknown[0])}")
        stated: dict[str, Any] = dict(declared)
        return cls(stated["how"], stated.get("of", "" if stated["how"] == COUNT else name), stated.get("by", ""))

    def require_kind(self, column: Column) -> None:
        """Raise unless the column can hold what this makes."""
        number = column.stores_numbers and not column.dated
        fits = {COUNT: number, SHARE: number, ANY: bool(column.spelled)} | dict.fromkeys(OF_NUMBERS, number)
        fits |= dict.fromkeys(OF_ORDERED, column.stores_numbers)
        if not fits.get(self.how, True):
            wanted = "a boolean column" if self.how == ANY else "a number"
            raise SchemaError(f'how = "{self.how}" gives {wanted}, got a {column.kind} column')

    @property
    def text(self) -> str:
        """What it is, for a person."""
        of = f" of {self.of}" if self.of else " of rows"
        return f"{self.how}{of}{f' by {self.by}' if self.by else ''} of each person"


@dataclass(frozen=True)
class Column(ABC):
    """Public facts about one column; the record has either one number in [-1, 1] of it, or indicators of its levels."""

    kind: ClassVar[str]
    keys: ClassVar[Mapping[str, bool]]
    """What the declared form takes beside its kind, and whether it must."""
    storage: ClassVar[Storage]
    missing: str | None = field(default=None, kw_only=True, repr=False)
    """What becomes of a missing value; None: `fill`, or `fallback` where there is none."""
    undeclared: str | None = field(default=None, kw_only=True, repr=False)
    """`REFUSE`, or None: what is not as declared is counted, and `fallback` stands for it."""
    unit: str = field(default="", kw_only=True, repr=False)
    description: str = field(default="", kw_only=True, repr=False)
    people: Aggregate | None = field(default=None, kw_only=True, repr=False)
    """How a person's several rows of the file become one value; None: a person has one row."""
    dated: ClassVar[bool] = False
    """Whether the stored numbers are days since 1970-01-01, and a file has dates."""
    spelled: ClassVar[Mapping[str, str]] = {}
    """Other texts that stand for a level, in lower case."""

    def __post_init__(self) -> None:
        require_name("unit", self.unit)
        require_name("description", self.description, SchemaError, LONGEST_DESCRIPTION)
        if self.undeclared not in (None, REFUSE):
            told = f'undeclared must be "{REFUSE}" or left out, got undeclared={shown(self.undeclared)}'
            raise SchemaError(told).at("undeclared")
        if self.people is not None:
            self.people.require_kind(self)
        if self.missing is not None:
            self._check_missing()

    def _check_missing(self) -> None:
        """Raise where `missing` is none of the known ways, or does not go with the rest of the declaration."""
        if self.missing not in (LEVEL, INDICATOR, FILL, DROP):
            told = f"{LEVEL}, {INDICATOR}, {FILL} or {DROP}"
            raise SchemaError(f"missing must be {told}, got missing={shown(self.missing)}").at("missing")
        told = f'missing = "{self.missing}"'
        if self.missing == LEVEL and not self.has_levels:
            raise SchemaError(f'{told} needs bins; "{INDICATOR}" keeps the number').at("missing")
        if self.missing == INDICATOR and not self.stores_numbers:
            raise SchemaError(f'{told} is for numbers and dates; "{LEVEL}" gives missing values a level')
        if (self.fill is None) == (self.missing in (INDICATOR, FILL)):
            raise SchemaError(f"{told} {'needs' if self.fill is None else 'takes no'} fill").at("fill")
        if self.missing == LEVEL and getattr(self, "model", BINS) == NUMBER:
            raise SchemaError(f'{told} is a level of bins, and model = "{NUMBER}" takes the number in their place')

    @property
    def fill(self) -> float | str | None:
        """Stands for a missing value."""
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the same party that it is computed from; without any it stands in the party's file."""
        return ()

    @property
    def stores_numbers(self) -> bool:
        return self.storage is Storage.NUMBERS

    @property
    def ordered(self) -> bool:
        """Whether neighbouring levels are alike: the bins of a number."""
        return self.edges is not None and self.missing != LEVEL

    @property
    def _missing_level(self) -> tuple[str, ...]:
        return (MISSING,) if self.missing == LEVEL else ()

    @property
    @abstractmethod
    def has_levels(self) -> bool:
        """Whether a record has one coordinate for each level, and not one signed number."""

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """The column from the values of its `keys`."""
        return cls(**declared)

    def declared(self) -> dict[str, Any]:
        """The values of its `keys`, but for those that have their default, and for `fill`."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        own = {key: own[key] for key in self.keys if key in own and key != "fill"}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}

    @classmethod
    def draft(cls) -> dict[str, Any]:
        """What a person has to declare, each an open "?"."""
        return {key: OPEN for key, needed in cls.keys.items() if needed}

    def require_sources(self, name: str, columns: Mapping[str, Column]) -> None:  # noqa: B027 - most have none
        """Raise SchemaError where what it is computed from is not as it states."""

    def follow(self, name: str, columns: Mapping[str, Column]) -> Column:
        """The column once its sources have other bounds."""
        return self

    def compute(self, values: Mapping[str, NDArray[Any]], columns: Mapping[str, Column]) -> NDArray[Any]:
        """Its stored values from those of its sources."""
        raise SchemaError(f"a {self.kind} column is read from a file, and computed of no others")

    def is_like(self, other: Column | None) -> bool:
        """Whether another declaration says the same."""
        return self == other

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Stored values are clipped to these; None where they are not numbers on a line."""
        return None

    def require_bounds(self) -> tuple[float, float]:
        """The bounds of a column that must have them."""
        if self.bounds is None or not self.bounds[0] < self.bounds[1]:
            told = "" if self.bounds is None else f" with bounds {self.bounds[0]:g} and {self.bounds[1]:g}"
            raise SchemaError(
                f"a number with bounds, low below high, is needed here, got a column of kind {self.kind}{told}"
            )
        return self.bounds

    @property
    def edges(self) -> tuple[float, ...] | None:
        """Where each level of a number begins, and where the last one ends; None where levels are no intervals."""
        return None

    @property
    def in_model(self) -> Column:
        """The column as models take it: a number that is released by its bins may be a number there."""
        return self

    @property
    def uncut(self) -> Column:
        """The number without its bins."""
        return self

    @property
    def all_levels(self) -> tuple[str, ...]:
        """The texts that a file may have, of a column that is stored as levels."""
        return ()

    @property
    def other_code(self) -> int | None:
        """The code of the level that takes every undeclared text, where one does."""
        return None

    def takes(self, *, missing: bool) -> bool:
        """Whether the declaration says what a missing value, or one that is not declared, is taken as."""
        return self.fill is not None or self.missing == LEVEL if missing else self.other_code is not None

    def fallback(self, *, missing: bool) -> float:
        """The stored value of a missing value, or of one that is not declared.

        What the declaration says, by `fill`, `missing` or `other`; else the reference level, or the middle of the
        bounds. A missing number that has a level, or a column that says so, is NaN.
        """
        if self.storage is Storage.NUMBERS:
            if missing and self.missing in (LEVEL, INDICATOR):
                return math.nan
            if self.fill is not None:
                return self.read_number(self.fill) if isinstance(self.fill, str) else self.fill
            low, high = self.bounds or (0.0, 0.0)
            return low / 2 + high / 2
        if missing and self.missing == LEVEL:
            return self.all_levels.index(MISSING)
        fill = None if self.fill is None else self.all_levels.index(str(self.fill))
        declared = (fill, self.other_code) if missing else (self.other_code, fill)
        return next((code for code in declared if code is not None), self.dropped)

    @property
    def positive(self) -> str | None:
        """The second of two levels, where the column is a question of yes or no."""
        return None

    @property
    def dropped(self) -> int:
        """The level that coefficients are against."""
        return 0

    def coordinates(self, name: str) -> tuple[str, ...]:
        """The names of its coordinates in a release, where the column has this name."""
        return tuple(f"{name}={level}" for level in self.all_levels) if self.has_levels else (name,)

    def codes(self, values: NDArray[Any]) -> Codes:
        """The level of each stored value."""
        return np.asarray(values, dtype=np.int32)

    def signed(self, values: NDArray[Any]) -> Numbers:
        """Stored values clipped to the bounds and mapped linearly to [-1, 1]; what is no number, to 0."""
        low, high = self.require_bounds()
        clipped = np.clip(np.asarray(values, dtype=np.float64), low, high)
        signed = np.clip((2.0 * clipped - low - high) / (high - low), -1.0, 1.0)
        signed[np.isnan(signed)] = 0.0
        return signed

    def encode(self, values: NDArray[Any]) -> dict[int | None, Numbers]:
        """Every coordinate by its place, unrounded."""
        if not self.has_levels:
            return {None: self.signed(values)}
        codes = self.codes(values)
        return {i: (codes == i).astype(np.float64) for i in range(len(self.coordinates("")))}

    def unsigned(self, signed: Numbers) -> Numbers:
        """Numbers in [-1, 1] back in the units of the stored values."""
        low, high = self.require_bounds()
        return low + (np.clip(signed, -1.0, 1.0) + 1.0) / 2.0 * (high - low)

    def examples(self) -> list[Any]:
        """One value of each level, as a file has it."""
        return list(self.all_levels)

    @property
    def noun(self) -> str:
        """What kind of column it is, for a person."""
        return self.kind

    def describe(self, most: int) -> str:
        """The declared facts for a person; of many levels the first `most`."""
        levels = self.all_levels
        more = f" and {len(levels) - most} more" if len(levels) > most else ""
        return ", ".join(levels[:most]) + more

    def facts(self, most: int) -> str:
        """The declared facts with unit, description and what becomes of missing values and of several rows."""
        told = f"missing: {self.missing}" if self.missing else ""
        rows = "" if self.people is None else self.people.text
        return ", ".join(filter(None, (self.describe(most), self.unit, self.description, told, rows)))

    def base(self, name: str) -> str:
        """The level that coefficients are against, for a person."""
        return self.levels_of(name)[self.dropped]

    def levels_of(self, name: str) -> tuple[str, ...]:
        """Its coordinates for a person, without the column's name where it is that of a level."""
        return tuple(text.removeprefix(f"{name}=") for text in self.coordinates(name))

    def write(self, value: float) -> str:
        """One stored number, for a person."""
        return f"{value:g}"

    def read_number(self, text: str) -> float:
        """The stored number that a person's text says; it may raise ValueError."""
        return float(text)

    def settle(self, **fields: Any) -> None:
        """Keep these values, made plain: a column is also made in Python, of numpy's texts and numbers."""
        for key, value in fields.items():
            found = plain(value)
            object.__setattr__(self, key, tuple(found) if isinstance(found, list) else found)


KINDS: Registry[type[Column]] = Registry("kind", SchemaError)


def register_kind(column: type[Column]) -> type[Column]:
    """Make a kind of column known under its `kind`: a study may then declare it."""
    return KINDS.add(column.kind, column)


def cut_texts(bins: Sequence[float]) -> list[str]:
    """Cut points as texts of six digits, or of as many as tell them apart."""
    for digits in range(6, 18):
        texts = [f"{cut:.{digits}g}" for cut in bins]
        if len(set(texts)) == len(texts):
            break
    return texts


def bins_of(values: Numbers, edges: tuple[float, ...], level: bool = False) -> Codes:
    """The index of the interval that each number falls into; of what is no number, that of the middle.

    With `level` what is no number has an index of its own, after all others.
    """
    inner = np.asarray(edges[1:-1], np.float64)
    found = np.searchsorted(inner, values, side="right").astype(np.int32)
    # The minimum is NaN if any number is.
    if values.size and math.isnan(values.min()):
        middle = int(np.searchsorted(inner, edges[0] / 2 + edges[-1] / 2, side="right"))
        found[np.isnan(values)] = len(edges) - 1 if level else middle
    return found


def listed(key: str, value: object, what: str) -> tuple[Any, ...]:
    """A declared list, made plain; one number is no list, and a text is none of letters."""
    found = plain(value)
    if not isinstance(found, (list, tuple, range)):
        raise SchemaError(f"{key} must be a list of {what}, got {key}={shown(found)}").at(key)
    return tuple(found)


def texts_of(declared: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A declared list as texts."""
    return tuple(str(level) for level in listed(key, declared[key], "texts"))


def text_of(declared: Mapping[str, Any], key: str) -> str | None:
    """A declared level as text, where there is one."""
    return None if declared.get(key) is None else str(declared[key])


class Binned(Column):
    """A number or a day between two bounds; cut points encode it as the indicator of its interval."""

    bins: tuple[Any, ...]
    storage = Storage.NUMBERS

    @property
    @abstractmethod
    def edges(self) -> tuple[float, ...]: ...

    @property
    @abstractmethod
    def cuts(self) -> Sequence[str]:
        """The cut points as texts."""

    @property
    def has_levels(self) -> bool:
        return bool(self.bins)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.edges[0], self.edges[-1]

    @property
    def uncut(self) -> Column:
        return self if self.missing == LEVEL else replace(self, bins=())  # type: ignore[call-arg]

    def coordinates(self, name: str) -> tuple[str, ...]:
        if not self.bins:
            return (name,)
        inner = [f"{a}<={name}<{b}" for a, b in pairwise(self.cuts)]
        last = (f"{name}={text}" for text in self._missing_level)
        return f"{name}<{self.cuts[0]}", *inner, f"{name}>={self.cuts[-1]}", *last

    def codes(self, values: NDArray[Any]) -> Codes:
        """The index of the interval that each value falls into."""
        return bins_of(np.asarray(values, np.float64), self.edges, self.missing == LEVEL)

    @property
    def noun(self) -> str:
        return f"{self.kind}, binned" if self.bins else self.kind


@register_kind
@dataclass(frozen=True)
class Numeric(Binned):
    """A number clipped to [low, high]; `bins` (inner cut points) encode it as the indicator of its interval.

    With `model` = "number" bins are what is released, and models have one weight for the number itself. `integer` says
    that values are whole numbers, which is public: a plan may then give every value a bin.
    """

    low: float
    high: float
    bins: tuple[float, ...] = ()
    fill: float | None = None
    model: str = field(default=BINS, kw_only=True)
    integer: bool = field(default=False, kw_only=True)

    kind = "numeric"
    keys = {  # noqa: RUF012 - as the base class
        "low": True,
        "high": True,
        "bins": False,
        "model": False,
        "integer": False,
        "fill": False,
    }

    def __post_init__(self) -> None:
        bins = listed("bins", self.bins, "the numbers at which a new interval begins")
        self.settle(low=self.low, high=self.high, bins=bins, fill=self.fill, model=self.model)
        super().__post_init__()
        for name, value in (
            ("low", self.low),
            ("high", self.high),
            ("fill", self.fill),
            *(("bins", b) for b in self.bins),
        ):
            if not (name == "fill" and value is None) and not is_number(value):
                raise SchemaError(f"{name} must be a finite number, got {name}={shown(value)}").at(name)
            if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
                raise SchemaError(
                    f"{name} must lie within 2^53 of 0 where it is written as a whole number, got {name}={value}; "
                    f"as a number with an exponent it would be {float(value):g}"
                ).at(name)
        if not math.isfinite(float(self.high) - float(self.low)):
            told = f"low and high must be less than 1.8e308 apart, got low={self.low}, high={self.high}"
            raise SchemaError(told).at("low")
        if not self.low < self.high:
            raise SchemaError(f"low must be below high, got low={self.low}, high={self.high}").at("low")
        if not all(a < b for a, b in pairwise(self.edges)):
            told = f"bins must increase strictly between low and high, got bins={shown(list(self.bins))}"
            raise SchemaError(told).at("bins")
        if self.fill is not None and not self.low <= self.fill <= self.high:
            raise SchemaError(f"fill must lie between low and high, got fill={self.fill}").at("fill")
        if self.model not in (BINS, NUMBER):
            raise SchemaError(f'model must be "{BINS}" or "{NUMBER}", got model={shown(self.model)}').at("model")
        if not isinstance(self.integer, bool):
            raise SchemaError(f"integer must be true or false, got integer={shown(self.integer)}").at("integer")
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise SchemaError(f"an integer column has whole bounds, got low={self.low:g}, high={self.high:g}").at("low")
        if self.integer and max(abs(self.low), abs(self.high)) > LARGEST_WHOLE:
            told = f"an integer column lies within 2^53 of 0, got low={self.low:g}, high={self.high:g}"
            raise SchemaError(told).at("low")
        if self.integer and not all(a < b for a, b in pairwise(self.whole_edges)):
            told = f"every bin of an integer column holds a whole number, got bins={shown(list(self.bins))}"
            raise SchemaError(told).at("bins")

    @property
    def in_model(self) -> Column:
        return self.uncut if self.model == NUMBER else self

    @property
    def uncut(self) -> Column:
        return replace(super().uncut, model=BINS)  # type: ignore[call-arg]

    @property
    def edges(self) -> tuple[float, ...]:
        return self.low, *self.bins, self.high

    @property
    def whole_edges(self) -> tuple[int, ...]:
        """The first whole number of each bin, and the one after the last."""
        return *(math.ceil(edge) for edge in self.edges[:-1]), math.floor(self.high) + 1

    @property
    def cuts(self) -> Sequence[str]:
        return cut_texts(self.bins)

    def coordinates(self, name: str) -> tuple[str, ...]:
        if self.bins and self.integer and all(b - a == 1 for a, b in pairwise(self.whole_edges)):
            return tuple(f"{name}={value}" for value in (*self.whole_edges[:-1], *self._missing_level))
        return super().coordinates(name)

    def examples(self) -> list[Any]:
        return [(a + b) / 2 for a, b in pairwise(self.edges)]

    def describe(self, most: int) -> str:
        cuts = f", cut at {', '.join(self.cuts)}" if self.bins else ""
        taken = ", a number in models" if self.model == NUMBER else ""
        return f"{self.low:g} to {self.high:g}{', whole numbers' if self.integer else ''}{cuts}{taken}"


@register_kind
@dataclass(frozen=True)
class Categorical(Column):
    """One of several declared levels; with `other` an undeclared level is mapped to the level "other"."""

    levels: tuple[str, ...]
    other: bool = False
    drop: str | None = None
    fill: str | None = None

    kind = "categorical"
    keys = {"levels": True, "other": False, "drop": False, "fill": False}  # noqa: RUF012 - as the base class declares
    storage = Storage.LEVELS
    has_levels = True

    def __post_init__(self) -> None:
        self.settle(levels=listed("levels", self.levels, "texts"), drop=self.drop, fill=self.fill)
        super().__post_init__()
        if self.other and self.undeclared is not None:
            told = f'other takes undeclared levels, and undeclared = "{REFUSE}" refuses them: choose one'
            raise SchemaError(told).at("other")
        if len(self.all_levels) - len(self._missing_level) < 2:
            told = f"a categorical column needs at least 2 levels, got levels={shown(list(self.levels))}"
            raise SchemaError(told).at("levels")
        if len(set(self.all_levels)) != len(self.all_levels):
            raise SchemaError(f"levels must be distinct, got levels={shown(list(self.all_levels))}").at("levels")
        for name, value in (("drop", self.drop), ("fill", self.fill)):
            if value is not None and value not in self.all_levels:
                raise SchemaError(f"{name} must be one of the levels, got {name}={shown(value)}").at(name)

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        levels, other = texts_of(declared, "levels"), declared.get("other", False)
        if not isinstance(other, bool):
            raise SchemaError(f"other must be true or false, got other={shown(other)}").at("other")
        return cls(levels, other, text_of(declared, "drop"), text_of(declared, "fill"))

    @classmethod
    def draft(cls) -> dict[str, Any]:
        return {"levels": [OPEN]}

    @property
    def all_levels(self) -> tuple[str, ...]:
        return (*self.levels, *((OTHER,) if self.other else ()), *self._missing_level)

    @property
    def other_code(self) -> int | None:
        return len(self.levels) if self.other else None

    @property
    def dropped(self) -> int:
        return 0 if self.drop is None else self.all_levels.index(self.drop)


@register_kind
@dataclass(frozen=True)
class Binary(Column):
    """One of two declared levels; the second is the positive one."""

    levels: tuple[str, str]
    fill: str | None = None

    kind = "binary"
    keys = {"levels": True, "fill": False}  # noqa: RUF012 - as the base class declares
    storage = Storage.LEVELS
    has_levels = True

    def __post_init__(self) -> None:
        self.settle(levels=listed("levels", self.levels, "texts"), fill=self.fill)
        super().__post_init__()
        if len(self.levels) != 2 or len(set(self.all_levels)) < len(self.all_levels):
            told = f"a binary column needs 2 distinct levels, got levels={shown(list(self.all_levels))}"
            raise SchemaError(told).at("levels")
        if self.fill is not None and self.fill not in self.levels:
            raise SchemaError(f"fill must be one of the levels, got fill={shown(self.fill)}").at("fill")

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        levels: Any = texts_of(declared, "levels")
        return cls(levels, text_of(declared, "fill"))

    @classmethod
    def draft(cls) -> dict[str, Any]:
        return {"levels": [OPEN, OPEN]}

    @property
    def all_levels(self) -> tuple[str, ...]:
        return (*self.levels, *self._missing_level)

    @property
    def positive(self) -> str | None:
        return None if self.missing == LEVEL else self.levels[1]


def column_from(name: str, declared: Mapping[str, Any]) -> Column:
    """A checked column from its declared form, e.g. {"kind": "numeric", "low": 17, "high": 90}."""
    require_name("a column's name", name)
    if not isinstance(declared, Mapping):
        raise SchemaError(f"column {name} must be declared as a table, got {shown(declared)}")
    try:
        kind = KINDS[declared.get("kind")]
    except SchemaError as error:
        raise SchemaError(f"column {name}: {error}").at("kind") from None
    for key in declared:
        if key not in ("kind", "people", *kind.keys, *COMMON):
            known = ", ".join((*kind.keys, *COMMON))
            raise SchemaError(f"column {name}: a {kind.kind} column has no key {key!r}; it takes {known}").at(key)
    for key, needed in kind.keys.items():
        if needed and key not in declared:
            raise SchemaError(f"column {name}: a {kind.kind} column needs {key!r}").at(key)
    values = {key: value for key, value in declared.items() if key in kind.keys}
    common = {key: declared[key] for key in COMMON if key in declared}
    levels = values.get("levels", ())
    marks = ("drop", "fill") if isinstance(levels, (list, tuple)) and OPEN in levels and not _is_open(levels) else ()
    if opened := [key for key, value in values.items() if _is_open(value) and key not in marks]:
        has = "has" if len(opened) == 1 else "have"
        raise SchemaError(
            f'column {name}: {" and ".join(opened)} still {has} the "?" of a draft: '
            "replace it by what is publicly known of the column"
        ).at(opened[0])
    try:
        if "people" in declared:
            common["people"] = Aggregate.read(declared["people"], name)
        column = kind.of(values)
        if not common:
            return column
        if column.sources and set(common) - {"unit", "description"}:
            raise SchemaError(f"a {column.kind} column is computed, and takes no {', '.join(common)}")
        return replace(column, **common)
    except SchemaError as error:
        raise SchemaError(f"column {name}: {error}").at(*error.path) from None
    except (TypeError, ValueError):
        raise SchemaError(f"column {name}: cannot read {shown(dict(declared))} as a {kind.kind} column") from None


def _is_open(value: object) -> bool:
    """Whether a draft's "?" stands for it. One beside other levels may be a level: some data marks a gap by it."""
    return value == OPEN or (isinstance(value, (list, tuple)) and bool(value) and all(v == OPEN for v in value))


def column_to(column: Column) -> dict[str, Any]:
    """The declared form of a column; `column_from` reads it back."""
    given = {key: getattr(column, key) for key in ("fill", "undeclared", "missing", "unit", "description")}
    given["people"] = None if column.people is None else column.people.to()
    return {
        "kind": column.kind,
        **column.declared(),
        **{key: value for key, value in given.items() if value not in (None, "")},
    }
