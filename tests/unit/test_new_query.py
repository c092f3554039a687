"""A further query is one class: a toy goes the whole way from a study file to a plan, a release and its answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.dissection import Block, dissect
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import exact_objective
from colonnade.mechanism.release import read_release, write_release
from colonnade.planning.agreement import Agreement
from colonnade.planning.query import ASKED, Query
from colonnade.runs import RunOptions, fit
from colonnade.study import StudySpec, read_study

ROWS = 500
STUDY = """[study]
name = "toys"
task = "logistic"
label = "clinic.ill"
release = "bare"
epsilon = 1e5
rows = 500
product = "plain"
alignment = "none"

[party.clinic]
data = "clinic.csv"
[party.clinic.columns]
ill = { kind = "binary", levels = ["no", "yes"] }
ward = { kind = "categorical", levels = ["a", "b", "c"] }

[party.club]
data = "club.csv"
[party.club.columns]
sport = { kind = "categorical", levels = ["ball", "swim"] }
"""


class Bare(Query):
    """Products with the label, and nothing besides."""

    word, meaning = "bare", "products with the label alone"

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        return dissect(exact_objective(layout, pairs=frozenset()))


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudySpec]:
    draw = np.random.default_rng(5)
    ill = draw.choice(["no", "yes"], ROWS)
    pl.DataFrame({"ill": ill, "ward": draw.choice(list("abc"), ROWS)}).write_csv(tmp_path / "clinic.csv")
    pl.DataFrame({"sport": np.where(draw.random(ROWS) < 0.7, ill == "yes", ill == "no")}).with_columns(
        pl.col("sport").replace_strict({True: "ball", False: "swim"})
    ).write_csv(tmp_path / "club.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    ASKED.add(Bare.word, Bare)
    yield read_study(tmp_path / "study.toml")
    del ASKED[Bare.word]


def test_a_study_asks_for_it_and_a_release_answers(study: StudySpec, tmp_path: Path) -> None:
    agreement = study.agreement
    assert isinstance(agreement.query, Bare) and Agreement.of(agreement.to()) == agreement
    assert agreement.to()["release"] == "bare"
    session = study.session()
    assert session.released == "bare" and session.describe()["released"] == "bare"
    released = fit(study, RunOptions(randomness=Randomness(b"toy query"))).release
    tables = Tables.of(Released(read_release(write_release(released))))
    clinic, club = pl.read_csv(tmp_path / "clinic.csv"), pl.read_csv(tmp_path / "club.csv")
    ill, sport = clinic["ill"].to_numpy() == "yes", club["sport"].to_numpy() == "swim"
    found = tables.cross(tables.released.find("ill"), tables.released.find("sport")).count
    wanted = [[(~ill & ~sport).sum(), (~ill & sport).sum()], [(ill & ~sport).sum(), (ill & sport).sum()]]
    assert np.abs(found - wanted).max() < 1
    with pytest.raises(ReleaseError):
        tables.cross(tables.released.find("ward"), tables.released.find("sport"))


def test_a_word_stands_for_one_query(study: StudySpec, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="release 'bare' is known already"):
        ASKED.add("bare", Bare)
    (tmp_path / "other.toml").write_text(STUDY.replace("bare", "sparse"))
    with pytest.raises(StudyError, match="release must be one of auto, full, label, pairs, margins, trace, bare"):
        read_study(tmp_path / "other.toml")
