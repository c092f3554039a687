"""Spreadsheets and files of statistics programs: the same table as a plain file of the same rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import polars as pl
import pyreadstat
import pytest

from colonnade.data import programs
from colonnade.data.proposals import propose_written
from colonnade.data.sources import FileSource, Source
from colonnade.data.table import Table
from colonnade.data.written import PLAIN, Written
from colonnade.foundation.columns import Column
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.parts import data_files
from colonnade.foundation.schema import Categorical, Date, Numeric
from tests.helpers.cli_study import Run, runner

run = pytest.fixture(runner)
COLUMNS: dict[str, Column] = {
    "x": Numeric(-1e6, 1e6),
    "day": Date("1900-01-01", "2030-01-01"),
    "town": Categorical(("Łódź", "Köln")),
}


def rows(count: int = 23) -> pl.DataFrame:
    """Whole and tiny numbers, days, letters of two languages, and gaps."""
    draw = np.random.default_rng(7)
    x = draw.normal(size=count) * 10.0 ** draw.integers(-12, 5, count)
    return pl.DataFrame(
        {
            "nr": np.arange(1, count + 1),
            "x": [None if k == 3 else float(f"{round(v) if k % 3 else v:.14g}") for k, v in enumerate(x)],
            "day": [None if k == 5 else date(1950 + k, 1 + k % 12, 28) for k in range(count)],
            "town": [None if k == 8 else ("Łódź", "Köln")[k % 2] for k in range(count)],
        }
    )


def book(place: Path, lines: list[list[Any]], before: str = "") -> None:
    found = openpyxl.Workbook()
    if before:
        found.active.title = before
        found.create_sheet("wizyty")
    for line in lines:
        found.worksheets[-1].append(line)
    found.save(place)


def lines_of(frame: pl.DataFrame) -> list[list[Any]]:
    return [frame.columns, *map(list, frame.iter_rows())]


def write(kind: str, frame: pl.DataFrame, folder: Path) -> Path:
    place = folder / f"rows.{kind}"
    if kind == "xlsx":
        book(place, lines_of(frame))
    elif kind == "csv":
        frame.write_csv(place)
    else:
        writer = {"dta": "write_dta", "sav": "write_sav", "xpt": "write_xport"}[kind]
        getattr(pyreadstat, writer)(frame, str(place))
    return place


def read(place: Path, written: Written = PLAIN) -> Table:
    return Source(FileSource(place), "nr", written=written).read("a", COLUMNS)


@pytest.mark.parametrize("kind", ["xlsx", "dta", "sav", "xpt"])
@pytest.mark.parametrize("chunk", [5, 23, 1 << 16])
def test_the_table_is_that_of_a_plain_file(
    kind: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "CHUNK_ROWS", chunk)
    found, plain = (read(write(name, rows(), tmp_path)) for name in (kind, "csv"))
    assert list(found.ids or ()) == list(plain.ids or ()) == [str(k) for k in range(1, 24)]
    assert found.digest() == plain.digest()
    assert found.unfit_counts == plain.unfit_counts == {"x": 1, "day": 1, "town": 1}


def test_cells_take_the_forms_that_the_party_states(tmp_path: Path) -> None:
    """Real numbers and days in a sheet beside texts of them are what they are."""
    place = tmp_path / "two.xlsx"
    stated = [["Raport"], [], ["nr", "x", "day", "town"]]
    book(place, [*stated, [7.0, 0.25, date(2024, 3, 7), "Köln"], ["008", "1 234,5", "08.03.2024", "b.d."], [], []], "a")
    forms = Written(decimal=",", thousands=" ", dates="%d.%m.%Y", missing=("b.d.",), skip=2, sheet="wizyty")
    assert propose_written(FileSource(place), "wizyty").skip == 2
    table = read(place, forms)
    assert list(table.ids or ()) == ["7", "008"]
    assert np.asarray(table.values["x"]).tolist() == [0.25, 1234.5]
    assert np.diff(np.asarray(table.values["day"])).tolist() == [1.0]
    assert table.unfit_counts == {"town": 1}


def test_a_note_beside_a_spreadsheets_table_ends_no_reading(tmp_path: Path) -> None:
    lines = lines_of(rows())
    lines[7] = [*lines[7], None, "ask Anna", 3]
    book(tmp_path / "rows.xlsx", [["Report\nof all"], *lines])
    found, wanted = read(tmp_path / "rows.xlsx", Written(skip=2)), read(write("csv", rows(), tmp_path))
    for name in COLUMNS:
        assert np.array_equal(found.values[name], wanted.values[name])
    assert propose_written(FileSource(tmp_path / "rows.xlsx")).skip == 2


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("xlsx", "dta", "sav", "xpt", "sas7bdat"):
        place = tmp_path / f"bad.{kind}"
        place.write_bytes(b"nr,x,day,town\n1,2,3,4\n")
        with pytest.raises(ColonnadeError, match=rf"bad\.{kind} cannot be read: it is damaged"):
            read(place)
    with pytest.raises(ColonnadeError, match=r"has no sheet 'b'; it has 'Sheet'"):
        read(write("xlsx", rows(), tmp_path), Written(sheet="b"))
    (tmp_path / "old.csv").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(100))
    with pytest.raises(ColonnadeError, match=r"is an old Excel file \(save that as \.xlsx\)"):
        read(tmp_path / "old.csv")
    write("csv", rows(), tmp_path)
    with pytest.raises(ColonnadeError, match="must be of one kind, got CSV and Excel"):
        data_files(tmp_path / "rows.*")
    monkeypatch.setattr(programs, "find_spec", lambda module: None)
    for kind, module in (("xlsx", "openpyxl"), ("dta", "pyreadstat")):
        with pytest.raises(ColonnadeError, match=rf"needs {module}, which is not installed: pip install .*files"):
            read(write(kind, rows(), tmp_path))


def test_new_drafts_a_spreadsheet_with_its_forms(run: Run, tmp_path: Path) -> None:
    book(tmp_path / "a.xlsx", [["Raport"], ["nr", "x", "SMS"], *([k, k / 4, ("TAK", "NIE")[k % 2]] for k in range(9))])
    answer = run("schema", tmp_path / "a.xlsx")
    assert answer.code == 0, answer.err
    assert all(text in answer.out for text in ("# skip = 1", '# true = ["TAK"]', 'SMS = { kind = "boolean"'))
