"""A tiny session of three parties whose messages wait in one queue, so that it can be cut at any of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

import polars as pl

from colonnade.audit.transcript import OnePlan
from colonnade.crypto.product import SERVER
from colonnade.data.table import Table, table_from
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.prediction import Floats, Prediction
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.conversation import PartyState, ServerState
from colonnade.protocol.evidence import Evidence
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import Envelope
from colonnade.protocol.party import PartyRole
from colonnade.protocol.predict import OpenedScores, PredictParty, PredictServer
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import Signer
from colonnade.protocol.tasks import JournalEvent, Unguarded
from tests.helpers.accounts import Remembered, SharedSigner

NAMES = ("works", "bank", "town")
ROWS = 6
COLUMNS = {name: {f"{name}_x": Numeric(-1.0, 1.0)} for name in NAMES}
AGREEMENT = Agreement.from_terms(
    name="tiny",
    schema=Schema(COLUMNS),
    label="works.works_x",
    task=Task.LINEAR,
    epsilon=5.0,
    product="plain",
    release="full",
)
PREDICTION = Prediction("0" * 64, "town", COLUMNS)
PLANS = OnePlan()


@cache
def table(name: str, aligned: bool) -> Table:
    values = {f"{name}_x": [0.1 * i for i in range(ROWS)]}
    if not aligned:
        return table_from(name, pl.DataFrame(values), COLUMNS[name])
    ids = [f"p{i}" for i in range(ROWS)]
    return table_from(name, pl.DataFrame(values), COLUMNS[name], ids)


@dataclass
class Book(Unguarded):
    """A ledger of one session in memory."""

    state: str = "open"
    calls: list[str] = field(default_factory=list)

    def note(self, call: str) -> None:
        self.calls.append(call)

    def judge(self, agreement: Agreement, aligned: bool) -> None:
        self.note("judge")

    def foresee(self, agreement: Agreement, rows: int, aligned: bool) -> None:
        self.note("foresee")

    def align(self, session: str, study: str, parties: Collection[str]) -> None:
        self.note("align")

    def consent(self, session: SessionPlan) -> None:
        self.note("consent")

    def book(self, session: SessionPlan) -> None:
        assert self.state == "open"
        self.state = "booked"
        self.note("book")

    def resumable(self, session: str) -> bool:
        return self.state in ("open", "booked")

    def resume(self, session: SessionPlan) -> None:
        self.note("resume")
        if self.state != "booked":
            self.book(session)

    def release(self) -> None:
        if self.state == "booked":
            self.state = "released"

    def void(self, reason: str) -> None:
        if self.state == "booked":
            self.state = "void"


class Notes:
    """A journal in memory."""

    def __init__(self) -> None:
        self.events: list[JournalEvent] = []

    def note(self, session: str, event: JournalEvent) -> None:
        self.events.append(event)

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        return {}


Binning = Callable[["Conversation"], None]


@dataclass
class Conversation:
    """Roles and the messages between them, in the order in which they were sent."""

    server: ServerRole
    parties: Mapping[str, PartyRole]
    books: Mapping[str, Book]
    journal: Notes
    scores: list[OpenedScores] = field(default_factory=list)
    queue: deque[tuple[str, Envelope]] = field(default_factory=deque)
    gone: set[str] = field(default_factory=set)
    """Roles that hear and say nothing any more."""
    passed: int = 0

    def run(self, cut: Binning | None = None, after: int = -1) -> int:
        """Carry all messages; `cut` happens after so many of them. How many passed."""
        for role in self.parties.values():
            self.send(SERVER, role.start())
        while self.queue:
            if cut is not None and self.passed == after:
                cut(self)
                cut = None
                continue
            recipient, envelope = self.queue.popleft()
            self.passed += 1
            if recipient not in self.gone:
                self.deliver(recipient, Envelope.decode(envelope.encode()))
        return self.passed

    def deliver(self, recipient: str, envelope: Envelope) -> None:
        if recipient == SERVER:
            if self.server.over:
                # Whoever comes late gets the last word.
                if not self.parties[envelope.sender].over:
                    self.queue.append((envelope.sender, self.server.farewell(envelope.sender)))
                return
            try:
                self.post(self.server.receive(envelope))
            except ColonnadeError as error:
                self.post(self.server.fault(envelope.sender, error))
            return
        role = self.parties[recipient]
        try:
            self.send(SERVER, role.receive(envelope))
        except ColonnadeError as error:
            self.send(SERVER, role.fault(error))

    def send(self, recipient: str, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            self.queue.append((recipient, envelope))

    def post(self, envelopes: Iterable[Envelope]) -> None:
        """From the server; its last words on a session that failed overtake what waits for a party."""
        for envelope in envelopes:
            if self.server.failed or self.server.halting:
                self.queue = deque(item for item in self.queue if item[0] != envelope.recipient)
            self.queue.append((envelope.recipient, envelope))

    # What carriers tell.

    def lose(self, name: str) -> None:
        """A party's process dies, and the server notices."""
        self.gone.add(name)
        self.post(self.server.lost(name))

    def lose_server(self, name: str) -> None:
        """A party no longer hears the server; both sides notice."""
        self.gone.add(name)
        self.parties[name].lost()
        self.post(self.server.lost(name))

    def stop_server(self) -> None:
        self.post(self.server.stop())

    def stop_party(self, name: str) -> None:
        self.send(SERVER, self.parties[name].stop())

    def kill_server(self) -> None:
        """The server dies: every party notices by itself."""
        self.gone.add(SERVER)
        self.queue.clear()
        for role in self.parties.values():
            role.lost()


def fit_conversation(
    aligned: bool = False,
    seed: bytes = b"cut",
    signers: Mapping[str, Signer] | None = None,
    evidence: Mapping[str, Evidence] | None = None,
) -> Conversation:
    """A session that would make a release; accountable where evidence is kept."""
    alignment, source = "psi" if aligned else "none", Randomness(seed)
    books, journal = {name: Book() for name in NAMES}, Notes()
    roles = {}
    for name in NAMES:
        task = FitParty(name, AGREEMENT, alignment, lambda n=name: table(n, aligned), books[name], planner=PLANS)
        account = None if evidence is None else SessionAccount(evidence[name])
        roles[name] = PartyRole(task, source, (signers or {}).get(name), account=account)
    server = ServerRole(FitServer(AGREEMENT, alignment, PLANS), source, journal, accountable=evidence is not None)
    return Conversation(server, roles, books, journal)


def predict_conversation(seed: bytes = b"cut") -> Conversation:
    """A session that would open scores at town."""
    source = Randomness(seed)
    books, journal = {name: Book() for name in NAMES}, Notes()
    scores: list[OpenedScores] = []

    def part(own: Table) -> Floats:
        return next(iter(own.coordinates().values()))

    roles = {}
    for name in NAMES:
        task = PredictParty(
            name,
            PREDICTION,
            "none",
            lambda n=name: table(n, False),
            part,
            books[name],
            keep=lambda session, opened: scores.append(opened),
        )
        roles[name] = PartyRole(task, source)
    return Conversation(ServerRole(PredictServer(PREDICTION, "none"), source, journal), roles, books, journal, scores)


def reached(state: PartyState | ServerState) -> Conversation:
    """A session that messages, and a stop where it takes one, brought to where its first party or its server is so."""
    matched = state in (PartyState.ALIGNING, PartyState.MATCHED)
    accountable = state in (PartyState.FIXED, PartyState.KEPT, PartyState.WITHDRAWN, ServerState.HALTING)
    evidence = {name: Remembered() for name in NAMES} if accountable else None
    # Without signatures to wait for, what is fixed is kept at once.
    signers = {name: SharedSigner(name) for name in NAMES} if state is PartyState.FIXED else None
    talk = fit_conversation(matched, signers=signers, evidence=evidence)
    role = talk.parties[NAMES[0]] if isinstance(state, PartyState) else talk.server
    if state is PartyState.NEW:
        return talk
    for party in talk.parties.values():
        talk.send(SERVER, party.start())
    if state is PartyState.ENDED:
        talk.stop_party(NAMES[0])
    elif state is ServerState.FAILED:
        talk.stop_server()
    while role.state is not state:
        if talk.server.state is ServerState.SUBMITTING and state in (PartyState.WITHDRAWN, ServerState.HALTING):
            # The server hears that another one has stopped before anybody hands in.
            for refusal in talk.parties[NAMES[-1]].stop():
                talk.deliver(SERVER, refusal)
        talk.deliver(*talk.queue.popleft())
    return talk
