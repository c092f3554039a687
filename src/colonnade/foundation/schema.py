"""Public facts about columns, declared before anyone looks at data: every party's columns, and norms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from colonnade.foundation.columns import DROP, FILL, INDICATOR, LEVEL
from colonnade.foundation.columns import KINDS as KINDS
from colonnade.foundation.columns import Binary as Binary
from colonnade.foundation.columns import Categorical as Categorical
from colonnade.foundation.columns import Column as Column
from colonnade.foundation.columns import Numeric as Numeric
from colonnade.foundation.columns import Storage as Storage
from colonnade.foundation.columns import column_from as column_from
from colonnade.foundation.columns import column_to as column_to
from colonnade.foundation.derived import Derived as Derived
from colonnade.foundation.derived import derive_columns as derive_columns
from colonnade.foundation.errors import SchemaError
from colonnade.foundation.kinds import Boolean as Boolean
from colonnade.foundation.kinds import Date as Date
from colonnade.foundation.kinds import with_indicators
from colonnade.foundation.names import ColumnRef, Coordinate, Names, require_name, size_of, splits_at
from colonnade.foundation.shown import is_number, shown

MOST_PARTIES = 256  # far above use; larger studies were not tried
MOST_COORDINATES = 20_000
"""A plan is computed from pairs of these: numbers, and levels or bins of the other columns."""
LEAST_NORM, LARGEST_NORM = 1e-6, 1e6  # far beyond any record, whose columns are scaled to [-1, 1]
MEANS = {
    LEVEL: "are a level of their own, which has its own coefficient",
    INDICATOR: "are filled, and a column says where: a coefficient is that of those who have a value",
    FILL: "are filled: a model and its intervals take what was filled in for true",
    DROP: "leave a person out before ids are matched: partners learn who that is, and a model is of the others",
}
"""What is estimated, by what becomes of missing values."""
LARGEST_NAMES = 1 << 21
"""Bytes of all names and levels together."""


@dataclass(frozen=True)
class Schema:
    """Every party's columns, in order. This is all that the plan is computed from."""

    parties: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    norms: Mapping[str, float] = field(default_factory=dict)
    """A public L2 norm to which a party clips its numeric features, scaled to [-1, 1], in every record."""

    def __post_init__(self) -> None:
        _require_sizes(self.parties)
        object.__setattr__(self, "parties", {party: with_indicators(own) for party, own in self.parties.items()})
        for party in self.parties:
            require_party(party)
        for party, norm in self.norms.items():
            if party not in self.parties:
                raise SchemaError(f"a norm must be declared by a party of the schema, got party {party!r}")
            if not is_number(norm) or not norm > 0:
                raise SchemaError(f"party {party}: norm must be a positive number, got norm={shown(norm)}")
            if not LEAST_NORM <= norm <= LARGEST_NORM:
                told = f"between {LEAST_NORM:g} and {LARGEST_NORM:g}, for its columns are scaled to [-1, 1]"
                raise SchemaError(f"party {party}: norm must lie {told}, got norm={shown(norm)}")
        if not self.parties:
            raise SchemaError("a schema needs at least one party")
        for party, columns in self.parties.items():
            if not columns:
                raise SchemaError(f"party {party} declares no column")
            require_people(party, columns)
            for name, column in columns.items():
                require_name(f"party {party}: a column's name", name)
                if not name:
                    raise SchemaError(f"party {party}: a column's name must be a non-empty text, got {shown(name)}")
                column.require_sources(name, columns)
                for level in column.all_levels:
                    require_name(f"column {name}: a level", level)
        named = size_of(self.parties) + sum(map(size_of, self.parties.values()))
        named += sum(size_of(column.all_levels) for own in self.parties.values() for column in own.values())
        if named > LARGEST_NAMES:
            raise SchemaError(f"all names and levels of a schema must have at most {LARGEST_NAMES} bytes, got {named}")

    @classmethod
    def of(
        cls, declared: Mapping[str, Mapping[str, Mapping[str, Any] | Column]], norms: Mapping[str, float] | None = None
    ) -> Schema:
        """A schema from declared forms: {party: {column: {"kind": ...}}}."""
        _require_sizes(declared)
        parties = {
            party: {
                name: column if isinstance(column, Column) else column_from(name, column)
                for name, column in columns.items()
            }
            for party, columns in declared.items()
        }
        return cls(parties, dict(norms or {}))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parties)

    @cached_property
    def columns(self) -> dict[ColumnRef, Column]:
        """Every party's columns, in order."""
        return {ColumnRef(party, name): column for party, own in self.parties.items() for name, column in own.items()}

    @cached_property
    def _declarers(self) -> Counter[str]:
        """How many parties declare a column of this name."""
        return Counter(ref.column for ref in self.columns)

    @cached_property
    def named(self) -> Names[Coordinate]:
        """What each text of a coordinate means that a model's file may have."""
        return Names((text, place) for ref in self.columns for text, place in self.texts(ref).items())

    @cached_property
    def qualified(self) -> Names[Coordinate]:
        """The same of texts with the party before them."""
        return Names((ref.qualified(text), place) for ref in self.columns for text, place in self._bare(ref).items())

    def texts(self, ref: ColumnRef) -> dict[str, Coordinate]:
        """A column's coordinates by their texts, which have their party where another has a column of this name."""
        return {self._qualified(ref, text): place for text, place in self._bare(ref).items()}

    def _bare(self, ref: ColumnRef) -> dict[str, Coordinate]:
        column = self.columns[ref]
        texts = column.coordinates(ref.column)
        return {text: Coordinate(ref, j if column.has_levels else None) for j, text in enumerate(texts)}

    def title(self, ref: ColumnRef) -> str:
        """What a column is called: by its name, with the party where another has one of this name."""
        return self._qualified(ref, ref.column)

    def _qualified(self, ref: ColumnRef, text: str) -> str:
        return ref.qualified(text) if self._declarers[ref.column] > 1 else text

    def find(self, reference: str) -> ColumnRef:
        """The column that "party.column" or a bare name refers to."""
        found = find_column(self.parties, reference)
        if found is None:
            raise SchemaError(f"column {reference} is declared by no party")
        return found

    def find_level(self, text: str) -> Coordinate | None:
        """The declared level that "column=level" refers to; either may have a "=" of its own."""
        for name, level in splits_at(text):
            found = find_column(self.parties, name)
            if found is not None and level in (levels := self.columns[found].all_levels):
                return Coordinate(found, levels.index(level))
        return None

    def changed(self, columns: Mapping[ColumnRef, Column]) -> Schema:
        """The schema with other declarations of these columns; what is derived from them has the bounds that follow."""
        own = {party: dict(declared) for party, declared in self.parties.items()}
        for (party, name), column in columns.items():
            own[party][name] = column
        for ref, column in self.columns.items():
            sources = [ColumnRef(ref.party, source) for source in column.sources]
            if any(source in columns and columns[source].bounds != self.columns[source].bounds for source in sources):
                own[ref.party][ref.column] = own[ref.party][ref.column].follow(ref.column, own[ref.party])
        return replace(self, parties=own)

    def to(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {party: {n: column_to(c) for n, c in columns.items()} for party, columns in self.parties.items()}


def require_party(name: str) -> None:
    """Raise unless it may be a party's name: before a column's it ends with the first dot."""
    require_name("a party's name", name)
    if not name or "." in name:
        raise SchemaError(f"a party's name must be non-empty and without a dot, got {name!r}")


def estimated_notes(parties: Mapping[str, Mapping[str, Column]]) -> list[str]:
    """What a model estimates where values are missing, or where a record is made of several rows, a sentence each."""
    out = []
    for party, columns in parties.items():
        if any(column.people for column in columns.values()):
            out.append(f"{party}: a record is made of all rows of a person, and epsilon is for all of them")
        for how, means in MEANS.items():
            if names := [name for name, column in columns.items() if column.missing == how]:
                out.append(f"{party}: missing values of {', '.join(names)} {means}")
    return out


def require_people(party: str, columns: Mapping[str, Column]) -> None:
    """Raise where some columns of a party are made of a person's several rows and others are not."""
    own = {name: column for name, column in columns.items() if not column.sources}
    if any(column.people for column in own.values()):
        for name, column in own.items():
            if column.people is None:
                raise SchemaError(
                    f"column {name}: what becomes of a person's several rows is said of every column of party {party}, "
                    f"and of this one it is not; write it into [party.{party}.people]"
                )


def find_column(parties: Mapping[str, Mapping[str, Any]], reference: str) -> ColumnRef | None:
    """The column of a "party.column", or else of a bare name; a column's own name may have dots."""
    named = [ColumnRef(party, name) for party, columns in parties.items() for name in columns]
    found = [ref for ref in named if reference == str(ref)] or [ref for ref in named if reference == ref.column]
    if len(found) > 1:
        raise SchemaError(f"column {reference} may be {' or '.join(map(str, found))}: say of which party")
    return found[0] if found else None


def _require_sizes(parties: Mapping[str, Mapping[str, Mapping[str, Any] | Column]]) -> None:
    """Refuse a schema that is too large to plan with, before anything is made of it."""
    if len(parties) > MOST_PARTIES:
        raise SchemaError(f"a schema must have at most {MOST_PARTIES} parties, got {len(parties)}")
    count = sum(_coordinates(column) for columns in parties.values() for column in columns.values())
    if count > MOST_COORDINATES:
        raise SchemaError(f"a schema must have at most {MOST_COORDINATES} columns, levels and bins in all, got {count}")


def _coordinates(column: Mapping[str, Any] | Column) -> int:
    """Numbers that a record has of a column, as far as its declared form tells."""
    if isinstance(column, Column):
        return max(1, len(column.all_levels), len(column.edges or ()) - 1)
    lists = (column.get(key) for key in ("levels", "bins")) if isinstance(column, Mapping) else ()
    return max(1, *(len(found) if isinstance(found, (list, tuple)) else 0 for found in lists), 0)
