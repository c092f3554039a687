"""Fixed point: every coordinate of a record is an integer between -bound and bound before any product is formed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError

LARGEST_BOUND = 2**11 - 1


@dataclass(frozen=True)
class Grid:
    """Integers Z in [-bound, bound] stand for Z / bound in [-1, 1]."""

    bound: int

    def __post_init__(self) -> None:
        if not 1 <= self.bound <= LARGEST_BOUND:
            raise StudyError(f"the grid's bound must lie between 1 and {LARGEST_BOUND}, got bound={self.bound}")

    @property
    def unit(self) -> int:
        """A product of two coordinates counts in 1/unit."""
        return self.bound * self.bound

    def signed(self, values: NDArray[np.float64]) -> NDArray[np.int16]:
        """Values in [-1, 1], rounded to the grid."""
        return np.rint(values * self.bound).astype(np.int16)

    def indicators(self, codes: NDArray[np.int32], levels: int) -> NDArray[np.int16]:
        """One column for each level: the bound where the code names the level, else 0."""
        out = np.zeros((codes.size, levels), dtype=np.int16)
        out[np.arange(codes.size), codes] = self.bound
        return out

    def halves(self, values: NDArray[np.float64]) -> NDArray[np.int16]:
        """(1-y)/2 and (1+y)/2 for y in [-1, 1]; the two integers of a row sum to the bound exactly."""
        upper = np.rint((1.0 + values) * (self.bound / 2.0)).astype(np.int16)
        return np.stack([np.int16(self.bound) - upper, upper], axis=1)
