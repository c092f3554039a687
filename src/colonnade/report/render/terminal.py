"""Answers on a terminal: tables and sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.report.results import Answer, Brief, Listing, Passage, Words
from colonnade.report.tidy import tidy_table

WIDTH, INDENT, MOST_LINES = 80, 10, 15
"""Of a verdict."""
STYLES = {"": "", "good": "green", "warn": "yellow", "soft": "dim", "strong": "bold red", "head": "bold"}


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


def whole(answer: Answer, full: bool = True) -> RenderableType:
    """All of it, or where there is one its verdict alone, with its warnings."""
    body = shown(answer) if full or answer.brief is None else verdict(answer.brief)
    return Group(body, *map(caution, answer.warnings))


def verdict(brief: Brief) -> Text:
    """At most 15 lines of 80 columns: the longest list, or else the longest text, ends early where there are more."""
    parts = [("", _wrapped(brief.lead, WIDTH)), *((head, _wrapped(text, WIDTH - INDENT)) for head, text in brief.lines)]
    left = dict.fromkeys(range(len(parts)), 0)
    while sum(map(len, _lines(parts, left))) > MOST_LINES:
        longest = max(range(len(parts)), key=lambda k: sum(map(len, parts[k][1])))
        items = parts[longest][1]
        if len(items) > 2:
            items.pop()
            left[longest] += 1
        else:
            items[-1].pop()
            items[-1][-1] = f"{items[-1][-1][: WIDTH - INDENT - 2].rstrip(' .,;')} …"
    out = Text()
    for (head, _), lines in zip(parts, _lines(parts, left), strict=True):
        for k, line in enumerate(lines):
            out.append(f"{head if k == 0 else '':<{INDENT}}" if head else "", "bold")
            out.append(f"{line}\n")
    out.rstrip()
    return out


def _lines(parts: Sequence[tuple[str, list[list[str]]]], left: Mapping[int, int]) -> list[list[str]]:
    more = [[f"and {left[k]} more"] if left[k] else [] for k in range(len(parts))]
    return [[*chain(*items), *more[k]] for k, (_, items) in enumerate(parts)]


def _wrapped(text: str, width: int) -> list[list[str]]:
    """The lines of each item of a text."""
    return [textwrap.wrap(given, width, break_on_hyphens=False) for given in text.split("\n")]


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
