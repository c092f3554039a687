"""AIM and MST beside a release's rows: run in an environment of their own, scored as our own rows are."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colonnade.analysis.released import Released
from experiments.paper import catalogue
from experiments.paper.store import ROOT
from experiments.paper.synthesis import DATA, Truth, release_of, replicate, score_rows
from experiments.paper.tables import RESULTS

WORK = ROOT / ".cache" / "synthesizers"
PYTHON = WORK / "venv" / "bin" / "python"
PROGRAMS = ROOT / "experiments" / "synthesizers"
RESULT = RESULTS / "synthesis_baselines.json"
LIMIT = 300
"""CPU seconds of one run."""
TOTAL = 3600
"""CPU seconds after which no further run is started."""
SEEDS = 3
EPSILON = 1.0


@dataclass(frozen=True)
class Synthesizer:
    """A method at some settings."""

    name: str
    options: tuple[str, ...]
    seeds: int = SEEDS


SYNTHESIZERS = (
    Synthesizer("MST", ("MST",)),
    Synthesizer("AIM, cut down: 4 MB, 100 iterations", ("AIM", "--megabytes", "4", "--iterations", "100")),
    Synthesizer("AIM, its settings: 80 MB, 1000 iterations", ("AIM",)),
    Synthesizer("MST, add/remove", ("MST", "--add-remove"), 1),
)


def study(limit: int = LIMIT, total: int = TOTAL) -> list[dict[str, object]]:
    """One line for each method and data set; rows of finished runs are kept in .cache and used again."""
    if not PYTHON.exists():
        raise SystemExit(f"{PYTHON.relative_to(ROOT)} is missing: run `make synthesis-baselines`")
    WORK.mkdir(parents=True, exist_ok=True)
    truths = {data: _truth(data) for data in DATA if data != "Dutch" or catalogue.missing("dutch-36") is None}
    before = _children_seconds()
    for seed in range(SEEDS):
        for method in SYNTHESIZERS:
            for data, (truth, _) in truths.items():
                if seed < method.seeds and _children_seconds() - before < total:
                    _finish(data, method, seed, 1 / len(truth.train), limit)
    lines = [_line(data, method, *truths[data], limit) for data in truths for method in SYNTHESIZERS]
    RESULT.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return lines


def _truth(data: str) -> tuple[Truth, int]:
    """The exact levels of a data set, written for the other environment, and the place of its label."""
    rows = replicate(data)
    released = Released(release_of(rows, data, 10.0, True, b"shape"))
    truth = Truth.of(rows, released)
    np.savez(WORK / f"{data}.npz", codes=truth.train, sizes=[s.stop - s.start for s in truth.spans])
    return truth, released.layout.label


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _place(data: str, method: Synthesizer, seed: int) -> Path:
    return WORK / f"{data}-{'-'.join(o.strip('-') for o in method.options)}-{seed}.npz"


def _late(data: str, method: Synthesizer, limit: int) -> Path:
    """Marks a method that did not finish: it would not with another seed either."""
    return _place(data, method, 0).with_suffix(f".over-{limit}-s")


def _finish(data: str, method: Synthesizer, seed: int, delta: float, limit: int) -> None:
    target = _place(data, method, seed)
    if not target.exists() and not _late(data, method, limit).exists():
        sys.stderr.write(f"{data}, {method.name}, seed {seed}\n")
        if not _fit(method, WORK / f"{data}.npz", target, delta, seed, limit):
            _late(data, method, limit).touch()


def _line(data: str, method: Synthesizer, truth: Truth, label: int, limit: int) -> dict[str, object]:
    found = []
    for seed in range(method.seeds):
        if (path := _place(data, method, seed)).exists():
            held = np.load(path)
            scores = score_rows(held["codes"], truth, label)
            found.append({**scores, "quality": quality(WORK / f"{data}.npz", path), "CPU s": float(held["seconds"])})
    over = _late(data, method, limit).exists()
    note = f"over {limit} CPU s" if over else "" if len(found) == method.seeds else "not started within the time"
    line: dict[str, object] = {"data": data, "method": method.name, "seeds": len(found)}
    line |= {name: float(np.mean([f[name] for f in found])) for name in (found[0] if found else {})}
    sys.stderr.write(f"{line} {note}\n")
    return {**line, "not finished": note}


def _fit(method: Synthesizer, source: Path, target: Path, delta: float, seed: int, limit: int) -> bool:
    """Whether a run finished within its CPU seconds."""
    command = [str(PYTHON), str(PROGRAMS / "fit_rows.py"), method.options[0], str(source), str(target)]
    command += [str(EPSILON), str(delta), "--seed", str(seed), *method.options[1:]]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )
    if done.returncode > 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.returncode == 0


def quality(source: Path, rows: Path) -> float | None:
    """SDMetrics' quality score of rows, where the other environment is there."""
    if not PYTHON.exists() or not source.exists():
        return None
    command = [str(PYTHON), str(PROGRAMS / "score_rows.py"), str(source), str(rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
