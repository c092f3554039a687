"""What was found out about the sites of a deployed study, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from colonnade.report.text import tidy_table

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {"ok": "green", "remark": "yellow", "fault": "bold red"}


def findings_table(findings: Sequence[tuple[str, str, str, str]]) -> RenderableType:
    """Site, what was looked at, the verdict, and a sentence."""
    table = tidy_table("site", "about", "", "")
    for site, about, verdict, sentence in findings:
        table.add_row(Text(site), about, Text(verdict, style=STYLES[verdict]), Text(sentence))
    return table


def standings_table(sites: Sequence[dict[str, Any]]) -> RenderableType:
    """One row for each site."""
    table = tidy_table("site", "study", "process", "session", "spent", "since")
    for site in sites:
        session = f"{site['session'][:16]} at {site['step']}" if site["step"] else site["ended"] or "none yet"
        process = "runs" if site["running"] else "does not run"
        row = (site["site"], site["study"], process, session, site["spent"], site["time"])
        table.add_row(*(Text(cell) for cell in row))
    return table


def queue_table(entries: Sequence[dict[str, Any]]) -> RenderableType:
    """One row for each session that was asked for."""
    table = tidy_table("", "study", "due", "every", "", "", right=(0,))
    for entry in entries:
        every = f"{entry['hours']:g} h" if entry["hours"] else ""
        row = (str(entry["number"]), entry["study"], entry["due"], every, entry["state"], entry["told"])
        table.add_row(*(Text(cell) for cell in row))
    return table
