"""Rows of a study as csv with a header, and back, so that its markdown is a function of the csv alone."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docs.sections import publish

Markdown = Callable[[str], str]


def csv_text(rows: Sequence[Any], header: Mapping[str, str]) -> str:
    """Rows, which are alike dataclasses, with what is needed to make them again."""
    tables = [asdict(row) for row in rows]
    lines = [f"# {key}: {value}" for key, value in header.items()]
    lines.append(",".join(tables[0]))
    for table in tables:
        values = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in table.values()]
        lines.append(",".join(f'"{v}"' if "," in v else v for v in values))
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[list[str], list[dict[str, str]]]:
    """The title and the header as lines of markdown, and the rows."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if not line.startswith("# "))
    header = dict(line[2:].split(": ", 1) for line in lines[:start])
    head = [f"# {header.pop('title')}", "", *(f"- {key}: {value}" for key, value in header.items()), ""]
    return head, list(csv.DictReader(lines[start:]))


def write(text: str, markdown: Markdown, path: Path, shown: Collection[str] = ()) -> None:
    """Write the csv, and its section of the page of results."""
    path.write_text(text, encoding="utf-8")
    publish(path.stem, markdown(text), shown, beside=path.name, folder=path.parent)
