"""`colonnade audit`: attacks a study's plan with sessions of its own, and prints what they prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.parts import local_path

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from colonnade.audit.views import Finding


def audit(
    study: Annotated[
        Path, typer.Argument(parser=local_path, metavar="STUDY", help="Study file (TOML); its data files are not read.")
    ],
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", min=1, help="Time for sessions; drawing noise takes as much again.")
    ] = 30,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=2, help="Records of the invented data; about 16 if not given."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")
    ] = False,
) -> None:
    """Attack a study: run sessions on invented worst-case data, and bound from below the epsilon of every view."""
    from colonnade.audit.rehearsal import rehearse
    from colonnade.report.screen import print_json, stderr, stdout
    from colonnade.study import read_study

    agreement = read_study(study).agreement
    rehearsal = rehearse(agreement, seconds, rows)
    broken = [f for f in rehearsal.findings if f.broken]
    if json:
        told = {"study": agreement.name, "product": "lattice", "delta": agreement.delta, "sessions": rehearsal.sessions}
        print_json({**told, "broken": len(broken), "views": [finding_json(f) for f in rehearsal.findings]})
    else:
        stdout().print(findings_table(rehearsal.findings))
        stdout().print(
            f"{rehearsal.sessions:,} sessions of this study's plan on invented data of {rehearsal.rows} records; "
            "each bound holds with 99.9% confidence. No data was read and nothing was spent."
        )
        if agreement.product != "lattice" and len(agreement.schema.names) > 1:
            stderr().print("The sessions ran with the lattice product, whatever the study names.")
    if broken:
        worst = broken[0]
        raise PrivacyError(
            f"the audit proves epsilon={max(worst.proved, worst.drawn or 0.0, worst.loss or 0.0):.3g} for the view "
            f"{worst.view} of {', '.join(worst.scope)}, where epsilon={worst.claimed:.3g} is claimed"
        )


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
