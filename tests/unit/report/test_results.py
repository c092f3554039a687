"""A question of one's own is one function: every medium shows its answer without knowing it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("markupsafe")

from colonnade.api.display import Framed
from colonnade.cli.screen import show
from colonnade.report.html import answer_page
from colonnade.report.results import Answer, Heading, Listing, Passage, Words

HOSTILE = "<script>"


def longest(names: dict[str, int]) -> Answer:
    """The toy question: which names are long."""
    records: list[dict[str, Any]] = [{"name": name, "letters": size} for name, size in names.items()]
    records.append({"name": "unknown", "letters": Words("not told", "warn")})
    columns = (Heading("name", "name"), Heading("letters", "letters", "{:,}".format, True))
    table = Listing(
        columns, records, "Lengths", fields={"name": str, "letters": int}, last={"name": "all", "letters": 9}
    )
    return Answer("Long names", [table, Passage("Counted by hand.", "soft")], lambda: {"lengths": names}, ["few names"])


class Longest(Framed):
    def __init__(self) -> None:
        super().__init__(longest({HOSTILE: 1234}))


def test_one_answer_in_every_medium(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Longest()
    text, html, page = repr(shown), str(shown._repr_html_()), answer_page(shown.answer, "Names", "Ten.")
    for said in ("Long names", "Lengths", "1,234", "not told", "Counted by hand.", "few names"):
        assert said in text and said in html, said
    assert HOSTILE in text and HOSTILE not in html + page and "&lt;script&gt;" in html
    assert 'data-letters="&lt;script&gt;" data-value="1234"' in page and 'class="total"' in page
    assert shown.frame.to_dicts() == [{"name": HOSTILE, "letters": 1234}, {"name": "unknown", "letters": None}]
    show(shown.answer, True)
    assert '"lengths"' in capsys.readouterr().out
    show(shown.answer, False)
    found = capsys.readouterr()
    assert "1,234" in found.out and "few names" in found.out and not found.err
