"""Rows of many releases, each scored once: lines are kept in .cache/synthesis, and a run resumes where it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from colonnade.analysis.released import Released
from colonnade.mechanism.objective import Purpose
from experiments.paper import catalogue
from experiments.paper.store import ROOT
from experiments.paper.synthesis import (
    DATA,
    RowsCase,
    Truth,
    every_label_by_rows,
    release_of,
    replicate,
    score_case,
)
from experiments.paper.synthesis_baselines import TOLD, WORK, quality
from experiments.paper.synthesis_baselines import lines as lines_of_others

KEPT = ROOT / ".cache" / "synthesis"
SEEDS = 3
SHOWN = ("TV1", "TV2", "TV3", "TV2 of the tables", "planned", "forecast", "solve", "LR", "boosting", "all labels")


def cases() -> Iterator[RowsCase]:
    """All releases, those that answer most first."""
    data = [key for key in reversed(DATA) if key != "Dutch" or catalogue.missing("dutch-36") is None]

    def each(purpose: Purpose, epsilon: float, laws: tuple[bool, ...], seeds: range) -> Iterator[RowsCase]:
        for seed in seeds:
            for law in laws:
                for key in data:
                    yield RowsCase(key, law, epsilon, purpose, DATA[key][1], seed)

    first, later = range(1), range(1, SEEDS)
    yield from each(Purpose.ALL, 1.0, (True, False), first)
    yield from each(Purpose.LABEL, 1.0, (False, True), first)
    yield from each(Purpose.ALL, 1.0, (True,), later)
    for key in data:
        yield from (RowsCase(key, True, 1.0, Purpose.ALL, k) for k in (1, 3) if k != DATA[key][1])
    yield from each(Purpose.ALL, 10.0, (False, True), first)
    yield from each(Purpose.LABEL, 10.0, (False, True), first)
    yield from each(Purpose.LABEL, 1.0, (False, True), later)
    yield from each(Purpose.ALL, 1.0, (False,), later)


def score_all() -> None:
    """Score every release that has no line yet."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for case in cases():
        place = KEPT / f"{case.name}.json"
        if not place.exists():
            scores = score_case(case, KEPT / f"{case.name}.npz")
            place.write_text(json.dumps(scores), encoding="utf-8")
            sys.stderr.write(f"{case.name} {scores}\n")


def lines(purpose: Purpose) -> list[dict[str, object]]:
    """One line for each setting, the mean of its seeds."""
    out = []
    for case in sorted(cases(), key=lambda c: (list(DATA).index(c.data), c.parties != DATA[c.data][1], c.name)):
        if case.purpose is purpose and case.seed == 0 and (found := _scores(case)):
            line: dict[str, object] = {"data": case.data, "parties": case.parties, "privacy": case.privacy}
            line |= {"released": found[0]["released"], "releases": len(found)}
            line |= {name: _mean(found, name) for name in (*SHOWN, "distance", "misfit", "CPU s")}
            out.append(line)
    return out


def compared() -> list[dict[str, object]]:
    """Ours at (1, 1/n) beside MST and AIM, by the same scorer."""
    out: list[dict[str, object]] = []
    for key in DATA:
        case = RowsCase(key, True, 1.0, Purpose.ALL, DATA[key][1])
        if found := _scores(case):
            line: dict[str, object] = {"data": key, "method": 'ours, purpose "all"', "seeds": len(found)}
            line |= {name: _mean(found, name) for name in TOLD if name not in ("quality", "all labels")}
            drawn = [scores for seed in range(SEEDS) if (scores := _by_rows(replace(case, seed=seed)))]
            line |= {name: _mean(drawn, name) for name in ("all labels", "quality")}
            out.append({**line, "not finished": ""})
        out += lines_of_others(key)
    return [{name: line.get(name) for name in ("data", "method", "seeds", *TOLD, "not finished")} for line in out]


def _by_rows(case: RowsCase) -> dict[str, float]:
    """What others' rows are scored by as well; computed once."""
    place, drawn, source = KEPT / f"{case.name}.rows.json", KEPT / f"{case.name}.npz", WORK / f"{case.data}.npz"
    if not place.exists() and drawn.exists():
        rows = replicate(case.data)
        truth = Truth.of(rows, Released(release_of(rows, case.data, 10.0, True, b"shape")))
        found = {"all labels": every_label_by_rows(np.load(drawn)["codes"], truth)}
        place.write_text(json.dumps({**found, "quality": quality(source, drawn)}), encoding="utf-8")
    scores: dict[str, float] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return scores


def _scores(case: RowsCase) -> list[dict[str, float]]:
    places = [KEPT / f"{replace(case, seed=seed).name}.json" for seed in range(SEEDS)]
    return [json.loads(place.read_text(encoding="utf-8")) for place in places if place.exists()]


def _mean(found: list[dict[str, float]], name: str) -> float | None:
    """None where a release holds margins alone, of which no rows are drawn."""
    known = [line[name] for line in found if line.get(name) is not None]
    return float(np.mean(known)) if known else None
