"""Studies unlike the demo through every command: each does its work, or refuses in a sentence of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.helpers.cli_study import Run, runner

PEOPLE = 400
NUMBER, YES = '{ kind = "numeric", low = -3, high = 3 }', '{ kind = "binary", levels = ["no", "yes"] }'
SORT = '{ kind = "categorical", levels = ["a", "b", "c"] }'
SHAPES = {
    "numbers, linear": ("linear", "a.y", {"a": {"y": NUMBER, "x": NUMBER}, "b": {"u": NUMBER}}, ""),
    "numbers, logistic": ("logistic", "a.z", {"a": {"z": YES, "x": NUMBER}, "b": {"u": NUMBER}}, ""),
    "one party": ("linear", "a.y", {"a": {"y": NUMBER, "x": NUMBER, "c": SORT}}, ""),
    "one column beside the label": ("logistic", "a.z", {"a": {"z": YES}, "b": {"u": NUMBER}}, ""),
    "levels alone": ("logistic", "a.z", {"a": {"z": YES}, "b": {"c": SORT, "v": YES}}, ""),
    "all columns, mixed": (
        "linear",
        "a.y",
        {"a": {"y": NUMBER, "c": SORT}, "b": {"u": NUMBER, "v": YES}},
        'purpose = "all"',
    ),
    "interactions": (
        "linear",
        "a.y",
        {"a": {"y": NUMBER, "x": NUMBER}, "b": {"u": NUMBER, "c": SORT}},
        'interactions = [["a.x", "b.u"], ["a.x", "b.c"]]',
    ),
    "an interaction with levels alone": (
        "logistic",
        "a.z",
        {"a": {"z": YES, "x": NUMBER}, "b": {"v": YES}},
        'interactions = [["a.x", "b.v"]]',
    ),
    "all columns, an interaction": (
        "logistic",
        "a.z",
        {"a": {"z": YES, "c": SORT}, "b": {"u": NUMBER, "v": YES}},
        'purpose = "all"\ninteractions = [["a.c", "b.u"]]',
    ),
}


def write(folder: Path, shape: str) -> Path:
    task, label, parties, more = SHAPES[shape]
    draw = np.random.default_rng(3)
    x, u = draw.normal(size=(2, PEOPLE)).clip(-3, 3)
    c = draw.choice(["a", "b", "c"], PEOPLE)
    y = (x + u * x + (c == "b") + draw.normal(size=PEOPLE)).clip(-3, 3)
    known = {"x": x, "u": u, "c": c, "y": y, "z": np.where(y > 0, "yes", "no"), "v": np.where(u > 0, "yes", "no")}
    text = f'[study]\nname = "odd"\ntask = "{task}"\nlabel = "{label}"\nepsilon = 20.0\nalignment = "none"\n{more}\n'
    for party, columns in parties.items():
        pl.DataFrame({name: known[name] for name in columns}).write_csv(folder / f"{party}.csv")
        text += f'[party.{party}]\ndata = "{party}.csv"\n[party.{party}.columns]\n'
        text += "".join(f"{name} = {kind}\n" for name, kind in columns.items())
    place = folder / "study.toml"
    place.write_text(text)
    return place


@pytest.mark.parametrize("shape", SHAPES)
def test_every_command_works_or_says_why_not(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run: Run = runner(monkeypatch, capfd)
    study, release, model = write(tmp_path, shape), tmp_path / "release.json", tmp_path / "model.json"
    data = [part for party in SHAPES[shape][2] for part in ("--data", tmp_path / f"{party}.csv")]
    label = SHAPES[shape][1].split(".")[1]
    steps: dict[str, list[object]] = {
        "plan": ["plan", study, "--rows", PEOPLE],
        "plan as JSON": ["plan", study, "--rows", PEOPLE, "--json"],
        "plan as a page": ["plan", study, "--rows", PEOPLE, "--html", tmp_path / "plan.html"],
        "plans compared": ["plan", study, "--rows", PEOPLE, "--compare", "epsilon=1,10"],
        "rehearse": ["rehearse", study, "--records", PEOPLE, "--releases", 4],
        "fit": ["fit", study, "--out", release, "--model", model],
        "solve": ["solve", release],
        "solve for another label": ["solve", release, "--label", next(n for n in "xucv" if n != label)],
        "tables": ["tables", release],
        "components": ["components", release],
        "synthesize": ["synthesize", release, "--rows", 50, "--out", tmp_path / "rows.csv"],
        "report": ["report", release, "--html", tmp_path / "report.html"],
        "predict": ["predict", model, *data, "--out", tmp_path / "scores.csv"],
    }
    needed = {"plan", "plan as JSON", "plan as a page", "plans compared", "fit", "solve", "tables", "report"}
    refused = set()
    for step, arguments in steps.items():
        done = run(*arguments)
        said = done.out + done.err
        assert "this is a bug" not in said and "Traceback" not in said, f"{step}: {said}"
        assert done.code in (0, 1), f"{step}: {said}"
        if done.code:
            refused.add(step)
            assert done.err.strip(), step
            if step == "fit":
                break
    if not ('purpose = "all"' in SHAPES[shape][3] and "interactions" in SHAPES[shape][3]):
        assert not refused & needed, refused
