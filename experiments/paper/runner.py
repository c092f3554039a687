"""Run the fits that are not in the store yet, a split at a time, in worker processes, with progress on stderr."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from experiments.paper import catalogue
from experiments.paper.methods import Cell, Result, run, unavailable
from experiments.paper.store import DEFAULT, SEED, Store, name_of, seed_of


@dataclass(frozen=True)
class Job:
    """The missing fits of one split, each with the name it is filed under, made once in the first process."""

    data: str
    number: int
    cells: tuple[tuple[str, Cell], ...]
    path: Path
    seed: int


@dataclass(frozen=True)
class Finished:
    """A cell with its fits in the order of the replicates; empty when it could not run, with the reason."""

    cell: Cell
    results: tuple[Result, ...]
    reason: str = ""

    @property
    def scores(self) -> list[float]:
        return [result["score"] for result in self.results]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def std(self) -> float:
        """The population standard deviation, as everywhere in the tables."""
        return statistics.pstdev(self.scores)


@dataclass(frozen=True)
class Settings:
    """How a grid of cells is run."""

    runs: int = 10
    workers: int = 2
    seed: int = SEED
    path: Path = DEFAULT
    quiet: bool = False
    runs_of: Callable[[Cell, int], int] = lambda cell, runs: runs
    """How many of the splits a cell is run on."""


def finish(cells: Sequence[Cell], settings: Settings) -> list[Finished]:
    """Every cell with its fits, run now or taken from the store."""
    store = Store(settings.path)
    jobs = list(_jobs(cells, settings, store))
    if jobs:
        _run(jobs, settings)
        store = Store(settings.path)
    return [_finished(cell, settings, store) for cell in cells]


def _finished(cell: Cell, settings: Settings, store: Store) -> Finished:
    found = [store.get(name_of(cell, number, settings.seed)) for number in range(settings.runs_of(cell, settings.runs))]
    if any(result is None for result in found):
        return Finished(cell, (), catalogue.missing(cell.data) or unavailable(cell.method) or "it did not finish")
    return Finished(cell, tuple(result for result in found if result is not None))


def _jobs(cells: Sequence[Cell], settings: Settings, store: Store) -> Iterator[Job]:
    """What is to be done for each split of each data set."""
    for data in dict.fromkeys(cell.data for cell in cells):
        if catalogue.missing(data):
            continue
        own = [cell for cell in cells if cell.data == data and not unavailable(cell.method)]
        for number in range(settings.runs):
            asked = [cell for cell in own if number < settings.runs_of(cell, settings.runs)]
            named = [(name_of(cell, number, settings.seed), cell) for cell in asked]
            todo = tuple((name, cell) for name, cell in named if store.get(name) is None)
            if todo:
                yield Job(data, number, todo, settings.path, settings.seed)


def _run(jobs: list[Job], settings: Settings) -> None:
    total, done, start = sum(len(job.cells) for job in jobs), 0, time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(settings.workers, len(jobs)), mp_context=context) as pool:
        for future in as_completed([pool.submit(_work, job) for job in jobs]):
            job = future.result()
            done += len(job.cells)
            if not settings.quiet:
                spent = time.monotonic() - start
                told = f"{done}/{total} fits, {job.data} split {job.number} done, {spent:.0f} s"
                sys.stderr.write(f"{told}, about {spent * (total - done) / done:.0f} s left\n")


def _work(job: Job) -> Job:
    store = Store(job.path)
    replicate = catalogue.replicate(job.data, job.number)
    for name, cell in job.cells:
        start = time.process_time()
        result = run(cell, replicate, seed_of(cell, job.number, job.seed))
        store.put(name, result | {"cpu_seconds": time.process_time() - start})
    return job
