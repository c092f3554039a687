"""What a release shows of itself: tables, components, drawn rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from colonnade.api.display import Shown
from colonnade.foundation.files import places
from colonnade.foundation.parts import local_path

if TYPE_CHECKING:
    import polars as pl

    from colonnade.analysis.components import Components
    from colonnade.analysis.synthesis import Synthetic
    from colonnade.analysis.tables import Tables
    from colonnade.foundation.files import Place
    from colonnade.report.results import Answer


class ReleasedTables(Shown):
    """One-way and contingency tables of a release, denoised, with 95% intervals: what `Release.tables` gives.

    Attributes
    ----------
    frame : polars.DataFrame
        One line for each cell: columns, levels, count, low, high.
    """

    def __init__(self, tables: Tables, chosen: Sequence[int], seed: int) -> None:
        self._tables, self._chosen, self._seed = tables, tuple(chosen), seed

    @property
    def frame(self) -> pl.DataFrame:
        from colonnade.report.answers.crosstables import cells

        return cells(self._tables, self._chosen).frame

    @cached_property
    def answer(self) -> Answer:
        from colonnade.report.answers.crosstables import crosstables

        return crosstables(self._tables, self._chosen, self._seed)

    def to_dict(self) -> dict[str, Any]:
        """All of it as `colonnade tables --json` prints it, with the tests of independence."""
        return self.answer.facts()

    def to_csv(self) -> str:
        """One line for each cell, as `colonnade tables --csv` prints it."""
        from colonnade.report.answers.crosstables import tables_csv

        return tables_csv(self._tables, self._chosen)


class PrincipalComponents(Shown):
    """Principal components and correlations of a release's columns: what `Release.components` gives.

    Attributes
    ----------
    names : tuple of str
        The coded columns: levels count 0 or 1, numbers from -1 to 1.
    share : numpy.ndarray
        Of the total variance, for each component, largest first.
    loadings : numpy.ndarray
        One row for each component.
    correlations : numpy.ndarray
        Of every two coded columns; nan where the noise leaves nearly all that a correlation can be.
    low, high : numpy.ndarray
        The ends of their 95% intervals, for the correlations of the records.
    clear : int
        How many components have more variance than noise alone would give one.
    notes : list of str
        What to know of the noise.
    """

    def __init__(self, found: Components, shown: int) -> None:
        self._found, self._shown = found, shown
        self.names, self.share = found.names, found.share
        self.loadings, self.correlations = found.loadings, found.correlations
        self.low, self.high, self.clear, self.notes = found.low, found.high, found.clear, found.notes()

    @cached_property
    def answer(self) -> Answer:
        from colonnade.report.answers.principal import principal

        return principal(self._found, self._shown)


class SyntheticRows(Shown):
    """Rows drawn from a release, with what is known of their quality: what `Release.synthesize` gives.

    Attributes
    ----------
    frame : polars.DataFrame
        The rows.
    notes : list of str
        What a reader of the rows has to know; `save` writes it into the file.
    expected_tv, independent_tv : float
        Expected total variation of a table of two columns from that of the real rows, and that of rows whose columns
        are independent.
    converged : bool
        Whether the model that the rows are drawn from meets the released tables.
    """

    def __init__(self, rows: Synthetic, notes: Sequence[str]) -> None:
        from colonnade.report.answers.rows import rows_frame

        self._rows, self.notes = rows, list(notes)
        self.frame = rows_frame(rows)
        self.expected_tv, self.independent_tv = rows.expected, rows.independent
        self.converged = rows.certificate.converged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV or Parquet, by the path's ending; notes stand beside a CSV file, in .notes.txt."""
        from colonnade.report.answers.rows import notes_place

        place = local_path(path)
        with places(place, notes_place(place)) as (file, beside):
            self.write(file, beside)

    def write(self, file: Place, beside: Place) -> None:
        """Write them where a file will appear, and the notes of CSV beside it."""
        from colonnade.report.answers.rows import notes_file

        file.write(self.to_bytes(beside.path is not None))
        beside.write(notes_file(self.notes))

    def to_bytes(self, csv: bool = True) -> bytes:
        """The content of a CSV or of a Parquet file, which holds the notes."""
        from colonnade.report.answers.rows import rows_file

        return rows_file(self._rows, self.notes, csv)

    def __len__(self) -> int:
        return self.frame.height

    @property
    def answer(self) -> Answer:
        return self.first()

    def first(self, shown: int = 10) -> Answer:
        """So many of them, with the notes."""
        from colonnade.report.answers.rows import drawn

        return drawn(self._rows, self.notes, shown)
