"""AIM and MST beside a release's rows: run in an environment of their own, scored as our own rows are."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colonnade.analysis.released import Released
from experiments.paper import catalogue
from experiments.paper.store import ROOT
from experiments.paper.synthesis import DATA, Codes, Truth, release_of, replicate, score_rows
from experiments.paper.tables import RESULTS

WORK = ROOT / ".cache" / "synthesizers"
PYTHON = WORK / "venv" / "bin" / "python"
PROGRAMS = ROOT / "experiments" / "synthesizers"
RESULT = RESULTS / "synthesis_baselines.json"
LIMIT = 300
"""CPU seconds of one run."""
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
    Synthesizer("AIM, its settings: 80 MB, 1000 iterations", ("AIM",)),
    Synthesizer("AIM, cut down: 4 MB, 100 iterations", ("AIM", "--megabytes", "4", "--iterations", "100")),
    Synthesizer("MST, add/remove", ("MST", "--add-remove"), 1),
)


def study(limit: int = LIMIT) -> list[dict[str, object]]:
    """One line for each method and data set; rows of finished runs are kept in .cache and used again."""
    if not PYTHON.exists():
        raise SystemExit(f"{PYTHON.relative_to(ROOT)} is missing: run `make synthesis-baselines`")
    WORK.mkdir(parents=True, exist_ok=True)
    lines = []
    for data in DATA:
        if data == "Dutch" and catalogue.missing("dutch-36"):
            continue
        rows = replicate(data)
        released = Released(release_of(rows, data, 10.0, True, b"shape"))
        truth = Truth.of(rows, released)
        source = WORK / f"{data}.npz"
        np.savez(source, codes=truth.train, sizes=[s.stop - s.start for s in truth.spans])
        for method in SYNTHESIZERS:
            found = [
                {**score_rows(drawn, truth, released.layout.label), "quality": quality(source, path), "CPU s": seconds}
                for path, drawn, seconds in _runs(data, method, source, 1 / rows.n, limit)
            ]
            line: dict[str, object] = {"data": data, "method": method.name, "seeds": len(found), "limit": limit}
            line |= {name: float(np.mean([f[name] for f in found])) for name in (found[0] if found else {})}
            sys.stderr.write(f"{line}\n")
            lines.append(line)
            RESULT.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return lines


def _runs(
    data: str, method: Synthesizer, source: Path, delta: float, limit: int
) -> Iterator[tuple[Path, Codes, float]]:
    """The rows of each seed, until one does not finish: then the others would not either."""
    for seed in range(method.seeds):
        target = WORK / f"{data}-{'-'.join(o.strip('-') for o in method.options)}-{seed}.npz"
        late = target.with_suffix(f".over-{limit}-s")
        if late.exists() or not (target.exists() or _fit(method, source, target, delta, seed, limit)):
            late.touch()
            return
        held = np.load(target)
        yield target, held["codes"], float(held["seconds"])


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
    if not PYTHON.exists():
        return None
    command = [str(PYTHON), str(PROGRAMS / "score_rows.py"), str(source), str(rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
