"""A further kind of column is one class: two toys go the whole way from a study file to a score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from rich.console import Console

from colonnade.analysis.fit import fit as solved
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Released
from colonnade.analysis.solve import solve
from colonnade.analysis.synthesis import fit_release, synthesize
from colonnade.analysis.tables import Tables
from colonnade.audit.pairs import candidates, middle
from colonnade.foundation.columns import KINDS, Codes, Column, Storage, column_from, column_to, register_kind, texts_of
from colonnade.foundation.errors import DataError, SchemaError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.shown import OPEN
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord, read_release, write_release
from colonnade.model import publish, read_model, score_files, write_model
from colonnade.report.answers.coefficients import fitted
from colonnade.report.render.terminal import shown
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study

ROWS = 400


@dataclass(frozen=True)
class Ordinal(Column):
    """Declared levels in their order; a record has the rank as one number."""

    levels: tuple[str, ...]
    fill: str | None = None

    kind = "ordinal"
    keys = {"levels": True, "fill": False}  # noqa: RUF012
    storage = Storage.LEVELS
    has_levels = False

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        return cls(texts_of(declared, "levels"))

    def declared(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}

    @classmethod
    def draft(cls) -> dict[str, Any]:
        return {"levels": [OPEN]}

    @property
    def all_levels(self) -> tuple[str, ...]:
        return self.levels

    @property
    def bounds(self) -> tuple[float, float]:
        return 0, len(self.levels) - 1

    def describe(self, most: int) -> str:
        return " < ".join(self.levels[:most])

    def write(self, value: float) -> str:
        return self.levels[int(value)]


@dataclass(frozen=True)
class Cyclic(Column):
    """A number that begins again after a period, as the indicator of one of several equal parts."""

    period: float
    parts: int
    fill: float | None = None

    kind = "cyclic"
    keys = {"period": True, "parts": True}  # noqa: RUF012
    storage = Storage.NUMBERS
    has_levels = True

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        if not declared["period"] > 0:
            raise SchemaError(f"period must be positive, got period={declared['period']}")
        return cls(declared["period"], declared["parts"])

    def declared(self) -> dict[str, Any]:
        return {"period": self.period, "parts": self.parts}

    @classmethod
    def draft(cls) -> dict[str, Any]:
        return {"period": OPEN, "parts": OPEN}

    def coordinates(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name}={i}/{self.parts}" for i in range(self.parts))

    def codes(self, values: NDArray[Any]) -> Codes:
        return (np.mod(values, self.period) * self.parts / self.period).astype(np.int32).clip(max=self.parts - 1)

    def examples(self) -> list[Any]:
        return [(i + 0.5) * self.period / self.parts for i in range(self.parts)]


@pytest.fixture
def _toys() -> Iterator[None]:
    register_kind(Ordinal)
    register_kind(Cyclic)
    yield
    del KINDS["ordinal"]
    del KINDS["cyclic"]


STUDY = """[study]
name = "toys"
task = "linear"
label = "clinic.grade"
epsilon = 1e5
product = "plain"
alignment = "none"

[party.clinic]
data = "clinic.csv"
[party.clinic.columns]
grade = { kind = "ordinal", levels = ["low", "fair", "good", "high", "top"] }
age = { kind = "numeric", low = 0, high = 90 }

[party.club]
data = "club.csv"
[party.club.columns]
hour = { kind = "cyclic", period = 24, parts = 4 }
mood = { kind = "ordinal", levels = ["bad", "well", "great"] }
sex = { kind = "binary", levels = ["f", "m"] }
"""


def write_toys(folder: Path) -> None:
    """The grade rises with the mood, and is one higher in the second quarter of the day."""
    draw = np.random.default_rng(3)
    mood, hour = draw.integers(0, 3, ROWS), draw.uniform(-24, 48, ROWS)
    grade = mood + (np.mod(hour, 24) // 6 == 1) + draw.integers(0, 2, ROWS)
    clinic = {"grade": np.array(["low", "fair", "good", "high", "top"])[grade], "age": draw.uniform(0, 90, ROWS)}
    club = {"hour": hour, "mood": np.array(["bad", "well", "great"])[mood], "sex": draw.choice(["f", "m"], ROWS)}
    pl.DataFrame(clinic).write_csv(folder / "clinic.csv")
    pl.DataFrame(club).write_csv(folder / "club.csv")
    (folder / "study.toml").write_text(STUDY)


@pytest.fixture
def released(tmp_path: Path, _toys: None) -> ReleaseRecord:
    write_toys(tmp_path)
    run = fit(read_study(tmp_path / "study.toml"), RunOptions(randomness=Randomness(b"toys")))
    assert run.tables["club"].clipped == {"hour": 0} and run.tables["clinic"].clipped == {"age": 0}
    return read_release(write_release(run.release))


def test_a_study_with_toy_columns_runs_and_scores(released: ReleaseRecord, tmp_path: Path) -> None:
    model = read_model(write_model(publish(released, solve(released.moments(), Task.LINEAR, ridge=0.0))))
    weights = dict(zip(model.model.features, model.model.coefficients, strict=True))
    clinic, club = (pl.read_csv(tmp_path / f"{party}.csv") for party in ("clinic", "club"))
    grade = clinic["grade"].replace_strict(["low", "fair", "good", "high", "top"], range(5)).to_numpy()
    mood = club["mood"].replace_strict(["bad", "well", "great"], range(3)).to_numpy()
    quarter = np.eye(4)[(np.mod(club["hour"].to_numpy(), 24) // 6).astype(int)][:, 1:]
    others = [clinic["age"].to_numpy() / 45 - 1, (club["sex"] == "m").to_numpy(), np.ones(ROWS)]
    wanted = np.linalg.lstsq(np.column_stack([mood - 1, quarter, *others]), grade / 2 - 1, rcond=None)[0]
    found = [weights[name] for name in ("mood", "hour=1/4", "hour=2/4", "hour=3/4")]
    assert found == pytest.approx(wanted[:4].tolist(), abs=0.005) and "hour=0/4" not in weights
    scores = score_files(model, [f"{party}={tmp_path / party}.csv" for party in ("clinic", "club")]).values
    assert np.std(scores - grade) < 0.6 * np.std(grade)
    console = Console(width=120, file=StringIO())
    console.print(shown(fitted(model, None)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Model: grade, from low to top" in text and "bad < well < great" in text
    assert "0/4" in text


def test_tables_and_rows_of_toy_columns(released: ReleaseRecord) -> None:
    asked = Released(released)
    assert asked.condition("hour=7.5") == asked.condition("hour=1/4")
    rows = synthesize(fit_release(Tables.of(asked)), 30).values
    assert set(rows["mood"]) <= {"bad", "well", "great"} and set(rows["hour"]) <= {f"{i}/4" for i in range(4)}
    assert solved(Held(asked.known, asked.release), Question("mood", "linear")).label == "mood"


def test_toy_columns_are_declared_checked_and_drafted(_toys: None, tmp_path: Path) -> None:
    for declared in ({"kind": "cyclic", "period": 24, "parts": 4}, {"kind": "ordinal", "levels": ["a", "b"]}):
        column = column_from("c", declared)
        assert (column_to(column) == declared and OPEN in column.draft().values()) or [OPEN] in column.draft().values()
        assert middle(column, 7) in candidates(column, 7)
    with pytest.raises(SchemaError, match="column c: period must be positive, got period=-1"):
        column_from("c", {"kind": "cyclic", "period": -1, "parts": 4})
    with pytest.raises(SchemaError, match=r"kind must be one of numeric, .*date.*ordinal, cyclic"):
        column_from("c", {"kind": "time"})
    with pytest.raises(SchemaError, match=r"got a column of kind ordinal with bounds 0 and 0"):
        Ordinal(("only",)).signed(np.zeros(2))
    with pytest.raises(SchemaError, match="got a column of kind cyclic"):
        Cyclic(24, 4).require_bounds()
    with pytest.raises(SchemaError, match="kind 'cyclic' is known already"):
        register_kind(Cyclic)
    write_toys(tmp_path)
    text = (tmp_path / "club.csv").read_text()
    (tmp_path / "club.csv").write_text(text.replace("great", "superb"))
    with pytest.raises(DataError, match="level 'superb' is not among the declared levels"):
        fit(read_study(tmp_path / "study.toml"), RunOptions(randomness=Randomness(b"toys")))


def test_a_toy_kind_is_gone_with_its_test() -> None:
    with pytest.raises(SchemaError, match=r"kind must be one of numeric, .*date.*got kind='ordinal'"):
        column_from("c", {"kind": "ordinal", "levels": ["a", "b"]})
