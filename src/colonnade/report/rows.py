"""Drawn rows as a file that says what they are."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from colonnade.foundation.names import plain_cell

if TYPE_CHECKING:
    from colonnade.analysis.synthesis import Synthetic


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


def rows_file(rows: Synthetic, notes: Sequence[str], csv: bool) -> bytes:
    """CSV with the notes as comment lines on top, or Parquet with them as metadata."""
    if csv:
        lines = "".join(f"# {' '.join(note.split())}\n" for note in notes)
        return (lines + rows_frame(rows, plain_cell).rename(plain_cell).write_csv()).encode()
    file = io.BytesIO()
    rows_frame(rows).write_parquet(file, metadata={"colonnade": " ".join(notes)})
    return file.getvalue()
