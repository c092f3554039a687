"""kill -9 of real FLARE processes at each step of a session, then a restart: `python -m drills.strikes`.

Every site has two processes, the one that was started and the job that it started. The victim is killed when its board
says that it has come to a step, or told to end ("stop", SIGTERM); then whatever died is started again, a clean session
runs, and the ledgers are read. The sites and their ledgers go on through all of it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.flare.status import look
from colonnade.transport.journal import OPENED, FileJournal
from demo.network import ROOT, Deployment
from drills import MANY_SESSIONS

STEPS = ("align", "plan", "products", "submit")
VICTIMS = ("bank job", "bank", "bank stop", "server job", "server", "server stop")
EARLY = ("align", "plan")
"""Steps at which a party has booked nothing."""
PARTIES = ("employer", "registry", "bank")


def kill_at(sites: Deployment, victim: str, step: str, stop: threading.Event, struck: list[str]) -> None:
    """Watch the victim's board and kill, by its number, the process that the victim is."""
    name, _, job = victim.partition(" ")
    board = sites.folder / name / "status.json"
    while not stop.is_set():
        content = look(board)
        if content.get("step") == step and not content.get("done"):
            pid = int(content["pid"]) if job == "job" else sites.sites[name].pid
            os.kill(pid, signal.SIGTERM if job == "stop" else signal.SIGKILL)
            struck.append(f"{victim} at {step}")
            return
        time.sleep(0.002)


def books(sites: Deployment) -> dict[str, dict[str, EntryKind]]:
    """What each party's ledger says of each session."""
    out: dict[str, dict[str, EntryKind]] = {}
    for party in PARTIES:
        ledger = Ledger(sites.folder / party / "ledger.sqlite")
        if ledger.path.exists():
            ledger.verify()
        out[party] = {entry.booking.session: entry.kind for entry in ledger.entries()}
    return out


def opened(sites: Deployment, books: dict[str, dict[str, EntryKind]]) -> set[str]:
    known = {session for book in books.values() for session in book}
    outcomes = FileJournal(sites.folder / "server" / "sessions.jsonl").outcomes(known)
    return {session for session, outcome in outcomes.items() if outcome == OPENED}


def strike(sites: Deployment, victim: str, step: str, place: Path) -> str:
    """One session with a kill, one without; what was said."""
    before = len(opened(sites, books(sites)))
    stop, struck = threading.Event(), list[str]()
    watcher = threading.Thread(target=kill_at, args=(sites, victim, step, stop, struck))
    watcher.start()
    start = time.monotonic()
    try:
        done = sites.run(place / "first.json")
    finally:
        stop.set()
        watcher.join()
    seconds = time.monotonic() - start
    said = (done.stderr.strip().splitlines() or ["the release was opened"])[-1]
    first = books(sites)
    if struck and victim in ("bank", "bank stop") and step in EARLY:
        assert len(opened(sites, first)) == before, "a party that was stopped before it booked took part to the end"
    for party in PARTIES:
        void = {s for s, kind in first[party].items() if kind is EntryKind.VOID}
        assert not void & opened(sites, first), f"{party} calls an opened session void"
    for name in ("server", *PARTIES):
        if sites.sites[name].poll() is not None:
            sites.start(name)
    again = sites.run(place / "second.json")
    assert again.returncode == 0, again.stderr
    last = books(sites)
    counted = opened(sites, last)
    for party in PARTIES:
        cost = {s for s, kind in last[party].items() if kind is not EntryKind.VOID}
        assert cost == counted, f"{party} counts {cost}, opened were {counted}"
    what = "killed" if struck else "not killed, the step was too short to see"
    return f"{what}: {said} ({seconds:.0f} s); it costs {len(counted) - before - 1}, the session after it 1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--victim", choices=VICTIMS, action="append")
    parser.add_argument("--step", choices=STEPS, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="colonnade-strikes-") as folder:
        place = Path(folder)
        with Deployment(ROOT / "tests" / "studies" / "income" / "study.toml", place / "sites") as sites:
            for party in PARTIES:
                sites.fill_in(party, ROOT / "demo" / f"{party}.csv", **MANY_SESSIONS)
            for name in ("server", *PARTIES):
                with (sites.folder / name / "site.toml").open("a") as file:
                    file.write("silence = 8\n")
                sites.start(name)
            for victim in options.victim or VICTIMS:
                for step in options.step or STEPS:
                    try:
                        said = strike(sites, victim, step, place)
                    except subprocess.SubprocessError as error:
                        raise SystemExit(f"{victim}, {step}: {error}") from None
                    print(f"{victim}, {step}: {said}", flush=True)
                    for release in place.glob("*.json"):
                        release.unlink()


if __name__ == "__main__":
    main()
