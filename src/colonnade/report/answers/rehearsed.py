"""How good a model will be: rehearsed on public rows, or a range from the schema alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from colonnade.report.answers.compared import chosen_cells, chosen_columns, chosen_text
from colonnade.report.results import Answer, Figure, Heading, Listing, Passage

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.rehearsal import Expectation, Range

MEASURES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²", "rmse": "RMSE"}
SHOWS = "Nine of ten releases lie on the line, the mean at the dot; the diamond is the trivial answer."
NOTE = (
    "Trivial: the larger class, the mean, no order. No noise: the same columns and solver. The rows count as "
    "being like those of the study; nothing was spent."
)
UNITS = " RMSE is in units of the label scaled to [-1, 1]."
COLUMNS = (
    Heading("measure", "measure", MEASURES.__getitem__),
    Heading("expected", ("mean", "std"), "{:.3f} ± {:.3f}".format, True),
    Heading("9 of 10 releases", ("low", "high"), "{:.3f} to {:.3f}".format, True),
    Heading("trivial", "trivial", "{:.3f}".format, True),
    Heading("no noise", "without_noise", "{:.3f}".format, True),
)
FIELDS = {"measure": str, **dict.fromkeys(("mean", "std", "low", "high", "trivial", "without_noise"), float)}


def rehearsed(found: Sequence[tuple[Mapping[str, object], Expectation]], study: str) -> Answer:
    """Expected measures with their spread, for the study or for each of its variants."""
    chosen, one = found[0]
    records = [
        {**chosen_cells(own), "measure": name, **quality.to()}
        for own, expected in found
        for name, quality in expected.measures.items()
    ]
    table = Listing([*chosen_columns(chosen), *COLUMNS], records, fields=dict.fromkeys(chosen_cells(chosen)) | FIELDS)
    title = f"Rehearsed for {one.n:,} records on {one.rows:,} public rows, {one.releases} releases each"
    note = Passage(NOTE + UNITS if "rmse" in one.measures else NOTE, "soft")
    known = {"study": study, "rehearsed": [{"chosen": dict(own), **expected.to()} for own, expected in found]}
    warned = list(dict.fromkeys(note for _, expected in found for note in expected.notes))
    return Answer(title, [Figure(lambda: _picture(found), SHOWS), table, note], lambda: known, warned)


def _picture(found: Sequence[tuple[Mapping[str, object], Expectation]]) -> Markup:
    from colonnade.report.charts import IntervalBar, whiskers

    measure = next(iter(found[0][1].measures))
    items = []
    for chosen, expected in found:
        quality, name = expected.measures[measure], chosen_text(chosen) or "as it is"
        hint = f"{name}: {MEASURES[measure]} {quality.mean:.3f}, {quality.low:.3f} to {quality.high:.3f}"
        items.append(IntervalBar(name, quality.low, quality.high, quality.mean, quality.trivial, hint))
    return whiskers(items, f"Expected {MEASURES[measure]}", "; ".join(w.hint for w in items))


def expected_range(found: Range, study: str) -> Answer:
    """What the schema alone lets one expect, by strength of signal."""
    records = [
        {"measure": name, **by, "whole range": found.whole(name), "trivial": found.trivial[name]}
        for name, by in found.measures.items()
    ]
    columns = [Heading(key, key, _between, True) for key in records[0] if key != "measure"]
    shares = f", {', '.join(f'{s:.0%}' for s in found.shares)} positive records" if found.shares else ""
    parts = ", ".join(f"{part:.0%} ({name})" for name, part in found.strengths.items())
    note = (
        "Rows invented from the schema: features independent, numbers fill all of their bounds or the lowest tenth, "
        f"every column matters or one alone{shares}; features decide {parts} of what the label depends on. A range, no "
        "forecast: name public rows with --public for one."
    )
    table = Listing([COLUMNS[0], *columns], records)
    title = f"From the schema alone, for {found.n:,} records"
    return Answer(title, [table, Passage(note, "soft")], lambda: {"study": study, **found.to()})


def _between(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.3f}" for end in ends)
    return low if low == high else f"{low} to {high}"
