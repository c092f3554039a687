"""Looks for a value that gets past the gate of bounds, or that ends a session: random expressions, columns and values.

    python -m audit.derived [--cases 100000] [--seed 1] [--json]

Each case is a random expression of a party's numbers: every function, nested, with factors up to the edges of float64,
some aimed at the last bit of a bound and at products of 0 with infinity. Those that a study may declare become columns,
some with bins, beside columns of every other kind; one is the label. Values are hostile: outside the bounds, infinite,
no number, codes of no level. All are coded as a session codes them. It fails where an integer leaves its bounds, a sum
is not that of the integers, or anything is raised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log1p

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.data.reading import filed
from colonnade.data.table import Table, table_from
from colonnade.foundation.derived import Derived, derive_columns
from colonnade.foundation.errors import ColonnadeError, SchemaError, StudyError
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.schema import Binary, Boolean, Categorical, Column, Date, Numeric, Schema, Storage
from colonnade.mechanism.moments import Encoding, Layout, Role
from colonnade.mechanism.objective import Calibration, Task, layout_of

TOGETHER = 40
"""Expressions that become columns of one table."""
ROWS = 24
PARTY = "p"
COINS = bytes(range(32))
EDGES = (0.0, 5e-324, 1e-310, 2.3e-308, 1e-16, 1e-9, 0.1, 0.5, 1.0, 3.0, 120.0, 94_906.0, 2.0**53, 1e16, 1e154, 8e307)
"""Bounds, knots and factors, with either sign."""
HOSTILE = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.7e308, -1.7e308, 5e-324, -5e-324, 1.0, -1.0)


@dataclass
class Found:
    """What a search came across."""

    counts: Counter[str]
    failures: list[str]


class Expressions:
    """Random texts in the grammar of foundation/expressions.py."""

    def __init__(self, draw: np.random.Generator, columns: dict[str, Column]) -> None:
        self._draw, self._columns = draw, columns

    def text(self) -> str:
        """Mostly any; some of the kinds that left their bounds before there was a gate."""
        kind = self._draw.random()
        name = self._name()
        if kind < 0.04:
            high = self._columns[name].require_bounds()[1]
            knot = f"{log1p(high):.17g}" if high > -1 else "0"
            return f"hinge(log1p({name}), {knot}) * {self._factor()} + {self._name()}"
        if kind < 0.08:
            return f"hinge({name} * {self._factor()}, {self._constant()}) * 0 + {self._name()}"
        if kind < 0.12:
            return f"{name}^{self._draw.integers(1, 10)} * {self._factor()} + {self._name()}"
        return self._any(int(self._draw.integers(1, 5)))

    def _name(self) -> str:
        return str(self._draw.choice(list(self._columns)))

    def _constant(self) -> str:
        value = float(self._draw.choice(EDGES)) if self._draw.random() < 0.5 else float(self._draw.normal())
        return f"{abs(value):.17g}"

    def _factor(self) -> str:
        return f"{self._draw.random():.3f}e{self._draw.integers(0, 309)}"

    def _any(self, depth: int) -> str:
        if depth == 0:
            return self._name() if self._draw.random() < 0.7 else self._constant()
        inner = self._any(depth - 1)
        match int(self._draw.integers(8)):
            case 0 | 1:
                return f"({inner} {self._draw.choice(['+', '-'])} {self._any(depth - 1)})"
            case 2 | 3:
                return f"({inner} * {self._any(depth - 1)})"
            case 4:
                return f"({inner})^{self._draw.integers(1, 10)}"
            case 5:
                return f"log1p({inner})"
            case 6:
                return f"sqrt({inner})"
            case _:
                sign = self._draw.choice(["", "-"])
                return f"hinge({inner}, {sign}{self._constant()})"


def _bounds(draw: np.random.Generator) -> tuple[float, float]:
    while True:
        low, high = sorted(float(v) for v in draw.choice([-1.0, 1.0], 2) * draw.choice(EDGES, 2))
        if low < high and np.isfinite(high - low):
            return low, high


def _cuts(draw: np.random.Generator, low: float, high: float) -> tuple[float, ...]:
    inner = sorted({float(low + share * (high - low)) for share in draw.random(3)})
    return tuple(cut for cut in inner if low < cut < high)


def _kinds(draw: np.random.Generator) -> dict[str, Column]:
    """A column of every kind that a file may have."""
    low, high = _bounds(draw)
    whole = int(draw.choice([1, 5, 1000, 2**53]))
    return {
        "plain": Numeric(low, high),
        "binned": Numeric(low, high, _cuts(draw, low, high)),
        "whole": Numeric(-whole, whole, integer=True),
        "day": Date("1900-01-01", "2099-12-31"),
        "cut day": Date("1900-01-01", "2099-12-31", ("1950-01-01", "2000-06-30")),
        "flag": Boolean(),
        "sex": Binary(("f", "m")),
        "job": Categorical(tuple(f"job {i}" for i in range(int(draw.integers(2, 40)))), other=bool(draw.integers(2))),
    }


def _derived(
    draw: np.random.Generator, sources: dict[str, Column], counts: Counter[str]
) -> Iterator[tuple[str, Column]]:
    write = Expressions(draw, sources)
    for number in range(TOGETHER):
        text, name = write.text(), f"d{number}"
        try:
            ((_, column),) = derive_columns({name: text}, sources, "derived").items()
            if isinstance(column, Derived) and draw.random() < 0.2:
                column = replace(column, bins=_cuts(draw, column.low, column.high))
        except SchemaError:
            counts["refused at declaration"] += 1
            continue
        counts["accepted"] += 1
        yield name, column


def _stored(draw: np.random.Generator, column: Column) -> NDArray[np.float64] | NDArray[np.int32]:
    """Values as a table may hold them, or as no table should."""
    if column.storage is Storage.LEVELS:
        return draw.integers(-3, len(column.all_levels) + 3, ROWS).astype(np.int32)
    low, high = column.require_bounds()
    at = draw.choice([low, high, np.nextafter(high, np.inf), np.nextafter(low, -np.inf), low / 2 + high / 2], ROWS)
    inside = low + draw.random(ROWS) * (high - low)
    kind = draw.random(ROWS)
    out: NDArray[np.float64] = np.where(kind < 0.3, at, np.where(kind < 0.7, inside, draw.choice(HOSTILE, ROWS)))
    return out


def _table(draw: np.random.Generator, columns: dict[str, Column]) -> Table:
    """By the reader where it takes such values, and past it otherwise: the gate believes nobody."""
    if draw.random() < 0.3:
        frame = {}
        for name in filed(columns):
            column = columns[name]
            if column.storage is Storage.LEVELS:
                frame[name] = draw.choice(column.all_levels, ROWS)
            elif column.dated:
                frame[name] = draw.choice(["1899-12-31", "1970-01-01", "2100-01-01"], ROWS)
            else:
                frame[name] = np.nan_to_num(_stored(draw, column), nan=1e300, posinf=np.inf, neginf=-np.inf)
        return table_from(PARTY, pl.DataFrame(frame), columns)
    values = {name: _stored(draw, columns[name]) for name in filed(columns)}
    for name, column in columns.items():
        if column.sources:
            values[name] = column.compute(values, columns)
    return Table(PARTY, columns, values, ROWS)


def _layout(draw: np.random.Generator, columns: dict[str, Column]) -> Layout | None:
    """The coordinates of a random release of these columns."""
    label = str(draw.choice(list(columns)))
    column = columns[label]
    calibration = Calibration.PAPER if draw.random() < 0.2 else Calibration.EXACT
    if column.has_levels:
        two = column.positive is not None
        task = Task.LOGISTIC if two and draw.random() < 0.7 else Task.MULTINOMIAL
    else:
        task = Task.LINEAR
    # A plan splits the label of the paper's formulas, and norms serve unsplit ones alone.
    split = bool(draw.integers(2)) or task is Task.MULTINOMIAL or calibration is Calibration.PAPER
    norms = {PARTY: float(draw.choice([0.01, 0.5, 2.0]))} if draw.random() < 0.4 else {}
    try:
        return layout_of(Schema({PARTY: columns}, norms), label, task, calibration, split=split)
    except StudyError:
        return None


def broken(layout: Layout, found: IntegerColumns, grid: Grid) -> list[str]:
    """What of the integers, or of their sums, no promise allows; found without the gate's own functions."""
    rows, bound = found.rows(0, ROWS).astype(np.int64), grid.bound
    record = np.concatenate([np.full((len(rows), 1), bound, np.int64), rows], axis=1)
    out = [] if len(rows) == ROWS and np.abs(rows).max() <= bound else ["an integer outside its bounds"]
    if not (found.sums.products == record.T @ record).all():
        out.append("sums that are not those of the rows")
    excess = found.sums.excess
    if not ((excess >= -1e-6) & (excess <= ROWS / 4 + 1e-6)).all():
        out.append("an excess that no rounding makes")
    place, signed = 0, []
    for attribute in layout.attributes:
        own = rows[:, place : place + attribute.size]
        if attribute.kind is Encoding.SIMPLEX and not ((own >= 0).all() and (own.sum(axis=1) == bound).all()):
            out.append(f"coordinates of {attribute.of} that do not add up")
        if attribute.kind is Encoding.SIGNED and attribute.role is Role.FEATURE:
            signed.append(place)
        place += attribute.size
    if norm := dict(layout.norms).get(PARTY):
        longest = float(np.sqrt(np.square(rows[:, signed]).sum(axis=1).max(initial=0)))
        if longest > rounded_norm(norm, len(signed), bound) * bound * (1 + 1e-9):
            out.append("a record beyond its norm")
    return out


def search(cases: int, seed: int) -> Found:
    """So many expressions, and tables of every kind of column."""
    draw = np.random.default_rng(seed)
    found = Found(Counter(), [])
    while found.counts["expressions"] < cases:
        sources: dict[str, Column] = {name: Numeric(*_bounds(draw)) for name in ("a", "b", "c")}
        columns = sources | _kinds(draw)
        columns |= dict(_derived(draw, sources, found.counts))
        found.counts["expressions"] += TOGETHER
        if (layout := _layout(draw, columns)) is None:
            continue
        grid = Grid(int(draw.choice([1, 2, 7, 127, 2047])))
        try:
            table = _table(draw, columns)
            for name, column in columns.items():
                if column.sources:
                    computed, (low, high) = np.asarray(table.values[name]), column.require_bounds()
                    found.counts["with a value that is no number"] += bool(np.isnan(computed).any())
                    found.counts["with a value outside the bounds"] += bool(
                        ((computed < low) | (computed > high)).any()
                    )
            wrong = broken(layout, table.encode(layout, grid, COINS), grid)
        except (ColonnadeError, ArithmeticError, ValueError, TypeError, IndexError) as error:
            wrong = [f"a session ended: {type(error).__name__}: {error}"]
        found.counts["tables"] += 1
        found.failures += wrong
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m audit.derived", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    started = time.process_time()
    found = search(options.cases, options.seed)
    told = {**found.counts, "failures": len(found.failures), "cpu_seconds": round(time.process_time() - started, 1)}
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write("".join(f"{what}: {count:,}\n" for what, count in told.items()))
    sys.stderr.write("".join(f"{told}\n" for told in list(dict.fromkeys(found.failures))[:20]))
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
