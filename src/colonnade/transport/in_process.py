"""Carries a conversation in one process: every message is encoded, counted, decoded and delivered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from colonnade.foundation.errors import ProtocolError
from colonnade.protocol.messages import Envelope
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.transport.wire import Traffic

Wire = Callable[[Envelope, bool], Iterable[Envelope]]
"""What becomes of a message on its way up to the server or down from it: itself, another, several or none.

Tests and attackers sit here.
"""


def pass_on(envelope: Envelope, up: bool) -> Iterable[Envelope]:
    """The wire as it should be."""
    return (envelope,)


class InProcess:
    """Carries messages from party to server and back, depth first, so that row blocks stream."""

    def __init__(self, server: ServerRole, parties: Mapping[str, PartyRole], wire: Wire = pass_on) -> None:
        self._server, self._parties, self._wire = server, parties, wire
        self.traffic = Traffic(dict.fromkeys(parties, 0), dict.fromkeys(parties, 0))
        self._error: BaseException | None = None

    def carry(self) -> None:
        """All of it, from the first hello to the end; raises the error of the role that could not go on.

        All roles' people are one here, so that a party's own sentence is told; the wire has its code alone.
        """
        try:
            # All parties judge the terms before anything of the session has happened.
            for hello in [self._start(party) for party in self._parties.values()]:
                self._up(hello)
        except BaseException as error:
            # Somebody interrupts the run itself: books are settled, and it is told as it is.
            self._error = self._error or error
            self._down(self._server.stop())
        if self._error is not None:
            raise self._error
        if self._server.failed:
            raise self._server.error or ProtocolError(self._server.sentence)
        if not self._server.over:
            raise ProtocolError(f"the session ended without a last word; the server is {self._server.state.value}")

    def _start(self, party: PartyRole) -> list[Envelope]:
        if self._error is not None:
            return []
        try:
            return list(party.start())
        except Exception as error:
            self._error = error
            return party.fault(error)

    def _up(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            for passed in self._wire(envelope, True):
                data = passed.encode()
                # The server knows best what to say of a stranger.
                if passed.sender in self._parties:
                    self.traffic.sent[passed.sender] += len(data)
                self._to_server(Envelope.decode(data))

    def _down(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            for passed in self._wire(envelope, False):
                data = passed.encode()
                if passed.recipient not in self._parties:
                    raise ProtocolError(f"a message is for {passed.recipient!r}, whom nobody knows")
                self.traffic.received[passed.recipient] += len(data)
                self._to_party(Envelope.decode(data))

    def _to_server(self, envelope: Envelope) -> None:
        if self._server.over:
            # Whatever else was on its way has nobody left to hear it.
            return
        try:
            self._down(self._server.receive(envelope))
        except Exception as error:
            self._error = self._error or error
            self._down(self._server.fault(envelope.sender, error))

    def _to_party(self, envelope: Envelope) -> None:
        party = self._parties[envelope.recipient]
        answers = party.receive(envelope)
        while True:
            try:
                answer = next(answers)
            except StopIteration:
                return
            except Exception as error:
                self._error = self._error or error
                self._up(party.fault(error))
                return
            self._up([answer])
            if self._server.failed:
                return
