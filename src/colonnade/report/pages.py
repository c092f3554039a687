"""Pages for the command line, and one sentence where what they need is not installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from colonnade.foundation.errors import StudyError

if TYPE_CHECKING:
    from colonnade.analysis.intervals import Intervals
    from colonnade.mechanism.cuts import Binning
    from colonnade.mechanism.release import ReleaseRecord
    from colonnade.model import PublicModel
    from colonnade.planning.session_plan import SessionPlan
    from colonnade.report.cost import Cost
    from colonnade.report.results import Answer
    from colonnade.report.spending import Spending


def require(*modules: str) -> None:
    """Refuse where the extra "page" is not installed."""
    for module in modules:
        if find_spec(module) is None:
            raise StudyError(f"a page needs {module}, which is not installed: pip install 'colonnade[page]'")


def plan_html(
    session: SessionPlan,
    cost: Cost,
    assumed: bool = False,
    spending: Mapping[str, Spending] | None = None,
    cuts: Sequence[Binning] | None = None,
) -> bytes:
    """The bytes of a plan's page, with what ledgers at hand have spent."""
    require("jinja2")
    from colonnade.report.html import PageContext, plan_page

    return plan_page(session, cost, assumed, PageContext(spending or {}, cuts=cuts)).encode()


def release_html(
    release: ReleaseRecord,
    spending: Mapping[str, Spending] | None = None,
    answered: tuple[PublicModel, Intervals] | None = None,
) -> bytes:
    """The bytes of a release's page, with what ledgers at hand have booked of it, and its model where that is there."""
    require("jinja2")
    from colonnade.report.html import PageContext, release_page

    return release_page(release, PageContext(spending or {}, answered=answered)).encode()


def answer_html(answer: Answer, title: str, lead: str) -> bytes:
    """The bytes of a page that shows one answer; `lead` stands below its title."""
    require("jinja2")
    from colonnade.report.html import answer_page

    return answer_page(answer, title, lead).encode()
