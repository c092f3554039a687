"""Small files that stand for much: rows are read in blocks, and a refusal stays short."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from colonnade.data.table import read_table
from colonnade.foundation.errors import DataError
from colonnade.foundation.schema import Categorical, Numeric

SRC = Path(__file__).resolve().parents[2] / "src"
ROWS = 20_000_000
"""160 MB as numbers, in a file of a few kilobytes."""
READ = """
import resource, sys
from pathlib import Path
from colonnade.data.table import read_table
from colonnade.foundation.schema import Numeric
read_table("p", Path(sys.argv[1]), {"x": Numeric(0, 1)}, None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(read_table("p", Path(sys.argv[2]), {"x": Numeric(0, 1)}, None).rows)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_parquet_bomb_is_read_in_blocks(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "small.parquet")
    pl.select(pl.repeat(1.0, ROWS).alias("x")).write_parquet(tmp_path / "bomb.parquet", row_group_size=ROWS)
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    call = [sys.executable, "-c", READ, str(tmp_path / "small.parquet"), str(tmp_path / "bomb.parquet")]
    done = subprocess.run(call, env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=True)
    rows, grown = map(int, done.stdout.split())
    assert rows == ROWS and grown < 100, f"{grown} MB"


@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_an_endless_level_is_refused_in_a_short_sentence(tmp_path: Path, kind: str) -> None:
    path, endless = tmp_path / f"data.{kind}", "a" * 3_000_000
    if kind == "parquet":
        pl.DataFrame({"x": [endless] * 20}).write_parquet(path)
    else:
        path.write_bytes(gzip.compress(f"x\n{endless}\n".encode()))
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="is not among the declared levels") as refused:
        read_table("p", path, {"x": Categorical(("b" * 150, "c"))}, None).require_fit()
    assert len(str(refused.value)) < 500


def test_a_parquet_file_that_claims_more_rows_than_it_has_is_refused(tmp_path: Path) -> None:
    """The footer's counts are thrift varints: 1,000 rows become 2^31 - 1 or so in the same number of bytes."""
    path = tmp_path / "data.parquet"
    pl.DataFrame({"x": [0.5 + i / 4000 for i in range(1000)]}).write_parquet(path, statistics=False)
    whole = path.read_bytes()
    claim, more = b"\xd0\x0f", b"\xfe\x7f"
    assert claim in whole[-400:], "1,000 as a zigzag varint"
    at = whole.rindex(claim)
    path.write_bytes(whole[:at] + more + whole[at + 2 :])
    with pytest.raises(DataError):
        table = read_table("p", path, {"x": Numeric(0, 1)}, None)
        raise AssertionError(f"read {table.rows} rows")


@pytest.mark.parametrize("kind", ["csv", "csv.gz"])
def test_a_row_that_is_no_record_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    """A number of 3 * 10^8 digits, 1.3 MB as gzip, took 2.1 GB."""
    path, digits = tmp_path / f"data.{kind}", b"1" * 20_000_000
    path.write_bytes(b"x\n" + digits if kind == "csv" else gzip.compress(b"x\n" + digits, 1))
    with pytest.raises(DataError, match=f"data.{kind} has a row of more than 8 MB, which is no record"):
        read_table("p", path, {"x": Numeric(0, 1)}, None)
    # Rows of any usual length pass, and so does what expands much by its rows.
    path.write_bytes(b"x\n" + b"1\n" * 50_000 if kind == "csv" else gzip.compress(b"x\n" + b"1\n" * 50_000))
    assert read_table("p", path, {"x": Numeric(0, 1)}, None).rows == 50_000


def test_a_zstandard_file_that_states_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\xc0\x00" + (300_000_003).to_bytes(8, "little") + bytes(9000))
    with pytest.raises(DataError, match="states 300,000,003 bytes in 9,014, more than 1000 times as many"):
        read_table("p", path, {"x": Numeric(0, 1)}, None)
    pl.DataFrame({"x": [0.5] * 1000}).write_csv(path, compression="zstd")
    assert read_table("p", path, {"x": Numeric(0, 1)}, None).rows == 1000
