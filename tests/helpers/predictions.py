"""Small whole predictions for tests, over the same wire as `sessions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.matching import NONE, PSI
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Numeric
from colonnade.planning.prediction import Prediction
from colonnade.protocol.messages import End, Step, body_of
from colonnade.protocol.party import PartyRole
from colonnade.protocol.predict import OpenedScores, PredictParty, PredictServer
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from tests.helpers.sessions import TappedSession

Parts = Mapping[str, NDArray[np.float64]]


def columns_of(parties: int) -> dict[str, dict[str, Column]]:
    return {f"p{k}": {f"x{k}": Numeric(-1, 1)} for k in range(parties)}


@dataclass
class Part:
    """A party's records, which are their own part of the score."""

    values: NDArray[np.float64]
    ids: list[str] | None = None

    @property
    def rows(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[np.int64]) -> Part:
        return Part(self.values[rows])

    def notes(self) -> list[str]:
        return []


class PredictedSession(TappedSession):
    """A prediction whose receiver's scores are kept."""

    opened: dict[str, OpenedScores]

    def ended(self) -> set[End]:
        return {body_of(e, End) for e in self.sent(Step.END)}


def predicted(
    parts: Parts, receiver: str = "p0", people: Mapping[str, list[str]] | None = None, **named: Any
) -> PredictedSession:
    scores = named.pop("scores", 1)
    prediction = Prediction("ab" * 32, receiver, columns_of(len(parts)), scores)
    alignment = NONE if people is None else PSI
    source = Randomness(b"scores")
    guards, kind = named.pop("guards", {}), named.pop("kind", PredictedSession)
    opened: dict[str, OpenedScores] = {}

    def role(name: str, part: NDArray[np.float64]) -> PartyRole:
        def keep(session: str, scores: OpenedScores) -> None:
            opened[name] = scores

        table = Part(part.copy(), None if people is None else people[name])
        task = PredictParty(
            name,
            prediction,
            alignment,
            lambda: table,
            lambda own: own.values.copy(),
            guards.get(name, Unguarded()),
            keep=keep,
        )
        return PartyRole(task, source)

    roles = {name: role(name, part) for name, part in parts.items()}
    out: PredictedSession = kind(ServerRole(PredictServer(prediction, alignment), source), roles, **named)
    out.opened = opened
    return out
