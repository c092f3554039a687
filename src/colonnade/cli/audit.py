"""`colonnade audit`: attacks a study's plan with sessions of its own, and prints what they prove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Json
from colonnade.cli.screen import print_json, stderr, stdout
from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.parts import local_path


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
    json: Json = False,
) -> None:
    """Attack a study: run sessions on invented worst-case data, and bound from below the epsilon of every view."""
    from colonnade.audit.rehearsal import rehearse
    from colonnade.audit.tables import finding_json, findings_table
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
