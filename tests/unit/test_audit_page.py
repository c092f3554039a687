"""docs/audit.md holds the figures of a run: every mechanism, K and view, every bug, and no broken claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import document
from audit.planted import BUGS, Planted, Verdict
from audit.studies import MECHANISMS
from audit.survey import Attacked
from colonnade.audit.findings import Finding

ROWS = [
    [cell.strip() for cell in line.strip("| \n").split("|")]
    for line in document.PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
]


def test_page_has_every_mechanism_and_number_of_parties() -> None:
    seen = {(row[0], row[1]) for row in ROWS}
    assert {(m.name, str(k)) for m in MECHANISMS for k in (2, 3, 5)} <= seen


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_page_tells_of_every_bug(bug: object) -> None:
    name = getattr(bug, "name", "")
    assert [row[-1] for row in ROWS if row[0] == name] == ["flagged"]


def test_page_tells_of_no_broken_claim() -> None:
    text = document.PAGE.read_text(encoding="utf-8")
    assert "claims, 0 broken" in text and f"{len(BUGS)} of {len(BUGS)} flagged" in text
    assert "**broken**" not in text and "**missed**" not in text


def test_sections_replace_what_stands_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "audit.md"
    page.write_text(f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n", encoding="utf-8")
    document.write(["new"], page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "new" in text and "old" not in text


def test_a_broken_claim_and_a_missed_bug_would_be_seen() -> None:
    bad = Finding("server", ("p0",), (), 1.0, 1.0, 1.5, 100, 0.5, 0.5)
    assert "**broken**" in document.views_section([Attacked("exact, Laplace", 2, 0, 200, [bad])])
    missed = Planted("a bug", "a detector", Verdict(False, ""), Verdict(False, ""))
    assert "**missed**" in document.bugs_section([missed])
