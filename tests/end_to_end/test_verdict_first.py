"""`plan` and `fit` say in fifteen lines of 80 columns what to know, for small, wide and strange studies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.cli_study import Run, runner, write_study

HEADS = ("Privacy", "Expect", "Chosen", "Better", "Costs", "Digest")
DEMO = Path(__file__).resolve().parents[2] / "demo" / "study.toml"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def wide_study(folder: Path, columns: int, parties: int) -> Path:
    """A study of so many columns, with names as long as people write them."""
    lines = [
        '[study]\nname = "a_study_with_a_name_that_is_long"\ntask = "linear"\nlabel = "party_0.label"\nepsilon = 1.0'
    ]
    for p in range(parties):
        lines.append(f'[party.party_{p}]\ndata = "p{p}.csv"\nid = "id"\n[party.party_{p}.columns]')
        lines += ['label = { kind = "numeric", low = 0, high = 1 }'] if p == 0 else []
        lines += [
            f'a_column_with_a_long_name_{p}_{k} = {{ kind = "numeric", low = 0, high = 9 }}'
            for k in range(columns // parties)
        ]
    (folder / "wide.toml").write_text("\n".join(lines))
    return folder / "wide.toml"


def heads_of(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:] if line[:1].isupper()]


@pytest.mark.parametrize(("columns", "parties"), [(40, 4), (40, 20), (3, 1)])
def test_a_plan_fits_a_screen(columns: int, parties: int, tmp_path: Path, run: Run) -> None:
    study = wide_study(tmp_path, columns, parties)
    shown = run("plan", study, "--rows", 20_000)
    lines = shown.out.rstrip("\n").splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 80, shown.out
    told = run("plan", study, "--rows", 20_000, "--json").json
    assert told["terms_digest"] in shown.out and "20,000 people" in shown.out
    assert [head for head in HEADS if head in heads_of(shown.out)] == heads_of(shown.out)
    assert len(run("plan", study, "--rows", 20_000, "--full").out.splitlines()) > 2 * len(lines)


def test_fit_ends_with_what_was_spent_and_what_is_reliable(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    shown = run("fit", tmp_path / "study.toml", "--out", tmp_path / "r.json")
    lines = shown.out.rstrip("\n").splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 80, shown.out
    assert heads_of(shown.out) == ["Spent", "Quality", "Reliable", "Took", "Files"]
    told = run("report", tmp_path / "r.json", "--json").json
    sure = [one for one in told["conf_int"] if one["reliable"] and one["low"] * one["high"] > 0]
    text = " ".join(shown.out.split())
    assert sure and f"the sign of {len(sure)} of {len(told['conf_int'])} coefficients" in text
    for one in sure:
        assert one["feature"] in text
    # Odds in the verdict are those of the table, rounded.
    odds = {float(value) for value in re.findall(r"odds ×([\d.e+-]+)", text)}
    assert odds <= {float(f"{2.718281828459045 ** one['estimate']:.2g}") for one in sure}


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals to a group")
def test_an_interrupt_says_that_nothing_was_spent(tmp_path: Path) -> None:
    write_study(tmp_path, people=200_000)
    command = [sys.executable, "-m", "colonnade.cli", "fit", tmp_path / "study.toml", "--out", tmp_path / "r.json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1 and told.splitlines()[-1] == "Stopped; nothing was spent.", told
    assert not (tmp_path / "r.json").exists()
