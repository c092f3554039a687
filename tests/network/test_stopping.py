"""A session that somebody wants ended, or whose server fails, at each step: who hears what, and who has what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Step
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import JournalEvent
from colonnade.study import StudySpec
from colonnade.transport.journal import OPENED, VOID, FileJournal
from colonnade.transport.relay import Relay
from colonnade.transport.wire import Heartbeat, Timeouts, Unreachable, decode_request
from tests.helpers.wires import PARTIES, QUICK, Serve, Wire, brings, guard, run, sends, unmatched, write_study
from tests.network.test_predictions import model_of
from tests.network.test_predictions import run as run_prediction


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path)


@pytest.fixture
def guards(study: StudySpec, tmp_path: Path) -> dict[str, ConsentGuard]:
    return {name: guard(tmp_path, name) for name in PARTIES}


@pytest.fixture
def plain(study: StudySpec, tmp_path: Path) -> StudySpec:
    """Rows as they stand, where the matching is not the matter."""
    return unmatched(study, tmp_path)


def kinds(guards: dict[str, ConsentGuard], name: str) -> list[EntryKind]:
    return [entry.kind for entry in guards[name].ledger.entries()]


def noticing(when: Callable[[bytes, bytes], bool], wanted: threading.Event) -> Callable[[Relay], Wire]:
    """A wire on which somebody wants the end once a request of the bank, or its answer, is of a kind."""

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            answer = relay.handle(name, data)
            if name == "bank" and when(data, answer):
                wanted.set()
            return answer

        return carry

    return wire


MOMENTS = {
    "wait": lambda data, answer: sends(data, Step.HELLO),
    "align": lambda data, answer: sends(data, Step.PARCEL),
    "plan": lambda data, answer: sends(data, Step.JOIN),
    "products": lambda data, answer: sends(data, Step.ACCEPT),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_stopped_before_all_have_submitted(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], moment: str
) -> None:
    """The session is held up there, so that it is stopped there."""
    wanted = threading.Event()

    def wire(relay: Relay) -> Wire:
        carry = noticing(MOMENTS[moment], wanted)(relay)

        def hold(name: str, data: bytes) -> bytes:
            if name == "town" and wanted.is_set() and sends(data, Step.READY, Step.DONE, Step.JOIN, Step.ACCEPT):
                while not relay.role.over:
                    time.sleep(0.02)
            return carry(name, data)

        return hold

    out = run(study, tmp_path, guards=guards, wire=wire, stop=wanted.is_set)
    assert out.release is None and not out.releases
    for told in (out.told, *(out.sentence(name) for name in PARTIES)):
        assert told.startswith("the session ended (stopped): a person stopped the session;"), told
        assert "nothing is spent" in told
    assert all(EntryKind.RELEASED not in kinds(guards, name) for name in PARTIES)
    assert all(guards[name].spent().epsilon == 0.0 for name in PARTIES)


class Gone(BaseException):
    """Stands for a process that was killed: it says nothing more."""


@pytest.mark.parametrize("named", [True, False], ids=["named by the engine", "not named"])
@pytest.mark.parametrize("step", [Step.HELLO, Step.JOIN])
def test_a_process_that_the_engine_knows_to_be_dead(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], step: Step, named: bool
) -> None:
    """Whoever is dead ends the session, and not whoever asked for the end."""
    dead = threading.Event()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "town" and (dead.is_set() or sends(data, step)):
                if not dead.is_set():
                    relay.absent = "town" if named else ""
                    dead.set()
                raise Gone
            return relay.handle(name, data)

        return carry

    out = run(plain, tmp_path, guards=guards, wire=wire, stop=dead.is_set, patience=replace(QUICK, silence=20.0))
    assert isinstance(out.errors["town"], Gone)
    # Of a process that was never heard nobody but the engine can know.
    says = "(stopped)" if step is Step.HELLO and not named else "at town (party-lost)"
    for told in (out.told, out.sentence("works"), out.sentence("bank")):
        assert told.startswith(f"the session ended {says}"), told
        assert "nothing is spent" in told
    assert all(guards[name].spent().epsilon == 0.0 for name in PARTIES)


def test_a_process_that_is_dead_when_all_is_open_costs_nobody_else_the_release(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    dead = threading.Event()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "town" and dead.is_set():
                raise Gone
            answer = relay.handle(name, data)
            if name == "town" and brings(answer, Step.OPENED):
                relay.absent = "town"
                dead.set()
                raise Gone
            return answer

        return carry

    out = run(plain, tmp_path, guards=guards, wire=wire, stop=dead.is_set, ends=True)
    assert set(out.releases) == {"works", "bank"} and out.told == "the release was opened"
    assert kinds(guards, "town") == [EntryKind.BOOKED]
    # The next session tells the town what became of it.
    again = {name: guard(tmp_path, name, total=500.0) for name in PARTIES}
    assert set(run(plain, tmp_path, guards=again).releases) == set(PARTIES)
    assert kinds(again, "town") == [EntryKind.BOOKED, EntryKind.RELEASED] * 2


def test_stopped_when_it_is_open_everybody_still_gets_the_release(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """The spend is made: what it was made for is handed out before the server goes."""
    opened, lost = threading.Event(), list[bytes]()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            answer = relay.handle(name, data)
            if brings(answer, Step.OPENED):
                opened.set()
                if name == "town" and not lost:
                    # A slow line, which breaks.
                    lost.append(answer)
                    time.sleep(1.0)
                    raise Unreachable
            return answer

        return carry

    out = run(plain, tmp_path, guards=guards, wire=wire, stop=opened.is_set, ends=True)
    assert set(out.releases) == set(PARTIES), out.errors
    assert out.told == "the release was opened"
    for name in PARTIES:
        assert kinds(guards, name) == [EntryKind.BOOKED, EntryKind.RELEASED]


def test_a_party_that_never_takes_its_release_is_not_waited_for_long(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """It is heard and asks for nothing; whoever wants the end waits as long as a farewell takes."""
    opened = threading.Event()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            answer = relay.handle(name, data)
            if name == "town" and relay.role.opened and not isinstance(decode_request(data), Heartbeat):
                opened.set()
                time.sleep(0.05)
                raise Unreachable
            return answer

        return carry

    out = run(plain, tmp_path, guards=guards, wire=wire, stop=opened.is_set, ends=True)
    assert set(out.releases) == {"works", "bank"} and out.told == "the release was opened"
    assert out.sentence("town").endswith(BOOKED_COUNTS)
    assert kinds(guards, "town") == [EntryKind.BOOKED]


def test_the_receiver_of_scores_is_waited_for_as_long_as_any_party(plain: StudySpec, tmp_path: Path) -> None:
    """Its word decides what others are told: a few seconds of silence, while it writes, are not its end."""
    patience, silent = Timeouts(join=10.0, silence=12.0, beat=0.1, poll=0.1, farewell=2.0), threading.Event()

    def write() -> None:
        silent.set()
        time.sleep(6.0)
        silent.clear()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "bank" and silent.is_set():
                raise Unreachable
            return relay.handle(name, data)

        return carry

    out = run_prediction(plain, tmp_path, model_of(plain), wire=wire, patience=patience, keep=write)
    assert out.well and out.told == f"bank opened the scores of {out.rows} records"


class Full(FileJournal):
    """A journal on a disk that is full when an event is to be noted."""

    def __init__(self, path: Path, at: JournalEvent) -> None:
        super().__init__(path)
        self._at = at

    def note(self, session: str, event: JournalEvent) -> None:
        if event is self._at:
            raise OSError("no space left on device")
        super().note(session, event)


def served_by(journal: FileJournal) -> Serve:
    return lambda task, randomness, _: ServerRole(task, randomness, journal)


def test_a_server_that_cannot_note_the_submissions_opens_nothing(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """Its journal would say void: so must it."""
    journal = Full(tmp_path / "sessions.jsonl", JournalEvent.SUBMITTED)
    out = run(plain, tmp_path, guards=guards, serve=served_by(journal), ends=True)
    assert out.failure is None and out.release is None
    for name in PARTIES:
        told = out.sentence(name)
        assert told.startswith("the session ended (site)") and "nothing is spent" in told, told
        assert kinds(guards, name) == [EntryKind.BOOKED, EntryKind.VOID]
    session = guards["bank"].ledger.entries()[0].booking.session
    assert journal.outcomes([session]) == {session: VOID}


def test_a_server_that_cannot_note_that_it_is_open_hands_it_out_all_the_same(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """That all had submitted is on its disk: whether it counts does not hang on the second note."""
    journal = Full(tmp_path / "sessions.jsonl", JournalEvent.OPENED)
    out = run(plain, tmp_path, guards=guards, serve=served_by(journal), ends=True)
    assert set(out.releases) == set(PARTIES) and out.failure is None
    session = out.relay.role.identity.hex()
    assert journal.outcomes([session]) == {session: OPENED}


def test_a_server_that_breaks_once_it_is_open_says_so(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """All had submitted: the session counts, and nobody waits for a release that does not come."""

    class Broken(FitServer):
        def bodies(self, party: str) -> list[bytes]:
            raise RuntimeError("the server's own numbers")

    out = run(plain, tmp_path, guards=guards, served=Broken(plain.agreement, plain.alignment), ends=True)
    assert isinstance(out.failure, RuntimeError)
    for name in PARTIES:
        told = out.sentence(name)
        assert told.startswith("the session ended (internal-error)") and "counts as spent" in told, told
        assert kinds(guards, name) == [EntryKind.BOOKED, EntryKind.RELEASED]
