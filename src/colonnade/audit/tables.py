"""What an audit found, as a table for people and as rows for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from colonnade.audit.views import Finding


def finding_json(finding: Finding) -> dict[str, Any]:
    """One row for machines."""
    return {
        "view": finding.view,
        "changed": list(finding.scope),
        "knows": list(finding.known),
        "claimed": finding.claimed,
        "pair": finding.loss,
        "proved": finding.proved,
        "sessions": finding.runs,
        "drawn": finding.drawn,
        "alike": finding.alike,
        "broken": finding.broken,
    }


def findings_table(findings: list[Finding]) -> Grid:
    """All views as a table for people."""
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, title="Lower bounds on epsilon", title_justify="left", title_style="bold")
    grid.add_column("changed")
    grid.add_column("view")
    for name in ("claimed", "this pair", "sessions prove", "noise proves", "reached"):
        grid.add_column(name, justify="right")
    for f in findings:
        view = f.view + (f" ({', '.join(f.known)})" if f.known else "")
        reached = "" if f.tightness is None else f"{f.tightness:.0%}"
        cells = (number(f.claimed, "none"), number(f.loss), number(f.proved), number(f.drawn), reached)
        grid.add_row(", ".join(f.scope), view, *cells, style="red" if f.broken else None)
    return grid


def number(value: float | None, missing: str = "") -> str:
    return missing if value is None else f"{value:.3f}"
