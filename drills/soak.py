"""Many sessions over the real engine, with what happens in a year: `python -m drills.soak --sessions 100`.

A server and three parties run as processes with mutual TLS on loopback. On the way sites are restarted, a certificate
is renewed, another revoked and replaced, a disk fills up, clocks are wrong, the server's port is held by connections
that say nothing, the server stands still, a session's process is killed. In the end ledgers, the server's book, logs
for machines, the figures for Prometheus and what the coordinator saw must tell the same, and memory must be flat.
`--write` puts the figures into docs/results/operations.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.flare.status import look
from colonnade.sites.site import STATUS
from colonnade.transport.journal import OPENED, FileJournal
from demo.network import COMMAND, Deployment, free_port
from docs.sections import publish
from drills import MANY_SESSIONS
from tests.helpers.wires import PARTIES, write_study

MOST_GROWTH = 64 << 20
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int r = real(id, t);
  if (id == CLOCK_REALTIME) t->tv_sec += AHEAD;
  return r;
}
time_t time(time_t *t) { struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec; }
int gettimeofday(struct timeval *t, void *z) {
  struct timespec s; clock_gettime(CLOCK_REALTIME, &s); t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return 0;
}
"""


@dataclass
class Soak:
    """The deployment, and what was seen of it."""

    sites: Deployment
    place: Path
    ports: dict[str, int]
    opened: int = 0
    refused: int = 0
    seconds: list[float] = field(default_factory=list)
    memory: dict[str, list[list[int]]] = field(default_factory=dict)
    """Of each process of a site, after each session."""
    counted: Counter[str] = field(default_factory=Counter)
    """Sessions that ended well, by the figures of processes that are gone."""
    happened: list[str] = field(default_factory=list)

    def figures(self, name: str) -> dict[str, float]:
        address = f"http://127.0.0.1:{self.ports[name]}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}

    def run(self, expected: bool = True, wait: float = 120.0) -> str:
        """One session; what was said, and whether it went as it should."""
        begun = time.monotonic()
        done = self.sites.run(self.place / "release.json", wait, more=["--force"])
        said = (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or [""])[-1]
        if (done.returncode == 0) != expected:
            raise SystemExit(f"session {self.opened + self.refused + 1}: {said}\n{self.told()}")
        if expected:
            self.opened += 1
            self.seconds.append(time.monotonic() - begun)
        else:
            self.refused += 1
        time.sleep(1.0)
        for name in self.ports:
            if self.sites.sites[name].poll() is None:
                self.memory[name][-1].append(int(self.figures(name)["process_resident_memory_bytes"]))
        return said

    def told(self) -> str:
        return "\n".join(f"{name}: {self.sites.said(name)[-2000:]}" for name in self.sites.sites)

    def stop(self, name: str) -> None:
        """As an administrator stops a site; its figures are noted first, for they end with it."""
        self.counted[name] += int(self.figures(name)['colonnade_sessions_total{outcome="opened"}'])
        self.sites.sites[name].terminate()
        self.sites.sites[name].wait(30)

    def start(self, name: str) -> None:
        self.memory.setdefault(name, []).append([])
        self.sites.start(name)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.figures(name)
                return
            except OSError:
                if time.monotonic() > deadline or self.sites.sites[name].poll() is not None:
                    raise SystemExit(f"{name} did not start: {self.sites.said(name)[-2000:]}") from None
                time.sleep(0.3)

    def note(self, what: str, said: str = "") -> None:
        clean = re.sub(r"\s+", " ", said).removeprefix("error: ")
        self.happened.append(f"{what}: {clean}" if clean else what)
        print(f"after {self.opened} sessions: {self.happened[-1]}", flush=True)

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)
        self.note(f"{name} was restarted")

    def folder(self, name: str) -> str:
        return str(self.sites.folder / name)

    def renew(self, name: str) -> None:
        """By three commands, while everything runs."""
        asked, signed = str(self.place / f"{name}.csr"), str(self.place / f"{name}.crt")
        self.sites.command("cert", "request", self.folder(name), "--out", asked)
        self.sites.command("cert", "approve", self.folder("authority"), asked, "--out", signed)
        self.sites.command("cert", "install", self.folder(name), signed)

    def renew_one(self) -> None:
        self.renew("bank")
        self.run()
        self.restart("bank")
        self.note("bank's certificate was renewed while it ran, then it was restarted with the new one")

    def revoke_one(self) -> None:
        """Nobody lets it in any more; with a new certificate the party is back."""
        stolen, listed = str(Path(self.folder("town")) / "startup" / "client.crt"), str(self.place / "revoked.crl")
        self.sites.command("cert", "revoke", self.folder("authority"), stolen, "--out", listed, "--reason", "a drill")
        for name in ("server", *PARTIES):
            self.sites.command("cert", "install", self.folder(name), listed)
        said = self.run(expected=False, wait=30.0)
        self.note("town's certificate was revoked, and a session with it refused", said)
        # The doctor names it, and town cannot start with it.
        told = self.doctor("town")
        assert "was revoked on" in told, told
        self.renew("town")
        self.restart("town")
        self.run()
        self.note("town has a new certificate and takes part again")

    def doctor(self, name: str) -> str:
        call = [*COMMAND, "doctor", self.folder(name), "--json"]
        return subprocess.run(call, env=self.sites.environment, capture_output=True, text=True).stdout

    def fill_disk(self) -> None:
        filler = Path(self.folder("bank")) / "book" / "filler"
        before = len(Ledger(filler.with_name("ledger.sqlite")).entries())
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"0" * 4096):
                pass
        said = self.run(expected=False)
        filler.unlink()
        assert len(Ledger(filler.with_name("ledger.sqlite")).entries()) == before
        self.note("the disk of bank's ledger was full: refused, and nothing was booked", said)
        self.run()

    def bend_clock(self) -> None:
        """A clock 800 days ahead, and one 400 days behind: the party says why it does not start."""
        self.stop("bank")
        source = self.place / "clock.c"
        source.write_text(CLOCK)
        for seconds, told in ((800 * 86400, "800 days ahead"), (-400 * 86400, "400 days behind")):
            shim = self.place / f"clock{seconds}.so"
            compiler = ["cc", "-shared", "-fPIC", f"-DAHEAD=({seconds}L)", "-o", shim, source, "-ldl"]
            subprocess.run(compiler, check=True)
            env = {**self.sites.environment, "LD_PRELOAD": str(shim)}
            call = [*COMMAND, "party", "start", self.folder("bank")]
            done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 1, done.stderr
            self.note(f"bank was started with a clock {told}", done.stderr.strip().splitlines()[-1])
        self.start("bank")
        self.run()

    def hold_lines(self) -> None:
        """Connections to the server's port that never say a byte: sessions go on."""
        config = json.loads((self.sites.folder / "server" / "startup" / "fed_server.json").read_text())
        port = int(config["servers"][0]["admin_port"])
        lines = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(100)]
        self.run()
        self.run()
        for line in lines:
            line.close()
        self.note("100 connections held the server's port without a byte: two sessions ended well")

    def halt_server(self) -> None:
        """The server stands still: a party is not ready any more within 30 seconds, and lives."""
        server = self.sites.sites["server"]
        assert self.asked("town", "ready") == 200
        os.killpg(server.pid, signal.SIGSTOP)
        begun = time.monotonic()
        while self.asked("town", "ready") == 200:
            assert time.monotonic() - begun < 30, "a party without a server was ready for 30 seconds"
            time.sleep(0.5)
        seconds = time.monotonic() - begun
        alive = self.asked("town", "live")
        os.killpg(server.pid, signal.SIGCONT)
        assert alive == 200
        while self.asked("town", "ready") != 200:
            assert time.monotonic() - begun < 120, "a party was not ready again within two minutes"
            time.sleep(0.5)
        self.note(f"the server stood still: town was not ready after {seconds:.0f} s, alive all the time, ready again")
        self.run()

    def asked(self, name: str, what: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/{what}", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def kill_job(self) -> None:
        """kill -9 of a party's process of a session before it has handed anything in: the session ends, at no cost."""
        path, killed = Path(self.folder("town")) / STATUS, list[str]()
        before = look(path).get("job")

        def strike() -> None:
            for _ in range(6000):
                content = look(path)
                if content.get("job") != before and content.get("step") in ("read", "align"):
                    os.kill(int(content["pid"]), signal.SIGKILL)
                    killed.append(content["step"])
                    return
                time.sleep(0.01)

        thread = threading.Thread(target=strike)
        thread.start()
        said = self.run(expected=False)
        thread.join()
        self.note(f"town's process of a session was killed at step {killed[0]}", said)
        self.run()

    def check(self) -> dict[str, str]:
        """Ledgers, the server's book, logs, figures and the coordinator tell the same."""
        journal = FileJournal(self.sites.folder / "server" / "sessions.jsonl")
        rows = {}
        for name in PARTIES:
            path = next(self.sites.folder.joinpath(name).rglob("ledger.sqlite"))
            book = Ledger(path)
            book.verify()
            last = {entry.booking.session: entry.kind for entry in book.entries()}
            released = {session for session, kind in last.items() if kind is EntryKind.RELEASED}
            outcomes = journal.outcomes(last)
            assert released == {s for s, outcome in outcomes.items() if outcome == OPENED}, name
            assert not [s for s, kind in last.items() if kind is EntryKind.BOOKED], f"{name} waits for a settlement"
            kept = len(list((self.sites.folder / name / "releases").glob("*.json")))
            rows[name] = (len(released), kept, self.logged(name), self.counted_at(name))
        events = [json.loads(line) for line in journal.path.read_text().splitlines()]
        booked = len({entry["session"] for entry in events if entry["event"] == OPENED})
        kept = len(list((self.sites.folder / "server" / "releases").glob("*.json")))
        rows["server"] = (booked, kept, self.logged("server"), self.counted_at("server"))
        for name, row in rows.items():
            assert set(row) == {self.opened}, f"{name}: {row}, the coordinator saw {self.opened}"
        return {name: ", ".join(map(str, row)) for name, row in rows.items()}

    def logged(self, name: str) -> int:
        lines = (self.sites.folder / name / "log.jsonl").read_text().splitlines()
        return sum(1 for line in map(json.loads, lines) if line["event"] == "end" and line["ok"])

    def counted_at(self, name: str) -> int:
        return self.counted[name] + int(self.figures(name)['colonnade_sessions_total{outcome="opened"}'])

    def growth(self, name: str) -> tuple[int, int, int]:
        """Sessions and memory of a site's process that lasted longest: behind its third session, and in the end."""
        seen = max(self.memory[name], key=len)
        early = seen[min(2, len(seen) - 1)]
        assert seen[-1] - early < MOST_GROWTH, f"{name} grew from {early} to {seen[-1]} bytes in {len(seen)} sessions"
        return len(seen), early, seen[-1]


def prepare(place: Path) -> tuple[Soak, bool]:
    write_study(place)
    sites = Deployment(place / "study.toml", place / "sites")
    ports = {name: free_port() for name in ("server", *PARTIES)}
    book = sites.folder / "bank" / "book"
    book.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", book], capture_output=True).returncode
    for name, port in ports.items():
        if name in PARTIES:
            sites.fill_in(name, place / f"{name}.csv", smallest_rows="2", **MANY_SESSIONS)
        site = sites.folder / name / "site.toml"
        text = site.read_text().replace("[site]\n", f'[site]\nmetrics = "{port}"\nsilence = 20\n', 1)
        if name == "bank":
            text = text.replace('ledger = "ledger.sqlite"', 'ledger = "book/ledger.sqlite"')
        site.write_text(text)
    return Soak(sites, place, ports), mounted == 0


def soak(sessions: int, minutes: float, place: Path) -> tuple[Soak, dict[str, str], float]:
    """Sessions until there were enough, or the time is over; events are spread over them."""
    begun = time.monotonic()
    run, mounted = prepare(place)
    try:
        with run.sites:
            for name in run.ports:
                run.start(name)
            server, town = (partial(run.restart, name) for name in ("server", "town"))
            due: list[tuple[int, Callable[[], None]]] = [(10, run.renew_one), (20, run.hold_lines), (25, run.kill_job)]
            due += [(30, run.revoke_one), (35, run.halt_server), (50, server), (60, run.bend_clock), (70, town)]
            due += [(80, server), *([(40, run.fill_disk)] if mounted else [])]
            due.sort(key=lambda event: event[0])
            if not mounted:
                run.note("no disk was filled: this machine forbids mounting a small one")
            while run.opened < sessions and time.monotonic() - begun < 60 * minutes:
                run.run()
                done = max(run.opened / sessions, (time.monotonic() - begun) / (60 * minutes))
                while due and due[0][0] <= 100 * done:
                    due.pop(0)[1]()
            return run, run.check(), time.monotonic() - begun
    finally:
        subprocess.run(["umount", place / "sites" / "bank" / "book"], capture_output=True)


def page(run: Soak, rows: dict[str, str], asked: int, seconds: float) -> str:
    spent = sorted(run.seconds)
    growth = {name: run.growth(name) for name in run.ports}
    lines = [
        "# Soak",
        "",
        "Written by `make soak`: sessions of three parties over the real engine (mutual TLS on loopback), with",
        "restarts, renewed and revoked certificates, a full disk, wrong clocks, connections that hold the port, a",
        "server that stands still and a process of a session that is killed.",
        "",
        "| | |",
        "|---|---|",
        f"| sessions asked for | {asked} |",
        f"| sessions opened | {run.opened} |",
        f"| sessions that had to be refused, and were | {run.refused} |",
        f"| whole run | {seconds / 60:.1f} minutes |",
        f"| load of the machine at the end, and its processors | {os.getloadavg()[0]:.0f}, {os.cpu_count()} |",
        f"| one session, median and longest | {spent[len(spent) // 2]:.1f} s, {spent[-1]:.1f} s |",
        *(
            f"| memory of {name}, {count} sessions in one process: third and last | {early >> 20} MB, {late >> 20} MB |"
            for name, (count, early, late) in growth.items()
        ),
        "",
        "## What happened",
        "",
        *(f"- {what.partition('; it was at step')[0]}" for what in run.happened),
        "",
        "## What was compared",
        "",
        "Sessions by the coordinator, each ledger (at the server: its own book), the releases kept, `log.jsonl`, and",
        "the figures for Prometheus, summed over restarts. All are the same number; no booking waits to be settled.",
        "",
        "| site | ledger, releases, log, figures |",
        "|---|---|",
        *(f"| {name} | {told} |" for name, told in rows.items()),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=110.0, help="no session begins later than this")
    parser.add_argument("--write", action="store_true", help="write its section of docs/results/operations.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="colonnade-soak-") as folder:
        run, rows, seconds = soak(options.sessions, options.minutes, Path(folder))
    text = page(run, rows, options.sessions, seconds)
    if options.write:
        publish("soak", text)
    sys.stdout.write(text)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
