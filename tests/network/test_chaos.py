"""The moments of kill -9 that matter most, as real processes; `make chaos` tries all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drills.chaos import AFTER, BEFORE, SERVER

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("victim", "number", "moment", "counts"),
    [
        # Booked and not sent; sent and nothing heard of it; the server with two of three; with all, not opened yet.
        ("bank", 1, BEFORE, 0),
        (SERVER, 3, BEFORE, 0),
        (SERVER, 3, AFTER, None),
    ],
)
def test_kill_around_the_submission(victim: str, number: int, moment: str, counts: int | None) -> None:
    """Ledgers agree with what was opened, and the restarted session costs one session, no more."""
    # In a process of its own: it forks, and this one may have threads.
    call = ["--victim", victim, "--at", str(number), "--moment", moment, "--step", "submit"]
    done = subprocess.run(
        [sys.executable, "-m", "drills.chaos", *call],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    struck, before = json.loads(done.stdout)
    assert struck
    if counts is not None:
        assert before == counts
