"""Many columns: which pairs to release, by releases of NIST's ACS with the pairs chosen in public."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Purpose
from colonnade.planning.session_plan import plan_session
from colonnade.simulation import run_unguarded
from experiments.paper.protocol import Replicate, Terms
from experiments.paper.synthesis import Truth, distance, replicate
from experiments.paper.synthesis_rows import KEPT

SETTINGS = ((False, 1.0), (False, 3.0), (False, 10.0), (True, 0.1), (True, 1.0))
RINGS = (1, 3, 6)
"""Each column with so many columns that follow it in the schema, the first after the last."""
PARTIES = 3


def ring(rows: Replicate, width: int) -> tuple[tuple[str, str], ...]:
    """Pairs of features that stand near each other in the schema."""
    names = rows.dataset.features
    found = {tuple(sorted((i, (i + step) % len(names)))) for i in range(len(names)) for step in range(1, width + 1)}
    return tuple((names[i], names[j]) for i, j in sorted(found))


def pairs_study() -> Iterator[dict[str, object]]:
    """One line for each privacy setting: the tables' total variation by what is released, and the plan's choice."""
    rows = replicate("ACS")
    for approximate, epsilon in SETTINGS:
        place = KEPT / f"pairs-{'approximate' if approximate else 'pure'}-{epsilon:g}.json"
        if place.exists():
            yield json.loads(place.read_text(encoding="utf-8"))
            continue
        terms = Terms(epsilon, 1 / rows.n if approximate else 0.0, PARTIES, 1, purpose=Purpose.ALL)
        line: dict[str, object] = {"privacy": f"({epsilon:g}, 1/n)" if approximate else f"pure {epsilon:g}"}
        chosen = plan_session(rows.agreement(terms), rows.n, bytes(32))
        assert chosen.table_forecast is not None
        line |= {"the plan's choice": chosen.released, "planned": chosen.table_forecast.expected}
        line["planned, independent"] = chosen.table_forecast.independent
        for name, release, pairs in (
            ("full", "full", ()),
            *((f"ring of {w}", "pairs", ring(rows, w)) for w in RINGS),
            ("label", "label", ()),
            ("margins", "margins", ()),
        ):
            line[name] = tables_distance(rows, terms, release, pairs)
        truth = _truth(rows, terms)
        exact = truth.pairs(truth.train)
        line["independent"] = distance(np.outer(np.diag(exact), np.diag(exact)), exact, truth.spans)
        KEPT.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(line), encoding="utf-8")
        yield line


def tables_distance(rows: Replicate, terms: Terms, release: str, pairs: tuple[tuple[str, str], ...]) -> float:
    """Mean total variation of the denoised tables of one release, over all pairs, released or not."""
    agreement = rows.agreement(terms, release, pairs)
    found = run_unguarded(agreement, rows.tables(terms.parties), "none", Randomness(seed=b"pairs")).release
    released = Released(found)
    truth = Truth.of(rows, released)
    return distance(Tables.of(released).estimate.value[1:, 1:] / released.n, truth.pairs(truth.train), truth.spans)


def _truth(rows: Replicate, terms: Terms) -> Truth:
    return Truth.of(rows, Released(rows.run(terms, b"shape").release))
