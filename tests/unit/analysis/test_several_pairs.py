"""Looking at many pairs makes none of them significant by chance, and hides none that is."""

from __future__ import annotations

import numpy as np
import polars as pl

import colonnade as cn
from colonnade.analysis.independence import dependence, every_dependence
from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables

LEVELS = {"kind": "categorical", "levels": ["0", "1", "2"]}


def tables(seed: int, follow: float) -> Tables:
    """Five columns of two parties: independent, but that b3 is a0 in some records."""
    rng, n = np.random.default_rng(seed), 3000
    own = {f"a{k}": rng.integers(0, 3, n) for k in range(2)} | {"y": rng.integers(0, 3, n)}
    other = {"b0": rng.integers(0, 3, n)}
    other["b3"] = np.where(rng.random(n) < follow, own["a0"], rng.integers(0, 3, n))
    parties = {
        p: cn.Party(pl.DataFrame({c: v.astype(str) for c, v in columns.items()}), dict.fromkeys(columns, LEVELS))
        for p, columns in (("a", own), ("b", other))
    }
    study = cn.Study("y", parties=parties, task="multinomial", epsilon=5.0, product="plain", release="full")
    return Tables.of(Released(study.fit(seed=seed).released))


def test_p_values_are_corrected_for_the_pairs_that_were_looked_at() -> None:
    asked = tables(3, 0.0)
    found = every_dependence(asked, 3, draws=199)
    alone = [dependence(asked, i, j, 3, draws=199).p_value for i, j in asked.released.tables]
    assert [d.pairs for d in found] == [10] * 10
    assert all(d.p_value >= p for d, p in zip(found, alone, strict=True))
    # One of ten independent pairs looks as if it were none, uncorrected; corrected it does not.
    assert min(alone) < 0.05 < min(d.p_value for d in found)


def test_a_dependence_among_many_pairs_is_still_found() -> None:
    found = every_dependence(tables(0, 0.3), draws=199)
    strongest = max(found, key=lambda d: d.information)
    assert strongest.names == ("a0", "b3") and strongest.p_value <= 0.01
    assert sum(d.p_value <= 0.05 for d in found) == 1
