"""Pieces of HTML that objects show themselves by in a notebook: tables and pictures in one scoped style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from colonnade.report.text import VIEWS, epsilon_text

SHOWN_BARS = 24
"""Blocks, in a notebook, whose noise has a bar."""
STYLE = Path(__file__).parent / "templates" / "notebook.css"


@cache
def _style() -> str:
    return " ".join(STYLE.read_text(encoding="utf-8").split())


def fragment(*parts: str) -> str:
    """One object: its parts under the notebook's style, which reaches nothing outside of it."""
    return f'<div class="colonnade"><style>{_style()}</style>{"".join(parts)}</div>'


def heading(text: str, level: int = 4) -> Markup:
    return Markup(f"<h{level}>{{}}</h{level}>").format(text)  # noqa: S704 - the text is escaped by format


def paragraph(text: str, kind: str = "") -> Markup:
    """A sentence; `kind` is a class of the style."""
    return Markup('<p class="{}">{}</p>').format(kind, text)


def warning(text: str) -> Markup:
    return paragraph(f"Warning: {text}", "warning")


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> Markup:
    """A table of texts, every one escaped; numbers stand right."""
    ends = set(right)

    def cell(tag: str, k: int, text: object) -> str:
        return f"<{tag}{' class=n' if k in ends else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", k, text) for k, text in enumerate(heads))
    lines = ("".join(cell("td" if k else "th", k, text) for k, text in enumerate(row)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")  # noqa: S704 - cells are escaped


def epsilon_html(plan: Mapping[str, Any]) -> Markup:
    """The epsilon of each party's data and of the record, against every view."""
    alone = len(plan["parties"]) == 1

    def cells(by_view: Mapping[str, float | None]) -> list[str]:
        return ["-" if alone and v in ("party", "coalition") else epsilon_text(by_view[v]) for v in VIEWS]

    rows = [[name, *cells(party["epsilon"])] for name, party in plan["parties"].items()]
    rows.append(["all parties", *cells(plan["record"])])
    return html_table(["data of", *VIEWS.values()], rows, range(1, 1 + len(VIEWS)))


def columns_html(plan: Mapping[str, Any]) -> Markup:
    """Whose columns are used."""
    rows = [[name, ", ".join(party["columns"])] for name, party in plan["parties"].items()]
    return html_table(["party", "columns"], rows)
