"""All roles in one process: every message is encoded, counted, decoded and delivered at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colonnade.foundation.errors import PolicyError, ProtocolError
from colonnade.mechanism.release import Release
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import Party
from colonnade.protocol.server import Server, State

Progress = Callable[[str, str, int], None]
"""Called with (step, party, bytes) for every message that a party sends."""


@dataclass
class Traffic:
    """Bytes that each party sent and received."""

    sent: dict[str, int]
    received: dict[str, int]


class InProcess:
    """Carries one session's messages from party to server and back, depth first, so that row blocks stream."""

    def __init__(self, server: Server, parties: Mapping[str, Party], progress: Progress | None = None) -> None:
        self._server, self._parties, self._progress = server, parties, progress
        self.traffic = Traffic(dict.fromkeys(parties, 0), dict.fromkeys(parties, 0))
        self._refused = False

    def run(self) -> Release:
        """The session's release; raises with the reason when a role refused."""
        for party in self._parties.values():
            self._to_server(party.join(self._server.identity))
        if self._server.state is State.FAILED:
            raise (PolicyError if self._refused else ProtocolError)(self._server.reason)
        if self._server.release is None:
            raise ProtocolError(f"the session ended without a release; the server is {self._server.state.value}")
        return self._server.release

    def _to_server(self, envelope: Envelope) -> None:
        data = envelope.encode()
        self.traffic.sent[envelope.sender] += len(data)
        self._refused |= envelope.step is Step.REFUSE
        if self._progress is not None:
            self._progress(envelope.step.value, envelope.sender, len(data))
        for answer in self._server.receive(Envelope.decode(data)):
            self._to_party(answer)

    def _to_party(self, envelope: Envelope) -> None:
        data = envelope.encode()
        self.traffic.received[envelope.recipient] += len(data)
        for answer in self._parties[envelope.recipient].receive(Envelope.decode(data)):
            self._to_server(answer)
