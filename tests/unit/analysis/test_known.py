"""What a noisy release does not tell is said: mutual information, means, standard deviations, components."""

from __future__ import annotations

from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import colonnade as cn
from colonnade.analysis import denoise as denoising
from colonnade.analysis.components import components
from colonnade.analysis.independence import Dependence, dependence, mutual_information
from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.data.table import table_from
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.moments import Moments
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import read_release
from colonnade.planning.agreement import Agreement
from colonnade.report.answers.crosstables import crosstables, dependence_line, tables_csv
from colonnade.report.render.markup import fragment
from colonnade.report.render.terminal import shown
from colonnade.simulation import run_unguarded
from tests.pins.studies import STUDIES, read_lines


@cache
def records(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, n)
    y = rng.random(n) < np.where(z == 2, 0.95, 0.05)
    shown = {"x": rng.uniform(0, 100, n), "y": np.where(y, "yes", "no"), "z": np.array(["r", "g", "b"])[z]}
    return pl.DataFrame(shown)


@cache
def tables(n: int, epsilon: float, seed: int, high: float = 100.0) -> Tables:
    schema: dict[str, dict[str, Column]] = {
        "a": {"x": Numeric(0, high), "y": Binary(("no", "yes"))},
        "b": {"z": Categorical(("r", "g", "b"))},
    }
    data = {p: table_from(p, records(n).select(list(columns)), columns) for p, columns in schema.items()}
    agreement = Agreement.from_terms("known", Schema(schema), "a.y", Task.LOGISTIC, epsilon, product="plain")
    return Tables.of(Released(run_unguarded(agreement, data, "none", Randomness(b"known %d" % seed)).release))


def found(n: int, epsilon: float, seed: int) -> Dependence:
    asked = tables(n, epsilon, seed)
    return dependence(asked, asked.released.find("y"), asked.released.find("z"))


@pytest.mark.parametrize(("n", "epsilon"), [(2000, 0.01), (100, 0.1), (100, 1.0), (2000, 1.0), (2000, 1e-4)])
def test_mutual_information_is_inside_its_interval_or_not_known(n: int, epsilon: float) -> None:
    counts = records(n).group_by("y", "z").len().pivot("z", index="y", values="len").fill_null(0)
    true = mutual_information(counts.drop("y").to_numpy().astype(np.float64))
    every = [found(n, epsilon, seed) for seed in range(8)]
    assert sum(not d.known or d.low <= true <= d.high for d in every) >= 6
    if epsilon == 1.0:
        assert all(d.known and d.low > 0 for d in every)
    if epsilon < 0.001:
        assert not any(d.known for d in every)


def test_means_and_deviations_are_inside_their_intervals_or_not_known() -> None:
    x = records(2000)["x"].to_numpy()
    for n, epsilon, high in ((2000, 1.0, 100.0), (2000, 0.05, 100.0), (2000, 1.0, 100_000.0)):
        held = []
        for seed in range(8):
            number = tables(n, epsilon, seed, high).number(0)
            for part, true in ((number.mean, x.mean()), (number.std, x.std())):
                held.append(part is None or part.low <= true <= part.high)
                assert part is None or 0 <= part.low <= part.value <= part.high <= high
            if high == 100 and epsilon == 1.0:
                assert number.mean and number.std and number.mean.high - number.mean.low < 3
        assert np.mean(held) >= 0.83, (epsilon, high)
    drowned = tables(2000, 1e-6, 0).number(0)
    assert drowned.mean is None and drowned.std is None


def test_all_doors_say_what_is_not_known() -> None:
    noisy, clear = tables(2000, 1e-6, 0), tables(2000, 1.0, 0)
    console = Console(file=StringIO(), width=200)
    console.print(shown(crosstables(noisy, [], 0)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("not known") == 3
    content = crosstables(noisy, [], 0).facts()
    assert content["numbers"][0]["mean"] is None and content["numbers"][0]["std_high"] is None
    assert content["dependence"][0]["information"] is None and content["dependence"][0]["low"] is None
    assert "x,(mean),,,,," in tables_csv(noisy, []) and "not known" in fragment(crosstables(noisy, [], 0))
    known = crosstables(clear, [], 0).facts()
    assert known["numbers"][0]["mean_low"] < known["numbers"][0]["mean"] < known["numbers"][0]["mean_high"]
    assert f"x,(mean),,,{known['numbers'][0]['mean']:.6g}," in tables_csv(clear, [])
    assert "not known" not in dependence_line(found(2000, 1.0, 0))
    assert clear.number(0).mean and components(clear.released).share.sum() == pytest.approx(1.0)
    with pytest.raises(ReleaseError, match="components of this release are not known: its noise"):
        components(noisy.released)


def test_what_follows_from_a_release_is_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Models of any label, their intervals, tables and a page ask one estimate, and one as released."""
    calls: list[Moments] = []
    found = denoising._margins

    def count(work: denoising._Work) -> None:
        calls.append(work.moments)
        found(work)

    monkeypatch.setattr(denoising, "_margins", count)
    asked = cn.Release(read_release((read_lines("releases")[list(STUDIES).index("logistic")] + "\n").encode()))
    for label in (None, "c", "x"):
        assert asked.solve(label, task="linear" if label == "x" else None).features
    assert asked.solve().intervals is not None and asked.tables() is not None
    asked.report(tmp_path / "page.html")
    assert len(calls) == 2 and calls[0] is calls[1]
