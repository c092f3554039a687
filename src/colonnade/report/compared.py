"""Plans side by side and rehearsals, as tables for a terminal, as JSON and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from colonnade.report.text import share_text, tidy_table, titled

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.protocol.variants import Variant
    from colonnade.rehearsal import Expectation, Quality, Range

MEASURES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²", "rmse": "RMSE"}
SHOWS_PLANS = "What noise leaves of what the same columns could explain without it, by the plan's forecast."
SHOWS_REHEARSAL = "Nine of ten releases lie on the line, the mean at the dot; the diamond is the trivial answer."
UNITS = "RMSE is in units of the label scaled to [-1, 1]"


def chosen_text(chosen: Mapping[str, object]) -> str:
    """One combination of choices in words."""
    return ", ".join(f"{name} {_value(value)}" for name, value in chosen.items())


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def compared_table(variants: Sequence[Variant]) -> RenderableType:
    """One row for each plan."""
    names = list(variants[0].chosen)
    heads = ("release", "noise / signal", "leaves", "if a tenth is filled", "rows to be equal")
    first = len(names)
    table = tidy_table(*names, *heads, right=(*range(first), first + 1, first + 2, first + 3, first + 4))
    refused = []
    for variant in variants:
        row, cells = variant.describe(), [Text(_value(variant.chosen[name])) for name in names]
        if "refused" in row:
            refused.append(Text(f"{chosen_text(variant.chosen)}: {row['refused']}", style="yellow"))
            table.add_row(*cells, Text("refused", style="yellow"))
            continue
        table.add_row(
            *cells,
            Text(row["released"]),
            *_told(row["noise_to_signal"], row["explained"], row["explained_if_a_tenth"]),
            f"{row['rows_needed']:,}",
        )
    note = (
        "What noise leaves of what the same columns could explain without it, if numbers fill the bounds of the study "
        "as it is, or a tenth of these bounds."
    )
    return titled("Plans side by side", table, Text(note, style="dim"), *refused)


def compared_json(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """One object for each plan."""
    return [variant.describe() for variant in variants]


def compared_picture(variants: Sequence[Variant]) -> Markup:
    """Share that noise leaves: a curve against epsilon, or a bar for each plan."""
    from colonnade.report.charts import Bar, bars, curve

    planned = [v for v in variants if v.forecast is not None and v.forecast.explained is not None]
    title = "What noise leaves of what could be explained"
    if planned and list(planned[0].chosen) == ["epsilon"] and len(planned) > 1:
        points = sorted((float(v.chosen["epsilon"]), _share(v)) for v in planned)
        told = "; ".join(f"epsilon {e:g}: {share_text(s)}" for e, s in points)
        return curve(points, points[0][0] / 1e6, title, told)
    items = [
        Bar(
            chosen_text(v.chosen), _share(v), share_text(_share(v)), f"{chosen_text(v.chosen)}: {share_text(_share(v))}"
        )
        for v in planned
    ]
    return bars([("", items)], title, "; ".join(b.hint for b in items))


def _told(noise: float | None, *shares: float | None) -> list[str]:
    """Noise against signal and what it leaves, in words; margins alone have neither."""
    return ["-" if noise is None else f"{noise:.3g}", *("-" if s is None else share_text(s) for s in shares)]


def _share(variant: Variant) -> float:
    assert variant.forecast is not None
    return variant.forecast.explained or 0.0


def rehearsed_table(found: Sequence[tuple[Mapping[str, object], Expectation]]) -> RenderableType:
    """Expected measures with their spread, for each encoding or epsilon that was tried."""
    names = list(found[0][0])
    first = len(names) + 1
    table = tidy_table(*names, "measure", "expected", "9 of 10 releases", "trivial", "no noise", right=range(first, 9))
    for chosen, expected in found:
        for name, quality in expected.measures.items():
            cells = [Text(_value(chosen[key])) for key in names]
            table.add_row(*cells, MEASURES[name], *_cells(quality))
    one = found[0][1]
    what = f"Rehearsed for {one.n:,} records on {one.rows:,} public rows, {one.releases} releases each"
    note = (
        "Trivial: the larger class, the mean, no order. No noise: the same columns and solver. The rows count as "
        "being like those of the study; nothing was spent."
    )
    if "rmse" in one.measures:
        note += f" {UNITS}."
    notes = [Text(note, style="dim")]
    return titled(what, table, *notes)


def _cells(quality: Quality) -> list[str]:
    ends = f"{quality.low:.3f} to {quality.high:.3f}"
    return [f"{quality.mean:.3f} ± {quality.std:.3f}", ends, f"{quality.trivial:.3f}", f"{quality.clear:.3f}"]


def rehearsed_picture(found: Sequence[tuple[Mapping[str, object], Expectation]]) -> Markup:
    """Nine of ten releases as whiskers, the mean as a mark, the trivial answer as a second one."""
    from colonnade.report.charts import Whisker, whiskers

    measure = next(iter(found[0][1].measures))
    items = []
    for chosen, expected in found:
        quality = expected.measures[measure]
        name = chosen_text(chosen) or "as it is"
        hint = f"{name}: {MEASURES[measure]} {quality.mean:.3f}, {quality.low:.3f} to {quality.high:.3f}"
        items.append(Whisker(name, quality.low, quality.high, quality.mean, quality.trivial, hint))
    return whiskers(items, f"Expected {MEASURES[measure]}", "; ".join(w.hint for w in items))


def range_table(found: Range) -> RenderableType:
    """What the schema alone lets one expect, by strength of signal."""
    table = tidy_table("measure", *next(iter(found.measures.values())), "whole range", "trivial", right=range(1, 6))
    for name, by in found.measures.items():
        ends = [*by.values(), found.whole(name), found.trivial[name]]
        table.add_row(MEASURES[name], *(_between(low, high) for low, high in ends))
    shares = f", {', '.join(f'{s:.0%}' for s in found.shares)} positive records" if found.shares else ""
    parts = ", ".join(f"{part:.0%} ({name})" for name, part in found.strengths.items())
    note = (
        "Rows invented from the schema: features independent, numbers fill all of their bounds or the lowest tenth, "
        f"every column matters or one alone{shares}; features decide {parts} of what the label depends on. A range, no "
        "forecast: name public rows with --rows for one."
    )
    return titled(f"From the schema alone, for {found.n:,} records", table, Text(note, style="dim"))


def _between(low: float, high: float) -> str:
    return f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"


def compared_rows(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """Cells of the page's table."""
    out = []
    for variant in variants:
        row = variant.describe()
        cells = {name: _value(value) for name, value in variant.chosen.items()}
        if "refused" in row:
            out.append({**cells, "release": "refused", "noise / signal": "", "leaves": row["refused"]})
        else:
            noise, share = _told(row["noise_to_signal"], row["explained"])
            left = {"noise / signal": noise, "leaves": share}
            out.append({**cells, "release": row["released"], **left})
    return out


def rehearsed_rows(found: Sequence[tuple[Mapping[str, object], Expectation]]) -> list[dict[str, str]]:
    """Cells of the page's table."""
    heads = ("expected", "9 of 10 releases", "trivial", "no noise")
    return [
        {
            **{key: _value(value) for key, value in chosen.items()},
            "measure": MEASURES[name],
            **dict(zip(heads, _cells(quality), strict=True)),
        }
        for chosen, expected in found
        for name, quality in expected.measures.items()
    ]
