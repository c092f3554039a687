"""A party that is killed with SIGKILL: either no commitment has left, or its seed and evidence can be read."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from multiprocessing.connection import Listener
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pytest

from colonnade.audit.session import AuditOutcome, audit_session
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.coins import COMMIT, Commitment, Opening
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Envelope, ParcelBody, Step, body_of
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.transport.client import Client
from colonnade.transport.evidence import RECORD, SECRETS, TRAFFIC, EvidenceFolder, KeptEvidence, read_key
from colonnade.transport.relay import Relay
from colonnade.transport.wire import Send, Timeouts, decode_request
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import AGREEMENT, NAMES, PLANS
from tests.helpers.party_process import task_of
from tests.protocol.test_session_audit import KEY, fit_session

VICTIM = NAMES[0]
PATIENT = Timeouts(join=90.0, silence=30.0, beat=0.2, poll=0.2, farewell=0.5)
RoundLog = list[Envelope]
When = Callable[[Path, RoundLog], bool]


def lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (folder / "evidence").glob(f"*/{RECORD}"))


def steps(heard: RoundLog) -> set[str]:
    return {f"parcel {body_of(e, ParcelBody).round}" if e.step is Step.PARCEL else e.step.value for e in heard}


INSTANTS: dict[str, When] = {
    "there is a folder": lambda folder, heard: any((folder / "evidence").glob("*")),
    "there are secrets": lambda folder, heard: any((folder / "evidence").glob(f"*/{SECRETS}")),
    "the record begins": lambda folder, heard: lines(folder) > 0,
    "its commitment is heard": lambda folder, heard: f"parcel {COMMIT}" in steps(heard),
    "the product is under way": lambda folder, heard: lines(folder) > 30,
    "its submission is heard": lambda folder, heard: "submit" in steps(heard),
}


def kill_when(when: When, folder: Path) -> RoundLog:
    """A session of three, one of them a process that is killed; what was heard of it."""
    agreement = replace(AGREEMENT, product="lattice")
    relay = Relay(ServerRole(FitServer(agreement, "none", PLANS), Randomness(), accountable=True), PATIENT)
    heard: RoundLog = []
    key = secrets.token_bytes(16)
    with Listener(("127.0.0.1", 0), authkey=key) as listener:
        host, port = listener.address
        command = [sys.executable, "-m", "tests.helpers.party_process", host, str(port), key.hex(), VICTIM, str(folder)]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)

        def kill() -> None:
            while process.poll() is None and not when(folder, heard):
                time.sleep(0.0005)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)

        def serve() -> None:
            line = listener.accept()
            try:
                while True:
                    data = line.recv_bytes()
                    request: Any = decode_request(data)
                    if isinstance(request, Send):
                        heard.append(Envelope.decode(request.item))
                        # What is heard is what has left; who is to die now gets no answer.
                        while when(folder, heard) and process.poll() is None:
                            time.sleep(0.0005)
                    line.send_bytes(relay.handle(VICTIM, data))
            except (EOFError, OSError):
                return

        def other(name: str) -> None:
            account = SessionAccount(Remembered())
            role = PartyRole(task_of(name), Randomness(), SharedSigner(name), account=account)
            try:
                Client(role, lambda data: relay.handle(name, data), PATIENT).run()
            except ColonnadeError:
                return

        threads = [threading.Thread(target=kill), threading.Thread(target=serve, daemon=True)]
        # As an engine tells of a dead process.
        threads += [threading.Thread(target=relay.run, args=(lambda: process.poll() is not None,))]
        threads += [threading.Thread(target=other, args=(name,)) for name in NAMES if name != VICTIM]
        for thread in threads:
            thread.start()
        try:
            assert process.wait(120) == -signal.SIGKILL, "the process ended before it was killed"
        finally:
            process.kill()
        for thread in threads:
            thread.join(30)
    return heard


@pytest.mark.parametrize("instant", INSTANTS)
def test_killed_at_any_instant_it_can_be_audited_or_has_committed_to_nothing(instant: str, tmp_path: Path) -> None:
    heard = kill_when(INSTANTS[instant], tmp_path)
    made = [body_of(e, ParcelBody) for e in heard if e.step is Step.PARCEL]
    committed = [parcel for parcel in made if parcel.round == COMMIT]
    assert bool(committed) == (instant in list(INSTANTS)[3:]) or instant == "the record begins"
    if not committed:
        return
    (place,) = (tmp_path / "evidence").iterdir()
    kept, task = KeptEvidence.read(place), task_of(VICTIM)
    opening = kept.opening(read_key(tmp_path / "evidence.key"))
    told = msgspec.msgpack.decode(committed[0].payload, type=Commitment)
    assert opening.commit(bytes.fromhex(kept.facts["session"]), VICTIM, b"", b"", "").seed == told.seed
    found = audit_session(kept, opening, task)
    assert found.outcome is AuditOutcome.FOLLOWED and found.replayed >= len(heard) - 2


class Watched:
    """A file of evidence; after each write to disk it is told how long both files are."""

    def __init__(self, file: IO[Any], look: Callable[[], None]) -> None:
        self._file, self._look = file, look

    def flush(self) -> None:
        self._file.flush()
        self._look()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_killed_between_any_two_writes_it_can_be_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state in which a kill can leave record and traffic, halves of lines and of messages among them."""
    states: list[tuple[int, int]] = []
    begin = EvidenceFolder.begin

    def watched(folder: EvidenceFolder, session: bytes, opening: Opening) -> None:
        begin(folder, session, opening)
        assert folder._record is not None and folder._traffic is not None
        files: tuple[IO[Any], IO[Any]] = folder._record, folder._traffic

        def look() -> None:
            record, traffic = (os.fstat(file.fileno()).st_size for file in files)
            states.append((record, traffic))

        if folder._facts["party"] == VICTIM:
            folder._record, folder._traffic = (cast(Any, Watched(file, look)) for file in files)

    monkeypatch.setattr(EvidenceFolder, "begin", watched)
    whole = fit_session(tmp_path / "whole")[VICTIM]
    between = [((a + c) // 2, (b + d) // 2) for (a, b), (c, d) in pairwise(states)]
    assert len(states) > 60 and len({b for _, b in states}) > 20
    for number, lengths in enumerate((*states, *between)):
        place = Path(shutil.copytree(whole.place, tmp_path / str(number)))
        for name, length in zip((RECORD, TRAFFIC), lengths, strict=True):
            os.truncate(place / name, length)
        kept = KeptEvidence.read(place)
        found = audit_session(kept, kept.opening(KEY), task_of(VICTIM), checker=SharedSigner("auditor"))
        assert (found.outcome, found.missing) == (AuditOutcome.FOLLOWED, 0), (lengths, found.sentence)
        assert found.replayed == len(kept.of("sent"))
        shutil.rmtree(place)


def test_names_of_evidence_are_on_disk_before_a_commitment_can_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that loses power keeps what was synced alone, and a file that has lost its name cannot be opened."""
    synced: list[tuple[str, set[str]]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced.append((path.name, {file.name for file in path.iterdir()} if path.is_dir() else set()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    root, first, second = tmp_path / "evidence", bytes(32), bytes(31) + b"\1"
    folder = EvidenceFolder(root, KEY, {"party": VICTIM})
    folder.begin(first, Opening(b"s" * 32, b"c" * 32, b"t" * 32))
    assert any(name == first.hex() and {SECRETS, RECORD, TRAFFIC} <= inside for name, inside in synced)
    assert ("evidence", {first.hex()}) in synced and synced[-1][0] == RECORD
    folder.rename(second)
    assert ("evidence", {second.hex()}) in synced
    folder.close()
