"""Plans side by side as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from colonnade.protocol.variants import Variant
from colonnade.report.text import share_text, tidy_table, titled

NOTE = (
    "What noise leaves of what the same columns could explain without it, if numbers fill the bounds of the study as "
    "it is, or a tenth of these bounds."
)


def comparison_heads(found: Sequence[Variant]) -> list[str]:
    """The heads of a comparison's columns."""
    return [*found[0].chosen, "release", "noise / signal", "leaves", "if a tenth is filled", "rows to be equal", "note"]


def comparison_cells(one: Variant) -> list[str]:
    """A plan's cells, in the order of the heads."""
    chosen = [f"{v:g}" if isinstance(v, (int, float)) else str(v) for v in one.chosen.values()]
    told = one.describe()
    if "refused" in told:
        return [*chosen, "refused", "", "", "", "", str(told["refused"])]
    notes = told["warnings"]
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    shares = [told["explained"], told["explained_if_a_tenth"]]
    return [
        *chosen,
        told["released"],
        f"{told['noise_to_signal']:.3g}",
        *("" if share is None else share_text(share) for share in shares),
        f"{told['rows_needed']:,}",
        f"{notes[0]}{more}" if notes else "",
    ]


def comparison_text(found: Sequence[Variant]) -> RenderableType:
    """A line for each plan."""
    heads, changed = comparison_heads(found), len(found[0].chosen)
    table = tidy_table(*heads, right=range(changed + 1, changed + 5))
    for one in found:
        table.add_row(*map(Text, comparison_cells(one)))
    return titled("Plans side by side", table, Text(NOTE, style="dim"))
