"""The terms of a prediction: scores of records whose columns lie at several parties, opened by one of them.

A party's part is x_k . w_k of every record in fixed point, modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Words
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.schema import Column, column_to
from colonnade.mechanism.release import digest

Floats = NDArray[np.float64]

MODULUS_BITS = 64
STEPS = 2.0**40
"""Steps of the fixed-point grid in a score of 1; each party's part is rounded to it once."""
LARGEST_SCORE = 2.0**62 / STEPS
"""No sum of parts may reach this: half the modulus, and a factor of two to spare."""


@dataclass(frozen=True)
class Prediction:
    """What parties agree to before they score: which model, by which of their columns, for whom."""

    model: str
    """Digest of the model file, which every party has."""
    receiver: str
    columns: Mapping[str, Mapping[str, Column]]
    """The columns of each party that the model has a weight for; the receiver may have none."""

    def __post_init__(self) -> None:
        if self.receiver not in self.columns or len(self.columns) < 2:
            told = ", ".join(self.columns) or "none"
            raise ProtocolError(f"scores must go to one of two or more parties, got {self.receiver!r} of {told}")

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def to(self) -> dict[str, Any]:
        columns = {p: {n: column_to(c) for n, c in own.items()} for p, own in self.columns.items()}
        return {"model": self.model, "receiver": self.receiver, "columns": columns}

    def terms(self, rows: int) -> str:
        """The digest of these terms for n records: what a person approves."""
        # Parties stand in mask order, which sorted keys would not tell.
        return digest({"prediction": {**self.to(), "parties": list(self.parties), "rows": rows}})


def words_of(part: Floats, parties: int) -> Words:
    """A party's part in fixed point, modulo 2^64."""
    if not np.isfinite(part).all() or (part.size and float(np.abs(part).max()) >= LARGEST_SCORE / parties):
        raise ProtocolError(f"a part of a score must be below {LARGEST_SCORE / parties:.6g}, got a larger one")
    return np.rint(part * STEPS).astype(np.int64).view(np.uint64)


def scores_of(total: Words) -> Floats:
    """The opened sums as numbers."""
    scores: Floats = total.view(np.int64) / STEPS
    return scores
