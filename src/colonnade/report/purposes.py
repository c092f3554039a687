"""What noise could be spread for: the same study planned for its label's model and for tables of all columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.forecast import Share
from colonnade.mechanism.objective import Purpose
from colonnade.mechanism.table_error import TableForecast
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.report.results import Heading, Listing, Part, Passage, Words
from colonnade.report.text import range_text

ALLOCATED = {
    Purpose.LABEL: "the label's model",
    Purpose.ALL: "tables, synthetic records and models of all columns",
}


@dataclass(frozen=True)
class PurposeForecast:
    """What a plan for one purpose comes to, by public facts."""

    purpose: Purpose
    released: str
    left: Share | None
    expected: float
    independent: float
    chosen: bool

    @property
    def worse(self) -> bool:
        return TableForecast(self.expected, self.independent).worse

    def describe(self) -> dict[str, Any]:
        """The same as one JSON object."""
        return {
            "purpose": self.purpose.value,
            "released": self.released,
            "explained": self.left and self.left.middle,
            "explained_range": self.left and [self.left.low, self.left.high],
            "expected_tv": self.expected,
            "independent_tv": self.independent,
            "rows_worse_than_independent": self.worse,
            "chosen": self.chosen,
        }


def forecast_purposes(session: SessionPlan) -> list[PurposeForecast]:
    """Both purposes, as far as they can be planned; none where fewer than two columns have levels."""
    out = []
    for purpose in Purpose:
        try:
            other = session
            if purpose is not session.agreement.query.purpose:
                other = plan_session(session.agreement.with_terms(purpose=purpose), session.rows, session.identity)
        except ColonnadeError:
            continue
        tables = other.table_forecast
        if tables is not None and other.query.tables:
            left, chosen = other.forecast.left, other is session
            out.append(PurposeForecast(purpose, other.released, left, tables.expected, tables.independent, chosen))
    return out


def purposes_of(found: list[PurposeForecast]) -> list[Part]:
    """The same as a table; nothing where there is none."""
    if not found:
        return []
    columns = (
        Heading("purpose", ("purpose", "chosen"), lambda name, chosen: f"{name} (this plan)" if chosen else name),
        Heading("noise is allocated to", "purpose", lambda name: ALLOCATED[Purpose(name)]),
        Heading("release", "released"),
        Heading("explained", "explained_range", range_text, missing=Words("-")),
        Heading("distance of tables", "expected_tv", "{:.3f}".format, True),
    )
    note = (
        "Explained: of what a model of the label without noise could. Distance: expected total variation of a two-way "
        f"table from the records' own; {found[0].independent:.3f} if columns were taken as independent. Synthetic "
        "records of a release that is no nearer are refused. Levels are taken to be as unequal as 1, 1/2, 1/3, and "
        "columns to depend on each other as in census tables."
    )
    return [Listing(columns, [line.describe() for line in found], "What it is good for"), Passage(note, "soft")]
