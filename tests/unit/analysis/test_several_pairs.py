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


def test_many_empty_cells_are_in_the_interval_of_a_dependence() -> None:
    """607 records in 400 x 5 cells, hardly any noise: 1,500 cells are empty, and many are told as a little more."""
    rng = np.random.default_rng(17)
    codes = {"a": rng.choice(400, 607, p=rng.dirichlet(np.full(400, 0.5))), "b": rng.choice(5, 607)}
    codes |= {"c": rng.integers(0, 2, 607), "d": rng.integers(0, 2, 607), "e": rng.integers(0, 4, 607)}
    frame = pl.DataFrame({c: v.astype(str) for c, v in codes.items()} | {"y": rng.uniform(-5, 5, 607)})
    shares = np.zeros((400, 5))
    np.add.at(shares, (codes["a"], codes["b"]), 1 / 607)
    apart, inside = np.outer(shares.sum(axis=1), shares.sum(axis=0)), shares > 0
    true = float((shares[inside] * np.log(shares[inside] / apart[inside])).sum())
    sizes = {"a": 400, "b": 5, "c": 2, "d": 2, "e": 4}
    kinds = {c: cn.Categorical([str(k) for k in range(size)]) for c, size in sizes.items()} | {"y": cn.Numeric(-5, 5)}
    parties = {
        p: cn.Party(frame.select(list(own)), {c: kinds[c] for c in own}) for p, own in (("p", "abcy"), ("q", "de"))
    }
    terms = {"epsilon": 1e5, "product": "plain", "release": "full", "label_square": True}
    for seed in range(4):
        tables = Tables.of(Released(cn.Study("y", parties=parties, **terms).fit(seed=seed).released))
        names = {tables.released.short(i): i for i in tables.released.tabular}
        found = dependence(tables, names["a"], names["b"])
        assert found.low <= true <= found.high, (found, true)
        assert found.high - found.information < 0.02


def test_a_level_that_nobody_has_has_no_correlation() -> None:
    """The noise of 400 levels leaves one of them a hundredth of a record, by chance clear of nothing."""
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {"a": rng.integers(0, 40, 400).astype(str), "x": rng.uniform(-1, 1, 400), "y": ["0", "1"] * 200}
    )
    a = cn.Categorical([str(k) for k in range(400)])
    parties = {
        "p": cn.Party(frame.select("a", "y"), {"a": a, "y": cn.Binary(("0", "1"))}),
        "q": cn.Party(frame.select("x"), {"x": cn.Numeric(-1, 1)}),
    }
    found = cn.Study("y", parties=parties, epsilon=1e5, product="plain", release="full").fit(seed=1).components()
    x, empty = found.names.index("x"), [found.names.index(f"a={k}") for k in range(40, 400)]
    there = [found.names.index(f"a={k}") for k in range(40)]
    assert not np.isfinite(found.correlations[x, empty]).any()
    assert np.isfinite(found.correlations[x, there]).all()
