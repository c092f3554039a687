"""Every line of the paper's Algorithm 1 is tagged where it happens, and it happens there in a default session."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
import polars as pl

import colonnade
from colonnade.analysis.solve import solve
from colonnade.data.table import table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded

SOURCE = Path(colonnade.__file__).parent
TAG = re.compile(r"Alg\. 1, lines? (\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)")
LINES = range(1, 18)


def tagged(text: str) -> set[int]:
    """The lines that a text's tags name: "line 3", "lines 4-9 and 12"."""
    out: set[int] = set()
    for match in TAG.finditer(text):
        for part in re.findall(r"(\d+)(?:-(\d+))?", match[1]):
            out |= set(range(int(part[0]), int(part[1] or part[0]) + 1))
    return out


@dataclass(frozen=True)
class Tagged:
    """A function with a tag in it, by its file and the line on which its code starts."""

    file: str
    start: int
    name: str
    lines: frozenset[int]


def functions_of(text: str, file: str) -> Iterator[Tagged]:
    """The innermost function around each tag of a module; a tag outside of all stands under no name."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for number, line in enumerate(text.splitlines(), 1):
        if lines := tagged(line):
            around = [n for n in found if _start(n) <= number <= (n.end_lineno or 0)]
            inner = max(around, key=_start, default=None)
            yield Tagged(file, _start(inner) if inner else 0, inner.name if inner else "", frozenset(lines))


def _start(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


@cache
def tags() -> tuple[Tagged, ...]:
    out: list[Tagged] = []
    for path in sorted(SOURCE.rglob("*.py")):
        out += functions_of(path.read_text(encoding="utf-8"), str(path))
    return tuple(out)


@cache
def called() -> frozenset[tuple[str, int]]:
    """All functions that run in a default session of three parties and in making a model of its release."""
    draw = np.random.default_rng(5)
    columns = {p: {f"{p}{i}": Numeric(-1, 1) for i in range(2)} for p in "abc"}
    columns["a"]["y"] = Binary(("no", "yes"))  # type: ignore[assignment]
    tables = {}
    for party, own in columns.items():
        values = {n: draw.choice(["no", "yes"], 40) if n == "y" else draw.uniform(-1, 1, 40) for n in own}
        tables[party] = table_from(party, pl.DataFrame(values), own, [f"i{i}" for i in range(40)])
    agreement = Agreement.from_terms("lines", Schema(columns), "a.y", Task.LOGISTIC, epsilon=1.0)
    assert agreement == Agreement.from_terms("lines", Schema(columns), "a.y", Task.LOGISTIC, 1.0), (
        "all else is as by default"
    )
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        release = run_unguarded(agreement, tables, randomness=Randomness(b"lines")).release
        solve(release.moments(), Task.LOGISTIC)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return frozenset((code.co_filename, code.co_firstlineno) for code in seen)


def test_tags_are_read() -> None:
    assert tagged("# Alg. 1, line 3") == {3}
    assert tagged("Alg. 1, lines 4-6 and 12") == {4, 5, 6, 12}
    assert tagged("line 3") == set()
    inner = "    def g():  # Alg. 1, line 2\n        pass\n"
    text = f'"""Alg. 1, line 1"""\n@cache\ndef f():\n{inner}    x = 1  # Alg. 1, line 3\n'
    assert [(t.name, t.start, set(t.lines)) for t in functions_of(text, "")] == [
        ("", 0, {1}),
        ("g", 4, {2}),
        ("f", 2, {3}),
    ]


def test_every_line_of_algorithm_1_is_tagged_in_a_function() -> None:
    assert [t.file for t in tags() if not t.name] == []
    named = set().union(*(t.lines for t in tags()))
    assert named == set(LINES)
    places = {line: {Path(t.file).name for t in tags() if line in t.lines} for line in LINES}
    # Each step stands in the room that the architecture gives it.
    assert {"objective.py", "dissection.py"} <= places[1] and "dissection.py" in places[2] and "plan.py" in places[3]
    assert {"blocks.py", "gate.py"} <= places[6] and "blocks.py" in places[7] and "fit.py" in places[12]
    assert "party.py" in places[13] and "fit.py" in places[16] and "solve.py" in places[17]


def test_what_is_tagged_runs_in_a_default_session() -> None:
    idle = [f"{Path(t.file).name}: {t.name}" for t in tags() if (t.file, t.start) not in called()]
    assert idle == []
    # The search knows a function that does not run: the paper's own objective.
    text = (SOURCE / "mechanism" / "objective.py").read_text(encoding="utf-8")
    starts = {n.name: _start(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}
    file = str(SOURCE / "mechanism" / "objective.py")
    assert (file, starts["exact_objective"]) in called() and (file, starts["paper_objective"]) not in called()
