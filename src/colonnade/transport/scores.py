"""A whole prediction in this process: match the parties' new records, open the sum of their parts at one party."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.prediction import Consent, Floats, Prediction, ScoringParty
from colonnade.protocol.prediction_server import ScoringServer
from colonnade.transport.embedded import Watch, match
from colonnade.transport.in_process import Carrier


@dataclass(frozen=True)
class Opened:
    """What the receiver holds at the end: a score for each of these rows of its own table."""

    rows: NDArray[np.int64]
    scores: Floats

    @classmethod
    def of(cls, scores: Floats, rows: NDArray[np.int64] | None) -> Opened:
        """The common order is that of the matching; the receiver's own is what its people know."""
        matched = np.arange(len(scores)) if rows is None else rows
        order = np.argsort(matched)
        return cls(matched[order], scores[order])


def score_embedded(
    prediction: Prediction,
    tables: Mapping[str, Table],
    part_of: Callable[[Table], Floats],
    alignment: str = "psi",
    randomness: Randomness | None = None,
    watch: Watch | None = None,
    consent: Mapping[str, Consent] | None = None,
    largest_lists: Mapping[str, int | None] | None = None,
) -> Opened:
    """All roles in this process; `part_of` is a party's own part of every record's score."""
    source = Randomness() if randomness is None else randomness
    taking = {name: tables[name] for name in prediction.parties}
    rows_of = match(taking, alignment, source, watch, largest_lists)
    parties = {}
    for name, table in taking.items():
        part = part_of(table if rows_of is None else table.take(rows_of[name]))
        hooks = {} if consent is None or name not in consent else {"consent": consent[name]}
        parties[name] = ScoringParty(name, prediction, part, source.child(f"scores {name}"), **hooks)
    Carrier(ScoringServer(prediction, source.child("scores")), parties).carry()
    scores = parties[prediction.receiver].scores
    assert scores is not None
    return Opened.of(scores, None if rows_of is None else rows_of[prediction.receiver])
