"""Intervals hold the truth as often as they say, the choice of the reduced model included.

A small form of `python -m experiments coverage`.
"""

from __future__ import annotations

import pytest

from experiments.paper import coverage, coverage_answers
from experiments.paper.coverage import Case, run_case
from experiments.paper.methods import PURE

pytestmark = pytest.mark.statistical
RELEASES = 25


@pytest.mark.parametrize("case", [Case("made-up-class", PURE, 1.0), Case("made-up-number", PURE, 10.0)])
def test_intervals_cover_and_halves_of_them_do_not(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "POPULATION", 200_000)
    lines = run_case(case, RELEASES, 11)
    given = sum(line.given for line in lines)
    assert given > 5 * RELEASES, "most releases of a coverage test must give intervals"
    assert sum(line.covered for line in lines) >= 0.93 * given
    assert sum(line.covered_by_half for line in lines) < 0.9 * given, "intervals half as wide must be noticed"


def test_markdown_tells_each_case() -> None:
    lines = [
        coverage.Line("adult-41", PURE, 1.0, "age", 400, 41, 300, 200, 190, 130, 5.0, 9.0),
        coverage.Line("adult-41", PURE, 1.0, "sex=Male", 400, 41, 400, 50, 40, 20, 6.0, 8.0),
        coverage.Line("adult-41", PURE, 0.1, "age", 100, 41, 10, 0, 0, 0, float("nan"), float("nan")),
    ]
    text = coverage.markdown(lines, "command", 1)
    assert "| adult-41 | pure | 1 | 1.8 | 0.6 of 41 (2%) | 92.0% | 60.0% | 95.0% (age) | 80.0% of 50 | 1 |" in text
    assert "| 1 | 5.0 | 6.0 | 9.0 |" in text
    assert "| adult-41 | pure | 0.1 | 0.1 | 0.0 of 41 (0%) | none given |" in text
    assert coverage.csv_text(lines, "command", 1).count("\n") == 5


def test_intervals_of_other_answers_cover_and_hold_their_estimates() -> None:
    lines = coverage_answers.run_case(coverage_answers.Case((5, 4), 0.4, 20_000, 3.0), 6, 3)
    assert {line.kind for line in lines} == {"count", "information", "mean", "deviation", "correlation"}
    assert not any(line.outside for line in lines), "an estimate lies outside its own interval"
    assert sum(line.covered for line in lines) >= 0.93 * sum(line.given for line in lines)
    assert all(line.covered >= 0.8 * line.given for line in lines)
