"""Labels of hundreds of levels: the same answers by less work, and a bound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.analysis import families, gibbs, penalised
from colonnade.analysis.draws import seeded
from colonnade.foundation.errors import StudyError


def _walk() -> gibbs.Walk:
    rng = np.random.default_rng(0)
    sizes = (150, 3, 4)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    spans = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    coupling = rng.normal(0, 0.5, (starts[-1], starts[-1]))
    coupling = coupling + coupling.T
    for span in spans:
        coupling[span, span] = 0.0
    levels = np.column_stack([rng.integers(0, size, 3000) for size in sizes])
    return gibbs.Walk(spans, [(0,), (1, 2)], levels, rng.normal(0, 0.5, starts[-1]), coupling)


def test_a_wide_column_is_drawn_as_by_all_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for widest in (128, 10_000):
        monkeypatch.setattr(gibbs, "WIDE", widest)
        own = _walk()
        tables = own.sweep(seeded(0, "many classes"))
        own.move(own.field * 1.1, own.coupling * 1.1, seeded(0, "move"))
        found.append((tables, own.weights, own.levels))
    # Sums in another order: nearly all draws are the same.
    assert (found[0][2] != found[1][2]).mean() < 0.002
    assert found[0][0] == pytest.approx(found[1][0], abs=2e-4)
    alike = (found[0][2] == found[1][2]).all(axis=1)
    assert found[0][1][alike] == pytest.approx(found[1][1][alike], rel=0.02)


def _release() -> cn.Release:
    rng = np.random.default_rng(1)
    n, levels = 2000, ["p", "q", "r"]
    c = rng.integers(0, 3, n)
    a = cn.Party(
        pl.DataFrame({"x": rng.uniform(0, 1, n), "y": rng.random(n) < 0.5}),
        columns={"x": cn.Numeric(0, 1), "y": cn.Boolean()},
    )
    b = cn.Party(pl.DataFrame({"c": [levels[i] for i in c]}), columns={"c": cn.Categorical(tuple(levels))})
    return cn.Study("y", {"a": a, "b": b}, epsilon=1, product="plain").fit(seed=1, progress=False)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_many_classes_take_fewer_records_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    release, counts = _release(), []
    at, plain = penalised, penalised.fit_moments
    monkeypatch.setattr(penalised, "MOST_SCORES", 3 * 1000)
    monkeypatch.setattr(at, "fit_moments", lambda law, *rest: counts.append(len(law.records)) or plain(law, *rest))
    release.solve("c")
    assert counts == [1000]
    monkeypatch.setattr(families, "MOST_CLASSES", 2)
    with pytest.raises(StudyError, match="a label of at most 2 levels, got c with 3"):
        release.solve("c")
