"""A model: its coefficients in the data's units and as coded, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from colonnade.analysis.units import Units, label_units
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.shown import figure, ratio_text
from colonnade.report.results import Answer, Figure, Heading, Listing, Part, Passage, Record, Words
from colonnade.report.text import described, listed

if TYPE_CHECKING:
    import polars as pl
    from markupsafe import Markup

    from colonnade.analysis.intervals import Interval, Intervals
    from colonnade.analysis.model import FittedModel
    from colonnade.model import PublicModel

DROWNED = Words("not estimable", "soft")
NO_FILE = "a model file holds no intervals: solve its release again"
UNITS = "A coefficient is for one unit of a column's own numbers; as coded, a number counts from -1 to 1 in its range."
CODED = "A number counts from -1 to 1 over its range, and products of columns are products of what they count."
DECLARED = "In the objective a number counts from -1 to 1 over its range, a level 1."
CLASSES = "Coefficients of each level's log-odds, in the data's units; they sum to 0 over the levels."
HOLLOW = "Hollow: noise could explain the sign."
ANOTHER = (
    "These coefficients are shrunk, those with intervals are not, and what they estimate differs: read the intervals, "
    "predict with these."
)
MOST_NAMED = 8
"""Of the columns that a reduced model leaves out; `--json` names all."""
SHOWN, SHOWN_SUMMARY, SHOWN_BARS, SHOWN_LEVELS = 16, 40, 24, 16
"""Coefficients on a terminal, in a summary and in a picture, and levels of a column in words."""
NUMBERS = ("estimate", "low", "high")
OTHERS = ("feature", "party", "base", "encoded", "odds_ratio")
"""Columns of the table of coefficients beside those of classes."""
INTERVALS = {"feature": str, "base": str, **dict.fromkeys(NUMBERS, float), "reliable": bool}


CODE = Units(1.0, 0.0, {})
"""The units in which a number counts from -1 to 1."""


def units_of(public: PublicModel) -> Units:
    """The units of a model's columns and label; those of the code where it has products of columns."""
    if public.interactions or public.is_declared:
        return CODE
    _, column, level = public.label
    declared = public.schema.find(public.declared) == public.about.of
    own = None if column.bounds is not None and level is None else level
    half, middle = label_units(public.model, column, own, declared)
    return Units.of(
        public.schema,
        [ColumnRef(party, name) for party, columns in public.needs().items() for name in columns],
        half,
        middle,
    )


def params(public: PublicModel, units: Units | None = None, sure: Sequence[str] = ()) -> Listing:
    """Every coefficient, largest first as encoded; of several classes a column for each of them.

    `sure` are those whose sign is reliable, the surest first: they come first in the picture, the others are hollow.
    """
    model, own_units = public.model, units or units_of(public)
    rows = {"estimate": (model.coefficients, model.intercept)}
    if model.classes:
        keys = class_keys(model.classes)
        rows = dict(zip(keys, zip(model.weights, model.constants, strict=True), strict=True))
    several, odds = bool(model.classes), model.is_log_odds and not public.interactions
    # The units of a product of columns are those of none of them.
    coded = units is None and not several and (public.is_declared or bool(public.interactions))
    found = {name: own_units.convert(model.features, row, constant) for name, (row, constant) in rows.items()}
    records: list[dict[str, Any]] = []
    for feature, encoded in zip(model.features, model.coefficients, strict=True):
        own = {} if coded else {name: values[feature] for name, (values, _) in found.items()}
        ratio = {"odds_ratio": exponential(own["estimate"])} if odds else {}
        party, base = " x ".join(public.owners(feature)), base_of(public, feature)
        records.append({"feature": feature, "party": party, **own, "encoded": encoded, **ratio, "base": base})
    records.sort(key=lambda record: -abs(record["encoded"]))
    last = {"feature": "intercept", "encoded": model.intercept}
    last |= {} if coded else {name: constant for name, (_, constant) in found.items()}
    columns = [Heading("feature", "feature"), Heading("party", "party")]
    heads = dict(zip(found, model.classes or ("coefficient",), strict=True))
    columns += [] if coded else [Heading(heads[name], name, _signed, True) for name in found]
    columns += [] if several else [Heading("as coded", "encoded", "{:+z.4f}".format, True)]
    columns += [Heading("odds ratio", "odds_ratio", ratio_text, True)] if odds else []
    columns.append(Heading("against, or range", "base"))
    fields = {**dict.fromkeys(("feature", "party", "base"), str), **dict.fromkeys(found, float)}
    shown = [record["feature"] for record in records] if several else sure
    caption = f"As coded, pulled towards zero where the noise is large. {HOLLOW}"
    caption = "How far apart a column's coefficients are over the classes, as coded." if several else caption
    picture = Figure(lambda: _bars(records, shown), caption)
    told = None if public.is_declared else last
    return Listing(columns, records, fields=fields, last=told, shown=SHOWN, picture=picture if records else None)


def class_keys(classes: Sequence[str]) -> list[str]:
    """What a class is called beside the other columns of the table: a level may be called "base", too."""
    taken, out = {*OTHERS, *classes}, []
    for name in classes:
        key = name
        if name in OTHERS:
            while key in taken:
                key = f"class {key}"
        taken.add(key)
        out.append(key)
    return out


def conf_int(public: PublicModel, found: Intervals, units: Units | None = None) -> Listing:
    """Every interval in the data's units; what is not estimable has no numbers."""
    logistic, records = public.model.is_log_odds, []
    for one in (units or units_of(public)).intervals(found).coefficients:
        known: dict[str, Any] = {"feature": one.feature, "base": one.against, "reliable": one.given}
        if one.given:
            ends = {name: getattr(one, name) for name in NUMBERS}
            ratio = {f"odds_{name}": exponential(end) for name, end in ends.items()} if logistic else {}
            known |= {**ends, **ratio, "factor": one.factor}
        records.append(known)
    columns = [Heading("feature", "feature"), Heading("against", "base")]
    columns.append(Heading("estimate", "estimate", _three, True))
    between = Heading("interval", ("low", "high"), lambda low, high: f"{_three(low)} to {_three(high)}", True, DROWNED)
    columns.append(between)
    if logistic:
        odds = tuple(f"odds_{name}" for name in NUMBERS)
        columns.append(Heading("odds ratio", odds, _ratios, True))
    columns.append(Heading("wider", "factor", "×{:.1f}".format, True))
    picture = Figure(lambda: _whiskers(found), f"As coded, the surest first: estimate and interval. {HOLLOW}")
    title = f"{found.level:.0%} intervals of the {'full' if found.full else 'reduced'} model"
    return Listing(columns, records, title, fields=INTERVALS, picture=picture if found.given else None)


def fitted(public: PublicModel, found: Intervals | None, reason: str = NO_FILE, shown: int = SHOWN) -> Answer:
    """The whole model; without intervals the reason, or nothing of them where it is empty."""
    facts = {**model_facts(public), **({} if found is None else interval_facts(public, found))}
    several = public.model.classes
    note = DECLARED if public.is_declared else CODED if public.interactions else CLASSES if several else UNITS
    sure = [] if found is None else [one.feature for one in sorted(found.signed, key=surety)]
    parts: list[Part] = []
    # What can be read stands before what only predicts.
    if found is not None and found.coefficients:
        place = {one.feature: surety(one) for one in found.given}
        table = conf_int(public, found)
        parts.append(replace(table, records=sorted(table.records, key=lambda row: place.get(row["feature"], 0.0))))
    told = sentences(found) if found is not None else [f"There are no intervals: {reason}."] if reason else []
    parts += [Passage(sentence, "soft") for sentence in told]
    parts += [
        replace(params(public, sure=sure), shown=shown, title="The model that predicts" if parts else ""),
        *([Passage(ANOTHER, "soft")] if found is not None and found.given else []),
        Passage(note, "soft"),
        Passage(quality_text(public.model), "soft"),
        *(Passage(sentence, "soft") for sentence in described(public.schema)),
    ]
    return Answer(what_of(public), parts, lambda: facts, public.warnings)


def path_of(models: Sequence[PublicModel], penalty: str, known: Record) -> Answer:
    """How coefficients shrink: one column for each ridge, the largest in the middle of the path first."""
    path = [public.model for public in models]
    middle = path[len(path) // 2]
    order = sorted(range(len(middle.features)), key=lambda i: -abs(middle.coefficients[i]))
    records = [{"name": middle.features[i], **{str(k): m.coefficients[i] for k, m in enumerate(path)}} for i in order]
    freedom = {"name": "effective parameters", **{str(k): Words(f"{m.freedom:.3g}") for k, m in enumerate(path)}}
    columns = [Heading(f"{m.ridge:.1g}", str(k), "{:+z.2g}".format, True) for k, m in enumerate(path)]
    table = Listing([Heading("ridge", "name"), *columns], records, last=freedom, shown=SHOWN)
    own = (f"strength {public.model.ridge:g}: {note}" for public in models for note in public.warnings)
    title = f"{penalty.capitalize()} path of {middle.label}, {penalty} per record"
    return Answer(title, [table], lambda: {**known, "path": [model_facts(m) for m in models]}, [*known["notes"], *own])


def _signed(value: float) -> str:
    return figure(value, sign="+")


def _three(value: float) -> str:
    return figure(value, 3, "+")


def surety(one: Interval) -> float:
    """The surest first."""
    return -abs(one.estimate) / one.std


def _ratios(middle: float, low: float, high: float) -> str:
    return f"{ratio_text(middle)} ({ratio_text(low)} to {ratio_text(high)})"


def exponential(value: float) -> float:
    """Where the odds grow beyond all numbers they are infinite."""
    return math.exp(value) if value < 700.0 else math.inf


def _bars(records: Sequence[Record], sure: Sequence[str]) -> Markup:
    from colonnade.report.charts import Bar, signed_bars

    place = {name: k for k, name in enumerate(sure)}
    first = sorted(records, key=lambda record: place.get(record["feature"], len(place)))[:SHOWN_BARS]
    told = [(record["feature"], record["encoded"]) for record in first]
    items = [
        Bar(name, value, f"{value:+z.3f}", f"{name} {value:+z.4f}", hollow=name not in place) for name, value in told
    ]
    return signed_bars(items, "Coefficients, as coded", "; ".join(b.hint for b in items))


def _whiskers(found: Intervals) -> Markup:
    from colonnade.report.charts import IntervalBar, whiskers

    items = []
    for i in sorted(found.given, key=surety)[:SHOWN_BARS]:
        against = f" against {i.against}" if i.against else ""
        hint = f"{i.feature}{against}: {i.low:.3g} to {i.high:.3g}"
        items.append(IntervalBar(i.feature, i.low, i.high, i.estimate, None, hint))
    return whiskers(items, "Intervals, as coded", "; ".join(w.hint for w in items))


def what_of(public: PublicModel) -> str:
    """What a model predicts, in one line."""
    from colonnade.analysis.families import FAMILIES

    model = public.model
    name, column, level = ("", None, None) if public.is_declared else public.label
    if column is None:
        return "Parameters at the least value of the declared objective"
    if not model.is_number:
        return f"Model: {FAMILIES[model.task].told} of {name}" + (f" = {level}" if model.is_log_odds else "")
    if level is None and column.bounds is not None:
        low, high = (column.write(bound) for bound in column.bounds)
        return f"Model: {name}, from {low} to {high}"
    return f"Model: share of {name} = {level}"


def base_of(public: PublicModel, feature: str) -> str:
    """What a level counts against, or the range of a number."""
    if feature in public.interactions:
        return f"product of {', '.join(public.interactions[feature])}"
    if public.is_declared:
        return "parameter"
    ((ref, _),) = public.factors[feature]
    column = public.schema.columns[ref]
    return column.base(ref.column) if column.has_levels else column.facts(SHOWN_LEVELS)


def quality_text(model: FittedModel) -> str:
    """How a model was made, and its R² where that is known."""
    parts = [f"method {model.method}", f"{model.freedom:.3g} effective parameters"]
    if model.ridge == model.ridge and model.ridge not in (float("inf"), 0.0):
        own = model.method != "default" or (model.outcome is not None and "ridge" in model.outcome.asked)
        told = "ridge {:.3g} per record" if own else "shrunk about as by a ridge of {:.3g} per record"
        parts.append(told.format(model.ridge))
    if model.r_squared_interval is not None:
        low, high = model.r_squared_interval
        parts.append(f"R² on the records {model.r_squared:.3f}, 95% interval {low:.3f} to {high:.3f}")
    elif model.is_number:
        parts.append("R² cannot be known from this release")
    return "; ".join(parts)


def summary_frame(public: PublicModel) -> pl.DataFrame:
    """Every coefficient in both units, with its odds ratio."""
    odds = {"odds_ratio": float} if public.model.is_log_odds else {}
    kinds = {"feature": str, "party": str, "estimate": float, "encoded": float, **odds, "base": str}
    return replace(params(public), fields=kinds).frame.rename({"estimate": "coefficient", "base": "against"})


def interval_frame(public: PublicModel, found: Intervals) -> pl.DataFrame:
    """Every interval with its odds ratio."""
    odds = {f"odds_{end}": f"odds_ratio{'' if end == 'estimate' else f'_{end}'}" for end in NUMBERS}
    odds = odds if public.model.is_log_odds else {}
    kinds = {"feature": str, "base": str, **dict.fromkeys((*NUMBERS, *odds), float)}
    return replace(conf_int(public, found), fields=kinds).frame.rename({"base": "against", **odds})


def sentences(found: Intervals) -> list[str]:
    """What a reader has to know of the intervals, or why there are none."""
    if not found.coefficients:
        return [f"There are no intervals: {found.reason}."]
    out = []
    if not found.full:
        out.append(f"The full model has no intervals: {found.reason}.")
        left = f", and {_listed(found.left_out)} left out" if found.left_out else ""
        out.append(
            "The columns of the reduced model were chosen by the noisy products of the features, not by how large a "
            f"coefficient is: levels are merged into “all other levels”{left} where noise hides what they would add. "
            "Its coefficients are adjusted for its own columns only. solve --features asks for other columns, at no "
            "cost."
        )
    elif found.reason:
        out.append(f"{found.reason[0].upper()}{found.reason[1:]}.")
    out.append(
        f"Each is the {found.quantity}, not shrunk. Its interval counts the sampling of the records and the noise; the "
        "last number says how many times as wide as sampling alone makes it."
    )
    if found.caution:
        out.append(f"They are wider than they need be: {found.caution}.")
    return out


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > MOST_NAMED + 1:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more are"
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def interval_facts(public: PublicModel, found: Intervals) -> dict[str, Any]:
    """The intervals for programs: as coded, and under `conf_int` in the data's units."""
    table = conf_int(public, found)
    told = {
        "level": found.level,
        "quantity": found.quantity,
        "full_model": found.full,
        "reason": found.reason or None,
        "caution": found.caution or None,
        "left_out": list(found.left_out),
        "coefficients": [_coded(interval) for interval in found.coefficients],
    }
    return {"intervals": told, "conf_int": [{key: r.get(key) for key in INTERVALS} for r in table.records]}


def _coded(one: Interval) -> dict[str, Any]:
    numbers = {"estimate": one.estimate, "std": one.std, "low": one.low, "high": one.high, "times_sampling": one.factor}
    names = {"feature": one.feature, "column": one.column, "levels": list(one.levels), "base": list(one.base)}
    return {**names, "drowned": not one.given, **(numbers if one.given else dict.fromkeys(numbers))}


def model_facts(public: PublicModel) -> dict[str, Any]:
    """A model with its coefficients by feature: as coded, and under `params` in the data's units."""
    model = public.model
    several: dict[str, Any] = {}
    if model.classes:
        rows = zip(model.classes, model.weights, model.constants, strict=True)
        several["classes"] = {
            name: {"coefficients": dict(zip(model.features, row, strict=True)), "intercept": b} for name, row, b in rows
        }
    table = params(public)
    return {
        "task": model.task,
        "label": model.label,
        "coefficients": dict(zip(model.features, model.coefficients, strict=True)),
        "intercept": model.intercept,
        "method": model.method,
        "ridge": model.ridge,
        "effective_parameters": model.freedom,
        # A file from before intervals states an R² that is not corrected for noise.
        "r_squared": None if model.r_squared_interval is None else model.r_squared,
        "r_squared_interval": None if model.r_squared_interval is None else list(model.r_squared_interval),
        **several,
        "outcome": None if model.outcome is None else asdict(model.outcome),
        "notes": public.warnings,
        "params": [{key: record.get(key) for key in table.fields} for record in table.records],
    }
