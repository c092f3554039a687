"""No answer uses a count, square or product that was not released: through Python and through the command line.

Records are made here, and what is right is counted on them. At a large epsilon an answer is right or is not given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.mechanism.objective import Objective, exact_objective
from colonnade.planning import query
from tests.helpers.cli_study import Run, runner

UNIT = cn.Numeric(-1, 1)
THREE = {"kind": "categorical", "levels": ["0", "1", "2"]}
COIN = {"kind": "binary", "levels": ["0", "1"]}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def fitted(parts: Mapping[str, Mapping[str, tuple[Any, Any]]], label: str = "y", **terms: Any) -> cn.Release:
    parties = {
        name: cn.Party(pl.DataFrame({c: v for c, (v, _) in own.items()}), {c: kind for c, (_, kind) in own.items()})
        for name, own in parts.items()
    }
    return cn.Study(label, parties=parties, product="plain", **terms).fit(seed=1)


def saved(release: cn.Release, folder: Path) -> Path:
    release.save(folder / "release.json")
    return folder / "release.json"


# Several classes with numbers alone -----------------------------------------------------------------------------------
@cache
def rare_classes() -> tuple[np.ndarray, np.ndarray]:
    """Two skewed numbers, and a label of three classes that follows them, two of them rare."""
    rng, n = np.random.default_rng(0), 8000
    z = rng.standard_normal((n, 2))
    odds = np.exp(np.column_stack([np.zeros(n), z - 3.0]))
    classes = ((odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return np.clip(np.exp(z), 0, 50), classes


def several_classes(epsilon: float) -> cn.Release:
    x, classes = rare_classes()
    number = cn.Numeric(0, 50)
    own = {"x": (x[:4000, 0], number), "y": (classes[:4000].astype(str), THREE)}
    return fitted({"a": own, "b": {"u": (x[:4000, 1], number)}}, epsilon=epsilon)


def test_classes_of_numbers_alone_have_their_own_counts(run: Run, tmp_path: Path) -> None:
    x, classes = rare_classes()
    counts = np.bincount(classes[:4000])
    release = several_classes(1e5)
    assert np.allclose(release.tables("y").frame["count"], counts, atol=1)
    told = run("tables", saved(release, tmp_path), "y", "--json").json["margins"][0]
    assert np.allclose(told["count"], counts, atol=1) and np.isfinite(told["low"]).all()
    shares, truth = counts / 4000, classes[4000:]
    for asked in (release, several_classes(3.0)):
        p = asked.solve().predict_proba(pl.DataFrame(x[4000:], schema=["x", "u"]))
        loss = -np.log(np.clip(p[np.arange(4000), truth], 1e-15, 1)).mean()
        assert loss < -np.log(shares[truth]).mean() + 0.002


def test_a_release_without_the_counts_of_classes_says_so(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    """As releases up to 9ac5c7e were: of the label's counts they hold the last level's alone."""

    def before(layout: Any, **options: Any) -> Objective:
        found = exact_objective(layout, **options)
        last = layout.span(layout.label).stop - 1
        kept = [k for k, (first, second) in enumerate(found.factors) if first != 0 or second == last]
        return Objective(layout, found.factors[kept], found.weights[kept])

    monkeypatch.setattr(query, "exact_objective", before)
    release = several_classes(1e5)
    file = saved(release, tmp_path)
    sentence = "the release does not hold how many records have each level of y"
    for ask in (lambda: release.tables("y").frame, lambda: release.solve(), lambda: release.solve(penalty="lasso")):
        with pytest.raises(cn.ColonnadeError, match=sentence):
            ask()
    for command in (["tables", file, "y"], ["solve", file]):
        done = run(*command)
        assert done.code == 1 and sentence in " ".join(done.err.split()) and "bug" not in done.err
    assert release.tables().frame.is_empty()
    content = run("tables", file, "--json").json
    assert content["margins"] == [] and content["not_known"] == ["how many records have each level of y"]
    assert "Not known: how many records have each level of y" in run("tables", file).out
    assert run("tables", file, "--html", tmp_path / "page.html").code == 0
    assert "Not known: how many records have each level of y." in (tmp_path / "page.html").read_text()


# Components -----------------------------------------------------------------------------------------------------------
def alike(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two numbers with a correlation of .99 and a label that tells nothing of either."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, n)
    return x, np.clip(0.99 * x + 0.08 * rng.standard_normal(n), -1, 1), rng.integers(0, 2, n).astype(str)


def test_components_of_a_label_release_are_not_known(run: Run, tmp_path: Path) -> None:
    x, u, y = alike()
    parts = {"a": {"x": (x, UNIT), "y": (y, COIN)}, "b": {"u": (u, UNIT)}}
    release = fitted(parts, epsilon=1e3, release="label")
    with pytest.raises(cn.ColonnadeError, match="it lacks the products of x and u"):
        release.components()
    done = run("components", saved(release, tmp_path), "--json")
    assert done.code == 1 and "it lacks the products of x and u" in " ".join(done.err.split()) and "bug" not in done.err
    known = fitted(parts, epsilon=1e3, release="full").components()
    at = known.names.index("x"), known.names.index("u")
    assert known.correlations[at] == pytest.approx(np.corrcoef(x, u)[0, 1], abs=0.01)
    assert known.low[at] <= np.corrcoef(x, u)[0, 1] <= known.high[at]


def test_components_of_the_label_release_that_auto_takes_are_not_known() -> None:
    rng, n = np.random.default_rng(2), 2000
    x = rng.integers(0, 2, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(2 * x - 1)))).astype(int)
    u = np.where(rng.random(n) < 0.995, x, 1 - x)
    own = {"x": x, "y": y} | {f"a{j}": rng.integers(0, 2, n) for j in range(6)}
    other = {"u": u} | {f"b{j}": rng.integers(0, 2, n) for j in range(6)}
    parts = {p: {c: (v.astype(str), COIN) for c, v in columns.items()} for p, columns in (("a", own), ("b", other))}
    release = fitted(parts, epsilon=1.0)
    assert release.plan["released"] == "label"
    with pytest.raises(cn.ColonnadeError, match="components of this release are not known"):
        release.components()


def test_a_constant_column_has_no_components() -> None:
    """Its variance is what noise made of it, at any epsilon; audit.integrity, seed 1, study 75."""
    same, coin = np.full(700, "0"), np.arange(700) % 2
    release = fitted({"a": {"x": (same, COIN), "y": (coin.astype(str), COIN)}}, epsilon=1e5)
    with pytest.raises(cn.ColonnadeError, match="its noise alone would make a component"):
        release.components()
    both = {"a": {"x": (same, COIN), "u": (coin.astype(str), COIN), "y": (coin.astype(str), COIN)}}
    shares = fitted(both, epsilon=1e5).components().share
    assert shares.tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-4)


@pytest.mark.parametrize(("epsilon", "more"), [(0.1, 2), (0.3, 6), (1.0, 12), (30.0, 2)])
def test_correlations_have_intervals_or_are_not_known(epsilon: float, more: int, run: Run, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 20_000
    x = rng.uniform(-1, 1, n)
    u = np.clip(0.99 * x + 0.08 * rng.standard_normal(n), -1, 1)
    own = {"x": x, "y": np.clip(1.2 * x + 0.3 * rng.standard_normal(n), -3, 3)}
    own |= {f"a{j}": rng.uniform(-1, 1, n) for j in range(more)}
    other = {"u": u} | {f"b{j}": rng.uniform(-1, 1, n) for j in range(more)}
    parts = {
        p: {c: (v, cn.Numeric(-3, 3) if c == "y" else UNIT) for c, v in columns.items()}
        for p, columns in (("a", own), ("b", other))
    }
    release, true = fitted(parts, epsilon=epsilon, release="full"), np.corrcoef(x, u)[0, 1]
    file = saved(release, tmp_path)
    try:
        found = release.components()
    except cn.ColonnadeError as refused:
        assert "components of this release are not known: its noise" in str(refused)
        assert epsilon < 1 and "not known: its noise" in " ".join(run("components", file).err.split())
        return
    at = found.names.index("x"), found.names.index("u")
    stated, low, high = found.correlations[at], found.low[at], found.high[at]
    assert low <= true <= high and (np.isnan(stated) or low <= stated <= high)
    content = run("components", file, "--json").json
    assert content["low"][at[0]][at[1]] == pytest.approx(low) and content["notes"] == found.notes
    assert "Noise leaves a correlation open by" in " ".join(run("components", file).out.split())
    if epsilon == 30.0:
        assert stated == pytest.approx(true, abs=0.03) and high - low < 0.1


# Rows -----------------------------------------------------------------------------------------------------------------
def jobs(square: bool, release: str = "full") -> tuple[cn.Release, np.ndarray]:
    rng, n = np.random.default_rng(3), 4000
    job = rng.integers(0, 3, n)
    town = np.where(rng.random(n) < 0.7, job, rng.integers(0, 3, n))
    y = 7.5 + 2.0 * job + 1.5 * town + 0.5 * rng.standard_normal(n)
    parts = {
        "a": {"job": (job.astype(str), THREE), "y": (y, cn.Numeric(-100, 100))},
        "b": {"town": (town.astype(str), THREE)},
    }
    return fitted(parts, task="linear", epsilon=1e3, release=release, label_square=square), y


def test_a_number_without_its_square_has_no_rows(run: Run, tmp_path: Path) -> None:
    release, _ = jobs(square=False)
    rows = release.synthesize(500, anyway=True)
    assert rows.frame.columns == ["job", "town"]
    assert any(note.startswith("y: left out") and "label_square" in note for note in rows.notes)
    assert not any("released means, variances" in note for note in rows.notes)
    content = run("synthesize", saved(release, tmp_path), "--rows", 50, "--out", tmp_path / "rows.csv", "--json").json
    assert content["unbinned"] == [] and any(note.startswith("y: left out") for note in content["notes"])
    assert release.tables().to_dict()["numbers"][0]["std"] is None
    with pytest.raises(cn.ColonnadeError, match="a feature needs its square, which the release lacks for y"):
        release.solve("job", features=["y", "town"])
    assert set(release.solve("job").coef["1"]) == {"town=1", "town=2"}


def test_a_number_with_its_square_has_its_spread_in_rows() -> None:
    release, y = jobs(square=True)
    drawn = release.synthesize(4000, anyway=True).frame["y"].to_numpy()
    assert drawn.mean() == pytest.approx(y.mean(), abs=0.3) and drawn.std() == pytest.approx(y.std(), rel=0.1)


def test_numbers_of_a_label_release_depend_through_the_label_alone() -> None:
    """The correlation of two features was not released: rows have the one that the label gives them, and no guess."""
    rng, n = np.random.default_rng(5), 20_000
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n).astype(str)
    x, u = (np.clip(0.5 * (2 * y - 1) + 0.3 * rng.standard_normal(n), -1, 1) for _ in range(2))
    parts = {"a": {"x": (x, UNIT), "y": (y.astype(str), COIN)}, "b": {"u": (u, UNIT), "z": (z, COIN)}}
    rows = fitted(parts, epsilon=1e3, release="label").synthesize(20_000, anyway=True)
    drawn = np.corrcoef(rows.frame["x"].to_numpy(), rows.frame["u"].to_numpy())[0, 1]
    assert drawn == pytest.approx(np.corrcoef(x, y)[0, 1] * np.corrcoef(u, y)[0, 1], abs=0.03)
    assert any("through the columns that both were released with" in note for note in rows.notes)


# Label releases of linear studies -------------------------------------------------------------------------------------
def test_a_linear_label_release_answers_or_says_what_it_lacks(run: Run, tmp_path: Path) -> None:
    release, y = jobs(square=False, release="label")
    file = saved(release, tmp_path)
    for penalty in ("lasso", "elastic-net"):
        frame = pl.DataFrame({"job": ["0", "1", "2"], "town": ["0", "1", "2"]})
        assert release.solve(penalty=penalty).predict(frame).mean() == pytest.approx(y.mean(), abs=1.5)
        assert run("solve", file, "--penalty", penalty).code == 0
    lacking = "needs its products with every feature, which the release lacks for"
    refused = (("given", "town=1", f"a condition on town {lacking} job"), ("label", "town", f"a label {lacking} town"))
    for option, value, sentence in refused:
        with pytest.raises(cn.ColonnadeError, match=sentence):
            release.solve(**{option: value})
        done = run("solve", file, f"--{option}", value)
        assert done.code == 1 and sentence in " ".join(done.err.split()) and "bug" not in done.err
    with pytest.raises(cn.ColonnadeError, match="this release holds no table of two columns"):
        release.synthesize(100)
    rows = release.synthesize(2000, anyway=True)
    assert rows.frame["y"].std() == pytest.approx(y.std(), rel=0.3)


def test_a_model_without_any_feature_is_refused(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    c, y = (rng.integers(0, 2, 500).astype(str) for _ in range(2))
    release = fitted({"a": {"c": (c, COIN), "y": (y, COIN)}}, epsilon=1.0)
    with pytest.raises(cn.ColonnadeError, match="a model of c has no feature left"):
        release.solve("c")
    done = run("solve", saved(release, tmp_path), "--label", "c")
    assert done.code == 1 and "a model of c has no feature left" in " ".join(done.err.split())
    assert set(release.solve("c", features=["y"]).coef) == {"y=1"}


# Levels without records -----------------------------------------------------------------------------------------------
def test_levels_without_records_do_not_ruin_a_linear_model(run: Run, tmp_path: Path) -> None:
    rng, n, levels = np.random.default_rng(2), 16_000, [f"l{k}" for k in range(131)]
    shares = 1 / np.arange(1, 132)
    place = rng.choice(131, n, p=shares / shares.sum())
    x = np.clip(0.3 * rng.standard_normal(n) + 0.1 * np.sin(place), -1, 1)
    y = np.clip(0.6 * x + 0.05 * np.cos(place) + 0.2 * rng.standard_normal(n), -1, 1)
    every = pl.DataFrame({"x": x, "place": np.array(levels)[place], "y": y})
    parts = {
        "a": {"x": (x[:8000], UNIT), "y": (y[:8000], UNIT)},
        "b": {"place": (every["place"][:8000], cn.Categorical(levels)), "w": (rng.uniform(-1, 1, 8000), UNIT)},
    }
    release = fitted(parts, task="linear", epsilon=1.0, delta=1e-6, release="full")
    new = every[8000:].with_columns(w=pl.lit(0.0))

    def r_squared(features: list[str]) -> float:
        return 1 - float(np.mean((y[8000:] - release.solve(features=features).predict(new)) ** 2) / y[8000:].var())

    whole, without = r_squared(["x", "place", "w"]), r_squared(["x", "w"])
    assert whole > without - 0.05
    told = run("solve", saved(release, tmp_path), "--json").json
    assert told["coefficients"]["x"] == pytest.approx(release.solve().coef["x"], abs=1e-6)


# What intervals count, and what widens them ---------------------------------------------------------------------------
def test_intervals_of_numbers_count_rounding(run: Run, tmp_path: Path) -> None:
    """Without noise rounding to the grid is left: 1 of 12 means lay in their intervals before."""
    rng, n = np.random.default_rng(0), 400
    columns: dict[str, tuple[Any, Any]] = {f"x{j}": (10 * rng.beta(1, 1 + j, n), cn.Numeric(0, 10)) for j in range(12)}
    release = fitted({"a": {**columns, "y": (rng.choice(["0", "1"], n), COIN)}}, epsilon=1e6, release="full")
    told = run("tables", saved(release, tmp_path), "--json").json["numbers"]
    assert len(told) == 12
    held = [
        x[f"{m}_low"] <= getattr(columns[x["column"]][0], m)() <= x[f"{m}_high"] for x in told for m in ("mean", "std")
    ]
    assert sum(held) >= 22


@pytest.mark.parametrize(("epsilon", "told"), [(0.2, ["noise on a cell is larger", "narrower bounds"]), (1e5, [])])
def test_every_medium_says_what_widens_intervals(epsilon: float, told: list[str], run: Run, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 300
    ten = {"kind": "categorical", "levels": [str(k) for k in range(10)]}
    own = {"u": (rng.integers(0, 10, n).astype(str), ten), "v": (rng.integers(0, 10, n).astype(str), ten)}
    number = {"x": (rng.uniform(0, 1, n), cn.Numeric(0, 50)), "y": (rng.choice(["0", "1"], n), COIN)}
    release = fitted({"a": own, "b": number}, epsilon=epsilon, release="full")
    file = saved(release, tmp_path)
    shown = release.tables()
    run("tables", file, "--html", tmp_path / "tables.html")
    run("report", file, "--html", tmp_path / "page.html")
    said = [
        str(run("tables", file, "--json").json["notes"]), str(shown.to_dict()["notes"]),
        repr(shown), str(shown._repr_html_()),
        run("tables", file).out, (tmp_path / "tables.html").read_text(), (tmp_path / "page.html").read_text(),
    ]  # fmt: skip
    for text in said:
        found = " ".join(text.split())
        assert "the rows" in found and "own count in 95 of 100" in found
        for words in ("noise on a cell is larger", "narrower bounds"):
            assert (words in found.lower()) == (words in told)
