"""Integer columns that keep what every promise rests on: the one type that sums, products and chains take.

Coded records come in blocks, from this thread, another one or a worker elsewhere. `verify_block` looks at each before
anything of it is stored or added up, and fails by a defect of the program alone: values were projected before
(`data/gate.py`). `IntegerColumns` are made of verified blocks, and of what a party makes of its verified columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import BrokenColumns
from colonnade.foundation.proven import proven
from colonnade.foundation.sums import Floats, Sums, SumsOfBlocks

Rows = NDArray[np.int16]
Make = Callable[[int, Rows], Rows]
"""Further columns of records, the first of which has this number, from their columns."""

EXACT_SINGLE = 2**24
"""Below it single precision holds every integer."""
AT_ONCE = 1 << 17
"""Entries looked at together: what a second-level cache holds."""
FOLDED = 2048
"""Entries that a least and a largest number are taken of side by side, whatever the width."""
FLOAT_SLACK = 1e-9
"""Of what is compared as floats, beside its size."""
LARGEST_KEPT = 1 << 28
"""Bytes of columns that a party keeps rather than makes anew each time they are read."""
MADE_AT_ONCE = 1 << 14  # rows of made columns stay in a cache


@dataclass(frozen=True)
class CodedShape:
    """What coordinates a party's coded records have, in their order; small enough to be sent to a worker."""

    bound: int
    width: int
    simplexes: tuple[tuple[int, int], ...] = ()
    """First and last but one place of each column with levels: one coordinate is the bound, all others are 0."""
    indicators: tuple[int, ...] = ()
    """0 or the bound: the paper's features."""
    signs: tuple[int, ...] = ()
    """The bound or its negative: a binary label in one coordinate."""
    halves: int | None = None
    """The upper half of a numeric label; the lower stands before it, and both add up to the bound."""
    rounded: tuple[int, ...] = ()
    """Numbers, and the upper half: the only coordinates that rounding enlarges."""
    signed: tuple[int, ...] = ()
    """The features that a declared norm is about."""
    longest: float | None = None
    """The length of these in any record, on the grid, where a norm is declared."""

    @cached_property
    def least(self) -> NDArray[np.int16]:
        """The least that each coordinate may be."""
        out = np.full(self.width, -self.bound, np.int16)
        for start, stop in self.simplexes:
            out[start:stop] = 0
        out[list(self.indicators)] = 0
        if self.halves is not None:
            out[self.halves - 1 : self.halves + 1] = 0
        return out

    @cached_property
    def flat(self) -> NDArray[np.intp]:
        """Places of coordinates that are 0 or the bound."""
        found = [place for start, stop in self.simplexes for place in range(start, stop)]
        return np.array([*found, *self.indicators], np.intp)

    @cached_property
    def exact(self) -> NDArray[np.intp]:
        """Places of coordinates that no rounding enlarges."""
        return np.setdiff1d(np.arange(self.width), self.rounded)


@dataclass(frozen=True, repr=False)
class CodedBlock:
    """Some records as integers, and what was added up as they were made."""

    rows: Rows
    products: Floats
    """Sums of products of all columns and of the constant 1, which is written as the bound; the constant first."""
    excess: Floats
    """By how much rounding is expected to have enlarged each column's sum of squares."""


def runs_of(places: Iterable[int]) -> list[tuple[int, int]]:
    """Neighbouring places as (start, stop)."""
    out: list[tuple[int, int]] = []
    for place in places:
        if out and out[-1][1] == place:
            out[-1] = out[-1][0], place + 1
        else:
            out.append((place, place + 1))
    return out


def _require(holds: bool | np.bool_, told: str) -> None:
    if not holds:
        raise BrokenColumns(f"coded records must have {told}, and have not")


@lru_cache(maxsize=8)
def _signs(count: int) -> NDArray[np.float64]:
    """Fixed signs without a pattern; they need be neither secret nor unpredictable, for nobody aims at them here."""
    data = hashlib.shake_256(b"signs of columns").digest(-(-count // 8))
    return 2.0 * np.unpackbits(np.frombuffer(data, np.uint8))[:count].astype(np.float64) - 1.0


@proven("bounds")
def verify_block(shape: CodedShape, block: CodedBlock) -> None:
    """Raise BrokenColumns unless these records, sums and excess are such as every promise assumes.

    Domain: a block from anywhere.
    Unit: integers of the grid.
    Guarantee: what passes has the range, levels, halves, norm and sums that sensitivities assume. Proof: bounds,
        verification.
    """
    rows, products, excess = block.rows, block.products, block.excess
    n, width, unit = len(rows), shape.width, shape.bound * shape.bound
    _require(rows.dtype == np.int16 and rows.shape == (n, width), f"{width} small integers each")
    _require(products.dtype == np.float64 and products.shape == (width + 1, width + 1), "a sum for each pair")
    _require(excess.dtype == np.float64 and excess.shape == (width,), "an excess for each column")
    rows = np.ascontiguousarray(rows)
    least, most = _extremes(rows)
    _require((least >= shape.least).all() and (most <= shape.bound).all(), "entries within their bounds")
    # Freivalds' check: s'(Z'Z)s = |Zs|^2 for fixed signs s, in integers; entries that are no number come through it.
    signs = _signs(width + 1)
    here, turned = products @ signs, signs @ products
    whole = bool(np.isfinite(here).all()) and np.array_equal(here, np.rint(here))
    _require(whole and np.array_equal(here, turned), "integer sums of pairs")
    _require(int(signs.astype(np.int64) @ here.astype(np.int64)) == _length(rows, shape, signs), "sums of their own")
    _require(products[0, 0] == n * unit, "their number as the first sum")
    sums, squares = products[0, 1:], products.diagonal()[1:]
    # Entries from 0 to B are 0 or B where the sum of z(B - z) is 0.
    _require(np.array_equal(squares[shape.flat], sums[shape.flat]), "indicators that are 0 or the bound")
    for start, stop in shape.simplexes:
        # The levels of a record add up to B in each: their sum's mean is B and its mean square B^2.
        own = products[start + 1 : stop + 1, start + 1 : stop + 1]
        _require(sums[start:stop].sum() == n * unit == own.sum(), "one level of each column")
    for place in shape.signs:
        _require(squares[place] == n * unit, "a label that is plus or minus the bound")
    if (upper := shape.halves) is not None:
        # The sum of (u + l - B)^2.
        ends = squares[upper] + squares[upper - 1] + 2 * products[upper + 1, upper] + n * unit
        _require(ends == 2 * (sums[upper] + sums[upper - 1]), "halves that add up to the bound")
    slack = FLOAT_SLACK * (n + 1)
    _require(not excess[shape.exact].any(), "no excess where nothing is rounded")
    _require(((excess >= -slack) & (excess <= n / 4 + slack)).all(), "an excess of at most a quarter each")
    if shape.longest is not None and len(shape.signed):
        squared = np.square(rows[:, list(shape.signed)], dtype=np.float64).sum(axis=1).max(initial=0.0)
        _require(np.sqrt(squared) <= shape.longest * (1 + FLOAT_SLACK), "features within their norm")


def _extremes(rows: Rows) -> tuple[Rows, Rows]:
    """The least and the largest entry of each column; several narrow rows are taken as one."""
    n, width = rows.shape
    if not rows.size:
        return np.zeros(width, np.int16), np.zeros(width, np.int16)
    fold = max(1, FOLDED // width)
    whole = n // fold * fold
    parts = [part for part in (rows[:whole].reshape(-1, fold * width), rows[whole:]) if len(part)]
    least = [part.min(axis=0).reshape(-1, width).min(axis=0) for part in parts]
    most = [part.max(axis=0).reshape(-1, width).max(axis=0) for part in parts]
    return np.minimum.reduce(least), np.maximum.reduce(most)


def _length(rows: Rows, shape: CodedShape, signs: Floats) -> int:
    """|Zs|^2, the constant among the columns; int64 holds it, as n times the square of the L1 norm of a record."""
    n, width = rows.shape
    single = (width + 1) * shape.bound < EXACT_SINGLE
    weights, first = signs[1:].astype(np.float32 if single else np.float64), int(signs[0]) * shape.bound
    step = max(1, AT_ONCE // max(1, width))
    total = 0
    for start in range(0, n, step):
        turned = (rows[start : start + step].astype(weights.dtype) @ weights).astype(np.int64) + first
        total += int(turned @ turned)
    return total


class RowStore(Protocol):
    """Where integer rows lie: in memory or on disk."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def append(self, rows: Rows) -> None: ...

    def rows(self, start: int, stop: int) -> Rows:
        """Rows [start, stop), all columns, in C order."""
        ...


class _MadeRows:
    """Verified columns with further ones behind, which are made of them as they are read, and kept if they are few."""

    def __init__(self, columns: IntegerColumns, make: Make, width: int) -> None:
        self._columns, self._make, self._width = columns, make, width
        self._kept: Rows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        rows, width = self._columns.shape
        return rows, width + self._width

    def append(self, rows: Rows) -> None:
        raise BrokenColumns("made columns must have the records of those that they are made of")

    def rows(self, start: int, stop: int) -> Rows:
        n, width = self.shape
        if 2 * n * width > LARGEST_KEPT:
            return self._made(start, stop)
        if self._kept is None:
            kept = np.empty((n, width), np.int16)
            for at in range(0, n, MADE_AT_ONCE):
                kept[at : at + MADE_AT_ONCE] = self._made(at, min(n, at + MADE_AT_ONCE))
            self._kept = kept
        return self._kept[start:stop]

    def _made(self, start: int, stop: int) -> Rows:
        encoded = self._columns.rows(start, stop)
        made = self._make(start, encoded)
        _require(made.dtype == np.int16 and made.shape == (len(encoded), self._width), "all columns that are made")
        least, most = int(made.min(initial=0)), int(made.max(initial=0))
        _require(max(-least, most) <= self._columns.bound, "products within their bounds")
        return np.concatenate([encoded, made], axis=1)


_MINT = object()


@final
class IntegerColumns:
    """A party's verified integer columns, and their sums; made by `of_blocks` and `with_made` alone."""

    __slots__ = ("_store", "bound", "sums")

    def __init__(self, mint: object, store: RowStore, bound: int, sums: Sums) -> None:
        if mint is not _MINT:
            raise BrokenColumns("integer columns must be made of verified blocks")
        self._store = store
        self.bound = bound
        """No entry is farther from 0."""
        self.sums = sums
        """Of products, the constant first; of made columns their sums alone."""

    @property
    def shape(self) -> tuple[int, int]:
        return self._store.shape

    def rows(self, start: int, stop: int) -> Rows:
        """Rows [start, stop), all columns, in C order."""
        return self._store.rows(start, stop)

    @classmethod
    def of_blocks(cls, shape: CodedShape, blocks: Iterable[CodedBlock], store: RowStore) -> IntegerColumns:
        """All records, block after block; each is verified before a row of it is stored or a sum added."""
        total = SumsOfBlocks(shape.width, shape.halves)
        for block in blocks:
            verify_block(shape, block)
            store.append(block.rows)
            total.add(block.products, block.excess)
        return cls(_MINT, store, shape.bound, total.total)

    def with_made(self, make: Make, width: int) -> IntegerColumns:
        """These columns with so many behind that are made of them; the range of each is verified as it is made."""
        store = _MadeRows(self, make, width)
        n, own = self.shape
        sums = np.zeros(width, np.int64)
        for start in range(0, n, MADE_AT_ONCE):
            sums += store.rows(start, min(n, start + MADE_AT_ONCE))[:, own:].sum(axis=0, dtype=np.int64)
        return IntegerColumns(_MINT, store, self.bound, self.sums.followed_by(self.bound * sums))

    def __repr__(self) -> str:
        return f"IntegerColumns{self.shape}"
