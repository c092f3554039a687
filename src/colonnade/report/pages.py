"""Pages for the command line, and one sentence where what they need is not installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from colonnade.foundation.errors import StudyError

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.tables import Tables
    from colonnade.mechanism.cuts import Cut
    from colonnade.mechanism.release import Release
    from colonnade.model import PublicModel
    from colonnade.protocol.session_plan import SessionPlan
    from colonnade.report.cost import Cost
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
    cuts: Sequence[Cut] | None = None,
) -> bytes:
    """The bytes of a plan's page, with what ledgers at hand have spent."""
    require("jinja2")
    from colonnade.report.html import Around, plan_page

    return plan_page(session, cost, assumed, Around(spending or {}, cuts=cuts)).encode()


def release_html(
    release: Release,
    spending: Mapping[str, Spending] | None = None,
    answered: tuple[PublicModel, Intervals] | None = None,
) -> bytes:
    """The bytes of a release's page, with what ledgers at hand have booked of it, and its model where that is there."""
    require("jinja2")
    from colonnade.report.html import Around, release_page

    return release_page(release, Around(spending or {}, answered=answered)).encode()


def tables_html(tables: Tables, chosen: Sequence[int], seed: int) -> bytes:
    """The bytes of a page of tables."""
    require("jinja2")
    from colonnade.report.html import tables_page

    return tables_page(tables, chosen, seed).encode()


def compared_html(
    title: str, study: str, n: int, rows: Sequence[Mapping[str, str]], picture: Callable[[], Markup], note: str = ""
) -> bytes:
    """The bytes of a page that sets plans or rehearsals side by side; `note` says what its picture shows."""
    require("jinja2")
    from colonnade.report.html import compared_page

    return compared_page(title, study, n, rows, picture(), note).encode()
