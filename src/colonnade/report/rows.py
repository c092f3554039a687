"""Drawn rows as a file that says what they are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from colonnade.foundation.names import plain_cell

if TYPE_CHECKING:
    from colonnade.analysis.synthesis import Synthetic


def rows_file(rows: Synthetic, notes: Sequence[str], csv: bool) -> bytes:
    """CSV with the notes as comment lines on top, or Parquet with them as metadata."""
    columns = {}
    for name, values in rows.values.items():
        if isinstance(values, np.ndarray):
            whole = bool(np.all(values == np.rint(values)))
            columns[name] = pl.Series(name, values.astype(np.int64) if whole else values)
        else:
            columns[name] = pl.Series(name, [plain_cell(text) for text in values] if csv else values)
    frame = pl.DataFrame(columns)
    if csv:
        lines = "".join(f"# {' '.join(note.split())}\n" for note in notes)
        return (lines + frame.rename(plain_cell).write_csv()).encode()
    file = io.BytesIO()
    frame.write_parquet(file, metadata={"colonnade": " ".join(notes)})
    return file.getvalue()
