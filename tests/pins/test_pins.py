"""What was computed stays what it was: every interface's JSON, coefficients, intervals, tables and drawn rows.

Releases are those of the corpus, one for each way in which a model is made of one; answers are kept beside them. After
a change that is meant, `python -m tests.pins.test_pins` writes them anew: say in the changelog what changed.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.foundation.canonical import canonical_json
from tests.pins.studies import STUDIES, read_lines, write_lines, write_study

NEAR = 1e-7
"""Of numbers, beside 1 or their size: the last digits of a solver are those of the machine that it ran on."""
SAMPLED, NEARBY = ("distance", "misfit"), 0.02
"""What is measured on drawn rows: where a last digit differs a draw may go the other way, as on two machines by .2%."""
PASSING = ("seconds", "steps", "time", "session", "transcript_digest", "colonnade")
"""Keys whose values differ from run to run."""
EACH = ("report r", "tables r", "components r", "solve r")
FIT = "fit study.toml --seed 07 --out f --force"
ROWS = "synthesize r --rows 25 --out rows.csv --anyway"
MORE = {
    "logistic": (
        FIT,
        "solve r --ridge 0.05",
        "solve r --method raw",
        "solve r --method zhang",
        "solve r --penalty lasso",
        "solve r --penalty elastic-net --ridge 0.01",
        "solve r --path",
        "solve r --features x,c",
        "solve r --label c",
        "solve r --label c=g",
        "solve r --label x --task linear",
        "tables r c k",
        "predict m --data a=a.csv --data b=b.csv --data d=d.csv --out s.csv",
        "predict m --study study.toml --to a",
        "evaluate study.toml m --plan --epsilon 2",
        "plan study.toml --rows 5000 --compare epsilon=1,2 --compare release=label,full",
    ),
    "line": ("solve r --numbers x", "solve r --penalty lasso"),
    "linear": (
        "solve r --ridge 0.1",
        "solve r --method zhang",
        "solve r --label u",
        "solve r --penalty lasso",
        "solve r --path",
    ),
    "gaussian": (FIT, ROWS, "solve r --features u", "solve r --label c"),
    "classes": (FIT, "solve r --ridge 0.1", "solve r --penalty lasso", "solve r --label c=g --task logistic"),
    "counts": ("plan study.toml", "solve r --task poisson", "solve r --task poisson --penalty lasso"),
    "label": ("plan study.toml",),
    "tables": ("synthesize r --rows 25 --out rows.csv --given k=yes", "tables r c u"),
    "margins": (
        ROWS,
        "solve r --ridge 0.1",
    ),
    "quartic": (FIT, "solve r --features x", "solve r --ridge 0.1"),
    "objective": (
        FIT,
        "plan study.toml",
        ROWS,
        "solve r --ridge 0.1",
    ),
    "paper": ("solve r --ridge 0.1",),
    "products": (ROWS, "solve r --features x,u", "solve r --penalty lasso"),
}


def ask(folder: Path, text: str) -> dict[str, Any]:
    """What a command prints as JSON, and writes; or the sentence that it refuses with."""
    told = CliRunner().invoke(app, [*text.split(), "--json"])
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        return {"refused": f"{type(told.exception).__name__}: {told.exception}"}
    found = {"answer": json.loads(told.stdout)} if told.exit_code == 0 else {"refused": told.stderr}
    for name in ("rows.csv", "s.csv"):
        if f"--out {name}" in text and (folder / name).exists():
            found[name] = [[number(cell) for cell in line.split(",")] for line in (folder / name).open()]
    return found


def number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def answers(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every question about one study and its release, with the answer."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(place)
        try:
            write_study(Path(place), name)
            Path("m").write_text(read_lines("models")[0] + "\n")
            Path("r").write_text(read_lines("releases")[list(STUDIES).index(name)] + "\n")
            for text in (*EACH, *MORE.get(name, ())):
                yield text, ask(Path(place), text)
        finally:
            os.chdir(before)


def differences(found: Any, kept: Any, place: str = "") -> Iterator[str]:
    """Where two answers are not the same, numbers but for their last digits."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for key in sorted(found.keys() | kept.keys()):
            if key not in found or key not in kept:
                yield f"{place}.{key} is {'new' if key in found else 'gone'}"
            elif key not in PASSING:
                yield from differences(found[key], kept[key], f"{place}.{key}")
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for i, (one, other) in enumerate(zip(found, kept, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif isinstance(found, float) and isinstance(kept, (int, float)):
        near = NEARBY if place.rpartition(".")[2] in SAMPLED else NEAR
        if not math.isclose(found, kept, rel_tol=near, abs_tol=NEAR):
            yield f"{place}: {found!r} for {kept!r}"
    elif found != kept:
        yield f"{place}: {found!r} for {kept!r}"


@pytest.mark.parametrize("name", STUDIES)
def test_answers_are_what_they_were(name: str) -> None:
    kept = {(one["study"], one["asked"]): one["found"] for one in map(json.loads, read_lines("answers"))}
    asked = list(answers(name))
    assert {text for _, text in kept if _ == name} == {text for text, _ in asked}
    wrong = [
        f"{text}: {line}"
        for text, found in asked
        for line in differences(json.loads(json.dumps(found)), kept[name, text])
    ]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("change", [1e-6, 1.0])
def test_a_changed_number_is_noticed(change: float) -> None:
    kept = {"model": {"coefficients": [0.5, 2.0]}}
    assert not list(differences({"model": {"coefficients": [0.5, 2.0 + 1e-12]}}, kept))
    assert list(differences({"model": {"coefficients": [0.5, 2.0 + 2 * change]}}, kept)) == [
        f".model.coefficients[1]: {2.0 + 2 * change!r} for 2.0"
    ]


def write_all() -> None:
    """Keep today's answers."""
    lines = [{"study": name, "asked": text, "found": found} for name in STUDIES for text, found in answers(name)]
    write_lines("answers", (canonical_json(line, escaped=False) for line in lines))


if __name__ == "__main__":
    sys.exit(write_all())
