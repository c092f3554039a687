"""From three files to a model in five commands, at a terminal, by answering with public facts alone."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.study import read_study
from tests.helpers.cli_study import Run, runner

ROWS = 1500
PATIENCE = 180.0
"""Seconds for one question or the end of a command, on a machine that may be busy."""
KEY_ANSWERS = {
    r"Column to be predicted": "clinic.readmitted",
    r"Epsilon, the privacy budget of a whole record": "4",
    r"About how many records": str(ROWS),
    r"column that names a person": "",
    r"registry\.district has few whole numbers": "y",
    r"registry\.district \(text": "1, 2, 3, 4",
    r"has few whole numbers": "n",
    r"clinic\.age": "0 120",
    r"clinic\.admitted": "2024-01-01 2024-12-31",
    r"clinic\.readmitted": "",
    r"registry\.income": "0 200000",
    r"registry\.remark": "-",
    r"insurer\.visits": "0 40",
    r"insurer\.plan": "basic, plus, ...",
}


def write_files(folder: Path) -> None:
    """Three files about overlapping people: made-up data that the demo does not have, as experiments make theirs."""
    draw = np.random.default_rng(31)
    ids = np.array([f"n{k:05d}" for k in range(ROWS + 60)])
    age, visits = draw.integers(18, 95, len(ids)), draw.poisson(6, len(ids))
    district, income = draw.integers(1, 5, len(ids)), draw.gamma(4, 9000, len(ids)).round(2)
    plan = draw.choice(["basic", "plus", "top"], len(ids))
    score = (age - 55) / 12 + (visits - 6) / 2 + (district == 3) - 0.5 + draw.logistic(size=len(ids))
    day = np.datetime64("2024-01-01") + draw.integers(0, 366, len(ids))
    clinic = {"patient": ids, "age": age, "admitted": day.astype(str), "readmitted": score > 0}
    registry = {"person_id": ids, "district": district, "income": income, "remark": [f"note {k}" for k in ids]}
    insurer = {"client": ids, "visits": visits, "plan": plan}
    for start, (name, columns) in enumerate((("clinic", clinic), ("registry", registry), ("insurer", insurer))):
        order = draw.permutation(len(ids))[20 * start :]
        pl.DataFrame(columns)[order.tolist()].write_csv(folder / f"{name}.csv")


class Terminal:
    """A command on a pseudo-terminal, and a person who answers its questions."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._end, inner = pty.openpty()
        environment = {**os.environ, "COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "colonnade.cli", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
        )
        os.close(inner)
        self.text = ""

    def answer(self, answers: dict[str, str]) -> int:
        """Answer each question by the first pattern that is in it, until the command ends."""
        answered = 0
        while (found := self._read()) is not None:
            self.text += found
            # A question is what stands on a line that is not ended.
            asked = re.sub(r"\s+", " ", self.text[answered:].replace("\r", "").rpartition("\n")[2])
            if asked.endswith(": "):
                said = next((said for pattern, said in answers.items() if re.search(pattern, asked)), None)
                assert said is not None, f"nobody expected the question {asked!r}"
                answered = len(self.text)
                os.write(self._end, f"{said}\n".encode())
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> str | None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if select.select([self._end], [], [], 1.0)[0]:
                try:
                    found = os.read(self._end, 1 << 16)
                except OSError:
                    return None
                return found.decode() if found else None
            if self.process.poll() is not None:
                return None
        raise AssertionError(f"no answer within {PATIENCE} s: {self.text}")


def test_three_files_to_a_model_in_five_commands(tmp_path: Path) -> None:
    write_files(tmp_path)
    study = "stay/study.toml"

    first = Terminal(tmp_path, "new", "stay", "clinic.csv", "registry.csv", "insurer.csv")
    assert first.answer(KEY_ANSWERS) == 0, first.text
    assert "Nothing is open. Next: colonnade plan stay/study.toml" in first.text
    declared = read_study(tmp_path / study)
    assert {p: list(c) for p, c in declared.agreement.schema.parties.items()} == {
        "clinic": ["age", "admitted", "readmitted"],
        "registry": ["district", "income"],
        "insurer": ["visits", "plan"],
    }
    assert {p: s.id for p, s in declared.sources.items()} == {
        "clinic": "patient",
        "registry": "person_id",
        "insurer": "client",
    }

    second = Terminal(tmp_path, "plan", study, "--rows", str(ROWS))
    assert second.answer({}) == 0 and "logistic regression of clinic.readmitted" in second.text

    third = Terminal(tmp_path, "rehearse", study, "--records", str(ROWS), "--share", "0.5")
    assert third.answer({}) == 0 and "From the schema alone, for 1,500 records" in third.text

    fourth = Terminal(tmp_path, "fit", study, "--model", "model.json")
    assert fourth.answer({}) == 0, fourth.text
    assert "release.json, model.json." in fourth.text

    files = [part for name in ("clinic", "registry", "insurer") for part in ("--data", f"{name}={name}.csv")]
    ids = [part for key in ("clinic=patient", "registry=person_id", "insurer=client") for part in ("--id", key)]
    fifth = Terminal(tmp_path, "predict", "model.json", *files, *ids, "--out", "scores.csv")
    assert fifth.answer({}) == 0, fifth.text

    scores = pl.read_csv(tmp_path / "scores.csv")
    truth = pl.read_csv(tmp_path / "clinic.csv").select("patient", "readmitted")
    both = scores.join(truth, left_on=scores.columns[0], right_on="patient")
    right = (both["probability"] > 0.5) == both["readmitted"]
    larger = max(float(both["readmitted"].mean()), 1 - float(both["readmitted"].mean()))  # type: ignore[arg-type]
    assert both.height == ROWS and float(right.mean()) > larger + 0.1  # type: ignore[arg-type]

    again = Terminal(tmp_path, "fit", study)
    assert again.answer({}) == 1 and "release.json" in again.text and "--force" in again.text


def test_without_a_terminal_flags_draft_and_say_what_is_open(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run: Run = runner(monkeypatch, capfd)
    write_files(tmp_path)
    files = [tmp_path / f"{name}.csv" for name in ("clinic", "registry")]
    told = run("new", tmp_path / "a", *files, "--label", "readmitted", "--epsilon", "2", "--no-ask", "--json").json
    assert told["parties"] == ["clinic", "registry"] and len(told["missing"]) == 6
    text = (tmp_path / "a" / "study.toml").read_text()
    assert 'label = "clinic.readmitted"' in text and "epsilon = 2.0" in text and 'data = "../clinic.csv"' in text
    assert 'admitted = { kind = "date", earliest = "?", latest = "?" }' in text
    assert 'readmitted = { kind = "boolean" }' in text
    assert 'district = { kind = "numeric", low = "?", high = "?", integer = true }' in text
    assert "if they are codes" in text and 'rows = "?"' in text
    for seen in ("2024", "94", "note"):
        assert seen not in text, "a draft shows what the data has"
    refused = run("plan", tmp_path / "a" / "study.toml")
    assert refused.code == 1 and refused.err.startswith("error: study.toml has 6 mistakes\n")
    assert run("new", tmp_path / "a", *files).err.endswith("is there already, and a draft overwrites nothing\n")
    assert run("new", tmp_path / "b", *files, "--label", "nobody", "--no-ask").err == (
        "error: the label must be a column of one party: nobody is in no file\n"
    )
    assert "two parties would be called clinic" in run("new", tmp_path / "b", files[0], files[0], "--no-ask").err
    assert "a study needs data files, got none" in run("new", tmp_path / "b", "--no-ask").err
    public = run("new", tmp_path / "c", *files, "--label", "readmitted", "--public-data", "--no-ask", "--json")
    assert len(json.loads(public.out)["missing"]) == 1, public.out
    text = (tmp_path / "c" / "study.toml").read_text()
    assert 'district = { kind = "categorical", levels = ["1", "2", "3", "4"] }' in text
    assert f"rows = {ROWS + 40}" in text, "of public data the smallest file has the most that all can have"
    assert re.search(r'admitted = \{ kind = "date", earliest = "2024-01-\d\d", latest = "2024-12-\d\d" \}', text)
