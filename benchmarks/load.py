"""Many parties, many columns, many studies: CPU time, peak memory and what is left behind, in the embedded run.

    python benchmarks/load.py [--json] [--small] [--match "all products"]

Each case runs in a process of its own, so that its peak is its own. The small form is what the tests run.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from audit.integrity import Study, farthest_value
from colonnade.data.table import Table
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded


@dataclass(frozen=True)
class Case:
    """K parties with so many numeric columns each, n records, run so many times."""

    parties: int
    columns: int
    rows: int
    release: str = "auto"
    studies: int = 1


LARGE = {
    "64 parties, 4 columns each, all products": Case(64, 4, 2_000, "full"),
    "64 parties, 4 columns each": Case(64, 4, 2_000),
    "2 parties, 2,000 columns each": Case(2, 2_000, 4_000),
    "100 studies in a row": Case(2, 3, 500, "full", studies=100),
}
SMALL = {
    "12 parties, 4 columns each, all products": Case(12, 4, 300, "full"),
    "2 parties, 200 columns each": Case(2, 200, 300),
    "12 studies in a row": Case(2, 3, 200, "full", studies=12),
}
WARM = 0.25
"""The share of the studies after which memory and handles are first noted: caches have filled by then."""


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak_mb() -> int:
    """Of this program alone: `ru_maxrss` would start from the process that started it."""
    with open("/proc/self/status") as file:
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    return int(found[1]) >> 10 if found else 0


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def study(case: Case, seed: int) -> tuple[dict[str, Any], Callable[[], float]]:
    """One whole study on uniform numbers, with the operating system's randomness, and a comparison with the truth."""
    generator = np.random.default_rng(seed)
    schema = {f"p{k}": {f"x{k}_{j}": Numeric(-1, 1) for j in range(case.columns)} for k in range(case.parties)}
    agreement = Agreement.from_terms("load", Schema(schema), "p0.x0_0", Task.LINEAR, epsilon=1.0, release=case.release)
    tables = {
        party: Table(party, columns, {n: generator.uniform(-1, 1, case.rows) for n in columns}, case.rows)
        for party, columns in schema.items()
    }
    outcome = run_unguarded(agreement, tables, "none")
    figures = {
        "released": outcome.session.released,
        "blocks": len(outcome.session.plan.blocks),
        "numbers": outcome.session.length,
        "bytes_sent": sum(outcome.traffic.sent.values()),
    }
    values = {name: column for table in tables.values() for name, column in table.values.items()}
    return figures, lambda: farthest_value(Study(agreement, values), outcome.release)[0]


def measure(case: Case) -> dict[str, Any]:
    """CPU seconds and peak memory; for repeated studies also what each leaves behind."""
    start = process_time()
    out: dict[str, Any] = {}
    memory: list[int] = []
    open_files: list[int] = []
    for i in range(case.studies):
        out, compare = study(case, i)
        if case.studies > 1:
            gc.collect()
            memory.append(resident())
            open_files.append(handles())
    out["cpu_seconds"] = round(process_time() - start, 1)
    out["peak_mb"] = _peak_mb()
    out["farthest"] = round(compare(), 2)
    if memory:
        warm = int(WARM * len(memory))
        slope = np.polyfit(np.arange(len(memory) - warm), memory[warm:], 1)[0]
        out["kb_per_study"] = round(float(slope) / 1024, 1)
        out["handles_first"], out["handles_last"] = open_files[warm], open_files[-1]
    return out


def apart(case: Case) -> dict[str, Any]:
    """The same in a fresh process."""
    call = [sys.executable, __file__, "--case", json.dumps(vars(case))]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--match", default="", help="only cases whose name has this text")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(Case(**json.loads(options.case)))))
        return
    found = {}
    cases = {n: c for n, c in (SMALL if options.small else LARGE).items() if options.match in n}
    for name, case in cases.items():
        found[name] = {**vars(case), **apart(case)}
        if not options.json:
            print(f"{name}: {found[name]}", flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
