"""Alignment on all cores: the same rows as on one, and one core wherever there can be no workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric
from colonnade.spool import part
from colonnade.table import Table, table_from
from colonnade.transport import embedded, pool

PEOPLE = {"a": range(40), "b": range(60, 5, -1)}

Pools = list[ProcessPoolExecutor]


def tables() -> dict[str, Table]:
    """Everyone's only value is their number."""
    out = {}
    for name, people in PEOPLE.items():
        frame = pl.DataFrame({"number": [float(k) for k in people]})
        out[name] = table_from(name, frame, {"number": Numeric(0, 100)}, [f"p{k}" for k in people])
    return out


def aligned() -> list[list[int]]:
    """Who stands in which row, at each party."""
    found = embedded.align(tables(), "psi", Randomness(seed=b"seed"))
    return [[int(k) for k in part(table.values["number"], 0, table.rows)] for table in found.values()]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    """The pools that were made, with two cores and a threshold that these few ids pass."""
    made: Pools = []

    class Watched(ProcessPoolExecutor):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(pool, "ProcessPoolExecutor", Watched)
    monkeypatch.setattr(pool, "BATCH", 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return made


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What one core finds."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    return aligned()


def test_one_core_has_no_workers(pools: Pools, alone: list[list[int]]) -> None:
    assert pools == []
    assert alone[0] == alone[1]
    assert sorted(alone[0]) == sorted(set(PEOPLE["a"]) & set(PEOPLE["b"]))


def test_a_short_list_has_no_workers(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BATCH", 60)
    aligned()
    assert pools == []


def test_workers_find_the_same_rows(alone: list[list[int]], pools: Pools) -> None:
    assert aligned() == alone
    assert len(pools) == 1


def test_workers_that_die_are_done_without(
    alone: list[list[int]], pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: ProcessPoolExecutor, *_: object) -> Future[bytes]:
        return submit(self, os._exit, 1)

    submit = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", die)
    assert aligned() == alone
    with pytest.raises(BrokenProcessPool):
        pools[0].submit(len, ()).result()


def test_no_processes_left(alone: list[list[int]], pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BlockingIOError(11, "no process left")

    monkeypatch.setattr(os, "fork", full)
    assert aligned() == alone
    assert len(pools) == 1


KILLED = """
import os, signal, time
from colonnade.transport import pool
pool.BATCH = 1
workers = pool.point_workers(9)
print(*{workers.submit(os.getpid).result() for _ in range(9)}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_process_that_was_killed() -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one core has no workers")
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=60)
    workers = [int(pid) for pid in done.stdout.split()]
    assert workers and done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


SPAWNING = """
import multiprocessing
multiprocessing.set_start_method("spawn")
from tests.end_to_end.test_alignment_workers import aligned, pool
pool.BATCH = 30
print(aligned())
"""
CHILDLESS = """
import multiprocessing
from tests.end_to_end.test_alignment_workers import aligned, pool
pool.BATCH = 30
child = multiprocessing.get_context("fork").Process(target=lambda: print(aligned(), flush=True), daemon=True)
child.start()
child.join()
"""


@pytest.mark.parametrize("script", [SPAWNING, CHILDLESS], ids=["spawn without a guard", "may have no children"])
def test_programs_that_workers_must_not_break(script: str, alone: list[list[int]], tmp_path: Path) -> None:
    """A spawned worker would run the script anew; a daemon may not start one."""
    (tmp_path / "script.py").write_text(script)
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{alone}\n", "")
