"""Values that are not as their column declares, and rows that ids cannot tell apart: how many, and who hears of it.

No value of one record ends a session: what does not fit is counted, something stands for it, and the party alone hears
how many. Who sees all parties' data anyway, in one process, refuses a column of which too much does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from colonnade.data.written import hint
from colonnade.foundation.columns import INDICATOR, LEVEL, REFUSE
from colonnade.foundation.errors import DataError, MissingError
from colonnade.foundation.schema import Column, Storage
from colonnade.foundation.shown import shown

ONE_IN = 20
"""In one process a column is refused of which more than one value in so many does not fit."""
LONGEST_SHOWN = 20
"""Characters of a form that an error shows."""
MOST_SHOWN = 12
"""Levels that an error lists."""
STRICT = "strict refuses any value that does not fit"
MANY = f"more than 1 in {ONE_IN} does not fit: correct the file, or declare what it holds"


def form_of(text: str) -> str:
    """What a text looks like, and none of what it says: a refusal may be read by others than the file's owner."""
    return shown(re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text[:LONGEST_SHOWN])))


@dataclass(frozen=True)
class Unfit:
    """The values of one column that are missing or not as declared, by block or in all; rows are counted from 1."""

    column: Column
    missing: int = 0
    wrong: int = 0
    """No numbers, no dates, or none of the levels."""
    missing_row: int = 0
    """The first of them."""
    wrong_row: int = 0
    text: str | None = None
    """The first that is not as declared, where it is a text."""
    held: str = ""
    """What the column holds in place of its values, where that is known."""
    rows: int = 0
    """Of how many rows, where several make a record."""

    def __add__(self, later: Unfit) -> Unfit:
        """With those of a later block."""
        first, second = (self if self.wrong else later), (self if self.missing else later)
        return replace(
            first,
            missing=self.missing + later.missing,
            wrong=self.wrong + later.wrong,
            missing_row=second.missing_row,
        )

    @property
    def count(self) -> int:
        return self.missing + self.wrong

    @property
    def unplaced(self) -> int:
        """Values of which the declaration does not say what they are taken as."""
        return sum(
            many
            for many, missing in ((self.missing, True), (self.wrong, False))
            if not self.column.takes(missing=missing)
        )

    def notes(self, name: str, rows: int) -> list[tuple[str, bool]]:
        """What happened to them, for the party's own eyes, and whether its declaration says so."""
        rows = self.rows or rows
        kinds = ((self.missing, True, self.missing_row), (self.wrong, False, self.wrong_row))
        return [
            (
                f"{many:,} of {rows:,} values of {name} {_are(many)} {self._what(missing, many)}, the first in row "
                f"{row}: taken as {self._taken(missing)}",
                self.column.takes(missing=missing),
            )
            for many, missing, row in kinds
            if many
        ]

    def refusal(self, party: str, name: str, rows: int) -> DataError:
        """What to say of the first thing that is not as declared."""
        where = f"column {name}"
        if not self.wrong or self.column.takes(missing=False):
            return MissingError(
                f"{where} misses {counting(self.missing, 'value')}, the first in row {self.missing_row}; "
                'say what becomes of them: missing = "level", "indicator", "fill" or "drop"'
            ).of(party)
        if self.column.storage is Storage.LEVELS:
            coded = " (not in UTF-8)" if "\ufffd" in (self.text or "") else ""
            more = f", nor {_are(self.wrong - 1)} {counting(self.wrong - 1, 'more value')}" if self.wrong > 1 else ""
            return DataError(
                f"{where}: level {shown(self.text)}{coded} is not among the declared levels "
                f"{_few(self.column.all_levels)}, in row {self.wrong_row}{more}{self._hint(party)}"
            ).of(party)
        which = f"{self.wrong:,} of {rows:,} values do not, the first in row {self.wrong_row}"
        which = f"row {self.wrong_row} does not" if self.wrong == 1 else which
        example = "dates such as 2024-05-31" if self.column.dated else "numbers such as 1234.5"
        held = f": it holds {self.held}" if self.held else ""
        like = f": its form is {form_of(self.text)}" if self.text and not held else ""
        return DataError(f"{where} must hold {example}, {which}{held}{like}{self._hint(party)}").of(party)

    def _hint(self, party: str) -> str:
        """What its owner may write so that it can be read."""
        spelled = bool(self.column.spelled)
        if self.text is None or (self.column.storage is Storage.LEVELS and not spelled):
            return ""
        found = hint(self.text, dated=self.column.dated, spelled=spelled)
        return found and f"; if that is its form, write {found} into [party.{party}.read]"

    def _what(self, missing: bool, many: int) -> str:
        if missing:
            return "missing"
        if self.column.storage is Storage.LEVELS:
            return "not among its levels"
        return f"no {'date' if self.column.dated else 'number'}{'' if many == 1 else 's'}"

    def _taken(self, missing: bool) -> str:
        if self.rows:
            return "no value of that row"
        if missing and self.column.missing == LEVEL:
            return "a level of its own"
        if missing and self.column.missing == INDICATOR:
            return f"{self.column.write(self.column.fallback(missing=False))}, with a column that says so"
        column, code = self.column, self.column.fallback(missing=missing)
        if column.storage is Storage.LEVELS:
            declared = column.fill is not None or column.other_code is not None
            text, otherwise = shown(column.all_levels[int(code)]), "its reference level"
        else:
            declared, text, otherwise = column.fill is not None, column.write(code), "the middle of its bounds"
        return text if declared else f"{text}, {otherwise}"


@dataclass(frozen=True)
class LeftOut:
    """Rows of a table whose id is missing, or stands in an earlier row: they are no records; for the party alone."""

    column: str = ""
    """The id column."""
    missing: int = 0
    repeated: int = 0
    missing_row: int = 0
    repeated_row: int = 0
    merged: tuple[tuple[int, int], ...] = ()
    """Rows of which the agreed form made one id of two."""
    dropped: int = 0
    """Rows without a value of a column whose declaration drops them."""
    rows: int = 0
    """Of how many rows, where several make a record."""

    @property
    def count(self) -> int:
        return self.missing + self.repeated

    def notes(self, rows: int) -> list[tuple[str, bool]]:
        rows = self.rows or rows
        kinds = (
            (self.missing, f"without an id ({self.column})", self.missing_row),
            (self.repeated, f"that repeat an id ({self.column})", self.repeated_row),
        )
        return [
            (f"{many:,} of {rows:,} rows {what}, the first in row {row}: left out", False)
            for many, what, row in kinds
            if many
        ] + [(f"{self.dropped:,} rows miss a value: left out before ids are matched", True)] * bool(self.dropped)

    def refusal(self, party: str) -> DataError:
        where = f"the id column {self.column}"
        if self.merged:
            told = ", ".join(f"{a} and {b}" for a, b in self.merged[:3])
            pairs = counting(len(self.merged), "pair")
            return DataError(f"id_form makes {pairs} of ids of {self.column} the same, in rows {told}").of(party)
        if self.missing:
            return DataError(
                f"{where} misses {counting(self.missing, 'value')}, the first in row {self.missing_row}"
            ).of(party)
        many = f"{self.repeated:,} rows repeat one, the first is row {self.repeated_row}"
        told = many if self.repeated > 1 else f"row {self.repeated_row} repeats one"
        several = f"where a person has several rows, [party.{party}.people] says what becomes of them"
        return DataError(f"{where} must hold ids that are unique, {told}; {several}").of(party)


def require_agreed(party: str, unfit: Mapping[str, Unfit], rows: int) -> None:
    """Raise DataError where a column agrees to refuse, and holds something that is not as declared."""
    for name, own in unfit.items():
        if own.unplaced and own.column.undeclared == REFUSE:
            error = own.refusal(party, name, rows)
            raise type(error)(f'{error} (its declaration says undeclared = "{REFUSE}")')


def require_fit(party: str, unfit: Mapping[str, Unfit], left: LeftOut, rows: int, strict: bool) -> None:
    """Raise DataError where more than one value in twenty of a column does not fit, or with `strict` any.

    For whoever sees all parties' data: to a partner the refusal would tell of one record.
    """
    why = STRICT if strict else MANY
    for name, own in unfit.items():
        if own.unplaced and (strict or ONE_IN * own.unplaced > (own.rows or rows)):
            error = own.refusal(party, name, rows)
            raise type(error)(f"{error} ({why})")
    if left.merged:
        raise left.refusal(party)
    if left.count and (strict or ONE_IN * left.count > (left.rows or rows)):
        raise DataError(f"{left.refusal(party)} ({why})")


def add_unfit(found: dict[str, Unfit], block: Mapping[str, Unfit]) -> None:
    """Add those of a later block."""
    for name, own in block.items():
        found[name] = found[name] + own if name in found else own


def _few(levels: Sequence[str]) -> str:
    more = len(levels) - MOST_SHOWN
    few = f"[{', '.join(map(shown, levels[:MOST_SHOWN]))}]"
    return few if more <= 0 else f"{few} and {more} more"


def counting(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
