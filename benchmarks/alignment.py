"""CPU seconds of a private id alignment, all parties and the server together, and of the bare X25519 calls in it.

Without workers the calls are timed where they happen; with workers a sample of them, before and after.

python benchmarks/alignment.py --ids 100000 --parties 2 --workers 2
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor

from colonnade.crypto.alignment import align_in_process, curve, party
from colonnade.crypto.alignment.curve import hash_and_raise, raise_points
from colonnade.foundation.randomness import Randomness


def cpu_seconds() -> float:
    """User and system time of this process and of the children it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def seconds_a_point(randomness: Randomness) -> float:
    """CPU of one X25519 call; taken before and after, since it moves with whatever else the machine does."""
    points = hash_and_raise(randomness.bytes(32), [str(i).encode() for i in range(8192)], b"benchmark")
    start = cpu_seconds()
    raise_points(randomness.bytes(32), points)
    return (cpu_seconds() - start) / 8192


def timed_calls() -> list[float]:
    """From now on, the CPU seconds of every batch of X25519 calls of this process."""
    seconds: list[float] = []

    def timed(scalar: bytes, points: bytes) -> bytes:
        start = time.process_time()
        out = raise_points(scalar, points)
        seconds.append(time.process_time() - start)
        return out

    curve.raise_points = party.raise_points = timed  # type: ignore[attr-defined]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000, help="at each party; half of them are common to all")
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 stays in this one")
    arguments = parser.parse_args()

    randomness = Randomness()
    before = seconds_a_point(randomness)
    common = arguments.ids // 2
    ids = {
        f"party{k}": [f"id-{i}" for i in range(common)] + [f"id-{k}-{i}" for i in range(arguments.ids - common)]
        for k in range(arguments.parties)
    }
    start, wall = cpu_seconds(), time.perf_counter()
    if arguments.workers:
        with ProcessPoolExecutor(arguments.workers) as executor:
            rows = align_in_process(ids, randomness, executor)
    else:
        calls = timed_calls()
        rows = align_in_process(ids, randomness)
    spent, wall = cpu_seconds() - start, time.perf_counter() - wall
    raised = arguments.ids * arguments.parties * (arguments.parties + (arguments.parties > 2))
    per_point = (before + seconds_a_point(randomness)) / 2 if arguments.workers else sum(calls) / raised
    figures = {
        "ids": arguments.ids,
        "parties": arguments.parties,
        "workers": arguments.workers,
        "common": len(rows["party0"]),
        "cpu_s": round(spent, 2),
        "wall_s": round(wall, 2),
        "points_raised": raised,
        "x25519_us": round(per_point * 1e6, 1),
        "x25519_s": round(raised * per_point, 2),
        "ratio": round(spent / (raised * per_point), 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
