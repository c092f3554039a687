"""Terms of any degree: which party has which factors, and how far one record moves sums of such products.

A record's signed coordinates may be taken as 1 in one of two neighbours and s in [-1, 1] in the other. Then a product
of signed coordinates changes by at most 1 - P, P the product of their s, and all products reach that at once; a table
of products with the levels of an attribute that changes, by 1 + |P| (proofs/monomial_sensitivity.md). What is left is
the largest value of a polynomial on a box, bounded by splitting the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proven import proven
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Distribution, Encoding, Floats, Layout, Role
from colonnade.mechanism.objective import Task, monomial

Powers = NDArray[np.int64]

MOST_VARIABLES = 6
"""With more signed coordinates the box is not split, and every product counts at its largest: MOST_BOXES boxes would
cut each side hardly once."""
MOST_BOXES = 1 << 11  # bounds the work; what is left unsplit counts at its upper bound
CLOSE = 1.01
"""A bound within this factor of a value that is reached is close enough."""
SAFETY = 1e-9  # far above the rounding of some hundred floats (proofs/monomial_sensitivity.md)
MOST_STATES = 1 << 12
"""Pairs of levels of two records that are tried one by one; it bounds the work, as MOST_SPLIT does."""
MOST_SPLIT = 64
"""Of them, those for which the box is split."""


def parts_of(layout: Layout, term: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Each owner's factors of a term, owners in the order of their coordinates: its local monomial."""
    found: dict[str, list[int]] = {}
    for coordinate in monomial(layout, term):
        found.setdefault(layout.attributes[layout.attribute_of[coordinate]].owner, []).append(coordinate)
    return {owner: tuple(coordinates) for owner, coordinates in found.items()}


def is_made(part: tuple[int, ...], owners: int) -> bool:
    """Whether a party makes a column of its own for its part of a term: two factors of one owner are summed as such."""
    return len(part) > (1 if owners > 1 else 2)


def rounded_parts(layout: Layout, term: Sequence[int], task: Task) -> int:
    """How many of a term's factors are columns that were rounded after they were multiplied."""
    parts = parts_of(layout, term)
    made = [part for part in parts.values() if is_made(part, len(parts))]
    return sum(sum(_is_rounded(layout, c, task) for c in part) > 1 for part in made)


def _is_rounded(layout: Layout, coordinate: int, task: Task) -> bool:
    """Whether a coordinate may lie between grid points; indicators do not."""
    attribute = layout.attributes[layout.attribute_of[coordinate]]
    return attribute.kind is Encoding.SIGNED or (attribute.role is Role.LABEL and task is Task.LINEAR)


@proven("interactions")
def product_slack(
    layout: Layout,
    rated: Sequence[tuple[Block, float]],
    task: Task,
    law: Distribution,
    bound: int,
    errors: Mapping[int, float],
) -> float:
    """How far rounded local products, and a secure product's `errors` by owners, move terms beyond the products.

    Domain: bound: of the grid; errors: for each number of owners.
    Unit: rate times moment.
    Guarantee: added to a sensitivity of the unrounded products it covers the rounded ones. Proof: interactions.
    """
    if not layout.has_interactions:
        return 0.0
    total = 0.0
    for block, rate in rated:
        error = 0.0 if block.single else errors.get(len(block.owners), 0.0)
        for term, weight in zip(block.factors, block.weights, strict=True):
            each = rate * abs(float(weight)) * (2.0 * rounded_parts(layout, term, task) / bound + error)
            total += each if law is Distribution.LAPLACE else each**2
    return (total if law is Distribution.LAPLACE else sqrt(total)) * (1 + 2.0**-40)


@dataclass(frozen=True)
class _Groups:
    """Terms with the same signed factors and the same attributes with levels: one row of powers for each group."""

    powers: Powers
    """Of the signed coordinates that may differ."""
    tabled: NDArray[np.bool_]
    """Whether an attribute with levels that may differ is among the factors."""
    weights: Floats
    """Largest of the group, to the power of the norm."""


@proven("monomial_sensitivity")
def monomial_sensitivity(
    layout: Layout, blocks: Sequence[tuple[Block, float]], law: Distribution, owner: str | None = None
) -> float:
    """A bound like `sensitivity`'s that knows interactions as products; infinite where it does not hold.

    Domain: blocks of products of any coordinates, each with a rate.
    Unit: rate times moment.
    Guarantee: no two records that differ in scope move the blocks farther. Proof: monomial_sensitivity.
    """
    groups = _groups(layout, blocks, 1 if law is Distribution.LAPLACE else 2, owner)
    if groups is None:
        return inf
    largest = float((groups.weights * _ceiling(groups, law)).sum())
    if groups.powers.shape[1] <= MOST_VARIABLES:
        largest = min(largest, _largest(groups, law))
    if layout.any_terms:
        largest = min(largest, _by_levels(layout, blocks, law, owner))
    largest *= 1 + SAFETY
    return largest if law is Distribution.LAPLACE else float(np.sqrt(largest))


def _ceiling(groups: _Groups, law: Distribution) -> Floats:
    """The largest of each group by itself: an even product is never negative, and then moves by 1 at most."""
    even = (groups.powers % 2 == 0).all(axis=1)
    still = ~groups.powers.any(axis=1) & ~groups.tabled
    top = np.where(even, np.where(groups.tabled, 2.0, 1.0), 2.0 if law is Distribution.LAPLACE else 4.0)
    return np.where(still, 0.0, top)


class _Key(NamedTuple):
    """What the terms of a group have in common."""

    block: int
    numbers: tuple[int, ...]
    """Signed coordinates, each as often as it is a factor."""
    levels: frozenset[int]
    """Attributes with levels."""


def _groups(layout: Layout, blocks: Sequence[tuple[Block, float]], power: int, owner: str | None) -> _Groups | None:
    """The groups of all blocks; None where a term has two halves of the label as factors, or is summed."""
    cells: dict[_Key, dict[frozenset[int], float]] = {}
    for number, (block, rate) in enumerate(blocks):
        if block.summed:
            return None
        if owner is not None and owner not in block.owners:
            continue
        for term, weight in zip(block.factors, block.weights, strict=True):
            factors = monomial(layout, term)
            signed = [layout.attributes[layout.attribute_of[c]].kind is Encoding.SIGNED for c in factors]
            levels = [c for c, s in zip(factors, signed, strict=True) if not s]
            attributes = [int(layout.attribute_of[c]) for c in levels]
            if layout.label in attributes and attributes.count(layout.label) > 1:
                return None
            # An indicator is its own square, and two of one attribute multiply to 0.
            cell, touched = frozenset(levels), frozenset(attributes)
            if len(cell) == len(touched):
                numbers = tuple(c for c, s in zip(factors, signed, strict=True) if s)
                table = cells.setdefault(_Key(number, numbers, touched), {})
                table[cell] = table.get(cell, 0.0) + (abs(float(weight)) * rate) ** power
    moved = np.array([False, *(owner is None or layout.attributes[i].owner == owner for i in layout.attribute_of[1:])])
    variables = sorted({c for key in cells for c in key.numbers if moved[c]})
    powers = [[key.numbers.count(v) for v in variables] for key in cells]
    tabled = [any(moved[layout.starts[i]] for i in key.levels) for key in cells]
    weights = [max(table.values()) for table in cells.values()]
    return _Groups(
        np.array(powers, dtype=np.int64).reshape(len(cells), len(variables)),
        np.array(tabled, dtype=bool),
        np.array(weights, dtype=np.float64),
    )


@dataclass(frozen=True)
class _Leveled:
    """Terms of all blocks with the levels that each needs, and the states that a record's attributes can be in."""

    needs: list[frozenset[int]]
    numbers: list[tuple[int, ...]]
    """Of each term the signed coordinates that may differ."""
    weights: Floats
    states: list[tuple[tuple[int, ...], bool]]
    """Of each attribute with levels those that terms name, 0 for any other, and whether it may differ."""

    def pairs(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        """The levels of both records, in every way."""
        own = [[(a, b) for a in s for b in s if a == b or moves] for s, moves in self.states]
        return [(frozenset(a for a, _ in p), frozenset(b for _, b in p)) for p in product(*own)]


def _by_levels(layout: Layout, blocks: Sequence[tuple[Block, float]], law: Distribution, owner: str | None) -> float:
    """The largest sum over all levels that the two records can have: a term without its levels is 0."""
    terms = _leveled(layout, blocks, 1 if law is Distribution.LAPLACE else 2, owner)
    if not terms.states or prod(len(s) ** 2 for s, _ in terms.states) > MOST_STATES:
        return inf
    variables = sorted({c for numbers in terms.numbers for c in numbers})
    counts = [[numbers.count(v) for v in variables] for numbers in terms.numbers]
    powers = np.array(counts, np.int64).reshape(len(counts), len(variables))
    found = []
    for first, second in terms.pairs():
        one, two = (np.array([need <= levels for need in terms.needs]) for levels in (first, second))
        both = _Groups(powers[one & two], np.zeros(int((one & two).sum()), bool), terms.weights[one & two])
        alone = float(terms.weights[one ^ two].sum())
        found.append((alone + float((both.weights * _ceiling(both, law)).sum()), alone, both))
    found.sort(key=lambda item: -item[0])
    best = 0.0
    for i, (simple, alone, both) in enumerate(found):
        if simple <= best or i == MOST_SPLIT or len(variables) > MOST_VARIABLES:
            return max(best, simple)
        best = max(best, min(simple, alone + _largest(both, law)))
    return best


def _leveled(layout: Layout, blocks: Sequence[tuple[Block, float]], power: int, owner: str | None) -> _Leveled:
    needs, numbers, weights = [], [], []
    moved = {c: owner is None or layout.attribute_at(c).owner == owner for c in range(1, layout.width)}
    for block, rate in blocks:
        if owner is not None and owner not in block.owners:
            continue
        for term, weight in zip(block.factors, block.weights, strict=True):
            factors = monomial(layout, term)
            needs.append(frozenset(c for c in factors if not layout.is_number(c)))
            numbers.append(tuple(c for c in factors if layout.is_number(c) and moved[c]))
            weights.append((abs(float(weight)) * rate) ** power)
    named: dict[int, set[int]] = {}
    for c in sorted({c for need in needs for c in need}):
        named.setdefault(int(layout.attribute_of[c]), set()).add(c)
    states = [((*sorted(own), 0), moved[min(own)]) for own in named.values()]
    return _Leveled(needs, numbers, np.array(weights), states)


def _value(groups: _Groups, products: Floats, law: Distribution) -> Floats:
    """The change of each group, one in each row, where its signed factors multiply to this."""
    tabled = groups.tabled[:, None]
    if law is Distribution.LAPLACE:
        return np.where(tabled, 1 + np.abs(products), 1 - products)
    apart = (1 - products) ** 2
    return np.where(tabled, np.maximum(1 + products**2, apart), apart) if tabled.any() else apart


def _largest(groups: _Groups, law: Distribution) -> float:
    """An upper bound of the sum over groups on [-1, 1]^d, by halving boxes that may hold more than a value reached."""
    d = groups.powers.shape[1]
    low, high = -np.ones((1, d)), np.ones((1, d))
    reached, done = _reached(groups, law), 0.0
    while True:
        upper = _upper(groups, low, high, law)
        reached = max(reached, float(_at(groups, (low + high) / 2, law).max(initial=0.0)))
        open_ = upper > reached * CLOSE
        done = max(done, float(upper[~open_].max(initial=0.0)))
        low, high, upper = low[open_], high[open_], upper[open_]
        if not len(low) or d == 0 or 2 * len(low) > MOST_BOXES:
            return max(done, reached, float(upper.max(initial=0.0)))
        side = np.argmax(high - low, axis=1)
        middle, rows = (low + high) / 2, np.arange(len(low))
        left_high, right_low = high.copy(), low.copy()
        left_high[rows, side] = right_low[rows, side] = middle[rows, side]
        low, high = np.concatenate([low, right_low]), np.concatenate([left_high, high])


def _reached(groups: _Groups, law: Distribution) -> float:
    """The largest value at points whose coordinates are -1, 0 or 1."""
    d = groups.powers.shape[1]
    points = np.array(list(product((-1.0, 0.0, 1.0), repeat=d)), dtype=np.float64).reshape(3**d, d)
    return float(_at(groups, points, law).max(initial=0.0))


def _at(groups: _Groups, points: Floats, law: Distribution) -> Floats:
    products = np.ones((len(groups.powers), len(points)))
    for power, values in zip(groups.powers.T, points.T, strict=True):
        moved = np.flatnonzero(power)
        products[moved] *= _raised(values, power)[power[moved]]
    return np.asarray(groups.weights @ _value(groups, products, law))


def _upper(groups: _Groups, low: Floats, high: Floats, law: Distribution) -> Floats:
    """Of each box: every group at the largest that the range of its product allows."""
    below, above = np.ones((2, len(groups.powers), len(low)))
    for power, left, right in zip(groups.powers.T, low.T, high.T, strict=True):
        a, b = _raised(left, power), _raised(right, power)
        least, most = np.minimum(a, b), np.maximum(a, b)
        least[2::2, (left < 0) & (right > 0)] = 0.0
        moved = np.flatnonzero(power)
        least, most, lower, upper = least[power[moved]], most[power[moved]], below[moved], above[moved]
        ends = [lower * least, lower * most, upper * least, upper * most]
        below[moved], above[moved] = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return np.asarray(groups.weights @ np.maximum(_value(groups, below, law), _value(groups, above, law)))


def _raised(values: Floats, power: Powers) -> Floats:
    """Powers 0, 1, ... of these values, up to the largest that is asked for, one in each row."""
    return np.asarray(values[None] ** np.arange(int(power.max(initial=0)) + 1)[:, None])
