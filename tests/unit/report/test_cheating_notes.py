"""A plan tells, in text and on its page, who could read what of whose keys."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.report.answers.plan import SHOWN_PAIRS, leakage_of
from colonnade.report.cost import expected_cost
from colonnade.report.html import plan_page
from colonnade.report.render.terminal import shown as rendered
from colonnade.report.results import Answer, Listing, Passage
from tests.helpers.sessions import agreement_of
from tests.protocol.test_cheating import levels_session


def shown(session: SessionPlan) -> str:
    console = Console(width=400, file=io.StringIO(), record=True)
    console.print(rendered(Answer("", leakage_of(session))))
    return console.export_text()


@pytest.mark.parametrize("levels", [12, 250])
def test_text_and_page_tell_the_same_number(levels: int) -> None:
    session = levels_session(levels, rows=5_000)
    worst = min(session.exposures, key=lambda x: x.key.bits)
    assert worst.partner == "hospital" and worst.cheaters == ("shop",)
    page = plan_page(session, expected_cost(session, "none"))
    found = [int(bits) for bits in re.findall(r'data-bits="[^"]*" data-value="(\d+)"', page)]
    assert found == sorted(x.key.bits for x in session.exposures) and found[0] == worst.key.bits
    text = shown(session)
    assert f"{worst.key.coefficients:,}" in text and f"{worst.key.bits} bits" in text
    helps = "would leave 100 at the same modulus"
    assert (helps in text) is (helps in page) is (worst.key.bits < 100) is (levels == 250)


def test_many_pairs_are_cut_and_counted() -> None:
    session = plan_session(agreement_of(7, product="lattice"), 1000, bytes(32))
    assert len(session.exposures) == 42
    found = leakage_of(session)
    assert isinstance(found[0], Listing) and len(found[0].records) == SHOWN_PAIRS
    assert sum(isinstance(note, Passage) and note.text.startswith("12 more pairs leave ") for note in found) == 1


def test_a_product_without_such_keys_tells_of_people_alone() -> None:
    text = shown(levels_session(4, rows=500, product="bgn"))
    assert "could read the exact values" in text and "key left" not in text
