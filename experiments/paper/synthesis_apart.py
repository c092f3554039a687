"""From three parties' columns to rows: each party a process of its own, requests over loopback, the lattice product."""

from __future__ import annotations

import json
import resource
import secrets
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Client as Connect
from multiprocessing.connection import Connection, Listener
from typing import Any

from colonnade.analysis.draws import seeded
from colonnade.analysis.released import Released
from colonnade.analysis.synthesis import draw_levels, fit_release
from colonnade.analysis.tables import Tables
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Purpose
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.client import Client
from colonnade.transport.relay import Relay
from experiments.paper.protocol import Terms
from experiments.paper.synthesis import replicate
from experiments.paper.synthesis_rows import KEPT

PARTIES = 3


def terms_of(data: str) -> Terms:
    return Terms(1.0, 1 / replicate(data).n, PARTIES, 1, "lattice", purpose=Purpose.ALL)


def take_part(name: str, data: str, address: Any, key: bytes) -> None:
    """One party's process."""
    rows, lock, line = replicate(data), threading.Lock(), Connect(address, authkey=key)
    table = rows.tables(PARTIES)[name]

    def call(asked: bytes) -> bytes:
        with lock:
            line.send_bytes(name.encode().ljust(16) + asked)
            return line.recv_bytes()

    task = FitParty(name, rows.agreement(terms_of(data)), "none", lambda: table, Unguarded())
    Client(PartyRole(task, Randomness()), call).run()


def whole_run(data: str) -> dict[str, object]:
    """One session, the model's fit and the rows: seconds of each step, and what travelled."""
    rows = replicate(data)
    server = FitServer(rows.agreement(terms_of(data)), "none")
    relay, key = Relay(ServerRole(server, Randomness())), secrets.token_bytes(16)
    before = _cpu()
    with Listener(("127.0.0.1", 0), authkey=key) as listener:
        spawn = get_context("spawn")
        names = list(rows.tables(PARTIES))
        parties = [spawn.Process(target=take_part, args=(name, data, listener.address, key)) for name in names]
        for party in parties:
            party.start()
        for _ in parties:
            threading.Thread(target=_serve, args=(relay, listener.accept()), daemon=True).start()
        joined = time.perf_counter()
        relay.run()
        session = time.perf_counter() - joined
        for party in parties:
            party.join()
    cpu, start, used = _cpu() - before, time.perf_counter(), time.process_time()
    assert server.release is not None
    released = Released(server.release)
    draw_levels(fit_release(Tables.of(released)), released.n, seeded(0, "rows"))
    return {
        "data": data,
        "records": rows.n,
        "session, s": session,
        "CPU of all parties and the server, s": cpu,
        "MB sent": sum(relay.traffic.sent.values()) / 1e6,
        "fit and draw, s": time.perf_counter() - start,
        "CPU s": time.process_time() - used,
    }


def kept_run(data: str) -> dict[str, object]:
    """The same, once: a line of an earlier run is used again."""
    place = KEPT / f"apart-{data}.json"
    if not place.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(whole_run(data)), encoding="utf-8")
    line: dict[str, object] = json.loads(place.read_text(encoding="utf-8"))
    return line


def _serve(relay: Relay, line: Connection) -> None:
    try:
        while True:
            asked = line.recv_bytes()
            line.send_bytes(relay.handle(asked[:16].decode().strip(), asked[16:]))
    except (EOFError, OSError):
        return


def _cpu() -> float:
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)
