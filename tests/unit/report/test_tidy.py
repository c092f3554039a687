"""Tables in a terminal: at 80 and 120 columns nothing is cut, no number and no word of usual length is broken."""

from __future__ import annotations

import re

import pytest
from rich.console import Console, RenderableType

from colonnade.cli.screen import stdout
from colonnade.report.answers.plan import blocks_of
from colonnade.report.render.terminal import caution, table_text
from colonnade.report.tidy import LONGEST_WORD, tidy_table

LONG = "a_column_with_a_name=and_a_level"


def lines_of(part: RenderableType, width: int) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as taken:
        console.print(part)
    return taken.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_many_numbers_go_below(width: int) -> None:
    table = tidy_table("level", *(f"number {k}" for k in range(12)), right=range(1, 13))
    cells = [[f"{7919 * (k + 1) * (j + 1):,} (1-{j}{k}9)" for k in range(12)] for j in range(4)]
    for j, row in enumerate(cells):
        table.add_row(f"{LONG}{j}", *row)
    lines = lines_of(table, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for row in cells:
        for cell in row:
            assert cell in text, "every number is there, whole"
    assert text.count(f"{LONG}0") == text.count("level") - text.count("a_level") > 1, "each part has its first column"


@pytest.mark.parametrize("width", [80, 120])
def test_words_stay_whole_and_texts_fold(width: int) -> None:
    table = tidy_table("feature", "against", "estimate", "interval", "why", right=(2, 3))
    for k in range(3):
        table.add_row(f"{LONG}{k}", "all other levels", "+0.604", "-0.380 to +1.170", "words that can fold " * 3)
    lines = lines_of(table, width)
    assert max(map(len, lines)) <= width
    for k in range(3):
        assert any(f"{LONG}{k}" in line for line in lines)
    assert sum("-0.380 to +1.170" in line for line in lines) == 3
    assert not [line for line in lines if "…" in line]


def test_a_word_that_no_terminal_holds_is_folded_and_not_lost() -> None:
    word = "W" * 150
    table = tidy_table("name", "count", right=(1,))
    table.add_row(word, "1,234,567")
    lines = lines_of(table, 80)
    assert max(map(len, lines)) <= 80
    assert "".join(re.findall("W+", "".join(lines))) == word and any("1,234,567" in line for line in lines)
    assert LONGEST_WORD < 80


@pytest.mark.parametrize("width", [80, 120])
def test_blocks_of_long_names(width: int) -> None:
    names = ["ministry_of_social_affairs", "federal_statistical_office"]
    numbers = {"terms": 123456, "sensitivity": 12345.678, "scale": 0.00012344, "noise_std": 123456.7}
    blocks = [{"name": f"{a} x {b}", "owners": [a, b], **numbers} for a in names for b in names]
    lines = lines_of(table_text(blocks_of({"law": "laplace", "n": 1000, "blocks": blocks})), width)
    assert max(map(len, lines)) <= width
    for word in (*names, "123,456", "1.235e+04", "0.0001234", "1.235e+05"):
        assert sum(word in line for line in lines) >= 2, word


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for colour in (True, False):
        if not colour:
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            monkeypatch.delenv("NO_COLOR", raising=False)
        console = stdout()
        with console.capture() as taken:
            console.print(caution("mind the gap"))
        assert ("\x1b[1;33m" in taken.get()) is colour and "mind the gap" in taken.get()
