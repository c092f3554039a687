"""A study of three parties over an in-memory wire: the relay in one thread, each client in its own, no engine."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import policy_from
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import ReleaseRecord
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import Signer
from colonnade.protocol.tasks import Guard, PartyTask, ServerTask, Unguarded
from colonnade.study import StudySpec, read_study
from colonnade.transport.client import Client
from colonnade.transport.journal import FileJournal
from colonnade.transport.relay import Relay
from colonnade.transport.wire import (
    URGENT,
    Delivery,
    Poll,
    Reply,
    Send,
    Timeouts,
    Unreachable,
    decode_reply,
    decode_request,
    encode,
)

STUDY = """[study]
name = "pay"
task = "linear"
label = "works.pay"
epsilon = 30.0
delta = 0
collusion = 1
product = "lattice"
alignment = "psi"

[party.works]
data = "works.csv"
id = "person"
[party.works.columns]
pay = { kind = "numeric", low = 0, high = 100 }
hours = { kind = "numeric", low = 0, high = 80 }

[party.bank]
data = "bank.csv"
id = "person"
[party.bank.columns]
savings = { kind = "numeric", low = 0, high = 1000 }

[party.town]
data = "town.csv"
id = "person"
[party.town.columns]
owner = { kind = "binary", levels = ["no", "yes"] }
"""
PARTIES = ("works", "bank", "town")
QUICK = Timeouts(join=10.0, silence=2.0, beat=0.1, poll=0.2, farewell=2.0)


def write_study(folder: Path, people: int = 60) -> StudySpec:
    """Three files that know most of the same people, each in its own order."""
    draw = random.Random(3)
    rows = [
        (f"p{k}", draw.uniform(0, 100), draw.uniform(20, 60), draw.uniform(0, 1000), draw.choice(["no", "yes"]))
        for k in range(people)
    ]
    for name, header, pick, missing in (
        ("works", "person,pay,hours", lambda r: f"{r[0]},{r[1]:.1f},{r[2]:.1f}", 0),
        ("bank", "person,savings", lambda r: f"{r[0]},{r[3]:.0f}", 3),
        ("town", "person,owner", lambda r: f"{r[0]},{r[4]}", 5),
    ):
        lines = [pick(row) for row in rows[missing:]]
        draw.shuffle(lines)
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "study.toml").write_text(STUDY)
    return read_study(folder / "study.toml")


def unmatched(study: StudySpec, folder: Path, rows: int = 50) -> StudySpec:
    """The same without ids to match, which most of a session's time goes to: so many rows as they stand."""
    for name in PARTIES:
        lines = (folder / f"{name}.csv").read_text().splitlines()
        (folder / f"{name}.csv").write_text("\n".join(lines[: rows + 1]) + "\n")
    return replace(study, alignment="none")


def guard(folder: Path, name: str, total: float = 50.0, session: float = 40.0) -> ConsentGuard:
    others = [p for p in PARTIES if p != name]
    policy = policy_from(
        {
            "policy": {"party": name, "partners": others},
            "session": {"epsilon": session},
            "total": {"epsilon": total},
        }
    )
    return ConsentGuard(name, policy, Ledger(folder / f"{name}.ledger"), DataSet.of_file(folder / f"{name}.csv"))


Wire = Callable[[str, bytes], bytes]
"""Carries a party's request to the server, and brings the reply."""
Meddle = Callable[[str, Envelope], Sequence[Envelope]]
"""What a server that deviates sends to a party in place of a message."""
Serve = Callable[[ServerTask, Randomness, FileJournal], ServerRole]


def honest(relay: Relay) -> Wire:
    return relay.handle


def message_in(data: bytes) -> Envelope | None:
    """The message that a request brings, if it brings one."""
    request = decode_request(data)
    return Envelope.decode(request.item) if isinstance(request, Send) else None


def sends(data: bytes, *steps: Step) -> bool:
    """Whether a request brings a message of one of these steps."""
    message = message_in(data)
    return message is not None and message.step in steps


def brings(answer: bytes, *steps: Step) -> bool:
    """Whether a reply brings a message of one of these steps."""
    reply = decode_reply(answer)
    return isinstance(reply, Delivery) and Envelope.decode(reply.item).step in steps


class _Renumbered:
    """What one party is sent in place of what waits for it at the server."""

    def __init__(self, name: str, ask: Wire, meddle: Meddle) -> None:
        self._name, self._ask, self._meddle = name, ask, meddle
        self._queue: deque[bytes] = deque()
        self._taken = self._arrived = 0

    def pull(self, request: Poll) -> Reply:
        if self._queue and request.taken == self._arrived + 1:
            self._queue.popleft()
            self._arrived += 1
        while not self._queue:
            reply = decode_reply(self._ask(self._name, encode(Poll(request.instance, self._taken))))
            if not isinstance(reply, Delivery) or reply.number == URGENT:
                return reply
            self._taken = reply.number
            self._queue.extend(m.encode() for m in self._meddle(self._name, Envelope.decode(reply.item)))
        return Delivery(self._arrived + 1, self._queue[0])


def deviating(meddle: Meddle) -> Callable[[Relay], Wire]:
    """A server that sends parties other messages than it should: none, or several in place of one."""

    def wire(relay: Relay) -> Wire:
        ends: dict[str, _Renumbered] = {}

        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            if not isinstance(request, Poll):
                return relay.handle(name, data)
            return encode(ends.setdefault(name, _Renumbered(name, relay.handle, meddle)).pull(request))

        return carry

    return wire


@dataclass
class Talk:
    """What became of a conversation."""

    relay: Relay
    roles: dict[str, PartyRole] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    closings: dict[str, str] = field(default_factory=dict)
    """What a client leaves unsaid in an error."""
    failure: BaseException | None = None
    """What the server's own process broke by."""

    def sentence(self, name: str) -> str:
        error = self.errors[name]
        assert isinstance(error, ColonnadeError), repr(error)
        return str(error)

    @property
    def told(self) -> str:
        """How it ended, for whoever asks the server."""
        end = self.relay.role.end
        assert end is not None
        return self.relay.role.task.ending(end)


def converse(
    server: ServerRole,
    parties: Mapping[str, Callable[[], PartyRole]],
    wire: Callable[[Relay], Wire] = honest,
    patience: Timeouts | None = None,
    stop: Callable[[], bool] = lambda: False,
    ends: bool = False,
) -> Talk:
    """Server and parties in threads of their own; a party's role is made in its thread. `wire` may meddle.

    With `ends` nobody answers any more once the relay has done its work, as if its process had ended.
    """
    relay = Relay(server, patience or QUICK)
    carry, out = wire(relay), Talk(relay)
    gone = threading.Event()

    def serve() -> None:
        try:
            relay.run(stop)
        except BaseException as error:
            out.failure = error
        if ends:
            gone.set()

    def ask(name: str, request: bytes) -> bytes:
        if gone.is_set():
            raise Unreachable
        return carry(name, request)

    def take_part(name: str, role_of: Callable[[], PartyRole]) -> None:
        client: Client | None = None
        try:
            out.roles[name] = role_of()
            client = Client(out.roles[name], lambda request: ask(name, request), patience or QUICK)
            client.run()
        except BaseException as error:
            out.errors[name] = error
        out.closings[name] = "" if client is None else client.closing

    threads = [threading.Thread(target=serve)]
    threads += [threading.Thread(target=take_part, args=(name, role_of)) for name, role_of in parties.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a side of the session hangs"
    for thread in threading.enumerate():
        if thread.name == "colonnade-beat":
            thread.join(5)
            assert not thread.is_alive(), "a party that has left is heard on"
    return out


@dataclass
class Run(Talk):
    """What became of a session."""

    releases: dict[str, ReleaseRecord] = field(default_factory=dict)
    """What each party whose client ended well has kept."""

    @property
    def task(self) -> FitServer:
        assert isinstance(self.relay.role.task, FitServer)
        return self.relay.role.task

    @property
    def release(self) -> ReleaseRecord | None:
        """What the server opened."""
        return self.task.release


def run(
    study: StudySpec,
    folder: Path,
    seed: bytes | None = None,
    guards: Mapping[str, Guard] | Callable[[str], Guard] | None = None,
    wire: Callable[[Relay], Wire] = honest,
    patience: Timeouts = QUICK,
    studies: Mapping[str, StudySpec] | None = None,
    served: FitServer | None = None,
    signers: Mapping[str, Signer] | None = None,
    serve: Serve = ServerRole,
    stop: Callable[[], bool] = lambda: False,
    ends: bool = False,
) -> Run:
    """One session of a study; `guards` may be a function, which is called in the party's own thread."""
    task = served or FitServer(study.agreement, study.alignment)
    journal = FileJournal(folder / "sessions.jsonl")
    names = study.agreement.schema.names

    def guard_of(name: str) -> Guard:
        if callable(guards):
            return guards(name)
        return (guards or {}).get(name) or Unguarded()

    def role_of(name: str) -> PartyRole:
        party = party_task((studies or {}).get(name, study), name, guard_of(name), study)
        return PartyRole(party, Randomness(seed), (signers or {}).get(name))

    server = serve(task, Randomness(seed), journal)
    with journal.alone():
        talk = converse(server, {name: partial(role_of, name) for name in names}, wire, patience, stop, ends)
    out = Run(talk.relay, talk.roles, talk.errors, talk.closings, talk.failure)
    for name, role in talk.roles.items():
        assert isinstance(role.task, FitParty)
        if name not in talk.errors:
            assert role.task.kept is not None
            out.releases[name] = role.task.kept
    return out


def party_task(mine: StudySpec, name: str, guard: Guard, study: StudySpec | None = None) -> PartyTask:
    """A party's part by its own study file, with the data that `study` names."""
    source, columns = (study or mine).sources[name], (study or mine).agreement.schema.parties[name]
    return FitParty(name, mine.agreement, mine.alignment, lambda: source.read(name, columns), guard)
