"""Rows from databases and other places than files: the same release, in one snapshot, without secrets."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade.consent.entries import DataSet
from colonnade.data.sources import AddressSource, Source, read_address
from colonnade.data.sql import frame_of
from colonnade.data.storage import plain_texts
from colonnade.foundation.errors import DataError, MissingError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Date, column_from
from colonnade.mechanism.release import write_release
from colonnade.runs import RunOptions, fit
from colonnade.sites.site import read_site
from colonnade.study import read_study
from tests.helpers.postgres import running_postgres

ROWS = 300
COLUMNS = ("person", "visits", "cost", "weight", "ward", "smoker", "seen", "ill")
STUDY = """[study]
name = "sources"
task = "logistic"
label = "ill"
epsilon = 5.0
product = "plain"

[party.clinic]
{where}
id = "person"
[party.clinic.columns]
visits = {{ kind = "numeric", low = 0, high = 20 }}
cost = {{ kind = "numeric", low = 0, high = 1000, fill = 10 }}
weight = {{ kind = "numeric", low = 40, high = 140, bins = [60, 80] }}
ward = {{ kind = "categorical", levels = ["a, b", "ü'x", "1.10"], fill = "a, b" }}
smoker = {{ kind = "boolean" }}
seen = {{ kind = "date", earliest = 2020-01-01, latest = 2020-12-31 }}
ill = {{ kind = "binary", levels = ["no", "yes"] }}

[party.club]
data = "club.csv"
id = "member"
[party.club.columns]
sport = {{ kind = "numeric", low = 0, high = 1 }}
"""


def people() -> list[tuple[Any, ...]]:
    """Decimals, floats of many digits, gaps, texts with commas and quotes, truth values and dates."""
    draw = np.random.default_rng(9)
    out = []
    for k in range(ROWS):
        cost = None if k % 17 == 3 else Decimal(int(draw.integers(0, 100_000))) / 100
        ward = None if k % 23 == 5 else ["a, b", "ü'x", "1.10"][k % 3]
        seen = dt.date(2020, 1, 1) + dt.timedelta(days=int(draw.integers(0, 366)))
        weight = float(draw.uniform(40, 140))
        ill = "yes" if weight > 90 else "no"
        out.append((f"p{k}", int(draw.integers(0, 21)), cost, weight, ward, bool(k % 2), seen, ill))
    return out


def write_files(folder: Path) -> None:
    rows = people()
    kinds = {"cost": pl.Decimal(10, 2)}
    frame = pl.DataFrame(rows, schema=list(COLUMNS), orient="row", schema_overrides=kinds)
    frame.write_csv(folder / "clinic.csv")
    frame.write_parquet(folder / "clinic.parquet")
    frame.write_ipc(folder / "clinic.feather")
    pl.DataFrame({"member": [r[0] for r in rows], "sport": np.linspace(0, 1, ROWS)}).write_csv(folder / "club.csv")


CREATE = (
    "create table clinic (person text, visits integer, cost {number}, weight double precision, ward text, "
    "smoker {truth}, seen {date}, ill text)"
)
INSERT = "insert into clinic values ({})"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres() as started:
        yield str(started.folder)


@pytest.fixture
def postgres(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("PGHOST", server)
    monkeypatch.setenv("PGUSER", "postgres")
    with psycopg.connect("postgresql:///postgres", autocommit=True) as connection:
        connection.execute("drop table if exists clinic")
        connection.execute(CREATE.format(number="numeric(10, 2)", truth="boolean", date="date"))
        with connection.cursor() as cursor:
            cursor.executemany(INSERT.format(", ".join(["%s"] * 8)), people())
        yield connection


def release(folder: Path, where: str) -> bytes:
    (folder / "study.toml").write_text(STUDY.format(where=where))
    return write_release(fit(read_study(folder / "study.toml"), RunOptions(randomness=Randomness(b"sources"))).release)


def queried(address: str) -> str:
    return f'data = "{address}"\nquery = "select * from clinic order by length(person), person;"\ndataset = "clinic"'


def test_every_source_gives_the_same_release(tmp_path: Path, postgres: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    write_files(tmp_path)
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(CREATE.format(number="decimal(10, 2)", truth="boolean", date="date"))
        connection.executemany(INSERT.format(", ".join("?" * 8)), [list(row) for row in people()])
    wanted = release(tmp_path, 'data = "clinic.csv"')
    assert len(wanted) > 1000
    for where in (
        'data = "clinic.parquet"',
        'data = "clinic.feather"',
        queried("duckdb:///clinic.duckdb"),
        queried("postgresql:///postgres"),
        queried(f"duckdb:///{tmp_path}/clinic.duckdb"),
    ):
        assert release(tmp_path, where) == wanted, where


def write_sqlite(folder: Path) -> None:
    with sqlite3.connect(folder / "clinic.db") as connection:
        connection.execute(CREATE.format(number="text", truth="integer", date="text"))
        texts = [(*r[:2], None if r[2] is None else str(r[2]), *r[3:6], r[6].isoformat(), r[7]) for r in people()]
        connection.executemany(INSERT.format(", ".join("?" * 8)), texts)
    connection.close()


def test_a_site_reads_a_query_too(tmp_path: Path) -> None:
    write_sqlite(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY.format(where=""))
    (tmp_path / "site.toml").write_text(f'[site]\nrole = "party"\nparty = "clinic"\n{queried("sqlite:///clinic.db")}\n')
    site = read_site(tmp_path)
    table, source = site.table(), site.source
    assert table.rows == ROWS and table.ids is not None and isinstance(source.data, AddressSource)
    assert source.data.data_set("clinic").name == "clinic"


def test_sqlite_gives_the_same_release(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_sqlite(tmp_path)
    assert release(tmp_path, queried("sqlite:///clinic.db")) == release(tmp_path, 'data = "clinic.csv"')


def test_one_snapshot_and_few_rows_at_a_time(postgres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are added while a query is read are not seen, and blocks are as small as they are asked for."""
    from colonnade.data import addresses
    from colonnade.data import table as table_module

    monkeypatch.setattr(addresses, "block_rows", lambda width: 50)
    seen: list[int] = []
    check = table_module.check_block

    def checked(frame: pl.DataFrame, *rest: Any) -> Any:
        if not seen:
            postgres.execute("insert into clinic (person, visits) values ('late', 3)")
            postgres.execute("update clinic set visits = 99")
        seen.append(frame.height)
        assert frame["visits"].max() <= 20  # type: ignore[operator]
        return check(frame, *rest)

    monkeypatch.setattr(table_module, "check_block", checked)
    data = AddressSource("postgresql:///postgres", "clinic", "select person, visits from clinic")
    columns = {"visits": column_from("visits", {"kind": "numeric", "low": 0, "high": 20})}
    table = Source(data, "person").read("clinic", columns)
    assert table.rows == ROWS and seen == [50] * 6 and table.clipped == {"visits": 0}


def test_a_day_that_python_has_not_ends_no_reading(postgres: Any) -> None:
    """One person's day is wrong, and the others' are what they are."""
    days = ["2020-01-01", "infinity", "20000-01-01", "0044-03-15 BC"]
    postgres.execute("create table days (person int, day date, moment timestamptz, hour time)")
    for k, day in enumerate(days):
        postgres.execute("insert into days values (%s, %s, %s, '24:00:00')", (k, day, day))
    columns: dict[str, Column] = {"day": Date("2000-01-01", "2030-01-01"), "moment": Date("2000-01-01", "2030-01-01")}
    data = AddressSource("postgresql:///postgres", "days", "select * from days order by person")
    table = Source(data, "person").read("clinic", columns)
    # A moment of 44 BC is read as of 44: outside of the bounds either way.
    assert {name: own.wrong for name, own in table.unfit.items()} == {"day": 3, "moment": 2}
    assert np.asarray(table.values["day"])[0] == (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days


def test_what_a_database_refuses_is_one_sentence(postgres: Any) -> None:
    number = {"visits": column_from("visits", {"kind": "numeric", "low": 0, "high": 20})}

    def read(query: str, address: str = "postgresql:///postgres", column: str | None = None) -> None:
        Source(AddressSource(address, "clinic", query), column).read("clinic", number).require_fit(strict=True)

    for query, says in (
        (
            "select nothing from clinic",
            'party clinic: postgresql:///postgres cannot be read: column "nothing" does not',
        ),
        ("select person from clinic", "party clinic: postgresql:///postgres has no column 'visits'"),
        ("select visits from clinic where false", "party clinic: postgresql:///postgres holds no records"),
        ("select visits, visits from clinic", "a query's columns must have different names"),
        ("select ward::int as visits from clinic", r"a value does not fit its type \(SQLSTATE 22P02\)"),
        ("delete from clinic returning visits", "cannot be read: "),
        ("select visits from clinic; drop table clinic", "cannot be read: "),
        ("select ward as visits from clinic where ward is not null", "column visits must hold numbers"),
    ):
        with pytest.raises(DataError, match=says):
            read(query)
    with pytest.raises(DataError, match="must hold ids that are unique"):
        read("select visits, 'same' as person from clinic", column="person")
    with pytest.raises(MissingError, match="column visits misses 18 values, the first in row 4"):
        query = "select cost as visits from clinic order by length(person), person"
        Source(AddressSource("postgresql:///postgres", "c", query)).read("clinic", number).require_fit()
    with pytest.raises(DataError, match="postgresql:///nowhere cannot be read: "):
        read("select 1", "postgresql:///nowhere")
    assert postgres.execute("select count(*) from clinic").fetchone() == (ROWS,)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://me:hunter2/x@host/db",
        "postgresql://host/db?password=hunter2",
        "postgresql://host/db?sslPASSWORD=hunter2",
        "mysql://me:hunter2@host/db",
        "s3://bucket/x.parquet?secret_access_key=hunter2",
    ],
)
def test_a_password_is_refused_and_not_printed(address: str, tmp_path: Path) -> None:
    where = f'data = "{address}"\nquery = "select 1"\ndataset = "clinic"'
    with pytest.raises(StudyError, match=r"must hold no password or key: take it from the environment") as caught:
        release(tmp_path, where)
    assert "hunter2" not in str(caught.value) and "study.toml:9: [party.clinic] data" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("mysql://host/db", "select 1", "d"), r"data may be files of this machine, .* got 'mysql://host/db'"),
        (("https://host/x.csv", None, "d"), "got 'https://host/x.csv'"),
        (("postgresql:///db", None, "d"), r'needs query = "select ..." for .postgresql:///db.'),
        (("postgresql:///db", " ; ", "d"), "needs query"),
        (
            ("postgresql:///db", "select 1", None),
            r'needs dataset = "NAME" for .postgresql:///db., what its ledger knows',
        ),
        (("s3://b/x.parquet", "select 1", "d"), "query is for a database, and data is 's3://b/x.parquet'"),
        (("s3://b/x.parquet", None, None), "needs dataset"),
        (("sqlite://x.db", "select 1", "d"), "must be written as sqlite:///FILE, got 'sqlite://x.db'"),
        (("duckdb:///", "select 1", "d"), "must be written as duckdb:///FILE"),
    ],
)
def test_addresses_are_checked_before_anything_is_opened(given: tuple[str, str | None, str | None], says: str) -> None:
    with pytest.raises(StudyError, match=rf"\[party.p\] .*{says}"):
        read_address(*given, Path(), "[party.p]")


def test_a_query_for_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"study.toml:9: .party.clinic. query is for a database, and data is 'clinic.csv'"
    ):
        release(tmp_path, 'data = "clinic.csv"\nquery = "select 1"')


def test_changed_rows_are_the_same_data_set(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY.format(where=queried("sqlite:///clinic.db")))

    def data_set() -> DataSet:
        return read_study(tmp_path / "study.toml").sources["clinic"].records("clinic").data_set("clinic")

    found = data_set()
    assert found.name == "clinic" and found == data_set()
    (tmp_path / "study.toml").write_text(STUDY.format(where=queried("sqlite:///clinic.db").replace("*", "person")))
    other = data_set()
    assert other.name == found.name and other.digest != found.digest
    (tmp_path / "study.toml").write_text(STUDY.format(where='data = "clinic.csv"\ndataset = "patients"'))
    named = data_set()
    assert named == DataSet.of_file(tmp_path / "clinic.csv", "patients")


def test_a_missing_database_or_driver_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(DataError, match=f"party clinic: there is no database {scheme}:///gone.db"):
            release(tmp_path, queried(f"{scheme}:///gone.db"))
    monkeypatch.setattr("colonnade.data.sql.find_spec", lambda name: None)
    with pytest.raises(StudyError, match=r"postgresql:// needs psycopg, which is not installed: pip install 'colon"):
        release(tmp_path, queried("postgresql:///db"))


def test_files_of_a_store_are_read_through_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    asked = []

    known = pl.scan_csv

    def scan(address: Any, **options: Any) -> pl.LazyFrame:
        if not str(address).startswith("s3:"):
            return known(address, **options)
        asked.append(address)
        return pl.scan_parquet(tmp_path / "clinic.parquet")

    wanted = release(tmp_path, 'data = "clinic.parquet"')
    monkeypatch.setattr("colonnade.data.addresses.pl.scan_csv", scan)
    assert release(tmp_path, 'data = "s3://bucket/clinic.csv"\ndataset = "clinic"') == wanted
    assert asked == ["s3://bucket/clinic.csv"]


def test_values_of_every_type_become_a_frame() -> None:
    names = ["i", "f", "d", "t", "b", "when", "big", "mixed", "none"]
    rows = [
        (1, 0.1, Decimal("1.10"), Decimal("1E+2"), True, dt.datetime(2020, 1, 1, 8), 2**70, "x", None),
        (None, 3, None, Decimal("2.50"), None, None, 5, 7, None),
    ]
    frame = frame_of(names, rows, ["d"])
    assert frame["f"].to_list() == [0.1, 3.0] and frame["d"].to_list() == [1.1, None]
    assert frame["t"].to_list() == ["100", "2.50"] and frame["b"].to_list() == [True, None]
    told = plain_texts(frame)
    assert told["big"].to_list() == [str(2**70), "5"] and told["mixed"].to_list() == ["x", "7"]
    assert frame["i"].dtype == pl.Int64 and frame["none"].null_count() == 2
    assert frame_of(["a"], [], []).columns == ["a"]
