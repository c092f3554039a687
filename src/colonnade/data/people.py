"""A party's rows as records: one of each person where a study says how, and none that lacks what it drops for.

Both happen at the owner and before ids are matched, so that a record, which the promise is about, is a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from colonnade.data.ids import IdColumns
from colonnade.data.reading import Reading
from colonnade.data.storage import as_texts, counted, held_at, id_texts, values_in
from colonnade.data.unfit import LeftOut, Unfit, add_unfit, require_agreed
from colonnade.foundation.columns import (
    ANY,
    COUNT,
    DATED,
    DROP,
    FIRST,
    OF_NUMBERS,
    REFUSE,
    SHARE,
    Aggregate,
    Column,
    Numeric,
)
from colonnade.foundation.errors import DataError
from colonnade.foundation.kinds import TRUE, Boolean, Date

if TYPE_CHECKING:
    from colonnade.data.table import Table

EXAMPLES: Mapping[str, Column] = {
    "numeric": Numeric(0, 1),
    "date": Date("2000-01-01", "2000-01-02"),
    "boolean": Boolean(),
}
"""What decides how a text of a kind is read; its bounds do not."""
MERGED_ROWS = 1 << 17
"""Rows that wait before they are gathered."""
NEVER = 2**31 - 1
"""The day of a row without one, or its negative: any dated row is nearer."""
ID = "id"


class RecordFrames:
    """Makes records of a party's frames, and keeps what its owner should know of the rows."""

    def __init__(self, how: Reading, matched: bool) -> None:
        self._how, self._party, self._ids = how, how.party, how.ids
        self._people = {name: column for name, column in how.columns.items() if column.people is not None}
        dropping = {name: column for name, column in how.columns.items() if column.missing == DROP}
        self._dropping = dropping if matched and how.ids is not None else {}
        self._rows = 0
        self._unfit: dict[str, Unfit] = {}
        self._left = LeftOut()
        self._noted: set[tuple[str, int]] = set()
        self._dropped = 0
        own = [c.people for c in self._people.values() if c.people is not None and c.undeclared is not None]
        self._refusing = {name for aggregate in own for name in (aggregate.of, aggregate.by)}

    @property
    def read(self) -> Reading:
        """The columns of the file that are needed, and how each is read."""
        if not self._people:
            return self._how
        out: dict[str, Column] = {}
        # A count asks for no form, and takes that of others.
        for column in sorted(self._people.values(), key=lambda column: _aggregate(column).how == COUNT):
            for key, how in _read_as(_aggregate(column), column).items():
                known = out.setdefault(key, how)
                forms = [(each.storage, each.dated, each.spelled) for each in (known, how)]
                if _aggregate(column).how != COUNT and forms[0] != forms[1]:
                    raise DataError(f"column {key} cannot be read in two ways for [people]").of(self._party)
        return replace(self._how, columns=out)

    def of(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The records, block by block."""
        records = self._gathered(frames) if self._people else frames
        return map(self._kept, records) if self._dropping else records

    def noted(self, table: Table) -> Table:
        """The table with what was found of the rows that its records are made of."""
        if not self._people and not self._dropping:
            return table
        rows = {name: replace(own, rows=self._rows) for name, own in self._unfit.items()}
        require_agreed(self._party, rows, self._rows)
        unfit, left = {**table.unfit, **rows}, replace(table.left_out, dropped=self._dropped)
        if self._left.missing:
            # No record is without an id: they are made of those that have one.
            own = self._left
            left = replace(left, column=own.column, missing=own.missing, missing_row=own.missing_row, rows=self._rows)
        return replace(table, unfit=unfit, left_out=left, gathered=self._rows)

    def _kept(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that have a value wherever one is asked for; a wrong one is one."""
        stay = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        for name, column in self._dropping.items():
            values, wrong = values_in(frame.get_column(name), column)
            stay &= values.is_not_null() | wrong
        self._dropped += int((~stay).sum())
        return frame.filter(stay)

    def _gathered(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        if self._ids is None:
            told = "its columns are made of several rows a person, which needs an id column"
            raise DataError(told).of(self._party)
        held: list[pl.DataFrame] = []
        waiting = people = 0
        for frame in frames:
            held.append(self._lines(frame, self._ids))
            waiting += held[-1].height
            if waiting > max(MERGED_ROWS, 2 * people):
                held = [self._merged(held)]
                people, waiting = held[0].height, 0
        if held:
            merged = self._merged(held)
            for start in range(0, merged.height, MERGED_ROWS):
                yield self._results(merged.slice(start, MERGED_ROWS), self._ids)

    def _lines(self, frame: pl.DataFrame, ids: IdColumns) -> pl.DataFrame:
        """A block's rows: the id, its parts as they stand, and two numbers or texts of each column."""
        texts, _ = ids.texts(frame)
        out = [texts.alias(ID)]
        out += [id_texts(frame.get_column(name)).alias(f"{ID}{k}") for k, name in enumerate(ids.columns)]
        for k, column in enumerate(self._people.values()):
            one, two = self._parts(frame, column)
            out += [one.alias(f"{k}a"), two.alias(f"{k}b")]
        lines = pl.DataFrame(out)
        if gone := texts.null_count():
            first = self._left.missing_row or self._rows + int(texts.is_null().arg_max() or 0) + 1
            self._left = replace(self._left, column=ids.name, missing=self._left.missing + gone, missing_row=first)
            lines = lines.filter(pl.col(ID).is_not_null())
        self._rows += frame.height
        return lines

    def _parts(self, frame: pl.DataFrame, column: Column) -> tuple[pl.Series, pl.Series]:
        """What is added up or chosen of a column, and how many values or on which day."""
        own = _aggregate(column)
        ones = pl.repeat(1.0, frame.height, dtype=pl.Float64, eager=True)
        if not own.of:
            return ones, ones
        series, how = frame.get_column(own.of), _read_as(own, column)[own.of]
        if own.how == COUNT:
            present = values_in(as_texts(series), TEXT)[0].is_not_null().cast(pl.Float64)
            return present, present
        values, wrong = values_in(series, how)
        if how.spelled and own.how in (ANY, SHARE):
            wrong = values.is_not_null() & ~values.is_in(list(how.all_levels))
            values = (values == TRUE).cast(pl.Float64).set(wrong, None)
        self._note(own.of, series, how, wrong)
        if own.how in DATED:
            days, undated = values_in(frame.get_column(own.by), EXAMPLES["date"])
            self._note(own.by, frame.get_column(own.by), EXAMPLES["date"], undated)
            return values, days.fill_null(NEVER if own.how == FIRST else -NEVER)
        return values, values.is_not_null().cast(pl.Float64)

    def _note(self, name: str, series: pl.Series, how: Column, wrong: pl.Series) -> None:
        """Count the rows whose value is not as it is read, once for each column of the file."""
        if wrong.any() and (name, self._rows) not in self._noted:
            self._noted = {(name, self._rows), *(seen for seen in self._noted if seen[1] == self._rows)}
            how = replace(how, undeclared=REFUSE if name in self._refusing else None)
            found = counted(how, wrong & False, wrong, self._rows)
            text = held_at(as_texts(series), int(wrong.arg_max() or 0))[1]
            add_unfit(self._unfit, {f"{name} (rows)": replace(found, text=text)})

    def _merged(self, held: list[pl.DataFrame]) -> pl.DataFrame:
        """One line of each person, in the order of their first rows."""
        found = [pl.col(column).first() for column in held[0].columns if column.startswith(ID) and column != ID]
        for k, column in enumerate(self._people.values()):
            found += _added(_aggregate(column).how, f"{k}a", f"{k}b")
        return pl.concat(held).group_by(ID, maintain_order=True).agg(found)

    def _results(self, lines: pl.DataFrame, ids: IdColumns) -> pl.DataFrame:
        """The records of these people, as a file of one row a person would have them."""
        out = [lines.get_column(f"{ID}{k}").alias(name) for k, name in enumerate(ids.columns)]
        for k, (name, column) in enumerate(self._people.items()):
            how, one, two = _aggregate(column).how, lines.get_column(f"{k}a"), lines.get_column(f"{k}b")
            if how in (*OF_NUMBERS, SHARE):
                one = (one if how == "sum" else one / two).set(two == 0, None)
            elif how == ANY:
                one = one.cast(pl.Boolean)
            elif column.dated:
                one = one.cast(pl.Int32).cast(pl.Date)
            out.append(one.alias(name))
        return pl.DataFrame(out)


TEXT: Column = EXAMPLES["boolean"]


def read_columns(party: str, columns: Mapping[str, Column]) -> Mapping[str, Column]:
    """The columns of a party's file that its declared ones are made of, and how each is read."""
    return RecordFrames(Reading(party, columns), False).read.columns


def _aggregate(column: Column) -> Aggregate:
    assert column.people is not None
    return column.people


def _read_as(own: Aggregate, column: Column) -> dict[str, Column]:
    """The file's columns that a result is made of, and how each is read."""
    out: dict[str, Column] = {own.by: EXAMPLES["date"]} if own.by else {}
    if own.how in DATED:
        return out | {own.of: replace(column, people=None)}
    kind = "boolean" if own.how in (ANY, SHARE) else "date" if column.dated else "numeric"
    return out | ({own.of: EXAMPLES[kind]} if own.of else {})


def _added(how: str, one: str, two: str) -> list[pl.Expr]:
    """Two parts of a person's lines as one line: of rows, and of lines that were added before."""
    a, b = pl.col(one), pl.col(two)
    if how in DATED:
        known = a.is_not_null()
        day = b.filter(known).min() if how == FIRST else b.filter(known).max()
        chosen = a.filter(known & (b == day))
        return [chosen.first() if how == FIRST else chosen.last(), day]
    if how in ("min", "max", ANY):
        return [a.min() if how == "min" else a.max(), b.sum()]
    # One by one in the rows' order: other sums depend on where blocks end, and so on the rows of other people.
    return [a.fill_null(0).cum_sum().last(), b.sum()]
