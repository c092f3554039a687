"""Fixed point: every coordinate of a record is an integer between -bound and bound before any product is formed."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from colonnade.foundation.errors import StudyError

LARGEST_BOUND = 2**11 - 1  # 12 bits a number; a plan warns where rounding to that adds to its noise


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


def rounded_norm(norm: float, features: int, bound: int) -> float:
    """The norm that so many features of the given norm keep after rounding, but for one record in some 10^7.

    Rounding adds f(1 - f) <= 1/4 to each square on average. What it adds beyond is under 6 times the length and the
    root of a quarter of the features, by Hoeffding's inequality.
    """
    return norm + (6.0 * norm * bound + features / 4 + 1.5 * sqrt(features)) / (2.0 * norm * bound * bound)
