"""The server as a state machine without I/O: it relays, adds up and opens all noisy blocks at once, or nothing.

state    receives              sends                      next
-------  --------------------  -------------------------  -------
joining  join (the last)       plan to all                asking
asking   accept (the last)     go first round | submit    running
joining  refuse                abort to all who joined    failed
asking   refuse                abort to all               failed
running  refuse                abort to all               failed
running  parcel to a party     the same parcel            running
running  done (the last)       own parcels, go next       running
running  submission (last)     release to all             opened
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from colonnade.crypto.product import SERVER, ServerProduct, centred
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import Release, ReleasedBlock
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.convener import Convener
from colonnade.protocol.convener import State as State
from colonnade.protocol.messages import (
    SUBMIT,
    Accept,
    Assembly,
    Done,
    Envelope,
    Go,
    Join,
    Masked,
    ParcelBody,
    Piece,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
    opened,
    total_of,
)
from colonnade.protocol.products import party_product, server_product
from colonnade.protocol.session_plan import SessionPlan, plan_session


class Server(Convener):
    """The honest-but-curious middle of one session."""

    def __init__(self, agreement: Agreement, randomness: Randomness) -> None:
        super().__init__(agreement.schema.parties, randomness)
        self.agreement = agreement
        self.session: SessionPlan | None = None
        self.release: Release | None = None
        self._seeded = randomness.seeded
        self._rounds: list[str] = []
        self._product: ServerProduct | None = None
        self._assemblies: dict[str, Assembly] = {}
        self._submissions: dict[str, Masked] = {}
        self._transcripts = {name: hashlib.sha256() for name in agreement.schema.names}

    @property
    def digest(self) -> str:
        return "" if self.session is None else self.session.digest

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer or relay one message."""
        self._admit(envelope)
        self._note(envelope)
        match envelope.step:
            case Step.JOIN:
                yield from self._join(envelope.sender, body_of(envelope, Join))
            case Step.ACCEPT:
                yield from self._accept(envelope.sender, body_of(envelope, Accept))
            case Step.REFUSE:
                yield from self.abort(body_of(envelope, Refuse).code, envelope.sender)
            case Step.PARCEL:
                yield from self._parcel(envelope)
            case Step.DONE:
                yield from self._done(envelope.sender, body_of(envelope, Done).round)
            case Step.SUBMIT:
                yield from self._submitted(envelope.sender, body_of(envelope, Piece))

    def _note(self, envelope: Envelope) -> None:
        """A running hash per sender: the transcript's digest does not depend on how senders interleave."""
        note = self._transcripts[envelope.sender]
        note.update(f"{envelope.step.value}>{envelope.recipient}:{len(envelope.body)}:".encode())
        note.update(envelope.body)

    def _running(self) -> SessionPlan:
        assert self.session is not None
        return self.session

    def _convened(self, rows: int) -> dict[str, Any]:
        self.session = plan_session(self.agreement, rows, self.identity)
        return self.agreement.to()

    def _first_round(self) -> str:
        session = self._running()
        self._rounds = [SUBMIT]
        if session.spec.crosses:
            self._product = server_product(self.agreement.product)(session.spec)
            self._rounds = [*party_product(self.agreement.product).rounds, SUBMIT]
        return self._rounds[0]

    def _parcel(self, envelope: Envelope) -> Iterator[Envelope]:
        if envelope.recipient == SERVER:
            parcel = body_of(envelope, ParcelBody)
            self._check_round(envelope.sender, parcel.round)
            assert self._product is not None
            self._product.receive(parcel.round, envelope.sender, parcel.payload)
        elif envelope.recipient in self.parties:
            yield envelope
        else:
            raise ProtocolError(f"party {envelope.sender} sends a parcel to {envelope.recipient!r}, whom nobody knows")

    def _check_round(self, party: str, round: str) -> None:
        if round != self._rounds[0]:
            raise ProtocolError(f"the server is in round {self._rounds[0]}, {party} sends round {round}")

    def _done(self, party: str, round: str) -> Iterator[Envelope]:
        self._check_round(party, round)
        if self._arrived(party, f"the end of round {round}"):
            assert self._product is not None
            for parcel in self._product.send(round):
                yield self._make(parcel.recipient, Step.PARCEL, encode_body(ParcelBody(round, parcel.payload)))
            self._rounds.pop(0)
            yield from self._to_all(Step.GO, encode_body(Go(self._rounds[0])))

    def _submitted(self, party: str, piece: Piece) -> Iterator[Envelope]:
        self._check_round(party, SUBMIT)
        session = self._running()
        if party in self._submissions:
            raise ProtocolError(f"the server has the submission of {party} already")
        assembly = self._assemblies.setdefault(party, Assembly(9 * session.length + (1 << 33)))
        whole = assembly.add(piece)
        if whole is None:
            return
        self._submissions[party] = masked_from(whole, session.length)
        del self._assemblies[party]
        if self._arrived(party, "the submission"):
            self.release = self._open(session)
            self.state = State.OPENED
            for body in opened(self.release):
                yield from self._to_all(Step.OPENED, body)

    def _open(self, session: SessionPlan) -> Release:  # Alg. 1, line 16
        """The sum of all submissions is all noisy blocks at once."""
        ordered = [self._submissions[name] for name in self.parties]
        bits = session.spec.modulus_bits
        total = total_of(ordered, bits)
        start = session.cross_start
        values = centred(total, bits)
        if self._product is not None:
            values[start:] = self._product.open(total[start:], [m.payload for m in ordered])
        blocks = []
        for i, item in enumerate(session.plan.blocks):
            block = item.block
            blocks.append(
                ReleasedBlock(
                    block.owners,
                    block.role,
                    block.summed,
                    session.unit(block),
                    block.factors,
                    values[session.positions[i]],
                    session.released_std(i),
                )
            )
        return Release(
            session.rows,
            session.plan.layout,
            session.plan.law,
            tuple(blocks),
            session.describe(),
            self._provenance(session),
        )

    def _provenance(self, session: SessionPlan) -> dict[str, Any]:
        transcript = hashlib.sha256()
        for name in sorted(self._transcripts):
            transcript.update(name.encode() + b"\0" + self._transcripts[name].digest())
        return {
            "session": self.identity.hex(),
            "plan_digest": session.digest,
            "transcript_digest": transcript.hexdigest(),
            "agreement": self.agreement.to(),
            "seeded": self._seeded,
            "simulation": session.in_the_clear,
            "colonnade": version("colonnade"),
        }

    def _forget(self) -> None:
        self._submissions.clear()
