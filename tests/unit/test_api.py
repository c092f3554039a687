"""`import colonnade as cn`: studies of files and frames, plans, releases and models, as people use and misuse them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as cn
from colonnade.consent.ledger import Ledger
from colonnade.foundation.errors import ColonnadeError, DataError, PolicyError, ReleaseError, SchemaError, StudyError
from colonnade.model import score_files
from colonnade.report.progress import NotebookSteps, in_notebook

N = 400
WORKS: dict[str, Any] = {
    "pay": cn.Numeric(0, 10),
    "hours": {"kind": "numeric", "low": 0, "high": 60},
    "way": cn.Categorical(("bus", "car", "walk")),
}
TOWN: dict[str, Any] = {
    "age": cn.Numeric(18, 90, (30, 50, 70)),
    "owner": {"kind": "boolean"},
    "rich": cn.Binary(("no", "yes")),
}
POLICY = """
[policy]
party = "works"
partners = ["*"]
scores_to = ["*"]
[session]
epsilon = {most}
[total]
epsilon = 5.0
"""


def people() -> tuple[pl.DataFrame, pl.DataFrame]:
    draw = np.random.default_rng(1)
    hours, age = draw.uniform(10, 60, N), draw.uniform(18, 90, N)
    pay = np.clip(hours / 10 + age / 50 + draw.normal(0, 0.3, N), 0, 10)
    ids = [f"p{i}" for i in range(N)]
    works = pl.DataFrame({"person": ids, "pay": pay, "hours": hours, "way": draw.choice(["bus", "car", "walk"], N)})
    town = pl.DataFrame(
        {"person": ids, "age": age, "owner": draw.random(N) < 0.5, "rich": np.where(pay > 5, "yes", "no").tolist()}
    )
    return works, town


def parties(**changed: Any) -> dict[str, cn.Party]:
    works, town = people()
    given: dict[str, Any] = {"works": (works, WORKS), "town": (town.reverse(), TOWN), **changed}
    return {name: cn.Party(data, columns, id="person") for name, (data, columns) in given.items()}


def study(label: str = "works.pay", **changed: Any) -> cn.Study:
    told: dict[str, Any] = {"label": label, "parties": parties(), "epsilon": 1000.0, "product": "plain", **changed}
    return cn.Study(**told)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def release() -> cn.Release:
    return study().fit(seed=1, progress=False)


def test_the_snippet_of_the_interface(tmp_path: Path, release: cn.Release) -> None:
    made = study("town.rich")
    plan = made.plan()
    assert "logistic regression of town.rich" in repr(plan) and plan.epsilon == pytest.approx(1000.0)
    assert "10,000 people in common, assumed" in " ".join(repr(plan).split())
    model = release.solve("rich", task="logistic")
    works, town = people()
    wide = works.join(town, on="person")
    truth = wide["rich"].to_numpy()
    assert (model.predict(wide) == truth).mean() > 0.9 > max((truth == "yes").mean(), (truth == "no").mean())
    model.save(tmp_path / "m.json")
    read = cn.Model.read(tmp_path / "m.json")
    assert np.array_equal(read.predict(wide), model.predict(wide)) and read.intervals is None
    assert "a model file holds no intervals" in repr(read.summary())
    assert release.tables("works.way", "town.rich").frame.height == 6
    assert release.synthesize(1000).frame.height == 1000
    release.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    release.save(tmp_path / "r.json")
    assert cn.Release.read(tmp_path / "r.json").digest == release.digest


def test_frames_and_files_give_the_same_release(tmp_path: Path) -> None:
    works, town = people()
    works.write_csv(tmp_path / "works.csv")
    town.reverse().with_columns(pl.col("owner")).write_csv(tmp_path / "town.csv")
    of_files = {name: cn.Party(tmp_path / f"{name}.csv", columns, id="person")
                for name, columns in (("works", WORKS), ("town", TOWN))}  # fmt: skip
    pandas = {name: pd.DataFrame({c: frame[c].to_list() for c in frame.columns})
              for name, frame in (("works", works), ("town", town.reverse()))}  # fmt: skip
    of_pandas = {
        "works": cn.Party(pandas["works"], WORKS, id="person"),
        "town": cn.Party(pandas["town"], TOWN, id="person"),
    }
    arrow = {
        "works": cn.Party(_Arrow(works), WORKS, id="person"),
        "town": cn.Party(town.reverse().lazy(), TOWN, id="person"),
    }
    made = [parties(), of_files, of_pandas, arrow]
    digests = {study(parties=each).fit(seed=5, progress=False).digest for each in made}
    assert len(digests) == 1


class _Arrow:
    """Any library's frame that speaks Arrow's interface."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_order_of_rows_does_not_matter_where_ids_are_matched() -> None:
    _, town = people()
    shuffled = town.sample(fraction=1.0, shuffle=True, seed=3)
    coefficients = []
    for each in (town, shuffled):
        given = parties(town=(each, TOWN))
        coefficients.append(study(parties=given).fit(seed=2, progress=False).solve().coef["hours"])
    assert coefficients[0] == pytest.approx(coefficients[1], abs=0.01)


def test_without_ids_frames_are_taken_row_by_row() -> None:
    works, town = people()
    rows = {"works": cn.Party(works, WORKS), "town": cn.Party(town, TOWN)}
    made = study(parties=rows)
    assert made.study.alignment == "none" and made.plan().rows == N and not made.plan().assumed
    assert made.fit(seed=1, progress=False).n == N
    short = {"works": cn.Party(works, WORKS), "town": cn.Party(town.head(N - 1), TOWN)}
    with pytest.raises(ColonnadeError, match=r"400.*399|399.*400"):
        study(parties=short).fit(seed=1, progress=False)
    with pytest.raises(StudyError, match="needs an id column"):
        study(parties={"works": cn.Party(works, WORKS, id="person"), "town": cn.Party(town, TOWN)})


def test_integers_truth_values_and_dates() -> None:
    works, _ = people()
    begun = [date(2000, 1, 1) + timedelta(days=10 * i) for i in range(N)]
    works = works.with_columns(pl.Series("begun", begun), pl.Series("kids", [i % 4 for i in range(N)]))
    columns = {**WORKS, "begun": {"kind": "date", "earliest": "2000-01-01", "latest": "2015-01-01"},
               "kids": cn.Categorical(("0", "1", "2", "3"))}  # fmt: skip
    found = study(parties=parties(works=(works, columns))).fit(seed=1, progress=False)
    kids = found.tables("kids").frame
    assert kids["count"].to_list() == pytest.approx([100] * 4, abs=3)
    floats = pd.DataFrame({c: works[c].to_list() for c in works.columns})
    floats.loc[0, "kids"] = np.nan
    filled = {**columns, "kids": cn.Categorical(("0", "1", "2", "3"), fill="0")}
    again = study(parties=parties(works=(floats, filled))).fit(seed=1, progress=False)
    assert again.tables("kids").frame["count"].to_list() == pytest.approx([100] * 4, abs=3)
    with pytest.raises(DataError, match="kids"):
        study(parties=parties(works=(floats, columns))).fit(seed=1, progress=False, strict=True)


def test_a_database_and_columns_that_are_computed(tmp_path: Path) -> None:
    works, _ = people()
    with sqlite3.connect(tmp_path / "works.db") as base:
        base.execute("create table staff (person text, pay real, hours real, way text)")
        base.executemany("insert into staff values (?, ?, ?, ?)", works.rows())
    base.close()
    derived = {"hours2": "hours^2"}
    address = {"data": f"sqlite:///{tmp_path / 'works.db'}", "query": "select * from staff", "name": "staff"}
    found = []
    for given in (address, {"data": works}):
        own = cn.Party(columns=WORKS, id="person", derived=derived, **given)
        made = study(parties={"works": own, "town": parties()["town"]})
        found.append(made.fit(seed=3, progress=False))
    assert found[0].digest == found[1].digest
    assert "hours2" in found[0].solve().features and found[0].solve().predict(
        works.join(people()[1], on="person")
    ).shape == (N,)


def test_one_party_alone_and_one_row() -> None:
    works, _ = people()
    alone = cn.Study(label="pay", parties={"works": cn.Party(works, WORKS)}, epsilon=5.0)
    assert alone.fit(progress=False).n == N
    with pytest.raises(ColonnadeError, match=r"records|rows"):
        cn.Study(label="pay", parties={"works": cn.Party(works.head(1), WORKS)}, epsilon=5.0).fit(progress=False)
    with pytest.raises(DataError, match="holds no records"):
        cn.Study(label="pay", parties={"works": cn.Party(works.head(0), WORKS)}, epsilon=5.0).fit(progress=False)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: study("works.wage"), "column works.wage is declared by no party"),
        (lambda: study("mill.pay"), "column mill.pay is declared by no party"),
        (lambda: study(parties={}), "party"),
        (lambda: study(parties={"works": people()[0]}), "Party objects, got DataFrame for works"),
        (lambda: study(parties=parties(works=([1, 2], WORKS))), "must be a path or a data frame"),
        (lambda: study(parties=parties(works=(people()[0].drop("hours"), WORKS))), "has no column 'hours'"),
        (lambda: study(parties=parties(works=(people()[0].drop("person"), WORKS))), "has no column 'person'"),
        (lambda: study(epsilon=-1), "epsilon must be a positive number"),
        (lambda: study(epsilon=None), "either epsilon of the study"),
        (lambda: study(task="cubic"), "task must be one of"),
        (lambda: study(realease="full"), "did you mean 'release'"),
        (lambda: cn.Party(people()[0]), "columns must be a mapping"),
        (lambda: cn.Party(people()[0], {"pay": {"kind": "numeric"}}), "needs 'low'"),
        (lambda: study(parties={"works": cn.Party("postgres://db", WORKS, id="person")}), "postgres://db"),
        (lambda: cn.Study.read("nowhere.toml"), "there is no study file"),
        (lambda: cn.Release.read("nowhere.json"), "there is no release file"),
        (lambda: cn.Model.read("nowhere.json"), "there is no model file"),
    ],
)  # fmt: skip
def test_careless_use_gets_its_sentence(wrong: Any, says: str) -> None:
    with pytest.raises(ColonnadeError, match=says):
        wrong()


def test_two_columns_of_one_name_in_a_frame() -> None:
    works, _ = people()
    doubled = pd.DataFrame({c: works[c].to_list() for c in works.columns})
    doubled = pd.concat([doubled, doubled[["hours"]]], axis=1)
    with pytest.raises(DataError, match="two columns called 'hours'"):
        study(parties=parties(works=(doubled, WORKS)))
    # A column that the study does not name may be anything.
    doubled = pd.concat([doubled.iloc[:, :4], doubled[["person"]].rename(columns={"person": "notes"})], axis=1)
    study(parties=parties(works=(doubled.assign(nested=[[1]] * N), WORKS)))


def test_repeated_and_missing_ids_are_left_out_and_warned_of() -> None:
    works, _ = people()
    repeated = works.with_columns(pl.Series("person", ["p0", "p0", *works["person"].to_list()[2:]]))
    with pytest.raises(DataError, match="column person must hold ids that are unique, row 2 repeats one"):
        study(parties=parties(works=(repeated, WORKS))).fit(seed=1, progress=False, strict=True)
    with pytest.warns(UserWarning, match="rows that repeat an id .person., the first in row 2: left out"):
        assert study(parties=parties(works=(repeated, WORKS))).fit(seed=1, progress=False).n == N - 1
    missing = works.with_columns(pl.Series("person", [None, *works["person"].to_list()[1:]]))
    with pytest.raises(DataError, match="misses 1 value"):
        study(parties=parties(works=(missing, WORKS))).fit(seed=1, progress=False, strict=True)
    with pytest.warns(UserWarning, match="rows without an id .person., the first in row 1: left out"):
        assert study(parties=parties(works=(missing, WORKS))).fit(seed=1, progress=False).n == N - 1


def test_a_release_is_not_overwritten(tmp_path: Path, release: cn.Release) -> None:
    place = tmp_path / "r.json"
    release.save(place)
    with pytest.raises(StudyError, match="is not overwritten unless force=True"):
        release.save(place)
    with pytest.raises(StudyError, match="is not overwritten unless force=True"):
        study().fit(place, seed=1, progress=False)
    with pytest.raises(StudyError, match="a release is there"):
        release.solve().save(place)
    release.save(place, force=True)
    assert cn.Release.read(place).digest == release.digest
    place.write_text(place.read_text().replace('"n":400', '"n":401'))
    with pytest.raises(ReleaseError):
        cn.Release.read(place)


def consenting(tmp_path: Path, most: float, name: str | None = "payroll") -> cn.Study:
    (tmp_path / "policy.toml").write_text(POLICY.format(most=most))
    works, town = people()
    kept = cn.Party(
        works, WORKS, id="person", name=name, policy=tmp_path / "policy.toml", ledger=tmp_path / "works.ledger"
    )
    return cn.Study("works.pay", {"works": kept, "town": cn.Party(town, TOWN, id="person")}, epsilon=2.0, name="wages")


def test_a_policy_refuses_and_nothing_is_spent(tmp_path: Path) -> None:
    made = consenting(tmp_path, most=0.5)
    with pytest.raises(PolicyError, match=r"works refuses: .*epsilon"):
        made.fit(tmp_path / "r.json", progress=False)
    assert not (tmp_path / "r.json").exists()
    entries = Ledger(tmp_path / "works.ledger").entries() if (tmp_path / "works.ledger").exists() else []
    assert entries == []


def test_a_frame_whose_rows_changed_is_the_same_data_set(tmp_path: Path) -> None:
    made = consenting(tmp_path, most=3.0)
    first = made.fit(tmp_path / "r.json", progress=False)
    assert cn.Release.read(tmp_path / "r.json").digest == first.digest
    spent = first.spent["works"].epsilon
    assert spent > 0.5 and "town" not in first.spent
    works, town = people()
    other = works.head(N - 10).with_columns(pay=pl.col("pay") * 0.9)
    changed = cn.Party(other, WORKS, id="person", name="payroll", policy=tmp_path / "policy.toml",
                       ledger=tmp_path / "works.ledger")  # fmt: skip
    again = cn.Study("works.pay", {"works": changed, "town": cn.Party(town, TOWN, id="person")}, epsilon=2.0)
    assert again.fit(progress=False).spent["works"].epsilon == pytest.approx(2 * spent, rel=0.1)
    with pytest.raises(ColonnadeError, match=r"at most epsilon=5 in total"):
        again.fit(progress=False)
        again.fit(progress=False)


def test_a_frame_without_a_name_cannot_be_booked(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="party works: a data frame needs a name where a ledger is kept"):
        consenting(tmp_path, most=3.0, name=None).fit(progress=False)
    with pytest.raises(StudyError, match="a seed is for simulations"):
        consenting(tmp_path, most=3.0).fit(seed=1, progress=False)
    works, _ = people()
    alone = cn.Party(works, WORKS, policy=tmp_path / "policy.toml")
    with pytest.raises(StudyError, match="policy and ledger together"):
        cn.Study("pay", {"works": alone}, epsilon=1.0)


def test_warnings_come_before_the_spend_and_strict_refuses(tmp_path: Path) -> None:
    hopeless = study(epsilon=0.001, product="lattice")
    with pytest.raises(PolicyError, match="strict refuses this plan"):
        hopeless.fit(tmp_path / "r.json", strict=True, progress=False)
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="trivial"):
        warnings.simplefilter("error")
        hopeless.fit(tmp_path / "r.json", progress=False)
    assert not (tmp_path / "r.json").exists() and hopeless.opened is None
    with pytest.warns(UserWarning, match="trivial") as caught:
        found = hopeless.fit(progress=False)
    assert hopeless.opened is not None and hopeless.opened.digest == found.digest
    assert {Path(w.filename).name for w in caught if w.category is UserWarning} == {"test_api.py"}


def test_a_release_that_is_paid_for_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = study()

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("colonnade.runs.FittedStudy", fail)
    with pytest.raises(RuntimeError, match="planted"):
        made.fit(seed=1, progress=False)
    assert made.opened is not None and made.opened.n == N


def test_a_full_disk_loses_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = study()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StudyError, match="no space left on device"):
        made.fit(tmp_path / "r.json", seed=1, progress=False)
    assert made.opened is not None and made.opened.n == N


def test_plans_are_saved_read_and_compared(tmp_path: Path) -> None:
    plan = study(epsilon=1.0).plan(5000)
    plan.save(tmp_path / "plan.json")
    read, saved = cn.Plan.read(tmp_path / "plan.json"), json.loads((tmp_path / "plan.json").read_text())
    assert read.digest == plan.digest and read.to_dict() == plan.to_dict()
    (tmp_path / "plan.json").write_text(
        (tmp_path / "plan.json").read_text().replace('"epsilon": 1.0', '"epsilon": 9.0')
    )
    with pytest.raises(StudyError, match="another plan, or were altered"):
        cn.Plan.read(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(StudyError, match="not a complete plan"):
        cn.Plan.read(tmp_path / "plan.json")
    for key, value in (("n", "5000"), ("n", 5000.0), ("alignment", "by name")):
        (tmp_path / "plan.json").write_text(json.dumps(saved | {key: value}))
        with pytest.raises(StudyError, match="not a complete plan"):
            cn.Plan.read(tmp_path / "plan.json")
    plan.report(tmp_path / "plan.html")
    assert "</html>" in (tmp_path / "plan.html").read_text()
    found = plan.compare(epsilon=[0.1, 1.0, 10.0])
    shares = found.frame["explained"].to_list()
    assert (
        shares == sorted(shares)
        and shares[0] < shares[-1]
        and found.frame["epsilon"].to_list() == pytest.approx([0.1, 1, 10])
    )
    assert "<svg" in found._repr_html_() and "0.1" in repr(found)
    cut = plan.compare(bins={"hours": [0, 3]}, bounds={"hours": [(0, 60), (0, 40)]})
    assert len(cut) == 4 and all(one.session is not None for one in cut.variants)
    assert cut.variants[2].session.agreement.schema.parties["works"]["hours"].bins == (20, 40)
    bad = plan.compare(epsilon=[1.0, -1.0])
    assert bad.variants[1].session is None and "positive" in bad.variants[1].refused and "positive" in repr(bad)
    assert "numeric columns" in plan.compare(bins={"way": [1]}).variants[0].refused
    for wrong, says in (({"epsiln": [1]}, "got 'epsiln'"), ({}, "something to compare"), ({"epsilon": 3}, "a list of")):
        with pytest.raises(StudyError, match=says):
            plan.compare(**wrong)


def test_a_study_is_rehearsed_on_public_rows() -> None:
    works, town = people()
    made = study(epsilon=5.0)
    apart = made.rehearse({"works": works, "town": town.reverse()}, releases=4, epsilon=[0.1, 50.0])
    means = apart.frame.filter(pl.col("measure") == "r2")["mean"].to_list()
    assert means[0] < means[1] <= 1 and "with epsilon" in apart.frame.columns and "Rehearsed for 400" in repr(apart)
    assert "<svg" in apart._repr_html_()
    with pytest.raises(StudyError, match="got none for town"):
        made.rehearse({"works": works})
    with pytest.raises(StudyError, match="on public rows, and none are given"):
        made.rehearse(epsilon=[1.0])
    with pytest.raises(StudyError, match="linear and logistic studies"):
        study("works.way").rehearse(works.join(town, on="person"))


def test_coefficients_in_the_units_of_the_data(release: cn.Release) -> None:
    works, town = people()
    model = release.solve(features=["hours", "owner"], ridge=0.0)
    wide = works.join(town, on="person")
    X = np.column_stack([np.ones(N), wide["hours"], wide["owner"].cast(pl.Int8)])
    truth, *_ = np.linalg.lstsq(X, wide["pay"].to_numpy(), rcond=None)
    assert [model.intercept, model.coef["hours"], model.coef["owner=true"]] == pytest.approx(truth, abs=0.05)
    by_hand = X @ [model.intercept, model.coef["hours"], model.coef["owner=true"]]
    assert model.predict(wide) == pytest.approx(np.clip(by_hand, 0, 10), abs=1e-9)
    assert model.coef_encoded["hours"] == pytest.approx(model.coef["hours"] * 30 / 5)
    with pytest.raises(StudyError, match="odds ratios belong to logistic models"):
        _ = model.odds_ratios
    with pytest.raises(StudyError, match="chances belong to models of levels"):
        model.predict_proba(wide)
    summary = release.solve(features=["hours", "owner"]).summary()
    found = {row["feature"]: row for row in summary.intervals.to_dicts()}
    assert found["hours"]["low"] < truth[1] < found["hours"]["high"]
    assert summary.frame["feature"].to_list() == ["hours", "owner=true"]


def test_a_release_is_solved_and_denoised_once(
    release: cn.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def count(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            counts[name] += 1
            return of(*args, **named)

        return counted

    for module, name in (("denoise", "_project"), ("request", "fit")):
        found = getattr(import_module(f"colonnade.analysis.{module}"), name)
        monkeypatch.setattr(f"colonnade.analysis.{module}.{name}", count(name, found))
    release.save(tmp_path / "release.json")
    fresh = cn.Release.read(tmp_path / "release.json")
    fresh.report(tmp_path / "page.html")
    told = fresh.summary().answer.facts()
    assert told["params"] and fresh.tables().to_dict()["margins"] and counts == {"_project": 1, "fit": 1}


def test_odds_ratios_and_their_intervals(release: cn.Release) -> None:
    model = release.solve("rich", task="logistic", features=["hours", "owner"])
    assert model.classes == ("no", "yes")
    assert model.odds_ratios == pytest.approx({k: np.exp(v) for k, v in model.coef.items()})
    found = model.summary().intervals
    assert found["odds_ratio"].to_list() == pytest.approx(np.exp(found["estimate"].to_numpy()).tolist())
    share = release.solve("rich=yes", task="linear", features=["hours"])
    works, town = people()
    wide = works.join(town, on="person")
    by_hand = share.intercept + share.coef["hours"] * wide["hours"].to_numpy()
    assert share.predict(wide) == pytest.approx(np.clip(by_hand, 0, 1), abs=1e-6)


def test_several_classes_and_counts(release: cn.Release) -> None:
    works, town = people()
    wide = works.join(town, on="person")
    model = release.solve("way")
    chances = model.predict_proba(wide)
    assert model.task == "multinomial" and chances.shape == (N, 3) and chances.sum(axis=1) == pytest.approx(np.ones(N))
    assert set(model.coef) == {"bus", "car", "walk"} and "bus" in repr(model.summary())
    assert set(model.predict(wide)) <= {"bus", "car", "walk"}
    # The study's label, a number, is no feature of this model: its square was not released.
    assert "pay" not in model.coef["bus"] and any("its square was not released" in note for note in model.notes)
    declared = study("works.way", epsilon=1000.0).fit(seed=2, progress=False)
    assert declared.plan["task"] == "multinomial" and declared.solve().classes == ("bus", "car", "walk")
    assert len(release.path("rich", task="logistic")) > 3


def test_scores_of_parts_matched_by_ids(tmp_path: Path, release: cn.Release) -> None:
    works, town = people()
    model = release.solve("rich", task="logistic")
    wide = model.scores(works.join(town, on="person"), id="person")
    apart = model.scores({"works": works, "town": town.reverse()}, id="person")
    assert wide.sort("person").equals(apart.sort("person")) and apart.columns[0] == "person"
    works.write_csv(tmp_path / "w.csv")
    town.write_csv(tmp_path / "t.csv")
    by_files = score_files(model.public, [f"works={tmp_path / 'w.csv'}", f"town={tmp_path / 't.csv'}"], "person")
    assert by_files.values == pytest.approx(apart["probability yes"].to_numpy())
    assert model.predict({"works": tmp_path / "w.csv", "town": town}).shape == (N,)
    with pytest.raises(DataError, match="got none for town"):
        model.predict({"works": works})
    with pytest.raises(DataError, match="row by row, got rows works 400, town 399"):
        model.predict({"works": works, "town": town.head(N - 1)})
    with pytest.raises(DataError, match="must be a path or a data frame"):
        model.predict(np.zeros((3, 3)))
    with pytest.raises(DataError, match="needs an id column, got none for town"):
        model.predict({"works": works, "town": town}, id={"works": "person"})


def test_scores_across_parties(release: cn.Release) -> None:
    model = release.solve()
    scores = study().predict(model, "works", progress=False)
    works, town = people()
    expected = model.scores({"works": works, "town": town}, id="person")
    found = scores.join(expected, on="person")
    assert found.height == N and found["score"].to_numpy() == pytest.approx(found["predicted"].to_numpy(), abs=0.01)


def test_a_model_is_evaluated_in_private(tmp_path: Path, release: cn.Release) -> None:
    works, town = people()
    model = release.solve("rich", task="logistic")
    held_out = {"works": works.head(300), "town": town.head(300)}
    found = study().evaluate(model, held_out, release=release, epsilon=50.0, out=tmp_path / "e.json", progress=False)
    wide = works.join(town, on="person").head(300)
    accuracy = (model.predict(wide) == wide["rich"].to_numpy()).mean()
    measured = {row["measure"]: row for row in found.frame.to_dicts()}
    assert measured["accuracy"]["value"] == pytest.approx(accuracy, abs=0.1)
    assert measured["accuracy"]["value"] > measured["accuracy"]["trivial"] and (tmp_path / "e.json").exists()
    assert "How good the model is on these 300 records" in repr(found) and "accuracy" in found._repr_html_()
    for wrong, says in (({"mill": works}, "parties of the study"), ({"works": 3}, "must be a path or a data frame")):
        with pytest.raises(ColonnadeError, match=says):
            study().evaluate(model, wrong, progress=False)
    with pytest.raises(StudyError, match="several classes"):
        study().evaluate(release.solve("way"), progress=False)


def test_rows_and_tables(tmp_path: Path, release: cn.Release) -> None:
    rows = release.synthesize(500, given="rich=yes", seed=3)
    assert set(rows.frame["rich"]) == {"yes"} and len(rows) == 500 and "standard errors" in rows.notes[0]
    assert rows.frame.equals(release.synthesize(500, given=["rich=yes"], seed=3).frame)
    rows.save(tmp_path / "rows.csv")
    assert "standard errors" in (tmp_path / "rows.notes.txt").read_text()
    assert pl.read_csv(tmp_path / "rows.csv").columns == rows.frame.columns
    rows.save(tmp_path / "rows.parquet")
    assert pl.read_parquet(tmp_path / "rows.parquet").height == 500
    with pytest.raises(StudyError, match=r"\.csv or \.parquet"):
        rows.save(tmp_path / "rows.xlsx")
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(StudyError, match="rows must be a whole number from 1 to 100,000,000"):
            release.synthesize(wrong)  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="no released column 'wage'"):
        release.tables("wage")
    with pytest.raises(StudyError, match="first column before a second"):
        release.tables(b="way")
    every = release.tables()
    assert set(every.frame["column_a"]) == {"way", "age", "owner", "rich"} and "tree" in every.to_dict()
    found = release.components()
    assert found.share.sum() == pytest.approx(1.0) and len(found.names) == found.loadings.shape[1]
    for wrong, says in (({"task": "cubic"}, "task must be one of"), ({"penalty": "l7"}, "penalty must be one of")):
        with pytest.raises(StudyError, match=says):
            release.solve(**wrong)  # type: ignore[arg-type]


HOSTILE = "<script>alert('&\"')</script>[bold]"


def test_every_object_shows_itself_and_escapes_hostile_names() -> None:
    works, _ = people()
    levels = ("bus", "car", HOSTILE)
    works = works.with_columns(pl.col("way").replace("walk", HOSTILE)).rename({"hours": HOSTILE})
    columns = {"pay": WORKS["pay"], HOSTILE: cn.Numeric(0, 60), "way": cn.Categorical(levels)}
    party = cn.Party(works, columns, id="person", name=HOSTILE)
    made = study(parties={"works": party, "town": parties()["town"]}, name=HOSTILE)
    found = made.fit(seed=1, progress=False)
    models = [found.solve(features=["owner", HOSTILE]), found.solve("way"), found.solve("rich", task="logistic")]
    plan = made.plan()
    objects = [party, made, plan, plan.compare(bounds={HOSTILE: [(0, 60)]}), found, found.tables(), found.components()]
    objects += [found.tables("way", "rich"), found.synthesize(20), *models, *(m.summary() for m in models)]
    for each in objects:
        html, text = each._repr_html_(), repr(each)
        assert html is not None and html.startswith('<div class="colonnade">') and "<script" not in html
        assert text and "\x1b" not in text
    assert HOSTILE in repr(found) and "alert" in made._repr_html_()


def test_importing_the_package_stays_light() -> None:
    program = (
        "import sys, colonnade as cn; dir(cn); "
        "assert not {'numpy', 'polars', 'sklearn', 'scipy', 'rich'} & set(sys.modules); "
        "cn.Study; assert 'sklearn' not in sys.modules and 'IPython' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr == ""


def test_schema_errors_are_those_of_the_study() -> None:
    works, town = people()
    both = {
        "works": cn.Party(works, WORKS),
        "town": cn.Party(town.with_columns(pay=1.0), {**TOWN, "pay": cn.Numeric(0, 1)}),
    }
    with pytest.raises(SchemaError, match=r"column pay may be works\.pay or town\.pay"):
        study("pay", parties=both)


def test_bars_in_a_notebook_are_one_display_that_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    handle = SimpleNamespace(update=drawn.append)

    def display(page: str, display_id: bool) -> SimpleNamespace:
        drawn.append(page)
        return handle

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(NotebookSteps, "EVERY", 0.0)
    assert in_notebook()
    with NotebookSteps() as steps:
        steps("read", 0.5)
        steps("<b>", 0.25)
        steps("read", 0.7)
    assert "reading the files" in drawn[0] and "50%" in drawn[0]
    assert "&lt;b&gt;" in drawn[-1] and drawn[-1].count("took") == 2 and "70%" not in drawn[-1]
    with pytest.raises(ZeroDivisionError), NotebookSteps() as steps:
        steps("read", 1 / 0)


def test_a_plan_says_which_numbers_it_cuts() -> None:
    grades = pl.DataFrame({"grade": [1, 2, 3, 4] * 10, "y": ["no", "yes"] * 20})
    columns = {
        "grade": {"kind": "numeric", "low": 1, "high": 4, "integer": True},
        "y": {"kind": "binary", "levels": ["no", "yes"]},
    }
    parties = {"school": cn.Party(grades, columns)}
    cut = cn.Study("school.y", parties, epsilon=1.0, rows=40_000)
    assert "Binned: school.grade" in " ".join(str(cut.plan()).split())
    for terms in ({}, {"rows": 40_000, "numeric": "declared"}):
        assert "one for every value" not in str(cn.Study("school.y", parties, epsilon=1.0, **terms).plan())
