"""A session whose parties are processes of their own, as on machines of their own: CPU and wall time by workers.

    python benchmarks/parties_apart.py [--rows 80000] [--columns 800] [--workers 1 2] [--accountable] [--json]
    python benchmarks/parties_apart.py --workers 1 --accountable --repeat 5 --write

Two parties with half of the columns each, in a Parquet file whose digest a ledger asks for; requests pass over a
loopback socket to the relay. Parties sign with RSA keys of 2,048 bits, as certificates have them. Parties first use one
thread each, as they did before a site could name its workers, then as many as are asked for. With --accountable each
keeps evidence of all that it sends and of what came in, on disk. Repeated, runs with and without take turns.
"""

from __future__ import annotations

import argparse
import json
import resource
import secrets
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Client as Connect
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

NAMES = ("left", "right")


def study(rows: int, columns: int) -> Any:
    """The public terms."""
    from colonnade.foundation.schema import Numeric, Schema
    from colonnade.mechanism.objective import Task
    from colonnade.planning.agreement import Agreement

    half = columns // 2
    schema = Schema({name: {f"{name}{i}": Numeric(-1.0, 1.0) for i in range(half)} for name in NAMES})
    return Agreement.from_terms("apart", schema, "left.left0", Task.LINEAR, epsilon=1.0, delta=1 / rows, release="full")


class KeyPair:
    """Signs for one party, by a key of the kind that certificates have; who holds which key is known beforehand."""

    def __init__(self, name: str, keys: dict[str, bytes]) -> None:
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        self._keys: Any = {who: load_der_private_key(data, None) for who, data in keys.items()}
        self._name, self._form = name, (padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH), SHA256())

    def sign(self, statement: bytes) -> bytes:
        return bytes(self._keys[self._name].sign(statement, *self._form))

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        self._keys[peer].public_key().verify(proof, statement, *self._form)


def new_keys() -> dict[str, bytes]:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    form = Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    return {name: rsa.generate_private_key(65537, 2048).private_bytes(*form) for name in NAMES}


class Stopwatch:
    """CPU seconds inside of some functions, in whichever thread they run; one inside of another counts once."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, threading.local()

    def watch(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def watched(*args: Any, **named: Any) -> Any:
            outer, self._depth.inside = getattr(self._depth, "inside", False), True
            begun = time.thread_time()
            try:
                return real(*args, **named)
            finally:
                self._depth.inside = outer
                if not outer:
                    self.seconds += time.thread_time() - begun

        setattr(owner, name, watched)


def watch_accounts(watch: Stopwatch) -> None:
    """All that accountable sessions do besides, and all signatures and what they are about."""
    from colonnade.protocol import fit, party
    from colonnade.protocol.account import SessionAccount
    from colonnade.protocol.signatures import BodyDigest
    from colonnade.transport.evidence import EvidenceFolder

    for name in ("begin", "keep_sent", "keep_received", "note"):
        watch.watch(EvidenceFolder, name)
    for name in ("send", "receive", "bind", "digest", "note_signature", "compare_opened"):
        watch.watch(SessionAccount, name)
    watch.watch(fit, "columns_digest")
    watch.watch(party, "listed")
    # Others' submissions, which pass to every party to be added up.
    watch.watch(party.PartyRole, "_take_handed")
    watch.watch(fit.FitParty, "data_digest")
    watch.watch(BodyDigest, "__call__")
    for name in ("sign", "check"):
        watch.watch(KeyPair, name)


def write_data(folder: Path, rows: int, columns: int) -> None:
    import numpy as np
    import polars as pl

    for number, (name, own) in enumerate(study(rows, columns).schema.parties.items()):
        draw = np.random.default_rng(number)
        pl.DataFrame({column: draw.uniform(-1, 1, rows) for column in own}).write_parquet(folder / f"{name}.parquet")


def take_part(
    name: str, address: Any, key: bytes, rows: int, columns: int, count: int, folder: Path, keep: bool, keys: Any
) -> None:
    """One party's process."""
    from colonnade.consent.entries import DataSet
    from colonnade.data.table import read_table
    from colonnade.foundation.randomness import Randomness
    from colonnade.pool import open_workers
    from colonnade.protocol.account import SessionAccount
    from colonnade.protocol.fit import FitParty
    from colonnade.protocol.party import PartyRole
    from colonnade.protocol.tasks import Unguarded
    from colonnade.transport.client import Client
    from colonnade.transport.evidence import EvidenceFolder, read_key

    agreement = study(rows, columns)
    path = folder / f"{name}.parquet"
    data = DataSet.of_file(path)
    lock, line = threading.Lock(), Connect(address, authkey=key)

    def call(data: bytes) -> bytes:
        with lock:
            line.send_bytes(name.encode().ljust(16) + data)
            return line.recv_bytes()

    account = None
    if keep:
        own = folder / f"{name} {secrets.token_hex(4)}"
        own.mkdir()
        account = SessionAccount(EvidenceFolder(own / "evidence", read_key(own / "key", make=True), {"party": name}))
    watch = Stopwatch()
    watch_accounts(watch)
    with open_workers(count) as workers:
        read = partial(read_table, name, path, agreement.schema.parties[name], None, workers)
        task = FitParty(name, agreement, "none", read, Unguarded(), workers=workers)
        task.data = partial(bytes.fromhex, data.digest)
        role = PartyRole(task, Randomness(), KeyPair(name, keys), account=account)
        Client(role, call).run()
    (folder / f"{name}.seconds").write_text(str(watch.seconds))


def run(rows: int, columns: int, count: int, folder: Path, accountable: bool = False) -> dict[str, Any]:
    """One session on the files in a folder; the CPU seconds are those of all three processes."""
    from colonnade.foundation.randomness import Randomness
    from colonnade.protocol.fit import FitServer
    from colonnade.protocol.messages import Go, body_of
    from colonnade.protocol.server import ServerRole
    from colonnade.transport.relay import Relay

    role = ServerRole(FitServer(study(rows, columns), "none"), Randomness(), accountable=accountable)
    relay = Relay(role)
    key, keys = secrets.token_bytes(16), new_keys()
    rounds: set[str] = set()
    go = role.receive

    def receive(envelope: Any) -> Any:
        for answer in go(envelope):
            if answer.step == "go":
                rounds.add(body_of(answer, Go).round)
            yield answer

    role.receive = receive  # type: ignore[method-assign]
    start = {who: resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)}
    begun = time.perf_counter()
    with Listener(("127.0.0.1", 0), authkey=key) as listener:
        spawn = get_context("spawn")
        more = (key, rows, columns, count, folder, accountable, keys)
        parties = [spawn.Process(target=take_part, args=(n, listener.address, *more)) for n in NAMES]
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
        "cpu_seconds": round(spent, 2),
        "inside_seconds": round(sum(float((folder / f"{name}.seconds").read_text()) for name in NAMES), 3),
        "wall_seconds": round(wall, 1),
        "whole_seconds": round(time.perf_counter() - begun, 1),
        "bytes": sum(relay.traffic.sent.values()),
        "rounds": len(rounds),
    }


def page(options: argparse.Namespace, figures: list[dict[str, Any]]) -> str:
    """The medians as a Markdown table, and what accountability adds to them."""
    lines = [
        "# What accountable sessions cost\n\nWritten by `python benchmarks/parties_apart.py --workers "
        f"{' '.join(map(str, options.workers))} --accountable --repeat {options.repeat} --write`: two parties and\n"
        f"the server as processes, {options.rows:,} records, {options.columns:,} columns, signatures on in both. CPU\n"
        "seconds are those of all three processes, from their start to their end; runs with and without take turns.\n"
        "*Inside* are the seconds of them in signatures and in what accountable sessions do besides: on a machine\n"
        "that others use too, it is the steadier figure.\n",
        "| workers | accountable | CPU s, median | CPU s, all runs | inside, median | bytes sent | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    more = []
    for count in options.workers:
        medians = {}
        for kind in (False, True):
            own = [figure for figure in figures if figure["workers"] == count and figure["accountable"] is kind]
            seconds = sorted(figure["cpu_seconds"] for figure in own)
            inside = statistics.median(figure["inside_seconds"] for figure in own)
            medians[kind] = statistics.median(seconds), inside, own[0]["bytes"], own[0]["rounds"]
            told = ", ".join(f"{second:.2f}" for second in seconds)
            shown = f"{medians[kind][0]:.2f} | {told} | {inside:.2f} | {medians[kind][2]:,} | {medians[kind][3]}"
            lines.append(f"| {count} | {'yes' if kind else 'no'} | {shown} |")
        (before, less, few, rounds), (after, all_inside, many, all_rounds) = medians[False], medians[True]
        more.append(
            f"With {count} worker{'s' * (count > 1)} it adds {all_inside - less:.2f} CPU seconds inside, "
            f"{100 * (all_inside - less) / before:.1f}% of a session without it (the medians of the whole differ by "
            f"{100 * (after / before - 1):+.1f}%), {many - few:,} bytes ({100 * (many / few - 1):.4f}%) and "
            f"{all_rounds - rounds} rounds."
        )
    return "\n".join([*lines, "", *more, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--accountable", action="store_true", help="also with evidence")
    parser.add_argument("--repeat", type=int, default=1, help="so often each")
    parser.add_argument("--write", action="store_true", help="write the medians into docs/results/operations.md")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = (False, True) if options.accountable else (False,)
    figures = []
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name), options.rows, options.columns)
        for count in options.workers:
            for kind in kinds * options.repeat:
                figures.append(run(options.rows, options.columns, count, Path(name), kind))
    if options.write and options.accountable:
        publish("accountability", page(options, figures))
    if options.json:
        print(json.dumps(figures))
        return
    for figure in figures:
        print(", ".join(f"{name} {value}" for name, value in figure.items()))


if __name__ == "__main__":
    main()
