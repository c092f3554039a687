"""A block of a party's records on the grid: numbers and level codes in, integer rows and their sums of products out.

Numbers are rounded up or down at random, by coins of the row, so that the mean is the number itself: rounding to the
nearest would move every sum of a column that takes few values to the same side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.data.store import Values
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.proof import proven
from colonnade.foundation.randomness import Stream
from colonnade.foundation.schema import Column
from colonnade.foundation.sums import Sums
from colonnade.mechanism.moments import Attribute, Encoding, Floats, Role

_CACHED = 1 << 17
"""Floats worked on at once: what a second-level cache holds."""
_SHORTEST = 1024
_FAR = 2.0**8
"""Where the middle of the bounds is this many times farther from 0 than they are apart, its rounding may show."""
Coins = NDArray[np.uint32]


@dataclass(frozen=True)
class Coding:
    """How one party's records become integers; small enough to be sent to a worker."""

    party: str
    columns: Mapping[str, Column]
    attributes: tuple[Attribute, ...]
    grid: Grid
    coins: bytes
    """Key of the stream that decides which numbers are rounded up. It keeps no secret: any fixed coins are private."""
    norm: float | None = None
    """The declared L2 norm of the signed features in each record, in [-1, 1] units."""

    @cached_property
    def width(self) -> int:
        return sum(a.size for a in self.attributes)

    @cached_property
    def sources(self) -> tuple[tuple[str, int | None], ...]:
        """For each attribute its column, and of the paper's features, which are single indicators, the level."""
        found: list[tuple[str, int | None]] = []
        for attribute in self.attributes:
            name = attribute.name.removeprefix(f"{self.party}.")
            if name in self.columns:
                found.append((name, None))
            else:
                name, _, level = name.rpartition("=")
                found.append((name, int(level)))
        return tuple(found)

    @cached_property
    def rounded(self) -> tuple[int, ...]:
        """Coordinates that hold numbers between grid points: signed numbers, and the upper half of a numeric label."""
        out, place = [], 0
        for attribute, (name, level) in zip(self.attributes, self.sources, strict=True):
            place += attribute.size
            column = self.columns[name]
            if level is None and not column.has_levels:
                out.append(place - 1)
        return tuple(out)

    @cached_property
    def halves(self) -> int | None:
        """The upper half of a numeric label that is carried as two halves, which add up to the bound."""
        place = 0
        for attribute in self.attributes:
            place += attribute.size
            if attribute.role is Role.LABEL and attribute.size == 2 and place - 1 in self.rounded:
                return place - 1
        return None

    @cached_property
    def _signed(self) -> NDArray[np.intp]:
        signed = [a.kind is Encoding.SIGNED and a.role is Role.FEATURE for a in self.attributes]
        return np.flatnonzero(np.repeat(signed, [a.size for a in self.attributes]))

    def toss(self, start: int, stop: int) -> Coins:
        """The coins of these rows, one for each rounded coordinate: odd, so that a number on the grid stays there."""
        per_row = 4 * len(self.rounded)
        first = start * per_row // 16 * 16
        data = Stream(self.coins, first).bytes(stop * per_row - first)
        coins = np.frombuffer(data, np.uint32)[(start * per_row - first) // 4 :].copy()
        coins |= np.uint32(1)
        return coins.reshape(stop - start, len(self.rounded))

    def write(self, values: Mapping[str, Values], out: Floats, coins: Coins, inside: Collection[str] = ()) -> Floats:
        """The coordinates, one in each row of `out`, of as many records as it has columns.

        `inside` names columns all of whose numbers lie within their bounds. Returns for each coordinate by how much
        rounding is expected to have enlarged the sum of its squares.
        """
        place = 0
        for attribute, (name, level) in zip(self.attributes, self.sources, strict=True):
            rows = out[place : place + attribute.size]
            place += attribute.size
            column = self.columns[name]
            if level is None and not column.has_levels:
                self._number(column, attribute, values[name], rows[-1], name in inside)
                continue
            codes = column.codes(values[name])
            if level is not None:
                np.multiply(codes == level, self.grid.bound, out=rows[0])
            elif attribute.role is Role.LABEL and attribute.size == 1:
                # A binary label in one coordinate is carried as 1 - 2y.
                rows[0] = np.where(codes == 1, -self.grid.bound, self.grid.bound)
            else:
                rows.fill(0)
                rows[codes, np.arange(rows.shape[1])] = self.grid.bound
        if self.norm is not None:
            self._shorten(out, self.norm * self.grid.bound)
        enlarged = self._round(out, coins)
        if self.norm is not None:
            self._cut(out, rounded_norm(self.norm, len(self._signed), self.grid.bound) * self.grid.bound)
        if self.halves is not None:
            np.subtract(self.grid.bound, out[self.halves], out=out[self.halves - 1])
        return enlarged

    def _number(self, column: Column, attribute: Attribute, values: Values, signed: Floats, inside: bool) -> None:
        """Bounds become plus and minus the bound of the grid; of a label in halves, the bound and 0."""
        low, high = column.require_bounds()
        half, middle = high / 2 - low / 2, low / 2 + high / 2
        halves = attribute.role is Role.LABEL and attribute.size == 2
        reach = self.grid.bound / 2 if halves else float(self.grid.bound)
        if half > 0 and isfinite(reach / half):
            # A number beyond all floats is clipped below, as any other outside the bounds.
            with np.errstate(over="ignore"):
                if middle:
                    np.subtract(values, middle, out=signed)
                    signed *= reach / half
                else:
                    np.multiply(values, reach / half, out=signed)
        else:
            np.multiply(column.signed(values), reach, out=signed)
        # Numbers inside pass the bound by less than the least coin, unless the middle itself was rounded far.
        if not inside or abs(middle) > _FAR * half:
            np.clip(signed, -reach, reach, out=signed)
        if halves:
            signed += reach

    @proven("rounding")
    def _round(self, out: Floats, coins: Coins) -> Floats:
        """A number s becomes floor(s + u), u uniform: s on average. Its square grows by f(1 - f), f = s - floor(s)."""
        enlarged = np.zeros(self.width)
        first = 0
        for start, stop in _runs(self.rounded):
            numbers = out[start:stop]
            up = np.multiply(coins[:, first : first + stop - start].T, 2.0**-32)
            up += numbers
            np.floor(up, out=up)
            # With e the error, f(1 - f) = |e| - e^2, whichever way the coin fell.
            numbers -= up
            np.abs(numbers, out=numbers)
            enlarged[start:stop] = numbers.sum(axis=1) - np.einsum("ij,ij->i", numbers, numbers)
            numbers[:] = up
            first += stop - start
        return enlarged

    def _shorten(self, out: Floats, reach: float) -> None:
        """Records whose signed features are longer than `reach` are shortened to it."""
        length = np.sqrt(np.square(out[self._signed]).sum(axis=0))
        long = np.flatnonzero(length > reach)
        if len(long):
            out[np.ix_(self._signed, long)] *= reach / length[long]

    def _cut(self, out: Floats, reach: float) -> None:
        """The few records that rounding made longer than the plan counts with are cut towards zero, so as to fit."""
        length = np.sqrt(np.square(out[self._signed]).sum(axis=0))
        long = np.flatnonzero(length > reach)
        if len(long):
            out[np.ix_(self._signed, long)] = np.trunc(out[np.ix_(self._signed, long)] * (reach / length[long]))


def _runs(places: tuple[int, ...]) -> list[tuple[int, int]]:
    """Neighbouring places as (start, stop)."""
    out: list[tuple[int, int]] = []
    for place in places:
        if out and out[-1][1] == place:
            out[-1] = out[-1][0], place + 1
        else:
            out.append((place, place + 1))
    return out


class SumsOfBlocks:
    """Adds up the sums of chunks, and of blocks."""

    def __init__(self, coding: Coding) -> None:
        self._halves = coding.halves
        self.products = np.zeros((coding.width + 1, coding.width + 1))
        self.excess, self._lost = np.zeros(coding.width), np.zeros(coding.width)

    @proven("rounding")
    def add(self, products: Floats, enlarged: Floats) -> None:
        """Kahan's sum of the excess, so that no order of blocks and no other record shows in its last bits."""
        self.products += products
        step = enlarged - self._lost
        total = self.excess + step
        self._lost = (total - self.excess) - step
        self.excess = total

    @property
    def total(self) -> Sums:
        excess = np.concatenate([np.zeros(1), self.excess])
        halves = None if self._halves is None else self._halves + 1
        if halves is not None:
            excess[halves - 1] = excess[halves]
        return Sums(self.products, excess, halves)


def code_block(
    coding: Coding, values: Mapping[str, Values], before: int, rows: int, inside: Collection[str] = ()
) -> tuple[NDArray[np.int16], Floats, Floats]:
    """A block's integer rows, the sums of products of all columns and of the constant 1, written as the bound, and by
    how much rounding is expected to have enlarged the sums of squares. `before` rows came earlier.

    float64 holds every partial sum exactly: entries are below 2^11, so n may reach 2^31.
    """
    width = coding.width
    step = max(_SHORTEST, _CACHED // (width + 1))
    integers = np.empty((rows, width), dtype=np.int16)
    sums = SumsOfBlocks(coding)
    coins = coding.toss(before, before + rows)
    whole = np.full((width + 1, min(step, rows)), float(coding.grid.bound))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        floats = whole if stop - start == whole.shape[1] else np.ascontiguousarray(whole[:, : stop - start])
        here = {name: column[start:stop] for name, column in values.items()}
        enlarged = coding.write(here, floats[1:], coins[start:stop], inside)
        integers[start:stop] = floats[1:].T
        sums.add(floats @ floats.T, enlarged)  # Alg. 1, line 6
    return integers, sums.products, sums.excess
