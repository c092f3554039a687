"""Truth values and dates as kinds of columns: declared, read from every type that a file may have, encoded, refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.released import Released
from colonnade.analysis.solve import solve
from colonnade.analysis.synthesis import fit_release, synthesize
from colonnade.analysis.tables import Tables
from colonnade.audit.pairs import candidates, middle
from colonnade.data.table import table_from
from colonnade.foundation.columns import column_from, column_to
from colonnade.foundation.errors import DataError, MissingError, SchemaError
from colonnade.foundation.kinds import Boolean, days_of
from colonnade.foundation.names import ColumnRef, Coordinate
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study

SMOKER, DAY = Coordinate(ColumnRef("p", "smoker"), 1), Coordinate(ColumnRef("p", "admitted"))
ADMITTED = {"kind": "date", "earliest": "2020-01-01", "latest": "2020-12-31"}


def test_truth_values_are_read_however_they_are_written() -> None:
    column = column_from("smoker", {"kind": "boolean"})
    for values in (["true", "False", " T ", "f"], ["yes", "NO", "Y", "n"], ["1", "0", "1", "0"]):
        table = table_from("p", pl.DataFrame({"smoker": values}), {"smoker": column})
        assert table.coordinates()[SMOKER].tolist() == [1, 0, 1, 0]
    for series in (pl.Series([True, False]), pl.Series([1, 0]), pl.Series([1.0, 0.0])):
        table = table_from("p", pl.DataFrame({"smoker": series}), {"smoker": column})
        assert table.coordinates()[SMOKER].tolist() == [1, 0]
    with pytest.raises(DataError, match="level 'maybe' is not among the declared levels"):
        table_from("p", pl.DataFrame({"smoker": ["true", "maybe"]}), {"smoker": column}).require_fit()
    with pytest.raises(MissingError, match="column smoker misses 1 value"):
        table_from("p", pl.DataFrame({"smoker": [True, None]}), {"smoker": column}).require_fit()
    filled = column_from("smoker", {"kind": "boolean", "fill": True})
    assert column_to(filled) == {"kind": "boolean", "fill": "true"} and column_from("s", column_to(filled)) == filled
    with pytest.raises(SchemaError, match="column s: fill must be true or false, got fill='perhaps'"):
        column_from("s", {"kind": "boolean", "fill": "perhaps"})
    with pytest.raises(SchemaError, match="fill must be true or false"):
        Boolean(fill="perhaps")
    assert Boolean(fill="YES") == filled


def test_dates_are_days_between_declared_ends() -> None:
    column = column_from("admitted", {**ADMITTED, "earliest": dt.date(2020, 1, 1)})
    assert column_to(column) == ADMITTED and column.describe(9) == "2020-01-01 to 2020-12-31"
    day = dt.date(2020, 7, 1)
    for value in ("2020-07-01", "2020-07-01T23:59:00", "2020-07-01 01:00:00+02", day, dt.datetime(2020, 7, 1, 23)):
        table = table_from("p", pl.DataFrame({"admitted": [value]}), {"admitted": column})
        # 182 of 365 days have passed.
        assert table.coordinates()[DAY][0] == pytest.approx(2 * 182 / 365 - 1)
    outside = table_from("p", pl.DataFrame({"admitted": ["1999-01-01", "2020-02-02"]}), {"admitted": column})
    assert outside.clipped == {"admitted": 1} and outside.coordinates()[DAY][0] == -1
    filled = column_from("admitted", {**ADMITTED, "fill": "2020-12-31"})
    table = table_from("p", pl.DataFrame({"admitted": ["", "2020-01-01", None]}), {"admitted": filled})
    assert table.coordinates()[DAY].tolist() == [1, -1, 1]


def test_binned_dates_are_intervals() -> None:
    column = column_from("admitted", {**ADMITTED, "bins": ["2020-04-01", "2020-09-01"]})
    assert column.coordinates("admitted") == (
        "admitted<2020-04-01",
        "2020-04-01<=admitted<2020-09-01",
        "admitted>=2020-09-01",
    )
    days = np.array([days_of(d) for d in ("2020-03-31", "2020-04-01", "2020-12-31")])
    assert column.codes(days).tolist() == [0, 1, 2]
    assert [column.codes(np.array([days_of(e)]))[0] for e in column.examples()] == [0, 1, 2]
    plain = column_from("admitted", ADMITTED)
    for found in (column, plain):
        raw = [*candidates(found, 7), middle(found, 7)]
        assert table_from("p", pl.DataFrame({"admitted": raw}), {"admitted": found}).rows == len(raw)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"earliest": "2020"}, "earliest must be a date such as 2024-05-31, got earliest='2020'"),
        ({"latest": "2020-02-30"}, "latest must be a date such as 2024-05-31, got latest='2020-02-30'"),
        ({"latest": 20201231}, "latest must be a date such as"),
        ({"latest": "2019-01-01"}, "earliest must be before latest"),
        ({"bins": ["2020-05-01", "2020-04-01"]}, "bins must increase strictly between earliest and latest"),
        ({"bins": "2020-05-01"}, "bins must be a list of dates"),
        ({"fill": "2021-01-01"}, "fill must lie between earliest and latest"),
        ({"latest": dt.datetime(2020, 3, 1, 12)}, "latest must be a date such as"),
        ({"latest": "?"}, 'latest still has the "\\?" of a draft'),
    ],
)
def test_a_wrong_date_is_refused(declared: dict[str, object], says: str) -> None:
    with pytest.raises(SchemaError, match=f"column admitted: {says}"):
        column_from("admitted", {**ADMITTED, **declared})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["2020-01-01", "31.12.2020"], "must hold dates such as 2024-05-31, row 2 does not"),
        (["2020-01-01", "2020-13-01"], "row 2 does not"),
        (["2020-01-01 and more"], "row 1 does not"),
        (
            [20200101, 20200102],
            "2 of 2 values do not, the first in row 1: it holds another type",
        ),
        (["2020-01-01", None], "column admitted misses 1 value, the first in row 2"),
    ],
)
def test_other_values_than_dates_are_refused(values: list[object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        column = column_from("admitted", ADMITTED)
        table_from("p", pl.DataFrame({"admitted": values}), {"admitted": column}).require_fit()


STUDY = """[study]
name = "stays"
task = "logistic"
label = "clinic.back"
epsilon = 1e5
product = "plain"
alignment = "none"

[party.clinic]
data = "clinic.csv"
[party.clinic.columns]
back = { kind = "boolean" }
admitted = { kind = "date", earliest = 2020-01-01, latest = 2020-12-31 }

[party.club]
data = "club.csv"
[party.club.columns]
joined = { kind = "date", earliest = 2000-01-01, latest = 2019-12-31, bins = [2010-01-01] }
member = { kind = "boolean" }
"""


def test_a_study_of_truth_values_and_dates(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    day, joined, member = draw.integers(0, 365, 600), draw.integers(0, 7000, 600), draw.integers(0, 2, 600)
    back = draw.uniform(size=600) < np.where(member == 1, 0.8, 0.2)
    first, start = np.datetime64("2020-01-01"), np.datetime64("2000-01-01")
    clinic = pl.DataFrame({"back": back, "admitted": (first + day).astype(str)})
    club = pl.DataFrame({"joined": (start + joined).astype(str), "member": member})
    clinic.write_csv(tmp_path / "clinic.csv")
    club.write_csv(tmp_path / "club.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    release = fit(read_study(tmp_path / "study.toml"), RunOptions(randomness=Randomness(b"days"))).release
    model = solve(release.moments(), Task.LOGISTIC)
    weights = dict(zip(model.features, model.coefficients, strict=True))
    assert set(weights) == {"admitted", "joined>=2010-01-01", "member=true"}
    assert weights["member=true"] > 2.0 > abs(weights["admitted"])
    asked = Released(release)
    assert asked.condition("joined=2015-03-01") == asked.condition("joined>=2010-01-01")
    rows = synthesize(fit_release(Tables.of(asked)), 20).values
    assert all(len(value) == 10 and value[:4] == "2020" for value in rows["admitted"])
    assert all("2000-01-01" <= value <= "2019-12-31" for value in rows["joined"])
