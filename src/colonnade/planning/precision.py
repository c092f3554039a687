"""How fine the grid and how large the words of a session are: rounding stays small beside noise, and no sum wraps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil, sqrt

import numpy as np

from colonnade.crypto.product import ChainNeeds, ProductNeeds, ProductSizes, ProductSpec
from colonnade.foundation.errors import ProductError, StudyError
from colonnade.foundation.grid import LARGEST_BOUND, Grid, rounded_norm
from colonnade.foundation.proven import proven
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.monomials import parts_of, rounded_parts
from colonnade.mechanism.objective import Task, monomial
from colonnade.mechanism.plan import BlockPlan, PrivacyPlan
from colonnade.planning.local_columns import LocalPlan

SHARES = ((Fraction(1, 50), Fraction(1, 100)), (Fraction(1, 10), Fraction(1, 10)), (Fraction(1, 2), Fraction(1, 4)))
"""Of the noise's standard deviation, what rounding and the product's own error should move a sum by, and may."""
BOUNDS = tuple((1 << bits) - 1 for bits in range(3, 12))
"""Grids of numbers: a coarser one than the first would pay more for the correction of squares than it saves."""
MADE_BOUND = 127
"""The coarsest grid of products that parties make of their own numbers."""
SHARE_VARIANCE = 10.0
"""Least variance of a Gaussian share on the integers: 10^9 sums of shares are then within 2^-40 of the exact law."""
MOST_ROWS = 1 << 31
"""Float64 holds a party's own sums of products exactly up to here: entries are below 2^11."""
MOST_SQUARES = 1 << 38
"""Of all records in one trace: the float that what rounding adds to them is summed in is then right to a quarter."""
SILENT = 2.0**40
"""Stands for the noise on products that a session has none of: beside it any error is small."""
REPLANNED = Fraction(11, 10)
"""The final plan has less than this much more noise: rounding and the product's own error are paid for in epsilon."""


def check_rows(rows: int) -> None:
    if rows < 2:
        raise StudyError(f"a regression needs at least 2 common records, got n={rows}")
    if rows > MOST_ROWS:
        raise StudyError(f"a session serves at most 2^31={MOST_ROWS} records, got n={rows}")


def check_squares(rows: int, blocks: Iterable[Block]) -> None:
    """Refuse traces of more squares than `rounding` (proofs), floats, allows for."""
    squares = rows * max((len(block.factors) for block in blocks if block.summed), default=0)
    if squares > MOST_SQUARES:
        raise StudyError(f"a trace adds up at most 2^38={MOST_SQUARES} squares, got {squares} with n={rows}")


def fit_sizes(
    plan: PrivacyPlan,
    rows: int,
    sizes: Callable[[ProductNeeds], ProductSizes],
    local: LocalPlan | None = None,
    proved: bool = False,
) -> tuple[Grid, ProductSizes]:
    """The grid, and the sizes of a product that has an error of its own.

    Rounding stays under 2% and that error under 1% of the noise's standard deviation. With very many records no word
    holds such fine products; then they may be up to a half and a quarter of it, which is small beside the records.
    """
    levels = max(a.size for a in plan.layout.attributes)
    made = {} if local is None else {party: len(parts) for party, parts in local.made.items()}
    refusal: ProductError | None = None
    for grid, error in _grids(plan, rows, local):
        crossed = [item for item in plan.blocks if len(item.block.owners) == 2]
        # Chains alone decide where no product has two owners. Noise below a unit becomes many units by the gain.
        least = min((float(_noise(plan, item, grid.unit).stds().min()) for item in crossed), default=SILENT)
        noise = max(1, *(_noise_reach(plan, item, grid.unit) for item in crossed)) if crossed else 0
        own = max((farthest(plan, item, rows, grid.unit) for item in plan.blocks if item.block.single), default=0)
        try:
            return grid, sizes(
                ProductNeeds(
                    ceil(rows * max((_record_reach(item) for item in crossed), default=Fraction(1))),
                    grid.bound,
                    _hiding(plan) * least,
                    ceil(noise * REPLANNED),
                    plan.layout.width - 1 + sum(made.values()),
                    levels,
                    share=error,
                    hints=_coalition_columns(plan, made),
                    own_reach=ceil(own * REPLANNED),
                    chains=() if local is None else _chain_needs(plan, grid, local),
                    proved=rows if proved else 0,
                )
            )
        except ProductError as refused:
            refusal = refused
    assert refusal is not None
    raise refusal


def _grids(plan: PrivacyPlan, rows: int, local: LocalPlan | None) -> Iterator[tuple[Grid, Fraction]]:
    """Grids in the order in which they are tried, and the share of the noise that the product's error may have."""
    for rounding, error in SHARES:
        grid = Grid(grid_bound(plan, rows, rounding))
        if (rounding, error) == SHARES[0] or rounding_share(plan, rows, grid.bound) <= rounding:
            yield grid, error
    if local is not None and local.chains:
        # Products of many owners are long: a coarse grid, of which the plan warns, is better than none.
        for bound in reversed([b for b in BOUNDS if b < grid.bound]):
            yield Grid(bound), SHARES[-1][1]


def _chain_needs(plan: PrivacyPlan, grid: Grid, local: LocalPlan) -> tuple[ChainNeeds, ...]:
    out = []
    for owners in sorted({len(chain.owners) for chain in local.chains}):
        unit = grid.bound**owners
        items = [item for item in plan.blocks if len(item.block.owners) == owners]
        std = _hiding(plan) * min(float(_noise(plan, item, unit).stds().min()) for item in items)
        reach = ceil(max(1, *(_noise_reach(plan, item, unit) for item in items)) * REPLANNED)
        alike = [chain for chain in local.chains if len(chain.owners) == owners]
        out.append(ChainNeeds(owners, std, reach, sum((owners - 1) * len({t[:-1] for t in c.terms}) for c in alike)))
    return tuple(out)


def _coalition_columns(plan: PrivacyPlan, made: Mapping[str, int]) -> int:
    """The most columns that the parties who may collude have together; one that looks alone counts too."""
    widths = [sum(a.size for a in plan.layout.attributes if a.owner == name) + made.get(name, 0) for name in plan.names]
    return sum(sorted(widths)[-max(1, plan.collusion) :])


def grid_bound(plan: PrivacyPlan, rows: int, share: Fraction = SHARES[0][0]) -> int:
    """The coarsest grid whose rounding stays under this share of the noise. Indicators need no rounding at all."""
    rounded = any(
        a.kind is Encoding.SIGNED or (a.role is Role.LABEL and plan.task is Task.LINEAR) for a in plan.layout.attributes
    )
    summed = 0.0
    if plan.law.stable:
        # Shares add up to a discrete Gaussian only if each is wide enough in steps of the product's grid.
        least = min(float(item.scale) / float(np.abs(item.block.weights).max()) for item in plan.blocks)
        summed = sqrt(sqrt(SHARE_VARIANCE * plan.shares) / (least * _least_share(plan)))
    if plan.layout.has_interactions:
        return _interaction_bound(plan, max(rounding_share(plan, rows, 1) / float(share) * rounded, summed))
    if not rounded:
        return next(b for b in (1, 3, 7, LARGEST_BOUND) if b >= summed or b == LARGEST_BOUND)
    needed = max(rounding_share(plan, rows, 1) / float(share), summed)
    return next(b for b in BOUNDS if b == LARGEST_BOUND or (b >= needed and _keeps_norms(plan, b)))


def _interaction_bound(plan: PrivacyPlan, needed: float) -> int:
    """The grid of a plan with interactions: fine enough, and so coarse that noise on long products can be drawn."""
    terms = (term for item in plan.blocks for term in item.block.factors)
    if any(rounded_parts(plan.layout, term, plan.task) for term in terms):
        # A record moves a product that was rounded by two steps more: with this bound that is little.
        needed = max(needed, MADE_BOUND)
    fitting = [b for b in BOUNDS if all(_drawable(plan, item, b) for item in plan.blocks)] or [BOUNDS[0]]
    return next((b for b in fitting if b >= needed), fitting[-1])


def _drawable(plan: PrivacyPlan, item: BlockPlan, bound: int) -> bool:
    """Whether a block's noise stays far below what the samplers draw."""
    owners = max(2, len(item.block.owners))
    return bool(_noise(plan, item, bound**owners).stds().max() < 2.0**42)


def rounding_share(plan: PrivacyPlan, rows: int, bound: int) -> float:
    """The largest standard deviation that rounding can give to a released sum, over that of its noise.

    An error e of a rounded number has variance f(1 - f) <= 1/4. A product of two such numbers moves by x e' + y e, of
    variance 1/2 at most, a square, once corrected, by 2 x e, of variance 1, and squares that are added up add up.
    """
    shares = []
    for item in plan.blocks:
        alike = item.block.factors[:, -2] == item.block.factors[:, -1]
        variance = float(len(alike)) if item.block.summed else 1.0 if alike.any() else 0.5
        if plan.layout.has_interactions:
            # Every factor of a term, and every product that a party makes, is rounded once.
            degrees = [len(monomial(plan.layout, t)) + len(parts_of(plan.layout, t)) for t in item.block.factors]
            variance = max(variance, max(degrees) / 4)
        shares.append(sqrt(rows * variance) * float(np.abs(item.block.weights).max()) / plan.noise_std(item))
    return max(shares) / bound


def _keeps_norms(plan: PrivacyPlan, bound: int) -> bool:
    """Whether rounding lengthens no record of a declared norm by more than a fiftieth."""
    width = plan.layout.width
    return all(rounded_norm(norm, width, bound) <= 1.02 * norm for _, norm in plan.layout.norms)


def _least_share(plan: PrivacyPlan) -> float:
    """Which part of its scale the narrowest share of cross-party noise has."""
    return float(min(plan.share(party) for party in plan.names))


def _hiding(plan: PrivacyPlan) -> float:
    """Which part of its deviation cross-party noise has, at least, to the parties that may collude, or to one alone.

    Any K - c shares have all of it. Where nobody was expected to collude, one party still knows its own of K shares.
    """
    parties = len(plan.names)
    left = Fraction(parties - 1, parties) if plan.collusion == 0 else Fraction(1)
    return _least_share(plan) * sqrt(left)


def _noise(plan: PrivacyPlan, item: BlockPlan, unit: int) -> IntegerNoise:
    return IntegerNoise.of(item.block, item.scale, plan.law, unit)


def _noise_reach(plan: PrivacyPlan, item: BlockPlan, unit: int) -> int:
    drawn = (1, 1) if item.block.single else (len(plan.names), plan.shares)
    return _noise(plan, item, unit).reach(*drawn)


@proven("no_wrap")
def farthest(plan: PrivacyPlan, item: BlockPlan, rows: int, unit: int) -> int:
    """No integer of a block is farther from zero, but for 2^-48 for each weight; a product counts 1/unit.

    A record adds at most the unit for each term of a sum; the terms of a summed block, a trace, add up.

    Domain: rows: n, up to 2^31.
    Unit: integers of the submitted vector.
    Guarantee: as the first line says. Proof: no_wrap.
    """
    return ceil(rows * _record_reach(item)) * unit + _noise_reach(plan, item, unit)


def _record_reach(item: BlockPlan) -> Fraction:
    """The most that one record adds to an integer, in units: integers stand without the weight of their term."""
    return Fraction(item.block.most) if item.block.summed else Fraction(1)


def cross_reach(plan: PrivacyPlan, rows: int, grid: Grid) -> int:
    """No opened integer of a cross-party block is farther from zero, but for 2^-48 for each of its weights."""
    crossed = [item for item in plan.blocks if len(item.block.owners) == 2]
    return max((farthest(plan, item, rows, grid.unit) for item in crossed), default=rows * grid.unit)


@proven("no_wrap")
def require_room(plan: PrivacyPlan, spec: ProductSpec, error: int, gains: Mapping[int, int]) -> None:
    """Refuse a plan that has a block whose sums, noise and the product's error included, could wrap.

    Domain: the final plan; error: the product's own, at most.
    Unit: integers of the submitted vector.
    Guarantee: every opened integer is the sum of its parts, but for 2^-48 for each weight of a block. Proof: no_wrap.
    """
    limit = 1 << (spec.modulus_bits - 1)
    for item in plan.blocks:
        owners = len(item.block.owners)
        unit = spec.bound ** max(2, owners)
        gain = 1 if item.block.single else spec.gain if owners == 2 else gains[owners]
        noise = _noise_reach(plan, item, unit * gain)
        reach = gain * ceil(spec.rows * _record_reach(item)) * unit + noise + (0 if item.block.single else error)
        if reach >= limit:
            more = "a larger epsilon" if 2 * noise > reach else "fewer records"
            raise ProductError(
                f"the sums of block {item.block.name} may reach {reach}, which words of {spec.modulus_bits} bits "
                f"cannot hold: {more} would fit"
            )
