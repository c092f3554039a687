"""What others are recorded as never depends on one person's values: else that person would move all records."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from colonnade.data import people
from colonnade.data.ids import IdColumns
from colonnade.data.people import RecordFrames
from colonnade.data.reading import Reading
from colonnade.data.sources import FrameSource, Source, read_address
from colonnade.data.table import Table
from colonnade.data.written import Written
from colonnade.estimators.frames import series_of
from colonnade.foundation.columns import Aggregate, Column
from colonnade.foundation.kinds import with_indicators
from colonnade.foundation.schema import Boolean, Categorical, Date, Numeric

OTHERS: list[tuple[Any, ...]] = [
    ("b", 1.0, 3, 1, "2020-01-01"),
    ("c", 2.0, 4.5, 0, "2021-06-01"),
    ("d", 2.0, 0.1, 1.0, "2022-01-01"),
    (2**53 + 1, 1.0, True, True, "2023-01-01"),
]
"""Ids, levels that an array made floats, numbers, truth values, and days."""
ODD: list[Any] = ["x", "1", "k.A.", "", 2.5, 7, None, True, float("nan"), float("inf"), b"\xff", -0.0, 10**30]
DECLARED: dict[str, Column] = {
    "c": Categorical(("1", "2")),
    "x": Numeric(0, 10, missing="indicator", fill=5),
    "t": Boolean(),
    "d": Date("2019-01-01", "2024-01-01"),
}
NAMES, COLUMNS = ["id", *DECLARED], with_indicators(DECLARED)


def sqlite(rows: list[tuple[Any, ...]], folder: Path) -> Table:
    place = folder / "rows.sqlite"
    place.unlink(missing_ok=True)
    with sqlite3.connect(place) as base:
        base.execute(f"create table rows ({', '.join(NAMES)})")
        kept = [[str(v) if isinstance(v, int) and abs(v) >= 2**63 else v for v in row] for row in rows]
        base.executemany("insert into rows values (?, ?, ?, ?, ?)", kept)
    base.close()
    at = read_address(f"sqlite://{place}", "select * from rows", "rows", Path("/"), "test")
    return Source(at, "id", written=Written(missing=("k.A.",))).read("p", COLUMNS)


def pandas(rows: list[tuple[Any, ...]], folder: Path) -> Table:
    frame = pd.DataFrame(rows, columns=NAMES, dtype=object)
    written = Written(decimal=",", dates="%d.%m.%Y", missing=("k.A.",))
    # Days as such: a text among them must not make texts of them.
    frame["d"] = [pd.Timestamp(v).date() if isinstance(v, str) and v[:2] == "20" else v for v in frame["d"]]
    return Source(None, "id", written=written).given("p", frame, COLUMNS).read("p", COLUMNS)


@pytest.mark.parametrize("read", [sqlite, pandas])
def test_a_value_of_another_type_changes_no_other_record(read: Any, tmp_path: Path) -> None:
    wanted = {"c": [0, 1, 1, 0], "x": [3, 4.5, 0.1, 1], "t": [1, 0, 1, 1], "d": [18262, 18779, 18993, 19358]}
    for odd in ODD:
        table = read([*OTHERS, ("odd", odd, odd, odd, odd)], tmp_path)
        assert list(table.ids)[:4] == ["b", "c", "d", str(2**53 + 1)], odd
        assert {name: np.asarray(table.values[name])[:4].tolist() for name in wanted} == wanted, odd
        assert np.asarray(table.values["x=missing"])[:4].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("odd", [0.5, 4, "id", None, True])
def test_an_id_of_another_type_changes_no_other_id(odd: Any, tmp_path: Path) -> None:
    rows = [(2**53 + 1, 1, 1, 1, None), (7, 1, 1, 1, None), (odd, 1, 1, 1, None)]
    for read in (sqlite, pandas):
        table = read(rows, tmp_path)
        assert table.ids is not None and list(table.ids)[:2] == [str(2**53 + 1), "7"]


def test_an_estimators_number_is_read_by_itself() -> None:
    for odd in ("x", 1.5, None, b"1", 10**400):
        found = series_of("x", COLUMNS["x"], np.array([True, "2.5", 3, odd], dtype=object))
        assert found.cast(pl.Float64, strict=False)[:3].to_list() == [1.0, 2.5, 3.0]


@pytest.mark.parametrize("odd", [timedelta(days=9), [1], {"a": 1}, b"\xff", time(8)], ids=str)
def test_a_column_of_no_kind_of_value_is_counted(odd: Any) -> None:
    frame = pl.DataFrame({"id": ["a", "b", "a"], "v": [odd, None, odd], "day": ["2024-01-01"] * 3})
    for name, column in DECLARED.items():
        table = Source(FrameSource(frame.rename({"v": name}).head(2)), "id").read("p", {name: column})
        assert (table.unfit[name].missing, table.unfit[name].wrong) == (1, 1), name
    for how in ("count", "sum", "min", "last"):
        own = replace(DECLARED["x"], people=Aggregate(how, "v", "day" if how == "last" else ""))
        assert Source(FrameSource(frame), "id").read("p", {"x": own}).rows == 2
    ids = frame.select(id="v", x=pl.lit(1.0))
    found = Source(FrameSource(ids), "id").read("p", {"x": DECLARED["x"]})
    assert found.rows == 1 and found.left_out.count == 2


def test_a_text_that_is_not_in_utf8_ends_no_query(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.sqlite") as base:
        base.execute("create table rows (id, c)")
        base.execute("insert into rows values ('a', '1'), ('b', cast(x'ff' as text))")
    base.close()
    at = read_address(f"sqlite://{tmp_path}/rows.sqlite", "select * from rows", "rows", Path("/"), "test")
    table = Source(at, "id").read("p", {"c": COLUMNS["c"]})
    assert table.unfit["c"].wrong == 1 and np.asarray(table.values["c"]).tolist() == [0, 0]


AGGREGATES: dict[str, Column] = {
    "total": Numeric(0, 1, people=Aggregate("sum", "x")),
    "mean": Numeric(0, 1, people=Aggregate("mean", "x")),
    "least": Numeric(0, 1, people=Aggregate("min", "x")),
    "n": Numeric(0, 99, people=Aggregate("count")),
    "often": Numeric(0, 1, people=Aggregate("share", "t")),
    "ever": Boolean(people=Aggregate("any", "t"), missing="level"),
    "first": Numeric(0, 1, people=Aggregate("first", "x", "day")),
    "ward": Categorical(("a", "b"), other=True, people=Aggregate("last", "w", "day")),
}


def stays(draw: np.random.Generator, extra: int) -> pl.DataFrame:
    """Rows of 40 people, in which what is lost of a sum depends on its order, and of one more, anywhere among them."""
    n = 600
    rows = pl.DataFrame(
        {
            "id": [f"p{k}" for k in draw.integers(0, 40, n)],
            "x": draw.choice([1e16, -1e16, 1.0, 0.1, 1e300, -1e300, 3.0], n),
            "t": draw.random(n) < 0.5,
            "day": np.datetime64("2020-01-01") + draw.integers(0, 3, n).astype("timedelta64[D]"),
            "w": draw.choice(["a", "b", "z"], n),
        }
    )
    one = rows.sample(max(extra, 1), with_replacement=True, seed=extra).with_columns(id=pl.lit("one"))[:extra]
    at = int(draw.integers(0, n))
    return pl.concat([rows[:at], one, rows[at:]])


@pytest.mark.parametrize("seed", range(6))
def test_how_many_rows_one_person_has_changes_no_other_record(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MERGED_ROWS", 64)
    held = []
    for extra in (0, 1, 37, 500, 3000):
        frame = stays(np.random.default_rng(seed), extra)
        records = RecordFrames(Reading("p", AGGREGATES, IdColumns(("id",))), matched=True)
        found = pl.concat(records.of(frame.slice(k, 50) for k in range(0, frame.height, 50)))
        held.append(found.filter(pl.col("id") != "one"))
    assert all(found.equals(held[0]) for found in held)
