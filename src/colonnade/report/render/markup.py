"""Answers as HTML: for a notebook under a style of its own, and as parts of a page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from markupsafe import Markup

from colonnade.report.results import Answer, Brief, Figure, Heading, Listing, Part, Passage, Record

STYLE = Path(__file__).parent.parent / "templates" / "notebook.css"
FOLD_FROM = 40
"""Longer tables are folded on a screen, and whole on paper."""
MOST = 20
"""Columns of a table that paper has no room for."""


@cache
def _style() -> str:
    return " ".join(STYLE.read_text(encoding="utf-8").split())


def fragment(answer: Answer) -> str:
    """An answer under the notebook's style, which reaches nothing outside of it."""
    head = Markup("<h4>{}</h4>").format(answer.title) if answer.title else ""
    warned = (Markup('<p class="warning">Warning: {}</p>').format(note) for note in answer.warnings)
    brief = [] if answer.brief is None else [verdict_html(answer.brief)]
    parts = "".join((head, *brief, *warned, *(part_html(part, 4) for part in answer.parts)))
    return f'<div class="colonnade"><style>{_style()}</style>{parts}</div>'


def verdict_html(brief: Brief) -> Markup:
    """The verdict of an answer."""
    lines = Markup().join(Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(*line) for line in brief.lines)
    return Markup('<p>{}</p><dl class="verdict">{}</dl>').format(brief.lead, lines)


def part_html(part: Part, level: int = 3) -> Markup:
    """One part; headings are of this level."""
    if isinstance(part, Passage):
        return Markup('<p class="{}">{}</p>').format(part.kind, part.text)
    if isinstance(part, Figure):
        caption = Markup("<figcaption>{}</figcaption>").format(part.caption) if part.caption else ""
        return Markup("<figure>{}{}</figure>").format(part.draw(), caption)
    head = Markup("<h{0}>{1}</h{0}>").format(level, part.title) if part.title else Markup()
    picture = part_html(part.picture) if part.picture else Markup()
    if picture and len(part.records) > FOLD_FROM:
        picture = _folded(f"The picture of {len(part.records)} lines", picture, Markup(' class="screen"'))
    return head + picture + table_html(part)


def table_html(table: Listing) -> Markup:
    """A table with all of its records; a long one is folded."""
    heads = Markup().join(Markup('<th scope="col"{}>{}</th>').format(_end(c), c.head) for c in table.columns)
    rows = Markup().join(_row(table, record) for record in table.records)
    if table.last is not None:
        rows += _row(table, table.last, Markup(' class="total"'))
    out = Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0"><table{}>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(
        table.title or table.fold or table.columns[0].head, Markup(' class="cross"') if table.dense else "", heads, rows
    )
    if not table.fold and len(table.records) <= FOLD_FROM:
        return out
    kind = Markup(' class="screen"') if len(table.columns) > MOST else Markup()
    return _folded(table.fold or f"All {len(table.records)} lines", out, kind)


def _folded(told: str, inside: Markup, kind: Markup) -> Markup:
    return Markup("<details{}><summary>{}</summary>{}</details>").format(kind, told, inside)


def _row(table: Listing, record: Record, kind: Markup = Markup()) -> Markup:  # noqa: B008 - it is a text
    first, *rest = table.columns
    name = first.cell(record).text
    cells = Markup().join(_cell(column, record, name) for column in rest)
    return Markup('<tr{}><th scope="row">{}</th>{}</tr>').format(kind, name, cells)


def _cell(column: Heading, record: Record, name: str) -> Markup:
    """A cell; a number stands in it as the program has it, too."""
    value = record.get(column.read) if isinstance(column.read, str) else None
    exact = Markup()
    if column.number and isinstance(value, (int, float)) and str(column.read).isidentifier():
        kind = "number" if column.read == "value" else column.read
        exact = Markup(' data-{}="{}" data-value="{}"').format(kind, name, value)
    found = column.cell(record)
    text = Markup('<span class="none-told">{}</span>').format(found.text) if found.kind == "warn" else found.text
    return Markup("<td{}{}>{}</td>").format(_end(column), exact, text)


def _end(column: Heading) -> Markup:
    return Markup(' class="n"') if column.number else Markup()
