"""A party as a state machine without I/O: envelopes in, envelopes out, nothing exact among them.

state      receives   sends                      next
---------  ---------  -------------------------  ---------
new                   join                       joined
joined     plan       accept | refuse            accepted | ended
accepted   go round   parcels, done              accepted
accepted   parcel                                accepted
accepted   go submit  submission                 submitted
submitted  go submit  the same submission again  submitted
submitted  opened                                released
any        abort                                 ended
any        (an error) refuse                     ended
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.product import SERVER, Columns, Contribution, Cross, Integers, PartyProduct
from colonnade.foundation.errors import ColonnadeError, PolicyError, ProtocolError
from colonnade.foundation.grid import Grid
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, column_to
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.blocks import NoisyBlock, exact_block, perturb
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.release import Release, read_release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.codes import Code, code_of, sentence_of
from colonnade.protocol.messages import (
    SUBMIT,
    Abort,
    Accept,
    Assembly,
    Body,
    Done,
    Envelope,
    Go,
    Join,
    Masked,
    ParcelBody,
    Piece,
    Proposal,
    Refuse,
    Step,
    body_of,
    encode_body,
    submission,
)
from colonnade.protocol.products import party_product
from colonnade.protocol.session_plan import SessionPlan, plan_session

LARGEST_RELEASE = 1 << 32
GRAM_ROWS = 1 << 15
NOTHING = Contribution(np.zeros(0, dtype=np.uint64))


class State(StrEnum):
    NEW = "new"
    JOINED = "joined"
    ACCEPTED = "accepted"
    SUBMITTED = "submitted"
    RELEASED = "released"
    ENDED = "ended"


TRANSITIONS: Mapping[State, frozenset[Step]] = {
    State.NEW: frozenset(),
    State.JOINED: frozenset({Step.PLAN, Step.ABORT}),
    State.ACCEPTED: frozenset({Step.GO, Step.PARCEL, Step.ABORT}),
    State.SUBMITTED: frozenset({Step.GO, Step.OPENED, Step.ABORT}),
    State.RELEASED: frozenset(),
    State.ENDED: frozenset({Step.ABORT}),
}


@runtime_checkable
class Summed(Columns, Protocol):
    """Columns whose sums of products were formed when they were made."""

    @property
    def gram(self) -> NDArray[np.float64]: ...


Encode = Callable[[Layout, Grid, bytes], Columns]
"""A party's data on the session's grid, rounded by coins: its coordinates in layout order, as integer columns."""
Consent = Callable[[SessionPlan], None]
"""Raises PolicyError or LedgerError to refuse a plan; called before acceptance, and (`book`) before the submission."""


def _agree(session: SessionPlan) -> None:
    """Consent without conditions."""


class Party:
    """One organisation's side of one session."""

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Column],
        rows: int,
        encode: Encode,
        randomness: Randomness,
        consent: Consent = _agree,
        book: Consent = _agree,
        workers: Workers = HERE,
    ) -> None:
        self.name = name
        self.state = State.NEW
        self._declared = dict(columns)
        self._rows, self._encode = rows, encode
        self._randomness, self._workers = randomness, workers
        self._consent, self._book = consent, book
        self._keys = MaskKeys(randomness.child("masks"))
        self._identity = b""
        self.session: SessionPlan | None = None
        self.release: Release | None = None
        self.reason = ""
        """Why the session ended, for this party's own people: others are told a code."""
        self.handed_in = False
        """Whether a submission was made: from then on only the server can say that nothing was opened."""
        self._peers: list[bytes] = []
        self._product: PartyProduct | None = None
        self._own: dict[int, NoisyBlock] = {}
        self._submission: list[bytes] = []
        self._opened = Assembly(LARGEST_RELEASE)

    def join(self, identity: bytes) -> Envelope:
        """Enter the session with this party's public facts."""
        if self.state is not State.NEW:
            raise ProtocolError(f"party {self.name} joins a session once, it is {self.state.value}")
        self._identity = identity
        self.state = State.JOINED
        facts = {name: column_to(column) for name, column in self._declared.items()}
        return self._to_server(Step.JOIN, Join(facts, self._rows, self._keys.public))

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer one message; answers are made lazily, so that rows can stream."""
        if envelope.session != self._identity:
            raise ProtocolError(f"party {self.name} ({self.state.value}) got a message of another session")
        if envelope.step not in TRANSITIONS[self.state]:
            raise ProtocolError(f"party {self.name} is {self.state.value} and expects no {envelope.step.value} message")
        if self.session is not None and envelope.step is not Step.ABORT and envelope.plan != self.session.digest:
            raise ProtocolError(f"party {self.name} ({self.state.value}) got a message of another plan")
        match envelope.step:
            case Step.PLAN:
                yield from self._consider(body_of(envelope, Proposal))
            case Step.GO:
                yield from self._go(body_of(envelope, Go).round)
            case Step.PARCEL:
                parcel = body_of(envelope, ParcelBody)
                self._running().receive(parcel.round, envelope.sender, parcel.payload)
            case Step.OPENED:
                whole = self._opened.add(body_of(envelope, Piece))
                if whole is not None:
                    self.release = read_release(whole)
                    self.state = State.RELEASED
            case Step.ABORT:
                self._aborted(body_of(envelope, Abort))

    def _consider(self, plan: Proposal) -> Iterator[Envelope]:
        """Believe no number that can be computed: build the plan again, then ask policy and ledger."""
        try:
            session = plan_session(Agreement.of(plan.agreement), plan.rows, self._identity)
            self._check_mine(session, plan)
        except ColonnadeError as error:
            yield self.refuse(error, Code.PLAN)
            return
        try:
            self._consent(session)
        except ColonnadeError as error:
            yield self.refuse(error)
            return
        self.session = session
        self._peers = list(plan.mask_keys)
        self._prepare(session)
        self.state = State.ACCEPTED
        yield self._to_server(Step.ACCEPT, Accept(session.digest))

    def refuse(self, error: BaseException, code: Code | None = None) -> Envelope:
        """End this party's part for an error that its own people are told of, and others by a code alone."""
        if self.state in (State.NEW, State.RELEASED, State.ENDED):
            raise ProtocolError(f"party {self.name} is {self.state.value} and has nothing to refuse")
        self._end()
        self.reason = str(error) if isinstance(error, ColonnadeError) else f"{type(error).__name__}: {error}"
        return self._to_server(Step.REFUSE, Refuse(code_of(error) if code is None else code))

    def _aborted(self, abort: Abort) -> None:
        known = self.session is not None and abort.party in self.session.parties
        # A party that refused knows more than the answer says.
        self.reason = self.reason or sentence_of(abort.code, abort.party if known else "")
        self._end()

    def _check_mine(self, session: SessionPlan, plan: Proposal) -> None:
        if self.name not in session.parties or dict(session.agreement.schema.parties[self.name]) != self._declared:
            raise PolicyError("the plan states other columns than this party declared")
        if plan.rows != self._rows:
            raise PolicyError(f"the plan is for n={plan.rows} records, this party aligned {self._rows}")
        if len(plan.mask_keys) != len(session.parties) or plan.mask_keys[self._index(session)] != self._keys.public:
            raise PolicyError("the plan lists another mask key than this party sent")

    def _index(self, session: SessionPlan) -> int:
        return session.parties.index(self.name)

    def _prepare(self, session: SessionPlan) -> None:
        """All noise of the session is drawn here, once. Alg. 1, lines 4-9 and 12."""
        columns = self._encode(session.plan.layout, session.grid, self._randomness.child("rounding").bytes(32))
        noise_source = self._randomness.child("noise")
        single = [i for i in session.single if session.plan.blocks[i].block.owners == (self.name,)]
        if single:
            gram = _gram(columns, session.grid.bound)
            offset = session.columns_of(self.name).start
            for i in single:  # Alg. 1, line 5
                exact = exact_block(session.plan.blocks[i].block, gram, offset)
                self._own[i] = perturb(exact, session.noise(i).draw(1, noise_source))
                exact.values.fill(0)
        vector = np.zeros(session.length - session.cross_start, dtype=np.int64)  # Alg. 1, line 10
        vector[:] = session.cross_noise.draw(session.plan.shares, noise_source)  # Alg. 1, line 12
        noise: dict[Cross, Integers] = {}
        start = 0
        for cross in session.spec.crosses:
            stop = start + cross.shape[0] * cross.shape[1]
            noise[cross] = vector[start:stop].reshape(cross.shape)
            start = stop
        if not session.spec.crosses:
            return
        # Another machine may lack the compiled loops; the words are the same with and without them.
        spec = None if self._workers.remote else session.spec
        product = party_product(session.agreement.product, self._workers.device, spec)
        self._product = product(session.spec, self._index(session), columns, noise, self._randomness.child("product"))
        self._product.workers = self._workers

    def _running(self) -> PartyProduct:
        if self._product is None:
            raise ProtocolError(f"party {self.name} is {self.state.value} and runs no product")
        return self._product

    def _go(self, round: str) -> Iterator[Envelope]:
        if round == SUBMIT:
            yield from self._submit()
            return
        if self.state is State.SUBMITTED:
            raise ProtocolError(f"party {self.name} has submitted and takes no further part in round {round}")
        for parcel in self._running().send(round):  # Alg. 1, line 11
            yield self._make(parcel.recipient, Step.PARCEL, encode_body(ParcelBody(round, parcel.payload)))
        yield self._to_server(Step.DONE, Done(round))

    def _submit(self) -> Iterator[Envelope]:
        """One masked message; asked again, the same bytes again. Alg. 1, lines 8 and 13-15."""
        session = self.session
        assert session is not None
        if self.state is State.ACCEPTED:
            contribution = self._running().contribute() if session.spec.crosses else NOTHING
            bits = session.spec.modulus_bits
            mask = self._keys.mask(self._identity, self._index(session), self._peers, session.length, bits)
            masked = Masked.of(self._own, session.positions, contribution, mask, bits)
            mask.fill(0)
            contribution.vector.fill(0)
            # The spend is booked, durably, before a byte leaves.
            self._book(session)
            self._submission = submission(masked)
            self._forget()
            self.state, self.handed_in = State.SUBMITTED, True
        for body in self._submission:
            yield self._make(SERVER, Step.SUBMIT, body)

    def _forget(self) -> None:
        for block in self._own.values():
            block.values[:] = 0
        self._own = {}
        if self._product is not None:
            self._product.wipe()
        self._product = None

    def _end(self) -> None:
        self._forget()
        self._submission = []
        self.state = State.ENDED

    def _to_server(self, step: Step, body: Body) -> Envelope:
        return self._make(SERVER, step, encode_body(body))

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        digest = "" if self.session is None else self.session.digest
        return Envelope(self._identity, digest, self.name, recipient, step, body)

    def __repr__(self) -> str:
        return f"Party({self.name!r}, {self.state.value})"


def _gram(columns: Columns, bound: int) -> NDArray[np.float64]:
    """Sums of products of all own columns and of the constant 1, which the grid writes as its bound.

    float64 holds every partial sum exactly: entries are below 2^11, so n may reach 2^31.
    """
    if isinstance(columns, Summed):
        return columns.gram
    n, width = columns.shape
    total = np.zeros((width + 1, width + 1))
    for start in range(0, n, GRAM_ROWS):
        stop = min(n, start + GRAM_ROWS)
        block = np.full((stop - start, width + 1), float(bound))
        block[:, 1:] = columns.rows(start, stop)
        total += block.T @ block
    return total
