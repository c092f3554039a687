"""Writes docs/api.md from the docstrings; with --check it says whether the page is up to date."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import colonnade

PAGE = Path(__file__).resolve().parent / "api.md"

HEAD = """# Python

This page is written by `python docs/write_api.py` from the docstrings; a test compares it with them. `import colonnade
as cn`; the [tutorial](tutorial.md) shows what follows what. Every object prints as text, and shows itself as tables and
pictures in a notebook. What is refused raises a `ColonnadeError` whose text is one sentence; nothing is spent then.
Notebooks: a [first study](../notebooks/first_study.ipynb),
[choosing epsilon, bounds and bins](../notebooks/choosing.ipynb),
[one release, many questions](../notebooks/many_questions.ipynb).

| a plan in a notebook | a release's tables |
|---|---|
| ![A plan in a notebook](pictures/notebook-first-study.png) | ![Tables](pictures/notebook-many-questions.png) |
"""
OBJECTS = {
    "Study": "The study",
    "Party": "A party",
    "Plan": "A plan, and rehearsals",
    "Release": "A release",
    "Model": "A model",
}
SHOWN = {
    "Plan": ("PlanComparison", "StudyRehearsal", "ExpectedRange"),
    "Release": ("ReleasedTables", "SyntheticRows", "PrincipalComponents"),
    "Model": ("ModelSummary", "ModelEvaluation"),
}
"""What methods give, beside the object that has them."""
HOMES = ("plan", "views", "model", "release")
OLD = "The old spelling"
COLUMNS = ("Numeric", "Categorical", "Binary", "Boolean", "Date", "Schema")
ESTIMATORS = ("VerticalLinearRegression", "VerticalLogisticRegression", "VerticalPoissonRegressor")
MADE = ("Study", "Party", *COLUMNS, ESTIMATORS[0])
"""What a reader makes; others come from methods, or take the parameters of the first estimator."""


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/api.md is out of date: run python docs/write_api.py")
    else:
        PAGE.write_text(text, encoding="utf-8")


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for name, title in OBJECTS.items():
        parts.append(f"## {title}\n")
        parts += list(_class(name, getattr(colonnade, name)))
        for beside in SHOWN.get(name, ()):
            parts += list(_class(beside, _found(beside)))
    parts.append("## Columns\n\nWhat is publicly known of a column; bounds and levels are never computed from data.\n")
    for name in COLUMNS:
        parts += list(_class(name, getattr(colonnade, name), methods=False))
    parts.append("## scikit-learn estimators\n")
    for name in ESTIMATORS:
        parts += list(_class(name, getattr(colonnade, name)))
    simulation = import_module("colonnade.simulation")
    parts.append(f"## colonnade.simulation\n\n{inspect.getdoc(simulation)}\n")
    for name in simulation.__all__:
        member = getattr(simulation, name)
        parts.append(f"### `simulation.{name}{_signature(member)}`\n\n{_text(inspect.getdoc(member) or '')}")
    return "\n".join(parts).rstrip() + "\n"


def _found(name: str) -> Any:
    for home in HOMES:
        module = import_module(f"colonnade.api.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


def _class(name: str, found: Any, *, methods: bool = True) -> Iterator[str]:
    yield f"### `{name}{_signature(found) if name in MADE else ''}`\n"
    yield _text(inspect.getdoc(found) or "")
    for method, member in sorted(vars(found).items()) if methods else ():
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if method.startswith("_") or (inspect.getdoc(inner) or "").startswith(OLD):
            continue
        if isinstance(inner, property) or type(member).__name__ == "cached_property":
            told = inspect.getdoc(inner if isinstance(inner, property) else member.func)
            if told:
                yield f"#### `{name}.{method}`\n"
                yield _text(told)
        elif inspect.isfunction(inner):
            yield f"#### `{name}.{method}{_signature(inner)}`\n"
            yield _text(inspect.getdoc(inner) or "")


def _signature(found: Any) -> str:
    """Parameters without their types, which the text tells."""
    kept = []
    starred = False
    for name, parameter in inspect.signature(found).parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            kept.append("*")
            starred = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        kept.append(f"{mark}{name}{default}")
    return f"({', '.join(kept)})"


def _default(value: Any) -> str:
    return repr(value) if isinstance(value, (str, int, float, tuple, type(None))) else "..."


def _text(doc: str) -> str:
    """A numpydoc text as Markdown: its sections are lists."""
    out: list[str] = []
    section = False
    lines = doc.splitlines()
    for k, line in enumerate(lines):
        if set(line) == {"-"} and k:
            continue
        if k + 1 < len(lines) and line and set(lines[k + 1]) == {"-"}:
            section = True
            out += [] if line == "Parameters" else [f"**{line}**", ""]
        elif section and line and not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            kind = kind.replace(", optional", "")  # the signature has the default
            out.append(f"- `{name}`" + (f": {_plain(kind)}" if kind not in ("", "optional") else ""))
        elif section and line:
            out.append(f"  {_plain(line.strip())}")
        else:
            out.append(_plain(line) if not re.match(r"[\w, ]+ : ", line) else _listed(line))
    return "\n".join(out).rstrip() + "\n"


def _listed(line: str) -> str:
    name, _, told = line.partition(" : ")
    return f"- `{name}`: {_plain(told)}"


def _plain(text: str) -> str:
    """Braces and stars that Markdown would take for its own."""
    return text.replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    main()
