"""Sums of products of a party's integer columns, and apart from them what rounding to the grid added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.proven import proven

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Sums:
    """Both are kept as they are: who releases an integer rounds what is taken off it, once.

    A float that held their difference would have no bits left for the excess at 2^31 records.
    """

    products: Floats
    """Of all columns and of the constant 1, which the grid writes as its bound; exact, the constant first."""
    excess: Floats
    """By how much rounding is expected to have enlarged each column's sum of squares; the constant first."""
    halves: int | None = None
    """Where the upper half of a label stands whose lower one, before it, is the bound minus the upper."""

    @classmethod
    def of(cls, products: Floats) -> Sums:
        """Of columns that were integers from the start."""
        return cls(products, np.zeros(len(products)))

    def followed_by(self, sums: NDArray[np.int64]) -> Sums:
        """With columns behind that are integers, and of which the sum alone is known, times the bound."""
        own, width = len(self.products), len(self.products) + len(sums)
        products = np.zeros((width, width))
        products[:own, :own] = self.products
        products[0, own:] = products[own:, 0] = sums
        return replace(self, products=products, excess=np.concatenate([self.excess, np.zeros(len(sums))]))

    @proven("rounding")
    def added(self, rows: Places, columns: Places) -> Floats:
        """What rounding is expected to have added to these products.

        Domain: places of the sums' rows and columns.
        Unit: integers of sums of products.
        Guarantee: taken off, no bias is left. Proof: rounding, no bias.
        """
        out = np.where(rows == columns, self.excess[rows], 0.0)
        if self.halves is not None:
            # The lower half's square grows like the upper's, and the product of both shrinks by as much.
            crossed = (rows + columns == 2 * self.halves - 1) & (np.abs(rows - columns) == 1)
            out[crossed] = -self.excess[self.halves]
        return out

    def unbiased(self) -> Floats:
        """All products without what rounding added, unrounded: for forecasts, never for a release."""
        every = np.arange(len(self.excess))
        rows, columns = np.repeat(every, len(every)), np.tile(every, len(every))
        return self.products - self.added(rows, columns).reshape(self.products.shape)


class SumsOfBlocks:
    """Adds up the sums of blocks of records with so many columns."""

    def __init__(self, width: int, halves: int | None) -> None:
        self._halves = halves
        self.products = np.zeros((width + 1, width + 1))
        self.excess, self._lost = np.zeros(width), np.zeros(width)

    @proven("rounding")
    def add(self, products: Floats, enlarged: Floats) -> None:
        """Kahan's sum of the excess, so that no order of blocks and no other record shows in its last bits.

        Domain: sums of at most 2^31 records in all.
        Unit: integers of sums of products.
        Guarantee: the excess errs by less than a quarter. Proof: rounding, floats.
        """
        self.products += products
        step = enlarged - self._lost
        total = self.excess + step
        self._lost = (total - self.excess) - step
        self.excess = total

    @property
    def total(self) -> Sums:
        excess = np.concatenate([np.zeros(1), self.excess])
        halves = None if self._halves is None else self._halves + 1
        if halves is not None:
            excess[halves - 1] = excess[halves]
        return Sums(self.products, excess, halves)
