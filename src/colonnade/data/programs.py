"""Tables as other programs keep them, spreadsheets and files of statistics programs, as lines of text.

A cell becomes the text that a file of the same party would have for it, so that nothing else knows of these files.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

from colonnade.data.written import Written
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.parts import is_sheet
from colonnade.foundation.shown import shown

CHUNK_ROWS = 1 << 16  # rows of a file that are read at once, so that memory stays flat
LARGEST_WHOLE = 2**53  # whole floats from here on may stand for their neighbours
READERS = {".dta": "read_dta", ".sav": "read_sav", ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport"}


def write_lines(file: Path, written: Written, out: IO[str], ragged: bool = False) -> None:
    """Write a file's table as lines of cells, in the party's own forms; empty lines at the end are none.

    Cells beyond the header, such as somebody's note, are none either, unless the table is `ragged`: where the header
    is not known yet.
    """
    lines, empty, above, width = csv.writer(out, delimiter=written.separator), 0, written.skip, None
    for row in _sheet_rows(file, written.sheet) if is_sheet(file) else _program_rows(file):
        cells = [_text(value, written) for value in row[:width]]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            empty += 1
            continue
        lines.writerows([[""]] * empty + [cells])
        above -= empty + 1 + sum(cell.count("\n") for cell in cells)
        if above < 0 and width is None and not ragged:
            width = len(cells)
        empty = 0


def _text(value: Any, written: Written) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_WHOLE
        return str(int(value) if whole else value).replace(".", written.decimal)
    if isinstance(value, datetime) and value.time() != time():
        return value.isoformat()
    if isinstance(value, (date, datetime)):
        # A day is one, whatever the form of those that are texts.
        return value.strftime(written.dates if written.dates and not written.months else "%Y-%m-%d")
    return str(value)


def _require(module: str, file: Path) -> None:
    if find_spec(module) is None:
        raise StudyError(f"{file.name} needs {module}, which is not installed: pip install 'colonnade[files]'")


def _sheet_rows(file: Path, sheet: str) -> Iterator[Sequence[Any]]:
    """The rows of a sheet, the first if none is named, as they are streamed from the file."""
    _require("openpyxl", file)
    import openpyxl

    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            names = [page.title for page in book.worksheets]
            if sheet and sheet not in names:
                raise DataError(f"{file.name} has no sheet {shown(sheet)}; it has {', '.join(map(shown, names))}")
            page = book[sheet] if sheet else book.worksheets[0]
            # What a file states of its size may be wrong.
            page.reset_dimensions()
            yield from page.iter_rows(values_only=True)
        finally:
            book.close()
    except (BadZipFile, KeyError, ValueError, IndexError, SyntaxError):
        raise DataError(f"{file.name} cannot be read: it is damaged, has a password, or is no Excel file") from None


def _program_rows(file: Path) -> Iterator[Sequence[Any]]:
    """The names of a file's columns, and its rows, in chunks; levels are the codes that the file has."""
    _require("pyreadstat", file)
    import pyreadstat

    reader, start = getattr(pyreadstat, READERS[file.suffix.lower()]), 0
    try:
        while True:
            frame, about = reader(str(file), output_format="polars", row_offset=start, row_limit=CHUNK_ROWS)
            if not start:
                yield about.column_names
            yield from frame.iter_rows()
            start += CHUNK_ROWS
            if frame.height < CHUNK_ROWS:
                return
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
        raise DataError(f"{file.name} cannot be read: it is damaged, or no file of its kind") from None
