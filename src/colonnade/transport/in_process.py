"""All roles in one process: every message is encoded, counted, decoded and delivered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from colonnade.foundation.errors import PolicyError, ProtocolError
from colonnade.mechanism.release import Release
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import Party
from colonnade.protocol.server import Server, State

Progress = Callable[[str, str, int], None]
"""Called with (step, party, bytes) for every message that a party sends."""


class Member(Protocol):
    """A party of a session or of a prediction."""

    reason: str

    def join(self, identity: bytes) -> Envelope: ...
    def receive(self, envelope: Envelope) -> Iterator[Envelope]: ...
    def refuse(self, error: BaseException) -> Envelope: ...


class Middle(Protocol):
    """The server of a session or of a prediction."""

    identity: bytes
    state: State
    reason: str

    def receive(self, envelope: Envelope) -> Iterator[Envelope]: ...


@dataclass
class Traffic:
    """Bytes that each party sent and received."""

    sent: dict[str, int]
    received: dict[str, int]


class Carrier:
    """Carries messages from party to server and back, depth first, so that row blocks stream."""

    def __init__(self, server: Middle, parties: Mapping[str, Member], progress: Progress | None = None) -> None:
        self._server, self._parties, self._progress = server, parties, progress
        self.traffic = Traffic(dict.fromkeys(parties, 0), dict.fromkeys(parties, 0))
        self._error: Exception | None = None

    def carry(self) -> None:
        """All of it, from the first join to the end; raises with the reason when a role refused.

        All roles' people are one here, so that a party's own sentence is told; the wire has its code alone.
        """
        for party in self._parties.values():
            if self._server.state is not State.FAILED:
                self._to_server(party.join(self._server.identity))
        if self._error is not None:
            raise self._error
        if self._server.state is not State.OPENED:
            raise ProtocolError(
                self._server.reason or f"the session ended without a release; the server is {self._server.state.value}"
            )

    def _to_server(self, envelope: Envelope) -> None:
        data = envelope.encode()
        self.traffic.sent[envelope.sender] += len(data)
        if envelope.step is Step.REFUSE and self._error is None:
            self._error = PolicyError(f"{envelope.sender} refuses: {self._parties[envelope.sender].reason}")
        if self._progress is not None:
            self._progress(envelope.step.value, envelope.sender, len(data))
        for answer in self._server.receive(Envelope.decode(data)):
            self._to_party(answer)

    def _to_party(self, envelope: Envelope) -> None:
        data = envelope.encode()
        self.traffic.received[envelope.recipient] += len(data)
        party = self._parties[envelope.recipient]
        answers = party.receive(Envelope.decode(data))
        while True:
            try:
                answer = next(answers)
            except StopIteration:
                return
            except Exception as error:
                if self._server.state in (State.OPENED, State.FAILED):
                    raise
                self._error = error
                answer = party.refuse(error)
            self._to_server(answer)
            if self._server.state is State.FAILED:
                # Whatever else was on its way has nobody left to hear it.
                return


class InProcess(Carrier):
    """One session's messages, up to its release."""

    _server: Server
    _parties: Mapping[str, Party]

    def __init__(self, server: Server, parties: Mapping[str, Party], progress: Progress | None = None) -> None:
        super().__init__(server, parties, progress)

    def run(self) -> Release:
        """The session's release."""
        self.carry()
        assert self._server.release is not None
        return self._server.release
