"""CPU seconds of a private id alignment, all parties and the server together, beside the time of one X25519 call.

The machine's speed moves with whatever else it does: compare cpu_seconds with x25519_seconds of the same run. Loading
(and on a machine's first use compiling) numba's loops is in load_seconds and not in cpu_seconds.

python benchmarks/alignment.py --ids 100000 --parties 2 --kernels numpy --json
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from colonnade.crypto.alignment.kernels import AlignmentKernels, best_kernels
from colonnade.foundation.randomness import Randomness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.helpers.matching import align_in_process

CALLS = 2000
KERNELS = ("best", "numpy", "numba")


def x25519_seconds() -> float:
    """CPU of one call, as an alignment's base transfers make it."""
    own, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    start = time.process_time()
    for _ in range(CALLS):
        own.exchange(other)
    return (time.process_time() - start) / CALLS


def kernels_of(name: str, ids: int) -> AlignmentKernels:
    if name == "numba":
        from colonnade.crypto.alignment.compiled_kernels import CompiledAlignmentKernels

        return CompiledAlignmentKernels()
    return AlignmentKernels() if name == "numpy" else best_kernels(ids)


def lists_of(ids: int, parties: int) -> dict[str, list[str]]:
    """Half of the ids are common to all."""
    common = ids // 2
    return {
        f"party{k}": [f"id-{i}" for i in range(common)] + [f"id-{k}-{i}" for i in range(ids - common)]
        for k in range(parties)
    }


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(ids: int, parties: int, name: str, post_quantum: bool) -> dict[str, object]:
    start = time.process_time()
    kernels = kernels_of(name, ids)
    align_in_process(lists_of(100, 2), Randomness(), kernels=kernels)
    loaded = time.process_time() - start
    lists, sent = lists_of(ids, parties), [0]

    def meter(round: str, recipient: str, size: int) -> None:
        sent[0] += size

    before, held = x25519_seconds(), peak_mb()
    start, wall = time.process_time(), time.perf_counter()
    rows = align_in_process(lists, Randomness(), kernels=kernels, post_quantum=post_quantum, meter=meter)
    spent, wall = time.process_time() - start, time.perf_counter() - wall
    call, peak = (before + x25519_seconds()) / 2, peak_mb()
    start = time.process_time()
    common = set.intersection(*map(set, lists.values()))
    clear = time.process_time() - start
    found = [[lists[party][row] for row in rows[party]] for party in lists]
    if any(one != found[0] for one in found) or set(found[0]) != common:
        raise SystemExit("the alignment is not the intersection")
    return {
        "ids": ids,
        "parties": parties,
        "kernels": type(kernels).__name__.removesuffix("AlignmentKernels").lower() or "numpy",
        "post_quantum": post_quantum,
        "common": len(found[0]),
        "cpu_seconds": round(spent, 3),
        "wall_seconds": round(wall, 2),
        "load_seconds": round(loaded, 2),
        "x25519_seconds": round(call, 8),
        "calls": round(spent / call),
        "megabytes": round(sent[0] / 1e6, 1),
        "clear_seconds": round(clear, 3),
        "peak_mb": round(peak),
        "beyond_ids_mb_a_party": round((peak - held) / parties),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000, help="at each party; half of them are common to all")
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--kernels", choices=KERNELS, default="best", help="best: what a session would use")
    parser.add_argument("--post-quantum", action="store_true", help="base transfers over ML-KEM-768 as well")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measured(arguments.ids, arguments.parties, arguments.kernels, arguments.post_quantum)
    if arguments.json:
        print(json.dumps(figures))
        return
    for key, value in figures.items():
        print(f"{key:24}{value}")


if __name__ == "__main__":
    main()
