"""A session whose parties are processes of their own, as on machines of their own: CPU and wall time by workers.

    python benchmarks/parties_apart.py [--rows 80000] [--columns 800] [--workers 1 2] [--accountable] [--json]

Two parties with half of the columns each; requests pass over a loopback socket to the relay. Parties first use one
thread each, as they did before a site could name its workers, then as many as are asked for. With --accountable each
keeps evidence of all that it sends and of what came in, on disk; there are no certificates here, and no signatures.
"""

from __future__ import annotations

import argparse
import json
import resource
import secrets
import tempfile
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Client as Connect
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

NAMES = ("left", "right")


def study(rows: int, columns: int) -> Any:
    """The public terms."""
    from colonnade.foundation.schema import Numeric, Schema
    from colonnade.mechanism.objective import Task
    from colonnade.protocol.agreement import Agreement

    half = columns // 2
    schema = Schema({name: {f"{name}{i}": Numeric(-1.0, 1.0) for i in range(half)} for name in NAMES})
    return Agreement("apart", schema, "left.left0", Task.LINEAR, epsilon=1.0, delta=1 / rows, release="full")


def take_part(name: str, address: Any, key: bytes, rows: int, columns: int, count: int, place: str) -> None:
    """One party's process."""
    import numpy as np
    import polars as pl

    from colonnade.data.table import table_from
    from colonnade.foundation.randomness import Randomness
    from colonnade.protocol.account import SessionAccount
    from colonnade.protocol.fit import FitParty
    from colonnade.protocol.guard import Unguarded
    from colonnade.protocol.party import PartyRole
    from colonnade.sites.evidence import EvidenceFolder, new_key
    from colonnade.transport.client import Client
    from colonnade.workers import open_workers

    agreement = study(rows, columns)
    draw = np.random.default_rng(NAMES.index(name))
    frame = pl.DataFrame({column: draw.uniform(-1, 1, rows) for column in agreement.schema.parties[name]})
    table = table_from(name, frame, agreement.schema.parties[name])
    lock, line = threading.Lock(), Connect(address, authkey=key)

    def call(data: bytes) -> bytes:
        with lock:
            line.send_bytes(name.encode().ljust(16) + data)
            return line.recv_bytes()

    account = None
    if place:
        folder = Path(place) / name
        folder.mkdir()
        account = SessionAccount(EvidenceFolder(folder / "evidence", new_key(folder / "key"), {"party": name}))
    with open_workers(count) as workers:
        task = FitParty(name, agreement, "none", lambda: table, Unguarded(), workers=workers)
        role = PartyRole(task, Randomness(), account=account)
        Client(role, call).run()


def run(rows: int, columns: int, count: int, accountable: bool = False) -> dict[str, Any]:
    """One session; the CPU seconds are those of all three processes."""
    from colonnade.foundation.randomness import Randomness
    from colonnade.protocol.fit import FitServer
    from colonnade.protocol.server import ServerRole
    from colonnade.transport.relay import Relay

    role = ServerRole(FitServer(study(rows, columns), "none"), Randomness(), accountable=accountable)
    relay = Relay(role)
    key = secrets.token_bytes(16)
    start = {who: resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)}
    begun = time.perf_counter()
    with Listener(("127.0.0.1", 0), authkey=key) as listener, tempfile.TemporaryDirectory() as folder:
        place = folder if accountable else ""
        spawn = get_context("spawn")
        parties = [
            spawn.Process(target=take_part, args=(n, listener.address, key, rows, columns, count, place)) for n in NAMES
        ]
        for party in parties:
            party.start()

        def serve(line: Any) -> None:
            try:
                while True:
                    asked = line.recv_bytes()
                    line.send_bytes(relay.handle(asked[:16].decode().strip(), asked[16:]))
            except (EOFError, OSError):
                return

        for _ in parties:
            threading.Thread(target=serve, args=(listener.accept(),), daemon=True).start()
        joined = time.perf_counter()
        relay.run()
        wall = time.perf_counter() - joined
        for party in parties:
            party.join()
    spent = 0.0
    for who, before in start.items():
        after = resource.getrusage(who)
        spent += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "workers": count,
        "accountable": accountable,
        "cpu_seconds": round(spent, 1),
        "wall_seconds": round(wall, 1),
        "whole_seconds": round(time.perf_counter() - begun, 1),
        "megabytes": round(sum(relay.traffic.sent.values()) / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--accountable", action="store_true", help="also with evidence")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = (False, True) if options.accountable else (False,)
    figures = [run(options.rows, options.columns, count, kind) for count in options.workers for kind in kinds]
    if options.json:
        print(json.dumps(figures))
        return
    for figure in figures:
        print(", ".join(f"{name} {value}" for name, value in figure.items()))


if __name__ == "__main__":
    main()
