"""Hard neighbours: data sets that differ in one record, chosen so that the release moves as far as it can.

The climber knows the schema and the plan's scales, and nothing of the proofs. Numbers at a bound are written far beyond
it, so that a pipeline that forgot to clip is caught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.crypto.product import Integers
from colonnade.data.table import Table, table_from
from colonnade.foundation.columns import INDICATOR, LEVEL
from colonnade.foundation.errors import StudyError
from colonnade.foundation.kinds import Missing, indicator_name
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Storage
from colonnade.mechanism.blocks import exact_block, own_square
from colonnade.planning.session_plan import SessionPlan

Floats = NDArray[np.float64]
Record = dict[str, dict[str, Any]]
"""A record's raw values, by party and column."""

MOST_LEVELS = 8  # keeps the search short: other levels of one column move a release alike
BEYOND = 3.0
"""How many widths a number that stands for a bound lies outside it."""
STARTS = 6  # climbs from random records, of which the best counts; chosen, not tuned
COINS = bytes(32)
"""All records here lie on the grid, so that any coins round them alike."""
MANY = 20_000
"""Released numbers from which on a single climb must do."""


@dataclass(frozen=True)
class Pair:
    """One record before and after, where only the parties in `scope` hold another part of it."""

    scope: tuple[str, ...]
    before: Record
    after: Record


def candidates(column: Column, bound: int) -> list[Any]:
    """Raw values that may be extreme: bounds, about the middle and quarters, one value in each bin, levels."""
    gone = [None] if column.missing in (LEVEL, INDICATOR) else []
    if column.has_levels or column.storage is Storage.LEVELS:
        return column.examples()[: MOST_LEVELS - len(gone)] + gone
    low, high = column.require_bounds()
    inner = [_on_grid(low, high, share, bound) for share in (0.25, 0.5, 0.75)]
    found = [low - BEYOND * (high - low), *inner, high + BEYOND * (high - low)]
    return ([column.write(value) for value in found] if column.dated else found) + gone


def _on_grid(low: float, high: float, share: float, bound: int) -> float:
    """A number about that far up, which needs no rounding: an odd step of the grid, since a label is cut in halves."""
    step = 2 * round((bound * (2 * share - 1) - 1) / 2) + 1
    return low + (high - low) * (0.5 + step / (2 * bound))


def middle(column: Column, bound: int) -> Any:
    """A value for records that are only there to be there: some three quarters of the way up, or the first level."""
    if column.storage is Storage.LEVELS or column.bounds is None:
        return column.examples()[0]
    value = _on_grid(*column.bounds, 0.75, bound)
    return column.write(value) if column.dated else value


class PairSearch:
    """Looks for the pair of records that the plan's noise hides least."""

    def __init__(self, session: SessionPlan, randomness: Randomness) -> None:
        self.session, self._randomness = session, randomness
        plan = session.plan
        if plan.layout.has_interactions:
            raise StudyError("an audit by attacks serves studies without interactions, got some")
        self.values: dict[tuple[str, str], list[Any]] = {}
        self.codes: dict[tuple[str, str], tuple[Integers, Floats]] = {}
        for party, columns in session.agreement.schema.parties.items():
            for name, column in columns.items():
                if isinstance(column, Missing):
                    continue
                raw = candidates(column, session.grid.bound)
                self.values[party, name] = raw
                self.codes[party, name] = _coordinates(session, party, name, raw)
        self.columns = list(self.values)
        factors, places, rates, at = [], [], [], 0
        for item in plan.blocks:
            size = item.block.size
            factors.append(item.block.factors[:, -2:])
            places.append(np.full(len(item.block.weights), at) if item.block.summed else np.arange(at, at + size))
            weight = np.ones(1) if item.block.summed else np.abs(item.block.weights)
            rates.append(weight / float(item.scale))
            at += size
        self.factors, self.places = np.concatenate(factors), np.concatenate(places)
        self.rates, self.size = np.concatenate(rates), at

    def loss(self, z: Floats, w: Floats) -> Floats:
        """The largest privacy loss between records in the rows of z and of w: sum, or root of squares, of rates."""
        change = (
            z[:, self.factors[:, 0]] * z[:, self.factors[:, 1]] - w[:, self.factors[:, 0]] * w[:, self.factors[:, 1]]
        )
        if self.size < len(self.places):
            summed = np.zeros((self.size, len(z)))
            np.add.at(summed, self.places, change.T)
            change = summed.T
        return np.asarray(np.linalg.norm(change * self.rates, self.session.plan.law.norm, axis=1))

    def climb(self, scope: Sequence[str]) -> Pair:
        """The best of several climbs, one column at a time, with the columns outside the scope equal."""
        best, found = -1.0, ([0] * len(self.columns), [0] * len(self.columns))
        for _ in range(STARTS if self.size < MANY else 1):
            one, two = ([int(w) % len(self.values[c]) for c, w in self._words()] for _ in range(2))
            two = [j if c[0] in scope else i for c, i, j in zip(self.columns, one, two, strict=True)]
            value, before = self._sweep(one, two, scope), -1.0
            while value > before * (1 + 1e-9) + 1e-12:
                before, value = value, self._sweep(one, two, scope)
            if value > best:
                best, found = value, (one, two)
        return Pair(tuple(scope), self._record(found[0]), self._record(found[1]))

    def _words(self) -> list[tuple[tuple[str, str], np.uint64]]:
        """A random word for each column."""
        return list(zip(self.columns, self._randomness.words(len(self.columns)), strict=True))

    def _sweep(self, one: list[int], two: list[int], scope: Sequence[str]) -> float:
        z, w = self._vector(one), self._vector(two)
        value = 0.0
        for at in np.argsort([word for _, word in self._words()]):
            column = self.columns[at]
            where, codes = self.codes[column]
            count = len(codes)
            i, j = (v.ravel() for v in np.meshgrid(np.arange(count), np.arange(count)))
            if column[0] not in scope:
                i = j = np.arange(count)
            zs, ws = np.repeat(z[None], len(i), 0), np.repeat(w[None], len(i), 0)
            zs[:, where], ws[:, where] = codes[i], codes[j]
            values = self.loss(zs, ws)
            top = int(np.argmax(values))
            value, z, w = float(values[top]), zs[top], ws[top]
            one[at], two[at] = int(i[top]), int(j[top])
        return value

    def _vector(self, chosen: list[int]) -> Floats:
        out = np.ones(self.session.plan.layout.width)
        for column, i in zip(self.columns, chosen, strict=True):
            where, codes = self.codes[column]
            out[where] = codes[i]
        return out

    def _record(self, chosen: list[int]) -> Record:
        out: Record = {}
        for (party, name), i in zip(self.columns, chosen, strict=True):
            out.setdefault(party, {})[name] = self.values[party, name][i]
        return out


def _coordinates(session: SessionPlan, party: str, name: str, raw: list[Any]) -> tuple[Integers, Floats]:
    """Where a column stands in the record's vector, and what each raw value is there."""
    columns = session.agreement.schema.parties[party]
    bound = session.grid.bound
    frame = {o: raw if o == name else [middle(column, bound)] * len(raw) for o, column in columns.items()}
    # Whether a number is missing moves with it.
    moved = {name, indicator_name(name)} if columns[name].missing == INDICATOR else {name}
    encoded = table_from(party, pl.DataFrame(frame), columns).encode(session.plan.layout, session.grid, COINS)
    rows = np.asarray(encoded.rows(0, len(raw)), dtype=np.float64) / session.grid.bound
    layout, refs = session.plan.layout, {ColumnRef(party, each) for each in moved}
    here = np.array([layout.attributes[i].ref in refs for i in layout.attribute_of[session.columns_of(party)]])
    return session.columns_of(party).start + np.flatnonzero(here), rows[:, here]


def tables_with(session: SessionPlan, records: Sequence[Record], rows: int) -> dict[str, Table]:
    """All parties' tables: these records first, then records from the middle of the schema, as a file would give."""
    out = {}
    for party, columns in session.agreement.schema.parties.items():
        frame = {
            name: [r[party].get(name) for r in records] + [middle(column, session.grid.bound)] * (rows - len(records))
            for name, column in columns.items()
        }
        out[party] = table_from(party, pl.DataFrame(frame), columns)
    return out


def exact_vector(session: SessionPlan, tables: Mapping[str, Table]) -> Integers:
    """The integers that a session on these tables would open if there were no noise.

    A party's own come from the sums and the excess that it keeps beside its columns, as in a session: the columns
    themselves are copies in which a number may have wrapped. Products of two parties are of these copies.
    """
    record, out = (
        np.zeros((session.rows, session.plan.layout.width), dtype=np.int64),
        np.zeros(session.length, np.int64),
    )
    for name in session.parties:
        columns = tables[name].encode(session.plan.layout, session.grid, COINS)
        own, sums = session.columns_of(name), columns.sums
        record[:, own] = columns.rows(0, session.rows)
        for i in session.own(name):
            out[session.positions[i]] = exact_block(session.own_block(i), sums, own.start).values
        for i in session.shared_sums(name):
            out[session.positions[i]] += own_square(session.plan.blocks[i].block, sums, own.start, session.spec.gain)
    products = record.T @ record
    for i, item in enumerate(session.plan.blocks):
        if not item.block.single:
            # Squares in a sum of two owners' terms are their owners' own.
            pairs = item.block.factors[:, -2:]
            crossed = pairs[pairs[:, 0] != pairs[:, 1]] if item.block.summed else pairs
            values = session.spec.gain * products[crossed[:, 0], crossed[:, 1]]
            out[session.positions[i]] += values.sum(keepdims=True) if item.block.summed else values
    return out
