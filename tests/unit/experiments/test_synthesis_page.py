"""The page of the synthesis study keeps the sections that a run does not make anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colonnade.mechanism.objective import Purpose
from experiments.paper import synthesis_report, synthesis_rows
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
