"""kill -9 of the server and of each party, at every request: ledgers stay consistent, and a restart costs nothing.

Server and parties are real processes on a Unix socket with ledgers on disk; the victim kills itself at its n-th
request, before it is sent or after its answer came. Then a clean session runs, and the books are compared with what
was opened.
`python -m drills.chaos` tries every request of every process; `--every 5` each fifth.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Client as Line
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Step
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.study import StudySpec
from colonnade.transport.client import Client
from colonnade.transport.journal import OPENED, FileJournal
from colonnade.transport.relay import Relay
from colonnade.transport.wire import Poll, Send, Timeouts, Unreachable, decode_request
from tests.helpers.wires import PARTIES, guard, message_in, party_task, sends, write_study

PATIENCE = Timeouts(join=15.0, silence=1.0, beat=0.1, poll=0.2, farewell=2.0)
CALM = Timeouts(join=60.0, silence=30.0, beat=0.1, poll=0.2, farewell=5.0)
"""Of the clean session: a busy machine must not look like a dead one."""
PEOPLE = 24
SERVER = "server"
BEFORE, AFTER = "before", "after"
RELEASED, ENDED = 0, 3


@dataclass
class Fuse:
    """Kills its own process at the n-th request, or at the n-th that brings a message of a step."""

    number: int | None
    moment: str
    step: Step | None = None
    calm: bool = False
    lit: int = 0

    def pass_by(self, data: bytes, moment: str) -> None:
        request = decode_request(data)
        if self.number is None or not isinstance(request, (Send, Poll)):
            return
        if self.step is not None and not sends(data, self.step):
            return
        self.lit += moment == BEFORE
        if self.lit == self.number and moment == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)


def serve(folder: Path, study: StudySpec, fuse: Fuse) -> int:
    patience = CALM if fuse.calm else PATIENCE
    journal, task = FileJournal(folder / "sessions.jsonl"), FitServer(study.agreement, study.alignment)
    relay = Relay(ServerRole(task, Randomness(), journal), patience)
    listener = Listener(str(folder / "socket"), backlog=16)
    guard = threading.Lock()

    def talk(connection: Connection) -> None:
        while True:
            try:
                name, data = connection.recv()
            except (EOFError, OSError):
                return
            with guard:
                note_submission(folder, name, data)
                fuse.pass_by(data, BEFORE)
            answer = relay.handle(name, data)
            with guard:
                fuse.pass_by(data, AFTER)
            try:
                connection.send_bytes(answer)
            except OSError:
                return

    def accept() -> None:
        while True:
            threading.Thread(target=talk, args=(listener.accept(),), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with journal.alone():
        relay.run()
    return ENDED if relay.role.failed else RELEASED


def note_submission(folder: Path, name: str, data: bytes) -> None:
    """Whatever of a submission reaches the server's machine is on record."""
    message = message_in(data)
    if message is not None and message.step is Step.SUBMIT:
        with (folder / "submissions").open("a") as file:
            file.write(f"{message.session.hex()} {name}\n")


def take_part(folder: Path, study: StudySpec, name: str, fuse: Fuse) -> int:
    local = threading.local()

    def call(data: bytes) -> bytes:
        fuse.pass_by(data, BEFORE)
        try:
            if getattr(local, "wire", None) is None:
                local.wire = Line(str(folder / "socket"))
            local.wire.send((name, data))
            if not local.wire.poll(10.0 if fuse.calm else 2.0):
                raise EOFError
            answer: bytes = local.wire.recv_bytes()
        except (OSError, EOFError):
            local.wire = None
            raise Unreachable from None
        fuse.pass_by(data, AFTER)
        return answer

    role = PartyRole(party_task(study, name, guard(folder, name, total=1e6)), Randomness())
    try:
        Client(role, call, CALM if fuse.calm else PATIENCE).run()
    except ColonnadeError as error:
        (folder / f"{name}.said").write_text(str(error))
        return ENDED
    return RELEASED


def start(work: Callable[[], int]) -> int:
    """A process of its own; its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os._exit(work())
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(99)


def session(
    folder: Path,
    study: StudySpec,
    victim: str = "",
    number: int | None = None,
    moment: str = BEFORE,
    step: Step | None = None,
) -> dict[str, int]:
    """One session of four processes; how each ended: a code, or minus the signal."""
    (folder / "socket").unlink(missing_ok=True)

    def fuse(name: str) -> Fuse:
        return Fuse(number if name == victim else None, moment, step, calm=not victim)

    pids = {SERVER: start(lambda: serve(folder, study, fuse(SERVER)))}
    for _ in range(200):
        if (folder / "socket").exists():
            break
        time.sleep(0.01)
    for name in PARTIES:
        pids[name] = start(lambda name=name: take_part(folder, study, name, fuse(name)))  # type: ignore[misc]
    return {name: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for name, pid in pids.items()}


def check(folder: Path, settled: bool) -> int:
    """The books against what the server opened; how many sessions count."""
    journal = [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines() if line]
    outcomes = FileJournal(folder / "sessions.jsonl").outcomes({entry["session"] for entry in journal})
    counted = {name for name, outcome in outcomes.items() if outcome == OPENED}
    submitted = {tuple(line.split()) for line in _lines(folder / "submissions")}
    for name in PARTIES:
        ledger = Ledger(folder / f"{name}.ledger")
        if not ledger.path.exists():
            assert not counted
            continue
        ledger.verify()
        last: dict[str, EntryKind] = {}
        for entry in ledger.entries():
            last[entry.booking.session] = entry.kind
        missing = [s for s, party in submitted if party == name and s not in last]
        assert not missing, f"{name} submitted to {missing} without a booking"
        assert counted <= set(last), f"{name} has not booked {counted - set(last)}"
        free = {s for s, kind in last.items() if kind is EntryKind.VOID}
        assert not free & counted, f"{name} calls a session void that was opened"
        if settled:
            cost = {s for s, kind in last.items() if kind is not EntryKind.VOID}
            assert cost == counted, f"{name} counts {len(cost)} sessions, {len(counted)} were opened"
    return len(counted)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def strike(victim: str, number: int, moment: str, step: Step | None = None) -> tuple[bool, int]:
    """Kill once, restart, compare; whether the fuse blew, and how many sessions counted before the restart."""
    with tempfile.TemporaryDirectory(prefix="colonnade-chaos-") as place:
        folder = Path(place)
        study = write_study(folder, PEOPLE)
        ends = session(folder, study, victim, number, moment, step)
        assert all(code in (RELEASED, ENDED, -signal.SIGKILL) for code in ends.values()), ends
        before = check(folder, settled=False)
        again = session(folder, study)
        assert set(again.values()) == {RELEASED}, (again, _lines(folder / "bank.said"))
        assert check(folder, settled=True) == before + 1
        return ends[victim] == -signal.SIGKILL, before


def points(victim: str, every: int) -> Iterator[tuple[int, str]]:
    number = 1
    while True:
        for moment in (BEFORE, AFTER):
            yield number, moment
        number += every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--victim", choices=[SERVER, *PARTIES], action="append")
    parser.add_argument("--at", type=int, help="one kill only, at this request")
    parser.add_argument("--moment", choices=[BEFORE, AFTER], default=BEFORE)
    parser.add_argument("--step", type=Step, help="count requests with a message of this step")
    options = parser.parse_args()
    if options.at is not None:
        print(json.dumps(strike(options.victim[0], options.at, options.moment, options.step)))
        return
    for victim in options.victim or [SERVER, *PARTIES]:
        killed = opened_before = missed = 0
        for number, moment in points(victim, options.every):
            struck, before = strike(victim, number, moment)
            killed, opened_before = killed + struck, opened_before + (before if struck else 0)
            # How often a waiting party asks depends on the clock, so that one miss is not the end.
            missed = 0 if struck else missed + 1
            if missed == 4:
                break
        print(
            f"{victim}: killed {killed} times, up to its request {number}; ledgers consistent, restarts free; "
            f"{opened_before} of these sessions had all submissions and count",
            flush=True,
        )


if __name__ == "__main__":
    main()
