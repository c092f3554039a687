"""Whole studies in docs/results/speed.md and their JSON: benchmarks/whole.py measured anew, or what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from whole import STEPS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

WHOLE = Path(__file__).with_name("whole.py")
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
STORE = RESULTS / "whole.json"
CASES = [(rows, aligned) for rows in (100_000, 1_000_000) for aligned in (False, True)]
COLUMNS, PARTIES = 20, 3
HEAD = f"""# What privacy costs a whole study

Written by `python -m experiments whole` (`python benchmarks/whole.py --series`). The private side is `colonnade fit`
with all parties in one process: their CPU seconds together, from files to release, model and intervals. The other side
is a script that reads the same files with polars, joins them by id and fits scikit-learn's LogisticRegression with
its default solver. Each is a process of its own, as a user types it, with as many threads as it takes by itself, on a
machine that others use too; `benchmarks/whole.py` says how total and work are measured. The demo is that of
tests/studies/income, 3 CSV files with twelve columns; the made studies have 3 Parquet files, {COLUMNS} columns in all,
ids as texts, a tenth of each list not common, or none of them where rows are aligned already.
"""
NOTE = """Total counts the interpreter and all imports, every module compiled anew as in a first run. The line "bytecode
kept" is for the second run and later ones, where imports take a third. Work is what is left when all modules are
loaded, the same for both. The demo is the median of 3 runs, the others are one.
"""


def write_series(most_rows: int) -> None:
    """Measure the demo and all made studies of at most so many rows, then write the page."""
    keep("demo", apart())
    for rows, aligned in CASES:
        if rows <= most_rows:
            name = f"{rows:,} rows, {'aligned' if aligned else 'ids'}"
            sizes = ["--rows", str(rows), "--columns", str(COLUMNS), "--parties", str(PARTIES), "--runs", "1"]
            keep(name, apart(*sizes, *(["--aligned"] if aligned else [])))
    publish("whole", page(json.loads(STORE.read_text())))


def apart(*arguments: str) -> dict[str, Any]:
    """One case in a process of its own: a side's largest memory counts from that of the process that starts it."""
    command = [sys.executable, str(WHOLE), "--json", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def keep(name: str, found: dict[str, Any]) -> None:
    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    STORE.write_text(json.dumps({**stored, name: found}, indent=1) + "\n")
    print(name, f"ratio {found['ratio']:.2f}, work ratio {found['work_ratio']:.2f}", flush=True)


def page(stored: dict[str, dict[str, Any]]) -> str:
    """The tables."""
    lines = [HEAD, "| study | rows | private s | clear s | ratio | private work s | clear work s | work ratio |"]
    lines.append("|" + 8 * "---|")
    for name, f in stored.items():
        lines.append(
            f"| {name} | {f['rows']:,} | {f['private_cpu_seconds']:.2f} | {f['clear_cpu_seconds']:.2f} | "
            f"{f['ratio']:.2f} | {f['private_work_seconds']:.2f} | {f['clear_work_seconds']:.2f} | "
            f"{f['work_ratio']:.1f} |"
        )
        if kept := f.get("kept_bytecode"):
            lines.append(
                f"| {name}, bytecode kept | {f['rows']:,} | {kept['private_cpu_seconds']:.2f} | "
                f"{kept['clear_cpu_seconds']:.2f} | {kept['ratio']:.2f} | | | |"
            )
    lines += ["", NOTE, "## Where the private side's CPU goes", ""]
    lines += [f"| study | {' | '.join(STEPS)} | peak MB | peak MB in the clear |", "|" + (len(STEPS) + 3) * "---|"]
    for name, f in stored.items():
        steps = " | ".join(f"{f['steps'][step]:.2f}" for step in STEPS)
        lines.append(f"| {name} | {steps} | {f['peak_mb']['private']:.0f} | {f['peak_mb']['clear']:.0f} |")
    lines += ["", "## How good the models are", "", "Accuracy on the common records, to which both were fitted.", ""]
    lines += ["| study | private, epsilon = 1 | in the clear | majority |", "|" + 4 * "---|"]
    for name, f in stored.items():
        told = f["accuracy"]
        lines.append(f"| {name} | {told['private']:.4f} | {told['clear']:.4f} | {told['majority']:.4f} |")
    return "\n".join(lines) + "\n"
