"""Margins, numbers and contingency tables of a release, and how far its columns depend on each other."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from colonnade.analysis.independence import Dependence, dependence, dependence_tree, every_dependence
from colonnade.analysis.synthesis import distance_text, expected_distance
from colonnade.foundation.names import ColumnRef, holders, plain_cell
from colonnade.foundation.shown import figure
from colonnade.report.results import Answer, Figure, Heading, Listing, Part, Passage, Record, Words
from colonnade.report.text import described, flaws_of

if TYPE_CHECKING:
    from colonnade.analysis.tables import Bracketed, CrossTable, Margin, Number, Tables

SHOWN_PAIRS = 20  # a screen; a file has them all
SHOWN_MAPS, PAGE_MAPS = 6, 3  # a screen, and part of a page; a file has them all
INTERVALS = "Intervals hold the rows' own count in 95 of 100 releases; counts are shrunk to what is most plausible."
MAP = (
    "Blue: more records than if the columns were independent; orange: fewer. Full colour from twice, or none, of the "
    "expected count."
)
TREE = (
    "Dependence tree: every column hangs on the one that it depends on most. A thicker line: more, by the lower end of "
    "the interval; a dashed one could be chance."
)
COUNTS = "All counts with their intervals"
CELL = ("column_a", "level_a", "column_b", "level_b")
ENDS = ("count", "low", "high")
FIELDS = {**dict.fromkeys(CELL, str), **dict.fromkeys(ENDS, float)}
MARGIN = tuple(Heading(head, head, "{:,.0f}".format, True) for head in ENDS)
PAIR = (
    Heading("pair", "columns", " - ".join),
    Heading("nats", "information", "{:.4f}".format, True, Words("not known")),
    *(Heading(end, end, "{:.4f}".format, True) for end in ("low", "high")),
    Heading("p", "p_value", "{:.4f}".format, True),
    Heading("in the tree", "edge"),
)


def crosstables(found: Tables, chosen: Sequence[int], seed: int) -> Answer:
    """One margin, one contingency table, or all margins and numbers with what depends on what."""
    released = found.released
    head = {"study": released.release.plan["study"], "n": released.n, "notes": interval_notes(found, chosen)}
    told = [*head["notes"], *described(released.release.schema)]
    notes, warned = [Passage(note, "soft") for note in told], flaws_of(released.release)
    if len(chosen) == 2:
        cross, both = found.cross(*chosen), dependence(found, chosen[0], chosen[1], seed)
        facts = {**head, "tables": [_cross_facts(cross)], "dependence": [dependence_facts(both)]}
        return Answer("", [_cross(cross), Passage(dependence_line(both)), *notes], lambda: facts, warned)
    if chosen:
        margin = found.margin(chosen[0])
        return Answer("", [_margin(margin), *notes], lambda: {**head, "margins": [_margin_facts(margin)]}, warned)
    every = every_dependence(found, seed)
    parts = [*(_margin(found.margin(i)) for i in released.counted), *_numbers(found)]
    parts += [*_dependence(found, every, SHOWN_MAPS), *notes]
    return Answer("", parts, partial(_facts, found, head, every), warned)


def strongest(found: Tables) -> list[Part]:
    """What depends on what, as the page of a release shows it."""
    return [*_dependence(found, every_dependence(found), PAGE_MAPS), *map(Passage, interval_notes(found))]


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


def _margin(margin: Margin) -> Listing:
    from_margin = zip(margin.levels, *(getattr(margin, end).tolist() for end in ENDS), strict=True)
    records = [dict(zip(("level", *ENDS), line, strict=True)) for line in from_margin]
    return Listing(
        (Heading("level", "level"), *MARGIN),
        records,
        str(margin.of),
        picture=Figure(lambda: _picture("margin_picture")(margin)),
        fold=COUNTS,
    )


def _cross(cross: CrossTable, shown: int | None = None) -> Listing:
    ends = [getattr(cross, end) for end in ENDS]
    records: list[Record] = [
        {"row": row, **{str(b): tuple(float(end[a, b]) for end in ends) for b in range(len(cross.columns))}}
        for a, row in enumerate(cross.rows)
    ]
    first = Heading(f"{cross.names[0]} \\ {cross.names[1]}", "row")
    columns = [Heading(name, str(b), _count, True) for b, name in enumerate(cross.columns)]
    picture = Figure(lambda: _picture("heat_map")(cross), MAP)
    title = f"{cross.names[0]} by {cross.names[1]}"
    fold = "" if shown is None else COUNTS
    return Listing((first, *columns), records, title, shown=shown, fold=fold, dense=True, picture=picture)


def _count(ends: tuple[float, float, float]) -> str:
    return "{:,.0f} ({:,.0f}-{:,.0f})".format(*ends)


def _picture(name: str) -> Callable[..., Any]:
    # Pictures need an extra that text does not.
    from colonnade.report import pictures

    return getattr(pictures, name)  # type: ignore[no-any-return]


def _numbers(tables: Tables) -> Iterator[Part]:
    yield from (Passage(f"Not known: {told}.") for told in tables.not_known())
    if not tables.released.numbers:
        return
    records = []
    for found in map(tables.number, tables.released.numbers):
        mean, std = number_texts(tables, found)
        records.append({"name": found.name, "party": " x ".join(holders(found.of)), "mean": mean, "std": std})
    columns = [Heading("number, released without bins", "name"), Heading("party", "party")]
    columns += [Heading("mean", "mean", number=True), Heading("standard deviation", "std", number=True)]
    yield Listing(columns, records)


def number_texts(tables: Tables, found: Number) -> tuple[str, str]:
    """A number's mean and standard deviation in its own units: a day has a date, and so many days about it."""
    columns = tables.released.release.schema.columns
    if isinstance(found.of, ColumnRef) and (column := columns[found.of]).dated:
        return _bracket(found.mean, column.write), _bracket(found.std, lambda days: f"{figure(days)} days")
    return _bracket(found.mean), _bracket(found.std)


def _bracket(found: Bracketed | None, write: Callable[[float], str] = figure) -> str:
    return "not known" if found is None else f"{write(found.value)} ({write(found.low)} to {write(found.high)})"


def _dependence(tables: Tables, every: Sequence[Dependence], maps: int) -> Iterator[Part]:
    """Pairs of columns and their tree, and the tables of the strongest."""
    tree, ordered = dependence_tree(every), sorted(every, key=lambda d: (-d.low, -d.information))
    edges = {d.names for d in tree}
    title = "Which columns depend on each other, strongest first"
    records = [{**dependence_facts(d), "edge": "yes" if d.names in edges else ""} for d in ordered[:SHOWN_PAIRS]]
    picture = None
    if tree:
        apart = tuple(map(distance_text, expected_distance(tables)))
        told = "Tables of two columns are expected to be {} from the rows' own (total variation), independent ones {}."
        picture = Figure(lambda: _picture("tree_picture")(tree), f"{TREE} {told.format(*apart)}")
    yield Listing(
        PAIR,
        records,
        f"{title}; p corrected for {len(every)} pairs" if len(every) > 1 else title,
        picture=picture,
        fold="The strongest pairs",
    )
    for d in ordered[:maps]:
        i, j = (tables.released.find(name) for name in d.names)
        yield _cross(tables.cross(i, j), 0)


def dependence_line(found: Dependence) -> str:
    """How much two columns tell of each other, and whether that could be chance."""
    p = f"p = {found.p_value:.4f}" if found.p_value > 0.0025 else "p <= 0.0025"
    return f"Mutual information {information_text(found)}; test of independence {p}."


def information_text(found: Dependence) -> str:
    """Mutual information with its interval, or that it is not known."""
    if not found.known:
        return "not known (the noise could hide any dependence)"
    return f"{found.information:.4f} nats ({found.low:.4f} to {found.high:.4f})"


def dependence_facts(found: Dependence) -> dict[str, Any]:
    """Two columns for programs."""
    numbers = {end: getattr(found, end) if found.known else None for end in ("information", "low", "high")}
    return {"columns": list(found.names), **numbers, "p_value": found.p_value, "pairs": found.pairs}


def _margin_facts(margin: Margin) -> dict[str, Any]:
    numbers = {end: getattr(margin, end).tolist() for end in ENDS}
    return {"column": margin.name, "party": " x ".join(holders(margin.of)), "levels": list(margin.levels), **numbers}


def _number_facts(number: Number) -> dict[str, Any]:
    told: dict[str, Any] = {"column": number.name, "party": " x ".join(holders(number.of))}
    for name, found in (("mean", number.mean), ("std", number.std)):
        ends = (None, None, None) if found is None else (found.value, found.low, found.high)
        told |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
    return told


def _cross_facts(cross: CrossTable) -> dict[str, Any]:
    numbers = {end: getattr(cross, end).tolist() for end in ENDS}
    return {"columns": list(cross.names), "rows": list(cross.rows), "levels": list(cross.columns), **numbers}


def _facts(tables: Tables, head: Record, every: Sequence[Dependence]) -> dict[str, Any]:
    """All that an explorer of a release needs."""
    released, untold = tables.released, tables.not_known()
    expected, independent = expected_distance(tables) if released.tables else (None, None)
    return {
        **head,
        **({"not_known": untold} if untold else {}),
        "margins": [_margin_facts(tables.margin(i)) for i in released.counted],
        "numbers": [_number_facts(tables.number(i)) for i in released.numbers],
        "tables": [_cross_facts(tables.cross(i, j)) for i, j in released.tables],
        "dependence": [dependence_facts(d) for d in every],
        "tree": [list(d.names) for d in dependence_tree(every)],
        "expected_tv": expected,
        "independent_tv": independent,
    }


def cells(tables: Tables, chosen: Sequence[int]) -> Listing:
    """One record for each cell: the columns, their levels, the count and its interval."""
    return Listing((), [*_margin_cells(tables, chosen), *_cross_cells(tables, chosen)], fields=FIELDS)


def _margin_cells(tables: Tables, chosen: Sequence[int]) -> Iterator[Record]:
    for i in [] if len(chosen) == 2 else chosen or tables.released.counted:
        m = tables.margin(i)
        for level, *numbers in zip(m.levels, m.count, m.low, m.high, strict=True):
            yield _cell((m.name, level), numbers)


def _cross_cells(tables: Tables, chosen: Sequence[int]) -> Iterator[Record]:
    for i, j in [tuple(chosen)] if len(chosen) == 2 else () if chosen else tables.released.tables:
        cross = tables.cross(i, j)
        for a, row in enumerate(cross.rows):
            for b, column in enumerate(cross.columns):
                numbers = [cross.count[a, b], cross.low[a, b], cross.high[a, b]]
                yield _cell((cross.names[0], row, cross.names[1], column), numbers)


def _cell(names: Sequence[str], numbers: Sequence[float]) -> Record:
    return {**dict(zip(CELL, names, strict=False)), **dict(zip(ENDS, map(float, numbers), strict=True))}


def tables_csv(tables: Tables, chosen: Sequence[int]) -> str:
    """One line for each cell: the columns, their levels, the count and its interval.

    Mean and standard deviation of a number stand as levels of it, empty where they are not known.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for found, digits in ((_margin_cells, ".1f"), (_number_cells, ".6g"), (_cross_cells, ".1f")):
        for cell in found(tables, chosen):
            names = (plain_cell(cell[name]) if name in cell else "" for name in CELL)
            writer.writerow([*names, *(f"{cell[end]:{digits}}" if end in cell else "" for end in ENDS)])
    return out.getvalue()


def _number_cells(tables: Tables, chosen: Sequence[int]) -> Iterator[Record]:
    for number in [] if chosen else [tables.number(i) for i in tables.released.numbers]:
        for level, found in (("(mean)", number.mean), ("(standard deviation)", number.std)):
            names = {"column_a": number.name, "level_a": level}
            yield names if found is None else _cell((number.name, level), (found.value, found.low, found.high))
