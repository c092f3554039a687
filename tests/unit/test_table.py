"""Tables from files of every form: same records, same integers, whatever lies in memory, on disk or at a worker."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.data import reading, store, table
from colonnade.data.gate import Coding
from colonnade.data.ids import IdColumns
from colonnade.data.storage import STORED
from colonnade.data.table import Table, UnreadColumns, open_table, read_table, table_from
from colonnade.foundation.errors import DataError
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.names import ColumnRef, Coordinate
from colonnade.foundation.randomness import Stream
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric
from colonnade.foundation.workers import Workers
from colonnade.mechanism.moments import Attribute, Encoding, Layout, Role

ROWS = 9_000
COLUMNS: dict[str, Column] = {
    "age": Numeric(20, 70),
    "binned": Numeric(0, 10, bins=(2.0, 5.0)),
    "job": Categorical(("clerk", "smith"), other=True),
    "member": Binary(("no", "yes")),
    "pay": Numeric(0, 100),
}
LAYOUT = Layout(
    (
        Attribute(ColumnRef("p", "age"), Encoding.SIGNED, ("age",)),
        Attribute(ColumnRef("q", "other"), Encoding.SIGNED, ("other",)),
        Attribute(ColumnRef("p", "binned"), Encoding.SIMPLEX, ("a", "b", "c")),
        Attribute(ColumnRef("p", "job"), Encoding.SIMPLEX, ("clerk", "smith", "other")),
        Attribute(ColumnRef("p", "member"), Encoding.SIMPLEX, ("no", "yes")),
        Attribute(Coordinate(ColumnRef("p", "job"), 1), Encoding.SIGNED, ("smith",)),
        Attribute(ColumnRef("p", "pay"), Encoding.SIMPLEX, ("low", "high"), Role.LABEL),
    )
)
GRID = Grid(127)
COINS = bytes(range(32))


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    draw = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "person": [f"p{k}é" for k in range(ROWS)],
            "age": draw.uniform(10, 80, ROWS),
            "binned": draw.uniform(-1, 11, ROWS),
            "job": draw.choice(["clerk", "smith", "baker"], ROWS),
            "member": draw.choice(["no", "yes"], ROWS),
            "pay": draw.integers(0, 101, ROWS),
        }
    )


def integers(read: Table, workers: Workers | None = None) -> np.ndarray:
    columns = read.encode(LAYOUT, GRID, COINS) if workers is None else read.encode(LAYOUT, GRID, COINS, workers)
    assert columns.shape == (read.rows, 12)
    return columns.rows(0, read.rows)


def naive(frame: pl.DataFrame) -> np.ndarray:
    """The same integers, column by column: two of them are rounded by the coins of the row."""
    coins = (np.frombuffer(Stream(COINS).bytes(8 * frame.height), np.uint32) | 1).reshape(-1, 2) / 2**32
    pay = np.floor((1 + COLUMNS["pay"].signed(frame["pay"].to_numpy().astype(float))) * 63.5 + coins[:, 1])  # type: ignore[union-attr]
    age = np.floor(COLUMNS["age"].signed(frame["age"].to_numpy()) * 127 + coins[:, 0])  # type: ignore[union-attr]
    codes = frame["job"].replace_strict(["clerk", "smith"], [0, 1], default=2).to_numpy()
    parts = [
        age[:, None],
        127 * np.eye(3)[COLUMNS["binned"].codes(frame["binned"].to_numpy())],  # type: ignore[union-attr]
        127 * np.eye(3)[codes],
        127 * np.eye(2)[(frame["member"] == "yes").to_numpy().astype(np.int32)],
        np.where(codes == 1, 127, 0)[:, None],
        np.stack([127 - pay, pay], axis=1),
    ]
    return np.concatenate(parts, axis=1)


def write_parts(frame: pl.DataFrame, folder: Path, kind: str) -> Path:
    folder.mkdir()
    (folder / "_SUCCESS").write_text("")
    for k in range(4):
        part = frame[k * 2500 : (k + 1) * 2500]
        if kind == "parquet":
            part.write_parquet(folder / f"part-{k}.parquet", row_group_size=700)
        elif kind == "csv":
            part.write_csv(folder / f"part-{k}.csv")
        else:
            (folder / f"part-{k}.csv.gz").write_bytes(gzip.compress(part.write_csv().encode()))
    return folder


def test_integers_are_those_of_the_grid(frame: pl.DataFrame) -> None:
    assert np.array_equal(integers(table_from("p", frame, COLUMNS)), naive(frame))


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("form", ["file", "folder", "pattern"])
def test_every_form_of_file_gives_the_same_table(frame: pl.DataFrame, tmp_path: Path, kind: str, form: str) -> None:
    folder = write_parts(frame, tmp_path / "parts", kind)
    path = {"file": tmp_path / f"whole.{kind}", "folder": folder, "pattern": folder / f"part-*.{kind}"}[form]
    if form == "file":
        whole = frame.write_csv().encode()
        path.write_bytes(gzip.compress(whole) if kind == "csv.gz" else whole)
        if kind == "parquet":
            frame.write_parquet(path)
    read = read_table("p", path, COLUMNS, IdColumns(("person",)))
    assert read.rows == ROWS
    assert np.array_equal(integers(read), naive(frame))
    assert read.ids is not None
    assert list(read.ids) == frame["person"].to_list()
    assert (read.ids[0], read.ids[-1], read.ids[7:9]) == ("p0é", f"p{ROWS - 1}é", ["p7é", "p8é"])
    outside = ((frame["age"] < 20) | (frame["age"] > 70)).sum()
    assert read.clipped is not None
    assert read.clipped["age"] == outside


def test_disk_and_workers_change_nothing(frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=700)
    plain = read_table("p", tmp_path / "t.parquet", COLUMNS)
    monkeypatch.setattr(store, "MEMORY", 1000)
    monkeypatch.setattr(store, "MEMORY", 1000)
    monkeypatch.setattr(table, "CACHE_BYTES", 1000)
    monkeypatch.setattr(reading, "ROW_BLOCK", 1100)
    with ThreadPoolExecutor(3) as executor:
        workers = Workers(executor, 5)
        stored = read_table("p", tmp_path / "t.parquet", COLUMNS, None, workers)
        assert all(isinstance(column, store.DiskColumn) for column in stored.values.values())
        columns = stored.encode(LAYOUT, GRID, COINS, workers)
    assert isinstance(columns._store, store.DiskRows)
    assert np.array_equal(columns.rows(0, ROWS), integers(plain))
    assert np.array_equal(columns.rows(1090, 2250), naive(frame)[1090:2250])
    order = np.random.default_rng(1).permutation(ROWS)[:4000]
    assert np.array_equal(integers(stored.take(order)), naive(frame[order]))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_table_in_the_files_order_is_coded_as_it_is_read(frame: pl.DataFrame, tmp_path: Path, kind: str) -> None:
    folder = write_parts(frame, tmp_path / "parts", kind)
    opened, read = open_table("p", folder, COLUMNS), read_table("p", folder, COLUMNS)
    assert isinstance(opened.values, UnreadColumns) is (kind == "parquet")
    assert opened.rows == ROWS
    with ThreadPoolExecutor(2) as executor:
        assert np.array_equal(integers(opened, Workers(executor, 3)), naive(frame))
    assert opened.clipped == read.clipped
    # Asked for in another order it is stored after all.
    assert np.array_equal(integers(opened.take(np.arange(ROWS)[::-1])), naive(frame[::-1]))
    assert np.array_equal(integers(opened), naive(frame))
    assert opened.clipped == read.clipped
    assert np.array_equal(*({c.of.column: v for c, v in t.coordinates().items()}["age"] for t in (opened, read)))


def test_a_table_that_is_coded_as_it_is_read_is_checked_too(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame.with_columns(age=pl.when(pl.col("age") < 30).then(None).otherwise(pl.col("age"))).write_parquet(path)
    with pytest.raises(DataError, match="column age misses"):
        open_table("p", path, COLUMNS).require_fit().encode(LAYOUT, GRID, COINS)
    with pytest.raises(DataError, match="has no column 'age'"):
        frame.drop("age").write_parquet(path)
        open_table("p", path, COLUMNS)
    with pytest.raises(DataError, match="holds no records"):
        frame[:0].write_parquet(path)
        open_table("p", path, COLUMNS)
    with pytest.raises(DataError, match="there is no data file"):
        open_table("p", tmp_path / "none.parquet", COLUMNS)
    with pytest.raises(DataError, match="cannot be read"):
        path.write_bytes(b"PAR1")
        open_table("p", path, COLUMNS)
    frame.write_parquet(path)
    opened = open_table("p", path, COLUMNS)
    frame[:5000].write_parquet(path)
    with pytest.raises(DataError, match=f"had {ROWS} records and has 5000 now"):
        opened.encode(LAYOUT, GRID, COINS)


def test_sums_of_products_come_with_the_columns(frame: pl.DataFrame) -> None:
    columns = table_from("p", frame, COLUMNS).encode(LAYOUT, GRID, COINS)
    record = np.concatenate([np.full((ROWS, 1), GRID.bound), columns.rows(0, ROWS)], axis=1).astype(np.int64)
    assert np.array_equal(columns.sums.products, record.T @ record)
    changed = columns.sums.unbiased() - columns.sums.products
    # Squares of rounded numbers alone are corrected: age's, and those of the two halves of pay.
    assert set(zip(*np.nonzero(changed), strict=True)) == {(1, 1), (11, 11), (12, 12), (11, 12), (12, 11)}
    # Two of seven ages are clipped to a bound, which needs no rounding.
    assert changed[1, 1] == pytest.approx(-ROWS / 6 * 5 / 7, rel=0.05)
    assert changed[11, 11] == changed[12, 12] == pytest.approx(-changed[11, 12])


def test_a_norm_is_kept_in_every_record() -> None:
    draw = np.random.default_rng(2)
    own = {f"x{k}": Numeric(-1, 1) for k in range(5)}
    frame = pl.DataFrame({name: draw.uniform(-1, 1, 3000) for name in own})
    layout = Layout(tuple(Attribute(ColumnRef("p", f"{n}"), Encoding.SIGNED, (n,)) for n in own), (("p", 1.0),))
    rows = table_from("p", frame, own).encode(layout, GRID, COINS).rows(0, 3000).astype(np.int64)
    assert (np.square(rows).sum(axis=1) <= (rounded_norm(1.0, 5, 127) * 127) ** 2).all()
    lengths = np.linalg.norm(frame.to_numpy(), axis=1, keepdims=True)
    assert np.abs(rows - frame.to_numpy() / np.maximum(lengths, 1) * 127).max() < 1
    assert (np.square(rows).sum(axis=1) > 127**2).mean() > 0.1


def test_coins_depend_on_the_row_alone(frame: pl.DataFrame) -> None:
    own = tuple(a for a in LAYOUT.attributes if a.owner == "p")
    coding = Coding("p", COLUMNS, own, GRID, COINS)
    whole = coding.toss(0, 1000)
    for start, stop in ((0, 1), (1, 2), (3, 1000), (517, 600), (999, 1000)):
        assert np.array_equal(coding.toss(start, stop), whole[start:stop])
    other = replace(coding, coins=bytes([1] * 32))
    assert not np.array_equal(other.toss(0, 1000), whole)
    assert abs(whole / 2**32 - 0.5).mean() == pytest.approx(0.25, abs=0.02)


def test_bounds_of_any_size_reach_the_grid() -> None:
    for low, high in ((0.0, 5e-324), (-8e307, 8e307), (-3.0, 1e-9), (0.0, 1e-310)):
        frame = pl.DataFrame({"x": [low, high, low / 2 + high / 2, float("inf"), float("-inf")]})
        layout = Layout((Attribute(ColumnRef("p", "x"), Encoding.SIGNED, ("x",)),))
        found = table_from("p", frame, {"x": Numeric(low, high)}).encode(layout, GRID, COINS).rows(0, 5).ravel()
        assert found[[0, 1, 3, 4]].tolist() == [-127, 127, 127, -127]
    # Between these bounds a float64 has no middle: what is rounded must stay on the grid all the same.
    frame = pl.DataFrame({"x": [2.0**53, 2.0**53 + 2, 0.0, 1e300]})
    found = table_from("p", frame, {"x": Numeric(2.0**53, 2.0**53 + 2)}).encode(layout, GRID, COINS).rows(0, 4)
    assert np.abs(found).max() <= 127


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: f.write_csv("t.csv"), "no data file fits the pattern"),
        (lambda f: (f.write_csv("t.csv"), Path("empty").mkdir()), "has no Parquet, Feather or CSV file"),
        (
            lambda f: (Path("parts").mkdir(), f.write_csv("parts/a.csv"), f.write_parquet("parts/b.parquet")),
            "one kind, got CSV and Parquet",
        ),
        (lambda f: pl.concat([f, f[:3]]).write_csv("t.csv"), "unique, 3 rows repeat one, the first is row 9001"),
        (lambda f: f.with_columns(age=pl.lit(float("nan"))).write_parquet("t.parquet"), "column age misses"),
        (lambda f: f.with_columns(age=pl.lit(None, pl.Float64)).write_parquet("t.parquet"), "column age misses"),
    ],
    ids=["pattern", "folder", "mixed", "twice", "nan", "null"],
)
def test_what_is_wrong_is_told(
    frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: object, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil(frame)  # type: ignore[operator]
    places = [Path("parts"), Path("empty"), Path("t.parquet"), Path("t.csv") if "unique" in told else Path("u*.csv")]
    path = next((p for p in places if p.exists()), places[-1])
    with pytest.raises(DataError, match=told):
        read_table("p", path, COLUMNS, IdColumns(("person",))).require_fit(strict=True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("reader", ["read", "open"])
def test_missing_values_are_counted_in_the_whole_file(
    kind: str, reader: str, frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block knows of its own rows alone: the sentence is about the file, whoever does the work."""
    monkeypatch.setattr(reading, "ROW_BLOCK", 500)
    path = tmp_path / f"p.{kind}"
    hole = pl.int_range(ROWS) % 20 == 7
    odd = pl.when(pl.int_range(ROWS) % 40 == 7)
    holes = frame.with_columns(
        pl.when(~hole).then("job").otherwise(odd.then(pl.lit("  "))),
        pl.when(~hole).then("age").otherwise(odd.then(pl.lit(float("nan")))),
    )
    holes.write_csv(path) if kind == "csv" else holes.write_parquet(path)
    with ThreadPoolExecutor(2) as pool:
        for workers in (Workers(), Workers(pool, 2)):
            for name, column in (("age", COLUMNS["age"]), ("job", COLUMNS["job"])):
                says = rf"party p: column {name} misses {ROWS // 20} values, the first in row 8; say what becomes"
                with pytest.raises(DataError, match=says):
                    if reader == "read":
                        own = {name: column, "pay": COLUMNS["pay"]}
                        read_table("p", path, own, None, workers).require_fit(strict=True)
                    else:
                        coded = open_table("p", path, {"pay": COLUMNS["pay"], name: column}, workers)
                        coded.require_fit(strict=True)
                        layout = Layout((*(a for a in LAYOUT.attributes if str(a.of) in (f"p.{name}", "p.pay")),))
                        coded.encode(layout, GRID, COINS, workers)
            with pytest.raises(DataError, match="the id column person misses 450 values, the first in row 8"):
                ids = holes.with_columns(pl.when(~hole).then("person"))
                ids.write_csv(path) if kind == "csv" else ids.write_parquet(path)
                read_table("p", path, {"pay": COLUMNS["pay"]}, IdColumns(("person",)), workers).require_fit(strict=True)
            holes.write_csv(path) if kind == "csv" else holes.write_parquet(path)


def test_dates_are_no_numbers(tmp_path: Path) -> None:
    """They would pass for days since 1970."""
    path = tmp_path / "p.parquet"
    dated = pl.DataFrame({"born": ["1970-01-05", "1980-02-03"]}).with_columns(pl.col("born").str.to_date())
    dated.write_parquet(path)
    says = "party p: column born must hold numbers such as 1234.5, 2 of 2 values do not, .*it holds dates or times"
    with pytest.raises(DataError, match=says):
        read_table("p", path, {"born": Numeric(0, 10)}).require_fit()
    assert read_table("p", path, {"born": Binary(("1970-01-05", "1980-02-03"))}).rows == 2


def test_many_columns_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table on disk has one file, however many columns it has: a process may open few files."""
    opened = []
    monkeypatch.setattr(store, "MEMORY", 1000)
    make = store.tempfile.TemporaryFile
    monkeypatch.setattr(store.tempfile, "TemporaryFile", lambda **k: opened.append(1) or make(**k))
    own: dict[str, Column] = {f"x{k}": Numeric(0, 1) for k in range(50)}
    pl.DataFrame({name: np.linspace(0, 1, 5000) for name in own}).write_parquet(tmp_path / "t.parquet")
    read = read_table("p", tmp_path / "t.parquet", own)
    assert sum(opened) == 1
    assert all(isinstance(column, store.DiskColumn) for column in read.values.values())
    read.take(np.arange(100))
    assert sum(opened) == 2


@pytest.mark.parametrize("ids", ["id", ["a", "b"], ["a", "b", "c", "d"]], ids=str)
def test_there_is_one_id_for_each_record(ids: str | list[str]) -> None:
    frame = pl.DataFrame({"x": [0.1, 0.2, 0.3]})
    with pytest.raises(DataError, match="works: there must be one id for each of 3 records, got"):
        table_from("works", frame, {"x": Numeric(0, 1)}, ids)


@pytest.mark.parametrize(
    ("levels", "texts", "codes", "missing", "wrong"),
    [
        (["a", "b c", "d"], ["d", "a", "b c"], [2, 0, 1], 0, 0),
        (["a", "b c", "d"], ["d ", "\ta", "b c"], [2, 0, 1], 0, 0),
        (["", "a"], ["", "a", " "], [0, 1, 0], 0, 0),
        # A text is compared without the spaces around it: such a level is nobody's, in whatever company.
        (["a", "b "], ["a", "b "], [0, 0], 0, 1),
        (["a", "b"], ["a", None, "b", "c"], [0, 0, 1, 0], 1, 1),
    ],
)
def test_a_level_is_found_with_spaces_around_it_and_without(
    levels: list[str], texts: list[str | None], codes: list[int], missing: int, wrong: int
) -> None:
    column = Categorical(tuple(levels))
    found, _, unfit = STORED[column.storage].read(pl.Series("x", texts, dtype=pl.String), column, 0)
    assert (found.tolist(), unfit.missing, unfit.wrong) == (codes, missing, wrong)
