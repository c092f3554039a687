"""CPU time and bytes of one sum over records of a product of two, three and four owners' columns, beside plain.

    python benchmarks/owners.py [--rows 40000] [--bound 127] [--runs 3] [--json] [--write]

All sides run in this process, one after the other, with one BLAS thread; times are CPU times (process_time), medians of
the runs. `per record` is what one record product costs of all sides together; setting up (base transfers, once for
each pair of parties and session) is told apart.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from columns import resident

from colonnade.crypto.backends import CHAINS
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.plain import PlainParty
from colonnade.crypto.product import Chain, ChainSpec, Cross, Integers, ProductSpec
from colonnade.foundation.randomness import Randomness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

BITS, GAIN = 51, 64
SET_UP = ("chain keys", "chain choices")


def measure(product: str, owners: int, rows: int, bound: int, seed: int) -> dict[str, float]:
    """One product of so many owners: seconds of setting up and of the rest, bytes, and whether the sum is right."""
    draw = np.random.default_rng(seed)
    data = [draw.integers(-bound, bound + 1, (rows, 1)).astype(np.int16) for _ in range(owners)]
    names = tuple(f"p{k}" for k in range(owners))
    source = [Randomness(bytes([seed, k])) for k in range(owners)]
    plain = product == "plain"
    bits, gain = (64, 1) if plain else (BITS, GAIN)
    exact = int(np.prod([d[:, 0].astype(np.int64) for d in data], axis=0).sum())
    seconds: dict[str, float] = {}
    sides: list[Any]
    if owners == 2:
        cross = Cross(0, 1, 0, 1, 0, 1)
        spec = ProductSpec(bytes(32), names, rows, bound, (cross,), bits, gain, 1 << (bits - 2))
        noise: dict[Cross, Integers] = {cross: np.zeros((1, 1), np.int64)}
        kind: Any = PlainParty if plain else LatticeParty
        start = process_time()
        sides = [kind(spec, k, resident(data[k]), noise, source[k]) for k in range(owners)]
        rounds = kind.rounds
    else:
        chains = ChainSpec(
            bytes(32), names, rows, bound, (Chain(tuple(range(owners)), ((0,) * owners,)),), bits, (gain,)
        )
        chain = CHAINS[product]()
        start = process_time()
        sides = [chain(chains, k, resident(data[k]), np.zeros(1, np.int64), source[k]) for k in range(owners)]
        rounds = chain.rounds(chains)
    seconds["make"] = process_time() - start
    sent = 0
    for round in rounds:
        start = process_time()
        for k, side in enumerate(sides):
            for parcel in side.send(round):
                sent += len(parcel.payload)
                sides[names.index(parcel.recipient)].receive(round, names[k], parcel.payload)
        seconds[round] = process_time() - start
    start = process_time()
    given = [side.contribute() for side in sides]
    total = np.sum([g if owners > 2 else g.vector for g in given], axis=0, dtype=np.uint64)
    opened = int((total << np.uint64(64 - bits)).view(np.int64)[0]) >> (64 - bits)
    seconds["open"] = process_time() - start
    set_up = sum(seconds.get(round, 0.0) for round in SET_UP)
    error = abs(opened / gain - exact) / (np.sqrt(rows) * bound**owners)
    return {"set_up": set_up, "rest": sum(seconds.values()) - set_up, "bytes": sent, "error": float(error)}


def table(found: list[dict[str, Any]], rows: int, bound: int) -> str:
    lines = [
        "# What a product of several owners costs",
        "",
        f"`python benchmarks/owners.py --write`: one sum over n = {rows:,} records of a product of one column of each",
        f"owner, entries of up to {bound}, of four owners up to 31; one core of a shared x86-64 server. Setting up",
        "is paid once for each pair of parties and session, however many records and products there are. The error is",
        "that of the sum, over √n boundʳ: rounding and noise are far above it.",
        "",
        "| owners | product | set-up, CPU s | the rest, CPU s | CPU µs a record product | bytes a record | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        lines.append(
            f"| {row['owners']} | {row['product']} | {row['set_up']:.2f} | {row['rest']:.3f} | "
            f"{row['microseconds']:.3g} | {row['bytes'] / rows:.1f} | {row['error']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--bound", type=int, default=127)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = []
    for owners in (2, 3, 4):
        # Four entries of up to 127 and their sums fit 51 bits only with few records: a smaller bound serves.
        bound = given.bound if owners < 4 else min(given.bound, 31)
        for product in ("plain", "lattice"):
            runs = [measure(product, owners, given.rows, bound, seed) for seed in range(given.runs)]
            each = {key: median(run[key] for run in runs) for key in runs[0]}
            each["microseconds"] = 1e6 * each["rest"] / given.rows
            found.append({"owners": owners, "product": product, "bound": bound, **each})
    if given.write:
        publish("owners", table(found, given.rows, given.bound))
    print(json.dumps(found) if given.json else table(found, given.rows, given.bound))


if __name__ == "__main__":
    main()
