"""A party that was stopped books nothing: sessions over an in-memory wire, real signals, no engine."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil", reason="the extra flare is not installed")

from colonnade.cli.deployment import _sayer, _teller
from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.flare.launch import KEPT_JOBS, follow
from colonnade.flare.party_job import WatchedGuard, watched
from colonnade.flare.process import RUNNING, ParentWatch, alone, stands, write_starter
from colonnade.flare.status import Spend, StatusFile, last_word, look
from colonnade.foundation.errors import PolicyError, StoppedError
from colonnade.protocol.codes import Code, code_of
from colonnade.protocol.fit import FIT
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.predict import PREDICT
from colonnade.transport.relay import Relay
from tests.helpers.wires import PARTIES, Run, Wire, guard, message_in, run, write_study


def stop_at(tmp_path: Path, when: Callable[[Envelope], bool]) -> tuple[Run, StatusFile, WatchedGuard]:
    """A session whose bank is stopped once it has sent such a message."""
    study = write_study(tmp_path)
    write_starter(tmp_path, str(os.getppid()))
    status = StatusFile(tmp_path / "status.json", "job", FIT)
    parents: list[ParentWatch] = []
    made: list[WatchedGuard] = []

    def guards(name: str) -> ConsentGuard | PolicyGuard:
        if name != "bank":
            return guard(tmp_path, name)
        # In the thread of the party's own session.
        parents.append(ParentWatch(tmp_path))
        mine = watched(guard(tmp_path, name), parents[0], status)
        assert isinstance(mine, WatchedGuard)
        made.append(mine)
        return mine

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "bank":
                parents[0].require()
            answer = relay.handle(name, data)
            message = message_in(data)
            if name == "bank" and message is not None and when(message):
                write_starter(tmp_path, "")
            return answer

        return carry

    return run(study, tmp_path, guards=guards, wire=wire), status, made[0]


def is_step(step: Step, planned: bool = False) -> Callable[[Envelope], bool]:
    """Of the product's rounds, if `planned`: the alignment's have no plan yet."""
    return lambda message: message.step is step and bool(message.plan) >= planned


@pytest.mark.parametrize(
    "when",
    [is_step(Step.READY), is_step(Step.PARCEL), is_step(Step.JOIN), is_step(Step.ACCEPT), is_step(Step.DONE, True)],
)
def test_stopped_before_the_booking_nothing_is_spent(tmp_path: Path, when: Callable[[Envelope], bool]) -> None:
    out, status, mine = stop_at(tmp_path, when)
    assert not out.releases and isinstance(out.errors["bank"], StoppedError)
    for other in ("works", "town"):
        assert out.sentence(other).startswith("the session ended at bank (stopped)")
        assert "nothing is spent" in out.sentence(other)
    assert not [entry for entry in mine.ledger.entries() if entry.kind is EntryKind.BOOKED]
    assert status.spend is None
    assert out.sentence("bank") + out.closings["bank"] == "this party was stopped; nothing is spent"


def test_stopped_after_the_booking_it_may_finish(tmp_path: Path) -> None:
    out, status, mine = stop_at(tmp_path, is_step(Step.SUBMIT))
    assert set(out.releases) == set(PARTIES)
    kinds = [entry.kind for entry in mine.ledger.entries()]
    assert kinds[-2:] == [EntryKind.BOOKED, EntryKind.RELEASED]
    assert status.spend is not None and status.spend.state == "released"
    assert status.session == out.releases["bank"].provenance["session"]
    assert status.spend.total == pytest.approx(status.spend.epsilon)


def test_starter_must_be_the_one_that_serves(tmp_path: Path) -> None:
    assert not stands(tmp_path)
    write_starter(tmp_path, str(os.getppid()))
    assert stands(tmp_path)
    write_starter(tmp_path, str(os.getpid()))
    assert not stands(tmp_path)
    assert code_of(StoppedError("x")) is Code.STOPPED


def test_second_process_leaves_the_first_ones_number(tmp_path: Path) -> None:
    with alone(tmp_path):
        with pytest.raises(PolicyError, match="is being served by another process already"), alone(tmp_path):
            pass
        assert (tmp_path / RUNNING).read_text() == str(os.getpid())


SITE = """
import signal, subprocess, sys, threading, time
from pathlib import Path
from colonnade.flare import process
from colonnade.flare.status import replace_status
folder = Path(sys.argv[1])
process.GRACE_SECONDS = 0.3
# Tests that run in the background inherit signals that are ignored, and these would stay so.
for number in process.SIGNALS:
    signal.signal(number, signal.SIG_DFL)
with process.alone(folder):
    job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    if sys.argv[2] == "busy":
        replace_status(folder / "status.json", {"job": "j", "pid": job.pid, "step": "submit", "what": "a release"})
    threading.Thread(target=time.sleep, args=(60,)).start()
    process.StopSignals(folder, lambda text: print(text, flush=True)).listen()
    print(job.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "busy"),
    [(signal.SIGINT, "idle"), (signal.SIGTERM, "busy"), (signal.SIGHUP, "idle")],
)
def test_signal_ends_the_site_and_its_jobs(tmp_path: Path, number: signal.Signals, busy: str) -> None:
    site = subprocess.Popen([sys.executable, "-c", SITE, str(tmp_path), busy], stdout=subprocess.PIPE, text=True)
    assert site.stdout is not None
    job = int(site.stdout.readline())
    site.send_signal(number)
    said, _ = site.communicate(timeout=20)
    assert site.returncode == 128 + number
    assert said.strip() == ("stopping; a session is under way" if busy == "busy" else "stopping")
    with pytest.raises(ProcessLookupError):
        os.kill(job, 0)
    assert (tmp_path / RUNNING).read_text() == ""


@pytest.mark.parametrize(
    ("role", "step", "meaning"),
    [
        ("party", "align", "nothing had been booked, and nothing is spent"),
        ("party", "submit", "what is booked counts as spent; once more than `collusion` other parties"),
        ("server", "open", "the next session tells parties whether it counts"),
    ],
)
def test_dead_job_is_given_a_last_word(tmp_path: Path, role: str, step: str, meaning: str) -> None:
    job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    path = tmp_path / "status.json"
    path.write_text(json.dumps({"job": "j", "pid": job.pid, "step": step, "what": "a release", "done": False}))
    told: list[dict[str, Any]] = []
    quiet = threading.Event()
    follower = threading.Thread(target=follow, args=(path, told.append, quiet, role))
    follower.start()
    try:
        time.sleep(0.3)
        assert len(told) == 1 and not told[0]["done"]
        job.kill()
        deadline = time.monotonic() + 10
        while len(told) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        quiet.set()
        follower.join()
        job.wait()
    assert told[1]["done"]
    assert told[1]["sentence"].startswith(f"the session's process ended at step {step}; {meaning}")
    assert look(path) == told[1] and len(told) == 2


def test_a_session_that_begins_as_another_ends_is_told(tmp_path: Path) -> None:
    """What is written while the last word is still being told."""
    path, quiet, told = tmp_path / "status.json", threading.Event(), list[dict[str, Any]]()

    def tell(content: dict[str, Any]) -> None:
        told.append(content)
        if content["done"]:
            path.write_text(json.dumps({"job": "second", "pid": os.getpid(), "step": "read", "done": False}))

    path.write_text(json.dumps({"job": "first", "pid": os.getpid(), "step": "open", "done": True}))
    follower = threading.Thread(target=follow, args=(path, tell, quiet, "server"))
    follower.start()
    deadline = time.monotonic() + 10
    while len(told) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    quiet.set()
    follower.join()
    assert [content["job"] for content in told] == ["first", "second"]


def test_a_terminal_that_is_gone_keeps_no_site_from_its_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a party that was started in a window, or behind a pipe, that has been closed."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        _sayer("bank")("connected")
        _teller("bank")({"job": "j", "step": "open", "done": True, "ok": True, "sentence": "the release was opened"})
        with pytest.raises(BrokenPipeError):
            terminal.write("it is gone\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)


def test_old_jobs_go_when_a_session_has_ended(tmp_path: Path) -> None:
    """A site that is never restarted keeps no more of them."""
    for number in range(KEPT_JOBS + 5):
        (tmp_path / f"0c40d202-3c07-4370-b918-{number:012x}").mkdir()
    quiet, told = threading.Event(), list[dict[str, Any]]()
    (tmp_path / "status.json").write_text(json.dumps({"job": "j", "pid": os.getpid(), "step": "open", "done": True}))
    follower = threading.Thread(target=follow, args=(tmp_path / "status.json", told.append, quiet, "server"))
    follower.start()
    deadline = time.monotonic() + 10
    while len(list(tmp_path.iterdir())) > KEPT_JOBS + 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    quiet.set()
    follower.join()
    assert told and len(list(tmp_path.iterdir())) == KEPT_JOBS + 1


def test_what_the_engine_leaves_in_cycles_is_let_go(tmp_path: Path) -> None:
    """Python alone lets hundreds of megabytes of passed messages wait: there are few of them, and each is large."""

    class Passed:
        def __init__(self) -> None:
            self.cycle = self

    status, quiet, told = StatusFile(tmp_path / "status.json", "job", FIT), threading.Event(), list[dict[str, Any]]()
    gc.disable()
    follower = threading.Thread(target=follow, args=(status.path, told.append, quiet, "server"))
    follower.start()
    try:
        left = weakref.ref(Passed())
        assert left() is not None
        status.end("the release was opened", True)
        deadline = time.monotonic() + 10
        while left() is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left() is None and told[-1]["done"]
    finally:
        quiet.set()
        follower.join()
        gc.enable()


def test_prediction_that_died_is_for_its_receiver_to_tell(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "status.json", "job", kind=PREDICT)
    status("open", 0.5)
    closed = last_word(look(status.path), "party")
    assert closed["sentence"].endswith("the receiver of the scores can say whether it has them")


def test_terminal_names_the_session_and_the_spend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board, tell = StatusFile(tmp_path / "status.json", "0c40d202-3c07", FIT), _teller("bank")
    board("align", 0.0)
    tell(look(board.path))
    board.session = "4447d2490ec027b0" * 4
    board("products", 0.0)
    tell(look(board.path))
    board.session = "9254183f88aa01c2" * 4
    board.note(Spend("booked", 0.52, 0.0, 0.52, 2.0))
    tell(look(board.path))
    board.settle("released")
    board.end("the release was opened", True)
    tell(look(board.path))
    assert capsys.readouterr().err.splitlines() == [
        "bank: job 0c40d202: matching ids in private",
        "bank: job 0c40d202 is session 4447d2490ec027b0",
        "bank: session 4447d2490ec027b0: multiplying sealed columns",
        "bank: job 0c40d202 is session 9254183f88aa01c2",
        "bank: session 9254183f88aa01c2: done: the release was opened",
        "bank: session 9254183f88aa01c2: spent epsilon=0.52; 0.52 of 2 is spent",
    ]
