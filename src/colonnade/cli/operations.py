"""`colonnade doctor` and `colonnade status`: for whoever runs the sites of a deployed study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Json, require_engine
from colonnade.cli.screen import print_json, stdout
from colonnade.foundation.parts import local_path

Folders = Annotated[
    list[Path],
    typer.Argument(parser=local_path, metavar="FOLDER...", help="Organisations' folders, or one that holds them."),
]


def add_operations(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("doctor", short_help="What keeps a site from taking part.")(doctor)
    app.command("status", short_help="How the sites of a deployed study are doing.")(status)


def doctor(folders: Folders, json: Json = False) -> None:
    """Look for all that keeps sites from taking part; changes and spends nothing. Exit code 1 if a fault is found."""
    require_engine()
    from colonnade.flare.checkup import examine
    from colonnade.report.operations import findings_table

    findings = examine(folders)
    faults = sum(finding.verdict == "fault" for finding in findings)
    if json:
        told = [{"site": f.site, "about": f.about, "verdict": f.verdict, "sentence": f.sentence} for f in findings]
        print_json({"faults": faults, "findings": told})
    else:
        stdout().print(findings_table([(f.site, f.about, f.verdict, f.sentence) for f in findings]))
        stdout().print("no fault was found" if not faults else "1 fault" if faults == 1 else f"{faults} faults")
    raise typer.Exit(1 if faults else 0)


def status(folders: Folders, json: Json = False) -> None:
    """Show how sites are doing, by their own folders: the process, the session under way or the last, the budget."""
    require_engine()
    from colonnade.flare.checkup import find_folders, standing
    from colonnade.report.operations import standings_table

    found = [standing(folder).describe() for folder in find_folders(folders)]
    if json:
        print_json({"sites": found})
    else:
        stdout().print(standings_table(found))
