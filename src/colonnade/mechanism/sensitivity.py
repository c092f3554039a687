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

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proof import proven
from colonnade.mechanism.boxbound import Floats, box_bound
from colonnade.mechanism.dissection import Block, require_two_owners
from colonnade.mechanism.moments import Kind, Law, Layout, Role

Mask = NDArray[np.bool_]
Weighted = tuple[Block, float]
"""A block and the rate at which its change counts: 1 for the plain sensitivity, 1/scale for an epsilon."""


@proven("paper_sensitivity")
def paper_sensitivity(blocks: Iterable[Block], owner: str | None = None) -> Fraction:
    """2 max_t sum |lambda_t| (Lemmas 1 and 2) over all blocks, or over those that involve one party."""
    return 2 * sum(
        (Fraction(float(np.abs(b.weights).sum())) for b in blocks if owner is None or owner in b.owners), Fraction(0)
    )


@proven("exact_sensitivity")
def sensitivity(layout: Layout, blocks: Sequence[Weighted], law: Law, owner: str | None = None) -> float:
    """max over neighbours of sum_B rate_B ||L_B(t) - L_B(t')||, L1 for Laplace.

    For Gaussian it is the root of the sum of squared rates times squared L2 norms. With `owner` only that party's part
    of the record is replaced.
    """
    require_two_owners(tuple(block for block, _ in blocks))
    families = _Families(layout, blocks, law)
    if owner is None:
        families.forget_owners()
    scope = np.array([owner is None or f[0] == owner for f in families.keys], dtype=bool)
    if law is Law.LAPLACE:
        return families.l1(scope)
    return float(np.sqrt(families.l2_squared(scope)))


@dataclass(frozen=True)
class _Touch:
    """A few coordinates of one family that are released alone (`sum z`) or against each other within one attribute."""

    family: int
    amount: float


class _Families:
    """Attributes of one owner, kind and role are alike; a family pair's weight is the largest of its terms' weights."""

    def __init__(self, layout: Layout, blocks: Sequence[Weighted], law: Law) -> None:
        self.power = 1 if law is Law.LAPLACE else 2
        keys = [(a.owner, a.kind, a.role) for a in layout.attributes]
        self.keys = list(dict.fromkeys(keys))
        family = np.array([self.keys.index(k) for k in keys])
        self.count = np.bincount(family, minlength=len(self.keys)).astype(np.float64)
        self.signed = np.array([k[1] is Kind.SIGNED for k in self.keys])
        size = len(self.keys)
        self.pair = np.zeros((size, size))
        self.square = np.zeros(size)
        self.sums = np.zeros(size)
        self.unsummed = np.zeros(size, dtype=bool)
        self.touches: list[_Touch] = []
        for block, rate in blocks:
            self._add(layout, family, block, float(rate) ** self.power)
        if law is Law.GAUSSIAN:
            self._apply_norms(dict(layout.norms))

    def _add(self, layout: Layout, family: NDArray[np.int64], block: Block, rate: float) -> None:
        factors, weight = _merged(block, self.power)
        weight = weight * rate
        attribute = layout.attribute_of[factors]
        left, right = attribute[:, 0], attribute[:, 1]
        constant = left < 0
        same = (left == right) & ~constant
        other = ~same & ~constant
        own = family[right]
        pair = np.zeros_like(self.pair)
        np.maximum.at(pair, (family[left[other]], own[other]), weight[other])
        self.pair += np.maximum(pair, pair.T)
        square = np.zeros_like(self.square)
        is_square = same & self.signed[own]
        np.maximum.at(square, own[is_square], weight[is_square])
        self.square += square
        self.unsummed[own[is_square & (not block.summed)]] = True
        alone = np.zeros_like(self.sums)
        is_sum = constant & self.signed[own]
        np.maximum.at(alone, own[is_sum], weight[is_sum])
        self.sums += alone
        for a in np.unique(right[constant & ~self.signed[own]]):
            rows = constant & (right == a)
            # All coordinates of a simplex move by at most 2 together, a single one by at most 1.
            self.touches.append(_Touch(int(family[a]), (2.0 if rows.sum() > 1 else 1.0) * float(weight[rows].max())))
        inner = same & ~self.signed[own]
        # A product of two halves lies in [0, 1/4], a square in [0, 1].
        width = np.where(factors[:, 0] == factors[:, 1], 1.0, 0.25**self.power)
        for a in np.unique(right[inner]):
            rows = inner & (right == a)
            self.touches.append(_Touch(int(family[a]), float((weight * width)[rows].sum())))

    def _apply_norms(self, norms: Mapping[str, float]) -> None:
        """Signed features within L2 norm R count as R^2 of them, where only products with the label are released.

        ||xy - x'y'|| <= 2R, which is what R^2 coordinates may move, and a sum of squares moves by at most R^2.
        """
        features = np.array([k[2] is Role.FEATURE for k in self.keys])
        if self.pair[np.ix_(features, features)].any() or self.sums[features].any() or self.unsummed[features].any():
            return
        for i, (owner, kind, role) in enumerate(self.keys):
            if owner in norms and kind is Kind.SIGNED and role is Role.FEATURE and norms[owner] ** 2 < self.count[i]:
                # A summed block's squared weights carry the number of its terms; its change is at most R^2.
                self.touches.append(_Touch(i, self.square[i] / self.count[i] * norms[owner] ** 4))
                self.square[i] = 0.0
                self.count[i] = norms[owner] ** 2

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
        self.keys = [("", *k) for k in kinds]
        self.count = np.bincount(group, self.count, minlength=size).astype(np.float64)
        self.signed = np.array([k[1] is Kind.SIGNED for k in self.keys])
        self.pair, self.square, self.sums = pair, square, sums
        self.touches = [_Touch(int(group[t.family]), t.amount) for t in self.touches]

    def _pairs(self) -> Floats:
        """How many attribute pairs there are between families."""
        total = np.outer(self.count, self.count)
        np.fill_diagonal(total, self.count * (self.count - 1) / 2)
        return total

    def _touched(self, scope: Mask) -> float:
        return sum(t.amount for t in self.touches if scope[t.family])

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


def _merged(block: Block, power: int) -> tuple[NDArray[np.int64], Floats]:
    """Each product once, smaller coordinate first; the (powers of) weights of a product that is named twice add up.

    The change of a sum is at most the sum of N changes, and its square at most N times the sum of their squares.
    """
    factors = np.sort(block.factors, axis=1)
    weight = np.abs(block.weights) ** power * (float(len(block.weights)) ** (power - 1) if block.summed else 1.0)
    key = factors[:, 0] * (int(factors.max(initial=0)) + 1) + factors[:, 1]
    distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if distinct.size == key.size:
        return factors, weight
    total: Floats = np.bincount(inverse.ravel(), weights=weight).astype(np.float64)
    return factors[first], total
