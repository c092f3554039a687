"""Real sessions with someone listening: what a curious server, party or outsider has in hand after each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Integers, Words, centred
from colonnade.data.table import Table
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol import party as party_module
from colonnade.protocol import server as server_module
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.messages import SUBMIT, Assembly, Envelope, Go, Masked, Piece, Step, body_of, masked_from
from colonnade.protocol.party import Party
from colonnade.protocol.server import Server
from colonnade.protocol.session_plan import SessionPlan, plan_session
from colonnade.transport.in_process import InProcess

LARGEST_SUBMISSION = 1 << 32


@dataclass(frozen=True)
class Transcript:
    """One session as its attackers saw it; vectors follow the order of the submitted vector."""

    released: Integers
    submitted: NDArray[np.uint64]
    """What each party submitted, masked: one row for each."""
    again: NDArray[np.uint64]
    """The sums of the submissions that a server got by asking so many times, one row for each time."""
    shares: Integers
    """Each party's own share of the noise, which it knows: one row for each, 0 at places of single-party blocks."""
    parcels: tuple[Envelope, ...]


@dataclass(frozen=True)
class Sample:
    """Many transcripts of one data set, stacked."""

    released: Integers
    submitted: NDArray[np.uint64]
    again: NDArray[np.uint64]
    shares: Integers

    @classmethod
    def of(cls, transcripts: list[Transcript]) -> Sample:
        return cls(
            np.stack([t.released for t in transcripts]),
            np.stack([t.submitted for t in transcripts]),
            np.stack([t.again for t in transcripts]),
            np.stack([t.shares for t in transcripts]),
        )

    @classmethod
    def joined(cls, samples: list[Sample]) -> Sample:
        return cls(
            np.concatenate([s.released for s in samples]),
            np.concatenate([s.submitted for s in samples]),
            np.concatenate([s.again for s in samples]),
            np.concatenate([s.shares for s in samples]),
        )

    def __len__(self) -> int:
        return len(self.released)


class Listening(InProcess):
    """The in-process transport with a curious server that asks for each submission several times."""

    def __init__(self, server: Server, parties: Mapping[str, Party], asks: int = 1) -> None:
        super().__init__(server, parties)
        self.asks = asks
        self.parcels: list[Envelope] = []
        self.submissions: dict[str, list[Masked]] = {}
        self.shares: dict[str, Integers] = {}

    def _to_server(self, envelope: Envelope) -> None:
        if envelope.step is Step.PARCEL:
            self.parcels.append(envelope)
        super()._to_server(envelope)

    def _to_party(self, envelope: Envelope) -> None:
        if envelope.step is not Step.GO or body_of(envelope, Go).round != SUBMIT:
            super()._to_party(envelope)
            return
        name = envelope.recipient
        party = self._parties[name]
        session = party.session
        assert session is not None
        self.shares[name] = _own_noise(party, session)
        answers = [list(party.receive(envelope)) for _ in range(self.asks)]
        self.submissions[name] = [_submitted(answer, session.length) for answer in answers]
        for answer in answers[0]:
            self._to_server(answer)


def _submitted(pieces: list[Envelope], length: int) -> Masked:
    assembly = Assembly(LARGEST_SUBMISSION)
    for envelope in pieces:
        whole = assembly.add(body_of(envelope, Piece))
        if whole is not None:
            return masked_from(whole, length)
    raise ProtocolError("a party's submission is not complete")


def _own_noise(party: Party, session: SessionPlan) -> Integers:
    """The noise that a curious party keeps a copy of before its product forgets it."""
    out = np.zeros(session.length, dtype=np.int64)
    held: Mapping[Any, Integers] = getattr(party._product, "_noise", {})
    place = session.cross_start
    for cross in session.spec.crosses:
        stop = place + cross.shape[0] * cross.shape[1]
        if cross in held:
            out[place:stop] = held[cross].ravel()
        place = stop
    return out


def listen(agreement: Agreement, tables: Mapping[str, Table], randomness: Randomness, asks: int = 1) -> Transcript:
    """Run one session and hand back what was seen of it."""
    server = Server(agreement, randomness.child("server"))
    parties = {
        name: Party(name, agreement.schema.parties[name], table.rows, table.encode, randomness.child(f"party {name}"))
        for name, table in tables.items()
    }
    transport = Listening(server, parties, asks)
    release = transport.run()
    session = server.session
    assert session is not None
    released = np.zeros(session.length, dtype=np.int64)
    for i, block in enumerate(release.blocks):
        released[session.positions[i]] = block.values
    names = session.parties
    submitted = np.stack([transport.submissions[name][0].words for name in names])
    again = np.stack([_sum([transport.submissions[name][i].words for name in names]) for i in range(asks)])
    shares = np.stack([transport.shares[name] for name in names])
    return Transcript(released, submitted, again, shares, tuple(transport.parcels))


def _sum(words: list[Words]) -> Words:
    total = np.zeros_like(words[0])
    for own in words:
        total += own
    return total


def opened(words: Words, session: SessionPlan) -> Integers:
    """Words modulo the session's q as integers around zero."""
    bits = session.spec.modulus_bits
    return centred(words & np.uint64((1 << bits) - 1), bits)


@contextmanager
def one_plan() -> Iterator[None]:
    """Within, roles look up a plan that was computed before: thousands of sessions differ in their id alone."""
    known: dict[tuple[str, int], SessionPlan] = {}
    current: dict[tuple[str, int, bytes], SessionPlan] = {}

    def remembered(agreement: Agreement, rows: int, identity: bytes) -> SessionPlan:
        key = json.dumps(agreement.to(), sort_keys=True), rows
        if key not in known:
            known[key] = plan_session(agreement, rows, identity)
        if (*key, identity) not in current:
            session = known[key]
            current.clear()
            current[*key, identity] = replace(session, identity=identity, spec=replace(session.spec, session=identity))
        return current[*key, identity]

    roles = vars(party_module), vars(server_module)
    before = [role["plan_session"] for role in roles]
    for role in roles:
        role["plan_session"] = remembered
    try:
        yield
    finally:
        for role, original in zip(roles, before, strict=True):
            role["plan_session"] = original


def collect(
    agreement: Agreement, tables: Mapping[str, Table], runs: int, randomness: Randomness, asks: int = 1
) -> Sample:
    """Transcripts of so many sessions on the same data."""
    with one_plan():
        sources = (randomness.child(f"run {i}") for i in range(runs))
        return Sample.of([listen(agreement, tables, source, asks) for source in sources])
