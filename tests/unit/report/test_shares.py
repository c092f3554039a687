"""How much noise each of two parties draws is told, in text and on the page to sign."""

from __future__ import annotations

from dataclasses import replace

from colonnade.planning.session_plan import plan_session
from colonnade.report.cost import expected_cost
from colonnade.report.html import plan_page
from colonnade.report.text import shares_text
from tests.protocol.test_cheating import levels_session


def test_text_and_page_tell_the_same_parts() -> None:
    session = levels_session(12, rows=5_000)
    told = shares_text(session.describe())
    assert "of the scale are drawn" in told
    assert told.replace("'", "&#39;") in plan_page(session, expected_cost(session, "none"))
    alone = plan_session(replace(session.agreement, collusion=0), 5_000, bytes(32))
    assert shares_text(alone.describe()) == ""
    assert "of the scale are drawn" not in plan_page(alone, expected_cost(alone, "none"))
