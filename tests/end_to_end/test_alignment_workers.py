"""Alignment on all cores: the same rows as on one, and one core wherever there can be no workers."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric
from colonnade.table import Table, table_from
from colonnade.transport import embedded

IDS = {"a": [f"p{k}" for k in range(40)], "b": [f"p{k}" for k in range(60, 5, -1)]}

Pools = list[ProcessPoolExecutor]


def tables() -> dict[str, Table]:
    out = {}
    for name, ids in IDS.items():
        frame = pl.DataFrame({f"x{name}": [0.5] * len(ids)})
        out[name] = table_from(name, frame, {f"x{name}": Numeric(0, 1)}, ids)
    return out


def aligned() -> list[list[str]]:
    found = embedded.align(tables(), "psi", Randomness(seed=b"seed"))
    return [list(table.ids or []) for table in found.values()]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    """The pools that were made, with two cores and a threshold that these few ids pass."""
    made: Pools = []

    class Watched(ProcessPoolExecutor):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(embedded, "ProcessPoolExecutor", Watched)
    monkeypatch.setattr(embedded, "BATCH", 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return made


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What one core finds."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    return aligned()


def test_one_core_has_no_workers(pools: Pools, alone: list[list[str]]) -> None:
    assert pools == []
    assert alone[0] == alone[1]
    assert set(alone[0]) == set(IDS["a"]) & set(IDS["b"])


def test_a_short_list_has_no_workers(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "BATCH", 60)
    aligned()
    assert pools == []


def test_workers_find_the_same_rows(alone: list[list[str]], pools: Pools) -> None:
    assert aligned() == alone
    assert len(pools) == 1


def test_workers_that_die_are_done_without(
    alone: list[list[str]], pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: ProcessPoolExecutor, *_: object) -> Future[bytes]:
        return submit(self, os._exit, 1)

    submit = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", die)
    assert aligned() == alone
    with pytest.raises(BrokenProcessPool):
        pools[0].submit(len, ()).result()


def test_no_processes_left(alone: list[list[str]], pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BlockingIOError(11, "no process left")

    monkeypatch.setattr(os, "fork", full)
    assert aligned() == alone
    assert len(pools) == 1


def test_a_program_that_may_have_no_children(alone: list[list[str]], pools: Pools) -> None:
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(aligned()), daemon=True)
    child.start()
    assert reader.poll(60)
    assert reader.recv() == alone
    child.join(60)


SCRIPT = """
import multiprocessing
multiprocessing.set_start_method("spawn")
from colonnade.transport import embedded
from tests.end_to_end.test_alignment_workers import aligned
embedded.BATCH = 30
print(aligned()[0] == aligned()[1])
"""


def test_a_script_without_a_guard_that_prefers_spawn(tmp_path: Path) -> None:
    """Under spawn a worker would run the script anew."""
    (tmp_path / "script.py").write_text(SCRIPT)
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")
