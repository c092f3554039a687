"""Rows drawn from a release: the first of them, what they are, and all of them as a file with its notes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import plain_cell
from colonnade.foundation.shown import figure
from colonnade.report.results import Answer, Heading, Listing, Passage

if TYPE_CHECKING:
    from colonnade.analysis.synthesis import Synthetic


def drawn(rows: Synthetic, notes: Sequence[str], shown: int) -> Answer:
    """The first rows, and what a reader of all has to know."""
    frame = rows_frame(rows)
    first = frame.head(shown)
    columns = [Heading(name, (name,), _cell, kind.is_numeric()) for name, kind in first.schema.items()]
    known = {
        "expected_tv": rows.expected,
        "independent_tv": rows.independent,
        "converged": rows.certificate.converged,
        "distance": rows.certificate.distance,
        "misfit": rows.certificate.misfit,
        "unbinned": list(rows.unbinned),
        "notes": list(notes),
    }
    title = f"{frame.height:,} rows, the first {first.height}"
    return Answer(title, [Listing(columns, first.to_dicts()), *(Passage(n, "soft") for n in notes)], lambda: known)


def _cell(value: Any) -> str:
    return figure(value) if isinstance(value, float) else str(value)


def rows_frame(rows: Synthetic, texts: Callable[[str], str] = str) -> pl.DataFrame:
    """The rows as a data frame; whole numbers are integers, and `texts` is done to every level."""
    columns = {}
    for name, values in rows.values.items():
        if isinstance(values, np.ndarray):
            whole = bool(np.all(values == np.rint(values)))
            columns[name] = pl.Series(name, values.astype(np.int64) if whole else values)
        else:
            columns[name] = pl.Series(name, [texts(text) for text in values])
    return pl.DataFrame(columns)


def notes_place(place: Path) -> Path | None:
    """Where the notes of rows go that are written here: a CSV file that programs can read has no room for them."""
    if place.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise StudyError(f"rows are written as .csv or .parquet, got {place}")
    return place.with_suffix(".notes.txt") if place.suffix.lower() == ".csv" else None


def notes_file(notes: Sequence[str]) -> bytes:
    """The notes, one on each line."""
    return "".join(f"{' '.join(note.split())}\n" for note in notes).encode()


def rows_file(rows: Synthetic, notes: Sequence[str], csv: bool) -> bytes:
    """CSV, or Parquet with the notes as metadata."""
    if csv:
        return rows_frame(rows, plain_cell).rename(plain_cell).write_csv().encode()
    file = io.BytesIO()
    rows_frame(rows).write_parquet(file, metadata={"colonnade": " ".join(notes)})
    return file.getvalue()
