"""What the servers of a session and of a prediction share: who has joined, who is waited for, the end for everybody."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import ColonnadeError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, column_to
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.messages import Abort, Accept, Envelope, Go, Join, Proposal, Step, encode_body


class State(StrEnum):
    JOINING = "joining"
    ASKING = "asking"
    RUNNING = "running"
    OPENED = "opened"
    FAILED = "failed"


TRANSITIONS: Mapping[State, frozenset[Step]] = {
    State.JOINING: frozenset({Step.JOIN, Step.REFUSE}),
    State.ASKING: frozenset({Step.ACCEPT, Step.REFUSE}),
    State.RUNNING: frozenset({Step.PARCEL, Step.DONE, Step.SUBMIT, Step.REFUSE}),
    State.OPENED: frozenset(),
    State.FAILED: frozenset(),
}


class Convener(ABC):
    """Brings parties with declared columns together; a kind of server says what they are asked to do."""

    kind, source, done = "plan", "study", "opened the release"
    """In errors: what parties are asked to agree to, where their columns are declared, what cannot be taken back."""

    def __init__(self, declared: Mapping[str, Mapping[str, Column]], randomness: Randomness) -> None:
        self.identity = randomness.bytes(32)
        self.state = State.JOINING
        self.reason = ""
        """Why it failed, for the server's own people."""
        self.code: Code | None = None
        self.culprit = ""
        """The party that refused or was lost, if one did."""
        self._declared = {party: {n: column_to(c) for n, c in own.items()} for party, own in declared.items()}
        self._joined: dict[str, Join] = {}
        self._waiting = set(declared)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self._declared)

    @property
    @abstractmethod
    def digest(self) -> str:
        """Of what all agree to; empty before all have joined."""

    @abstractmethod
    def _convened(self, rows: int) -> dict[str, Any]:
        """All are there with so many records: the terms that they are asked to agree to."""

    @abstractmethod
    def _first_round(self) -> str:
        """All have agreed: what they do first."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop what parties have handed in."""

    def _admit(self, envelope: Envelope) -> None:
        """Refuse a message of another session or plan, of a stranger, or out of turn."""
        party, step = envelope.sender, envelope.step
        if envelope.session != self.identity:
            raise ProtocolError(f"the server ({self.state.value}) got a message of another session")
        if party not in self._declared:
            raise ProtocolError(f"the server knows no party {party!r}")
        if step not in TRANSITIONS[self.state]:
            raise ProtocolError(f"the server is {self.state.value} and expects no {step.value} message from {party}")
        if self.state is State.RUNNING and envelope.plan != self.digest:
            raise ProtocolError(f"the server ({self.state.value}) got a message of another {self.kind} from {party}")

    def _arrived(self, party: str, what: str) -> bool:
        """Whether this was the last party to be heard; each is heard once."""
        if party not in self._waiting:
            raise ProtocolError(f"the server has heard {what} from {party} already")
        self._waiting.discard(party)
        if self._waiting:
            return False
        self._waiting = set(self.parties)
        return True

    def _join(self, party: str, join: Join) -> Iterator[Envelope]:
        if join.columns != self._declared[party]:
            raise ProtocolError(f"party {party} declares other columns than the {self.source} has")
        last = self._arrived(party, "join")
        self._joined[party] = join
        if not last:
            return
        rows = {name: self._joined[name].rows for name in self.parties}
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{name} {n}" for name, n in rows.items())
            yield from self.abort(Code.ROWS, sentence=f"all parties must hold the same number of records, got {told}")
            return
        try:
            terms = self._convened(join.rows)
        except ColonnadeError as error:
            yield from self.abort(Code.PLAN, sentence=str(error))
            return
        self.state = State.ASKING
        keys = [self._joined[name].mask_key for name in self.parties]
        yield from self._to_all(Step.PLAN, encode_body(Proposal(terms, join.rows, keys)))

    def _accept(self, party: str, accept: Accept) -> Iterator[Envelope]:
        if accept.digest != self.digest:
            sentence = f"party {party} computed another {self.kind}: {accept.digest[:16]}, not {self.digest[:16]}"
            yield from self.abort(Code.PLAN, party, sentence)
            return
        if self._arrived(party, "accept"):
            self.state = State.RUNNING
            yield from self._to_all(Step.GO, encode_body(Go(self._first_round())))

    def abort(self, code: Code, party: str = "", sentence: str = "") -> Iterator[Envelope]:
        """End it for everybody; nothing was opened. The sentence stays here, the code is sent."""
        if self.state is State.OPENED:
            raise ProtocolError(f"the server has {self.done}, and nothing ends the session any more")
        self.state = State.FAILED
        self.code, self.culprit = code, party
        self.reason = sentence or sentence_of(code, party)
        self._forget()
        for name in self.parties:
            if name in self._joined:
                yield self._make(name, Step.ABORT, encode_body(Abort(code, party)))

    def _to_all(self, step: Step, body: bytes) -> Iterator[Envelope]:
        for name in self.parties:
            # An answer to the first of these messages may have ended the session.
            if self.state is not State.FAILED:
                yield self._make(name, step, body)

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        return Envelope(self.identity, self.digest, SERVER, recipient, step, body)
