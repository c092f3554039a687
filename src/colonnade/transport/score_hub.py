"""The server's side of a prediction over a network: nothing is noted, and the receiver has the last word."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.messages import Step
from colonnade.protocol.prediction import Prediction
from colonnade.protocol.prediction_server import ScoringServer
from colonnade.transport.hall import Hall, Watch
from colonnade.transport.journal import Journal
from colonnade.transport.study_digest import prediction_digest
from colonnade.transport.wire import Over, Patience


@dataclass(frozen=True)
class Handed:
    """How a prediction ended, as the server can tell: it never sees a score."""

    over: Over
    session: str
    receiver: str
    rows: int
    sent: dict[str, int]
    received: dict[str, int]

    @property
    def kept(self) -> bool:
        """Whether the receiver said that it has the scores."""
        return self.over.code is None

    @property
    def sentence(self) -> str:
        if self.kept:
            return f"{self.receiver} opened the scores of {self.rows:,} records"
        return without_scores(self.over, self.receiver)


def without_scores(over: Over, receiver: str) -> str:
    """Who ended a prediction, at which step, and whether a score can have been opened."""
    shown = (
        f"{receiver} had been handed the masked sum, and can say whether it has the scores"
        if over.opened
        else "the sum was handed to nobody, and no score was opened"
    )
    return f"{sentence_of(over.code or Code.INTERNAL, over.party)}; it was at step {over.step}; {shown}"


class ScoreHub(Hall):
    """Carries one prediction. It spends nothing, so that there is nothing to remember of it."""

    steps = {  # noqa: RUF012 - never changed
        Step.JOIN: "plan",
        Step.ACCEPT: "plan",
        Step.SUBMIT: "submit",
        Step.DONE: "submit",
    }
    _server: ScoringServer

    def __init__(
        self,
        prediction: Prediction,
        alignment: str,
        randomness: Randomness,
        journal: Journal,
        patience: Patience | None = None,
        watch: Watch | None = None,
    ) -> None:
        server = ScoringServer(prediction, randomness.child("scores"))
        terms = prediction_digest(prediction, alignment)
        super().__init__(server, terms, alignment, randomness, journal, patience, watch)
        self._receiver = prediction.receiver

    def run(self, stop: Callable[[], bool] = lambda: False) -> Handed:
        """Drive the prediction to its end; `stop` says that somebody wants it ended."""
        over = self._session(stop)
        server = self._server
        return Handed(over, server.identity.hex(), self._receiver, server.rows, self._sent, self._received)

    def _deliver(self) -> Over:
        """The receiver takes its leave once the scores are on its disk: it is waited for as long as it is heard."""
        over = super()._deliver()
        with self._changed:
            receiver = self._members[self._receiver]
            while not receiver.told and time.monotonic() - receiver.heard <= self._patience.silence:
                if self._stop():
                    break
                self._changed.wait(0.1)
        if receiver.left is not None:
            return Over(receiver.left.code, self._receiver, "open", True)
        return over if receiver.told else Over(Code.LOST, self._receiver, "open", True)
