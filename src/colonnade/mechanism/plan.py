"""Plans: how much noise each block gets, and which epsilon that means for the record, each party and each view.

Top-down (Theorem 1): epsilon of the record is given. Bottom-up (the corollary, corrected): parties give epsilon^(k).
A budget is epsilon for Laplace and rho = 1 / (2 variance at unit sensitivity) for Gaussian; both add up over blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from math import ceil, inf, log2, sqrt

import numpy as np

from colonnade.foundation.errors import BrokenError, PrivacyError
from colonnade.foundation.grid import LARGEST_BOUND, rounded_norm
from colonnade.foundation.proven import proven
from colonnade.mechanism.accounting import (
    SLACK,
    Guarantee,
    check_epsilon,
    epsilon_of_gaussian,
    epsilon_of_rho,
    gaussian_rho,
    short_number,
)
from colonnade.mechanism.dissection import Block, allocate, require_one_owner_of_sums, require_pairs
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Role
from colonnade.mechanism.monomials import product_slack
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.sensitivity import paper_sensitivity, sensitivities, sensitivity
from colonnade.mechanism.shares import narrow_shares
from colonnade.mechanism.weights import TableTerms, block_weights, label_weight, pair_count, size_powers, table_weights

FEW_PARTIES = 8
"""Up to so many, what one party's offer leaves is spent on blocks of the others, too."""
NO_SLACK = Fraction(101, 100)
"""A party that could get less than this many times what it gets has got what it offered."""


class Neighbours(Enum):
    """When two data sets count as neighbours."""

    REPLACE_ONE = "one record is replaced; n is public"


class View(Enum):
    """Who is looking."""

    OUTSIDER = "outsider"
    SERVER = "server"
    PARTY = "party"
    COALITION = "coalition"


Epsilons = Mapping[View, float | None]
"""The epsilon against each view; None where there is no guarantee."""


@dataclass(frozen=True)
class BlockPlan:
    """A block, how far one record moves it, and the scale of its noise (b of Laplace, sigma of Gaussian)."""

    block: Block
    sensitivity: Fraction
    scale: Fraction


@dataclass(frozen=True)
class Offer:
    """What a party allows in the bottom-up case: its total, and if it likes the parts for its own and shared blocks."""

    total: float
    own: float | None = None
    pairs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PrivacyPlan:
    """Everything that decides a promise; frozen before any data is touched."""

    layout: Layout
    task: Task
    calibration: Calibration
    law: Distribution
    delta: float
    collusion: int
    blocks: tuple[BlockPlan, ...]
    error_factor: Fraction
    """By how much the secure product's own error may stretch the sensitivity of cross-party blocks."""
    record: Epsilons
    parties: Mapping[str, Epsilons]
    guarantees: Mapping[str, Guarantee]
    """Of each party's part of a record, against the worst view that has one."""
    bound: int | None = None
    """That of the grid whose rounding the scales count with."""
    errors: Mapping[int, float] = field(default_factory=dict)
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    purpose: Purpose = Purpose.LABEL
    narrowed: Mapping[str, Fraction] = field(default_factory=dict)
    """Which part of its scale a party's share of cross-party noise has, where not all of it."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.layout.owners

    @property
    def shares(self) -> int:
        """How many shares already add up to the full noise of a cross-party block: K - c."""
        return max(1, len(self.names) - self.collusion)

    def share(self, party: str) -> Fraction:
        """Which part of the scale of cross-party noise a party's share has."""
        return self.narrowed.get(party, Fraction(1))

    @property
    def crossed(self) -> float:
        """The variance of all shares of cross-party noise over that of the scale."""
        return float(sum(self.share(party) ** 2 for party in self.names)) / self.shares

    @property
    def epsilon(self) -> float:
        value = self.record[View.OUTSIDER]
        assert value is not None
        return value

    def noise_std(self, item: BlockPlan) -> float:
        """The standard deviation of the released noise on a coefficient of the block."""
        std = float(item.scale) * (sqrt(2) if self.law is Distribution.LAPLACE else 1.0)
        return std if item.block.single else std * sqrt(self.crossed)


@dataclass(frozen=True)
class Terms:
    """What a plan needs besides blocks: budget law, collusion, calibration."""

    task: Task
    calibration: Calibration = Calibration.EXACT
    delta: float = 0.0
    collusion: int = 1
    error_factor: Fraction = Fraction(1)
    rows: int | None = None
    """n, where it is known: the weights of blocks are chosen for it."""
    bound: int | None = None
    """That of the grid, where it is known: what rounding adds to norms and to squares is counted."""
    errors: Mapping[int, float] = field(default_factory=dict)
    """Where there are interactions: how far the product's own error moves a term of so many owners, at most."""
    draft: bool = False
    """To choose the grid and the words by."""
    promised: bool = True
    """Whether it is worked out what each view learns; a draft and a forecast need the scales alone."""
    purpose: Purpose = Purpose.LABEL
    """What noise is spread for; whatever it is, any weights keep the promise."""

    @property
    def law(self) -> Distribution:
        return Distribution.GAUSSIAN if self.delta > 0 else Distribution.LAPLACE

    def check(self, layout: Layout, blocks: tuple[Block, ...]) -> Terms:
        """These terms with the collusion capped at what K parties can do; refuses what cannot be promised."""
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"delta must lie in [0, 1), got delta={short_number(self.delta)}")
        if self.calibration is Calibration.PAPER and self.delta > 0:
            raise PrivacyError(f"the paper's calibration is for pure epsilon, got delta={self.delta}")
        parties = len(layout.owners)
        if self.collusion < 0 or (parties > 1 and self.collusion >= parties):
            raise PrivacyError(f"collusion must lie between 0 and K-1={parties - 1}, got collusion={self.collusion}")
        require_pairs(blocks)
        if self.error_factor > 1 and not layout.has_interactions:
            require_one_owner_of_sums(layout, blocks)
        # A draft knows no grid yet. On the finest one rounding costs a norm least, and yet may double a small one.
        bound = LARGEST_BOUND if self.draft and layout.norms else self.bound
        return replace(self, collusion=0 if parties == 1 else self.collusion, bound=bound)


@proven("top_down")
def plan_top_down(layout: Layout, blocks: tuple[Block, ...], epsilon: float, terms: Terms) -> PrivacyPlan:
    """The plan whose record gets epsilon: scales in the proportion of the blocks' weights, as small as allowed.

    Domain: epsilon: positive, up to 1e12; blocks of at most two factors a term.
    Unit: scales of moments.
    Guarantee: the record is (epsilon, delta)-private against every view that the plan does not call none. Proof:
        top_down.
    """
    epsilon = check_epsilon(epsilon)
    terms = terms.check(layout, blocks)
    narrowed: Mapping[str, Fraction] = {}
    if terms.calibration is Calibration.PAPER:
        scales = [paper_sensitivity(blocks) / Fraction(epsilon)] * len(blocks)  # Alg. 1, line 3
    else:
        budget = _budget(epsilon, terms)
        weights = _weights(layout, blocks, budget, terms)
        joint = partial(_joint, layout, blocks, [float(w) for w in weights], terms)  # Alg. 1, line 3
        total, narrowed = narrow_shares(layout, blocks, terms.law, terms.collusion, joint)
        allowed = budget if terms.law is Distribution.LAPLACE else _root_below(2 * budget)
        scales = [_coarse(Fraction(total) / (allowed * w)) for w in weights]
    return _finish(layout, blocks, scales, terms, dict.fromkeys((None, *layout.owners), epsilon), narrowed)


@proven("bottom_up")
def plan_bottom_up(layout: Layout, blocks: tuple[Block, ...], offers: Mapping[str, Offer], terms: Terms) -> PrivacyPlan:
    """The plan in which no party's part gets more than it offered; a pair takes the smaller of its two offers.

    Domain: offers: epsilon of each party, positive; blocks of at most two factors a term.
    Unit: scales of moments.
    Guarantee: party k's part is (offer_k, delta)-private against every view that the plan does not call none.
        Proof: bottom_up, claims 1 and 2.
    """
    terms = terms.check(layout, blocks)
    for party in layout.owners:
        if party not in offers:
            raise PrivacyError(f"party {party} must offer an epsilon in the bottom-up case, got none")
    budgets = [_Split(layout, blocks, party, offers[party], terms).budgets for party in layout.owners]
    scales: list[Fraction] = []
    for i, (block, moved) in enumerate(zip(blocks, _alone(layout, blocks, terms), strict=True)):
        budget = min(b[i] for b in budgets if b[i] is not None)  # type: ignore[type-var]
        assert budget is not None
        if terms.calibration is Calibration.PAPER:
            scales.append(_paper_alone(block, terms) / budget)
            continue
        whole = budget if terms.law is Distribution.LAPLACE else _root_below(2 * budget)
        scales.append(_coarse(Fraction(moved) / whole))
    if terms.calibration is Calibration.EXACT and not any(o.own is not None or o.pairs for o in offers.values()):
        scales = _spend_rest(layout, blocks, scales, terms, offers)
    return _finish(layout, blocks, scales, terms, {party: offers[party].total for party in layout.owners})


@proven("bottom_up")
def _spend_rest(
    layout: Layout, blocks: tuple[Block, ...], scales: list[Fraction], terms: Terms, offers: Mapping[str, Offer]
) -> list[Fraction]:
    """Less noise where no owner has reached its offer: blocks move less together than one by one.

    Domain: scales that keep every offer; no party names parts of its offer.
    Unit: scales of moments, not of the integers that carry them.
    Guarantee: no party's part gets more than it offered. Proof: bottom_up, claim 3.
    """
    free = {owner for block in blocks for owner in block.owners}
    for _ in range(5 * len(free) if len(free) <= FEW_PARTIES else 1):
        slacks = {party: _slack(layout, blocks, scales, terms, party, offers[party]) for party in sorted(free)}
        free = {party for party, slack in slacks.items() if slack > NO_SLACK}
        shrunk = [i for i, block in enumerate(blocks) if free.issuperset(block.owners)]
        if not shrunk:
            break
        least = min(slacks[party] for party in free)
        for i in shrunk:
            scales[i] = _coarse(scales[i] / least)
    return scales


def _slack(
    layout: Layout, blocks: tuple[Block, ...], scales: Sequence[Fraction], terms: Terms, party: str, offer: Offer
) -> Fraction:
    """By how much all noise could shrink before a party's part gets what it offered: blocks move less together."""
    budget = _budget(offer.total, terms)
    allowed = budget if terms.law is Distribution.LAPLACE else _root_below(2 * budget)
    joint = _joint(layout, blocks, [1 / float(scale) for scale in scales], terms, party)
    return allowed / Fraction(joint) * (1 - Fraction(1, 2**40))


def _budget(epsilon: float, terms: Terms) -> Fraction:
    return Fraction(epsilon) if terms.law is Distribution.LAPLACE else gaussian_rho(epsilon, terms.delta)


def _weights(layout: Layout, blocks: tuple[Block, ...], budget: Fraction, terms: Terms) -> list[Fraction]:
    """How much less noise each block gets."""
    if terms.purpose is Purpose.ALL:
        return table_weights(layout, blocks, TableTerms(terms.law, terms.rows, float(budget), terms.collusion))
    heavier = label_weight(layout, terms.law, terms.rows, budget, pair_count(layout, blocks))
    powers = size_powers(layout, blocks, terms.law, heavier, terms.rows, budget)
    return block_weights(layout, blocks, heavier, lambda some, rates: _joint(layout, some, rates, terms), powers)


class _Split:
    """One party's offer spread over its blocks; where it names no parts, so as to minimise the noise that matters."""

    def __init__(self, layout: Layout, blocks: tuple[Block, ...], party: str, offer: Offer, terms: Terms) -> None:
        self.terms, self.party, self.offer = terms, party, offer
        self.total = _budget(check_epsilon(offer.total, f"party {party}: epsilon"), terms)
        for partner in offer.pairs:
            if partner == party or partner not in layout.owners:
                raise PrivacyError(f"party {party}: a split must name another party of the study, got {partner!r}")
        mine = allocate(blocks, party)
        alone = zip(mine, _alone(layout, mine, terms), strict=True)
        if terms.purpose is Purpose.ALL:
            # Distances of tables go with deviations, not variances: size * moved / budget (its root for rho) is summed.
            power = 1 / 2 if terms.law is Distribution.LAPLACE else 2 / 3
            self.wish = {id(b): (moved * b.size) ** power for b, moved in alone}
        else:
            heavier = label_weight(layout, terms.law, terms.rows, self.total, pair_count(layout, blocks))
            # sum of cost / budget^2 (1 / budget for rho) is least where budgets go with the cube (square) root of cost.
            power = 1 / 3 if terms.law is Distribution.LAPLACE else 1 / 2
            weight = {Role.LABEL: heavier, Role.FEATURE: 1.0}
            self.wish = {id(b): (moved**2 * b.size * weight[b.role]) ** power for b, moved in alone}
        self.budgets = [self._of(b, mine) for b in blocks]
        spent = sum((b for b in self.budgets if b is not None), Fraction(0))
        if spent > self.total:
            raise PrivacyError(
                f"party {party}: the parts of its offer must add up to at most epsilon={offer.total}, "
                f"got {float(spent):.6g}" + ("" if terms.law is Distribution.LAPLACE else " as rho")
            )

    def _named(self, block: Block) -> float | None:
        if len(block.owners) != 2:
            return self.offer.own if block.single else None
        return self.offer.pairs.get(next(o for o in block.owners if o != self.party))

    def _of(self, block: Block, mine: Sequence[Block]) -> Fraction | None:
        if self.party not in block.owners:
            return None
        named = self._named(block)
        if named is not None:
            name = f"party {self.party}: epsilon for {' x '.join(block.owners)}"
            whole = _budget(check_epsilon(named, name), self.terms)
            among = [b for b in mine if b.owners == block.owners]
        else:
            parts = {b.owners: self._named(b) for b in mine}
            whole = self.total - sum((_budget(v, self.terms) for v in parts.values() if v is not None), Fraction(0))
            among = [b for b in mine if self._named(b) is None]
            if whole <= 0:
                raise PrivacyError(
                    f"party {self.party}: nothing is left of epsilon={self.offer.total} for {' x '.join(block.owners)}"
                )
        share = self.wish[id(block)] / sum(self.wish[id(b)] for b in among)
        return whole * Fraction(int(share * 2**30), 2**30)


def offered(
    plan: PrivacyPlan, offers: Mapping[str, Offer], rows: int | None = None
) -> dict[str, list[Fraction | None]]:
    """What each party of a bottom-up plan offers for each block, epsilon or rho; the least offer was taken."""
    terms = Terms(plan.task, plan.calibration, plan.delta, plan.collusion, plan.error_factor, rows, plan.bound)
    terms = replace(terms, purpose=plan.purpose, errors=plan.errors)
    blocks = tuple(item.block for item in plan.blocks)
    return {name: _Split(plan.layout, blocks, name, offers[name], terms).budgets for name in plan.names}


def _rates(
    blocks: Sequence[Block], rates: Sequence[float], factor: Fraction, crossed: float = 1.0
) -> list[tuple[Block, float]]:
    """Cross-party blocks count more by the product's own error, and where part of their noise is known."""
    stretched = float(factor)
    return [(b, r if b.single else r * stretched * crossed) for b, r in zip(blocks, rates, strict=True)]


def _alone(layout: Layout, blocks: Sequence[Block], terms: Terms) -> list[float]:
    """How far one record moves each block by itself."""
    moved = sensitivities(_counted(layout, terms), _rates(blocks, [1.0] * len(blocks), terms.error_factor), terms.law)
    return [m + _square_slack(layout, [(b, 1.0)], terms) for m, b in zip(moved, blocks, strict=True)]


def _paper_alone(block: Block, terms: Terms) -> Fraction:
    """The paper's 2 max ||lambda|| of one block; a cross-party block reaches it, and the product's error adds to it."""
    moved = 1 + Fraction(terms.errors.get(len(block.owners), 0.0)) / 2
    return paper_sensitivity([block]) * (1 if block.single else max(terms.error_factor, moved))


def _joint(
    layout: Layout,
    blocks: Sequence[Block],
    rates: Sequence[float],
    terms: Terms,
    owner: str | None = None,
    crossed: float = 1.0,
) -> float:
    rated = _rates(blocks, rates, terms.error_factor, crossed)
    slack = _square_slack(layout, [(b, r) for b, r in rated if owner is None or owner in b.owners], terms)
    return sensitivity(_counted(layout, terms), rated, terms.law, owner) + slack


def _counted(layout: Layout, terms: Terms) -> Layout:
    """The layout with the norms that records keep after rounding."""
    if terms.bound is None or not layout.norms:
        return layout
    signed = Counter(a.owner for a in layout.attributes if a.kind is Encoding.SIGNED and a.role is Role.FEATURE)
    kept = tuple((owner, rounded_norm(norm, signed[owner], terms.bound)) for owner, norm in layout.norms)
    return replace(layout, norms=kept)


@proven("rounding")
def _square_slack(layout: Layout, rated: Sequence[tuple[Block, float]], terms: Terms) -> float:
    """How far the correction of rounded squares, and rounded products, can move the release beyond the products.

    For each square, a quarter of a step of the products' grid (f(1 - f) <= 1/4) and one more for its own rounding.

    Domain: terms.bound: of the grid; None in a draft, which counts no rounding.
    Unit: rate times moment.
    Guarantee: added to a sensitivity of the squares it covers their correction. Proof: rounding, privacy.
    """
    if terms.bound is None:
        return 0.0
    total = 0.0
    for block, rate in rated:
        if not block.single and block.summed:
            # Two owners add squares of their own, each rounded once more to the products' integers.
            own = block.weights[block.factors[:, -2] == block.factors[:, -1]]
            moved = 1.25 * float(np.abs(own).sum()) + len(own)
            total += rate * moved if terms.law is Distribution.LAPLACE else (rate * moved) ** 2
        elif block.single and (squares := _rounded_squares(layout, block, terms.task)):
            moved = (
                squares / 4 + 1
                if block.summed
                else 1.25 * (squares if terms.law is Distribution.LAPLACE else sqrt(squares))
            )
            total += rate * moved if terms.law is Distribution.LAPLACE else (rate * moved) ** 2
    corrected = (total if terms.law is Distribution.LAPLACE else sqrt(total)) / terms.bound**2 * (1 + 2.0**-40)
    return corrected + product_slack(layout, rated, terms.task, terms.law, terms.bound, terms.errors)


def _rounded_squares(layout: Layout, block: Block, task: Task) -> int:
    """How many terms of a block are squares of numbers that were rounded, or products of a numeric label's halves.

    Each is counted as if it weighed 1, which is the most that a release weighs one by.
    """
    rounded = [a.kind is Encoding.SIGNED or (a.role is Role.LABEL and task is Task.LINEAR) for a in layout.attributes]
    first, second = (layout.attribute_of[block.factors[:, i]] for i in (-2, -1))
    own = (first == second) & (first >= 0) & np.array([*rounded, False])[first]
    if np.abs(block.weights[own]).max(initial=0.0) > 1:
        raise BrokenError(f"squares of rounded numbers must weigh at most 1, and block {block.name} has a heavier one")
    return int(own.sum())


def _finish(
    layout: Layout,
    blocks: tuple[Block, ...],
    scales: Sequence[Fraction],
    terms: Terms,
    promised: Mapping[str | None, float],
    narrowed: Mapping[str, Fraction] | None = None,
) -> PrivacyPlan:
    """`promised` are epsilons that the scales keep by construction, so that rounding cannot print a larger one."""
    if not terms.promised:
        alone = [Fraction(0)] * len(blocks)
    elif terms.calibration is Calibration.PAPER:
        alone = [_paper_alone(b, terms) for b in blocks]
    else:
        alone = [_coarse(Fraction(moved)) for moved in _alone(layout, blocks, terms)]
    items = tuple(BlockPlan(b, s, scale) for b, s, scale in zip(blocks, alone, scales, strict=True))
    scopes: tuple[str | None, ...] = (None, *layout.owners) if terms.promised else ()
    views = {scope: _views(layout, items, terms, scope, promised.get(scope, inf), narrowed or {}) for scope in scopes}
    epsilons = {
        scope: {view: None if g is None else g.epsilon for view, g in found.items()} for scope, found in views.items()
    }
    return PrivacyPlan(
        layout,
        terms.task,
        terms.calibration,
        terms.law,
        terms.delta,
        terms.collusion,
        items,
        terms.error_factor,
        epsilons.get(None, {}),
        {party: found for party, found in epsilons.items() if party},
        {party: _worst(found) for party, found in views.items() if party},
        terms.bound,
        errors=terms.errors,
        purpose=terms.purpose,
        narrowed=narrowed or {},
    )


@proven("views")
def _views(
    layout: Layout,
    items: tuple[BlockPlan, ...],
    terms: Terms,
    owner: str | None,
    promised: float,
    narrowed: Mapping[str, Fraction],
) -> dict[View, Guarantee | None]:
    """The guarantee of the record (owner None) or of one party's part against each view.

    A coalition is the server with up to c parties; a single party is covered when c >= 1. With c = 0 a party knows a
    share of the noise: under Gaussian the rest is a smaller Gaussian, under Laplace there is no guarantee.

    Domain: items: blocks with their final scales; owner: None for the record.
    Unit: epsilon in nats.
    Guarantee: no view learns more than its epsilon says; None promises nothing. Proof: views.
    """
    parties = len(layout.owners)
    if narrowed:
        # The other party knows all noise but one share; everybody else sees both, of Laplace no more than one of them.
        seen = sqrt(sum(float(f) ** 2 for f in narrowed.values())) if terms.law is Distribution.GAUSSIAN else 1.0
        seers: list[tuple[str | None, float]] = [] if owner else [(None, 1 / seen)]
        seers += [(p, 1 / float(f)) for p, f in narrowed.items() if owner in (None, p)]
        whole = max((_guarantee(layout, items, terms, *seer) for seer in seers), key=lambda found: found.epsilon)
    else:
        whole = _guarantee(layout, items, terms, owner, 1.0)
    if terms.calibration is Calibration.EXACT:
        whole = replace(whole, epsilon=min(whole.epsilon, promised))
    party: Guarantee | None = None
    if parties > 1:
        if terms.collusion > 0:
            party = whole
        elif terms.law is Distribution.GAUSSIAN:
            party = _guarantee(layout, items, terms, owner, sqrt(parties / (parties - 1)), rounded=False)
        elif all(i.block.single for i in items):
            party = whole
    return {
        View.OUTSIDER: whole,
        View.SERVER: whole,
        View.PARTY: party,
        View.COALITION: whole if parties > 1 else None,
    }


def _worst(views: Mapping[View, Guarantee | None]) -> Guarantee:
    """What holds against every view that has a guarantee: where delta hides a rho, epsilons do not order them."""
    known = [found for found in views.values() if found is not None]
    worst = max(known, key=lambda found: (not found.dominated, found.rho or 0))
    return replace(worst, epsilon=max(found.epsilon for found in known))


def _guarantee(
    layout: Layout, items: tuple[BlockPlan, ...], terms: Terms, owner: str | None, crossed: float, rounded: bool = True
) -> Guarantee:
    """Cross-party rates count times a factor; `rounded` says that noise has the variance that rounding takes."""
    touched = [i for i in items if owner is None or owner in i.block.owners]
    if not touched:
        # A declared objective may use no column of a party: its part moves nothing.
        return Guarantee(0.0, terms.delta, Fraction(0) if terms.law is Distribution.GAUSSIAN else None)
    if terms.calibration is Calibration.PAPER:
        # Theorems 1 and 2: every block has its own scale in the bottom-up case, so the sum is taken block by block.
        total = float(sum((paper_sensitivity([i.block], owner) / i.scale for i in touched), Fraction(0)))
        if terms.error_factor == 1:
            return Guarantee(total, 0.0)
    rates = [1 / float(i.scale) for i in touched]
    joint = _joint(layout, [i.block for i in touched], rates, terms, owner, crossed)
    if terms.calibration is Calibration.PAPER:
        # The paper's 2 max leaves room for the product's own error, unless a party holds very little.
        summed = float(sum((_paper_alone(i.block, terms) / i.scale for i in touched), Fraction(0)))
        return Guarantee(max(total, min(joint, summed)), 0.0)
    moved = [i.sensitivity / i.scale * (1 if i.block.single else Fraction(crossed)) for i in touched]
    if terms.law is Distribution.LAPLACE:
        return Guarantee(min(joint, float(sum(moved, Fraction(0)))), 0.0)
    composed = sum(float(m) ** 2 for m in moved)
    rho = Fraction(min(joint**2, composed) / 2)
    # Fewer shares than planned have less than the variance that rounding takes, which only zCDP does without.
    epsilon = epsilon_of_gaussian(rho, terms.delta) if rounded else epsilon_of_rho(rho, terms.delta, SLACK)
    return Guarantee(epsilon, terms.delta, rho, dominated=rounded)


def _coarse(value: Fraction) -> Fraction:
    """Rounded up to 24 significant bits, so that every machine writes the same number."""
    step = Fraction(2.0 ** (ceil(log2(float(value))) - 24))
    return ceil(value / step) * step


def _root_below(value: Fraction) -> Fraction:
    """A rational square root, rounded down."""
    return Fraction(sqrt(float(value))) * (1 - Fraction(1, 2**40))
