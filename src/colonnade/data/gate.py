"""The gate of bounds: any numbers and level codes in, integer rows inside their bounds and their sums of products out.

Every value is projected: what lies outside goes to the nearer bound, what is no number to the middle, and a code that
no level has to a level. No value raises, and nobody's word that a column lies inside counts. What comes out is verified
where it is taken (`foundation/integers.py`).

Numbers are rounded up or down at random, by coins of the row, so that the mean is the number itself: rounding to the
nearest would move every sum of a column that takes few values to the same side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.data.store import Values
from colonnade.foundation.columns import Codes
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.integers import CodedBlock, CodedShape, runs_of
from colonnade.foundation.names import Coordinate
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Stream
from colonnade.foundation.schema import Column, Storage
from colonnade.foundation.sums import SumsOfBlocks
from colonnade.mechanism.moments import Attribute, Encoding, Floats, Role

_CACHED = 1 << 17
"""Floats worked on at once: what a second-level cache holds."""
_SHORTEST = 1024  # rows of a piece at least, so that calls do not cost more than work
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
        own = ((a.ref, a.of) for a in self.attributes)
        return tuple((ref.column, of.place if isinstance(of, Coordinate) else None) for ref, of in own if ref)

    @cached_property
    def _levels(self) -> tuple[int, ...]:
        """For each attribute how many levels its column has."""
        return tuple(len(self.columns[name].coordinates(name)) for name, _ in self.sources)

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
    def shape(self) -> CodedShape:
        """What is verified of the records."""
        simplexes, indicators, signs, place = list[tuple[int, int]](), list[int](), list[int](), 0
        for attribute, (name, level) in zip(self.attributes, self.sources, strict=True):
            place += attribute.size
            if level is not None:
                indicators.append(place - 1)
            elif self.columns[name].has_levels and attribute.role is Role.LABEL and attribute.size == 1:
                signs.append(place - 1)
            elif self.columns[name].has_levels:
                simplexes.append((place - attribute.size, place))
        norm, bound, signed = self.norm, self.grid.bound, tuple(self._signed.tolist())
        longest = None if norm is None else rounded_norm(norm, len(signed), bound) * bound
        return CodedShape(
            bound,
            self.width,
            tuple(simplexes),
            tuple(indicators),
            tuple(signs),
            self.halves,
            self.rounded,
            signed,
            longest,
        )

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

    def write(self, values: Mapping[str, Values], out: Floats, coins: Coins) -> Floats:
        """The coordinates, one in each row of `out`, of as many records as it has columns, whatever their values are.

        Returns for each coordinate by how much rounding is expected to have enlarged the sum of its squares.
        """
        place = 0
        for attribute, (name, level), levels in zip(self.attributes, self.sources, self._levels, strict=True):
            rows = out[place : place + attribute.size]
            place += attribute.size
            column = self.columns[name]
            if level is None and not column.has_levels:
                self._number(column, attribute, values[name], rows[-1])
                continue
            codes = project_codes(column.codes(values[name]), levels, column)
            if level is not None:
                np.multiply(codes == level, self.grid.bound, out=rows[0])
            elif attribute.role is Role.LABEL and attribute.size == 1:
                # A binary label in one coordinate is carried as 1 - 2y.
                rows[0] = np.where(codes == 1, -self.grid.bound, self.grid.bound)
            else:
                rows.fill(0)
                rows[codes, np.arange(rows.shape[1])] = self.grid.bound
        self._project(out)
        if self.norm is not None:
            self._shorten(out, self.norm * self.grid.bound)
        enlarged = self._round(out, coins)
        if self.norm is not None:
            self._cut(out, rounded_norm(self.norm, len(self._signed), self.grid.bound) * self.grid.bound)
        if self.halves is not None:
            np.subtract(self.grid.bound, out[self.halves], out=out[self.halves - 1])
        return enlarged

    def _number(self, column: Column, attribute: Attribute, values: Values, signed: Floats) -> None:
        """Bounds become plus and minus the bound of the grid; of a label in halves, the bound and 0."""
        low, high = column.require_bounds()
        half, middle = high / 2 - low / 2, low / 2 + high / 2
        halves = attribute.role is Role.LABEL and attribute.size == 2
        reach = self.grid.bound / 2 if halves else float(self.grid.bound)
        # What leaves all floats here, or is no number, is projected with all others.
        with np.errstate(all="ignore"):
            if half > 0 and isfinite(reach / half):
                if middle:
                    np.subtract(values, middle, out=signed)
                    signed *= reach / half
                else:
                    np.multiply(values, reach / half, out=signed)
            else:
                np.multiply(column.signed(values), reach, out=signed)
            if halves:
                signed += reach

    @cached_property
    def _ranges(self) -> list[tuple[int, int, float]]:
        """Neighbouring coordinates that hold numbers, from and up to which, and the least that they may be."""
        upper = () if self.halves is None else (self.halves,)
        signed = tuple(place for place in self.rounded if place not in upper)
        ends = [(places, low) for places, low in ((signed, -float(self.grid.bound)), (upper, 0.0))]
        return [(*run, low) for places, low in ends for run in runs_of(places)]

    @proven("bounds")
    def _project(self, out: Floats) -> None:
        """Every number into its range: what is none to the middle, what lies outside to the nearer end.

        Domain: any floats, infinite ones and NaN among them.
        Unit: steps of the grid.
        Guarantee: each number lies in [-bound, bound], in [0, bound] for the upper half of a label, and depends
            on its own record alone. Proof: bounds, projection.
        """
        high = float(self.grid.bound)
        for start, stop, low in self._ranges:
            numbers = out[start:stop]
            # The minimum is NaN if any number is: then, too, the comparison fails.
            if numbers.size and not (low <= numbers.min() and numbers.max() <= high):
                np.copyto(numbers, (low + high) / 2, where=np.isnan(numbers))
                np.clip(numbers, low, high, out=numbers)

    @proven("rounding")
    def _round(self, out: Floats, coins: Coins) -> Floats:
        """A number s becomes floor(s + u), u uniform: s on average. Its square grows by f(1 - f), f = s - floor(s).

        Domain: out: projected numbers; coins: odd, one a row and rounded coordinate.
        Unit: steps of the grid.
        Guarantee: the mean is the number but for 2^-32, and |Z| <= bound. Proof: rounding.
        """
        enlarged = np.zeros(self.width)
        first = 0
        for start, stop in runs_of(self.rounded):
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


@proven("bounds")
def project_codes(codes: Codes, levels: int, column: Column) -> Codes:
    """Codes that none of so many levels has become that of the column's fallback.

    Domain: any integers.
    Unit: places of levels.
    Guarantee: every code is that of a level. Proof: bounds, projection.
    """
    if codes.size and not (codes.min() >= 0 and codes.max() < levels):
        # A number with bins has no level of its own for what is none; its codes are made here, and lie inside.
        fallback = column.dropped if column.storage is Storage.NUMBERS else int(column.fallback(missing=False))
        return np.where((codes < 0) | (codes >= levels), np.int32(fallback), codes)
    return codes


def code_block(coding: Coding, values: Mapping[str, Values], before: int, rows: int) -> CodedBlock:
    """A block's integer rows, the sums of products of all columns and of the constant 1, written as the bound, and by
    how much rounding is expected to have enlarged the sums of squares. `before` rows came earlier.

    float64 holds every partial sum exactly: entries are below 2^11, so n may reach 2^31.
    """
    width = coding.width
    step = max(_SHORTEST, _CACHED // (width + 1))
    integers = np.empty((rows, width), dtype=np.int16)
    sums = SumsOfBlocks(width, coding.halves)
    coins = coding.toss(before, before + rows)
    whole = np.full((width + 1, min(step, rows)), float(coding.grid.bound))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        floats = whole if stop - start == whole.shape[1] else np.ascontiguousarray(whole[:, : stop - start])
        here = {name: column[start:stop] for name, column in values.items()}
        enlarged = coding.write(here, floats[1:], coins[start:stop])
        integers[start:stop] = floats[1:].T
        sums.add(floats @ floats.T, enlarged)  # Alg. 1, line 6
    return CodedBlock(integers, sums.products, sums.excess)
