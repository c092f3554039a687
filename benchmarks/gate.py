"""What the gate of bounds costs: CPU seconds inside its functions over those of the whole process, from Parquet.

    python -m benchmarks.gate [--runs 5] [--case demo] [--json]

Each run is a process of its own that does `colonnade fit`, with one thread for linear algebra. A clock stands around
projection, projection of codes and verification. The large cases have one party: products would hide the share.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

CASES = {"demo": None, "1000000 x 20": (1_000_000, 20), "80000 x 800": (80_000, 800)}
LIMIT = 0.02


def write_case(folder: Path, rows: int, columns: int) -> Path:
    """One party's Parquet file, a fifth of whose numbers lie outside their bounds, and its study."""
    import numpy as np
    import polars as pl

    draw = np.random.default_rng(1)
    names = [f"x{i}" for i in range(columns - 1)] + ["y"]
    pl.DataFrame({name: draw.uniform(-1.2, 1.2, rows) for name in names}).write_parquet(folder / "a.parquet")
    number = '{ kind = "numeric", low = -1, high = 1 }'
    text = '[study]\nname = "gate"\ntask = "linear"\nlabel = "a.y"\nepsilon = 1.0\nalignment = "none"\n'
    text += '[party.a]\ndata = "a.parquet"\n[party.a.columns]\n' + "".join(f"{name} = {number}\n" for name in names)
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def measured(study: str) -> None:
    """In a process of its own: a fit with clocks around the gate's functions."""
    from colonnade.cli import main
    from colonnade.data import gate
    from colonnade.foundation import integers

    inside = [0.0]

    def timed(function: Any) -> Any:
        def run(*given: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*given)
            finally:
                inside[0] += time.thread_time() - started

        return run

    gate.Coding._project = timed(gate.Coding._project)  # type: ignore[method-assign]
    gate.project_codes = timed(gate.project_codes)
    integers.verify_block = timed(integers.verify_block)
    sys.argv = ["colonnade", "fit", study, "--out", "release.json", "--force"]
    code: Any = 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    sys.stderr.write(f"\nGATE {json.dumps({'code': code, 'gate': inside[0], 'process': time.process_time()})}\n")


def run_case(name: str, runs: int) -> dict[str, Any]:
    size = CASES[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if size is None:
            import polars as pl

            root = Path(__file__).resolve().parents[1]
            text = (root / "tests" / "studies" / "income" / "study.toml").read_text().replace("../../../demo/", "")
            for file in (root / "demo").glob("*.csv"):
                pl.read_csv(file, infer_schema_length=None).write_parquet(folder / f"{file.stem}.parquet")
                text = text.replace(file.name, f"{file.stem}.parquet")
            (folder / "study.toml").write_text(text)
        else:
            write_case(folder, *size)
        shares, seconds = [], []
        for _ in range(runs):
            done = subprocess.run(
                [sys.executable, __file__, "--measure", "study.toml"],
                cwd=folder,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            told = json.loads(done.stderr.rpartition("GATE ")[2])
            if told["code"]:
                raise SystemExit(f"{name}: the fit failed: {done.stderr[-500:]}")
            shares.append(told["gate"] / told["process"])
            seconds.append(told["process"])
    return {"case": name, "share": median(shares), "cpu_seconds": median(seconds), "runs": runs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(options.measure)
        return 0
    found = [run_case(name, options.runs) for name in options.case or CASES]
    for case in found:
        line = (
            json.dumps(case) if options.json else f"{case['case']}: {case['share']:.2%} of {case['cpu_seconds']:.2f} s"
        )
        sys.stdout.write(line + "\n")
    return 1 if any(case["share"] >= LIMIT for case in found) else 0


if __name__ == "__main__":
    sys.exit(main())
