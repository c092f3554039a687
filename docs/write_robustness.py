"""Run the fuzzing, the load, or both, and write their section of docs/results/operations.md.

    python docs/write_robustness.py [fuzz] [load]

A part that is not named stays as it was (docs/results/robustness.json keeps them).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.sections import publish

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "robustness.json"
PROGRAMS = {"fuzz": ("-m", "fuzz"), "load": ("benchmarks/load.py",)}

SECRETS = """## Secrets (tests/robustness/test_secrets.py)
Every stream key, seed, mask key, mask, noise share, product share, lattice secret and error, exact sum and encoded
column of a session is noted as it is made, in either byte order, as 16, 32 and 64-bit integers, as floats and as text.
None may be in a message, the release, a repr, a log or a refusal; none of the ids and values planted in files may be in
what the command line prints or in a file that it leaves, temporary ones included. The same search does find the columns
that `product = "plain"` shows. Exact sums, masks, product shares and the lattice's keys must be zero once a session has
ended, and its keys once it has broken off.
"""


def fuzz_section(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {r['target']} | {r['cases']:,} | {r['accepted']:,} | {r['seconds']} | {len(r['failures'])} |"
        for r in found["targets"]
    )
    total = f"| **all** | **{found['cases']:,}** | | **{found['seconds']}** | **{_failures(found)}** |"
    return f"""## Fuzzing (`make fuzz`)
Deterministic mutation, seed {found["seed"]}: valid inputs with bytes flipped, cut, repeated and inserted, and ("tree",
"form", "schema", "agreement") parsed inputs with fields replaced by nasty values, removed, renamed or wrapped, where
there is a digest or a hash chain under a right one. A failure is any exception but the package's own, or growth by
more than a gigabyte. "Accepted" inputs were still valid after the change.

| reader | cases | accepted | CPU s | kinds of failure |
|---|---|---|---|---|
{rows}
{total}

The bugs that earlier runs found are fixed, each with a test in tests/robustness/test_fuzz.py.
{found.get("note", "")}
"""


def _failures(found: dict[str, Any]) -> int:
    return sum(len(r["failures"]) for r in found["targets"])


def load_section(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {name} | {r['rows']:,} | {r['released']} | {r['blocks']:,} | {r['numbers']:,} "
        f"| {r['bytes_sent'] / 1e6:,.1f} | {r['cpu_seconds']} | {r['peak_mb']:,} "
        f"| {r.get('farthest', 'not compared')} |"
        for name, r in found.items()
    )
    repeated = "\n".join(
        f"{name}: resident memory grows by {r['kb_per_study']} kB a study (least squares, after the first quarter), "
        f"open file handles {r['handles_first']} then, {r['handles_last']} at the end."
        for name, r in found.items()
        if "kb_per_study" in r
    )
    return f"""## Load (`python -m experiments load`)
Whole studies with the lattice product, all parties and the server in one process and one thread, numeric columns, pure
epsilon, each case in a process of its own. Peak memory includes interpreter and libraries (about 90 MB). Making the
model afterwards is not counted. The last column is the largest distance of an opened value from the truth, in standard
deviations of its noise and rounding (of the last study, where there are many).

| case | n | release | blocks | numbers opened | MB sent | CPU s | peak MB | farthest value |
|---|---|---|---|---|---|---|---|---|
{rows}

{repeated}
"""


def main() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    failed = 0
    for name in sys.argv[1:]:
        ran = subprocess.run([sys.executable, *PROGRAMS[name], "--json"], cwd=ROOT, stdout=subprocess.PIPE)
        # What was found is written down, and the command fails with it.
        failed = failed or ran.returncode
        kept[name] = json.loads(ran.stdout)
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    parts = [
        "# Robustness: fuzzing and load\n\nWritten by `make fuzz` and `python -m experiments load`; the figures are of "
        "one run each.\n"
    ]
    parts += [section(kept[key]) for key, section in (("fuzz", fuzz_section), ("load", load_section)) if key in kept]
    parts.append(SECRETS)
    publish("robustness", "\n".join(parts))
    sys.exit(failed)


if __name__ == "__main__":
    main()
