"""The `queue` commands: sessions of several studies, one after the other, at once or by a schedule."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Json, argument, flag, group, option, path_argument, require_engine
from colonnade.cli.screen import show as answered
from colonnade.cli.screen import tell
from colonnade.foundation.errors import StudyError

app = group("Sessions in a queue, at the coordinator.")
Folder = Annotated[Path, path_argument("FOLDER", "The coordinator's folder.")]


@app.command(short_help="Ask for a session.")
def add(
    folder: Folder,
    study: Annotated[str, option("--study", "NAME", "Which study; the folder's own if not given.")] = "",
    at: Annotated[
        str | None, option("--at", "TIME", "Not before, as 2026-11-16T08:00+00:00; now if not given.")
    ] = None,
    every: Annotated[float, option("--every", "HOURS", "Again and again; each session is a spend.", min=0)] = 0.0,
    json: Json = False,
) -> None:
    """Put a session into the queue; `queue work` runs it."""
    require_engine()
    from dataclasses import asdict

    from colonnade.flare.queue import SessionQueue

    try:
        due = None if at is None else datetime.fromisoformat(at)
    except ValueError:
        raise StudyError(f"a time must be written as 2026-11-16T08:00+00:00, got {at!r}") from None
    entry = SessionQueue(folder).add(study, due, every)
    tell(json, asdict(entry), f"Number {entry.number}: a session of study {entry.study}, not before {entry.due}.")


@app.command(short_help="What is in the queue, and how it ended.")
def show(folder: Folder, json: Json = False) -> None:
    """Show what waits, what runs, and how the rest ended."""
    require_engine()
    from dataclasses import asdict

    from colonnade.flare.queue import SessionQueue
    from colonnade.report.answers.upkeep import queued

    answered(queued([asdict(entry) for entry in SessionQueue(folder).entries()]), json)


@app.command(short_help="Take back a session that waits.")
def drop(folder: Folder, number: Annotated[int, argument("NUMBER", "Its number.")]) -> None:
    """Take a waiting session out of the queue."""
    require_engine()
    from colonnade.flare.queue import SessionQueue

    SessionQueue(folder).drop(number)
    typer.echo(f"Number {number} is dropped.")


@app.command(short_help="Run what is due, one after the other, until stopped.")
def work(
    folder: Folder, until_empty: Annotated[bool, flag("--until-empty", "Leave when nothing waits any more.")] = False
) -> None:
    """Run the queue's sessions, one after the other. Started again, it goes on with what was queued or under way."""
    require_engine()
    from colonnade.flare.queue import SessionQueue, work_queue

    work_queue(SessionQueue(folder), lambda told: typer.echo(told, err=True), until_empty)
