"""The terms of a prediction: scores of records whose columns lie at several parties, opened by one of them.

A party's part is x_k . w_k of every record in fixed point, modulo 2^64. A model of several classes has one such score
for each class but the first, that class's taken off: chances depend on no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Words
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.matching import AS_THEY_ARE, IdTerms
from colonnade.foundation.schema import Column, column_to
from colonnade.mechanism.release import digest

Floats = NDArray[np.float64]

MODULUS_BITS = 64  # a whole word: scores need no product's shorter words
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
    scores: int = 1
    """How many numbers are opened of each record."""
    ids: IdTerms = AS_THEY_ARE

    def __post_init__(self) -> None:
        if self.scores < 1:
            raise ProtocolError(f"a prediction opens one score of each record or more, got {self.scores}")
        if self.receiver not in self.columns or len(self.columns) < 2:
            told = ", ".join(self.columns) or "none"
            raise ProtocolError(f"scores must go to one of two or more parties, got {self.receiver!r} of {told}")

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def to(self) -> dict[str, Any]:
        columns = {p: {n: column_to(c) for n, c in own.items()} for p, own in self.columns.items()}
        several = {} if self.scores == 1 else {"scores": self.scores}
        return {"model": self.model, "receiver": self.receiver, "columns": columns, **several, **self.ids.to()}

    def terms(self, rows: int) -> str:
        """The digest of these terms for n records: what a person approves."""
        # Parties stand in mask order, which sorted keys would not tell.
        return digest({"prediction": {**self.to(), "parties": list(self.parties), "rows": rows}})


def words_of(part: Floats, parties: int) -> Words:
    """A party's part in fixed point, modulo 2^64; several scores of a record stand one after another."""
    if not np.isfinite(part).all() or (part.size and float(np.abs(part).max()) >= LARGEST_SCORE / parties):
        raise ProtocolError(f"a part of a score must be below {LARGEST_SCORE / parties:.6g}, got a larger one")
    return np.rint(part * STEPS).astype(np.int64).ravel().view(np.uint64)


def scores_of(total: Words, scores: int = 1) -> Floats:
    """The opened sums as numbers; with several scores, a row of them for each record."""
    found: Floats = total.view(np.int64) / STEPS
    return found if scores == 1 else found.reshape(-1, scores)
