"""Random combinations of a study's options, each walked from plan to evaluation: a result or a sentence, no traceback.

Every study that its plan accepts is fitted, solved, tabulated, drawn from, shown as pages and evaluated, in Python and
by the command line. What a plan accepts must fit and have a model: a refusal after the spend counts as found, too.

    python -m drills combinations --studies 150 --seed 0 --json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.studio.form import to_toml

ROWS = 200
TEN = {"kind": "numeric", "low": 0, "high": 10}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "number": TEN,
    "cut": {**TEN, "bins": [3, 6]},
    "line": {**TEN, "bins": [3, 6], "model": "number"},
    "whole": {**TEN, "integer": True},
    "money": {**TEN, "high": 100000},
    "filled": {**TEN, "fill": 5},
    "three": {"kind": "categorical", "levels": ["0", "1", "2"], "other": True, "drop": "1"},
    "yes": {"kind": "binary", "levels": ["0", "1"]},
    "truth": {"kind": "boolean", "fill": True},
    "day": {"kind": "date", "earliest": "2020-01-01", "latest": "2024-12-31"},
    "days": {"kind": "date", "earliest": "2020-01-01", "latest": "2024-12-31", "bins": ["2021-06-01"]},
}
LABELS = {"logistic": ("yes", "truth"), "linear": ("number", "whole"), "multinomial": ("three", "cut")}
FIXED: tuple[Mapping[str, Any], ...] = (
    {"order": 4, "interval": 3.0},
    {"order": 4, "ball": 1.5},
    {"calibration": "paper"},
    {"calibration": "paper", "interactions": [["a.c", "b.u"]]},
    {"task": "multinomial", "label": "a.c", "label_square": True},
)
"""Walked first: each ended otherwise once."""

Content = dict[str, Any]
Ending = tuple[str, str]
"""Whether a step is done, said a sentence or broke, and how."""


def draw(seed: int) -> tuple[Content, dict[str, pl.DataFrame]]:
    """A study as its file has it, and records of its parties; negative seeds are the fixed ones."""
    rng = np.random.default_rng(abs(seed))
    if seed < 0:
        kinds = {"a": {"c": "three", "x": "number", "y": "yes"}, "b": {"u": "number"}}
        terms = {"task": "logistic", "label": "a.y", "epsilon": 10.0, "product": "plain", **FIXED[-seed - 1]}
        return _study(terms, kinds, rng)

    def one(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    kinds = {p: {f"{p}{j}": one(*KINDS) for j in range(one(1, 2, 3))} for p in "abc"[: one(1, 2, 2, 3)]}
    names = [f"{p}.{c}" for p, columns in kinds.items() for c in columns]
    task = one("logistic", "logistic", "linear", "multinomial")
    kinds["a"]["y"] = one(*LABELS[task])
    terms = {"task": task, "label": "a.y", "epsilon": one(0.1, 1.0, 100.0), "delta": one(0.0, 0.0, 1e-6)}
    terms |= {"product": one("plain", "plain", "lattice"), "collusion": int(rng.integers(0, len(kinds)))}
    options = {
        "release": one("full", "label", "trace", "margins", "pairs"),
        "purpose": "all",
        "calibration": "paper",
        "order": 4,
        "interval": 3.0,
        "ball": 1.5,
        "numeric": one("auto", "declared"),
        "rows": ROWS,
        "label_square": True,
        "interactions": [sorted({one(*names), one(*names)}) * one(1, 1, 2)],
        "impossible": [["a0=1", "y=1"]],
    }
    chosen = [key for key in options if rng.random() < 0.22]
    if "interval" in chosen or "ball" in chosen:
        chosen.append("order")
    terms |= {key: options[key] for key in chosen}
    if terms.get("release") == "pairs":
        terms["pairs"] = [[one(*names), one(*names)]]
    return _study(terms, kinds, rng)


def _study(
    terms: Content, kinds: Mapping[str, Mapping[str, str]], rng: np.random.Generator
) -> tuple[Content, dict[str, pl.DataFrame]]:
    parties = {
        party: {"data": f"{party}.csv", "columns": {name: dict(KINDS[kind]) for name, kind in columns.items()}}
        for party, columns in kinds.items()
    }
    frames = {
        party: pl.DataFrame({name: _values(rng, kind) for name, kind in columns.items()})
        for party, columns in kinds.items()
    }
    return {"study": {"name": "drawn", "alignment": "none", **terms}, "party": parties}, frames


def _values(rng: np.random.Generator, kind: str) -> Any:
    if kind in ("three", "yes", "truth"):
        return rng.choice(["0", "1", "2", "else"] if kind == "three" else ["0", "1"], ROWS)
    whole = rng.integers(0, 11, ROWS)
    if kind in ("day", "days"):
        return [f"2021-{1 + k:02}-15" for k in whole]
    return whole * (7000.0 if kind == "money" else 1.0)


class _Walk:
    """Steps with how each of them ended."""

    def __init__(self) -> None:
        self.ended: dict[str, Ending] = {}

    def step(self, name: str, ask: Callable[[], Any]) -> Any:
        try:
            found = ask()
            self.ended[name] = ("done", "")
            return found
        except cn.ColonnadeError as error:
            self.ended[name] = ("says", str(error))
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            self.ended[name] = (
                "broke",
                f"{type(error).__name__}: {str(error)[:80]} ({Path(at.filename).name}:{at.lineno})",
            )
        return None

    def command(self, *arguments: object) -> Any:
        """A command's JSON; its sentence or its failure is raised."""
        told = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        if told.exception is not None and not isinstance(told.exception, SystemExit):
            raise told.exception
        if told.exit_code:
            raise RuntimeError(f"exit status {told.exit_code}: {told.stderr.strip()[-80:]}")
        return json.loads(told.stdout)


def walk(seed: int, folder: Path, *, quick: bool = False) -> tuple[dict[str, Ending], Content]:
    """One study through every step, from Python and by the command line; how each step ended.

    `quick` leaves out what takes longest and is asked once more by another step.
    """
    content, frames = draw(seed)
    file, walked = folder / "study.toml", _Walk()
    file.write_text(to_toml(content))
    for party, frame in frames.items():
        frame.write_csv(folder / f"{party}.csv")
    step, command = walked.step, walked.command
    study = step("study", lambda: cn.Study.read(file))
    told = step("plan by command", lambda: command("plan", file, "--rows", ROWS))
    plan = None if study is None else step("plan", lambda: study.plan(rows=ROWS))
    if plan is None or told is None:
        return walked.ended, content
    if told["terms_digest"] != plan.digest:
        walked.ended["plan"] = ("broke", "the command's plan has another digest than Python's")
    if not quick:
        step("page before", lambda: plan.report(folder / "plan.html"))
    release = step("fit", lambda: study.fit(seed=abs(seed), rows=ROWS, progress=False))
    if release is not None:
        step("tables", lambda: release.tables().to_dict())
        step("components", release.components)
        step("rows", lambda: release.synthesize(50, anyway=True))
        step("page", lambda: release.report(folder / "page.html"))
    if release is not None and not quick:
        step("lasso", lambda: release.solve(penalty="lasso"))
    model = None if release is None else step("solve", release.solve)
    if model is not None:
        terms = {"release": release, "rows": ROWS, "epsilon": 1.0, "out": folder / "e.json", "force": True}
        step("evaluate", lambda: study.evaluate(model, **terms, progress=False))
    opened, solved = folder / "r.json", folder / "m.json"
    known = ("--rows", ROWS, "--out", opened, "--model", solved, "--force", "--seed", "00")
    if step("fit by command", lambda: command("fit", file, *known)) is not None:
        step("solve by command", lambda: command("solve", opened))
        step("tables by command", lambda: command("tables", opened))
        step("report by command", lambda: command("report", opened, "--html", folder / "r.html"))
        asked = ("--release", opened, "--rows", ROWS, "--epsilon", 1, "--out", folder / "f.json", "--force")
        step("evaluate by command", lambda: command("evaluate", file, solved, *asked))
    return walked.ended, content


SPENT = ("fit", "solve", "fit by command")
"""Steps that must be done where the plan was shown: a refusal here comes after the spend, or after a false promise."""


def faults(ended: Mapping[str, Ending]) -> list[str]:
    """What is wrong with how a study's steps ended."""
    planned = ended.get("plan", ("", ""))[0] == "done"
    late = [
        f"{name}: accepted before, then {how}"
        for name, (what, how) in ended.items()
        if what == "says" and planned and name in SPENT
    ]
    return [*(f"{name}: {how}" for name, (what, how) in ended.items() if what == "broke"), *late]


def search(studies: int, seed: int, tell: Callable[[str], None] = lambda text: None, *, quick: bool = False) -> Content:
    """Draw studies until so many are accepted; what was found, with the seeds that show it."""
    accepted, drawn, found = 0, 0, dict[str, list[int]]()
    at = seed if seed else -len(FIXED)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while accepted < studies:
            ended, content = walk(at, Path(folder), quick=quick)
            accepted += ended.get("plan", ("", ""))[0] == "done"
            for fault in faults(ended):
                if fault not in found:
                    tell(f"seed {at}: {fault}\n  {json.dumps(content['study'])}")
                found.setdefault(fault, []).append(at)
            drawn, at = drawn + 1, at + 1
    return {"accepted": accepted, "drawn": drawn, "found": found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=150, help="how many to accept")
    parser.add_argument("--seed", type=int, default=0, help="the first one; 0 begins with the fixed combinations")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    out = search(asked.studies, asked.seed, lambda text: print(text, file=sys.stderr, flush=True))
    told = f"{out['accepted']} studies accepted by their plan, of {out['drawn']} drawn; {len(out['found'])} faults"
    print(json.dumps(out, indent=2) if asked.json else told)
    return bool(out["found"])


if __name__ == "__main__":
    sys.exit(main())
