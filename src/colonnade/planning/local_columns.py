"""Terms with interactions as products of local columns: which columns a party makes, and who multiplies which.

Every owner of a term multiplies its own factors first. What it makes is rounded to the grid, like a number, so that
every product of r owners is a product of r columns with entries of one bound, whatever the term's degree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Chain, Cross, Integers
from colonnade.foundation.errors import BrokenError
from colonnade.foundation.integers import IntegerColumns, Rows, runs_of
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Stream, derive
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.monomials import is_made, parts_of
from colonnade.planning.crosses import span_of

Part = tuple[int, ...]
"""Coordinates of one owner, whose product is a factor of a term."""


@dataclass(frozen=True)
class LocalPlan:
    """What parties make of their columns for the interactions of a session, and the products of several owners."""

    layout: Layout
    blocks: tuple[Block, ...]

    @cached_property
    def _terms(self) -> tuple[tuple[dict[str, Part], ...], ...]:
        """For each block and term the parts of its owners."""
        return tuple(tuple(parts_of(self.layout, term) for term in block.factors) for block in self.blocks)

    @cached_property
    def spans(self) -> Mapping[str, slice]:
        """The coordinates that each party's encoded columns fill."""
        return {party: span_of(self.layout, party) for party in self.layout.owners}

    @cached_property
    def made(self) -> Mapping[str, tuple[Part, ...]]:
        """The products that each party makes, in the order of their first use."""
        found: dict[str, dict[Part, None]] = {party: {} for party in self.layout.owners}
        for terms in self._terms:
            for parts in terms:
                for owner, part in parts.items():
                    if is_made(part, len(parts)):
                        found[owner].setdefault(part)
        return {party: tuple(parts) for party, parts in found.items()}

    @cached_property
    def _places(self) -> Mapping[str, Mapping[Part, int]]:
        """Where each part stands among its owner's columns: encoded ones first, then made ones."""
        out = {}
        for party, span in self.spans.items():
            base = {(c,): c - span.start for c in range(span.start, span.stop)}
            width = span.stop - span.start
            out[party] = base | {part: width + i for i, part in enumerate(self.made[party])}
        return out

    def own_block(self, index: int) -> Block:
        """A block of one owner with a made column, times the constant, for each term of a higher degree."""
        block = self.blocks[index]
        (owner,) = block.owners
        start, factors = self.spans[owner].start, np.zeros((len(block.factors), 2), np.int64)
        for row, parts in zip(factors, self._terms[index], strict=True):
            part = parts[owner]
            pair = (start + self._places[owner][part],) if is_made(part, 1) else part
            row[2 - len(pair) :] = pair
        return replace(block, factors=factors)

    def made_columns(self, party: str, encoded: IntegerColumns, coins: bytes) -> IntegerColumns:
        """A party's columns with what it makes of them behind."""
        if not (parts := self.made[party]):
            return encoded
        start = self.spans[party].start
        made = LocalProducts([[c - start for c in part] for part in parts], encoded.bound, coins)
        return encoded.with_made(made.make, len(parts))

    def crosses(self, base: Iterable[Cross]) -> tuple[Cross, ...]:
        """For each pair of parties their encoded columns, and every further product of two owners that a term needs."""
        known: dict[tuple[int, int], list[Cross]] = {}
        for cross in base:
            known.setdefault((cross.left, cross.right), []).append(cross)
        for k, l in combinations(range(len(self.layout.owners)), 2):  # noqa: E741 - the paper's k and l
            if (k, l) not in known and (l, k) not in known:
                known[self._narrower_first(k, l)] = []
        out: list[Cross] = []
        for (k, l), found in known.items():  # noqa: E741
            wanted: dict[int, set[int]] = {}
            for left, right in self._pairs(self.layout.owners[k], self.layout.owners[l]):
                if not any(_holds(cross, left, right) for cross in found):
                    wanted.setdefault(left, set()).add(right)
            out += [*found, *_rectangles(k, l, wanted)]
        return tuple(out)

    def _narrower_first(self, k: int, l: int) -> tuple[int, int]:  # noqa: E741
        """Two parties whose encoded columns meet nowhere else: the one with fewer columns to multiply seals."""
        pairs = list(self._pairs(self.layout.owners[k], self.layout.owners[l]))
        widths = [len({pair[side] for pair in pairs}) for side in (0, 1)]
        return (k, l) if widths[0] <= widths[1] else (l, k)

    def _pairs(self, left: str, right: str) -> Iterator[tuple[int, int]]:
        for block, terms in zip(self.blocks, self._terms, strict=True):
            if set(block.owners) == {left, right}:
                yield from (self._columns(parts, (left, right)) for parts in terms)  # type: ignore[misc]

    def _columns(self, parts: Mapping[str, Part], owners: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._places[owner][parts[owner]] for owner in owners)

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """The products of three owners and more; the owner with the most columns begins, for that costs least."""
        found: dict[tuple[str, ...], list[dict[str, Part]]] = {}
        for block, terms in zip(self.blocks, self._terms, strict=True):
            if len(block.owners) > 2:
                found.setdefault(block.owners, []).extend(terms)
        out = []
        for owners, every in found.items():
            count = {o: len({parts[o] for parts in every}) for o in owners}
            order = sorted(owners, key=lambda o: (-count[o], self.layout.owners.index(o)))
            places = tuple(self.layout.owners.index(o) for o in order)
            out.append(Chain(places, tuple(self._columns(parts, order) for parts in every)))
        return tuple(out)

    def positions(self, crosses: Sequence[Cross], start: int) -> dict[int, Integers]:
        """Where the values of blocks of several owners stand in the submitted vector, products of two first."""
        places: dict[tuple[tuple[int, int], ...], int] = {}
        for cross in crosses:
            for l in range(cross.left_start, cross.left_stop):  # noqa: E741
                for r in range(cross.right_start, cross.right_stop):
                    places[tuple(sorted(((cross.left, l), (cross.right, r))))] = start
                    start += 1
        for chain in self.chains:
            for term in chain.terms:
                places[tuple(sorted(zip(chain.owners, term, strict=True)))] = start
                start += 1
        out, index = {}, {party: k for k, party in enumerate(self.layout.owners)}
        for i, (block, terms) in enumerate(zip(self.blocks, self._terms, strict=True)):
            if not block.single:
                keys = (tuple(sorted((index[o], self._places[o][part]) for o, part in t.items())) for t in terms)
                out[i] = np.array([places.pop(key) for key in keys], dtype=np.int64)
        if places:
            raise BrokenError(
                f"every product must be a value of a block, and {len(places)} would be opened without noise"
            )
        return out


def encoded_blocks(layout: Layout, blocks: Iterable[Block]) -> list[Block]:
    """Blocks of at most two owners with those terms alone that have no interaction."""
    if not layout.has_interactions:
        return list(blocks)
    plain = np.array([len(factors) <= 1 for factors in layout.factors])
    out = []
    for block in blocks:
        kept = plain[block.factors].all(axis=1)
        if len(block.owners) <= 2 and kept.any():
            out.append(replace(block, factors=block.factors[kept], weights=block.weights[kept]))
    return out


def _holds(cross: Cross, left: int, right: int) -> bool:
    return cross.left_start <= left < cross.left_stop and cross.right_start <= right < cross.right_stop


def _rectangles(left: int, right: int, wanted: Mapping[int, set[int]]) -> list[Cross]:
    """Crosses that have each wanted pair of columns, and no other."""
    out: list[Cross] = []
    for l, columns in sorted(wanted.items()):  # noqa: E741
        for start, stop in runs_of(sorted(columns)):
            before = next((c for c in out if (c.left_stop, c.right_start, c.right_stop) == (l, start, stop)), None)
            if before is None:
                out.append(Cross(left, right, l, l + 1, start, stop))
            else:
                out[out.index(before)] = replace(before, left_stop=l + 1)
    return out


class LocalProducts:
    """Makes a party's products of its own columns."""

    def __init__(self, parts: Iterable[Iterable[int]], bound: int, coins: bytes) -> None:
        self._parts, self._bound = [tuple(part) for part in parts], bound
        # Any fixed coins are private: see data/gate.py.
        self._key = derive(coins, "made columns")

    @proven("interactions")
    def make(self, start: int, encoded: Rows) -> Rows:
        """Products of entries over the bound, rounded up or down by coins of the row, so that the mean is right.

        Domain: verified rows of one party.
        Unit: steps of the grid.
        Guarantee: a made entry depends on its record and fixed coins, and is less than a step from the product.
            Proof: interactions.
        """
        out = np.empty((len(encoded), len(self._parts)), np.int16)
        first = 8 * start * len(self._parts)
        stream = Stream(self._key, first // 16 * 16)
        coins = stream.words(len(encoded) * len(self._parts) + first % 16 // 8)[first % 16 // 8 :]
        up = (coins >> np.uint64(11)).reshape(len(encoded), -1) * 2.0**-53
        known: dict[Part, NDArray[np.float64]] = {}
        for i, part in enumerate(self._parts):
            value = self._product(encoded, part, known)
            # The product is exact up to the floats' own rounding: what is near an integer is one.
            near = np.rint(value)
            value = np.where(np.abs(value - near) < 1e-6, near, np.floor(value + up[:, i]))
            out[:, i] = np.clip(value, -self._bound, self._bound)
        return out

    def _product(self, encoded: Rows, part: Part, known: dict[Part, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The product of these columns over the bound, from that of all but the last one."""
        if part not in known:
            last = encoded[:, part[-1]].astype(np.float64)
            known[part] = last if len(part) == 1 else self._product(encoded, part[:-1], known) * last / self._bound
        return known[part]
