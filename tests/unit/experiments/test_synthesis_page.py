"""The page of the synthesis study keeps the sections that a run does not make anew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from colonnade.mechanism.objective import Purpose
from experiments.paper import synthesis_baselines, synthesis_report, synthesis_rows
from experiments.paper.synthesis_rows import cases


def test_sections_that_are_not_run_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = {key: (title, lambda key=key: f"\nnew {key}\n") for key, (title, _) in synthesis_report.SECTIONS.items()}
    monkeypatch.setattr(synthesis_report, "SECTIONS", sections)
    monkeypatch.setattr(synthesis_report, "score_all", lambda: None)
    whole = synthesis_report.study(False)
    assert all(f"## {title}\n\nnew {key}\n" in whole for key, (title, _) in sections.items())
    old = whole.replace("new ", "old ")
    part = synthesis_report.study(False, ("rows", "pairs"), old)
    assert [line for line in part.splitlines() if line.startswith("new")] == ["new rows", "new pairs"]
    assert part.count("old ") == len(sections) - 2
    assert synthesis_report.study(False, ("rows", "pairs"), part) == part


def test_lines_are_means_of_the_seeds_that_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(synthesis_rows, "KEPT", tmp_path)
    asked = [c for c in cases() if c.data == "ACS" and c.epsilon == 1 and c.approximate and c.purpose is Purpose.ALL]
    names = (*synthesis_rows.SHOWN, "distance", "misfit", "CPU s")
    for case in asked[:2]:
        scores = {"released": "full", **dict.fromkeys(names, float(case.seed))}
        (tmp_path / f"{case.name}.json").write_text(json.dumps(scores))
    (line,) = synthesis_rows.lines(Purpose.ALL)
    assert line["data"] == "ACS" and line["releases"] == 2 and line["TV2"] == 0.5
    assert not synthesis_rows.lines(Purpose.LABEL)


def test_runs_of_others_are_averaged_and_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(synthesis_baselines, "RESULT", tmp_path / "runs.json")
    small = synthesis_baselines.AIM_SMALL.name
    assert {line["not finished"] for line in synthesis_baselines.lines("ACS")} == {"not started in the time"}
    synthesis_baselines._store({"data": "ACS", "method": "MST", "seed": 0, "over": 300})
    for seed, value in ((0, 0.1), (1, 0.2), (2, 0.6)):
        synthesis_baselines._store({"data": "ACS", "method": "MST", "seed": seed, "TV2": value})
    synthesis_baselines._store({"data": "ACS", "method": small, "seed": 0, "over": 300})
    found = {line["method"]: line for line in synthesis_baselines.lines("ACS")}
    assert found["MST"]["TV2"] == pytest.approx(0.3) and found["MST"]["not finished"] == ""
    assert found[small] == {"data": "ACS", "method": small, "seeds": 0, "not finished": "over 300 CPU s"}
    known = synthesis_baselines._known
    assert known("ACS", synthesis_baselines.AIM_SMALL, 1, 300) and not known(
        "ACS", synthesis_baselines.AIM_SMALL, 1, 900
    )


def test_a_run_on_a_gpu_is_told_apart_and_rows_that_are_there_are_scored_without_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PYTHON", "RESULT", "WORK"):
        monkeypatch.setattr(synthesis_baselines, name, tmp_path / name)
    (tmp_path / "PYTHON").touch()
    (tmp_path / "WORK").mkdir()
    monkeypatch.setattr(synthesis_baselines, "_truth", lambda _: ([], 0))
    monkeypatch.setattr(synthesis_baselines, "score_rows", lambda codes, *_: {"TV2": float(codes[0])})
    monkeypatch.setattr(synthesis_baselines, "quality", lambda *_: 0.9)
    told = {"device": "GPU", "megabytes": 7.5, "tables": 60}
    np.savez(tmp_path / "WORK" / "ACS-AIM-0.npz", codes=[0.25], seconds=31.0, **told)
    np.savez(tmp_path / "WORK" / "ACS-MST-0.npz", codes=[0.5], seconds=99.0)
    synthesis_baselines.study(total=0)
    assert len(synthesis_baselines.stored()) == 2
    found = {line["method"]: line for line in synthesis_baselines.lines("ACS")}
    aim, mst = found[synthesis_baselines.AIM.name], found["MST"]
    assert aim["TV2"] == 0.25 and aim["GPU s"] == 31 and "CPU s" not in aim
    assert mst["CPU s"] == 99 and "GPU s" not in mst


def test_lines_of_ours_stay_until_releases_are_scored_anew() -> None:
    head = "| data | method | TV2 |\n|---|---|---|\n"
    before = head + '| ACS | ours, purpose "all" | 0.04 |\n| ACS | MST | 0.06 |\n'
    found = synthesis_report._with_ours("\n" + head + "| ACS | MST | 0.05 |\n", before)
    assert found.index("ours") < found.index("MST") and "0.05" in found and "0.06" not in found
    assert "earlier run" in found
    wider = head.replace("| TV2 |", "| GPU s | TV2 |").replace("|---|---|---|", "|---|---|---|---|")
    found = synthesis_report._with_ours("\n" + wider + "| ACS | MST |  | 0.05 |\n", before)
    assert '| ACS | ours, purpose "all" |  | 0.04 |\n' in found
    anew = "\n" + before.replace("0.04", "0.03")
    assert synthesis_report._with_ours(anew, before) == anew
