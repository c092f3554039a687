"""Plans side by side and rehearsals: what they foretell is what a run achieves, and what cannot be is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.solve import solve
from colonnade.data.table import Table, table_from
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.planning.variants import compare, read_choices, vary
from colonnade.rehearsal import _Stage, corner_notes, declared_anew, foretell, measure, rehearse, simulate_release
from colonnade.simulation import run_unguarded
from tests.helpers.cli_study import Run, runner, write_study

SCHEMA = Schema.of(
    {
        "works": {
            "hours": {"kind": "numeric", "low": 0, "high": 80},
            "job": {"kind": "categorical", "levels": ["a", "b", "c"]},
            "rich": {"kind": "binary", "levels": ["no", "yes"]},
        },
        "bank": {
            "savings": {"kind": "numeric", "low": 0, "high": 100_000},
            "since": {"kind": "date", "earliest": "2000-01-01", "latest": "2019-12-31"},
            "owner": {"kind": "boolean"},
        },
    }
)
AGREEMENT = Agreement.from_terms("pay", SCHEMA, "rich", Task.LOGISTIC, epsilon=2.0, product="plain")


def people(rows: int, seed: int) -> dict[str, Table]:
    draw = np.random.default_rng(seed)
    hours, savings, job = draw.uniform(20, 60, rows), draw.exponential(900, rows), draw.integers(0, 3, rows)
    score = (hours - 40) / 8 + (job == 2) - 0.8 + draw.normal(size=rows)
    works = {"hours": hours, "job": np.array(["a", "b", "c"])[job], "rich": np.where(score > 0, "yes", "no")}
    days = np.datetime64("2001-01-01") + draw.integers(0, 6000, rows)
    bank = {"savings": savings, "since": days.astype(str), "owner": draw.integers(0, 2, rows)}
    frames = {"works": pl.DataFrame(works), "bank": pl.DataFrame(bank)}
    return {party: table_from(party, frame, SCHEMA.parties[party]) for party, frame in frames.items()}


def test_choices_are_planned_side_by_side() -> None:
    found = compare(AGREEMENT, 5000, read_choices(["epsilon=0.1,1,10", "bins:hours=0,4"]))
    assert [v.chosen for v in found][:3] == [
        {"epsilon": 0.1, "bins:hours": 0},
        {"epsilon": 0.1, "bins:hours": 4},
        {"epsilon": 1, "bins:hours": 0},
    ]
    left = [v.describe()["explained"] for v in found]
    assert left[0] < left[2] < left[4] and left[1] < left[3] < left[5]
    four = found[1].agreement
    assert four is not None and four.schema.parties["works"]["hours"].declared()["bins"] == [20.0, 40.0, 60.0]
    assert four.schema.parties["bank"]["savings"] == SCHEMA.parties["bank"]["savings"]


def test_wider_bounds_leave_less_of_the_same_data() -> None:
    one, two, named = compare(AGREEMENT, 5000, {"bounds:savings": [1, 10, "0..5000"]})
    assert one.describe()["explained"] > two.describe()["explained"]
    assert two.agreement is not None and two.agreement.schema.parties["bank"]["savings"].bounds == (0, 1_000_000)
    assert named.agreement is not None and named.agreement.schema.parties["bank"]["savings"].bounds == (0, 5000)


def test_other_terms_are_varied_and_refusals_are_rows() -> None:
    found = compare(AGREEMENT, 5000, read_choices(["collusion=0,1,2", "release=full,trace"]))
    assert [v.refused is None for v in found] == [True] * 4 + [False] * 2
    assert found[4].describe() == {
        "chosen": {"collusion": 2, "release": "full"},
        "refused": "collusion must lie between 0 and K-1=1, got collusion=2",
    }
    (pure, small) = compare(AGREEMENT, 5000, {"delta": [0, 1e-9]})
    assert pure.session is not None and small.session is not None and pure.session.plan.law != small.session.plan.law


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["epsilon"], 'a comparison is written as "epsilon=0.1,1"'),
        (["epsilon=1", "epsilon=2"], "epsilon can be compared once"),
        (["colour=1"], "a comparison is of epsilon, delta, collusion, release, bins, bounds"),
        (["epsilon:hours=1"], "a comparison is of"),
        (["epsilon=" + ",".join("1" * 65)], "at most 64 plans are compared at once, got 65"),
    ],
)
def test_what_cannot_be_compared_is_refused(texts: list[str], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        vary(AGREEMENT, read_choices(texts))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("epsilon", "x", "epsilon must be a number"),
        ("epsilon", 0, "epsilon must be a positive number"),
        ("bins", 2.5, "bins must be a whole number"),
        ("bins", -1, "bins must be between 0 and 1000"),
        ("bins:job", 3, "bins and bounds are of numeric columns, got job"),
        ("bounds", 0, "bounds must be a positive factor"),
        ("bounds", "0..3", 'bounds must be a factor, or of one column "low..high"'),
        ("bounds:hours", "3", 'of one column "low..high"'),
        ("bounds:nobody", 2, "column nobody is declared by no party"),
    ],
)
def test_a_wrong_value_is_told_in_its_row(name: str, value: float | str, says: str) -> None:
    ((_, found),) = vary(AGREEMENT, {name: [value]})
    assert isinstance(found, str) and says in found


def test_simulated_sums_and_noise_are_those_of_a_run() -> None:
    tables, rows = people(800, 1), 800
    terms = AGREEMENT.with_terms(epsilon=1e6)
    session = plan_session(terms, rows, bytes(32))
    stage = _Stage(terms, tables, np.arange(rows), np.arange(rows))
    simulated = simulate_release(session, stage._gram(session), Randomness(b"s"))
    real = run_unguarded(terms, tables, "none", Randomness(b"r")).release.moments()
    assert np.array_equal(simulated.std, real.std)
    known = np.isfinite(real.std)
    # Both are rounded with coins of their own.
    apart = np.abs(simulated.value - real.value)[known]
    assert apart.max() < 40 * max(real.std[known].max(), 0.01) + 0.6
    noisy = plan_session(AGREEMENT.with_terms(epsilon=0.05), rows, bytes(32))
    gram = stage._gram(noisy)
    draws = [simulate_release(noisy, gram, Randomness(bytes([k]))).value for k in range(200)]
    spread, std = np.std(draws, axis=0), simulate_release(noisy, gram, Randomness(b"x")).std
    drawn = np.isfinite(std) & (std > 0)
    assert np.mean(spread[drawn] / std[drawn]) == pytest.approx(1.0, abs=0.05)


def test_a_rehearsal_foretells_what_runs_achieve() -> None:
    public, private, unseen = people(1500, 2), people(1500, 3), people(2000, 4)
    # At epsilon 2 single releases differ by .08, and six of them tell nothing.
    terms = AGREEMENT.with_terms(epsilon=6.0)
    expected = rehearse(terms, public, 1500, releases=12).measures
    real = []
    for k in range(6):
        release = run_unguarded(terms, private, "none", Randomness(bytes([k]))).release
        real.append(measure(terms, solve(release.moments(), Task.LOGISTIC), unseen))
    for name in ("accuracy", "auc"):
        assert np.mean([r[name] for r in real]) == pytest.approx(expected[name].mean, abs=0.04)
        assert expected[name].trivial + 0.1 < expected[name].mean <= expected[name].clear + 0.02
    again = rehearse(terms, public, 1500, releases=12).measures
    assert again == expected
    poor = rehearse(AGREEMENT.with_terms(epsilon=0.02), public, 1500, releases=8).measures
    assert poor["accuracy"].mean < expected["accuracy"].mean - 0.03


def test_a_linear_study_is_rehearsed_with_r_squared() -> None:
    terms = AGREEMENT.with_terms(label="hours", task=Task.LINEAR, epsilon=50.0)
    found = rehearse(terms, people(600, 5), releases=4).measures
    assert set(found) == {"r2", "rmse"} and found["r2"].trivial == 0.0
    assert 0.2 < found["r2"].mean < 0.8 and found["rmse"].mean < found["rmse"].trivial


def test_corners_are_told() -> None:
    notes = corner_notes(AGREEMENT, people(300, 6))
    assert len(notes) == 1 and notes[0].startswith("column savings sits in a corner of its bounds")
    narrow = vary(AGREEMENT, {"bounds:savings": ["0..1000"]})[0][1]
    assert not isinstance(narrow, str)
    notes = corner_notes(narrow, declared_anew(people(300, 6), narrow.schema))
    assert [note.partition(":")[0] for note in notes] == ["column savings"] and "lie outside its bounds" in notes[0]


def test_the_schema_alone_gives_a_range() -> None:
    found = foretell(AGREEMENT, 2000, share=0.3, releases=1)
    low, high = found.whole("accuracy")
    assert 0.6 < low < 0.72 < 0.78 < high < 0.95 and found.trivial["accuracy"] == (0.7, 0.7)
    assert found.measures["auc"]["weak"][1] < found.measures["auc"]["strong"][1]
    with pytest.raises(StudyError, match="share must lie between 0 and 1, got share=2"):
        foretell(AGREEMENT, 2000, share=2)


def test_too_few_or_unequal_rows_are_refused() -> None:
    with pytest.raises(DataError, match="a rehearsal needs at least 50 public rows, got 20"):
        rehearse(AGREEMENT, people(20, 1))
    with pytest.raises(DataError, match="public rows must be as many for every party, got works 60, bank 61"):
        rehearse(AGREEMENT, {"works": people(60, 1)["works"], "bank": people(61, 1)["bank"]})


STUDY = """[study]
name = "pay"
task = "logistic"
label = "rich"
epsilon = 4.0
product = "plain"
rows = 500

[party.works]
id = "person"
[party.works.columns]
hours = { kind = "numeric", low = 0, high = 80 }
rich = { kind = "binary", levels = ["no", "yes"] }

[party.bank]
id = "person"
[party.bank.columns]
savings = { kind = "numeric", low = 0, high = 1000 }
"""


def test_the_commands(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run: Run = runner(monkeypatch, capfd)
    study, page = tmp_path / "study.toml", tmp_path / "page.html"
    study.write_text(STUDY)
    draw = np.random.default_rng(1)
    hours, savings = draw.uniform(0, 80, 300), draw.uniform(0, 1000, 300)
    rich = np.where(hours / 40 + savings / 500 + draw.normal(size=300) / 2 > 2, "yes", "no")
    both = pl.DataFrame({"person": range(300), "hours": hours, "rich": rich, "savings": savings})
    both.write_csv(tmp_path / "all.csv")
    both.drop("savings").write_csv(tmp_path / "works.csv")
    both.select("person", "savings")[::-1][:280].write_parquet(tmp_path / "bank.parquet")
    answer = run("plan", study, "--compare", "epsilon=1,2", "--html", page)
    assert answer.code == 0 and "Plans side by side" in answer.out and "polyline" in page.read_text()
    told = run("plan", study, "--compare", "bins=0,3", "--json").json
    assert told["n"] == 500 and [row["chosen"] for row in told["compared"]] == [{"bins": 0}, {"bins": 3}]
    found = run("rehearse", study, "--public", tmp_path / "all.csv", "--releases", "4", "--json").json["rehearsed"][0]
    assert (found["n"], found["public_rows"], found["releases"]) == (500, 300, 4)
    assert found["measures"]["accuracy"]["mean"] > found["measures"]["accuracy"]["trivial"]
    files = ("--public", f"works={tmp_path / 'works.csv'}", "--public", f"bank={tmp_path / 'bank.parquet'}")
    answer = run("rehearse", study, *files, "--compare", "epsilon=0.5,8", "--releases", "4", "--html", page)
    assert answer.code == 0 and "on 280 public rows" in answer.out and "whisker" in page.read_text()
    assert answer.out.count("accuracy") == 2
    blind = run("rehearse", study, "--share", "0.4", "--json").json
    low, high = blind["measures"]["accuracy"]["range"]
    assert low <= 0.6 < high and blind["shares"] == [0.4]
    # Old spellings go on working, with a word.
    short = ("--releases", "4", "--json")
    asked = run("rehearse", study, "--public", tmp_path / "all.csv", "--rows", "60", *short)
    old = run("rehearse", study, "--rows", tmp_path / "all.csv", "--records", "60", *short)
    assert old.json == asked.json and asked.json["rehearsed"][0]["n"] == 60
    assert old.err.startswith("warning: --rows is a number of records") and not asked.err
    assert run("rehearse", study, "--rows", "1").code == run("rehearse", study, "--rows", "9", "--rows", "8").code == 2
    assert run("rehearse", study, "--public", f"works={tmp_path / 'works.csv'}").err == (
        "error: public rows are one file, or PARTY=FILE for each party of the study, got none for bank\n"
    )
    assert run("rehearse", study, "--compare", "epsilon=1").code == 2
    assert run("rehearse", study, "--public", tmp_path / "all.csv", "--share", "0.4").code == 2
    assert json.loads(run("rehearse", study, "--share", "0.4", "--json").out) == blind


def test_a_plan_warns_of_heavy_columns() -> None:
    heavy = Schema.of(
        {
            "works": {"rich": {"kind": "boolean"}},
            "bank": {"branch": {"kind": "categorical", "levels": [f"b{k}" for k in range(150)]}},
        }
    )
    agreement = Agreement.from_terms("pay", heavy, "rich", Task.LOGISTIC, epsilon=1.0, product="plain")
    told = [note for note in plan_session(agreement, 3000, bytes(32)).warnings() if "levels" in note]
    assert len(told) == 1 and told[0].startswith("column branch has 150 levels, about 20 records each, under noise of")
    light = plan_session(AGREEMENT, 3000, bytes(32)).warnings()
    assert not [note for note in light if "levels" in note]


def test_fit_takes_another_epsilon(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run: Run = runner(monkeypatch, capfd)
    write_study(tmp_path, people=60)
    study, out = tmp_path / "study.toml", tmp_path / "r.json"
    study.write_text(study.read_text().replace('"lattice"', '"plain"'))
    assert run("fit", study, "--out", out, "--epsilon", "7", "--json").json["epsilon"] == pytest.approx(7)
    assert "--force" in run("fit", study, "--out", out, "--epsilon", "7").err
    refused = run("fit", study, "--out", out, "--epsilon", "-1").err
    assert refused.startswith("error: ") and refused.endswith("epsilon must be a positive number, got epsilon=-1.0\n")
