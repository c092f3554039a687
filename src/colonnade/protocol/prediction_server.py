"""The server's side of a prediction: it adds up masked parts and can read neither them nor their sum.

state    receives           sends                                next
-------  -----------------  -----------------------------------  -------
joining  join (the last)    plan to all                          asking
asking   accept (the last)  go submit to all                     running
running  part, done (last)  the sum to the receiver, end to all  opened
any      refuse             abort to all                         failed
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.convener import Convener, State
from colonnade.protocol.messages import (
    SUBMIT,
    Accept,
    Assembly,
    Done,
    Envelope,
    Join,
    Masked,
    Piece,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
    submission,
    total_of,
)
from colonnade.protocol.prediction import MODULUS_BITS, Prediction


class ScoringServer(Convener):
    """Adds up masked parts and hands the sum, still masked, to the receiver."""

    kind, source, done = "prediction", "model", "handed the scores on"

    def __init__(self, prediction: Prediction, randomness: Randomness) -> None:
        super().__init__(prediction.columns, randomness)
        self.prediction = prediction
        self._terms = ""
        self._assemblies: dict[str, Assembly] = {}
        self._total: Masked | None = None

    @property
    def digest(self) -> str:
        return self._terms

    @property
    def rows(self) -> int:
        """How many records are scored; none before all have joined."""
        return self._joined[self.parties[0]].rows if self._terms else 0

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer one message."""
        self._admit(envelope)
        party = envelope.sender
        match envelope.step:
            case Step.JOIN:
                yield from self._join(party, body_of(envelope, Join))
            case Step.ACCEPT:
                yield from self._accept(party, body_of(envelope, Accept))
            case Step.SUBMIT:
                yield from self._submitted(party, body_of(envelope, Piece))
            case Step.DONE:
                yield from self._done(party, body_of(envelope, Done))
            case Step.REFUSE:
                yield from self.abort(body_of(envelope, Refuse).code, party)
            case _:
                raise ProtocolError(f"a prediction has no {envelope.step.value} message, {party} sends one")

    def _convened(self, rows: int) -> dict[str, Any]:
        self._terms = self.prediction.terms(rows)
        return self.prediction.to()

    def _first_round(self) -> str:
        return SUBMIT

    def _submitted(self, party: str, piece: Piece) -> Iterator[Envelope]:
        if party == self.prediction.receiver or party not in self._waiting:
            raise ProtocolError(f"the server has the part of {party} already, or expects none")
        rows = self._joined[party].rows
        whole = self._assemblies.setdefault(party, Assembly(16 * rows + 64)).add(piece)
        if whole is None:
            return
        del self._assemblies[party]
        part = masked_from(whole, rows)
        self._total = part if self._total is None else Masked(total_of([self._total, part], MODULUS_BITS), b"")
        if self._arrived(party, "the part"):
            yield from self._hand_over()

    def _done(self, party: str, done: Done) -> Iterator[Envelope]:
        if party != self.prediction.receiver or done.round != SUBMIT:
            raise ProtocolError(f"the server expects the end of round {SUBMIT} from the receiver, got {party}'s")
        if self._arrived(party, "the end"):
            yield from self._hand_over()

    def _hand_over(self) -> Iterator[Envelope]:
        assert self._total is not None
        bodies = submission(self._total)
        self.state, self._total = State.OPENED, None
        for name in self.parties:
            for body in bodies if name == self.prediction.receiver else [encode_body(Piece(0, 1, b""))]:
                yield self._make(name, Step.OPENED, body)

    def _forget(self) -> None:
        self._total = None
        self._assemblies.clear()
