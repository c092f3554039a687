"""How a session ends for those who did not end it: which code, at whom, at which step."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from colonnade.transport.hub import Hub
from colonnade.transport.seat import decline
from colonnade.transport.study_digest import study_digest

from colonnade.foundation.errors import LedgerError, NoDataError, PolicyError, SiteError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import Code
from colonnade.study import Study
from colonnade.transport.journal import Journal
from colonnade.transport.wire import Hello, Leave, Pull, Push, Unreachable, decode_reply, decode_request, encode, ending
from tests.helpers.wires import PARTIES, QUICK, Wire, guard, run, write_study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


def test_a_study_that_differs_is_told_as_such(study: Study, tmp_path: Path) -> None:
    """Not as a rule of a policy: nobody's policy was asked."""
    other = replace(study, agreement=replace(study.agreement, epsilon=31.0))
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    out = run(study, tmp_path, guards=guards, studies={"town": other})
    assert "its study file states other terms than the server's; nothing is spent" in out.sentence("town")
    for name in ("works", "bank"):
        assert out.sentence(name).startswith("the session ended at town (plan-differs)"), out.sentence(name)


def test_nobody_in_common(study: Study, tmp_path: Path) -> None:
    lines = (tmp_path / "town.csv").read_text().replace("\np", "\nq")
    (tmp_path / "town.csv").write_text(lines)
    out = run(study, tmp_path)
    for name in PARTIES:
        told = out.sentence(name)
        assert told.startswith("the session ended (no-match): ids cannot be matched: none are common to all"), told
        assert "it was at step align" in told


def test_the_step_is_that_of_whoever_left(study: Study, tmp_path: Path) -> None:
    (tmp_path / "town.csv").write_text((tmp_path / "town.csv").read_text().replace(",yes", ",perhaps", 1))
    out = run(study, tmp_path)
    for name in ("works", "bank"):
        assert out.sentence(name).startswith("the session ended at town (data)"), out.sentence(name)
        assert "it was at step read;" in out.sentence(name)


def test_a_party_that_only_leaves_has_not_come(study: Study, tmp_path: Path) -> None:
    """The last to be heard says that it cannot begin: the others are asked for nothing any more."""
    sent: list[str] = []

    def wire(hub: Hub) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            if name == "town":
                while len(hub._members) < 2:
                    time.sleep(0.01)
                if "town" not in hub._members:
                    hub.handle(name, encode(Leave(bytes(16), Code.SITE, "wait")))
                raise Unreachable
            if isinstance(request, Push):
                sent.append(name)
            return hub.handle(name, data)

        return carry

    out = run(study, tmp_path, wire=wire, patience=replace(QUICK, join=1.0))
    assert out.sentence("works").startswith("the session ended at town (site)"), out.sentence("works")
    assert not sent


def test_a_step_that_nobody_knows_is_not_passed_on(study: Study, tmp_path: Path) -> None:
    hub = Hub(study.agreement, study.alignment, Randomness(), Journal(tmp_path / "sessions.jsonl"), QUICK)
    hub.handle("town", encode(Leave(bytes(16), Code.DATA, "patients.csv has 17 rows")))
    over = hub.run().over
    assert over is not None and (over.party, over.step) == ("town", "wait")
    assert "it was at step wait;" in ending(over)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StudyError("site.toml is not valid TOML"), Code.SITE),
        (NoDataError("there is no data file"), Code.SITE),
        (SiteError("the releases cannot be written"), Code.SITE),
        (PolicyError("simulation"), Code.POLICY),
        (LedgerError("damaged"), Code.BUDGET),
        (RuntimeError("x"), Code.INTERNAL),
    ],
)
def test_what_a_party_that_cannot_begin_tells(error: Exception, code: Code) -> None:
    heard: list[bytes] = []

    def call(data: bytes) -> bytes:
        heard.append(data)
        return data

    decline(call, error)
    (leave,) = (decode_request(data) for data in heard)
    assert isinstance(leave, Leave) and (leave.code, leave.step) == (code, "wait")


def test_nobody_aligns_while_one_still_reads(study: Study, tmp_path: Path) -> None:
    """Entered is not ready: a party that says hello and reads on may still refuse."""
    hub = Hub(study.agreement, study.alignment, Randomness(), Journal(tmp_path / "sessions.jsonl"), QUICK)
    terms = study_digest(study.agreement, study.alignment)
    thread = threading.Thread(target=hub.run)
    thread.start()
    for k, name in enumerate(PARTIES):
        hub.handle(name, encode(Hello(bytes([k]) * 16, terms, False, [])))
    for k, name in enumerate(PARTIES[:2]):
        reply = decode_reply(hub.handle(name, encode(Pull(bytes([k]) * 16, 0))))
        assert type(reply).__name__ == "Wait", reply
    assert hub.step == "wait"
    hub.handle("town", encode(Leave(bytes([2]) * 16, Code.BUDGET, "read")))
    thread.join(20)
    over = decode_reply(hub.handle("works", encode(Pull(bytes(16), 0))))
    assert ending(over).startswith("the session ended at town (budget)")  # type: ignore[arg-type]
