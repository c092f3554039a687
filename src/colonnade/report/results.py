"""An answer as one value: tables, figures and notes, computed once for whoever shows or reads it.

report/answers has one module for each question; report/render shows an answer and knows no question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    from markupsafe import Markup

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Words:
    """A cell that says something in the place of a number; `kind` is "good", "warn", "strong" or "soft"."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Heading:
    """A column that is shown: what it reads of a record, and how that is written."""

    head: str
    read: str | tuple[str, ...]
    write: Callable[..., str] = str
    number: bool = False
    missing: Words = Words("")
    """Stands where a record lacks something of it."""

    def cell(self, record: Record) -> Words:
        values = [record.get(key) for key in ((self.read,) if isinstance(self.read, str) else self.read)]
        if isinstance(values[0], Words):
            return values[0]
        return self.missing if any(value is None for value in values) else Words(self.write(*values))


@dataclass(frozen=True)
class Figure:
    """A picture, drawn when a page shows it."""

    draw: Callable[[], Markup]
    caption: str = ""


@dataclass(frozen=True)
class Listing:
    """Records with the columns that are shown of them."""

    columns: Sequence[Heading]
    records: Sequence[Record]
    title: str = ""
    fields: Mapping[str, type | None] = field(default_factory=dict)
    """What a data frame holds, by its type where the values do not tell it; it may be more than what is shown."""
    last: Record | None = None
    """What stands apart below the others: a total, or a constant."""
    shown: int | None = None
    """Records that a terminal shows at most; 0: the table is for pages alone."""
    fold: str = ""
    """What a page calls the table where it is folded away."""
    dense: bool = False
    """Whether it is written small on paper, for it may have many columns."""
    picture: Figure | None = None
    """A page's picture of the same."""

    @property
    def frame(self) -> pl.DataFrame:
        import polars as pl

        found = ([record.get(key) for key in self.fields] for record in self.records)
        rows = [[None if isinstance(value, Words) else value for value in row] for row in found]
        return pl.DataFrame(rows, dict(self.fields), orient="row", infer_schema_length=None)


@dataclass(frozen=True)
class Passage:
    """A sentence or a few; `kind` is "soft" or "strong"."""

    text: str
    kind: str = ""


Part = Listing | Figure | Passage


@dataclass(frozen=True)
class Brief:
    """The verdict of an answer: a sentence, then texts that each stand under a word."""

    lead: str
    lines: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """What a question is answered by: its parts in their order, warnings, and facts for programs, made when asked."""

    title: str
    parts: Sequence[Part]
    facts: Callable[[], dict[str, Any]] = dict
    warnings: Sequence[str] = ()
    brief: Brief | None = None
    """What a terminal shows unless it is asked for all."""

    @property
    def tables(self) -> list[Listing]:
        return [part for part in self.parts if isinstance(part, Listing)]

    @property
    def titled(self) -> list[Part]:
        """Its parts under its title, as a part of another answer."""
        return [*([Passage(self.title, "head")] if self.title else []), *self.parts]


def finite(value: Any) -> Any:
    """As JSON has it: nan and infinity are null, and there are no tuples."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
