"""What is told before a release is made is what comes: rows that a plan promised are drawn, constants are named."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.analysis.released import Released
from colonnade.analysis.synthesis import expected_distance, foretold
from colonnade.analysis.tables import Tables
from colonnade.mechanism.table_error import TableForecast
from colonnade.report.choices import forecast_purposes
from colonnade.studio.explorer import Explorer
from tests.helpers.cli_study import Run, runner


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def independent_columns() -> dict[str, cn.Party]:
    """Eight columns of four levels that tell nothing of each other: less than a plan foretells."""
    rng, levels = np.random.default_rng(2), ["0", "1", "2", "3"]
    names = {"a": ["y", "a0", "a1", "a2"], "b": ["b0", "b1", "b2", "b3"]}
    kinds = {"y": cn.Binary(["0", "1"])}
    return {
        party: cn.Party(
            pl.DataFrame({c: rng.integers(0, 2 if c in kinds else 4, 20_000).astype(str) for c in own}),
            {c: kinds.get(c, cn.Categorical(levels)) for c in own},
        )
        for party, own in names.items()
    }


def test_rows_that_the_plan_promised_are_drawn_and_say_how_good_they_are(run: Run, tmp_path: Path) -> None:
    study = cn.Study("y", independent_columns(), epsilon=1.0, product="plain", purpose="all", release="full")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        planned = study.plan()
        release = study.fit(seed=1)
    line = next(one for one in forecast_purposes(planned.session) if one.chosen)
    assert line.purpose.value == "all" and not line.worse
    found = Released(release.released)
    said = foretold(found)
    assert (said.expected, said.independent) == pytest.approx((line.expected, line.independent))
    # By the release, which knows that nothing depends, they are no better: that is said, and not refused.
    assert TableForecast(*expected_distance(Tables.of(found))).worse
    rows = release.synthesize(500)
    assert any("WORSE than independent columns" in note for note in rows.notes)
    release.save(tmp_path / "release.json")
    done = run("synthesize", tmp_path / "release.json", "--rows", 50, "--out", tmp_path / "rows.csv")
    assert done.code == 0 and "WORSE than independent columns" in " ".join(done.err.split())


@pytest.mark.parametrize(("epsilon", "kind"), [(1.0, "full"), (1e5, "label")])
def test_a_constant_column_is_named(epsilon: float, kind: str, run: Run, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 4000
    x = rng.uniform(-1, 1, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * x))).astype(int).astype(str)
    parties = {
        "a": cn.Party(pl.DataFrame({"x": x, "y": y}), {"x": cn.Numeric(-1, 1), "y": cn.Binary(["0", "1"])}),
        "b": cn.Party(
            pl.DataFrame({"c": np.full(n, 3.7), "k": np.full(n, "b")}),
            {"c": cn.Numeric(0, 10), "k": cn.Categorical(["a", "b", "d"])},
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        release = cn.Study("y", parties, epsilon=epsilon, product="plain", release=kind).fit(seed=1)
    told = "cannot be told from constants, and their coefficients mean nothing: c, k"
    with pytest.warns(UserWarning, match=told):
        release.solve()
    release.save(tmp_path / "release.json")
    for command in (["solve"], ["report", "--html", str(tmp_path / "page.html")]):
        asked = (command[0], tmp_path / "release.json", *command[1:])
        assert any(told in note for note in run(*asked, "--json").json["notes"])
        assert " ".join(run(*asked).out.split()).count(told) == 1
    assert " ".join((tmp_path / "page.html").read_text().split()).count(told) == 1
    assert told in Explorer(release.released).model("")["public"].warnings[-1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release.solve(features=["x"])
    assert not any("constant" in str(warning.message) for warning in caught)


def test_the_square_of_a_label_with_levels_is_not_released(run: Run, tmp_path: Path) -> None:
    """It is known. Before, it was paid for, and tables, rows and page took the label for a number and refused."""
    rng, n = np.random.default_rng(0), 300
    frame = pl.DataFrame(
        {"x": rng.uniform(0, 10, n), "c": rng.choice(["u", "v"], n), "y": rng.choice(["no", "yes"], n)}
    )
    kinds = {"x": cn.Numeric(0, 10), "c": cn.Binary(["u", "v"]), "y": cn.Binary(["no", "yes"])}
    study = cn.Study("y", {"a": cn.Party(frame, kinds)}, epsilon=1e5, product="plain", label_square=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        release = study.fit(seed=1)
    counted = release.tables("y").frame
    expected = [(frame["y"] == level).sum() for level in ("no", "yes")]
    assert counted["level_a"].to_list() == ["no", "yes"] and counted["count"].to_list() == pytest.approx(
        expected, abs=0.5
    )
    release.save(tmp_path / "release.json")
    assert run("tables", tmp_path / "release.json", "--json").code == 0
    assert run("report", tmp_path / "release.json", "--html", tmp_path / "page.html").code == 0


def test_a_trace_without_variances_warns_of_its_answers_alone(run: Run, tmp_path: Path) -> None:
    """Its numbers' means and squares are not released: asking whether they are constant multiplied 0 by infinity."""
    rng, n = np.random.default_rng(3), 300
    kinds = {"x": cn.Numeric(-1, 1), "y": cn.Numeric(-1, 1)}
    parties = {
        "a": cn.Party(pl.DataFrame({c: rng.uniform(-1, 1, n) for c in kinds}), kinds),
        "b": cn.Party(pl.DataFrame({"u": rng.uniform(-1, 1, n)}), {"u": cn.Numeric(-1, 1)}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        release = cn.Study("y", parties, epsilon=1.0, product="plain", release="trace").fit(seed=1)
        release.save(tmp_path / "release.json")
        assert not any("constant" in note for note in release.solve().notes)
        done = run("solve", tmp_path / "release.json", "--json")
    assert done.code == 0 and not any("constant" in note for note in done.json["notes"])
