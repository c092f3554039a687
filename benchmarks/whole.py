"""A whole private study, from files to model, beside the same study in the clear: CPU seconds of everything.

    python benchmarks/whole.py [--json]                                   the demo
    python benchmarks/whole.py --rows 1000000 --columns 20 --parties 3 [--aligned] [--json]
    python benchmarks/whole.py --series [--most-rows N]                   all sizes, into docs/results/speed.md

The private side is `colonnade fit STUDY` as a user types it, the other benchmarks/whole_clear.py: polars reads and
joins the same files, scikit-learn fits with its default solver. Each side is a process of its own, with as many threads
as it takes by itself: nothing in its environment says how many. Its CPU seconds are user and system time as the
operating system counted them at its end (wait4), interpreter and imports included. Sides take turns, and the median of
the runs counts.

Work is what is left after imports. A rehearsal of each side notes the modules that it has loaded at its end. The run
that is measured imports those first, reads its CPU clock, does the same, and reads it again: the difference is the
work. The rehearsal also judges the models: accuracy on the common records, beside the majority's share. `steps` are
CPU seconds of the private side's run; where rows are aligned already, files are read during `products`.

Imports dominate small studies, and they take three times as long where Python compiles every module anew, as it does in
a first run after `make install` (which compiles nothing), or wherever it may not write bytecode. Totals are those of a
first run, whatever lies on this machine. The demo's are measured a second time with the bytecode that a rehearsal left
in a folder of its own: `kept_bytecode` is what a user has from the second run on. Work is the same in both.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CLEAR = ROOT / "benchmarks" / "whole_clear.py"
DEMO = ROOT / "tests" / "studies" / "income" / "study.toml"
THREADS = ("_NUM_THREADS", "_MAX_THREADS")
"""How the names of variables end that say how many; a user has set none of them."""
MARKED = {
    "read": (
        ("colonnade.study", "read_study"),
        ("colonnade.data.table", "gather_table"),
        ("colonnade.data.table", "open_table"),
    ),
    "solve": (("colonnade.analysis.request", "fit"), ("colonnade.analysis.request", "intervals")),
    "write": (("colonnade.mechanism.release", "write_release"), ("colonnade.model", "write_model")),
}
"""Functions whose CPU seconds are a step; the other steps are told by `fit --json`."""
STEPS = ("imports", "read", "align", "plan", "products", "submit", "open", "solve", "write", "rest")
FEW_RUNS = 200_000
"""Rows from which one run is enough."""


class Sides:
    """Both sides of one study, each run in a process of its own."""

    def __init__(self, study: Path, place: Path, *, keep_bytecode: bool = False, as_found: bool = False) -> None:
        from colonnade.study import read_study

        checked = read_study(study)
        self.study, self.place = study, place
        self.files = {name: source.data.path for name, source in checked.sources.items()}  # type: ignore[union-attr]
        self.id = next(iter(checked.sources.values())).id if checked.alignment != "none" else None
        self.label = checked.agreement.schema.find(checked.agreement.label)[1]
        self.model, self.judged = place / "model.json", place / "clear.json"
        clear = ["--label", self.label, *(["--id", self.id] if self.id else []), *map(str, self.files.values())]
        out = ["--out", str(place / "release.json"), "--model", str(self.model), "--force"]
        self.arguments = {"private": ["fit", str(study), *out], "clear": clear}
        self.environment = {name: value for name, value in os.environ.items() if not name.endswith(THREADS)}
        if not as_found:
            self.environment["PYTHONPYCACHEPREFIX"] = str(place / ("bytecode" if keep_bytecode else "none"))
            self.environment["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"

    def rehearse(self) -> None:
        """Note each side's modules, and judge the one in the clear."""
        for side in self.arguments:
            more = ["--judge", str(self.judged)] if side == "clear" else []
            self._spend([*self._inside(side), "--note", str(self._noted(side)), "--", *self.arguments[side], *more])

    def total(self, side: str) -> tuple[float, float]:
        """CPU seconds and peak MB of the command itself."""
        program = [str(CLEAR)] if side == "clear" else [str(Path(sys.executable).parent / "colonnade")]
        used = self._spend([sys.executable, *program, *self.arguments[side]])
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024

    def work(self, side: str) -> dict[str, float]:
        """CPU seconds by step of a run whose imports come first."""
        found = self.place / f"{side}-work.json"
        noted = ["--noted", str(self._noted(side)), "--steps", str(found)]
        told = ["--json"] if side == "private" else []
        self._spend([*self._inside(side), *noted, "--", *self.arguments[side], *told])
        steps: dict[str, float] = json.loads(found.read_text())
        return steps

    def _noted(self, side: str) -> Path:
        return self.place / f"{side}-modules.json"

    def _inside(self, side: str) -> list[str]:
        return [sys.executable, __file__, "--inside", side]

    def _spend(self, command: list[str]) -> Any:
        """What a process used, as counted at its end."""
        with open(self.place / "stdout", "wb") as out, open(self.place / "stderr", "wb") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=self.environment)
            _, status, used = os.wait4(process.pid, 0)
        if code := os.waitstatus_to_exitcode(status):
            sys.exit(f"exit code {code} of {' '.join(command)}:\n{(self.place / 'stderr').read_text()}")
        return used


def measure(study: Path, runs: int, *, kept_too: bool = False, as_found: bool = False) -> dict[str, Any]:
    """Both sides in turns; medians of CPU seconds, and how good the models are."""
    totals: dict[str, list[tuple[float, float]]] = {"private": [], "clear": []}
    works: dict[str, list[dict[str, float]]] = {"private": [], "clear": []}
    with tempfile.TemporaryDirectory(prefix="colonnade-whole-") as place:
        sides = Sides(study, Path(place), as_found=as_found)
        sides.rehearse()
        for _ in range(runs):
            for side in totals:
                totals[side].append(sides.total(side))
            for side in works:
                works[side].append(sides.work(side))
        judged = json.loads(sides.judged.read_text())
        accuracy = private_accuracy(sides)
        kept = measure_kept(study, Path(place), runs) if kept_too else None
    cpu = {side: median(seconds for seconds, _ in found) for side, found in totals.items()}
    work = {side: median(sum(w.values()) - w["imports"] for w in found) for side, found in works.items()}
    return {
        "private_cpu_seconds": cpu["private"],
        "clear_cpu_seconds": cpu["clear"],
        "ratio": cpu["private"] / cpu["clear"],
        "private_work_seconds": work["private"],
        "clear_work_seconds": work["clear"],
        "work_ratio": work["private"] / work["clear"],
        "steps": {step: median(w.get(step, 0.0) for w in works["private"]) for step in STEPS},
        "rows": judged["rows"],
        "accuracy": {"private": accuracy, "clear": judged["accuracy"], "majority": judged["majority"]},
        "peak_mb": {side: max(mb for _, mb in found) for side, found in totals.items()},
        "runs": runs,
        **({"kept_bytecode": kept} if kept else {}),
    }


def measure_kept(study: Path, place: Path, runs: int) -> dict[str, float]:
    """Totals of both sides from the second run on, where Python has kept bytecode."""
    sides = Sides(study, place, keep_bytecode=True)
    sides.rehearse()
    found: dict[str, list[float]] = {"private": [], "clear": []}
    for _ in range(runs):
        for side in found:
            found[side].append(sides.total(side)[0])
    private, clear = (median(found[side]) for side in found)
    return {"private_cpu_seconds": private, "clear_cpu_seconds": clear, "ratio": private / clear}


def private_accuracy(sides: Sides) -> float:
    """Of the private model on the common records, which the files joined in the clear give."""
    import numpy as np
    import polars as pl

    from colonnade.data.table import table_from
    from colonnade.model import partial_scores, read_model
    from colonnade.study import read_study

    public = read_model(sides.model.read_bytes())
    frames = [pl.read_parquet(f) if f.suffix == ".parquet" else pl.read_csv(f) for f in sides.files.values()]
    joined = frames[0] if sides.id else pl.concat(frames, how="horizontal")
    for frame in frames[1:] if sides.id else []:
        joined = joined.join(frame, on=sides.id)
    score = np.full(len(joined), public.model.intercept)
    for name, columns in read_study(sides.study).agreement.schema.parties.items():
        table = table_from(name, joined, columns)
        score += partial_scores(table, public.model, public.factors)
    positive = (joined[sides.label] == public.label[2]).to_numpy()
    return float(((score >= 0) == positive).mean())


def run_inside(side: str, note: Path | None, noted: Path | None, steps: Path | None, arguments: list[str]) -> None:
    """One side in this process, its imports first where they are known."""
    # Every clock of the run is the CPU's, so that `fit --json` tells its steps in CPU seconds.
    time.perf_counter = time.process_time
    for name in json.loads(noted.read_text()) if noted else ():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    spent: dict[str, float] = {}
    if side == "private" and noted:
        for step, functions in MARKED.items():
            for module, function in functions:
                mark(importlib.import_module(module), function, step, spent)
    start = time.process_time()
    sys.argv = ["colonnade" if side == "private" else str(CLEAR), *arguments]
    text: list[str] = []
    with told(text):
        try:
            if side == "private":
                importlib.import_module("colonnade.cli").main()
            else:
                runpy.run_path(str(CLEAR), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    work = time.process_time() - start
    if note:
        note.write_text(json.dumps([name for name in sys.modules if name != "__main__"]))
    if steps:
        spent |= json.loads(text[0]).get("steps", {}) if side == "private" else {}
        steps.write_text(json.dumps({"imports": start, **spent, "rest": work - sum(spent.values())}))


def mark(module: Any, name: str, step: str, spent: dict[str, float]) -> None:
    """Add the function's CPU seconds to a step."""
    function = getattr(module, name)

    def marked(*given: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*given, **named)
        finally:
            spent[step] = spent.get(step, 0.0) + time.process_time() - start

    setattr(module, name, marked)


@contextlib.contextmanager
def told(text: list[str]) -> Iterator[None]:
    """What is printed inside is added to `text`."""
    own = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(own, 1)
        file.seek(0)
        text.append(file.read().decode())


def write_study(folder: Path, rows: int, columns: int, parties: int, aligned: bool) -> Path:
    """A made study: `rows` common records, a tenth more of its own for each party, and a file and order for each.

    Every third column has four levels, the others are numbers; the label is yes or no by a logistic law of them all.
    """
    import numpy as np
    import polars as pl

    draw = np.random.default_rng([rows, columns, parties])
    held = rows if aligned else rows + rows // 10
    score = np.zeros(rows)
    frames: list[dict[str, Any]] = [{} for _ in range(parties)]
    declared: list[list[str]] = [[] for _ in range(parties)]
    levels = np.array(["a", "b", "c", "d"])
    for j in range(columns - 1):
        k, name = j % parties, f"x{j}"
        if j % 3 == 2:
            chosen = draw.integers(0, 4, held)
            frames[k][name] = levels[chosen]
            declared[k].append(f'{name} = {{ kind = "categorical", levels = ["a", "b", "c", "d"] }}')
            score += draw.normal(0, 0.5, 4)[chosen[:rows]]
        else:
            frames[k][name] = draw.normal(size=held)
            declared[k].append(f'{name} = {{ kind = "numeric", low = -4, high = 4 }}')
            score += draw.normal(0, 0.4) * frames[k][name][:rows]
    chance = np.concatenate([1 / (1 + np.exp(-score)), np.full(held - rows, 0.5)])
    frames[0]["label"] = np.where(draw.uniform(size=held) < chance, "yes", "no")
    declared[0].append('label = { kind = "binary", levels = ["no", "yes"] }')
    matched = "none" if aligned else "psi"
    text = ['[study]\nname = "whole"\ntask = "logistic"\nlabel = "p0.label"\nepsilon = 1.0\ndelta = 0\ncollusion = 1']
    text.append(f'product = "lattice"\nalignment = "{matched}"')
    for k, values in enumerate(frames):
        frame = pl.DataFrame(values)
        if not aligned:
            own = np.concatenate([np.arange(rows), rows * (k + 2) + np.arange(held - rows)])
            person = pl.Series("person", own).cast(pl.String).str.zfill(10)
            frame = frame.insert_column(0, person)[draw.permutation(held)]
        frame.write_parquet(folder / f"p{k}.parquet")
        key = "" if aligned else '\nid = "person"'
        text.append(f'[party.p{k}]\ndata = "p{k}.parquet"{key}\n[party.p{k}.columns]')
        text.extend(declared[k])
    study = folder / "study.toml"
    study.write_text("\n".join(text) + "\n")
    return study


def measure_made(
    rows: int, columns: int, parties: int, aligned: bool, runs: int | None, *, as_found: bool = False
) -> dict[str, Any]:
    """A made study, whose files are written by another process and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="colonnade-whole-data-") as folder:
        sizes = ["--rows", str(rows), "--columns", str(columns), "--parties", str(parties)]
        call = [sys.executable, __file__, "--make", folder, *sizes, *(["--aligned"] if aligned else [])]
        subprocess.run(call, check=True)
        found = measure(Path(folder) / "study.toml", runs or (1 if rows >= FEW_RUNS else 3), as_found=as_found)
    return {"columns": columns, "parties": parties, "aligned": aligned, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="common records of a made study; the demo if not given")
    parser.add_argument("--columns", type=int, default=20, help="of all parties together, the label among them")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--aligned", action="store_true", help="rows are in one order already: no ids to match")
    parser.add_argument("--runs", type=int, help="of which the median counts; 3, or 1 for many rows")
    parser.add_argument("--as-found", action="store_true", help="with the bytecode that is there, for a quick look")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--series", action="store_true", help="all sizes, into docs/results/speed.md")
    parser.add_argument("--most-rows", type=int, default=1_000_000, help="of the series")
    parser.add_argument("--inside", choices=("private", "clear"), help=argparse.SUPPRESS)
    for name in ("--make", "--note", "--noted", "--steps"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run_inside(given.inside, given.note, given.noted, given.steps, given.arguments)
        return
    if given.make:
        write_study(given.make, given.rows, given.columns, given.parties, given.aligned)
        return
    if given.series:
        from whole_report import write_series

        write_series(given.most_rows)
        return
    if given.rows is None:
        found = measure(DEMO, given.runs or 3, kept_too=True)
    else:
        sizes = (given.rows, given.columns, given.parties, given.aligned)
        found = measure_made(*sizes, given.runs, as_found=given.as_found)
    print(json.dumps(found) if given.json else "\n".join(f"{key:22s} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
