"""An alignment over the network on several cores: the same release, workers that go, work that is never lost."""

from __future__ import annotations

import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from colonnade.mechanism.release import write_release
from colonnade.transport import pool
from colonnade.transport.pool import LONG, steady_workers
from tests.network.wires import PARTIES, Run, run, write_study

SEED = b"a seed of tests"


class Watched(ThreadPoolExecutor):
    """Counts its jobs, and says when it is told to go."""

    def __init__(self) -> None:
        super().__init__(2)
        self.jobs, self.gone = 0, False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.gone = True
        super().shutdown(wait, cancel_futures=cancel_futures)


class Lost(Executor):
    """A pool whose workers were killed, at once or while they worked."""

    def __init__(self, at_once: bool) -> None:
        self._at_once = at_once

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._at_once:
            raise BrokenProcessPool("killed")
        job: Future[Any] = Future()
        job.set_exception(BrokenProcessPool("killed"))
        return job


def released(out: Run) -> set[bytes]:
    assert not out.errors, out.errors
    return {write_release(release) for release in out.releases.values()}


def test_the_same_release_and_the_workers_go(tmp_path: Path) -> None:
    study, made, asked = write_study(tmp_path), list[Watched](), list[int]()

    def crew(points: int) -> Executor:
        asked.append(points)
        made.append(Watched())
        return made[-1]

    with_workers = released(run(study, tmp_path, SEED, crew=crew))
    assert sorted(asked) == [55, 57, 60] and len(made) == len(PARTIES)
    assert all(one.gone and one.jobs for one in made)
    assert with_workers == released(run(study, tmp_path, SEED))


@pytest.mark.parametrize("at_once", [True, False])
def test_work_of_lost_workers_is_done_here(tmp_path: Path, at_once: bool) -> None:
    study = write_study(tmp_path)
    out = run(study, tmp_path, SEED, crew=lambda points: pool._Steady(Lost(at_once)))
    assert released(out) == released(run(study, tmp_path, SEED))


def test_workers_go_when_a_session_breaks(tmp_path: Path) -> None:
    study, made = write_study(tmp_path), list[Watched]()
    (tmp_path / "town.csv").write_text((tmp_path / "town.csv").read_text().replace("\np", "\nq"))

    def crew(points: int) -> Executor:
        made.append(Watched())
        return made[-1]

    assert set(run(study, tmp_path, crew=crew).errors) == set(PARTIES)
    assert len(made) == len(PARTIES) and all(one.gone for one in made)


def test_short_lists_have_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "cores", lambda: 2)
    assert steady_workers(LONG - 1) is None
    crew = steady_workers(LONG)
    assert crew is not None
    crew.shutdown()
    monkeypatch.setattr(pool, "cores", lambda: 1)
    assert steady_workers(LONG) is None


def _answer(value: int) -> int:
    return value + 1


def test_workers_start_anew_and_a_killed_one_costs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with threads must not be forked: the workers are other programs, and one of them is killed."""
    started: list[str] = []

    class Noted(ProcessPoolExecutor):
        def __init__(self, count: int, context: Any, begin: Any) -> None:
            started.append(context.get_start_method())
            super().__init__(1, context, begin)

    monkeypatch.setattr(pool, "ProcessPoolExecutor", Noted)
    monkeypatch.setattr(pool, "cores", lambda: 2)
    crew = steady_workers(LONG)
    assert crew is not None and started == ["spawn"]
    worker = crew.submit(os.getpid).result()
    assert worker != os.getpid()
    os.kill(worker, signal.SIGKILL)
    assert [crew.submit(_answer, k).result() for k in range(3)] == [1, 2, 3]
    with pytest.raises(BrokenExecutor):
        crew._executor.submit(_answer, 1).result()  # type: ignore[attr-defined]
    crew.shutdown(cancel_futures=True)
