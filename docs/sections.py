"""Sections of the pages of results: what a run writes stands between two marks of the page that PAGES names.

A table of more than MOST words is written as csv beside the page, which then names the file. `kept` undoes both, so
that a writer which runs one part anew finds the others as it wrote them.

    python docs/sections.py NAME < PAGE     a page that a program wrote as Markdown, as the section NAME
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
MOST = 60
PAGES = {
    **dict.fromkeys(("floors", "wide800", "wide", "splits", "utility"), "accuracy"),
    **dict.fromkeys(("comparison", "table1", "table2", "table3"), "paper-tables"),
    **dict.fromkeys(("panel", "logloss", "rsquared"), "panel"),
    **dict.fromkeys(
        (
            "coverage",
            "coverage_panel",
            "coverage_answers",
            "rehearsal",
            "evaluation_coverage",
            "evaluation",
            "base_rate",
        ),
        "uncertainty",
    ),
    "synthesis": "synthesis",
    "wide_adult": "speed",
    **dict.fromkeys(("order", "polynomial"), "interactions"),
    **dict.fromkeys(
        ("whole", "product", "overhead", "alignment", "owners", "device", "scale", "sources", "wide_area"), "speed"
    ),
    **dict.fromkeys(("robustness", "soak", "partners", "accountability", "mutants", "wheel"), "operations"),
}
STAY = {
    "panel": ("Won and lost",),
    "product": ("Compiled loops (extra `fast`, numba)",),
    "scale": ("Rows",),
    "soak": ("Soak",),
    "whole": ("What privacy costs a whole study",),
}
"""Headings whose tables stay on the page, whatever their size; a writer may name more."""
_TABLE = re.compile(r"^\|[^\n]*\|\n\|(?:---\|?)+\n(?:\|[^\n]*\|\n)+", re.MULTILINE)
_FILE = re.compile(r"^\d[\d,]* rows: \[(\w+\.csv)\]\(\w+\.csv\)\.\n", re.MULTILINE)
_HEADING = re.compile(r"^(#+) ", re.MULTILINE)


def publish(name: str, text: str, shown: Collection[str] = (), beside: str = "", folder: Path = RESULTS) -> None:
    """Put a page that a program wrote between its marks, and its long tables beside it."""
    section, files = laid_out(name, text, shown, beside)
    for file, content in files.items():
        (folder / file).write_text(content, encoding="utf-8")
    page = folder / f"{PAGES.get(name, name)}.md"
    before = page.read_text(encoding="utf-8") if page.exists() else f"# {PAGES.get(name, name)}\n"
    begin, end = marks(name)
    head, mark, rest = before.partition(begin)
    tail = rest.partition(end)[2] if mark else "\n"
    page.write_text(f"{head if mark else head + chr(10)}{begin}\n{section}\n{end}{tail}", encoding="utf-8")


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- end of {name} -->"


def section(name: str, folder: Path = RESULTS) -> str:
    """Return what stands between the marks of a name, "" where nothing does."""
    page = folder / f"{PAGES.get(name, name)}.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    begin, end = marks(name)
    return text.partition(f"{begin}\n")[2].partition(f"\n{end}")[0]


def laid_out(name: str, text: str, shown: Collection[str] = (), beside: str = "") -> tuple[str, dict[str, str]]:
    """Return a section, and the csv files of its long tables.

    shown: headings whose tables stay on the page, whatever their size. beside: a csv that has the long tables already.
    """
    files: dict[str, str] = {}
    shown = {*shown, *STAY.get(name, ())}

    def place(found: re.Match[str]) -> str:
        cells = list(rows_of(found[0]))
        heading = re.findall(r"^#+ (.+)$", text[: found.start()], re.MULTILINE)
        if len(found[0].replace("|", " ").split()) <= MOST or (heading and heading[-1] in shown):
            return found[0]
        file = beside or f"{name}_{len(files) + 1}.csv"
        if not beside:
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(cells)
            files[file] = out.getvalue()
        return f"{len(cells) - 1:,} rows: [{file}]({file}).\n"

    moved = _TABLE.sub(place, text.rstrip("\n") + "\n")
    return _HEADING.sub(r"#\1 ", moved), files


def kept(name: str, folder: Path = RESULTS) -> str:
    """Return the page that was published under a name, its long tables among it."""

    def table(found: re.Match[str]) -> str:
        with (folder / found[1]).open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        return "\n".join([_line(head), "|" + "---|" * len(head), *map(_line, rows)]) + "\n"

    return _HEADING.sub(lambda found: f"{found[1][1:]} ", _FILE.sub(table, section(name, folder)))


def rows_of(table: str) -> Iterator[list[str]]:
    """Yield the cells of a Markdown table, its head first."""
    for number, line in enumerate(table.splitlines()):
        if number != 1:
            yield [cell.strip() for cell in line.strip()[1:-1].split("|")]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    publish(sys.argv[1], sys.stdin.read())
