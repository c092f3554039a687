"""Several rows a person become one record at the owner: as another program groups them, however rows come."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.data import people
from colonnade.data.sources import FileSource, FrameSource, Source
from colonnade.foundation.columns import Aggregate, Column
from colonnade.foundation.errors import ColonnadeError, DataError, StudyError
from colonnade.foundation.schema import Boolean, Categorical, Date, Numeric
from colonnade.planning.agreement import Agreement
from colonnade.study import read_study
from tests.helpers.cli_study import Run, runner

run = pytest.fixture(runner)
COLUMNS: dict[str, Column] = {
    "n": Numeric(0, 1000, people=Aggregate("count")),
    "known": Numeric(0, 1000, people=Aggregate("count", "x")),
    "total": Numeric(-1e9, 1e9, people=Aggregate("sum", "x")),
    "mean": Numeric(-1e9, 1e9, people=Aggregate("mean", "x")),
    "least": Numeric(-1e9, 1e9, people=Aggregate("min", "x")),
    "most": Numeric(-1e9, 1e9, people=Aggregate("max", "x")),
    "ever": Boolean(people=Aggregate("any", "t")),
    "often": Numeric(0, 1, people=Aggregate("share", "t")),
    "from": Categorical(("a", "b", "c"), people=Aggregate("first", "c", "day")),
    "now": Categorical(("a", "b", "c"), people=Aggregate("last", "c", "day")),
    "last": Numeric(-1e9, 1e9, people=Aggregate("last", "x", "day")),
    "since": Date("1990-01-01", "2030-01-01", people=Aggregate("min", "day")),
}


def rows(seed: int, count: int = 3000, persons: int = 400) -> pl.DataFrame:
    """Rows in no order, with values and days that are missing, and several on one day."""
    draw = np.random.default_rng(seed)
    day = np.datetime64("2020-01-01") + draw.integers(0, 40, count).astype("timedelta64[D]")
    frame = pl.DataFrame(
        {
            "id": [f"{k:04d}" for k in draw.integers(0, persons, count)],
            "x": draw.normal(0, 1000, count).round(2),
            "t": draw.random(count) < 0.3,
            "c": draw.choice(["a", "b", "c"], count),
            "day": day,
        }
    )
    for name in ("x", "t", "c", "day"):
        gone = pl.Series(draw.random(count) < 0.2)
        frame = frame.with_columns(pl.when(gone).then(None).otherwise(pl.col(name)).alias(name))
    return frame


def grouped(frame: pl.DataFrame) -> pl.DataFrame:
    """The same by another program: a group-by of the whole table."""
    x, t, c, d = (pl.col(name) for name in ("x", "t", "c", "day"))
    in_order = pl.col("day").fill_null(pl.date(9999, 1, 1))
    before = pl.col("day").fill_null(pl.date(1, 1, 1))
    return frame.group_by("id", maintain_order=True).agg(
        n=pl.len(),
        known=x.count(),
        total=pl.when(x.count() > 0).then(x.sum()),
        mean=x.mean(),
        least=x.min(),
        most=x.max(),
        ever=t.drop_nulls().any(),
        told=t.count(),
        often=t.mean(),
        **{
            "from": c.sort_by(in_order, maintain_order=True).drop_nulls().first(),
            "now": c.sort_by(before, maintain_order=True).drop_nulls().last(),
            "last": x.sort_by(before, maintain_order=True).drop_nulls().last(),
        },
        since=d.min(),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_records_are_those_of_a_group_by(seed: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MERGED_ROWS", 128)
    frame, place = rows(seed), tmp_path / f"rows.{form}"
    source = Source(FrameSource(frame) if form == "frame" else FileSource(place), "id")
    if form == "csv":
        frame.write_csv(place)
    elif form == "parquet":
        frame.write_parquet(place, row_group_size=100)
    table, wanted = source.read("a", COLUMNS), grouped(frame)
    assert table.ids is not None and list(table.ids) == wanted["id"].to_list()
    assert table.gathered == frame.height
    for name in ("n", "known", "total", "mean", "least", "most", "often", "last"):
        found, right = pl.Series(np.asarray(table.values[name])), wanted[name].cast(pl.Float64)
        gone = right.is_null()
        assert found.filter(~gone).to_numpy() == pytest.approx(right.drop_nulls().to_numpy(), abs=1e-7)
        assert (table.unfit[name].missing if gone.any() else 0) == gone.sum()
    since = np.asarray(table.values["since"])[wanted["since"].is_not_null().to_numpy()]
    assert since.tolist() == wanted["since"].drop_nulls().cast(pl.Int32).cast(pl.Float64).to_list()
    for name, levels in (("from", ["a", "b", "c"]), ("now", ["a", "b", "c"])):
        right = wanted[name].replace_strict(levels, [0, 1, 2], default=0, return_dtype=pl.Int32)
        assert np.asarray(table.values[name]).tolist() == right.to_list()
    ever = (wanted["ever"] & (wanted["told"] > 0)).cast(pl.Int32).to_list()
    assert np.asarray(table.values["ever"]).tolist() == ever


MANY = """
import datetime, resource, sys
import numpy as np, polars as pl
from colonnade.data.ids import IdColumns
from colonnade.data.people import RecordFrames
from colonnade.data.reading import Reading
from colonnade.foundation.columns import Aggregate
from colonnade.foundation.schema import Categorical, Date, Numeric

blocks, draw, start = int(sys.argv[1]), np.random.default_rng(0), datetime.date(2000, 1, 1)
columns = {
    "n": Numeric(0, 100, people=Aggregate("count")),
    "x": Numeric(0, 1, people=Aggregate("max", "x")),
    "c": Categorical(("a", "b"), people=Aggregate("last", "c", "day")),
    "since": Date("2000-01-01", "2030-01-01", people=Aggregate("min", "day")),
}

def frames():
    for k in range(blocks):
        days = np.datetime64(start) + draw.integers(1, 9000, 100_000).astype("timedelta64[D]")
        days[7 * k] = np.datetime64("2029-12-31" if k == 3 else start)
        text = np.where(np.arange(100_000) == 7 * k, "a" if k == 3 else "b", "b")
        yield pl.DataFrame({"id": ["one"] * 99_999 + [f"p{k}"], "x": np.full(100_000, 1e300 if k % 2 else -1.0),
                            "c": text, "day": days})

found = pl.concat(RecordFrames(Reading("a", columns, IdColumns(("id",))), matched=True).of(frames()))
one = found.filter(pl.col("id") == "one").drop("id").row(0)
print(found.height, *one, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""
"""Blocks of 100,000 rows with days in no order, of one person and one more in each; what is made of them, and MB."""


def test_one_person_with_a_million_rows_takes_the_memory_of_a_block() -> None:
    """Rows stream: of five times as many no more is held, in all memory of the process."""
    held = []
    for blocks in (10, 50):
        told = subprocess.run(
            [sys.executable, "-c", MANY, str(blocks)], capture_output=True, text=True, check=True, timeout=200
        )
        people, rows, most, ward, since, megabytes = told.stdout.split()
        assert (int(people), float(rows), float(most)) == (blocks + 1, blocks * 99_999, 1e300)
        assert (ward, since) == ("a", "2000-01-01")
        held.append(int(megabytes))
    # 40 blocks more are 100 MB of ids and dates alone.
    assert held[1] < held[0] + 60, held


def test_results_are_clipped_as_declared_and_counted() -> None:
    frame = pl.DataFrame({"id": ["a", "a", "b"], "x": [60.0, 70.0, 5.0]})
    columns: dict[str, Column] = {"x": Numeric(0, 100, people=Aggregate("sum", "x"))}
    table = Source(FrameSource(frame), "id").read("p", columns)
    assert table.clipped == {"x": 1}
    assert "1 values of x were clipped to its bounds" in table.notes()
    assert "3 rows are those of 2 people" in table.notes()


def test_wrong_values_and_rows_without_an_id_are_counted() -> None:
    frame = pl.DataFrame(
        {"id": ["a", "a", None, "b"], "x": ["1", "one", "7", "5"], "day": ["2024-01-01", "soon", None, None]}
    )
    columns: dict[str, Column] = {"x": Numeric(0, 100, people=Aggregate("last", "x", "day"))}
    table = Source(FrameSource(frame), "id").read("p", columns)
    assert np.asarray(table.values["x"]).tolist() == [1.0, 5.0]
    assert {name: (own.wrong, own.wrong_row) for name, own in table.unfit.items()} == {
        "x (rows)": (1, 2),
        "day (rows)": (1, 2),
    }
    assert (table.left_out.missing, table.left_out.missing_row) == (1, 3)
    assert "1 of 4 rows without an id (id), the first in row 3: left out" in table.notes()
    columns["x"] = replace(columns["x"], undeclared="refuse")
    with pytest.raises(DataError, match="refuse"):
        Source(FrameSource(frame), "id").read("p", columns)
    with pytest.raises(DataError, match="must hold numbers"):
        table.require_fit()


STUDY = """[study]
name = "stays"
task = "linear"
label = "a.cost"
epsilon = 50.0
product = "plain"
[party.a]
data = "a.csv"
id = "nr"
[party.a.people]
cost = {{ how = "sum", of = "bill" }}
{people}
[party.a.columns]
cost = {{ kind = "numeric", low = 0, high = 100, unit = "EUR" }}
{columns}
[party.b]
data = "b.csv"
id = "nr"
[party.b.columns]
x = {{ kind = "numeric", low = 0, high = 1, description = "what b knows" }}
"""


def study(folder: Path, people: str = "", columns: str = "", head: str = "") -> Path:
    place = folder / "study.toml"
    place.write_text(STUDY.format(people=people, columns=columns).replace("[party.a]", f"{head}[party.a]", 1))
    return place


WRONG = {
    'y = { how = "median", of = "bill" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "how"),
    'y = { how = "last", of = "bill" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "by"),
    'y = { how = "sum", off = "bill" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "off"),
    'z = { how = "count" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "z"),
    'y = { how = "sum", of = "" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "of"),
    'y = { how = "any", of = "bill" }': ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:12", "boolean"),
    "": ('y = { kind = "numeric", low = 0, high = 1 }', "study.toml:10", "y"),
}


@pytest.mark.parametrize("people", WRONG)
def test_what_cannot_be_meant_is_told_with_its_line(people: str, tmp_path: Path) -> None:
    columns, line, named = WRONG[people]
    with pytest.raises(ColonnadeError) as found:
        read_study(study(tmp_path, people, columns))
    first = str(found.value).splitlines()
    assert any(line in text and named in text for text in first), first


def test_people_need_ids_that_are_matched(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="alignment"):
        read_study(study(tmp_path, head='alignment = "none"\n'))


def test_people_unit_and_description_are_agreed_and_absent_they_are_not_there(tmp_path: Path) -> None:
    agreement = read_study(study(tmp_path)).agreement
    told = agreement.to()["schema"]
    assert told["a"]["cost"]["people"] == {"how": "sum", "of": "bill"}
    assert told["a"]["cost"]["unit"] == "EUR"
    assert told["b"]["x"] == {"kind": "numeric", "low": 0, "high": 1, "description": "what b knows"}
    assert Agreement.of(agreement.to()) == agreement


def _files(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    draw = np.random.default_rng(1)
    one = pl.DataFrame({"nr": draw.integers(0, 300, 900), "bill": draw.uniform(0, 30, 900)})
    two = pl.DataFrame({"nr": np.arange(300), "x": draw.uniform(0, 1, 300)})
    one.write_csv(folder / "a.csv")
    two.write_csv(folder / "b.csv")
    return one, two


def test_command_line_and_python_give_the_same_release(tmp_path: Path, run: Run) -> None:
    one, two = _files(tmp_path)
    place = study(tmp_path)
    answer = run("fit", place, "--seed", "01", "--out", tmp_path / "r.json", "--json")
    assert answer.code == 0, answer.err
    front = cn.Study(
        label="a.cost",
        task="linear",
        epsilon=50.0,
        product="plain",
        name="stays",
        parties={
            "a": cn.Party(
                one,
                {"cost": cn.Numeric(0, 100, unit="EUR")},
                id="nr",
                people={"cost": {"how": "sum", "of": "bill"}},
            ),
            "b": cn.Party(two, {"x": cn.Numeric(0, 1, description="what b knows")}, id="nr"),
        },
    )
    found = front.fit(seed="01")
    assert found.n == answer.json["n"] == one["nr"].n_unique()
    # Other noise, at an epsilon that leaves little of it.
    assert found.solve().coef == pytest.approx(cn.Release.read(tmp_path / "r.json").solve().coef, rel=0.1)
    assert front.study.agreement == read_study(place).agreement


def test_check_and_the_plan_say_what_a_record_is(tmp_path: Path, run: Run) -> None:
    _files(tmp_path)
    place = study(
        tmp_path,
        people='last = { how = "last", of = "bill", by = "when" }',
        columns='last = { kind = "numeric", low = 0, high = 9 }',
    )
    answer = run("check", place)
    assert answer.code == 1 and "'when'" in answer.out
    answer = run("plan", study(tmp_path), "--rows", "300")
    assert answer.code == 0 and "all rows of a person" in answer.out + answer.err
    assert "EUR" in (tmp_path / "study.toml").read_text()
    assert run("plan", study(tmp_path), "--rows", "300", "--html", tmp_path / "p.html").code == 0
    page = (tmp_path / "p.html").read_text()
    assert "EUR" in page and "what b knows" in page and "sum of bill of each person" in page


def test_repeated_ids_name_the_section(tmp_path: Path, run: Run) -> None:
    _files(tmp_path)
    place = study(tmp_path)
    place.write_text(
        place.read_text()
        .replace('[party.a.people]\ncost = { how = "sum", of = "bill" }\n', "")
        .replace("cost = {", "bill = {")
        .replace("a.cost", "a.bill")
    )
    answer = run("fit", place, "--out", tmp_path / "r.json")
    assert answer.code == 1 and "[party.a.people]" in answer.err


def test_descriptions_and_units_stand_with_model_tables_and_page(tmp_path: Path, run: Run) -> None:
    _files(tmp_path)
    out = tmp_path / "r.json"
    assert run("fit", study(tmp_path), "--out", out, "--model", tmp_path / "m.json").code == 0
    assert run("report", out, "--html", tmp_path / "p.html").code == 0
    told = "Columns: cost in EUR; x: what b knows."
    shown = [run(*call).out for call in (("solve", out), ("tables", out))]
    shown += [str(cn.Model.read(tmp_path / "m.json").summary()), (tmp_path / "p.html").read_text()]
    assert [told in text for text in shown] == [True] * 4
