"""Answers on a terminal: tables and sentences."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.report.results import Answer, Listing, Passage, Words
from colonnade.report.tidy import tidy_table

STYLES = {"": "", "good": "green", "warn": "yellow", "soft": "dim", "strong": "bold red"}


def shown(answer: Answer) -> RenderableType:
    """Everything but pictures and warnings."""
    parts: list[RenderableType] = [Text(answer.title, "bold")] if answer.title else []
    first = True
    for part in answer.parts:
        if isinstance(part, Listing) and part.shown != 0:
            parts += [*([] if first else [""]), *([Text(part.title, "bold")] if part.title else []), table_text(part)]
            first = False
        elif isinstance(part, Passage):
            parts.append(Text(part.text, STYLES[part.kind]))
    return Group(*parts)


def whole(answer: Answer) -> RenderableType:
    """All of it, with its warnings."""
    return Group(shown(answer), *map(caution, answer.warnings))


def table_text(table: Listing) -> RenderableType:
    """Its records, as many as a terminal shows."""
    right = [k for k, column in enumerate(table.columns) if column.number]
    out = tidy_table(*(column.head for column in table.columns), right=right)
    for record in table.records[: table.shown]:
        out.add_row(*(_text(column.cell(record)) for column in table.columns))
    if table.shown is not None and len(table.records) > table.shown:
        out.add_row(Text(f"and {len(table.records) - table.shown} smaller ones", "dim"))
    if table.last is not None:
        out.add_section()
        out.add_row(*(_text(column.cell(table.last)) for column in table.columns))
    return out


def _text(cell: Words) -> Text:
    return Text(cell.text, STYLES[cell.kind])


def caution(note: str) -> Text:
    """A warning, as all commands print it."""
    return Text.assemble(("warning: ", "bold yellow"), note)
