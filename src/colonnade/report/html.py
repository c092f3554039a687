"""One self-contained page about a plan or a release, for a person who has to agree to it. No script, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from importlib.metadata import version
from math import exp
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from colonnade.analysis.intervals import Intervals
from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.schema import Column
from colonnade.foundation.shown import figure
from colonnade.mechanism.cuts import Binning
from colonnade.mechanism.defects import defects_of
from colonnade.mechanism.release import ReleaseRecord
from colonnade.model import PublicModel, own_model
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan
from colonnade.report.answers.coefficients import fitted
from colonnade.report.answers.crosstables import strongest
from colonnade.report.answers.plan import ABSENT, blocks_of, cost_text, epsilons_of, leakage_of
from colonnade.report.charts import Bar, bars, curve
from colonnade.report.cost import Cost
from colonnade.report.curve import forecast_curve
from colonnade.report.render.markup import FOLD_FROM, part_html
from colonnade.report.results import Answer, Heading, Listing, Part, Words
from colonnade.report.sheet import Sentence, broken, budget, outlook, promise, reliance, sheet_context, worst_epsilon
from colonnade.report.spending import Spending
from colonnade.report.text import (
    VIEWS,
    digest_note,
    epsilon_text,
    flaws,
    forecast_text,
    left_of,
    range_text,
    share_text,
    shares_text,
    size_text,
    time_text,
)

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_LEVELS = 12
"""A column with more levels names them in the annex's folds alone."""
LARGEST_FACTOR = 1e4
"""A larger factor on someone's odds is no guarantee worth a number."""


def odds_text(epsilon: float | None) -> str:
    """By how much epsilon lets anyone's odds of a guess about one record grow, rounded up."""
    if epsilon is None:
        return "no limit"
    factor = exp(min(epsilon, 700.0))
    if factor > LARGEST_FACTOR:
        return "no useful limit"
    return f"×{Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(factor)).normalize():f}"


@cache
def environment() -> Environment:
    """Templates with every value escaped; an unknown name is an error."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        epsilon=epsilon_text,
        odds=odds_text,
        size=size_text,
        seconds=time_text,
        number=_number,
        shares=shares_text,
        share=share_text,
        expected=forecast_text,
        left=left_of,
        ends=range_text,
    )
    found.globals.update(style=style(), backends=BACKENDS, doors=(), fold_from=FOLD_FROM, part=part_html)
    return found


def style() -> Markup:
    """The page's style sheet."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


@dataclass(frozen=True)
class PageContext:
    """What a page says besides what a plan or a release holds: ledgers, the day, and doors to other pages."""

    spending: Mapping[str, Spending] = field(default_factory=dict)
    made: date | None = None
    """Today if not given."""
    doors: Sequence[tuple[str, str]] = ()
    """Addresses and names of pages to go to, where the page is shown in the studio."""
    cuts: Sequence[Binning] | None = None
    """Which numbers a plan cut at bins of its own."""
    answered: tuple[PublicModel, Intervals] | None = None
    """A release's own model with its intervals, where they are there; else they are made."""


def page_footer(what: str, digest: str) -> Markup:
    """What stands at the foot of every printed sheet; browsers take it from a style sheet alone."""
    if not set(digest) <= set("0123456789abcdef"):
        raise ReleaseError(f"a digest is hexadecimal, got {digest[:80]!r}")
    return Markup(  # noqa: S704 - our own words and hexadecimal digits
        f'@page {{ @bottom-left {{ content: "{what} {digest[:32]}"; }} '
        '@bottom-right { content: counter(page) " / " counter(pages); } }'
    )


def plan_page(session: SessionPlan, cost: Cost, assumed: bool = False, around: PageContext | None = None) -> str:
    """The page of a plan: nothing has been computed yet."""
    around = around or PageContext()
    agreement, plan = session.agreement, session.describe()
    shown = plan_context(plan, agreement)
    verdict = outlook(session.warnings(), plan, session.label_noise_text)
    if not session.in_the_clear:
        verdict = promise(plan, views_of(plan), odds_text(worst_epsilon(plan)), False) + verdict
    context = {
        **shown,
        **sheet_context(plan, agreement, around.spending, views_of(plan), around.made),
        "verdict": [*verdict, budget(plan, around.spending, False)],
        "doors": around.doors,
        "footer": page_footer("Terms", session.terms),
        "assumed": assumed,
        "cost": cost_text(cost),
        "terms": session.terms,
        "terms_note": digest_note(session.rows, assumed, around.cuts),
        "warnings": session.warnings(),
        "leakage": leakage_of(session),
        **curve_context(agreement, session.rows, session.plan.epsilon),
    }
    return environment().get_template("plan.html").render(context)


def release_page(release: ReleaseRecord, around: PageContext | None = None) -> str:
    """The page of a release with its model."""
    around = around or PageContext()
    agreement, plan = Agreement.of(release.agreement), release.plan
    public, sure = around.answered or own_model(release)
    shown = plan_context(plan, agreement)
    told = flaws(release.provenance, plan["epsilon"])
    verdict = broken(told, release.provenance["seeded"])
    verdict += [Sentence("warn", "The stated epsilon does not hold:", f"{d.sentence}.") for d in defects_of(release)]
    verdict = verdict or promise(plan, views_of(plan), odds_text(worst_epsilon(plan)), True)
    context = {
        **shown,
        **sheet_context(plan, agreement, around.spending, views_of(plan), around.made),
        "verdict": [
            *verdict,
            budget(plan, around.spending, True),
            reliance(
                len(sure.signed),
                len(sure.given),
                len(sure.coefficients),
                None if sure.full else len(public.model.features),
            ),
        ],
        "doors": around.doors,
        "footer": page_footer("Release", public.release),
        "provenance": release.provenance,
        "flawed": bool(told or defects_of(release)),
        "digest": public.release,
        "model": fitted(public, sure),
        **curve_context(agreement, release.n, float(plan["epsilon"])),
        "dependence": _dependence(release),
    }
    return environment().get_template("release.html").render(context)


def answer_page(answer: Answer, title: str, lead: str) -> str:
    """The page of one answer."""
    known = {"answer": answer, "title": title, "lead": lead, "version": version("colonnade")}
    return environment().get_template("answer.html").render(**known)


def _dependence(release: ReleaseRecord) -> list[Part]:
    """What the release's tables show; nothing where it holds none of two columns."""
    try:
        tables = Tables.of(Released(release))
        return strongest(tables) if len(tables.released.tabular) > 1 else []
    except ReleaseError:
        return []


def plan_context(plan: Mapping[str, Any], agreement: Agreement) -> dict[str, Any]:
    """What both pages say of a plan."""
    owner, column = agreement.schema.find(agreement.label)
    return {
        "plan": plan,
        "label": f"{owner}.{column}",
        "columns": _declared(agreement, owner, column),
        "long_levels": [
            (name, c.all_levels)
            for names in agreement.schema.parties.values()
            for name, c in names.items()
            if not _is_short(c)
        ],
        "norms": dict(agreement.schema.norms),
        "several": len(plan["parties"]) > 1,
        "seen": _seen(plan),
        "epsilons": replace(epsilons_of(plan), title=""),
        "epsilon_picture": epsilon_picture(plan),
        "blocks": replace(blocks_of(plan), title=""),
        "version": version("colonnade"),
    }


def _is_short(column: Column) -> bool:
    return column.bounds is not None or len(column.all_levels) <= LONGEST_LEVELS


def _declared(agreement: Agreement, owner: str, label: str) -> Listing:
    """Every column as the study declares it."""
    records = [
        {
            "column": name,
            "party": party,
            "kind": c.noun,
            "declared": c.facts(LONGEST_LEVELS) if _is_short(c) else f"{len(c.all_levels)} levels, in full below",
            "used as": "label" if (party, name) == (owner, label) else "feature",
        }
        for party, names in agreement.schema.parties.items()
        for name, c in names.items()
    ]
    return Listing([Heading(key, key) for key in ("column", "party", "kind", "declared", "used as")], records)


def _seen(plan: Mapping[str, Any]) -> Listing:
    """What each view sees, and what it can learn of a record."""
    records = [
        {**view, "view": f"{view['name']}: {view['who']}", "epsilon": plan["record"][view["view"]]}
        for view in views_of(plan)
    ]
    columns = (
        Heading("adversary", "view"),
        Heading("sees", "sees"),
        Heading("epsilon of a record", "epsilon", epsilon_text, True, ABSENT),
        Heading("odds change by at most", "epsilon", odds_text, True, Words(odds_text(None))),
    )
    return Listing(columns, records)


def views_of(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """Who may look, at what; with one party nobody else takes part."""
    pooled = f"the server with {'one party' if plan['collusion'] == 1 else str(plan['collusion']) + ' parties'}"
    several = len(plan["parties"]) > 1
    clear = not BACKENDS[plan["product"]].private and several
    hidden = "columns among them in the clear" if clear else "all of them encrypted or masked"
    sees = {
        "outsider": ("anyone with the release", "the released numbers and every model made from them"),
        "server": ("who relays messages", f"every message, {hidden}, then the release"),
        "party": ("who holds other columns", "its own columns, keys and noise, the messages sent to it, the release"),
        "coalition": (pooled if plan["collusion"] else "the server alone", "all of the above, pooled"),
    }
    views = VIEWS if several else ("outsider", "server")
    return [{"view": view, "name": VIEWS[view], "who": sees[view][0], "sees": sees[view][1]} for view in views]


def epsilon_picture(plan: Mapping[str, Any]) -> Markup:
    """Epsilon for each party's columns, by adversary; views with one number share a bar."""
    views = [v["view"] for v in views_of(plan)]
    rows = [(f"data of {name}", party["epsilon"], False) for name, party in plan["parties"].items()]
    rows.append(("a whole record", plan["record"], True))
    alike = all(len({epsilons[view] for view in views}) == 1 for _, epsilons, _ in rows)
    groups = []
    for name, epsilons, strong in rows:
        by_value: dict[float | None, list[str]] = {}
        for view in views:
            by_value.setdefault(epsilons[view], []).append(VIEWS[view])
        found = []
        for value, names in by_value.items():
            seen = ", ".join(names)
            number = "no guarantee" if value is None else epsilon_text(value)
            hint = f"{name}, seen by {seen}: epsilon {epsilon_text(value)}"
            found.append(Bar(name if alike else seen, value, number, hint, strong))
        groups.append(("" if alike else name, found))
    if alike:
        groups = [("", [bar for _, found in groups for bar in found])]
    told = "; ".join(bar.hint for _, found in groups for bar in found)
    return bars(groups, "Epsilon for each party's columns, by adversary", told)


def curve_context(agreement: Agreement, rows: int, epsilon: float) -> dict[str, Any]:
    """The forecast at other epsilons."""
    points = forecast_curve(agreement, rows)
    told = "; ".join(f"epsilon {e:.3g}: {share_text(s)}" for e, s in points)
    picture = curve(points, epsilon, "Predicted share that survives the noise", told) if len(points) > 1 else ""
    return {"points": points, "curve_picture": picture}


def _number(value: float) -> str:
    return figure(value) if abs(value) < 1e6 else f"{value:.3g}"
