"""The recipe that every door uses: a study's policies and ledgers are honoured from Python, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade import runs, simulation
from colonnade.analysis.solve import solve
from colonnade.consent.entries import DataSet
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import read_policy
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError, PolicyError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.model import publish
from colonnade.planning.session_plan import SessionPlan
from colonnade.study import StudySpec, read_study

STUDY = """
[study]
name = "wages"
task = "linear"
label = "works.pay"
epsilon = 2.0

[party.works]
data = "works.csv"
id = "person"
policy = "works.policy.toml"
ledger = "works.ledger"
[party.works.columns]
pay = { kind = "numeric", low = 0, high = 10 }
hours = { kind = "numeric", low = 0, high = 60 }

[party.town]
data = "town.csv"
id = "person"
[party.town.columns]
age = { kind = "numeric", low = 18, high = 90 }
"""
POLICY = """
[policy]
party = "works"
partners = ["*"]
scores_to = ["works"]
[session]
epsilon = {session}
[total]
epsilon = 5.0
"""


def write_study(folder: Path, session: float) -> StudySpec:
    draw = np.random.default_rng(1)
    people = [f"p{i}" for i in range(300)]
    hours, age = draw.uniform(10, 60, 300), draw.uniform(18, 90, 300)
    pay = np.clip(hours / 10 + age / 50 + draw.normal(0, 0.3, 300), 0, 10)
    pl.DataFrame({"person": people, "pay": pay, "hours": hours}).write_csv(folder / "works.csv")
    pl.DataFrame({"person": people[::-1], "age": age[::-1]}).write_csv(folder / "town.csv")
    (folder / "study.toml").write_text(STUDY)
    (folder / "works.policy.toml").write_text(POLICY.replace("{session}", str(session)))
    return read_study(folder / "study.toml")


def spent(folder: Path) -> float:
    data = DataSet.of_file(folder / "works.csv")
    return Ledger(folder / "works.ledger").spent(data, read_policy(folder / "works.policy.toml").cap).epsilon


class Seen(runs.Observer):
    """What a run tells, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.order = folder, list[str]()

    def plan(self, party: str, session: SessionPlan) -> None:
        self.order.append(party)

    def table(self, table: Table) -> None:
        self.order.append(f"{table.party} {table.rows}")

    def opened(self, release: ReleaseRecord) -> None:
        self.order.append(f"kept at {spent(self.folder):.3g}")


def test_a_run_that_a_policy_refuses_is_refused_and_spends_nothing(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    study = write_study(tmp_path, session=0.5)
    with pytest.raises(PolicyError, match=r"works refuses: .*epsilon"):
        runs.fit(study, observer=seen)
    assert not any("kept" in event for event in seen.order)
    assert spent(tmp_path) == 0


def test_a_run_is_kept_first_and_then_booked_as_released(tmp_path: Path) -> None:
    study = write_study(tmp_path, session=3.0)
    seen = Seen(tmp_path)
    fitted = runs.fit(study, observer=seen)
    epsilon = fitted.outcome.session.views("works")
    booked = max(e for e in epsilon.values() if e is not None)
    assert seen.order == ["works 300", "town 300", "works", "town", f"kept at {booked:.3g}"]
    assert fitted.unkept == ["town"]
    assert fitted.spent["works"].epsilon == pytest.approx(booked) and not fitted.unsettled
    # A second run spends a second time, and a third would pass the cap.
    runs.fit(study)
    with pytest.raises(ColonnadeError, match=r"works refuses: .*at most epsilon=5 in total"):
        runs.fit(study)
        runs.fit(study)


def test_a_seeded_run_of_a_study_with_ledgers_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path, session=3.0)
    with pytest.raises(StudyError, match=r"a seed is for simulations, .* party works keeps one"):
        runs.fit(study, runs.RunOptions(randomness=Randomness(seed=b"x")))
    assert not (tmp_path / "works.ledger").exists()


def test_scores_need_a_policy_that_allows_them(tmp_path: Path) -> None:
    study = write_study(tmp_path, session=3.0)
    public = publish(runs.fit(study).release, solve(runs.fit(study).release.moments(), Task.LINEAR))
    scores, prediction = runs.predict(study, public, "works")
    assert len(scores.values) == 300 and prediction.receiver == "works"
    with pytest.raises(PolicyError, match=r"works refuses: .*town"):
        runs.predict(study, public, "town")


def test_options_serve_twice_and_noise_does_not(tmp_path: Path) -> None:
    study, options = write_study(tmp_path, session=3.0), runs.RunOptions()
    first, second = (runs.fit(study, options).release for _ in range(2))
    assert not np.array_equal(first.blocks[0].values, second.blocks[0].values)


def test_data_of_a_party_without_a_part_of_the_score_is_refused(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    parties = {}
    for name, column in (("a", "y"), ("b", "u"), ("c", "v")):
        path = tmp_path / f"{name}.csv"
        pl.DataFrame({column: draw.uniform(0, 1, 60)}).write_csv(path)
        parties[name] = cn.Party(path, {column: cn.Numeric(0, 1)})
    study = cn.Study("y", parties, epsilon=50.0)
    model = simulation.fit(study, 1, progress=False).solve(features=["u"])
    with pytest.raises(StudyError, match="whose columns are scored, a, b, got 'c'"):
        study.predict(model, "a", data={"c": tmp_path / "c.csv"}, progress=False)
