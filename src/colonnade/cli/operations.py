"""`colonnade doctor` and `colonnade status`: for whoever runs the sites of a deployed study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli.options import Json, argument, flag, path_argument, path_option, require_engine
from colonnade.cli.screen import show, tell
from colonnade.foundation.errors import StudyError

ASK_SECONDS = 20.0  # a person waits at the terminal; no answer by then is an answer

Folders = Annotated[list[Path], path_argument("FOLDER...", "Organisations' folders, or one that holds them.")]


def add_operations(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("doctor", short_help="What keeps a site from taking part.")(doctor)
    app.command("status", short_help="How the sites of a deployed study are doing.")(status)
    app.command("approve", short_help="Approve a plan for one session of a site that runs.")(approve)


def doctor(folders: Folders, json: Json = False) -> None:
    """Look for all that keeps sites from taking part; changes and spends nothing. Exit code 1 if a fault is found."""
    require_engine()
    from colonnade.flare.doctor import examine
    from colonnade.report.answers.upkeep import checked

    findings = [vars(finding) for finding in examine(folders)]
    show(checked(findings), json)
    raise typer.Exit(1 if any(finding["verdict"] == "fault" for finding in findings) else 0)


def status(
    folders: Folders,
    ask: Annotated[
        bool, flag("--ask", "Ask the server too, by a coordinator's folder: who is connected, what waits.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how sites are doing, by their own folders: the process, the session under way or the last, the budget."""
    require_engine()
    from colonnade.flare.doctor import find_folders, standing
    from colonnade.report.answers.upkeep import standings

    found = [standing(folder).describe() for folder in find_folders(folders)]
    show(standings(found, _ask(find_folders(folders)) if ask else None), json)


def approve(
    digest: Annotated[str, argument("DIGEST", "Of the plan's terms, as the refusal prints it.")],
    site: Annotated[Path, path_option("--site", "The party's folder.", "FOLDER")],
    withdraw: Annotated[bool, flag("--withdraw", "Take the approval back; no session has used it.")] = False,
    json: Json = False,
) -> None:
    """Approve a plan, where a policy asks for a person: it admits one session, and the site need not be restarted."""
    from colonnade.sites.site import PARTY, read_site

    party = read_site(site, PARTY)
    if withdraw:
        party.approvals.withdraw(digest)
        said = f"The approval of plan {digest} at {party.name} is withdrawn."
    else:
        party.approve(digest)
        said = f"Plan {digest} is approved at {party.name}, for one session."
    tell(json, {"site": party.name, "approved": party.approvals.waiting()}, said)


def _ask(folders: list[Path]) -> dict[str, Any]:
    """What the server says to the coordinator; its clock and ours may differ."""
    from colonnade.flare.coordinator import ask_connected
    from colonnade.sites.site import COORDINATOR, read_site

    for folder in folders:
        site = read_site(folder)
        if site.role == COORDINATOR:
            return ask_connected(site, ASK_SECONDS)
    raise StudyError("--ask needs the folder of a coordinator, and none is given")
