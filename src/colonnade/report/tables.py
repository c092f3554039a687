"""Tables, dependence and components of a release as text, JSON and comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.foundation.names import plain_cell
from colonnade.foundation.shown import figure
from colonnade.report.text import titled
from colonnade.report.tidy import tidy_table

if TYPE_CHECKING:
    from colonnade.analysis.components import Components
    from colonnade.analysis.independence import Dependence
    from colonnade.analysis.tables import Bracketed, CrossTable, Margin, Number, Tables

SHOWN_PAIRS = 20
SHOWN_LOADINGS = 6
INTERVALS = "Intervals hold the rows' own count in 95 of 100 releases; counts are shrunk to what is most plausible."


def interval_notes(tables: Tables, chosen: Sequence[int] = ()) -> list[str]:
    """What the intervals are of, and where they tell little what widens them, and what would narrow them."""
    released, out = tables.released, [INTERVALS]
    pairs = [(chosen[0], chosen[1])] if len(chosen) == 2 else [] if chosen else released.tables
    loud = [(i, j) for i, j in pairs if tables.drowns_cells(i, j)]
    if loud:
        which = "noise on a cell" if len(pairs) == 1 else f"in {len(loud)} of {len(pairs)} tables noise on a cell"
        out.append(
            f"{which[0].upper()}{which[1:]} is larger than an average cell, which widens the intervals of counts and "
            "of mutual information: a larger epsilon, fewer columns, or fewer levels and bins would narrow them."
        )
    names = [released.short(i) for i in (() if chosen else released.numbers) if tables.drowns_number(i)]
    if names:
        out.append(
            "Noise on a number is a share of its bounds, and here it is larger than what the numbers differ by: "
            f"narrower bounds would narrow the intervals of {', '.join(names)} in proportion."
        )
    return out


def tables_text(tables: Tables, chosen: Sequence[int], seed: int) -> RenderableType:
    """One margin, one cross table, or an overview."""
    notes = [Text(note, style="dim") for note in interval_notes(tables, chosen)]
    if len(chosen) == 2:
        from colonnade.analysis.independence import dependence

        cross, told = tables.cross(*chosen), dependence(tables, chosen[0], chosen[1], seed)
        return Group(_cross_text(cross), dependence_line(told), *notes)
    columns = list(chosen) or list(tables.released.counted)
    parts: list[RenderableType] = [_margin_text(tables.margin(i)) for i in columns]
    if not chosen:
        parts += [Text(f"Not known: {told}.") for told in tables.not_known()]
        parts += [_numbers_text(tables), _pairs_text(tables, seed)]
    return Group(*parts, *notes)


def _margin_text(margin: Margin) -> RenderableType:
    table = tidy_table("level", "count", "low", "high", right=(1, 2, 3))
    for level, *numbers in zip(margin.levels, margin.count, margin.low, margin.high, strict=True):
        table.add_row(Text(level), *(f"{v:,.0f}" for v in numbers))
    return titled(f"{margin.owner}.{margin.name}", table, "")


def _numbers_text(tables: Tables) -> RenderableType:
    if not tables.released.numbers:
        return ""
    table = tidy_table("number, released without bins", "mean", "standard deviation", right=(1, 2))
    for i in tables.released.numbers:
        found = tables.number(i)
        table.add_row(Text(found.name), *number_texts(tables, found))
    return Group(table, "")


def number_texts(tables: Tables, found: Number) -> tuple[str, str]:
    """A number's mean and standard deviation in its own units: a day has a date, and so many days about it."""
    column = tables.released.release.schema.parties.get(found.owner, {}).get(found.name)
    if column is not None and column.dated:
        return bracket_text(found.mean, column.write), bracket_text(found.std, lambda days: f"{figure(days)} days")
    return bracket_text(found.mean), bracket_text(found.std)


def bracket_text(found: Bracketed | None, write: Callable[[float], str] = figure) -> str:
    """A number with its interval, or that it is not known."""
    return "not known" if found is None else f"{write(found.value)} ({write(found.low)} to {write(found.high)})"


def _cross_text(cross: CrossTable) -> RenderableType:
    table = tidy_table(f"{cross.names[0]} \\ {cross.names[1]}", *cross.columns, right=range(1, len(cross.columns) + 1))
    for level, *cells in cross_cells(cross):
        table.add_row(Text(level), *cells)
    return titled(f"{cross.names[0]} by {cross.names[1]}", table, "")


def cross_cells(cross: CrossTable) -> list[list[str]]:
    """A cross table's lines: the level, then each count with its interval."""
    out = []
    for k, level in enumerate(cross.rows):
        cells = zip(cross.count[k], cross.low[k], cross.high[k], strict=True)
        out.append([level, *(f"{c:,.0f} ({a:,.0f}-{b:,.0f})" for c, a, b in cells)])
    return out


def dependence_line(found: Dependence) -> Text:
    """How much two columns tell of each other, and whether that could be chance."""
    p = f"p = {found.p_value:.4f}" if found.p_value > 0.0025 else "p <= 0.0025"
    return Text(f"Mutual information {information_text(found)}; test of independence {p}.")


def information_text(found: Dependence) -> str:
    """Mutual information with its interval, or that it is not known."""
    if not found.known:
        return "not known (the noise could hide any dependence)"
    return f"{found.information:.4f} nats ({found.low:.4f} to {found.high:.4f})"


def _pairs_text(tables: Tables, seed: int) -> RenderableType:
    from colonnade.analysis.independence import dependence_tree, every_dependence

    found = every_dependence(tables, seed)
    tree = {d.names for d in dependence_tree(found)}
    table = tidy_table("pair", "nats", "low", "high", "p", "in the tree", right=(1, 2, 3, 4))
    for d in sorted(found, key=lambda d: -d.information)[:SHOWN_PAIRS]:
        edge = "yes" if d.names in tree else ""
        numbers = [f"{v:.4f}" for v in (d.information, d.low, d.high)] if d.known else ["not known", "", ""]
        table.add_row(Text(" - ".join(d.names)), *numbers, f"{d.p_value:.4f}", edge)
    title = "Which columns depend on each other, strongest first"
    return titled(f"{title}; p corrected for {len(found)} pairs" if len(found) > 1 else title, table, "")


def dependence_json(found: Dependence) -> dict[str, Any]:
    return {
        "columns": list(found.names),
        "information": found.information if found.known else None,
        "low": found.low if found.known else None,
        "high": found.high if found.known else None,
        "p_value": found.p_value,
        "pairs": found.pairs,
    }


def _margin_json(margin: Margin) -> dict[str, Any]:
    numbers = {"count": margin.count.tolist(), "low": margin.low.tolist(), "high": margin.high.tolist()}
    return {"column": margin.name, "party": margin.owner, "levels": list(margin.levels), **numbers}


def _number_json(number: Number) -> dict[str, Any]:
    told: dict[str, Any] = {"column": number.name, "party": number.owner}
    for name, found in (("mean", number.mean), ("std", number.std)):
        ends = (None, None, None) if found is None else (found.value, found.low, found.high)
        told |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
    return told


def _cross_json(cross: CrossTable) -> dict[str, Any]:
    numbers = {"count": cross.count.tolist(), "low": cross.low.tolist(), "high": cross.high.tolist()}
    return {"columns": list(cross.names), "rows": list(cross.rows), "levels": list(cross.columns), **numbers}


def tables_json(tables: Tables, chosen: Sequence[int], seed: int) -> dict[str, Any]:
    """All that an explorer of a release needs: margins, numbers, cross tables, dependence, the tree."""
    from colonnade.analysis.independence import dependence, dependence_tree, every_dependence
    from colonnade.analysis.synthesis import expected_distance

    released = tables.released
    head = {"study": released.release.plan["study"], "n": released.n, "notes": interval_notes(tables, chosen)}
    if len(chosen) == 1:
        return {**head, "margins": [_margin_json(tables.margin(chosen[0]))]}
    if len(chosen) == 2:
        found = dependence_json(dependence(tables, chosen[0], chosen[1], seed))
        return {**head, "tables": [_cross_json(tables.cross(*chosen))], "dependence": [found]}
    every = every_dependence(tables, seed)
    expected, independent = expected_distance(tables) if released.tables else (None, None)
    numbers, untold = [tables.number(i) for i in released.numbers], tables.not_known()
    return {
        **head,
        **({"not_known": untold} if untold else {}),
        "margins": [_margin_json(tables.margin(i)) for i in released.counted],
        "numbers": [_number_json(x) for x in numbers],
        "tables": [_cross_json(tables.cross(i, j)) for i, j in released.tables],
        "dependence": [dependence_json(d) for d in every],
        "tree": [list(d.names) for d in dependence_tree(every)],
        "expected_tv": expected,
        "independent_tv": independent,
    }


def tables_csv(tables: Tables, chosen: Sequence[int]) -> str:
    """One line for each cell: the columns, their levels, the count and its interval.

    Mean and standard deviation of a number stand as levels of it, empty where they are not known.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["column_a", "level_a", "column_b", "level_b", "count", "low", "high"])
    released = tables.released
    for i in [] if len(chosen) == 2 else chosen or released.counted:
        margin = tables.margin(i)
        for level, *numbers in zip(margin.levels, margin.count, margin.low, margin.high, strict=True):
            named = (plain_cell(margin.name), plain_cell(level), "", "")
            writer.writerow([*named, *(f"{v:.1f}" for v in numbers)])
    for number in [] if chosen else [tables.number(i) for i in released.numbers]:
        for level, found in (("(mean)", number.mean), ("(standard deviation)", number.std)):
            ends = [""] * 3 if found is None else [f"{v:.6g}" for v in (found.value, found.low, found.high)]
            writer.writerow([plain_cell(number.name), level, "", "", *ends])
    for i, j in [tuple(chosen)] if len(chosen) == 2 else () if chosen else released.tables:
        cross = tables.cross(i, j)
        for a, row in enumerate(cross.rows):
            for b, column in enumerate(cross.columns):
                numbers = [cross.count[a, b], cross.low[a, b], cross.high[a, b]]
                cells = [plain_cell(text) for text in (cross.names[0], row, cross.names[1], column)]
                writer.writerow([*cells, *(f"{v:.1f}" for v in numbers)])
    return out.getvalue()


def components_text(found: Components, shown: int) -> RenderableType:
    """The first components by their largest loadings."""
    table = tidy_table("component", "share", "of all", "largest loadings", right=(1, 2))
    total = 0.0
    for k in range(min(shown, len(found.share))):
        total += float(found.share[k])
        order = sorted(range(len(found.names)), key=lambda c: -abs(found.loadings[k, c]))[:SHOWN_LOADINGS]
        told = ", ".join(f"{found.names[c]} {found.loadings[k, c]:+.2f}" for c in order)
        table.add_row(str(k + 1), f"{found.share[k]:.3f}", f"{total:.3f}", Text(told))
    title = "Principal components of the coded columns (levels 0 or 1, numbers from -1 to 1)"
    return Group(titled(title, table, ""), *(Text(note, style="dim") for note in found.notes()))


def components_json(found: Components, shown: int) -> dict[str, Any]:
    count = min(shown, len(found.share))
    return {
        "columns": list(found.names),
        "share": found.share[:count].tolist(),
        "loadings": found.loadings[:count].tolist(),
        "correlations": found.correlations.tolist(),
        "low": found.low.tolist(),
        "high": found.high.tolist(),
        "clear": found.clear,
        "notes": found.notes(),
    }
