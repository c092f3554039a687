"""A model's summary: every coefficient in the data's units and as encoded, odds ratios, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.analysis.intervals import Intervals
from colonnade.foundation.shown import figure
from colonnade.report.certainty import DROWNED, heading_of, sentences
from colonnade.report.text import quality_text, tidy_table, titled, what_of

if TYPE_CHECKING:
    from colonnade.analysis.units import Units
    from colonnade.model import PublicModel

NO_FILE = "a model file holds no intervals: solve its release again"
UNITS = "A coefficient is for one unit of a column's own numbers; as coded, a number counts from -1 to 1 in its range."
CODED = "A number counts from -1 to 1 over its range, and products of columns are products of what they count."
SHOWN = 40
"""Coefficients that a screen shows."""


@dataclass(frozen=True)
class Line:
    """One coefficient."""

    feature: str
    party: str
    coefficient: float | None
    """In the data's units; None in a model with products of columns, whose units are not those of one of them."""
    encoded: float
    odds_ratio: float | None
    against: str
    """The base of a level, or the range of a number."""


@dataclass(frozen=True)
class Certainty:
    """One interval in the data's units."""

    feature: str
    against: str
    estimate: float | None
    """None where noise drowns the coefficient, and so the rest."""
    low: float | None
    high: float | None
    odds_ratio: tuple[float, float, float] | None
    factor: float | None


def exponential(value: float) -> float:
    """Where the odds grow beyond all numbers they are infinite."""
    return math.exp(value) if value < 700.0 else math.inf


def lines(public: PublicModel, units: Units) -> list[Line]:
    """Every coefficient, largest first as encoded."""
    model, products = public.model, products_of(public)
    own, _ = units.convert(model.features, model.coefficients, model.intercept)
    if public.is_declared:
        each = zip(model.features, model.coefficients, strict=True)
        return [Line(name, "", value, value, None, "parameter") for name, value in each]
    out = []
    for feature, encoded in zip(model.features, model.coefficients, strict=True):
        places = [public.owner(factor) for factor in products.get(feature, (feature,))]
        column = public.schema.parties[places[0][0]][places[0][1]]
        against = column.base(places[0][1]) if column.has_levels else column.describe(SHOWN)
        value = None if products else own[feature]
        ratio = exponential(value) if value is not None and model.task == "logistic" else None
        party = " x ".join(dict.fromkeys(owner for owner, _ in places))
        out.append(Line(feature, party, value, encoded, ratio, "" if feature in products else against))
    return sorted(out, key=lambda line: -abs(line.encoded))


def units_note(public: PublicModel) -> str:
    """What a coefficient is for."""
    return CODED if products_of(public) else UNITS


def products_of(public: PublicModel) -> dict[str, tuple[str, ...]]:
    """The features of a model that are products of columns, with what is multiplied."""
    return dict(public.interactions)


def certainties(found: Intervals, units: Units, logistic: bool) -> Iterator[Certainty]:
    """Every interval in the data's units."""
    for one in units.intervals(found).coefficients:
        if not one.given:
            yield Certainty(one.feature, one.against, None, None, None, None, None)
            continue
        ratio = (exponential(one.estimate), exponential(one.low), exponential(one.high)) if logistic else None
        yield Certainty(one.feature, one.against, one.estimate, one.low, one.high, ratio, one.factor)


def summary_heads(public: PublicModel) -> list[str]:
    """The heads of a summary's columns."""
    ratio = ["odds ratio"] if public.model.task == "logistic" and not products_of(public) else []
    own = [] if products_of(public) else ["coefficient"]
    return ["feature", "party", *own, "as coded", *ratio, "against, or range"]


def summary_cells(public: PublicModel, line: Line) -> list[str]:
    """A coefficient's cells, in the order of the heads."""
    ratio = [] if line.odds_ratio is None else [f"{line.odds_ratio:.6g}"]
    own = [] if line.coefficient is None else [figure(line.coefficient, sign="+")]
    return [line.feature, line.party, *own, f"{line.encoded:+z.4f}", *ratio, line.against]


def certainty_heads(logistic: bool) -> list[str]:
    """The heads of a table of intervals."""
    return ["feature", "against", "estimate", "interval", *(["odds ratio"] if logistic else []), "wider"]


def certainty_cells(one: Certainty, logistic: bool) -> list[str]:
    """An interval's cells, in the order of the heads."""
    if one.estimate is None or one.low is None or one.high is None:
        return [one.feature, one.against, "", DROWNED, *([""] if logistic else []), ""]
    ratio = [] if one.odds_ratio is None else ["{:.3g} ({:.3g} to {:.3g})".format(*one.odds_ratio)]
    estimate, low, high = (figure(value, 3, "+") for value in (one.estimate, one.low, one.high))
    return [one.feature, one.against, estimate, f"{low} to {high}", *ratio, f"×{one.factor:.1f}"]


def interval_notes(found: Intervals | None, reason: str = NO_FILE) -> list[str]:
    """What a reader has to know of the intervals, or why there are none."""
    return [f"There are no intervals: {reason}."] if found is None else sentences(found)


def summary_text(public: PublicModel, units: Units, found: Intervals | None, reason: str = NO_FILE) -> RenderableType:
    """All of it for a terminal."""
    model = public.model
    heads, every = summary_heads(public), lines(public, units)
    table = tidy_table(*heads, right=range(2, len(heads) - 1))
    for line in every[:SHOWN]:
        cells = summary_cells(public, line)
        table.add_row(*(Text(cell) for cell in cells))
    if len(every) > SHOWN:
        table.add_row(Text(f"and {len(every) - SHOWN} smaller ones", style="dim"))
    table.add_section()
    _, constant = units.convert(model.features, model.coefficients, model.intercept)
    own = [] if products_of(public) else [figure(constant, sign="+")]
    table.add_row(Text("intercept"), "", *own, f"{model.intercept:+z.4f}")
    parts: list[RenderableType] = [table, Text(units_note(public), style="dim"), quality_text(model), ""]
    if found is not None and found.coefficients:
        parts += [_certainty_table(found, units, model.task == "logistic")]
    notes = [Text(sentence, style="dim") for sentence in interval_notes(found, reason)]
    return titled(what_of(public), *parts, *notes)


def _certainty_table(found: Intervals, units: Units, logistic: bool) -> RenderableType:
    heads = certainty_heads(logistic)
    table = tidy_table(*heads, right=range(2, len(heads)))
    for one in certainties(found, units, logistic):
        table.add_row(*(Text(cell, style="dim" if cell == DROWNED else "") for cell in certainty_cells(one, logistic)))
    return Group(Text(heading_of(found), style="bold"), table)


def class_table(public: PublicModel, classes: Sequence[str], rows: Sequence[Sequence[float]]) -> RenderableType:
    """Coefficients of several classes, a column for each."""
    model = public.model
    table = tidy_table("feature", *classes, right=range(1, 1 + len(classes)))
    order = sorted(range(len(model.features)), key=lambda k: -abs(model.coefficients[k]))
    for k in order[:SHOWN]:
        table.add_row(Text(model.features[k]), *(figure(row[k], 3, "+") for row in rows))
    if len(order) > SHOWN:
        table.add_row(Text(f"and {len(order) - SHOWN} smaller ones", style="dim"))
    return table
