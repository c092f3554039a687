"""Where commands print: tables and sentences, or one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType

    from colonnade.data.table import Table
    from colonnade.foundation.files import Place
    from colonnade.report.results import Answer


def stdout() -> Console:
    return _console(False)


def stderr() -> Console:
    return _console(True)


def _console(errors: bool) -> Console:
    # Imported late, so that help and usage errors come at once.
    from rich.console import Console

    console = Console(stderr=errors, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        # A log keeps a warning on one line; tables need a width.
        console.width = 1000 if errors else 110
    return console


def own_eyes(table: Table) -> list[RenderableType]:
    """What a party alone should know of how its records were read; a warning where its declaration does not say so."""
    from colonnade.report.render.terminal import caution

    surprises = table.surprises()
    lines = [(note, f"{table.party} (for its own eyes): {note}") for note in table.notes()]
    return [caution(line) if note in surprises else line for note, line in lines]


def tell_own(table: Table) -> None:
    """Print that on the error stream."""
    for line in own_eyes(table):
        stderr().print(line)


def tell_evidence(folder: Path | None) -> None:
    """Where parties' evidence of a run in one process lies, if any was kept, and what it is good for."""
    if folder is not None:
        stdout().print(f"Each party's evidence is in {folder}; in one process nothing is signed: it convicts nobody.")


@contextmanager
def stoppable() -> Iterator[list[Path | None]]:
    """Where a person stops a run, say what it spent: nothing, or what stands in the file that the list then names."""
    written: list[Path | None] = []
    try:
        yield written
    except KeyboardInterrupt:
        spent = f"the release is in {written[0]}, and its epsilon is spent" if written else "nothing was spent"
        typer.echo(f"Stopped; {spent}.", err=True)
        raise typer.Exit(1) from None


def show(answer: Answer, json: bool, full: bool = True) -> None:
    """Print an answer: as a JSON object, or as its verdict, or as tables and notes; its warnings are a part of it."""
    if json:
        print_json(answer.facts())
        return
    from colonnade.report.render.terminal import whole

    stdout().print(whole(answer, full))


def answer_of(make: Callable[[], Answer], json: bool, html: Path | None, title: str, lead: str = "") -> None:
    """Show an answer, and write its page where one is wanted: a place that cannot be written is refused first."""
    from colonnade.foundation.files import places

    with places(html) as (page,):
        found = make()
        write_page(page, found, title, lead)
    show(found, json)


def write_page(page: Place, answer: Answer, title: str, lead: str) -> None:
    """Write the page of an answer; `lead` stands below its title."""
    if page.path is None:
        return
    from colonnade.report.pages import require

    require()
    from colonnade.report.html import answer_page

    page.write(answer_page(answer, title, lead).encode())


def tell(json: bool, content: Mapping[str, Any], *lines: str) -> None:
    """Print one JSON object, or lines for a person."""
    if json:
        print_json(content)
    else:
        typer.echo("\n".join(lines))


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    import json

    from colonnade.report.results import finite

    typer.echo(json.dumps(finite(dict(content)), indent=2, ensure_ascii=False, allow_nan=False))
