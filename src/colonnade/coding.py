"""A block of a party's records on the grid: numbers and level codes in, integer rows and their sums of products out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.grid import Grid
from colonnade.foundation.schema import Column, Numeric
from colonnade.mechanism.moments import Attribute, Floats, Kind, Role
from colonnade.spool import Values

_CACHED = 1 << 17
"""Floats worked on at once: what a second-level cache holds."""
_SHORTEST = 1024
_FAR = 2.0**30


@dataclass(frozen=True)
class Coding:
    """How one party's records become integers; public, and small enough to be sent to a worker."""

    party: str
    columns: Mapping[str, Column]
    attributes: tuple[Attribute, ...]
    grid: Grid
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

    def write(self, values: Mapping[str, Values], out: Floats, inside: Collection[str] = ()) -> None:
        """The coordinates, one in each row of `out`, of as many records as it has columns.

        `inside` names columns all of whose numbers lie within their bounds.
        """
        place = 0
        for attribute, (name, level) in zip(self.attributes, self.sources, strict=True):
            rows = out[place : place + attribute.size]
            place += attribute.size
            column = self.columns[name]
            if level is None and isinstance(column, Numeric) and not column.bins:
                self._number(column, attribute, values[name], rows, name in inside)
                continue
            codes = column.codes(np.asarray(values[name], np.float64)) if isinstance(column, Numeric) else values[name]
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

    def _number(self, column: Numeric, attribute: Attribute, values: Values, rows: Floats, inside: bool) -> None:
        """What Grid.signed or Grid.halves make of Numeric.signed, in place and in few steps."""
        signed, half, middle = rows[-1], column.high / 2 - column.low / 2, column.low / 2 + column.high / 2
        halves = attribute.role is Role.LABEL and attribute.size == 2
        reach = self.grid.bound / 2 if halves else float(self.grid.bound)
        if half > 0 and isfinite(reach / half):
            if middle:
                np.subtract(values, middle, out=signed)
                signed *= reach / half
            else:
                np.multiply(values, reach / half, out=signed)
        else:
            np.multiply(column.signed(np.asarray(values, np.float64)), reach, out=signed)
        # Numbers inside reach their bound and, rounded, stay there, unless the middle itself was rounded far.
        if not inside or abs(middle) > _FAR * half:
            np.clip(signed, -reach, reach, out=signed)
        if halves:
            signed += reach
        np.rint(signed, out=signed)
        if halves:
            np.subtract(self.grid.bound, signed, out=rows[0])

    def _shorten(self, out: Floats, reach: float) -> None:
        """Records whose signed features are longer than `reach` are shortened and cut towards zero, so as to fit."""
        signed = [a.kind is Kind.SIGNED and a.role is Role.FEATURE for a in self.attributes]
        own = np.flatnonzero(np.repeat(signed, [a.size for a in self.attributes]))
        length = np.sqrt(np.square(out[own]).sum(axis=0))
        long = np.flatnonzero(length > reach)
        if len(long):
            out[np.ix_(own, long)] = np.trunc(out[np.ix_(own, long)] * (reach / length[long]))


def code_block(
    coding: Coding, values: Mapping[str, Values], rows: int, inside: Collection[str] = ()
) -> tuple[NDArray[np.int16], Floats]:
    """A block's integer rows, and the sums of products of all columns and of the constant 1, written as the bound.

    float64 holds every partial sum exactly: entries are below 2^11, so n may reach 2^31.
    """
    width = coding.width
    step = max(_SHORTEST, _CACHED // (width + 1))
    integers = np.empty((rows, width), dtype=np.int16)
    gram = np.zeros((width + 1, width + 1))
    whole = np.full((width + 1, min(step, rows)), float(coding.grid.bound))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        floats = whole if stop - start == whole.shape[1] else np.ascontiguousarray(whole[:, : stop - start])
        coding.write({name: column[start:stop] for name, column in values.items()}, floats[1:], inside)
        integers[start:stop] = floats[1:].T
        gram += floats @ floats.T
    return integers, gram
