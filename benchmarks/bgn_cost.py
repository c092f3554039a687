"""Measured cost of the product bgn: CPU seconds per step and microseconds per record product, beside the prediction.

python benchmarks/bgn_cost.py --rows 500 --columns 6 --parties 3 [--curve bls12-381] [--calibrate] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

import numpy as np
from bgn_operations import calibrate
from columns import resident

from colonnade.crypto.bgn.layout import planned_bytes
from colonnade.crypto.bgn.logarithm import predicted_seconds
from colonnade.crypto.bgn.pairing import CURVES
from colonnade.crypto.bgn.party import BgnParty
from colonnade.crypto.bgn.server import BgnServer
from colonnade.crypto.frames import entries
from colonnade.crypto.product import SERVER, Cross, ProductSpec
from colonnade.foundation.randomness import Randomness


def measure(rows: int, columns: int, parties: int, curve: str) -> dict[str, object]:
    """One session in this process, timed by its steps."""
    generator = np.random.default_rng(1)
    parts = np.array_split(np.arange(columns), parties)
    data = [generator.integers(-127, 128, (rows, len(part))).astype(np.int16) for part in parts]
    crosses = tuple(
        Cross(i, j, 0, len(parts[i]), 0, len(parts[j])) for i in range(parties) for j in range(i + 1, parties)
    )
    names = tuple(f"party {k}" for k in range(parties))
    randomness = Randomness()
    spec = ProductSpec(randomness.bytes(32), names, rows, 127, crosses, 64, 1, 2 * rows * 127**2)
    noise = [{c: generator.integers(-1000, 1001, c.shape) for c in crosses} for _ in names]
    sides = [BgnParty(spec, k, resident(data[k]), noise[k], randomness, curve=curve) for k in range(parties)]
    server = BgnServer(spec, curve=curve)
    steps: dict[str, float] = {}
    for round in BgnParty.rounds:
        start = time.process_time()
        for k, side in enumerate(sides):
            for parcel in side.send(round):
                to = server if parcel.recipient == SERVER else sides[names.index(parcel.recipient)]
                to.receive(round, names[k], parcel.payload)
        steps[f"{round}, parties"] = time.process_time() - start
        start = time.process_time()
        for parcel in server.send(round):
            sides[names.index(parcel.recipient)].receive(round, SERVER, parcel.payload)
        steps[f"{round}, server"] = time.process_time() - start
    start = time.process_time()
    given = [side.contribute() for side in sides]
    total = np.sum([contribution.vector for contribution in given], axis=0, dtype=np.uint64)
    opened = server.open(total, [contribution.payload for contribution in given])
    steps["open"] = time.process_time() - start
    exact = np.concatenate(
        [(data[c.left].astype(np.int64).T @ data[c.right].astype(np.int64)).ravel() for c in crosses]
    )
    error = opened - exact - np.concatenate([sum(share[c] for share in noise).ravel() for c in crosses])
    seconds = sum(steps.values())
    return {
        "curve": curve,
        "rows": rows,
        "columns": columns,
        "parties": parties,
        "cpu_seconds": seconds,
        "predicted_seconds": predicted_seconds(spec, curve),
        "microseconds_per_record_product": 1e6 * seconds / (rows * entries(spec)),
        "bytes": [planned_bytes(spec, k, curve) for k in range(parties)],
        "max_error": int(np.abs(error).max()),
        "steps": steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--curve", choices=CURVES, default="bn254")
    parser.add_argument("--calibrate", action="store_true", help="print the costs of single operations instead")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.calibrate:
        result: dict[str, object] = asdict(calibrate(time.process_time, options.curve, 512))
    else:
        result = measure(options.rows, options.columns, options.parties, options.curve)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:32s} {value}")


if __name__ == "__main__":
    main()
