"""Real sessions with someone listening: what a curious server, party or outsider has in hand after each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Cross, Integers, PartyProduct, Words, centred
from colonnade.data.table import Table
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.matching import NONE
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import Workers
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.fit import FitParty, FitServer, Planner, best_product
from colonnade.protocol.messages import SUBMIT, Assembly, Envelope, Go, Piece, Step, body_of
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import Masked, masked_from, total_of
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.in_process import InProcess

LARGEST_SUBMISSION = 1 << 32  # no limit in practice: the audit itself makes these bytes


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
    def of(cls, transcripts: Sequence[Transcript]) -> Sample:
        return cls(*(np.stack([getattr(t, f.name) for t in transcripts]) for f in fields(cls)))

    @classmethod
    def joined(cls, samples: Sequence[Sample]) -> Sample:
        return cls(*(np.concatenate([getattr(s, f.name) for s in samples]) for f in fields(cls)))

    def __len__(self) -> int:
        return len(self.released)


class CuriousServer:
    """On the wire of a session: a curious server that asks for each submission several times, and keeps what passes."""

    def __init__(self, asks: int = 1) -> None:
        self.asks = asks
        self.parcels: list[Envelope] = []
        self._pieces: dict[str, list[Envelope]] = {}

    def __call__(self, envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if up and envelope.step is Step.PARCEL:
            self.parcels.append(envelope)
        if up and envelope.step is Step.SUBMIT:
            pieces = self._pieces.setdefault(envelope.sender, [])
            pieces.append(envelope)
            count = body_of(envelope, Piece).count
            # The first answer is worked on once all are there, the others are for the curious.
            return pieces[:count] if len(pieces) == count * self.asks else ()
        if not up and envelope.step is Step.GO and body_of(envelope, Go).round == SUBMIT:
            return (envelope,) * self.asks
        return (envelope,)

    def submissions(self, party: str, length: int) -> list[Masked]:
        """What a party answered each time that it was asked."""
        pieces = self._pieces[party]
        size = len(pieces) // self.asks
        return [_submitted(pieces[k * size : (k + 1) * size], length) for k in range(self.asks)]


def _submitted(pieces: list[Envelope], length: int) -> Masked:
    assembly = Assembly(LARGEST_SUBMISSION)
    for envelope in pieces:
        whole = assembly.add(body_of(envelope, Piece))
        if whole is not None:
            return masked_from(whole, length)
    raise ProtocolError("a party's submission is not complete")


class _Shares:
    """Chooses products that keep a copy of the noise that they were given, as a curious party would."""

    def __init__(self) -> None:
        self.noise: dict[int, Mapping[Cross, Integers]] = {}

    def __call__(self, session: SessionPlan, workers: Workers) -> type[PartyProduct]:
        kept = self.noise
        honest: Any = best_product(session, workers)

        class RecordingLink(honest):  # type: ignore[misc]
            def __init__(self, spec: Any, me: int, columns: Any, noise: Mapping[Cross, Integers], source: Any) -> None:
                kept[me] = {cross: values.copy() for cross, values in noise.items()}
                super().__init__(spec, me, columns, noise, source)

        return RecordingLink

    def of(self, me: int, session: SessionPlan) -> Integers:
        """A party's own share of the noise, in the order of the submitted vector."""
        out = np.zeros(session.length, dtype=np.int64)
        place = session.cross_start
        for cross in session.spec.crosses:
            stop = place + cross.shape[0] * cross.shape[1]
            out[place:stop] = self.noise[me][cross].ravel()
            place = stop
        return out


def listen(
    agreement: Agreement,
    tables: Mapping[str, Table],
    randomness: Randomness,
    asks: int = 1,
    planner: Planner = plan_session,
    identity: bytes | None = None,
) -> Transcript:
    """Run one session and hand back what was seen of it; a curious server may choose the session's `identity`."""
    shares, wire = _Shares(), CuriousServer(asks)
    middle = FitServer(agreement, NONE, planner)
    server = ServerRole(middle, randomness)
    if identity is not None:
        server.identity = identity
    parties = {
        name: PartyRole(
            FitParty(
                name,
                agreement,
                NONE,
                partial(tables.__getitem__, name),
                Unguarded(),
                planner=planner,
                product=shares,
            ),
            randomness,
        )
        for name in agreement.schema.names
    }
    InProcess(server, parties, wire).carry()
    session, release = middle.session, middle.release
    assert session is not None and release is not None
    released = np.zeros(session.length, dtype=np.int64)
    for i, block in enumerate(release.blocks):
        released[session.positions[i]] = block.values
    answers = [wire.submissions(name, session.length) for name in session.parties]
    submitted = np.stack([masked[0].words for masked in answers])
    again = np.stack([total_of([masked[i] for masked in answers], session.spec.modulus_bits) for i in range(asks)])
    own = np.stack([shares.of(me, session) for me in range(len(session.parties))])
    return Transcript(released, submitted, again, own, tuple(wire.parcels))


def opened(words: Words, session: SessionPlan) -> Integers:
    """Words modulo the session's q as integers around zero."""
    bits = session.spec.modulus_bits
    return centred(words & np.uint64((1 << bits) - 1), bits)


class OnePlan:
    """Looks up a plan that was computed before: thousands of sessions differ in their id alone."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], SessionPlan] = {}
        self._current: dict[tuple[str, int, bytes], SessionPlan] = {}

    def __call__(self, agreement: Agreement, rows: int, identity: bytes) -> SessionPlan:
        key = json.dumps(agreement.to(), sort_keys=True), rows
        if key not in self._known:
            self._known[key] = plan_session(agreement, rows, identity)
        if (*key, identity) not in self._current:
            session = self._known[key]
            self._current.clear()
            spec = replace(session.spec, session=identity)
            self._current[*key, identity] = replace(session, identity=identity, spec=spec)
        return self._current[*key, identity]


def collect(
    agreement: Agreement, tables: Mapping[str, Table], runs: int, randomness: Randomness, asks: int = 1
) -> Sample:
    """Transcripts of so many sessions on the same data."""
    planner = OnePlan()
    sources = (randomness.child(f"run {i}") for i in range(runs))
    return Sample.of([listen(agreement, tables, source, asks, planner) for source in sources])
