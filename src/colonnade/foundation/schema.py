"""Public facts about columns, declared before anyone looks at data: every party's columns, and norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.foundation.columns import KINDS as KINDS
from colonnade.foundation.columns import Binary as Binary
from colonnade.foundation.columns import Categorical as Categorical
from colonnade.foundation.columns import Column as Column
from colonnade.foundation.columns import Numeric as Numeric
from colonnade.foundation.columns import Storage as Storage
from colonnade.foundation.columns import column_from as column_from
from colonnade.foundation.columns import column_to as column_to
from colonnade.foundation.columns import is_number
from colonnade.foundation.errors import SchemaError
from colonnade.foundation.shown import shown


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
            if not is_number(norm) or not norm > 0:
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
                name: column if isinstance(column, Column) else column_from(name, column)
                for name, column in columns.items()
            }
            for party, columns in declared.items()
        }
        return cls(parties, dict(norms or {}))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parties)

    @property
    def columns(self) -> dict[str, Column]:
        """Every column by its name, which no two parties share."""
        return {name: column for own in self.parties.values() for name, column in own.items()}

    def find(self, reference: str) -> tuple[str, str]:
        """The (party, column) that "party.column" or a bare column name refers to."""
        party, _, name = reference.rpartition(".")
        for owner, columns in self.parties.items():
            if name in columns and party in ("", owner):
                return owner, name
        raise SchemaError(f"column {reference} is declared by no party")

    def to(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {party: {n: column_to(c) for n, c in columns.items()} for party, columns in self.parties.items()}
