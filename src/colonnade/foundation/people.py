"""What becomes of a person's several rows: one value of each column, before anything else is done with a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from colonnade.foundation.errors import SchemaError
from colonnade.foundation.names import require_name
from colonnade.foundation.shown import shown

if TYPE_CHECKING:
    from colonnade.foundation.columns import Column

COUNT, ANY, SHARE, FIRST, LAST = "count", "any", "share", "first", "last"
OF_NUMBERS, OF_ORDERED, DATED = ("sum", "mean"), ("min", "max"), (FIRST, LAST)
HOW = (COUNT, *OF_NUMBERS, *OF_ORDERED, ANY, SHARE, *DATED)


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
