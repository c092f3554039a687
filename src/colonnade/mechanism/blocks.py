"""An exact block never leaves its party; a noisy one may. They are different types, and mypy keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Law
from colonnade.mechanism.noise import gaussian_share, laplace_share

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

    law: Law
    scales: tuple[tuple[Fraction, NDArray[np.int64]], ...]
    """Each distinct scale (b, or sigma) with the positions of the terms that get it."""
    size: int

    @classmethod
    def of(cls, block: Block, scale: Fraction, law: Law, unit: int) -> IntegerNoise:
        """Noise of `scale` on a coefficient weight * P / unit is noise of scale * unit / |weight| on the integer P."""
        if block.summed:
            return cls(law, ((scale * unit, np.zeros(1, dtype=np.int64)),), 1)
        weights = np.abs(block.weights)
        groups = tuple((scale * unit / Fraction(float(w)), np.flatnonzero(weights == w)) for w in np.unique(weights))
        return cls(law, groups, block.size)

    def draw(self, parts: int, randomness: Randomness) -> Integers:
        """One share; any `parts` of them add up to the whole noise."""
        out = np.zeros(self.size, dtype=np.int64)
        for scale, where in self.scales:
            if self.law is Law.LAPLACE:
                out[where] = laplace_share(scale, parts, where.size, randomness)
            else:
                out[where] = gaussian_share(scale * scale, parts, where.size, randomness)
        return out

    def stds(self) -> Iterator[float]:
        factor = np.sqrt(2.0) if self.law is Law.LAPLACE else 1.0
        return (float(scale) * factor for scale, _ in self.scales)


def exact_block(block: Block, gram: NDArray[np.float64], offset: int) -> ExactBlock:  # Alg. 1, line 6
    """The block's sums, picked from the owner's own Gram matrix; its first row is the constant's.

    Coordinate c of the record stands at row 1 + c - offset, and the constant 0 at row 0.
    """
    rows = np.where(block.factors == 0, 0, block.factors - offset + 1)
    values = np.rint(gram[rows[:, -2], rows[:, -1]]).astype(np.int64)
    return ExactBlock(values.sum(keepdims=True) if block.summed else values)


def perturb(exact: ExactBlock, noise: Integers) -> NoisyBlock:  # Alg. 1, line 7
    """The noisy block."""
    return NoisyBlock(exact.values + noise)
