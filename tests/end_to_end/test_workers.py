"""The same release, bit for bit, from one thread, several, or a cluster's processes, even if one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade.data.gate import Coding, code_block
from colonnade.data.reading import FilePart
from colonnade.data.store import Values
from colonnade.foundation.errors import BrokenColumns, ColonnadeError, StudyError
from colonnade.foundation.integers import CodedBlock
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.pool import open_workers
from colonnade.runs import UNSEEN, Observer
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec, study_from
from tests.helpers.cli_study import runner, write_study

ROWS = 150_000
SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudySpec:
    folder = tmp_path_factory.mktemp("workers")
    draw, party = np.random.default_rng(3), {}
    for name in ("a", "b"):
        frame = pl.DataFrame({f"{name}{k}": draw.uniform(-1.2, 1.2, ROWS) for k in range(3)})
        frame.write_parquet(folder / f"{name}.parquet", row_group_size=20_000)
        columns = {column: {"kind": "numeric", "low": -1, "high": 1} for column in frame.columns}
        party[name] = {"data": f"{name}.parquet", "columns": columns}
    terms = {"name": "w", "task": "linear", "label": "b2", "epsilon": 1.0, "alignment": "none"}
    return study_from({"study": terms, "party": party}, folder)


def release(study: StudySpec, observer: Observer = UNSEEN, **given: object) -> bytes:
    with open_workers(**given) as workers:  # type: ignore[arg-type]
        tables = {
            name: replace(source, id=None).read(name, study.agreement.schema.parties[name], workers)
            for name, source in study.sources.items()
        }
        seed = Randomness(seed=b"workers")
        return write_release(run_unguarded(study.agreement, tables, "none", seed, observer, workers=workers).release)


@pytest.fixture(scope="module")
def alone(study: StudySpec) -> bytes:
    return release(study, count=1)


def test_threads_change_nothing(study: StudySpec, alone: bytes) -> None:
    assert release(study, count=3) == alone


class Cluster:
    """A scheduler and two workers on the loopback address, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        here = {**os.environ, "PYTHONPATH": str(SRC), "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False"}
        common = ["--host", "127.0.0.1", "--no-dashboard"]

        def start(module: str, *options: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *common, *options]
            return subprocess.Popen(command, env=here, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        place = ["--scheduler-file", str(self.file)]
        self.scheduler = start("dask_scheduler", "--port", "0", *place)
        self.workers = [start("dask_worker", "--nthreads", "1", "--no-nanny", *place) for _ in range(2)]

    def address(self) -> str:
        from distributed import Client

        with Client(scheduler_file=str(self.file), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            return str(client.scheduler.address)

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.terminate()
        for process in (*self.workers, self.scheduler):
            process.wait(30)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if find_spec("distributed") is None:
        pytest.skip("the extra dask is not installed")
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


Bend = Callable[[np.ndarray, np.ndarray, np.ndarray], object]
BENT: dict[str, Bend] = {
    "an entry outside": lambda rows, sums, excess: rows.__setitem__((5, 0), 3000),
    "an entry that is another": lambda rows, sums, excess: rows.__setitem__((5, 0), 1 - rows[5, 0]),
    "a sum that is another": lambda rows, sums, excess: sums.__setitem__((1, 1), sums[1, 1] + 1),
    "a sum that is no number": lambda rows, sums, excess: sums.__setitem__((0, 2), np.nan),
    "too large an excess": lambda rows, sums, excess: excess.__setitem__(0, len(rows)),
    "no rows": lambda rows, sums, excess: "cut",
}


@pytest.mark.parametrize("what", BENT)
def test_a_block_that_comes_back_bent_from_another_process_is_refused(
    study: StudySpec, cluster: Cluster, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bend, real = BENT[what], code_block

    def bent(coding: Coding, values: Mapping[str, Values], before: int, rows: int) -> CodedBlock:
        block = real(coding, values, before, rows)
        # Of the second block alone: the first one is taken.
        cut = bend(block.rows, block.products, block.excess) == "cut" if before else False
        return CodedBlock(block.rows[:-1], block.products, block.excess) if cut else block

    monkeypatch.setattr("colonnade.data.table.code_block", bent)
    with pytest.raises(ColonnadeError) as refused:
        release(study, cluster=cluster.address())
    assert isinstance(refused.value, BrokenColumns) or "internal-error" in str(refused.value)


def opened(study: StudySpec, **given: object) -> bytes:
    """The release of files that are read when they are coded."""
    with open_workers(**given) as workers:  # type: ignore[arg-type]
        schema = study.agreement.schema.parties
        tables = {name: source.open(name, schema[name], workers) for name, source in study.sources.items()}
        seed = Randomness(seed=b"workers")
        return write_release(run_unguarded(study.agreement, tables, "none", seed, workers=workers).release)


def test_workers_read_parts_themselves(
    study: StudySpec, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, alone: bytes
) -> None:
    assert opened(study, count=1) == alone
    read, real = list[int](), FilePart.frame

    def frame(part: FilePart, *given: Any) -> pl.DataFrame:
        read.append(part.rows)
        return real(part, *given)

    # In this process alone: workers have their own.
    monkeypatch.setattr(FilePart, "frame", frame)
    assert opened(study, cluster=cluster.address()) == alone
    assert not read
    monkeypatch.setattr("colonnade.data.reading.stamp_of", lambda file: (file.stat().st_size, 1))
    assert opened(study, cluster=cluster.address()) == alone, "a file that another process does not see as it is"
    assert sum(read) == 2 * ROWS


def test_two_processes_and_a_killed_one_change_nothing(study: StudySpec, alone: bytes, cluster: Cluster) -> None:
    address = cluster.address()
    assert release(study, cluster=address) == alone
    killed: list[float] = []

    def kill(name: str, share: float) -> None:
        if name == "products" and share > 0 and not killed:
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            cluster.workers[0].wait(30)
            killed.append(share)

    observer = Observer()
    observer.step = kill  # type: ignore[method-assign]
    assert release(study, observer, cluster=address) == alone
    assert 0 < killed[0] < 0.9, "the worker must be killed in mid-run"
    os.kill(cluster.workers[1].pid, signal.SIGKILL)
    cluster.workers[1].wait(30)
    deadline = time.monotonic() + 60
    with pytest.raises(StudyError, match="has no workers"):
        while time.monotonic() < deadline:
            with open_workers(cluster=address):
                time.sleep(0.2)


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("distributed") is None:
        pytest.skip("the extra dask is not installed")
    monkeypatch.setattr("colonnade.pool.CONNECT_SECONDS", 1)
    with (
        pytest.raises(StudyError, match=r"there is no cluster at tcp://127\.0\.0\.1:9"),
        open_workers(cluster="tcp://127.0.0.1:9"),
    ):
        pass
    monkeypatch.setattr("colonnade.pool.find_spec", lambda name: None)
    with (
        pytest.raises(StudyError, match="pip install 'colonnade\\[dask\\]'"),
        open_workers(cluster="tcp://127.0.0.1:9"),
    ):
        pass


def test_the_command_takes_workers_and_refuses_a_card_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capfd)
    write_study(tmp_path)
    common = ("fit", tmp_path / "study.toml", "--seed", "00", "--json")
    for count in (1, 2):
        assert run(*common, "--workers", count, "--out", tmp_path / f"{count}.json").code == 0
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
    assert run(*common, "--workers", 0).code == 2
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused = run(*common, "--device", "cuda", "--out", tmp_path / "3.json")
    assert refused.code == 1
    assert refused.err.startswith("error: device cuda needs CuPy")
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "3.json").exists()


def test_parquet_in_its_own_order_gives_the_release_of_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without alignment Parquet is coded as it is read, and what was clipped is told after the run."""
    run = runner(monkeypatch, capfd)
    write_study(tmp_path)
    study = (tmp_path / "study.toml").read_text().replace('"psi"', '"none"').replace("high = 80", "high = 50")
    works = pl.read_csv(tmp_path / "works.csv")[:230]
    works.write_csv(tmp_path / "works.csv")
    (tmp_path / "csv.toml").write_text(study)
    (tmp_path / "parquet.toml").write_text(study.replace(".csv", "*.parquet"))
    for k, part in enumerate((works[:100], works[100:])):
        part.write_parquet(tmp_path / f"works-{k}.parquet")
    pl.read_csv(tmp_path / "bank.csv").write_parquet(tmp_path / "bank.parquet")
    outside = works.filter(pl.col("hours") > 50).height
    for kind in ("csv", "parquet"):
        done = run("fit", tmp_path / f"{kind}.toml", "--seed", "00", "--out", tmp_path / f"{kind}.json")
        assert done.code == 0, done.err
        assert f"works (for its own eyes): {outside} values of hours were clipped to its bounds" in done.err
    assert (tmp_path / "csv.json").read_bytes() == (tmp_path / "parquet.json").read_bytes()
