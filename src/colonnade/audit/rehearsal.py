"""A bounded audit of one study: as many sessions as fit into some seconds, then noise without sessions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from colonnade.audit.transcript import Sample
from colonnade.audit.views import Finding, Stage
from colonnade.foundation.randomness import Randomness
from colonnade.planning.agreement import Agreement

CHUNK = 20
"""Sessions on one data set before the next has its turn."""
NUMBERS = 3_000_000
"""Of noise without sessions, for D and for its neighbours each."""


@dataclass(frozen=True)
class Rehearsal:
    """What an audit of a study found."""

    findings: list[Finding]
    sessions: int
    rows: int


def rehearse(
    agreement: Agreement, seconds: float, rows: int | None = None, randomness: Randomness | None = None
) -> Rehearsal:
    """Attack a study's plan on invented data until the time is up; at least one chunk on each data set."""
    source = Randomness() if randomness is None else randomness
    stage = Stage(replace(agreement, product="lattice"), rows)
    parts: list[list[Sample]] = [[] for _ in stage.tables]
    end = time.monotonic() + seconds
    turn = 0
    while turn == 0 or time.monotonic() < end:
        for data, samples in enumerate(parts):
            samples.append(stage.sample(data, CHUNK, source.child(f"data {data} turn {turn}")))
        turn += 1
    samples = [Sample.joined(part) for part in parts]
    findings = stage.findings(samples, NUMBERS, source.child("draws"))
    return Rehearsal(findings, sum(map(len, samples)), stage.session.rows)
