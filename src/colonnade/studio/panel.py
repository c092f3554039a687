"""What the studio shows beside its form: the plan of the study as it stands, or the sentence that refuses it."""

from __future__ import annotations

from typing import Any

from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.moments import Law
from colonnade.mechanism.plan import offered
from colonnade.protocol.session_plan import TYPICAL_ROWS, SessionPlan
from colonnade.report.cheating import cheating_notes
from colonnade.report.cost import expected_cost
from colonnade.report.html import plan_context
from colonnade.studio.workspace import Workspace
from colonnade.study import Study


def planned(workspace: Workspace) -> tuple[Study, SessionPlan, bool]:
    """The study in the workspace with its plan, as `colonnade plan` makes it; the last says that n was assumed."""
    study = workspace.study()
    assumed = study.rows is None
    return study, study.session(TYPICAL_ROWS if assumed else None), assumed


def panel_context(workspace: Workspace) -> dict[str, Any]:
    """The plan's numbers, or why there is no plan."""
    try:
        study, session, assumed = planned(workspace)
    except ColonnadeError as error:
        return {"refused": str(error)}
    return {
        "refused": "",
        "assumed": assumed,
        "warnings": session.warnings(),
        "cheating": cheating_notes(session),
        "terms": session.terms,
        "cost": expected_cost(session, study.alignment),
        "negotiation": negotiation(session),
        "totals": {name: offer.total for name, offer in session.agreement.offers.items()},
        "unit": "epsilon" if session.plan.law is Law.LAPLACE else "rho",
        **plan_context(session.describe(), study.agreement),
    }


def negotiation(session: SessionPlan) -> list[dict[str, Any]]:
    """In the bottom-up case, what each party offers for each block, and whose offer was taken."""
    offers = session.agreement.offers
    if not offers:
        return []
    found = offered(session.plan, offers, session.rows)
    out = []
    for i, item in enumerate(session.plan.blocks):
        given = {name: float(b) for name, parts in found.items() if (b := parts[i]) is not None}
        least = min(given.values())
        taken = [name for name, value in given.items() if value == least]
        alone = float(item.sensitivity / item.scale)
        # Blocks move less together than one by one: what that leaves of the offers was spent on less noise.
        planned = alone if session.plan.law is Law.LAPLACE else alone**2 / 2
        out.append({"block": item.block.name, "offers": given, "taken": least, "by": taken, "planned": planned})
    return out
