"""AIM and MST beside a release's rows: run in an environment of their own, scored as our own rows are."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.analysis.released import Released
from experiments.paper import catalogue
from experiments.paper.store import ROOT
from experiments.paper.synthesis import DATA, Truth, release_of, replicate, score_rows
from experiments.paper.tables import RESULTS

WORK = ROOT / ".cache" / "synthesizers"
PYTHON = WORK / "venv" / "bin" / "python"
TOLD = ("TV1", "TV2", "TV3", "LR", "boosting", "all labels", "quality", "CPU s", "GPU s")
PROGRAMS = ROOT / "experiments" / "synthesizers"
RESULT = RESULTS / "synthesis_baselines.json"
LIMIT = 300
"""CPU seconds of one run, times the patience of its method."""
TOTAL = 3600
"""CPU seconds after which no further run is started."""
SEEDS = 3
EPSILON = 1.0
Run = dict[str, Any]
"""One run: what it was, and its scores, or after how many CPU seconds it was ended."""


@dataclass(frozen=True)
class Synthesizer:
    """A method at some settings."""

    name: str
    options: tuple[str, ...]
    seeds: int = SEEDS
    patience: int = 1


MST = Synthesizer("MST", ("MST",))
AIM_SMALL = Synthesizer("AIM, cut down: 4 MB, 100 iterations", ("AIM", "--megabytes", "4", "--iterations", "100"))
AIM = Synthesizer("AIM, its settings: 80 MB, 1000 iterations", ("AIM",), patience=5)
AIM_WARM = Synthesizer("AIM, its settings, last fit from the last round", ("AIM", "--warm"), patience=5)
MST_ADD_REMOVE = Synthesizer("MST, add/remove", ("MST", "--add-remove"), 1)
SYNTHESIZERS = (MST, AIM_SMALL, AIM, AIM_WARM, MST_ADD_REMOVE)
FIRST = ((AIM_SMALL, 0), (MST, 0), (AIM, 0))
"""What tells most; all other runs follow, seed by seed."""


def study(limit: int = LIMIT, total: int = TOTAL) -> None:
    """Run every method with every seed, those that tell most first; each run is stored as soon as it is finished.

    Rows that are there already, as those of a GPU elsewhere, are scored whatever time is left.
    """
    if not PYTHON.exists():
        raise SystemExit(f"{PYTHON.relative_to(ROOT)} is missing: run `python -m experiments synthesis-baselines`")
    WORK.mkdir(parents=True, exist_ok=True)
    truths = {data: _truth(data) for data in DATA if data != "Dutch" or catalogue.missing("dutch-36") is None}
    later = [(method, seed) for seed in range(SEEDS) for method in SYNTHESIZERS if seed < method.seeds]
    before = _children_seconds()
    for method, seed in dict.fromkeys((*FIRST, *later)):
        for data, (truth, label) in truths.items():
            started = _target(data, method, seed).exists() or _children_seconds() - before < total
            if started and not _known(data, method, seed, limit):
                sys.stderr.write(f"{data}, {method.name}, seed {seed}\n")
                run = {"data": data, "method": method.name, "seed": seed}
                _store({**run, **_scored(data, method, seed, truth, label, limit)})


def stored() -> list[Run]:
    """All runs that were made, also those that were ended."""
    return json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []


def _store(run: Run) -> None:
    same = [run[key] for key in ("data", "method", "seed")]
    others = [r for r in stored() if [r[key] for key in ("data", "method", "seed")] != same]
    RESULT.write_text(json.dumps([*others, run], indent=1) + "\n", encoding="utf-8")
    sys.stderr.write(f"{run}\n")


def _known(data: str, method: Synthesizer, seed: int, limit: int) -> bool:
    """Whether there is no need to run: it is done, or was ended at this limit, with this seed or an earlier one."""
    own = [r for r in stored() if (r["data"], r["method"]) == (data, method.name)]
    done = any(r["seed"] == seed and "over" not in r for r in own)
    return done or any(r.get("over", 0) >= limit * method.patience and r["seed"] <= seed for r in own)


def lines(data: str) -> list[dict[str, object]]:
    """One line for each method, the mean of its runs."""
    out = []
    for method in SYNTHESIZERS:
        own = [r for r in stored() if (r["data"], r["method"]) == (data, method.name)]
        found, over = [r for r in own if "over" not in r], [r["over"] for r in own if "over" in r]
        told = f"{len(found)} of {method.seeds} seeds in the time" if found else "not started in the time"
        note = f"over {max(over)} CPU s" if over else "" if len(found) == method.seeds else told
        line: dict[str, object] = {"data": data, "method": method.name, "seeds": len(found)}
        line |= {
            name: float(np.mean([r[name] for r in found if name in r]))
            for name in TOLD
            if any(name in r for r in found)
        }
        out.append({**line, "not finished": note})
    return out


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


def _target(data: str, method: Synthesizer, seed: int) -> Path:
    return WORK / f"{data}-{'-'.join(o.strip('-') for o in method.options)}-{seed}.npz"


def _scored(data: str, method: Synthesizer, seed: int, truth: Truth, label: int, limit: int) -> Run:
    """The scores of one run; rows that are in .cache already are used again."""
    source, target, most = WORK / f"{data}.npz", _target(data, method, seed), limit * method.patience
    if not target.exists() and not _fit(method, source, target, 1 / len(truth.train), seed, most):
        return {"over": most}
    held = np.load(target)
    scores = score_rows(held["codes"], truth, label)
    return {**scores, "quality": quality(source, target), **_cost(held)}


def _cost(held: Mapping[str, Any]) -> Run:
    """Seconds of CPU, or of the clock where a GPU did the work, and how large the model became."""
    device = str(held["device"]) if "device" in held else "CPU"
    size = {name: float(held[name]) for name in ("megabytes", "tables") if name in held}
    return {f"{device} s": float(held["seconds"]), "device": device, **size}


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
    if done.returncode not in (0, -signal.SIGXCPU, -signal.SIGKILL):
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.returncode == 0


def quality(source: Path, rows: Path) -> float | None:
    """SDMetrics' quality score of rows, where the other environment is there."""
    if not PYTHON.exists() or not source.exists():
        return None
    command = [str(PYTHON), str(PROGRAMS / "score_rows.py"), str(source), str(rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
