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

from colonnade.foundation.shown import ratio_text
from colonnade.report.render.terminal import verdict
from colonnade.report.results import Brief
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
    assert sure and f"The sign of {len(sure)} of {len(told['conf_int'])} coefficients" in text
    for one in sure:
        assert one["feature"] in text
    # Odds in the verdict are those of the table, to three digits or, near 1, to two of what they differ by.
    odds = [float(value) for value in re.findall(r"×([\d.e+-]+)", text)]
    exact = [2.718281828459045 ** one["estimate"] for one in sure]
    assert odds and all(min(abs(shown - x) / max(abs(x - 1), 0.1 * x) for x in exact) < 0.05 for shown in odds)
    assert "(odds):" in text and "noise could explain" not in text


def test_what_makes_more_noise_is_no_advice(tmp_path: Path, run: Run) -> None:
    """With four columns at two parties a delta makes noise larger, with forty less."""
    few, many = (run("plan", wide_study(tmp_path, n, 2), "--rows", 20_000, "--json").json for n in (4, 40))
    assert few["other_terms"][0]["ratio"] > 1 > many["other_terms"][0]["ratio"]
    assert "Better" not in run("plan", wide_study(tmp_path, 4, 2), "--rows", 20_000).out
    assert "Better" in run("plan", wide_study(tmp_path, 40, 2), "--rows", 20_000).out


def test_one_level_of_several_classes_has_a_model_with_intervals(tmp_path: Path, run: Run) -> None:
    """What the verdict of a model of several classes advises works as it is typed."""
    write_study(tmp_path)
    study = (tmp_path / "study.toml").read_text()
    label = re.search(r'^(\w+) = \{ kind = "categorical"[^\n]*levels = \["([^"]+)"', study, re.MULTILINE)
    assert label
    text = study.replace('task = "logistic"', 'task = "multinomial"')
    text = re.sub(r'label = "(\w+)\.\w+"', lambda found: f'label = "{label[1]}"', text, count=1)
    (tmp_path / "study.toml").write_text(text)
    shown = run("fit", tmp_path / "study.toml", "--out", tmp_path / "r.json")
    assert "solve --label COLUMN=LEVEL" in " ".join(shown.out.split()), shown.err
    told = run("solve", tmp_path / "r.json", "--label", f"{label[1]}={label[2]}", "--json").json
    assert told["task"] == "logistic" and told["conf_int"]


def test_a_list_that_is_too_long_loses_whole_items_and_says_how_many() -> None:
    found = [
        f"column_{k}=a level with a long name vs another level of that long name: ×1.2 (1.1 to 1.3)" for k in range(9)
    ]
    lines = [("Spent", "epsilon 1."), ("Reliable", "\n".join(["The signs:", *found])), ("Files", "a, b.")]
    shown = verdict(Brief("study: fitted.", lines)).plain.splitlines()
    assert len(shown) <= 15 and shown[-2].strip() == "and 4 more" and "…" not in "".join(shown)
    assert "column_4=" in "".join(shown) and "(1.1 to 1.3)" in "".join(shown)


def test_odds_near_one_are_not_one() -> None:
    assert [ratio_text(x) for x in (1.0, 1.0283, 1.00021, 0.9987, 4.213, 0.0782, 12345.0, float("inf"))] == [
        "1", "1.028", "1.00021", "0.9987", "4.21", "0.0782", "1.23e+04", "inf"
    ]  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads what a process has worked")
def test_an_interrupt_says_that_nothing_was_spent(tmp_path: Path) -> None:
    write_study(tmp_path, people=200_000)
    command = [sys.executable, "-m", "colonnade.cli", "fit", tmp_path / "study.toml", "--out", tmp_path / "r.json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # By what it has worked, not by the clock: on a busy machine a second may pass before it has begun.
    stat, ticks = Path(f"/proc/{process.pid}/stat"), os.sysconf("SC_CLK_TCK")
    while stat.exists() and sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) < 1.7 * ticks:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1 and told.splitlines()[-1] == "Stopped; nothing was spent.", told
    assert not (tmp_path / "r.json").exists()
