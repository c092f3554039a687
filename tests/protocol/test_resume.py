"""A server that dies at submit: the same bytes are handed in again, the session opens, once, or it is over for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.conversation import PartyState, ServerState
from colonnade.protocol.evidence import HANDED_IN, WITHDRAWN, Evidence
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import JournalEvent
from colonnade.transport.evidence import HANDED, KEPT, EvidenceFolder
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import AGREEMENT, NAMES, PLANS, Book, Conversation, Notes, table
from tests.protocol.test_conversation import talk_at_submit
from tests.protocol.test_session_audit import KEY


@dataclass
class Remembering(Notes):
    """A journal in memory that outlives its server."""

    heard: dict[str, set[JournalEvent]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events: list[JournalEvent] = []

    def note(self, session: str, event: JournalEvent) -> None:
        self.events.append(event)
        self.heard.setdefault(session, set()).add(event)

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        spent = {JournalEvent.SUBMITTED, JournalEvent.OPENED}
        return {s: "opened" if self.heard[s] & spent else "void" for s in sessions if s in self.heard}


@dataclass
class World:
    """What outlives processes: every party's books and evidence, and the server's journal."""

    evidence: Mapping[str, Evidence] = field(default_factory=lambda: {name: Remembered() for name in NAMES})
    books: dict[str, Book] = field(default_factory=lambda: {name: Book() for name in NAMES})
    journal: Remembering = field(default_factory=Remembering)
    submitted: dict[str, list[bytes]] = field(default_factory=dict)
    steps: list[tuple[str, Step]] = field(default_factory=list)

    def talk(self, seed: bytes = b"first", **others: Evidence) -> Conversation:
        """Fresh processes of all, with a fresh server."""
        source, roles = Randomness(seed), {}
        for name in NAMES:
            task = FitParty(name, AGREEMENT, "none", lambda n=name: table(n, False), self.books[name], planner=PLANS)
            account = SessionAccount(others.get(name, self.evidence[name]))
            roles[name] = PartyRole(task, source, SharedSigner(name), account=account)
        server = ServerRole(FitServer(AGREEMENT, "none", PLANS), source, self.journal, accountable=True)
        talk = Conversation(server, roles, self.books, self.journal)
        send = talk.send

        def listen(recipient: str, envelopes: Iterable[Envelope]) -> None:
            for envelope in envelopes:
                self.steps.append((envelope.sender, envelope.step))
                if envelope.step is Step.SUBMIT:
                    self.submitted.setdefault(envelope.sender, []).append(envelope.body)
                send(recipient, [envelope])

        talk.send = listen  # type: ignore[method-assign]
        return talk


def start() -> int:
    return talk_at_submit(World().talk())


def died(world: World, after: int) -> Conversation:
    talk = world.talk()
    talk.run(lambda t: t.kill_server(), after)
    return talk


def releases(talk: Conversation) -> list[list[int]]:
    tasks = [role.task for role in talk.parties.values()]
    kept = [task.kept for task in tasks if isinstance(task, FitParty) and task.kept is not None]
    return [np.concatenate([b.values for b in release.blocks]).tolist() for release in kept]


@pytest.mark.parametrize("passed", range(7), ids=lambda n: f"{n} messages of submit")
def test_a_server_that_dies_at_submit_opens_the_session_when_it_comes_back(passed: int) -> None:
    """Whoever had handed in and whoever had not: the same bytes, no earlier round, one booking, one release."""
    whole = World().talk()
    whole.run()
    world = World()
    first = died(world, start() + passed)
    if world.journal.outcomes([first.server.identity.hex()]) != {first.server.identity.hex(): "void"}:
        return
    handed = {name: list(bodies) for name, bodies in world.submitted.items()}
    world.steps.clear()
    again = world.talk(b"second")
    again.run()
    assert again.server.state is ServerState.CLOSED and again.server.identity == first.server.identity
    assert {step for _, step in world.steps} == {Step.HELLO, Step.SUBMIT, Step.SIGNATURE, Step.CONFIRM}
    assert all(world.submitted[name][: len(bodies)] == bodies for name, bodies in handed.items())
    assert all(len(set(bodies)) == 1 for bodies in world.submitted.values())
    assert {book.state for book in world.books.values()} == {"released"}
    assert all(book.calls.count("book") == 1 for book in world.books.values())
    assert releases(again) == releases(whole) and len(releases(again)) == 3
    assert not any(role.doubt for role in again.parties.values())
    # Once: the next session is another one.
    third = world.talk(b"third", **{name: Remembered() for name in NAMES})
    for book in world.books.values():
        book.state = "open"
    third.run()
    assert third.server.identity != first.server.identity


def test_before_all_have_kept_it_nobody_can_have_handed_in() -> None:
    world = World()
    first = died(world, start() - 1)
    assert not world.submitted and not any(role.handed_in for role in first.parties.values())
    assert {book.state for book in world.books.values()} == {"open"}


EVENTS = ("death", "withdrawal", "resume", "a resume that dies")


@pytest.mark.parametrize("order", list(product(EVENTS, repeat=3)), ids=", ".join)
@pytest.mark.parametrize("passed", [0, 2, 4])
def test_every_order_of_death_withdrawal_and_resume(order: tuple[str, ...], passed: int) -> None:
    """Whoever has signed a withdrawal never hands in, whoever has handed in never signs one, and it opens once."""
    world = World()
    talk = world.talk()
    withdrawn: set[str] = set()
    opened, began = 0, False
    for number, event in enumerate(order):
        if event.endswith(("resume", "dies")):
            if not all(kept.offers() for kept in world.evidence.values()):
                # One has nothing to go on with: what the server begins is another session.
                continue
            assert not withdrawn
            talk, began = world.talk(b"again %d" % number), True
            if event == "resume":
                talk.run()
            else:
                talk.run(lambda cut: cut.kill_server(), len(NAMES) + 1 + passed)
            opened += talk.server.opened
            continue
        if not began:
            run_to(talk, start() + passed)
            began = True
        if event == "death":
            talk.gone.add("")
            talk.queue.clear()
            for role in talk.parties.values():
                role.lost()
        else:
            # One is stopped; the server, where it lives, asks the others.
            town = talk.parties["town"]
            could = not town.handed_in and bool(town._digest)
            told = town.stop()
            if could and told:
                withdrawn.add("town")
            talk.send("", told)
            carry_on(talk)
            withdrawn |= {name for name, proofs in talk.server._withdrawn.items() if proofs}
    late = {name for name in withdrawn if world.submitted.get(name)}
    assert not late, (order, late)
    assert opened <= 1 and not (opened and withdrawn), "a resume is refused once any party has signed a withdrawal"
    assert all(len(set(bodies)) == 1 for bodies in world.submitted.values()), "the same bytes"
    assert all(book.calls.count("book") <= 1 for book in world.books.values())
    if order[0] == "death" and order[1] == "resume":
        assert opened
    for name, kept in world.evidence.items():
        assert isinstance(kept, Remembered)
        assert (kept.decided == HANDED_IN) >= bool(world.submitted.get(name))
        if name in withdrawn:
            assert kept.decided == WITHDRAWN and not kept.offers()


def run_to(talk: Conversation, after: int) -> None:
    for role in talk.parties.values():
        talk.send("", role.start())
    while talk.queue and talk.passed < after:
        talk.passed += 1
        talk.deliver(*talk.queue.popleft())


def carry_on(talk: Conversation) -> None:
    while talk.queue:
        recipient, envelope = talk.queue.popleft()
        if recipient not in talk.gone:
            talk.deliver(recipient, Envelope.decode(envelope.encode()))


def test_after_a_resume_nobody_signs_a_withdrawal() -> None:
    world = World()
    died(world, start())
    talk = world.talk(b"second")
    run_to(talk, len(NAMES) + 1)
    assert talk.server.state is ServerState.SUBMITTING
    while not any(role.handed_in for role in talk.parties.values()):
        talk.deliver(*talk.queue.popleft())
    talk.stop_server()
    carry_on(talk)
    handed = {name for name, role in talk.parties.items() if world.submitted.get(name)}
    assert handed and not {name for name, proofs in talk.server._withdrawn.items() if proofs} & handed
    assert all(world.books[name].state == "booked" for name in handed)


def test_one_that_cannot_go_on_makes_it_a_new_session() -> None:
    world = World()
    first = died(world, start() + 3)
    for name in NAMES:
        world.books[name].state = "open"
    fresh = {name: Remembered() for name in NAMES[:1]}
    kept = {name: Begun(world.evidence[name]) for name in NAMES[1:]}  # type: ignore[arg-type]
    talk = world.talk(b"second", **fresh, **kept)
    talk.run()
    assert talk.server.state is ServerState.CLOSED and talk.server.identity != first.server.identity


@dataclass
class Begun(Remembered):
    """Offers what another process kept, and keeps a session of its own."""

    other: Remembered | None = None

    def __init__(self, other: Remembered) -> None:
        super().__init__()
        self.other = other

    def offers(self):  # type: ignore[no-untyped-def]
        assert self.other is not None
        return self.other.offers()


def test_a_server_that_opened_it_does_not_open_it_again() -> None:
    world = World()
    first = died(world, start() + 3)
    world.journal.note(first.server.identity.hex(), JournalEvent.SUBMITTED)
    assert not world.talk(b"second").server._resumable(world.evidence["bank"].offers()[0])
    stranger = World().talk(b"second").server
    assert not stranger._resumable(world.evidence["bank"].offers()[0]), "a server that knows nothing of it"


def test_another_submission_than_the_kept_one_is_not_taken() -> None:
    world = World()
    died(world, start() + 3)
    mine = world.evidence["bank"]
    assert isinstance(mine, Remembered) and mine.kept is not None
    import msgspec

    mine.kept = msgspec.structs.replace(mine.kept, bodies=[body[:-1] + b"\0" for body in mine.kept.bodies])
    talk = world.talk(b"second")
    talk.run()
    assert not talk.server.opened and talk.parties["bank"].state in (PartyState.ENDED, PartyState.CLOSED)
    assert "is not what it signed" in talk.parties["bank"].reason


def folder(path: Path) -> EvidenceFolder:
    return EvidenceFolder(path, KEY, {"party": "bank", "terms": "t", "kind": "k"})


@pytest.mark.parametrize("first", [HANDED_IN, WITHDRAWN])
def test_on_disk_one_decision_stands_in_every_process(first: str, tmp_path: Path) -> None:
    from colonnade.protocol.coins import Opening
    from colonnade.protocol.evidence import Kept
    from colonnade.protocol.messages import Resumable

    begun = folder(tmp_path)
    begun.begin(bytes(32), Opening(b"s" * 32, b"c" * 32, b"t" * 32))
    kept = Kept(Resumable(bytes(32), "plan", 6, (b"a" * 32,)), [b"body"], "session", [b"x"])
    begun.keep_submission(kept)
    other = folder(tmp_path)
    assert other.offers() == [kept.offer] and other.resume(bytes(32)) == kept
    assert begun.decide(first) == first
    for process in (begun, other):
        assert process.decide(HANDED_IN) == process.decide(WITHDRAWN) == first
    assert folder(tmp_path).offers() == ([kept.offer] if first == HANDED_IN else [])
    begun.drop_submission()
    assert not folder(tmp_path).offers() and other.decide(WITHDRAWN) == first
    assert (begun.place / HANDED).exists() == (first == HANDED_IN) and not (begun.place / KEPT).exists()  # type: ignore[operator]
    for process in (begun, other):
        process.close()


def test_what_a_kill_left_half_written_is_cut_off_before_more_is_written(tmp_path: Path) -> None:
    from colonnade.protocol.coins import Opening
    from colonnade.protocol.evidence import Kept
    from colonnade.transport.evidence import RECORD, TRAFFIC, KeptEvidence

    begun = folder(tmp_path)
    begun.begin(bytes(32), Opening(b"s" * 32, b"c" * 32, b"t" * 32))
    begun.keep_submission(Kept(_offer(), [b"body"], "session", [b"x"]))
    messages = [Envelope(bytes(32), "", "", "bank", Step.HALT, bytes([n])) for n in range(3)]
    begun.keep_received(messages[0], b"0")
    begun.close()
    place = tmp_path / bytes(32).hex()
    whole = (place / TRAFFIC).read_bytes()
    for half in (b'{"what": "rec', b'{"what": "half", "of": []}'):
        for name, more in ((RECORD, half), (TRAFFIC, whole[: len(whole) // 2])):
            with (place / name).open("ab") as file:
                file.write(more)
        again = folder(tmp_path)
        assert again.resume(bytes(32)) is not None
        again.keep_received(messages[1], b"1")
        again.close()
    with (place / RECORD).open("ab") as file:
        file.write(b'{"what"')
    KeptEvidence.read(place).append({"what": "destroyed"})
    kept = KeptEvidence.read(place)
    assert not kept.damaged and len(kept.of("received")) == 3 and kept.of("destroyed") and not kept.of("half")
    assert [message.body for message in kept.received()] == [b"\0", b"\1", b"\1"]


def test_evidence_of_others_is_not_offered(tmp_path: Path) -> None:
    from colonnade.protocol.coins import Opening

    begun = folder(tmp_path)
    begun.begin(bytes(32), Opening(b"s" * 32, b"c" * 32, b"t" * 32))
    begun.keep_submission(None)
    begun.close()
    assert not folder(tmp_path).offers()
    (tmp_path / bytes(32).hex() / KEPT).write_bytes(b"\xff" * 9)
    assert not folder(tmp_path).offers()
    with pytest.raises(ProtocolError):
        SessionAccount(folder(tmp_path)).resume(_offer(), "bank", NAMES)


def _offer():  # type: ignore[no-untyped-def]
    from colonnade.protocol.messages import Resumable

    return Resumable(bytes(32), "plan", 6, (b"a" * 32,) * 3)
