"""A session that somebody wants ended, or whose server fails, at each step: who hears what, and who has what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.protocol.messages import Step
from colonnade.study import Study
from colonnade.transport.relay import Relay
from tests.helpers.wires import PARTIES, Wire, guard, run, sends, write_study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


@pytest.fixture
def guards(study: Study, tmp_path: Path) -> dict[str, ConsentGuard]:
    return {name: guard(tmp_path, name) for name in PARTIES}


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
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], moment: str
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


def test_stopped_when_it_is_open_everybody_still_gets_the_release(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """The spend is made: what it was made for is handed out before the server goes."""
    opened = threading.Event()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if relay.role.opened:
                opened.set()
                if name == "town" and not sends(data, Step.CONFIRM):
                    # A slow line.
                    time.sleep(0.5)
            return relay.handle(name, data)

        return carry

    out = run(study, tmp_path, guards=guards, wire=wire, stop=opened.is_set, ends=True)
    assert set(out.releases) == set(PARTIES), out.errors
    assert out.told == "the release was opened"
    for name in PARTIES:
        assert kinds(guards, name) == [EntryKind.BOOKED, EntryKind.RELEASED]
