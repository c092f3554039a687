"""The server's side of a session that makes a release: what is noted on disk, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import Release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.messages import Envelope, Piece, Step, body_of
from colonnade.protocol.server import Server
from colonnade.transport.hall import Hall, Watch
from colonnade.transport.journal import Event, Journal
from colonnade.transport.study_digest import study_digest
from colonnade.transport.wire import Over, Patience, ending


@dataclass(frozen=True)
class Result:
    """How a session ended."""

    release: Release | None
    over: Over | None
    sent: dict[str, int]
    received: dict[str, int]

    @property
    def sentence(self) -> str:
        return "the release was opened" if self.over is None else ending(self.over)


class Hub(Hall):
    """Carries one session of a study, and keeps the journal by which parties settle their books."""

    steps = {  # noqa: RUF012 - never changed
        Step.JOIN: "plan",
        Step.ACCEPT: "plan",
        Step.PARCEL: "products",
        Step.DONE: "products",
        Step.SUBMIT: "submit",
    }
    _server: Server

    def __init__(
        self,
        agreement: Agreement,
        alignment: str,
        randomness: Randomness,
        journal: Journal,
        patience: Patience | None = None,
        watch: Watch | None = None,
    ) -> None:
        server = Server(agreement, randomness.child("server"))
        super().__init__(server, study_digest(agreement, alignment), alignment, randomness, journal, patience, watch)
        self._complete: set[str] = set()

    def run(self, stop: Callable[[], bool] = lambda: False) -> Result:
        """Drive the session to its end; `stop` says that somebody wants it ended."""
        over = self._session(stop)
        if over.code is not None:
            return Result(None, over, self._sent, self._received)
        return Result(self._server.release, None, self._sent, self._received)

    @property
    def _counts(self) -> bool:
        return self._complete == set(self.parties)

    def _settled(self, pending: list[str]) -> dict[str, str]:
        return self._journal.outcomes(pending)

    def _started(self) -> None:
        self._journal.note(self._server.identity.hex(), Event.STARTED)

    def _heard(self, sender: str, envelope: Envelope) -> None:
        """Before the last piece of the last submission is worked on, it is on disk that the session counts."""
        if envelope.step is not Step.SUBMIT:
            return
        piece = body_of(envelope, Piece)
        if piece.index == piece.count - 1:
            self._complete.add(sender)
            if self._counts:
                self._journal.note(self._server.identity.hex(), Event.SUBMITTED)

    def _opened(self) -> None:
        self._journal.note(self._server.identity.hex(), Event.OPENED)
