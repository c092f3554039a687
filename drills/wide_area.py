"""Sessions of the demo through a wide-area line that is made on loopback: seconds, rounds and bytes by round trip time.

python -m drills wide_area [--trips 0 25 50 100 200] [--mbit 100] [--loss 0] [--minutes 20] [--adult] [--write]

Every line to the server goes through a proxy that holds each piece back: for its turn at the bandwidth of its
direction, then for half a round trip. A lost packet holds back what follows it as TCP would: by a round trip inside of
a transfer, which repeats it at once, by 200 ms or two round trips behind a piece that ends one. What the engine takes
(asking for a job, its processes, fetching the release) is told apart from the session, which goes from a party's first
step to its end. `--adult` takes all 45,222 records of Adult with their 13 columns, a release of all tables, and draws
as many rows of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import polars as pl

from demo.network import ROOT, Deployment, free_port
from docs.sections import publish
from drills import MANY_SESSIONS
from experiments.data.adult import BINNED, read_adult

STUDY = ROOT / "tests" / "studies" / "income" / "study.toml"
PIECE, PACKET, WINDOW = 1 << 15, 1448, 128
STEPS = ("read", "align", "plan", "products", "submit", "open")


@dataclass(frozen=True)
class Network:
    """What lies between the sites."""

    trip: float
    """Seconds there and back."""
    bits: float
    """A second, in each direction of each connection; 0 for no limit."""
    loss: float
    """Share of packets."""

    def held(self, size: int) -> tuple[float, float]:
        """Seconds that a piece keeps its line busy, and seconds it stands still for what was lost."""
        lost = sum(random.random() < self.loss for _ in range(-(-size // PACKET)))
        wait = self.trip if size == PIECE else max(0.2, 2 * self.trip)
        return (size * 8 / self.bits if self.bits else 0.0), lost * wait


async def carry(network: Network, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[int]) -> None:
    """One direction of a connection, in order, with so many pieces under way as a window holds."""
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WINDOW)
    now = asyncio.get_running_loop().time

    async def take() -> None:
        free = 0.0
        while data := await reader.read(PIECE):
            busy, still = network.held(len(data))
            free = max(now(), free) + busy + still
            seen[0] += len(data)
            await under_way.put((free + network.trip / 2, data))
        await under_way.put((max(now(), free) + network.trip / 2, b""))

    async def give() -> None:
        while True:
            when, data = await under_way.get()
            await asyncio.sleep(max(0.0, when - now()))
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.create_task(take()), asyncio.create_task(give())]
    try:
        await asyncio.gather(*tasks)
    except (OSError, RuntimeError):
        writer.transport.abort()
    finally:
        for task in tasks:
            task.cancel()


async def serve(network: Network, listen: int, to: int) -> None:
    """The proxy, until it is told to end; then it prints how many bytes passed."""
    seen = [0]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(network.trip)
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", to)
            await asyncio.gather(carry(network, reader, outer, seen), carry(network, inner, writer, seen))
            outer.close()
        except OSError:
            pass
        writer.close()

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with await asyncio.start_server(connected, "127.0.0.1", listen):
        print("ready", flush=True)
        await ended.wait()
    print(seen[0], flush=True)
    os._exit(0)


def write_adult(folder: Path) -> Path:
    """The demo's three parties with all of Adult, each file in an order of its own, and numbers that have bins."""
    text = STUDY.read_text().replace("../../../demo/", "").replace("delta = 0\n", 'delta = 1e-6\npurpose = "all"\n')
    for name, column in BINNED.items():
        text = re.sub(rf"({name} = {{.*) }}", rf"\1, bins = {list(column['bins'])} }}", text)
    frame = read_adult().with_row_index("number").with_columns(person="p" + pl.col("number").cast(pl.String))
    for number, (party, terms) in enumerate(tomllib.loads(text)["party"].items()):
        own = frame.select("person", *terms["columns"]).sample(fraction=1.0, shuffle=True, seed=number)
        own.write_csv(folder / f"{party}.csv")
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


@dataclass(frozen=True)
class Measured:
    """One session."""

    run: float
    session: float
    steps: dict[str, float]
    passed: int
    counted: int
    """Bytes through the proxy while it ran, and those of the parties' own messages."""
    rows: float = 0.0
    """Seconds that drawing rows took behind it, where any were drawn."""


def inside(log: Path) -> tuple[float, dict[str, float]]:
    """Seconds of the last session at a site, and of each of its steps, by its log."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    job = next(line["job"] for line in reversed(lines) if line["event"] == "end")
    mine = [line for line in lines if line.get("job") == job]
    seen = [(line["step"], datetime.fromisoformat(line["time"]).timestamp()) for line in mine]
    took = dict.fromkeys(STEPS, 0.0)
    for (step, begun), (_, ended) in pairwise(seen):
        took[step] = took.get(step, 0.0) + ended - begun
    return seen[-1][1] - seen[0][1], took


def measure(network: Network, sessions: int, deadline: float, adult: bool = False) -> list[Measured]:
    """Sessions over one deployment, the first of which loads what later ones find loaded."""
    found: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="colonnade-wide-") as place,
        Deployment(write_adult(Path(place)) if adult else STUDY, Path(place) / "sites") as sites,
    ):
        data = Path(place) if adult else ROOT / "demo"
        config = json.loads((sites.folder / "server" / "startup" / "fed_server.json").read_text())
        port, entrance = int(config["servers"][0]["admin_port"]), free_port()
        for path in sites.folder.glob("*/startup/fed_*.json"):
            if path.name != "fed_server.json":
                path.write_text(path.read_text().replace(str(port), str(entrance)))
        options = [str(network.trip * 1000), str(network.bits / 1e6), str(network.loss), str(entrance), str(port)]
        command = [sys.executable, "-m", "drills.wide_area", "--proxy", *options]
        proxy = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=sites.environment | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        )
        assert proxy.stdout is not None and proxy.stdout.readline() == "ready\n"
        try:
            for party in sites.parties:
                sites.fill_in(party, data / f"{party}.csv", **MANY_SESSIONS)
            for name in ("server", *sites.parties):
                sites.start(name)
            while not all("connected to" in sites.said(party) for party in sites.parties):
                if time.monotonic() > deadline:
                    raise SystemExit("the parties did not connect in time")
                time.sleep(0.2)
            # Sites have what the next session needs loaded some seconds behind the last.
            for number in range(sessions):
                time.sleep(12)
                left = deadline - time.monotonic()
                if left < 30:
                    break
                begun = time.monotonic()
                done = sites.run(Path(place) / f"{number}.json", left, ["timeout", f"{left:.0f}"], ["--json"])
                took = time.monotonic() - begun
                if done.returncode:
                    raise SystemExit(f"a session failed: {done.stderr.strip()}")
                session, steps = inside(sites.folder / "employer" / "log.jsonl")
                counted = sum(sum(way.values()) for way in json.loads(done.stdout)["bytes"].values())
                begun = time.monotonic()
                if adult:
                    rows = ["--rows", "45222", "--out", f"{place}/{number}.csv"]
                    sites.command("synthesize", f"{place}/{number}.json", *rows)
                found.append(Measured(took, session, steps, 0, counted, time.monotonic() - begun))
        finally:
            proxy.send_signal(signal.SIGTERM)
            passed = int(proxy.communicate(timeout=20)[0] or 0)
    if not found:
        raise SystemExit("no session fitted into the time: --minutes gives more")
    return [replace(m, passed=passed // len(found)) for m in found]


def row(network: Network, found: list[Measured]) -> str:
    def middle(what: Callable[[Measured], float]) -> float:
        return statistics.median(map(what, found))

    line = f"{network.bits / 1e6:g} Mbit/s" + (f", {network.loss:.0%} loss" if network.loss else "")
    run, session = middle(lambda m: m.run), middle(lambda m: m.session)
    parts = " | ".join(f"{middle(lambda m, step=step: m.steps[step]):.1f}" for step in ("align", "products", "submit"))
    size = f"{found[-1].counted / 1e6:.1f} MB | {found[-1].passed / 1e6:.1f} MB"
    head = f"| {network.trip * 1000:g} ms | {line} | {len(found)}"
    return f"{head} | {run:.1f} s | {run - session:.1f} s | {session:.1f} s | {parts} | {size} |"


def slope(seen: list[tuple[float, float]]) -> str:
    """Round trips that a session waits for, from sessions over lines that differ in nothing else."""
    trips, seconds = zip(*seen, strict=True)
    if len(set(trips)) < 2:
        return ""
    rounds = statistics.linear_regression(trips, seconds).slope
    return f"\nA session waits for {rounds:.0f} round trips (the slope of its seconds over the round trip time).\n"


DEMO = """# Wide area

Written by `python -m drills wide_area --write`: the demo's session (14,146 common records, three parties, ids matched)
over the real engine, each line to the server through a proxy on loopback that makes round trips, bandwidth and loss.
"Session" is from a party's first step to its last, "engine" the rest of `colonnade run`: loading the command, asking
for the job, handing it out, fetching. Medians; the last two columns are bytes of the session's own messages, sent and
received at the server, and all that passed the proxy for each session, the sites' start included.
"""
ADULT = """# Wide area: all of Adult

Written by `python -m drills wide_area --adult --write`: all 45,222 records of Adult with 13 columns at three parties,
each file in an order of its own, ids matched, ledgers kept, numbers in bins, a release of all tables, as above.
"""
HEAD = """{what}
Load of the machine when it began, by `uptime`: {load}; processors: {cores}.
All sites share them, so that seconds are upper bounds where the load is above one for each processor.

| round trip | line | sessions | run | engine | session | align | products | submit | messages | passed |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trips", type=float, nargs="*", default=[0, 25, 50, 100, 200], help="round trips, in ms")
    parser.add_argument("--mbit", type=float, nargs="*", default=[100], help="bandwidths of a direction")
    parser.add_argument("--loss", type=float, nargs="*", default=[0.0], help="shares of packets")
    parser.add_argument("--sessions", type=int, default=2, help="of each kind of line")
    parser.add_argument("--minutes", type=float, default=6, help="for each kind of line, at most")
    parser.add_argument("--adult", action="store_true", help="all of Adult, and rows drawn from its release")
    parser.add_argument("--write", action="store_true", help="write its section of docs/results/speed.md")
    options = parser.parse_args()
    text = HEAD.format(
        what=ADULT if options.adult else DEMO,
        load=", ".join(f"{each:.1f}" for each in os.getloadavg()),
        cores=os.cpu_count(),
    )
    print(text, end="", flush=True)
    seen: list[tuple[float, float]] = []
    drawn = ""
    for loss in options.loss:
        for mbit in options.mbit:
            for trip in options.trips:
                network = Network(trip / 1000, mbit * 1e6, loss)
                found = measure(network, options.sessions, time.monotonic() + 60 * options.minutes, options.adult)
                seen += [(network.trip, m.session) for m in found]
                text += (told := row(network, found)) + "\n"
                print(told, flush=True)
                if options.adult:
                    whole = [f"{m.run:.0f} + {m.rows:.0f} s" for m in found]
                    drawn = f"From `colonnade run` to the release, and then to 45,222 rows: {', '.join(whole)}.\n"
                    print(drawn)
    text += f"\n{drawn}" if options.adult else ""
    if len(options.mbit) == len(options.loss) == 1:
        text += slope(seen)
    if options.write:
        publish("wide_adult" if options.adult else "wide_area", text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--proxy"]:
        trip_ms, megabits, share, entrance_port, port_behind = map(float, sys.argv[2:])
        line_between = Network(trip_ms / 1000, megabits * 1e6, share)
        with suppress(KeyboardInterrupt):
            asyncio.run(serve(line_between, int(entrance_port), int(port_behind)))
    else:
        main()
