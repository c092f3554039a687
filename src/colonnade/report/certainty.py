"""How sure the coefficients are: intervals in words, as a table for a terminal, and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.report.text import titled
from colonnade.report.tidy import listed, tidy_table

if TYPE_CHECKING:
    from colonnade.analysis.intervals import Interval, Intervals

DROWNED = "noise drowns it"


def heading_of(found: Intervals) -> str:
    """What the intervals are of."""
    return f"{found.level:.0%} intervals of the {'full' if found.full else 'reduced'} model"


def sentences(found: Intervals) -> list[str]:
    """What a reader has to know of the intervals, or why there are none."""
    if not found.coefficients:
        return [f"There are no intervals: {found.reason}."]
    out = []
    if not found.full:
        out.append(f"The full model has no intervals: {found.reason}.")
        verb = "is" if len(found.left_out) == 1 else "are"
        left = f", and {listed(found.left_out)} {verb} left out" if found.left_out else ""
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


def intervals_report(found: Intervals) -> RenderableType:
    """The intervals for a terminal."""
    notes = [Text(sentence, style="dim") for sentence in sentences(found)]
    if not found.coefficients:
        return Group(*notes, "")
    table = tidy_table("feature", "against", "estimate", "interval", "wider", right=(2, 3, 4))
    for one in found.coefficients:
        if one.given:
            cells = (f"{one.estimate:+.3g}", f"{one.low:+.3g} to {one.high:+.3g}", f"×{one.factor:.1f}")
            table.add_row(Text(one.feature), Text(one.against), *cells)
        else:
            table.add_row(Text(one.feature), Text(one.against), "", Text(DROWNED, style="dim"), "")
    return titled(heading_of(found), table, *notes, "")


def intervals_json(found: Intervals) -> dict[str, Any]:
    """The intervals for programs; a coefficient that noise drowns has no numbers."""
    return {
        "intervals": {
            "level": found.level,
            "quantity": found.quantity,
            "full_model": found.full,
            "reason": found.reason or None,
            "caution": found.caution or None,
            "left_out": list(found.left_out),
            "coefficients": [_one(interval) for interval in found.coefficients],
        }
    }


def _one(one: Interval) -> dict[str, Any]:
    numbers = {
        "estimate": one.estimate,
        "std": one.std,
        "low": one.low,
        "high": one.high,
        "times_sampling": one.factor,
    }
    return {
        "feature": one.feature,
        "column": one.column,
        "levels": list(one.levels),
        "base": list(one.base),
        "drowned": not one.given,
        **(numbers if one.given else dict.fromkeys(numbers)),
    }
