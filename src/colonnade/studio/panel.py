"""What the studio shows beside its form: the plan of the study as it stands, or what is wrong with it and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colonnade.api.plan import Plan
from colonnade.api.study import Study
from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.objective import Task
from colonnade.mechanism.plan import offered
from colonnade.planning.session_plan import SessionPlan
from colonnade.report.answers.plan import cost_text, leakage_of
from colonnade.report.charts import curves
from colonnade.report.curve import forecast_curve, quality_curves
from colonnade.report.html import odds_text, plan_context
from colonnade.report.text import epsilon_text, left_of, range_text, size_text, time_text
from colonnade.studio.form import USUAL, Content, field_of, table, to_toml
from colonnade.studio.workspace import Workspace, parsed
from colonnade.study import study_mistakes


def planned(workspace: Workspace, content: Content | None = None) -> Plan:
    """The plan of the study in the workspace, or of another, as `colonnade plan` makes it."""
    return Study.of(workspace.study(content)).plan()


def panel_context(workspace: Workspace, content: Content | None = None) -> dict[str, Any]:
    """The plan's numbers, or all reasons why there is no plan."""
    shown = workspace.content if content is None else content
    try:
        wrong = study_mistakes(parsed(to_toml(shown)), workspace.folder)
        if found := [(field_of(shown, path), sentence) for path, sentence in wrong]:
            return {"refused": found[0][1], "mistakes": found, "faults": dict(found)}
        plan = planned(workspace, content)
        session, spending, cost = plan.session, plan.spending, plan.cost
    except ColonnadeError as error:
        return {"refused": str(error), "mistakes": [("", str(error))], "faults": {}}
    return {
        "refused": "",
        "mistakes": [],
        "faults": {},
        "assumed": plan.assumed,
        "warnings": session.warnings(),
        "leakage": leakage_of(session),
        "terms": session.terms,
        "cost": cost,
        "spent_text": cost_text(cost),
        "negotiation": negotiation(session),
        "totals": {name: offer.total for name, offer in session.agreement.budget.offers.items()},
        "unit": "rho" if session.agreement.delta else "epsilon",
        "spending": spending,
        **plan_context(session.describe(), session.agreement),
    }


def curve_context(workspace: Workspace) -> dict[str, Any]:
    """What noise leaves at other epsilons, and the accuracy or R² that this is worth at stated strengths of signal."""
    try:
        with workspace.lock:
            session = planned(workspace).session
    except ColonnadeError as error:
        return {"curve_refused": str(error)}
    # Several plans take a while: the form must not wait for them.
    points = forecast_curve(session.agreement, session.rows)
    logistic = session.agreement.task is Task.LOGISTIC
    lines = quality_curves(points, logistic)
    what = "accuracy" if logistic else "R²"
    named = {f"{strength:.0%} explained": found for strength, found in lines.items()}
    told = "; ".join(f"{name}: {', '.join(f'{e:.3g} {s:.1%}' for e, s in found)}" for name, found in named.items())
    picture = ""
    if len(points) > 1:
        floor = 0.5 if logistic else 0.0
        picture = curves(named, session.plan.epsilon, f"Expected {what} against epsilon", told, floor)
    rows = [
        {"epsilon": e, "share": s, "values": [found[k][1] for found in lines.values()]}
        for k, (e, s) in enumerate(points)
    ]
    return {"curve_refused": "", "what": what, "strengths": list(lines), "rows": rows, "picture": picture}


def with_present_split(workspace: Workspace, content: Content, epsilon: Any) -> Content:
    """The study in which every party offers what its part gets now, where no party has said what it offers."""
    parties = table(content.get("party"))
    if epsilon == "" or not parties or any("epsilon" in table(party) for party in parties.values()):
        return content
    whole = {**content, "study": {**table(content.get("study")), "epsilon": epsilon}}
    try:
        plan = planned(workspace, whole).session.describe()
    except ColonnadeError:
        return content
    offers = {name: float(epsilon_text(plan["parties"][name]["epsilon"]["outsider"])) for name in parties}
    return {**content, "party": {name: {**table(p), "epsilon": offers[name]} for name, p in parties.items()}}


def negotiation(session: SessionPlan) -> list[dict[str, Any]]:
    """In the bottom-up case, what each party offers for each block, and whose offer was taken."""
    offers = session.agreement.budget.offers
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
        planned = alone if session.plan.law.norm == 1 else alone**2 / 2
        out.append({"block": item.block.name, "offers": given, "taken": least, "by": taken, "planned": planned})
    return out


STATED = {"[study] delta": "0", **{f"[study] {key}": text for key, text in USUAL.items()}}
"""What holds where a study says nothing; the form writes it out."""
PRESENT, KEPT = "the study as it stands", "the plan that was kept"


def choices(workspace: Workspace) -> list[str]:
    """What can be compared."""
    return [PRESENT, *([KEPT] if workspace.kept is not None else []), *workspace.files(".toml")]


def content_of(workspace: Workspace, name: str) -> Content:
    """The study that a choice means."""
    if name == KEPT and workspace.kept is not None:
        return workspace.kept
    return workspace.content if name == PRESENT else workspace.read(name)


def compared(workspace: Workspace, first: str, second: str) -> dict[str, Any]:
    """The terms and numbers of both, row by row; a row that differs is marked."""
    sides = [panel_context(workspace, content_of(workspace, name)) for name in (first, second)]
    if any(side["refused"] for side in sides):
        return {"sides": sides, "rows": []}
    rows = []
    for name, read in _numbers(sides).items():
        values = [read(side) for side in sides]
        rows.append({"name": name, "values": values, "differs": values[0] != values[1]})
    rows += _terms(*(content_of(workspace, name) for name in (first, second)))
    return {"sides": sides, "rows": rows}


def _numbers(sides: list[dict[str, Any]]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    parties = dict.fromkeys(name for side in sides for name in side["plan"]["parties"])

    def part(name: str) -> Callable[[Mapping[str, Any]], str]:
        def read(side: Mapping[str, Any]) -> str:
            party = side["plan"]["parties"].get(name)
            return "–" if party is None else epsilon_text(party["epsilon"]["outsider"])

        return read

    return {
        "epsilon of a record": lambda side: epsilon_text(side["plan"]["epsilon"]),
        "odds change by at most": lambda side: odds_text(side["plan"]["epsilon"]),
        **{f"epsilon of {name}'s part": part(name) for name in parties},
        "noise against signal": lambda side: _figure("{:.4g}".format, side["plan"]["forecast"]["noise_to_signal"]),
        "left by the noise": lambda side: _figure(range_text, left_of(side["plan"])),
        "records": lambda side: f"{side['plan']['n']:,}",
        "sent by all": lambda side: size_text(side["cost"].total),
        "CPU time of all": lambda side: time_text(sum(side["cost"].seconds.values())),
        "warnings": lambda side: str(len(side["warnings"])),
    }


def _figure(write: Callable[[Any], str], figure: object) -> str:
    """Margins alone predict no model."""
    return "–" if figure is None else write(figure)


def _terms(first: Content, second: Content) -> list[dict[str, Any]]:
    """Terms and declared facts that differ, as the study files write them."""
    flat = [_flat(first), _flat(second)]
    out = []
    for name in dict.fromkeys([*flat[0], *flat[1]]):
        values = [found.get(name, STATED.get(name, "–")) for found in flat]
        if values[0] != values[1]:
            out.append({"name": name, "values": values, "differs": True})
    return out


def _flat(content: Content) -> dict[str, str]:
    out = {f"[study] {key}": str(value) for key, value in table(content.get("study")).items()}
    for party, declared in table(content.get("party")).items():
        for key, value in table(declared).items():
            if key == "columns":
                out |= {f"{party}.{name}": _told(facts) for name, facts in table(value).items()}
            else:
                out[f"[party.{party}] {key}"] = str(value)
    return out


def _told(facts: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in table(facts).items())
