"""Plans of one study under other terms, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colonnade.report.results import Answer, Figure, Heading, Listing, Passage, Words
from colonnade.report.text import range_text, share_text

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.planning.variants import Variant

FIELDS = {"refused": str, "epsilon": float, "released": str, "noise_to_signal": float, "explained": float}
FIELDS |= {"rows_needed": int}
NONE = Words("-")
TITLE = "What noise leaves of what could be explained"
NOTE = (
    "What noise leaves of what the same columns could explain without it: the range held in four of five cells that it "
    "was fitted to, and in 13 of 20 others."
)


def compared(variants: Sequence[Variant], study: str, rows: int, assumed: bool = False) -> Answer:
    """One line for each plan; a picture of what noise leaves."""
    facts = [variant.describe() for variant in variants]
    records = [{**row, **chosen_cells(row["chosen"])} for row in facts]
    for record in records:
        if "refused" in record:
            record |= {"released": Words("refused", "warn")}
    notes = [Passage(NOTE, "soft")]
    notes += [Passage(f"{chosen_text(row['chosen'])}: {row['refused']}", "warn") for row in facts if "refused" in row]
    columns = (
        *chosen_columns(facts[0]["chosen"]),
        Heading("release", "released"),
        Heading("noise / signal", "noise_to_signal", "{:.3g}".format, True, NONE),
        Heading("leaves", "explained_range", range_text, True, NONE),
        Heading("rows to be equal", "rows_needed", "{:,}".format, True),
    )
    table = Listing(columns, records, fields=dict.fromkeys(chosen_cells(facts[0]["chosen"])) | FIELDS)
    known = {"study": study, "n": rows, "rows_assumed": assumed, "compared": facts}
    warned = [f"{rows:,} records are assumed: set rows in [study] or give --rows"] if assumed else []
    return Answer("Plans side by side", [Figure(lambda: _picture(facts)), table, *notes], lambda: known, warned)


def chosen_text(chosen: Mapping[str, object]) -> str:
    """One combination of choices in words."""
    return ", ".join(f"{name} {_value(value)}" for name, value in chosen.items())


def chosen_columns(chosen: Mapping[str, object]) -> list[Heading]:
    """What distinguishes the lines."""
    return [Heading(name, f"with {name}", _value, isinstance(value, (int, float))) for name, value in chosen.items()]


def chosen_cells(chosen: Mapping[str, object]) -> dict[str, Any]:
    """The same in a record."""
    return {f"with {name}": value for name, value in chosen.items()}


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _picture(facts: Sequence[Mapping[str, Any]]) -> Markup:
    """Share that noise leaves: a curve against epsilon, or a bar for each plan."""
    from colonnade.report.charts import Bar, bars, curve

    planned = [row for row in facts if row.get("explained") is not None]
    if len(planned) > 1 and list(planned[0]["chosen"]) == ["epsilon"]:
        points = sorted((float(row["chosen"]["epsilon"]), row["explained"]) for row in planned)
        told = "; ".join(f"epsilon {e:g}: {share_text(s)}" for e, s in points)
        return curve(points, points[0][0] / 1e6, TITLE, told)
    shares = [(chosen_text(row["chosen"]), row["explained"]) for row in planned]
    items = [Bar(name, share, share_text(share), f"{name}: {share_text(share)}") for name, share in shares]
    return bars([("", items)], TITLE, "; ".join(bar.hint for bar in items))
