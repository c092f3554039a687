"""What runs write into the pages of results: between its marks, long tables as csv, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import sections

TEXT = "# One run\n\nMade by it.\n\n| a | b |\n|---|---|\n| 1 | |\n\n## Long\n\n| x | y, z |\n|---|---|\n"
LONG = TEXT + "| 0.5 ± 0.1 | a word |\n" * 60 + "\nThe end.\n"


def test_a_section_stands_between_its_marks_and_long_tables_beside_it(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\n<!-- whole -->\nold\n<!-- end of whole -->\n\nafter\n", encoding="utf-8")
    sections.publish("whole", LONG, folder=tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Speed\n\n<!-- whole -->\n## One run\n") and text.endswith(
        "<!-- end of whole -->\n\nafter\n"
    )
    assert "old" not in text and "| 1 | |" in text and "60 rows: [whole_1.csv](whole_1.csv)." in text
    assert (tmp_path / "whole_1.csv").read_text(encoding="utf-8").splitlines()[:2] == ['x,"y, z"', "0.5 ± 0.1,a word"]
    assert sections.kept("whole", tmp_path) == LONG


def test_a_table_stays_where_it_is_asked_for_or_has_a_csv_already(tmp_path: Path) -> None:
    assert sections.laid_out("whole", LONG, shown=("Long",))[1] == {}
    section, files = sections.laid_out("whole", LONG, beside="kept.csv")
    assert files == {} and "60 rows: [kept.csv](kept.csv)." in section
    sections.publish("owners", TEXT, folder=tmp_path)
    assert sections.section("owners", tmp_path).startswith("## One run")


@pytest.mark.parametrize("name", sections.PAGES)
def test_every_section_is_filled_on_its_page(name: str) -> None:
    found = sections.section(name)
    assert found.startswith("## "), f"docs/results/{sections.PAGES[name]}.md has no section {name}"


def test_every_mark_is_of_a_section() -> None:
    for page in sections.RESULTS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        marked = [name for name in sections.PAGES if sections.marks(name)[0] in text]
        assert text.count("<!-- ") == 2 * len(marked)
        assert {sections.PAGES[name] for name in marked} == {page.stem}
