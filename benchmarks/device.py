"""Wall seconds of the lattice product on the processor and on a graphics card, and whether all bits agree.

    python benchmarks/device.py [--case N,D,K]... [--threads T] [--json FILE]
    python benchmarks/device.py --page

All sides run in this process; a step's time is that of all parties together, transfers included. Without a card only
the processor is measured. Every parcel and every share of the two runs is compared by its digest.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from columns import resident
from product import Case

from colonnade.crypto.lattice.device import DeviceParty, require_cuda
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
CASES = ["80000,800,2", "1000000,200,2", "1000000,20,2", "370000,14,2"]


HEAD = (
    "Written by `python benchmarks/device.py --page` from `device.json`: wall seconds on one NVIDIA H200 (CuPy 14.2, "
    "CUDA 13.0) and the processor beside it (16 cores of an Intel Xeon, numpy 2.5, without numba), all parties in one "
    "process, transfers to and from the card included; the best of three runs after a first one. With threads a step's "
    "work overlaps with the next step's, so that single steps are not comparable, only their sum."
)


def bound(d: int) -> int:
    """The largest entry, as a plan would choose it for so many columns."""
    return 7 if d > 100 else 127


def run(case: Case, party: type[LatticeParty], workers: Workers) -> tuple[dict[str, float], str]:
    """Seconds by step, and a digest of all that was sent and opened."""
    spec, digest, seconds = case.spec, sha256(), {"seal": 0.0, "receive": 0.0, "multiply": 0.0, "contribute": 0.0}
    none = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
    start = last = perf_counter()

    def lap(step: str) -> None:
        nonlocal last
        now = perf_counter()
        seconds[step] += now - last
        last = now

    sides = [
        party(spec, k, resident(columns), none, Randomness(b"device %d" % k)) for k, columns in enumerate(case.data)
    ]
    for side in sides:
        side.workers = workers
    for round in LatticeParty.rounds:
        for name, side in zip(spec.parties, sides, strict=True):
            for parcel in side.send(round):
                lap(round)
                digest.update(sha256(parcel.payload).digest())
                last = perf_counter()
                sides[spec.parties.index(parcel.recipient)].receive(round, name, parcel.payload)
                lap("receive" if round == "seal" else round)
            lap(round)
    shares = [side.contribute().vector for side in sides]
    lap("contribute")
    opened = LatticeServer(spec).open(np.sum(shares, axis=0, dtype=np.uint64), [])
    for share in (*shares, opened):
        digest.update(share.tobytes())
    return {**seconds, "all": sum(seconds.values()), "wall": perf_counter() - start}, digest.hexdigest()


def measure(text: str, threads: int, card: bool, again: int) -> dict[str, Any]:
    n, d, parties = map(int, text.split(","))
    case = Case.make(n, d, parties, bound(d), "lattice")
    found: dict[str, Any] = {"n": n, "d": d, "parties": parties, "modulus_bits": case.spec.modulus_bits}
    digests = set()
    with ThreadPoolExecutor(threads) as executor:
        many, fed = Workers(executor, 2 * threads), Workers(executor, 2 * threads, "cuda")
        modes: list[tuple[str, type[LatticeParty], Workers]] = [("cpu, one thread", LatticeParty, HERE)]
        modes += [(f"cpu, {threads} threads", LatticeParty, many)]
        if card:
            modes += [("cuda, one thread", DeviceParty, HERE), (f"cuda, {threads} threads", DeviceParty, fed)]
        for name, party, workers in modes:
            # The first run loads libraries and makes plans; the best of the rest is kept.
            tries = [run(case, party, workers) for _ in range(1 + again)]
            digests |= {digest for _, digest in tries}
            found[name] = {k: round(v, 4) for k, v in min((s for s, _ in tries[1:]), key=lambda s: s["all"]).items()}
            print(text, name, found[name], flush=True)
    found["same bits"] = len(digests) == 1
    print(text, "same bits:", found["same bits"], flush=True)
    return found


def page(found: list[dict[str, Any]]) -> str:
    """The measurements as a table."""
    lines = ["# The lattice product on a graphics card", "", HEAD, ""]
    lines += ["| n | d | K | where | seal | receive | multiply | all, s | against one thread |", "|" + 9 * "---|"]
    for case in found:
        first = next(value["all"] for key, value in case.items() if key.startswith("cpu"))
        for name, steps in case.items():
            if isinstance(steps, dict):
                sizes = f"| {case['n']:,} | {case['d']} | {case['parties']} | {name} "
                parts = " | ".join(f"{steps[step]:.3f}" for step in ("seal", "receive", "multiply", "all"))
                lines.append(f"{sizes}| {parts} | {first / steps['all']:.1f} x |")
    same = all(case["same bits"] for case in found)
    lines += ["", f"All parcels, shares and opened integers were the same bits in all runs: {'yes' if same else 'NO'}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", metavar="N,D,K")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--again", type=int, default=2, help="runs of which the best counts, after one more")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", action="store_true", help="write docs/results/speed.md from device.json")
    given = parser.parse_args()
    if given.page:
        found = json.loads((RESULTS / "device.json").read_text())["cases"]
        publish("device", page(found))
        return
    card = True
    try:
        require_cuda()
    except ColonnadeError as error:
        card = False
        print(error, file=sys.stderr)
    found = [measure(text, given.threads, card, given.again) for text in given.case or CASES]
    if given.json:
        given.json.write_text(json.dumps({"card": card, "cases": found}, indent=1) + "\n")
    sys.exit(not all(case["same bits"] for case in found))


if __name__ == "__main__":
    main()
