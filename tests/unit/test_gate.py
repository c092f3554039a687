"""The gate of bounds: no value raises or gets out, what is broken is found, and nobody else makes integer columns."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from audit import derived as search
from colonnade.analysis.score_parts import Part
from colonnade.data import store
from colonnade.data.gate import Coding, code_block
from colonnade.data.table import open_table, table_from
from colonnade.foundation.derived import Derived, derive_columns
from colonnade.foundation.errors import BrokenColumns, BrokenError, SchemaError
from colonnade.foundation.grid import Grid
from colonnade.foundation.integers import CodedBlock, IntegerColumns, verify_block
from colonnade.foundation.schema import (
    Binary,
    Boolean,
    Categorical,
    Column,
    Date,
    Numeric,
    Schema,
    column_from,
    column_to,
)
from colonnade.foundation.sums import Sums
from colonnade.foundation.workers import Workers
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import Calibration, Task, layout_of
from colonnade.planning.local_columns import LocalProducts
from colonnade.protocol.codes import Code, code_of

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "colonnade"
COINS = bytes(32)
GRID = Grid(7)
ROWS = 60
COLUMNS: dict[str, Column] = {
    "x": Numeric(-1, 1),
    "z": Numeric(0, 10),
    "cut": Numeric(0, 10, (2, 5)),
    "job": Categorical(("a", "b", "c"), other=True),
    "y": Numeric(-1, 1),
}
NAN, INF = math.nan, math.inf


def coding_of(columns: dict[str, Column], label: str, task: Task = Task.LINEAR, **asked: Any) -> Coding:
    layout = layout_of(Schema({"p": columns}, asked.pop("norms", {})), label, task, Calibration.EXACT, **asked)
    return Coding("p", columns, layout.attributes, GRID, COINS, dict(layout.norms).get("p"))


def test_every_value_is_projected() -> None:
    columns: dict[str, Column] = {
        "x": Numeric(-1, 1),
        "cut": Numeric(0, 10, (2, 5, 9)),
        "day": Date("1970-01-01", "1970-01-15"),
        "job": Categorical(("a", "b", "c"), drop="b"),
        "rest": Categorical(("a", "b"), other=True),
        "on": Boolean(),
        "y": Numeric(0, 8),
    }
    hostile = np.array([NAN, INF, -INF, 1.7e308, -1.7e308, 1.0000000000000002])
    codes = np.array([-1, 3, 7, -(2**31), 2**31 - 1, 0], np.int32)
    values: dict[str, Any] = dict.fromkeys(("x", "cut", "day", "y"), hostile)
    values |= dict.fromkeys(("job", "rest", "on"), codes)
    coding = coding_of(columns, "y")
    block = code_block(coding, values, 0, len(hostile))
    verify_block(coding.shape, block)
    # x, 4 bins, day, 3 jobs, a, b and other, false and true, then the halves of y: by hand.
    x, cut, day, job, rest, on, y = np.split(block.rows, [1, 5, 6, 9, 12, 14], axis=1)
    assert x.ravel().tolist() == [0, 7, -7, 7, -7, 7]
    # The middle of cut's bounds, 5, begins its third bin; bins end nowhere.
    assert cut.argmax(axis=1).tolist() == [2, 3, 0, 3, 0, 0] and set(cut.sum(axis=1)) == {7}
    assert day.ravel().tolist() == [0, 7, -7, 7, -7, -6]
    assert job.argmax(axis=1).tolist() == [1, 1, 1, 1, 1, 0] and set(job.sum(axis=1)) == {7}
    assert rest.argmax(axis=1).tolist() == [2, 2, 2, 2, 2, 0] and set(on.sum(axis=1)) == {7}
    assert set(y.sum(axis=1)) == {7} and y[1:5].tolist() == [[0, 7], [7, 0], [0, 7], [7, 0]] and y[0, 0] in (3, 4)


def test_a_label_of_no_level_and_a_record_of_no_length_are_projected() -> None:
    label = coding_of({"x": Numeric(-1, 1), "y": Binary(("n", "y"))}, "y", Task.LOGISTIC, split=False)
    block = code_block(label, {"x": np.array([NAN, 0.5]), "y": np.array([9, -9], np.int32)}, 0, 2)
    verify_block(label.shape, block)
    assert block.rows[:, 1].tolist() == [7, 7]
    norm = coding_of(
        {"x": Numeric(-1, 1), "z": Numeric(-1, 1), "y": Numeric(-1, 1)}, "y", split=False, norms={"p": 0.5}
    )
    assert norm.shape.longest is not None
    block = code_block(norm, {"x": np.array([INF, NAN]), "z": np.array([-INF, INF]), "y": np.array([NAN, 0.0])}, 0, 2)
    verify_block(norm.shape, block)
    assert np.square(block.rows[:, :2].astype(int)).sum(axis=1).max() <= norm.shape.longest**2


@pytest.mark.parametrize("seed", [1, 2])
def test_no_random_expression_or_value_gets_past_it(seed: int) -> None:
    found = search.search(2_000, seed)
    assert found.failures == []
    assert found.counts["accepted"] > 500 and found.counts["with a value that is no number"] > 50


def good_block(norms: bool = False) -> tuple[Coding, CodedBlock]:
    draw = np.random.default_rng(5)
    columns: dict[str, Column] = dict(COLUMNS)
    asked: dict[str, Any] = {"split": False, "norms": {"p": 0.8}} if norms else {}
    coding = coding_of(columns, "y", **asked)
    values: dict[str, Any] = {n: draw.uniform(-2, 12, ROWS) for n in ("z", "cut")}
    values |= {n: draw.uniform(-1.5, 1.5, ROWS) for n in ("x", "y")}
    values["job"] = draw.integers(0, 4, ROWS).astype(np.int32)
    return coding, code_block(coding, values, 0, ROWS)


def fitted(coding: Coding, block: CodedBlock) -> CodedBlock:
    """The same block with the sums of its rows, whatever they are."""
    record = np.concatenate([np.full((len(block.rows), 1), coding.grid.bound), block.rows], axis=1).astype(float)
    return replace(block, products=record.T @ record)


def bent(change: Callable[[CodedBlock], None]) -> Callable[[Coding, CodedBlock], CodedBlock]:
    def make(coding: Coding, block: CodedBlock) -> CodedBlock:
        copy = CodedBlock(block.rows.copy(), block.products.copy(), block.excess.copy())
        change(copy)
        return copy

    return make


def rebent(change: Callable[[CodedBlock], None]) -> Callable[[Coding, CodedBlock], CodedBlock]:
    """With sums made to fit, as if the defect came before them."""
    return lambda coding, block: fitted(coding, bent(change)(coding, block))


# Coordinates: x, z, three bins, four jobs, and the halves of y.
def entry(row: int, place: int, value: int) -> Callable[[CodedBlock], None]:
    return lambda block: block.rows.__setitem__((row, place), value)


def raised(name: str, place: Any, by: float) -> Callable[[CodedBlock], None]:
    def change(block: CodedBlock) -> None:
        getattr(block, name)[place] += by

    return change


BROKEN: dict[str, Callable[[Coding, CodedBlock], CodedBlock]] = {
    "an entry off by one": bent(lambda b: raised("rows", (3, 0), 1 if b.rows[3, 0] < 7 else -1)(b)),
    "a sum off by one": bent(raised("products", (2, 2), 1.0)),
    "a product off by one": bent(raised("products", ([1, 2], [2, 1]), 1.0)),
    "one side of a product": bent(raised("products", (1, 2), 1.0)),
    "a sum that is no integer": bent(raised("products", (2, 2), 0.5)),
    "a sum that is no number": bent(raised("products", (2, 2), NAN)),
    "an infinite sum": bent(raised("products", ([1, 2], [2, 1]), INF)),
    "too few records in the sums": bent(raised("products", (0, 0), -49.0)),
    "an excess too large": bent(raised("excess", 0, ROWS)),
    "an excess below 0": bent(raised("excess", 0, -ROWS)),
    "an excess that is no number": bent(raised("excess", 0, NAN)),
    "an excess of a level": bent(raised("excess", 3, 0.5)),
    "a record outside": rebent(entry(4, 0, 8)),
    "a record far outside": rebent(entry(4, 1, -3000)),
    "two levels": rebent(lambda b: b.rows.__setitem__((0, slice(2, 4)), 7)),
    "no level": rebent(lambda b: b.rows.__setitem__((0, slice(2, 5)), 0)),
    "half a level": rebent(lambda b: b.rows.__setitem__((0, slice(5, 9)), [3, 4, 0, 0])),
    "a negative level": rebent(lambda b: b.rows.__setitem__((0, slice(5, 9)), [-7, 7, 7, 0])),
    "two levels here and none there": rebent(
        lambda b: (b.rows.__setitem__((0, slice(2, 5)), [7, 7, 0]), b.rows.__setitem__((1, slice(2, 5)), 0))[0]
    ),
    "halves that do not add up": rebent(lambda b: b.rows.__setitem__((0, slice(9, 11)), [7, 1])),
    "a negative half": rebent(lambda b: b.rows.__setitem__((0, slice(9, 11)), [-1, 7])),
    "rows that are missing": bent(lambda b: object.__setattr__(b, "rows", b.rows[1:])),
    "a column that is missing": bent(lambda b: object.__setattr__(b, "rows", b.rows[:, 1:])),
    "other integers": bent(lambda b: object.__setattr__(b, "rows", b.rows.astype(np.int32))),
    "sums of another width": bent(lambda b: object.__setattr__(b, "products", b.products[1:, 1:])),
    "values swapped between records": bent(
        lambda b: b.rows.__setitem__((slice(None), 0), np.roll(b.rows[:, 0], 1)),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(what: str) -> None:
    coding, block = good_block()
    verify_block(coding.shape, block)
    with pytest.raises(BrokenColumns, match="defect of the program") as told:
        verify_block(coding.shape, BROKEN[what](coding, block))
    assert code_of(told.value) is Code.INTERNAL


def test_a_record_beyond_its_norm_and_a_label_between_its_levels_are_found() -> None:
    coding, block = good_block(norms=True)
    verify_block(coding.shape, block)
    with pytest.raises(BrokenColumns, match="norm"):
        verify_block(coding.shape, rebent(lambda b: b.rows.__setitem__((0, slice(0, 2)), 7))(coding, block))
    label = coding_of({"x": Numeric(-1, 1), "y": Binary(("n", "y"))}, "y", Task.LOGISTIC, split=False)
    block = code_block(label, {"x": np.zeros(3), "y": np.zeros(3, np.int32)}, 0, 3)
    with pytest.raises(BrokenColumns, match="plus or minus"):
        verify_block(label.shape, rebent(entry(0, 1, 3))(label, block))


def test_wide_blocks_and_empty_ones_are_verified() -> None:
    columns: dict[str, Column] = {f"x{i}": Numeric(-1, 1) for i in range(9000)} | {"y": Numeric(-1, 1)}
    coding = replace(coding_of(columns, "y"), grid=Grid(2047))
    block = code_block(coding, {name: np.array([-2.0, 0.3]) for name in columns}, 0, 2)
    verify_block(coding.shape, block)
    with pytest.raises(BrokenColumns):
        verify_block(coding.shape, bent(raised("products", (8999, 8999), 1.0))(coding, block))
    small, _ = good_block()
    none = code_block(small, {name: np.zeros(0, np.int32 if name == "job" else float) for name in COLUMNS}, 0, 0)
    verify_block(small.shape, none)


def calls_in(path: Path) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = [c.func.attr if isinstance(c.func, ast.Attribute) else getattr(c.func, "id", "") for c in calls]
    return [name for name in names if name in ("of_blocks", "with_made", "IntegerColumns", "cls")]


def test_columns_are_minted_in_two_places() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): sorted(set(calls))
        for path in PACKAGE.rglob("*.py")
        if (calls := [c for c in calls_in(path) if c != "cls"])
    }
    assert found == {
        "data/table.py": ["of_blocks"],
        "planning/local_columns.py": ["with_made"],
        "foundation/integers.py": ["IntegerColumns"],
    }
    assert calls_in(PACKAGE / "data" / "table.py").count("of_blocks") == 1
    assert calls_in(PACKAGE / "planning" / "local_columns.py").count("with_made") == 1
    with pytest.raises(BrokenColumns, match="verified blocks"):
        IntegerColumns(None, store.MemoryRows(1, 1), 7, Sums.of(np.zeros((2, 2))))


def frame_of(rows: int = ROWS) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "x": draw.uniform(-2, 2, rows),
            "z": draw.uniform(-2, 12, rows),
            "cut": draw.uniform(0, 10, rows),
            "job": draw.choice(["a", "b", "c", "?"], rows),
            "y": draw.uniform(-1, 1, rows),
        }
    )


LAYOUT: Layout = layout_of(Schema({"p": COLUMNS}), "y", Task.LINEAR, Calibration.EXACT)


class Liar(Executor):
    """A worker elsewhere, from which what was coded comes back changed."""

    def __init__(self, change: Callable[[CodedBlock], CodedBlock]) -> None:
        self._change = change

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        found = work(*arguments, **named)
        if isinstance(found, CodedBlock):
            found = self._change(found)
        elif isinstance(found, tuple) and isinstance(found[0], CodedBlock):
            found = (self._change(found[0]), *found[1:])
        done.set_result(found)
        return done


def outside(block: CodedBlock) -> CodedBlock:
    rows, products = block.rows.copy(), block.products.copy()
    rows[0, 0] = 20
    return replace(block, rows=rows, products=products)


def fewer(block: CodedBlock) -> CodedBlock:
    record = np.concatenate([np.full((len(block.rows) - 1, 1), 7.0), block.rows[1:]], axis=1)
    return replace(block, rows=block.rows[1:], products=record.T @ record)


@pytest.mark.parametrize("from_file", [False, True], ids=["memory", "parquet"])
@pytest.mark.parametrize("change", [outside, fewer])
def test_what_workers_send_back_is_verified(
    tmp_path: Path, from_file: bool, change: Callable[[CodedBlock], CodedBlock]
) -> None:
    frame_of().write_parquet(tmp_path / "t.parquet")
    table = open_table("p", tmp_path / "t.parquet", COLUMNS) if from_file else table_from("p", frame_of(), COLUMNS)
    with ThreadPoolExecutor(2) as threads:
        assert table.encode(LAYOUT, GRID, COINS, Workers(threads, 2)).shape == (ROWS, 11)
    # Fewer records than a file has look as if it had been changed meanwhile.
    told = "has 59 now" if from_file and change is fewer else "defect of the program"
    with pytest.raises(Exception, match=told):
        table.encode(LAYOUT, GRID, COINS, Workers(Liar(change), 2, remote=True))


def test_a_short_read_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = store.ScratchFile()
    start = disk.append(np.arange(100))
    found = np.empty(100, np.int64)
    disk.read(start, found)
    assert found.tolist() == list(range(100))
    os.truncate(disk._file.fileno(), 400)
    with pytest.raises(BrokenError, match="on disk"):
        disk.read(start, found)
    monkeypatch.setattr("colonnade.data.table.CACHE_BYTES", 10)
    columns = table_from("p", frame_of(), COLUMNS).encode(LAYOUT, GRID, COINS)
    os.truncate(columns._store._disk._file.fileno(), 30)  # type: ignore[attr-defined]
    with pytest.raises(BrokenError, match="on disk"):
        columns.rows(0, ROWS)


def test_made_columns_outside_are_found() -> None:
    encoded = table_from("p", frame_of(), COLUMNS).encode(LAYOUT, GRID, COINS)
    made = encoded.with_made(LocalProducts([(0, 1), (0, 0, 1)], 7, COINS).make, 2)
    rows = made.rows(0, ROWS).astype(np.int64)
    assert made.shape == (ROWS, 13) and np.array_equal(rows[:, :11], encoded.rows(0, ROWS))
    assert made.sums.products[0, 12:].tolist() == (7 * rows[:, 11:].sum(axis=0)).tolist()
    assert np.array_equal(made.sums.products[:12, :12], encoded.sums.products)
    with pytest.raises(BrokenColumns, match="within their bounds"):
        encoded.with_made(lambda start, rows: np.full((len(rows), 1), 8, np.int16), 1)
    with pytest.raises(BrokenColumns, match="all columns"):
        encoded.with_made(lambda start, rows: np.full((len(rows), 2), 1, np.int16), 1)


# Bounds of derived columns.


def test_derived_bounds_are_the_nearest_floats() -> None:
    mpmath = pytest.importorskip("mpmath")
    draw = np.random.default_rng(2)
    with mpmath.workdps(60):
        for high in (*10 ** draw.uniform(-16, 300, 60), 2.0**-54, 1e-300, 94_906.0):
            low = -0.5 if high > 1 else -high / 3
            columns: dict[str, Column] = {"x": Numeric(low, float(high))}
            made = derive_columns({"d": "log1p(x)", "e": "x^3" if 1e-16 < high < 1e100 else "x"}, columns, "derived")
            exact = [float(mpmath.log1p(mpmath.mpf(v))) for v in (low, float(high))]
            assert made["d"].require_bounds() == tuple(exact)
            if 1e-16 < high < 1e100:
                assert made["e"].require_bounds() == tuple(float(mpmath.mpf(v) ** 3) for v in (low, float(high)))


def test_a_stored_bound_within_four_steps_is_kept() -> None:
    columns: dict[str, Column] = {"x": Numeric(0, 94_906)}
    (made,) = derive_columns({"d": "log1p(x)"}, columns, "derived").values()
    assert isinstance(made, Derived)
    high = made.high
    for steps in (1, 4):
        stored = replace(made, high=high + steps * math.ulp(high))
        found = Schema({"p": columns | {"d": stored}})
        assert column_to(found.parties["p"]["d"])["high"] == stored.high
        assert stored.is_like(made) and made.is_like(stored) and made.is_like(column_from("d", column_to(stored)))
    for off in (5 * math.ulp(high), 0.1, -1.0):
        other = replace(made, high=high + off)
        assert not made.is_like(other)
        with pytest.raises(SchemaError, match="column d: the bounds of"):
            Schema({"p": columns | {"d": other}})
    assert not made.is_like(replace(made, bins=(1.0,))) and not made.is_like(None) and not made.is_like(columns["x"])


@pytest.mark.parametrize("where", ["low", "high", "bins", "fill"])
def test_whole_bounds_beyond_what_floats_hold_are_refused_at_declaration(where: str) -> None:
    for value in (2**53 + 1, 2**64, 10**400):
        low = {"low": -value if where == "low" else -1, "high": value if where == "high" else 2**53}
        more = {"bins": [value]} if where == "bins" else {"fill": value} if where == "fill" else {}
        with pytest.raises(SchemaError, match=f"{where} must|column x: low and high") as told:
            column_from("x", {"kind": "numeric", **low, **more})
        assert len(str(told.value)) < 200
    assert column_from("x", {"kind": "numeric", "low": -(2**53), "high": 2**53, "integer": True})
    assert column_from("x", {"kind": "numeric", "low": 0, "high": 1e30})
    with pytest.raises(SchemaError, match="within 2\\^53 of 0"):
        Numeric(0, 2.0**54, integer=True)


def test_a_power_beyond_all_numbers_is_refused() -> None:
    for text in ("x^1e9", "x^1.5", "x^0", "x^10"):
        with pytest.raises(SchemaError, match="takes powers from 1 to 9"):
            derive_columns({"d": text}, {"x": Numeric(0, 1)}, "derived")


def test_a_score_that_is_no_number_is_put_at_the_centre() -> None:
    found = Part(2.0, 1.0, -4.0, 4.0).centred(np.array([NAN, INF, -INF, 3.0]))
    assert found.tolist() == [0.0, INF, -INF, 1.0]
