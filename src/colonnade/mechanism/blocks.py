"""An exact block never leaves its party; a noisy one may. They are different types, and mypy keeps them apart."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.sums import Sums
from colonnade.mechanism.accounting import ROUNDING_VARIANCE
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.noise import gaussian_share, laplace_share, quantile_reach

Integers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class ExactBlock:
    """The exact integer sums of a single-party block, held by its owner only."""

    values: Integers


@dataclass(frozen=True, repr=False)
class NoisyBlock:
    """The sums with the whole noise of their scale in them."""

    values: Integers


@dataclass(frozen=True)
class IntegerNoise:
    """The law of a block's noise in units of the integers that carry it."""

    law: Distribution
    spreads: tuple[tuple[Fraction, NDArray[np.int64]], ...]
    """Each distinct spread (b of Laplace, sigma^2 of Gaussian) with the positions of the terms that get it."""
    size: int

    @classmethod
    def of(cls, block: Block, scale: Fraction, law: Distribution, unit: int) -> IntegerNoise:
        """Noise of `scale` on a coefficient weight * P / unit is noise of scale * unit / |weight| on the integer P."""
        weights = np.ones(1) if block.summed else np.abs(block.weights)
        groups = []
        for weight in np.unique(weights):
            spread = scale * unit / Fraction(float(weight))
            if law is Distribution.GAUSSIAN:
                # The plan accounts for a continuous Gaussian; rounding it to integers costs this much variance.
                spread = spread * spread + ROUNDING_VARIANCE
            groups.append((spread, np.flatnonzero(weights == weight)))
        return cls(law, tuple(groups), block.size)

    def part(self, start: int, stop: int | None = None) -> IntegerNoise:
        """The law of the noise on these integers alone."""
        end = self.size if stop is None else stop
        kept = ((spread, where[(where >= start) & (where < end)] - start) for spread, where in self.spreads)
        return IntegerNoise(self.law, tuple((s, w) for s, w in kept if w.size), end - start)

    def draw(self, parts: int, randomness: Randomness) -> Integers:
        """One share; any `parts` of them add up to the whole noise."""
        share = laplace_share if self.law is Distribution.LAPLACE else gaussian_share
        out = np.zeros(self.size, dtype=np.int64)
        for spread, where in self.spreads:
            out[where] = share(spread, parts, where.size, randomness)
        return out

    def stds(self) -> NDArray[np.float64]:
        """The standard deviation of the whole noise on each integer."""
        out = np.zeros(self.size)
        for spread, where in self.spreads:
            out[where] = sqrt(2) * float(spread) if self.law is Distribution.LAPLACE else sqrt(float(spread))
        return out

    def reach(self, parties: int, parts: int) -> int:
        """No integer's noise from `parties` shares is farther from zero, but for probability 2^-48 for each spread."""
        return max(
            quantile_reach(self.law, spread, where.size, 48, parties=parties, parts=parts)
            for spread, where in self.spreads
        )


@proven("rounding")
def exact_block(block: Block, sums: Sums, offset: int) -> ExactBlock:  # Alg. 1, line 6
    """The block's integers, picked from the owner's own sums; what rounding added is rounded once for each of them.

    Coordinate c of the record stands at row 1 + c - offset, and the constant 0 at row 0.

    Domain: sums: of one owner's verified columns.
    Unit: integers of the submitted vector.
    Guarantee: no bias but for half a step, and one rounding that a record can turn. Proof: rounding.
    """
    rows = np.where(block.factors == 0, 0, block.factors - offset + 1)
    pairs = rows[:, -2], rows[:, -1]
    values, added = sums.products[pairs].astype(np.int64), sums.added(*pairs)
    if block.summed:
        values, added = values.sum(keepdims=True), added.sum(keepdims=True)
    return ExactBlock(values - np.rint(added).astype(np.int64))


@proven("rounding")
def own_square(block: Block, sums: Sums, offset: int, gain: int) -> int:
    """What one owner adds to its share of a sum of two owners' terms: its squares, in the integers of the product.

    Exact like an ExactBlock, it may only be added to a share that has this party's noise in it.

    Domain: a block of two owners that is summed.
    Unit: integers of the product.
    Guarantee: a record turns two roundings at most. Proof: squared_sum, rounding.
    """
    rows = block.factors - offset + 1
    mine = (block.factors[:, -2] == block.factors[:, -1]) & (rows[:, -1] > 0) & (rows[:, -1] < len(sums.excess))
    return sum(
        round(Fraction(float(weight)) * gain * (round(sums.products[row, row]) - round(sums.excess[row])))
        for weight, row in zip(block.weights[mine], rows[mine, -1], strict=True)
    )


def perturb(exact: ExactBlock, noise: Integers) -> NoisyBlock:  # Alg. 1, line 7
    """The noisy block."""
    return NoisyBlock(exact.values + noise)
