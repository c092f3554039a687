"""Make the notebooks from the programs beside them, run them, and keep what they show.

    python notebooks/write.py [NAME ...]

A program's cells begin with `# %%`, or with `# %% [markdown]` for a text in comments.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAMES = ("first_study", "choosing", "many_questions")
LONGEST = 300
"""Seconds of one cell."""


def cells_of(program: str) -> list[Any]:
    """The cells of a program."""
    out = []
    for part in re.split(r"^# %%", program, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            out.append(nbformat.v4.new_markdown_cell("\n".join(lines)))
        else:
            out.append(nbformat.v4.new_code_cell(body.strip()))
    return out


def notebook_of(name: str) -> Any:
    """The notebook of a program, not run yet; cells are numbered, so that the file changes where the program does."""
    made = nbformat.v4.new_notebook(cells=cells_of((HERE / f"{name}.py").read_text(encoding="utf-8")))
    for k, cell in enumerate(made.cells):
        cell["id"] = f"{name}-{k}"
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return made


def run(made: Any, folder: Path) -> Any:
    """Run a notebook in a folder."""
    NotebookClient(
        made, timeout=LONGEST, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in made.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            output.pop("transient", None)
            output["metadata"] = {} if "metadata" in output else output.get("metadata")
            if output.get("metadata") is None:
                output.pop("metadata", None)
    return made


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        made = run(notebook_of(name), HERE)
        text = nbformat.writes(made).replace(str(ROOT), "colonnade")
        (HERE / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
