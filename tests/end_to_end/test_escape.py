"""A derived column that would leave its bounds: no record stands out of the release, and none ends the session."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.foundation.columns import Column
from colonnade.foundation.derived import derive_columns
from colonnade.foundation.expressions import expression_bounds, parse_expression
from tests.helpers.cli_study import Run, runner

ROWS, EPSILON, FARTHEST = 400, 0.01, 40.0
"""Two draws of noise stay within 40 standard deviations of each other but once in 10^15 times."""
NUMBER = '{ kind = "numeric", low = -1, high = 1 }'


def lifted() -> tuple[float, float, float]:
    """A bound of income, the derived bound of its logarithm, and by how much numpy's passes it: an ulp, if any does."""
    for high in range(90_000, 99_999):
        known = expression_bounds(parse_expression("log1p(x)"), {"x": (0.0, float(high))})[1]
        more = float(np.log1p(np.full(ROWS, float(high)))[0]) - known
        if more > 0:
            return float(high), known, more
    return 90_000.0, known, math.ulp(11.0)


HIGH, BOUND, ULP = lifted()
KNOT = f"{BOUND:.17g}"
ESCAPES = {
    # Coded as 2^16: a copy of 16 bits would wrap to 0, and the sum would not.
    "an ulp that wraps": f"hinge(log1p(income), {KNOT}) * {(65536 * 60 / 7 + 20) / ULP:.17g} + age",
    "an ulp": f"hinge(log1p(income), {KNOT}) * {(655.36 * 60 / 7 + 20) / ULP:.17g} + age",
    "no number": "hinge(income * 1e308, 0) * 0 + age",
    "no number, in bins": "hinge(income * 1e308, 0) * 0 + age",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def frames(top: float, parties: int) -> dict[str, pl.DataFrame]:
    y = np.arange(ROWS) % 2
    own: dict[str, Any] = {"age": [40.0] * ROWS, "income": [top] + [0.0] * (ROWS - 1)}
    if parties == 1:
        return {"a": pl.DataFrame(own | {"y": y})}
    return {"a": pl.DataFrame(own), "b": pl.DataFrame({"y": y, "x": 0 * y})}


def by_command(folder: Path, run: Run, what: str, top: float, parties: int) -> dict[str, Any]:
    for name, frame in frames(top, parties).items():
        frame.write_csv(folder / f"{name}.csv")
    cut = f'{{ of = "{ESCAPES[what]}", bins = [30, 90] }}' if "bins" in what else f'"{ESCAPES[what]}"'
    label = "ab"[parties - 1]
    text = f'[study]\nname="e"\ntask="linear"\nlabel="{label}.y"\nepsilon={EPSILON}\nrelease="full"\nalignment="none"\n'
    text += '[party.a]\ndata="a.csv"\n[party.a.columns]\nage={kind="numeric",low=0,high=120}\n'
    text += f'income={{kind="numeric",low=0,high={HIGH}}}\n' + (f"y={NUMBER}\n" if parties == 1 else "")
    text += f"[party.a.derived]\nd={cut}\n"
    text += f'[party.b]\ndata="b.csv"\n[party.b.columns]\ny={NUMBER}\nx={NUMBER}\n' if parties == 2 else ""
    (folder / "study.toml").write_text(text)
    done = run("fit", "study.toml", "--out", "r.json", "--force")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return found


def by_python(folder: Path, run: Run, what: str, top: float, parties: int) -> dict[str, Any]:
    kinds: dict[str, Column] = {"age": cn.Numeric(0, 120), "income": cn.Numeric(0, HIGH)}
    derived = {"d": {"of": ESCAPES[what], "bins": [30, 90]} if "bins" in what else ESCAPES[what]}
    given = {
        name: cn.Party(
            frame,
            {column: kinds.get(column, cn.Numeric(-1, 1)) for column in frame.columns},
            **({"derived": derived} if name == "a" else {}),
        )
        for name, frame in frames(top, parties).items()
    }
    study = cn.Study(f"{'ab'[parties - 1]}.y", given, epsilon=EPSILON, release="full", alignment="none")
    study.fit(folder / "r.json", force=True, progress=False)
    found: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return found


def apart(one: dict[str, Any], two: dict[str, Any]) -> float:
    """The largest difference of a released number, in standard deviations of its noise."""
    found = 0.0
    for a, b in zip(one["blocks"], two["blocks"], strict=True):
        stds = [std for many, std in a["std"] for _ in range(many)]
        for v, w, std in zip(a["values"], b["values"], stds, strict=True):
            found = max(found, abs(int(v) - int(w)) / int(a["unit"]) / float(std))
    return found


@pytest.mark.parametrize("door", [by_command, by_python])
@pytest.mark.parametrize("parties", [1, 2])
@pytest.mark.parametrize("what", ESCAPES)
def test_one_record_neither_stands_out_nor_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, door: Any, parties: int, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    poor, rich = (door(tmp_path, run, what, top, parties) for top in (0.0, HIGH))
    assert apart(poor, rich) < FARTHEST


def test_the_columns_are_such_that_they_would_leave_their_bounds() -> None:
    columns: dict[str, Column] = {"age": cn.Numeric(0, 120), "income": cn.Numeric(0, HIGH)}
    values = {"age": np.full(ROWS, 40.0), "income": np.full(ROWS, HIGH)}
    aimed = float(np.log1p(np.full(ROWS, HIGH))[0]) > BOUND
    for what in ("an ulp that wraps", "no number") if aimed else ("no number",):
        (column,) = derive_columns({"d": ESCAPES[what]}, columns, "derived").values()
        low, high = column.require_bounds()
        assert not (low <= float(column.compute(values, columns)[0]) <= high)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_score_that_is_no_number_does_not_end_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, parties: int
) -> None:
    """One record's derived column is no number, and so is its weighted sum."""
    monkeypatch.chdir(tmp_path)
    by_command(tmp_path, run, "no number", HIGH, parties)
    assert run("solve", "r.json", "--out", "m.json").code == 0
    done = run("evaluate", "study.toml", "m.json", "--epsilon", "1", "--json")
    assert done.code == 0, done.err
