"""How far replacing one record can move the release: one function, three scopes (record, party, block), L1 and L2.

For a pair of attributes the change of its table is bounded through s in [-1, 1] for each signed attribute, where
(1+s)/2 and (1-s)/2 bound the halves of the sum and of the difference of its two values:

    L1   simplex-simplex 2, simplex-signed 1+|s|, signed-signed 1-ss', square 1-s^2, constant-signed 1-s
    L2^2 twice (1 - r r'), r = s for signed, 0 (changed) or 1 for simplex, 1 for a constant; square 1-s^2

An attribute that does not change has s = 1 (r = 1). The maximum over s is bounded by `box_bound`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proven import proven
from colonnade.mechanism.boxbound import Floats, box_bound
from colonnade.mechanism.dissection import Block, require_pairs
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Role
from colonnade.mechanism.monomials import monomial_sensitivity

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
Weighted = tuple[Block, float]
"""A block and the rate at which its change counts: 1 for the plain sensitivity, 1/scale for an epsilon."""


@proven("paper_sensitivity")
def paper_sensitivity(blocks: Iterable[Block], owner: str | None = None) -> Fraction:
    """2 max_t sum |lambda_t| (Lemmas 1 and 2) over all blocks, or over those that involve one party.

    Domain: coordinates in [-1, 1].
    Unit: moments, in L1.
    Guarantee: no two records move the blocks farther. Proof: paper_sensitivity.
    """
    return 2 * sum(
        (Fraction(float(np.abs(b.weights).sum())) for b in blocks if owner is None or owner in b.owners), Fraction(0)
    )


@proven("exact_sensitivity")
def sensitivity(layout: Layout, blocks: Sequence[Weighted], law: Distribution, owner: str | None = None) -> float:
    """max over neighbours of sum_B rate_B ||L_B(t) - L_B(t')||, L1 for Laplace.

    For Gaussian it is the root of the sum of squared rates times squared L2 norms. With `owner` only that party's part
    of the record is replaced.

    Domain: blocks of products of two coordinates, each with a rate; owner: None for the whole record.
    Unit: rate times moment.
    Guarantee: no two records that differ in scope move the blocks farther. Proof: exact_sensitivity.
    """
    require_pairs(tuple(block for block, _ in blocks))
    if owner is not None:
        blocks = [(block, rate) for block, rate in blocks if owner in block.owners]
    families = _Families(layout, blocks, law)
    if owner is None:
        families.forget_owners()
    scope = np.array([owner is None or owner in f[0] for f in families.keys], dtype=bool)
    found = families.l1(scope) if law is Distribution.LAPLACE else float(np.sqrt(families.l2_squared(scope)))
    # An interaction is never more than a column of its own, and often less.
    return min(found, monomial_sensitivity(layout, blocks, law, owner)) if layout.has_interactions else found


def sensitivities(layout: Layout, blocks: Sequence[Weighted], law: Distribution) -> list[float]:
    """The sensitivity of each block by itself; K parties make K^2 blocks, most of them alike, and those are one."""
    power = 1 if law is Distribution.LAPLACE else 2
    norms = dict(layout.norms)
    known: dict[tuple[object, ...], float] = {}
    out = []
    for block, rate in blocks:
        part = _part(layout, block, power)
        keys = [layout.families[0][i] for i in part.families]
        # Blocks with interactions differ in what these are products of.
        own = (block.name,) if layout.has_interactions else ()
        likeness = (rate, part.likeness, *own, *((kind, role, norms.get(owner)) for (owner, *_), kind, role, _ in keys))
        if likeness not in known:
            known[likeness] = sensitivity(layout, [(block, rate)], law)
        out.append(known[likeness])
    return out


@dataclass(frozen=True)
class _Part:
    """What a block adds to the weights of families at rate 1; families by their indices."""

    left: Indices
    right: Indices
    pair: Floats
    """Of every family pair that it has a product of, in both orders."""
    squares: Indices
    square: Floats
    sums: Indices
    sum: Floats
    """Coordinates that are released alone."""
    touches: Indices
    touch: Floats
    """A few coordinates released alone, or against each other, within one simplex."""
    unsummed: Indices
    """Families whose squares are released one by one."""
    sizes: Floats
    """How many attributes each family of the layout has."""

    @cached_property
    def families(self) -> Indices:
        return np.unique(np.concatenate([self.left, self.squares, self.sums, self.touches]))

    @cached_property
    def likeness(self) -> tuple[bytes, ...]:
        """The same for two parts that differ in the names of their families only."""
        indices = (self.left, self.right, self.squares, self.sums, self.touches, self.unsummed)
        weights = (self.pair, self.square, self.sum, self.touch, self.sizes[self.families])
        ranks = (np.searchsorted(self.families, i).tobytes() for i in indices)
        return (*ranks, *(w.tobytes() for w in weights))


_parts: WeakKeyDictionary[Block, dict[int, tuple[Layout, _Part]]] = WeakKeyDictionary()


def _part(layout: Layout, block: Block, power: int) -> _Part:
    """The block's part, computed once: a plan asks for it again for every party and view."""
    known = _parts.setdefault(block, {})
    if power not in known or known[power][0] is not layout:
        known[power] = layout, _part_of(layout, block, power)
    return known[power][1]


def _part_of(layout: Layout, block: Block, power: int) -> _Part:
    keys, family = layout.families
    signed = np.array([k[1] is Encoding.SIGNED for k in keys])
    factors, weight = _merged(block, power)
    attribute = layout.attribute_of[factors]
    left, right = attribute[:, 0], attribute[:, 1]
    constant = left < 0
    same = (left == right) & ~constant
    other = ~same & ~constant
    own = family[right]
    size = len(keys)
    code, pair = _largest(family[left[other]] * size + own[other], weight[other])
    turned = code % size * size + code // size
    code, pair = _largest(np.concatenate([code, turned]), np.concatenate([pair, pair]))
    is_square = same & signed[own]
    is_sum = constant & signed[own]
    # All coordinates of a simplex move by at most 2 together, a single one by at most 1.
    alone, moved = _largest(right[constant & ~signed[own]], weight[constant & ~signed[own]])
    several = np.bincount(right[constant], minlength=len(family))[alone] > 1
    inner = same & ~signed[own]
    # A product of two halves lies in [0, 1/4], a square in [0, 1].
    width = np.where(factors[:, 0] == factors[:, 1], 1.0, 0.25**power)
    within = np.bincount(right[inner], (weight * width)[inner], minlength=len(family))
    against = np.flatnonzero(np.bincount(right[inner], minlength=len(family)))
    return _Part(
        code // size,
        code % size,
        pair,
        *_largest(own[is_square], weight[is_square]),
        *_largest(own[is_sum], weight[is_sum]),
        np.concatenate([family[alone], family[against]]),
        np.concatenate([np.where(several, 2.0, 1.0) * moved, within[against]]),
        np.unique(own[is_square & (not block.summed)]),
        np.bincount(family, minlength=size).astype(np.float64),
    )


def _largest(index: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """Each index once, with the largest of its weights."""
    distinct, inverse = np.unique(index, return_inverse=True)
    most = np.zeros(distinct.size)
    np.maximum.at(most, inverse, weight)
    return distinct, most


class _Families:
    """Attributes of one family are alike; a family pair's weight is the largest of its terms' weights."""

    def __init__(self, layout: Layout, blocks: Sequence[Weighted], law: Distribution) -> None:
        power = 1 if law is Distribution.LAPLACE else 2
        keys, family = layout.families
        parts = [_part(layout, block, power) for block, _ in blocks]
        rates = np.array([float(rate) ** power for _, rate in blocks])
        # A family that no block weighs moves nothing and is left out.
        busy = np.unique(np.concatenate([np.zeros(0, np.int64), *(p.families for p in parts)]))
        place, size = np.searchsorted(busy, np.arange(len(keys))), busy.size
        self.keys = [keys[i] for i in busy]
        self.signed = np.array([k[1] is Encoding.SIGNED for k in self.keys], dtype=bool)
        self.count = np.bincount(family, minlength=len(keys))[busy].astype(np.float64)
        pair = _added(size**2, [place[p.left] * size + place[p.right] for p in parts], [p.pair for p in parts], rates)
        self.pair = pair.reshape(size, size)
        self.square = _added(size, [place[p.squares] for p in parts], [p.square for p in parts], rates)
        self.sums = _added(size, [place[p.sums] for p in parts], [p.sum for p in parts], rates)
        self.touch = _added(size, [place[p.touches] for p in parts], [p.touch for p in parts], rates)
        self.unsummed = np.zeros(size, dtype=bool)
        for part in parts:
            self.unsummed[place[part.unsummed]] = True
        self._apply_norms(dict(layout.norms), law)

    def _apply_norms(self, norms: Mapping[str, float], law: Distribution) -> None:
        """Signed features within L2 norm R count as fewer, where only products with the label are released.

        ||xy - x'y'|| <= 2R, which is what R^2 coordinates may move; in L1 d features count as sqrt(d) R. A sum of
        squares moves by at most R^2.
        """
        features = np.array([k[2] is Role.FEATURE for k in self.keys], dtype=bool)
        if self.pair[np.ix_(features, features)].any() or self.sums[features].any() or self.unsummed[features].any():
            return
        for i, ((owner, *_), kind, role, _) in enumerate(self.keys):
            if (
                owner in norms
                and kind is Encoding.SIGNED
                and role is Role.FEATURE
                and norms[owner] ** 2 < self.count[i]
            ):
                square, count = norms[owner] ** 2, self.count[i]
                # A summed block's squared weights carry the number of its terms; its change is at most R^2.
                self.touch[i] += self.square[i] * (square**2 / count if law is Distribution.GAUSSIAN else square)
                self.square[i] = 0.0
                self.count[i] = square if law is Distribution.GAUSSIAN else np.sqrt(count * square)

    def forget_owners(self) -> None:
        """Join families that differ in their owner only, where they are weighted alike: then K does not matter."""
        kinds = list(dict.fromkeys(k[1:] for k in self.keys))
        group = np.array([kinds.index(k[1:]) for k in self.keys])
        size = len(kinds)
        pair, square, sums = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        exists = ~np.eye(len(self.keys), dtype=bool) | (self.count > 1)[:, None]
        for g in range(size):
            for h in range(size):
                found = self.pair[np.ix_(group == g, group == h)][exists[np.ix_(group == g, group == h)]]
                pair[g, h] = found[0] if found.size else 0.0
                if not np.all(found == pair[g, h]):
                    return
            square[g], sums[g] = self.square[group == g][0], self.sums[group == g][0]
            if not (np.all(self.square[group == g] == square[g]) and np.all(self.sums[group == g] == sums[g])):
                return
        self.keys = [(("",), *k) for k in kinds]
        self.count = np.bincount(group, self.count, minlength=size).astype(np.float64)
        self.signed = np.array([k[1] is Encoding.SIGNED for k in self.keys], dtype=bool)
        self.touch = np.bincount(group, self.touch, minlength=size).astype(np.float64)
        self.pair, self.square, self.sums = pair, square, sums

    def _pairs(self) -> Floats:
        """How many attribute pairs there are between families."""
        total = np.outer(self.count, self.count)
        np.fill_diagonal(total, self.count * (self.count - 1) / 2)
        return total

    def _touched(self, scope: Mask) -> float:
        return float(self.touch[scope].sum())

    def l1(self, scope: Mask) -> float:
        signed, simplex = self.signed, ~self.signed
        weight = self.pair * self._pairs()
        upper = np.triu(np.ones_like(weight, dtype=bool))
        moved = (scope[:, None] | scope[None, :]) & upper
        both_simplex = simplex[:, None] & simplex[None, :]
        both_signed = signed[:, None] & signed[None, :]
        # simplex in scope against an unmoved signed attribute: at most 2; an unmoved simplex: 1 - s, counted below.
        mixed = ~both_simplex & ~both_signed
        simplex_moves = np.where(simplex[:, None], scope[:, None], scope[None, :])
        signed_moves = np.where(signed[:, None], scope[:, None], scope[None, :])
        constant = 2 * weight[moved & both_simplex].sum() + weight[moved & (both_signed | (mixed & signed_moves))].sum()
        constant += 2 * weight[moved & mixed & simplex_moves & ~signed_moves].sum()
        free = signed & scope
        still = ~scope
        linear = self.pair @ (self.count * still) + self.sums
        absolute = self.pair @ (self.count * (simplex & scope))
        constant += (self.count * (self.square + self.sums))[free].sum() + self._touched(scope)
        bound = box_bound(
            self.count[free], self.pair[np.ix_(free, free)], self.square[free], linear[free], absolute[free]
        )
        return float(constant + bound)

    def l2_squared(self, scope: Mask) -> float:
        simplex = ~self.signed
        weight = self.pair * self._pairs()
        moved = (scope[:, None] | scope[None, :]) & np.triu(np.ones_like(weight, dtype=bool))
        square = self.square / 2
        constant = weight[moved].sum() + (self.count * (self.sums + square))[self.signed & scope].sum()
        linear = self.pair @ (self.count * ~scope) + self.sums
        zero = np.zeros(int(scope.sum()))
        kept = box_bound(self.count[scope], self.pair[np.ix_(scope, scope)], square[scope], linear[scope], zero)
        # A product of two non-negative r only lowers the sum, so it may be left out.
        nonnegative = simplex[:, None] & simplex[None, :]
        lighter = np.where(nonnegative, 0.0, self.pair)[np.ix_(scope, scope)]
        dropped = box_bound(self.count[scope], lighter, square[scope], np.where(simplex, 0.0, linear)[scope], zero)
        return float(2 * (constant + min(kept, dropped)) + self._touched(scope))


def _added(size: int, places: list[Indices], weights: list[Floats], rates: Floats) -> Floats:
    """The blocks' weights times their rates, added up by place."""
    if not places:
        return np.zeros(size)
    rate = np.repeat(rates, [p.size for p in places])
    # Block after block, so that every machine adds in the same order.
    return np.bincount(np.concatenate(places), np.concatenate(weights) * rate, minlength=size).astype(np.float64)


def _merged(block: Block, power: int) -> tuple[NDArray[np.int64], Floats]:
    """Each product once, smaller coordinate first; the (powers of) weights of a product that is named twice add up.

    The change of a sum is at most the sum of its terms' changes; its square is at most the sum of the squared weights
    times the sum of the squared changes.
    """
    factors = np.sort(block.factors, axis=1)
    weight = np.abs(block.weights) ** power
    if block.summed and power == 2:
        weight = np.full(weight.size, weight.sum())
    key = factors[:, 0] * (int(factors.max(initial=0)) + 1) + factors[:, 1]
    distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if distinct.size == key.size:
        return factors, weight
    total: Floats = np.bincount(inverse.ravel(), weights=weight).astype(np.float64)
    return factors[first], total
