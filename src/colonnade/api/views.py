"""What a release shows of itself: tables, components, drawn rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from colonnade.api.shown import Shown
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import places
from colonnade.foundation.parts import local_path
from colonnade.foundation.shown import figure

if TYPE_CHECKING:
    from rich.console import RenderableType

    from colonnade.analysis.components import Components
    from colonnade.analysis.synthesis import Synthetic
    from colonnade.analysis.tables import Tables

SHOWN_ROWS = 10
SHOWN_MAPS = 3


class ReleasedTables(Shown):
    """Margins and cross tables of a release, denoised, with 95% intervals: what `Release.tables` gives.

    Attributes
    ----------
    frame : polars.DataFrame
        One line for each cell: columns, levels, count, low, high.
    """

    def __init__(self, tables: Tables, chosen: Sequence[int], seed: int) -> None:
        self._tables, self._chosen, self._seed = tables, tuple(chosen), seed

    @property
    def frame(self) -> pl.DataFrame:
        cells: list[tuple[Any, ...]] = []
        released, chosen = self._tables.released, self._chosen
        for i in () if len(chosen) == 2 else chosen or released.counted:
            m = self._tables.margin(i)
            every = zip(m.levels, m.count, m.low, m.high, strict=True)
            cells += [(m.name, level, None, None, *map(float, numbers)) for level, *numbers in every]
        for i, j in self._pairs():
            cross = self._tables.cross(i, j)
            for a, row in enumerate(cross.rows):
                for b, column in enumerate(cross.columns):
                    numbers = (float(part[a, b]) for part in (cross.count, cross.low, cross.high))
                    cells.append((cross.names[0], row, cross.names[1], column, *numbers))
        texts = dict.fromkeys(("column_a", "level_a", "column_b", "level_b"), pl.String)
        return pl.DataFrame(cells, {**texts, "count": pl.Float64, "low": pl.Float64, "high": pl.Float64}, orient="row")

    def _pairs(self) -> list[tuple[int, int]]:
        released, chosen = self._tables.released, self._chosen
        if len(chosen) == 2:
            return [(chosen[0], chosen[1])]
        if chosen:
            return []
        return list(released.tables)

    def to_dict(self) -> dict[str, Any]:
        """All of it as `colonnade tables --json` prints it, with the tests of independence."""
        from colonnade.report.tables import tables_json

        return tables_json(self._tables, self._chosen, self._seed)

    def __rich__(self) -> RenderableType:
        from colonnade.report.tables import tables_text

        return tables_text(self._tables, self._chosen, self._seed)

    def _html(self) -> str:
        from colonnade.report.notebook import fragment, heading, html_table, paragraph
        from colonnade.report.pictures import dependence_context
        from colonnade.report.tables import cross_cells, dependence_line, number_texts

        found: Any = dependence_context(self._tables, self._chosen, self._seed, SHOWN_MAPS)
        parts: list[str] = []
        if found["tree_picture"] is not None:
            parts += [heading("Which columns depend on each other"), found["tree_picture"]]
        for item in found["crosses"]:
            cross, told = item["cross"], item["found"]
            parts += [heading(f"{cross.names[0]} by {cross.names[1]}"), item["picture"]]
            if len(self._chosen) == 2:
                heads = [f"{cross.names[0]} \\ {cross.names[1]}", *cross.columns]
                parts.append(html_table(heads, cross_cells(cross), range(1, len(heads))))
            parts.append(paragraph(dependence_line(told).plain))
        for item in found["margins"]:
            margin = item["margin"]
            parts += [heading(f"{margin.owner}.{margin.name}"), item["picture"]]
        if found["numbers"]:
            rows = [[x.name, x.owner, *number_texts(self._tables, x)] for x in found["numbers"]]
            parts.append(html_table(["number, released without bins", "party", "mean", "std"], rows, (2, 3)))
        return fragment(*parts, *(paragraph(note, "soft") for note in found["interval_notes"]))


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

    def __rich__(self) -> RenderableType:
        from colonnade.report.tables import components_text

        return components_text(self._found, self._shown)

    def _html(self) -> str:
        from colonnade.report.charts import Bar, bars
        from colonnade.report.notebook import fragment, heading, html_table, paragraph
        from colonnade.report.tables import SHOWN_LOADINGS

        rows, items = [], []
        for k in range(min(self._shown, len(self.share))):
            order = sorted(range(len(self.names)), key=lambda c: -abs(self.loadings[k, c]))[:SHOWN_LOADINGS]
            told = ", ".join(f"{self.names[c]} {self.loadings[k, c]:+.2f}" for c in order)
            rows.append([k + 1, f"{self.share[k]:.3f}", told])
            text = f"{100 * self.share[k]:.1f}%"
            items.append(Bar(f"component {k + 1}", float(self.share[k]), text, f"component {k + 1}: {text}"))
        picture = bars([("", items)], "Share of the variance", "; ".join(b.hint for b in items))
        table = html_table(["component", "share", "largest loadings"], rows, (1,))
        notes = [paragraph(note, "soft") for note in self.notes]
        return fragment(heading("Principal components of the coded columns"), picture, table, *notes)


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
        from colonnade.report.rows import rows_frame

        self._rows, self.notes = rows, list(notes)
        self.frame = rows_frame(rows)
        self.expected_tv, self.independent_tv = rows.expected, rows.independent
        self.converged = rows.certificate.converged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV or Parquet, by the path's ending; notes stand beside a CSV file, in .notes.txt."""
        from colonnade.report.rows import notes_file, notes_place, rows_file

        place = local_path(os.fspath(path))
        if place.suffix.lower() not in (".csv", ".parquet", ".pq"):
            raise StudyError(f"rows are written as .csv or .parquet, got {place}")
        with places(place, notes_place(place)) as (file, beside):
            file.write(rows_file(self._rows, self.notes, place.suffix.lower() == ".csv"))
            beside.write(notes_file(self.notes))

    def __len__(self) -> int:
        return self.frame.height

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        told = f"{len(self):,} rows; {', '.join(self.frame.columns)}"
        return Group(Text(told), Text(str(self.frame.head(SHOWN_ROWS))), *map(Text, self.notes))

    def _html(self) -> str:
        from colonnade.report.notebook import fragment, html_table, paragraph

        shown = self.frame.head(SHOWN_ROWS)
        rows = [[figure(v) if isinstance(v, float) else str(v) for v in row] for row in shown.iter_rows()]
        told = paragraph(f"{len(self):,} rows, the first {len(rows)}:")
        notes = [paragraph(note, "soft") for note in self.notes]
        return fragment(told, html_table(self.frame.columns, rows), *notes)
