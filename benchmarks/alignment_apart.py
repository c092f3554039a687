"""Peak memory of each side of an alignment, every party in a process of its own; this process relays, as a server does.

python benchmarks/alignment_apart.py --ids 10000000 --parties 2
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection, wait
from typing import Any

from colonnade.crypto.alignment.kernels import best_kernels
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER
from colonnade.foundation.randomness import Randomness

SESSION = bytes(32)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def take_part(names: tuple[str, ...], me: int, count: int, line: Connection) -> None:
    """One party: sends its parcels of a round, then takes what comes until the round is over."""
    common = count // 2
    ids = [f"id-{i}" for i in range(common)] + [f"id-{me}-{i}" for i in range(count - common)]
    kernels = best_kernels(count)
    held, start = peak_mb(), time.process_time()
    party = AlignmentParty(SESSION, names, me, ids, Randomness(), kernels=kernels)
    for round in party.rounds:
        for parcel in party.send(round):
            line.send((parcel.recipient, parcel.payload))
        line.send(None)
        while (came := line.recv()) is not None:
            party.receive(round, *came)
    assert len(party.rows()) == common
    line.send((round_mb(held), round_mb(0), time.process_time() - start))


def round_mb(less: float) -> int:
    return round(peak_mb() - less)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000, help="at each party; half of them are common to all")
    parser.add_argument("--parties", type=int, default=2)
    arguments = parser.parse_args()
    names = tuple(f"party{k}" for k in range(arguments.parties))
    spawn = multiprocessing.get_context("spawn")
    lines: dict[str, Connection] = {}
    for k, name in enumerate(names):
        lines[name], theirs = spawn.Pipe()
        spawn.Process(target=take_part, args=(names, k, arguments.ids, theirs), daemon=True).start()
        theirs.close()
    server, of = AlignmentServer(SESSION, names), {id(line): name for name, line in lines.items()}
    for stage in server.rounds:
        sending = set(names)
        while sending:
            for line in wait([lines[name] for name in sending]):
                assert isinstance(line, Connection)
                sender, item = of[id(line)], line.recv()
                if item is None:
                    sending.discard(sender)
                elif item[0] == SERVER:
                    server.receive(stage, sender, item[1])
                else:
                    lines[item[0]].send((sender, item[1]))
        for parcel in server.send(stage):
            lines[parcel.recipient].send((SERVER, parcel.payload))
        for line in lines.values():
            line.send(None)
    figures: dict[str, Any] = {"ids": arguments.ids, "parties": arguments.parties, "relay_peak_mb": round_mb(0)}
    for k, (name, line) in enumerate(lines.items()):
        beyond, peak, seconds = line.recv()
        role = "partner" if k else "hub"
        figures[name] = {"role": role, "beyond_ids_mb": beyond, "peak_mb": peak, "cpu_seconds": round(seconds, 2)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
