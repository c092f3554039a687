"""Rows with the label of the maximum-entropy model beside rows with that of the release's own model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from colonnade.analysis.draws import seeded
from colonnade.analysis.released import Released
from colonnade.analysis.solve import solve
from colonnade.analysis.synthesis import draw_levels, fit_release
from colonnade.analysis.tables import Tables
from colonnade.mechanism.objective import Purpose, Task
from experiments.paper import catalogue
from experiments.paper.synthesis import DATA, RowsCase, Truth, distance, one_hot, release_of, replicate, transfer
from experiments.paper.synthesis_rows import KEPT

CASES = (
    ("Adult-77", False, 1.0, Purpose.LABEL),
    ("Dutch", False, 1.0, Purpose.ALL),
    ("ACS", True, 1.0, Purpose.LABEL),
)


def labels_study() -> Iterator[dict[str, object]]:
    """Two lines for each release; kept in .cache."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for data, law, epsilon, purpose in CASES:
        if data == "Dutch" and catalogue.missing("dutch-36") is not None:
            continue
        case = RowsCase(data, law, epsilon, purpose, DATA[data][1])
        place = KEPT / f"labels-{case.name}.json"
        if not place.exists():
            place.write_text(json.dumps(_compared(case)), encoding="utf-8")
            sys.stderr.write(place.read_text(encoding="utf-8") + "\n")
        yield from json.loads(place.read_text(encoding="utf-8"))


def _compared(case: RowsCase) -> list[dict[str, object]]:
    rows = replicate(case.data)
    released = Released(release_of(rows, case.data, case.epsilon, case.approximate, b"synthesis", case.purpose))
    truth, fitted, label = Truth.of(rows, released), fit_release(Tables.of(released)), released.layout.label
    model, names = solve(released.moments, Task.LOGISTIC), released.layout.names[1:]
    unseen = one_hot(truth.test, truth.spans)[:, [names.index(f) for f in model.features]]
    known = float(((model.decision(unseen) > 0) == (truth.test[:, label] == 1)).mean())
    exact, own, out = truth.pairs(truth.train), truth.spans[label], []
    for told, law in (("maximum entropy", None), ("the release's own", fitted.label)):
        drawn = draw_levels(replace(fitted, label=law), released.n, seeded(0, "rows"))
        pairs, (linear, boosted) = truth.pairs(drawn), transfer(drawn, truth, label)
        with_label = [0.5 * np.abs(pairs[own, s] - exact[own, s]).sum() for s in truth.spans if s != own]
        line: dict[str, object] = {"data": case.data, "privacy": case.privacy, "purpose": case.purpose.value}
        line |= {
            "label by": told,
            "TV2": distance(pairs, exact, truth.spans),
            "TV2 with the label": np.mean(with_label),
        }
        out.append({**line, "solve": known, "LR": linear, "boosting": boosted})
    return out
