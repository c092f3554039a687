"""Which columns of two parties are multiplied: rectangles that hold the released products, and nothing besides."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from colonnade.crypto.backends import BACKENDS
from colonnade.crypto.product import Cross, Integers, PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import PrivacyError, StudyError
from colonnade.foundation.integers import IntegerColumns
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Layout

Range = tuple[int, int]
"""Columns from the first up to the second, which is left out."""


def span_of(layout: Layout, party: str) -> slice:
    """The coordinates of a party's attributes."""
    own = [i for i, a in enumerate(layout.attributes) if a.owner == party]
    return slice(layout.span(own[0]).start, layout.span(own[-1]).stop)


def crosses_of(layout: Layout, blocks: Sequence[Block], sealed: str | None = None) -> tuple[Cross, ...]:
    """For each pair of parties the columns to multiply; the narrower side seals, for sealed columns travel.

    The party `sealed` seals in all its crosses: the bound for a declared norm covers errors of a sealed label only.
    Everything that is multiplied is opened, so rectangles must not hold a product that has no noise: it is checked.
    """
    parties, out, opened = layout.owners, [], 0
    shared: dict[tuple[str, ...], list[Integers]] = {}
    for block in blocks:
        if not block.single:
            shared.setdefault(block.owners, []).append(layout.attribute_of[block.products[:, -2:]])
            opened += block.size
    for k, first in enumerate(parties):
        for l, second in enumerate(parties):  # noqa: E741 - the paper's k and l
            if k < l and (first, second) in shared:
                needed = _needed(layout, np.concatenate(shared[first, second]), first)
                widths = [sum(layout.attributes[i].size for i in {p[side] for p in needed}) for side in (0, 1)]
                if first == sealed if sealed in (first, second) else widths[0] <= widths[1]:
                    out += [Cross(k, l, *a, *b) for a, b in _rectangles(layout, needed, first, second)]
                else:
                    turned = {(j, i) for i, j in needed}
                    out += [Cross(l, k, *b, *a) for b, a in _rectangles(layout, turned, second, first)]
    if sum(c.shape[0] * c.shape[1] for c in out) != opened:
        raise PrivacyError("a plan would open products that have no noise: its blocks must hold whole attribute pairs")
    return tuple(out)


def _needed(layout: Layout, pairs: Integers, first: str) -> set[tuple[int, int]]:
    """Attribute pairs that two parties share, the first party's attribute in front."""
    code = np.unique(pairs[:, 0] * len(layout.attributes) + pairs[:, 1])
    found = ((int(c) // len(layout.attributes), int(c) % len(layout.attributes)) for c in code)
    return {(i, j) if layout.attributes[i].owner == first else (j, i) for i, j in found}


def _rectangles(layout: Layout, needed: set[tuple[int, int]], left: str, right: str) -> list[tuple[Range, Range]]:
    """Neighbouring attributes of the left party with the same partners, against runs of these partners."""
    partners: dict[int, list[int]] = {}
    for i, j in sorted(needed):
        partners.setdefault(i, []).append(j)
    out = []
    for alike in _runs(sorted(partners), partners):
        out += [
            (_columns(layout, alike, left), _columns(layout, run, right))
            for run in _runs(partners[alike[0]], {j: [] for j in partners[alike[0]]})
        ]
    return out


def _runs(attributes: Sequence[int], partners: dict[int, list[int]]) -> list[list[int]]:
    """Attributes that follow each other and have the same partners, together."""
    marked = [(i - at, partners[i], i) for at, i in enumerate(attributes)]
    return [[i for _, _, i in group] for _, group in groupby(marked, key=lambda m: m[:2])]


def _columns(layout: Layout, run: Sequence[int], party: str) -> Range:
    start = span_of(layout, party).start
    return layout.span(run[0]).start - start, layout.span(run[-1]).stop - start


class CrossPlaces:
    """Finds the place of a cross-party term in the flattened products."""

    def __init__(self, layout: Layout, spec: ProductSpec, start: int) -> None:
        self.layout, self.spec, self.start = layout, spec, start
        self.spans = {party: span_of(layout, party) for party in spec.parties}
        self.grids: dict[frozenset[str], tuple[str, str, Integers]] = {}
        for cross in spec.crosses:
            left, right = spec.parties[cross.left], spec.parties[cross.right]
            widths = [s.stop - s.start for s in (self.spans[left], self.spans[right])]
            _, _, grid = self.grids.setdefault(frozenset((left, right)), (left, right, np.full(widths, -1)))
            size = cross.shape[0] * cross.shape[1]
            grid[cross.left_start : cross.left_stop, cross.right_start : cross.right_stop] = np.arange(
                start, start + size
            ).reshape(cross.shape)
            start += size

    def of(self, block: Block) -> Integers:
        left, right, grid = self.grids[frozenset(block.owners)]
        a, b = block.products[:, -2], block.products[:, -1]
        a_is_left = (a >= self.spans[left].start) & (a < self.spans[left].stop)
        row = np.where(a_is_left, a, b) - self.spans[left].start
        column = np.where(a_is_left, b, a) - self.spans[right].start
        places: Integers = grid[row, column]
        return places


DIGEST_ROWS = 1 << 11  # rows hashed at once stay in a cache; any number gives the same digest


def party_product(name: str, device: str = "cpu", spec: ProductSpec | None = None) -> type[PartyProduct]:
    """A party's side; with a `spec` the one that takes least time for such a session."""
    backend = BACKENDS[name]
    if device not in backend.devices:
        serves = ", ".join(f'"{other.name}"' for other in BACKENDS.values() if device in other.devices) or "none"
        raise StudyError(f'device {device} serves product {serves}, got product="{name}"')
    return backend.party(device, spec)


def server_product(name: str) -> type[ServerProduct]:
    return BACKENDS[name].server()


def columns_digest(columns: IntegerColumns) -> bytes:
    """Of encoded columns, in one pass."""
    n, width = columns.shape
    digest = hashlib.sha256(f"{n} {width};".encode())
    for start in range(0, n, DIGEST_ROWS):
        digest.update(np.ascontiguousarray(columns.rows(start, min(n, start + DIGEST_ROWS)), dtype="<i2").data)
    return digest.digest()
