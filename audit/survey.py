"""Many studies attacked: every mechanism, K and collusion, on all cores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from audit.probes import SCALE, noise_gaps
from audit.studies import MECHANISMS, Mechanism, lean
from colonnade.audit.findings import Finding, Stage
from colonnade.audit.transcript import Sample
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.simulation import run_unguarded

CHUNK = 100


@dataclass(frozen=True)
class Case:
    """A mechanism, K and c, with the sessions on each data set and the noise drawn without sessions."""

    mechanism: Mechanism
    parties: int
    collusion: int
    sessions: int
    numbers: int

    def stage(self) -> Stage:
        return Stage(lean(self.parties, self.collusion, **self.mechanism.changes))

    @property
    def name(self) -> str:
        return f"{self.mechanism.name} K={self.parties} c={self.collusion}"


@dataclass(frozen=True)
class Attacked:
    mechanism: str
    parties: int
    collusion: int
    sessions: int
    findings: list[Finding]


def cases(sessions: dict[int, int], numbers: int) -> Iterator[Case]:
    """All mechanisms, c = 0 and 1, and c = 2 for three parties and more; K and its sessions are given."""
    for mechanism in MECHANISMS:
        for parties, runs in sessions.items():
            for collusion in (0, 1) if parties == 2 else (0, 1, 2):
                yield Case(mechanism, parties, collusion, runs, numbers)


def _chunk(case: Case, data: int, part: int, runs: int, seed: bytes) -> Sample:
    return case.stage().sample(data, runs, Randomness(seed).child(f"{case.name} data {data} part {part}"))


def _findings(case: Case, samples: list[Sample], seed: bytes) -> list[Finding]:
    return case.stage().findings(samples, case.numbers, Randomness(seed).child(f"{case.name} draws"))


def attack(wanted: Sequence[Case], seed: bytes, jobs: int) -> Iterator[Attacked]:
    """What each case's sessions prove, in order."""
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        waiting = []
        for case in wanted:
            parts = []
            for data in range(len(case.stage().tables)):
                sizes = [min(CHUNK, case.sessions - start) for start in range(0, case.sessions, CHUNK)]
                parts.append([pool.submit(_chunk, case, data, i, size, seed) for i, size in enumerate(sizes)])
            waiting.append((case, parts))
        for case, parts in waiting:
            samples = [Sample.joined([chunk.result() for chunk in part]) for part in parts]
            # Here, while the pool goes on with the next case.
            found = _findings(case, samples, seed)
            yield Attacked(case.mechanism.name, case.parties, case.collusion, sum(map(len, samples)), found)


@dataclass(frozen=True)
class Grids:
    """Released values looked at in the files themselves, and how many are no integers."""

    files: int
    values: int
    off: int
    impossible: float


def grids(files: int, randomness: Randomness) -> Grids:
    """Release files of every mechanism, read as text: a value on the grid is written as an integer."""
    values = off = 0
    for mechanism in MECHANISMS:
        stage = Stage(lean(3, 1, **mechanism.changes))
        for i in range(files):
            source = randomness.child(f"{mechanism.name} {i}")
            release = run_unguarded(stage.agreement, stage.tables[0], "none", source).release
            content = json.loads(write_release(release))
            found = [v for block in content["blocks"] for v in block["values"]]
            values, off = values + len(found), off + sum(type(v) is not int for v in found)
    return Grids(files * len(MECHANISMS), values, off, noise_gaps(SCALE, 20_000, randomness.child("gaps"))[1])
