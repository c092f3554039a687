"""A small form of `python -m experiments whole`, and what a command must not import to start quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import whole

ROOT = Path(__file__).parents[2]
SLOW = {"dp_accounting", "jinja2", "numba", "pandas", "pydantic", "scipy", "sklearn", "starlette", "uvicorn"}
"""What takes longer to import than `colonnade --help` may take."""
SESSION = "sqlite3 colonnade.crypto.backends colonnade.protocol.messages"
"""What a plan needs of sessions and ledgers, and a model of a release does not."""
RUNS_SESSIONS = {
    "colonnade.crypto.alignment.party",
    "colonnade.crypto.bgn.pairing",
    "colonnade.crypto.chains.party",
    "colonnade.protocol.party",
    "colonnade.protocol.server",
    "nvflare",
}
"""What only takes part in sessions."""
RUN = (
    "colonnade.runs",
    "colonnade.analysis.intervals",
    "colonnade.analysis.solve",
    "colonnade.report.answers.fit",
    "colonnade.report.render.terminal",
    "colonnade.report.text",
    "colonnade.model",
    "colonnade.pool",
)
"""What `fit` imports when it runs."""


def loaded(*modules: str) -> set[str]:
    code = f"import sys, {', '.join(modules)}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_imports_nothing_slow() -> None:
    assert not SLOW & loaded("colonnade.cli")


def test_a_fit_imports_only_what_it_uses() -> None:
    found = loaded("colonnade.cli", *RUN)
    assert "scipy.special" in found
    assert not (SLOW - {"scipy", "pydantic"}) & found
    assert not {"scipy.stats", "scipy.optimize", "scipy.fft"} & found


WATCHER = """
import sys, traceback
SLOW, MAY = set(sys.argv[1].split()), set(sys.argv[2].split())

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name in SLOW - MAY:
            ours = [f for f in traceback.extract_stack() if "colonnade" in f.filename and f.filename[0] != "<"]
            print(f"{name} by {ours[-1].filename}:{ours[-1].lineno}", file=sys.stderr)

sys.meta_path.insert(0, Watcher())
sys.argv[1:] = sys.argv[3:]
from colonnade.cli import main
main()
"""
"""Runs a command, and says on standard error whose line imports what is slow."""


@pytest.mark.parametrize(
    ("may", "command"),
    [
        (SESSION, ("plan", "demo/study.toml", "--rows", "14146")),
        ("", ("solve", "tests/goldens/release.json")),
        (f"{SESSION} jinja2", ("report", "tests/goldens/release.json", "--html", "report.html", "--json")),
    ],
)
def test_commands_import_nothing_slow_when_they_run(tmp_path: Path, may: str, command: tuple[str, ...]) -> None:
    watched = SLOW - {"scipy", "pydantic"} | {"polars", "scipy.stats", "scipy.signal", "scipy.optimize"} | RUNS_SESSIONS
    watched |= set(SESSION.split())
    words = [str(ROOT / word) if "/" in word else word for word in command]
    call = [sys.executable, "-c", WATCHER, " ".join(watched), may, *words]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " by " not in done.stderr, f"colonnade {command[0]} imports {done.stderr}"


@pytest.mark.parametrize("aligned", [False, True])
def test_made_studies_are_the_same_records(tmp_path: Path, aligned: bool) -> None:
    import polars as pl

    whole.write_study(tmp_path, 400, 8, 3, aligned)
    frames = [pl.read_parquet(tmp_path / f"p{k}.parquet") for k in range(3)]
    if aligned:
        assert {frame.height for frame in frames} == {400}
        return
    assert {frame.height for frame in frames} == {440}
    assert frames[0].join(frames[1], on="person").join(frames[2], on="person").height == 400
    assert not frames[0]["person"].equals(frames[1]["person"])


def test_a_small_study_beside_the_clear() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "whole.py"), "--json", "--runs", "1", "--as-found"]
    command += ["--rows", "2000", "--columns", "6", "--parties", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    for side in ("private", "clear"):
        assert 0 < found[f"{side}_work_seconds"] < found[f"{side}_cpu_seconds"]
    assert found["ratio"] == pytest.approx(found["private_cpu_seconds"] / found["clear_cpu_seconds"])
    assert found["work_ratio"] == pytest.approx(found["private_work_seconds"] / found["clear_work_seconds"])
    assert tuple(found["steps"]) == whole.STEPS
    assert all(found["steps"][step] > 0 for step in ("imports", "read", "align", "plan", "products", "solve", "write"))
    assert found["rows"] == 2000
    assert found["accuracy"]["clear"] > found["accuracy"]["majority"]
    assert 0.4 < found["accuracy"]["private"] <= 1.0
