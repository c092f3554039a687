"""The first sheet of a page: who asks whom and why, what it means for one person, what is spent, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import exp, inf
from typing import Any

from markupsafe import Markup

from colonnade.planning.agreement import Agreement
from colonnade.report.charts import epsilon_scale
from colonnade.report.results import Heading, Listing, Words
from colonnade.report.spending import Spending
from colonnade.report.text import epsilon_text, forecast_text, listed, reliable_text, sentence, worst

TIERS = ((1.0, "strong"), (10.0, "moderate"), (inf, "weak"))
"""Up to which epsilon a promise is called so, after the three tiers of Ponomareva et al. 2023 (arXiv:2303.00654)."""
BELIEFS = (0.01, 0.1, 0.5)
"""Chances that someone may have held a guess for before."""
SHOWN_COLUMNS = 6
SHOWN_NAMES = 40
"""Where a party has more columns than that, so many characters of names, so that three signatures stay on the sheet."""


@dataclass(frozen=True)
class PosteriorRange:
    """What a chance that someone held a guess for can become at most and at least."""

    before: float
    low: float
    high: float

    @property
    def told(self) -> tuple[str, str, str]:
        """In per cent, rounded away from what was believed before: a promise is never overstated."""
        return f"{100 * self.before:g}%", _percent(self.low, False), _percent(self.high, True)


@dataclass(frozen=True)
class Sentence:
    """One sentence of the verdict, and whether it is good news, a warning or neither."""

    kind: str
    head: str
    text: str


def _percent(share: float, up: bool) -> str:
    """One digit after the point, away from the middle."""
    tenths = share * 1000
    whole = -int(-tenths // 1) if up else int(tenths)
    return f"{min(whole, 1000) / 10:g}%"


def tier_of(epsilon: float) -> str:
    """What a promise of this epsilon is called."""
    return next(name for most, name in TIERS if epsilon <= most)


def belief_after(before: float, epsilon: float) -> PosteriorRange:
    """The odds of any guess change by at most the factor e^epsilon, up or down."""
    factor = exp(min(epsilon, 700.0))
    high = before * factor / (1 - before + before * factor)
    low = before / (before + (1 - before) * factor)
    return PosteriorRange(before, low, high)


def worst_epsilon(plan: Mapping[str, Any]) -> float:
    """The epsilon of a record against the worst view that has one."""
    return worst(plan["record"]) or 0.0


def sheet_context(
    plan: Mapping[str, Any],
    agreement: Agreement,
    spending: Mapping[str, Spending],
    views: Sequence[Mapping[str, str]],
    made: date | None = None,
) -> dict[str, Any]:
    """What the first sheet says besides the verdict."""
    epsilon = worst_epsilon(plan)
    owner, column = agreement.schema.find(agreement.label)
    level = agreement.schema.parties[owner][column].positive
    booked = sorted(one.time for one in spending.values() if one.time)[:1]
    return {
        "reason": agreement.reason,
        "made": day_text(made or date.today()),
        "booked": booked,
        "organisations": [_organisation(party, agreement)[0] for party in plan["parties"]],
        "spent": _spent(plan, agreement, spending),
        "any_spending": bool(spending),
        "worst": epsilon,
        "tier": tier_of(epsilon),
        "guess": f"{column} is {level}" if level is not None else f"{column} is above some value",
        "beliefs": _beliefs(epsilon),
        "scale_picture": _scale(plan, epsilon),
        "open_views": [v["name"] for v in views if plan["record"][v["view"]] is None],
    }


def day_text(day: date) -> str:
    """A day with its month in letters: no two countries read it differently."""
    return f"{day.day} {day:%B} {day.year}"


def _beliefs(epsilon: float) -> Listing:
    """What a chance that someone gave a guess before can become."""
    found = [belief_after(before, epsilon) for before in BELIEFS]
    columns = [Heading("before", "before"), Heading("at least", "low", number=True)]
    columns.append(Heading("at most", "high", lambda high: _percent(high, True), True))
    records = [{"before": one.told[0], "low": one.told[1], "high": one.high} for one in found]
    return Listing(columns, records)


def _organisation(party: str, agreement: Agreement) -> tuple[str, str]:
    """An organisation's name, and its contact."""
    stated = agreement.organisations.get(party)
    return ((stated.name if stated else "") or party, stated.contact if stated else "")


def _spent(plan: Mapping[str, Any], agreement: Agreement, spending: Mapping[str, Spending]) -> Listing:
    """Every organisation with its columns, its epsilon, and what its data spends."""
    records: list[dict[str, Any]] = []
    for party, planned in plan["parties"].items():
        name, contact = _organisation(party, agreement)
        columns, one = planned["columns"], spending.get(party)
        told = columns
        if len(columns) > SHOWN_COLUMNS + 1:
            told = [name for k, name in enumerate(columns) if not k or len(", ".join(columns[: k + 1])) <= SHOWN_NAMES]
        more = f" and {len(columns) - len(told)} more" if len(told) < len(columns) else ""
        records.append({
            "party": party,
            "organisation": ", ".join(filter(None, (name if name != party else "", contact))),
            "columns": ", ".join(told) + more,
            "epsilon": worst(planned["epsilon"]),
            **({} if one is None else {"before": one.before, "after": one.after, "cap": one.cap}),
        })  # fmt: skip
    unknown = Words("–")
    columns = [
        Heading("party", "party"),
        *([Heading("organisation", "organisation")] if any(one["organisation"] for one in records) else []),
        Heading("brings", "columns"),
        Heading("epsilon of this part", "epsilon", epsilon_text, True, Words("none", "warn")),
        Heading("spent before", "before", lambda value: epsilon_text(value) if value else "0", True, unknown),
        Heading("spent after", "after", epsilon_text, True, unknown),
        Heading("cap", "cap", "{:g}".format, True, unknown),
    ]
    return Listing(columns, records)


def _scale(plan: Mapping[str, Any], epsilon: float) -> Markup:
    parts = [(name, worst(party["epsilon"]) or 0.0) for name, party in plan["parties"].items()]
    told = f"A whole record has epsilon {epsilon_text(epsilon)}, which is called {tier_of(epsilon)}. "
    told += "; ".join(f"the part of {name}: {epsilon_text(value)}" for name, value in parts)
    bounds = [(name, most) for most, name in TIERS]
    return epsilon_scale(epsilon, epsilon_text(epsilon), parts if len(parts) > 1 else [], bounds, told)


def promise(plan: Mapping[str, Any], views: Sequence[Mapping[str, str]], odds: str, done: bool) -> list[Sentence]:
    """Against whom the guarantee holds, and against whom there is none."""
    held = [v for v in views if plan["record"][v["view"]] is not None]
    missing = [v["name"] for v in views if plan["record"][v["view"]] is None]
    epsilon = worst_epsilon(plan)
    out = []
    if held:
        whom = listed([_who(v) for v in held])
        strength = f"Epsilon {epsilon_text(epsilon)} is {'a ' if tier_of(epsilon) != 'weak' else 'only a '}"
        limit = f"the odds of any guess about one person change by at most {odds}" if odds[0] == "×" else odds
        text = f"{strength}{tier_of(epsilon)} guarantee. Against {whom}, {limit}."
        out.append(Sentence("good" if epsilon <= 10 else "warn", "One person stays hidden.", text))
    if missing:
        text = f"What {listed(missing)} {'learned' if done else 'would learn'} about one person has no limit."
        out.append(Sentence("warn", "Not against everyone.", text))
    return out


def _who(view: Mapping[str, str]) -> str:
    return {"outsider": "anyone with the release", "server": "the server", "party": "any other organisation"}.get(
        view["view"], view["who"]
    )


def budget(plan: Mapping[str, Any], spending: Mapping[str, Spending], done: bool) -> Sentence:
    """Whether what is spent stays within the caps that are known."""
    unknown = [party for party in plan["parties"] if party not in spending]
    over = [party for party, one in spending.items() if one.after > one.cap]
    if over:
        text = f"The data of {listed(over)} would have spent more than its cap allows: its ledger will refuse."
        return Sentence("warn", "Over the cap.", text)
    if not spending:
        text = "This page was made without the organisations' ledgers: each of them knows what its data has spent."
        return Sentence("note", "Budget not shown.", text)
    rest = f" What the data of {listed(unknown)} has spent, this page does not know." if unknown else ""
    stays = "stays" if done else "would stay"
    return Sentence("good", "Within budget.", f"The data of {listed(list(spending))} {stays} within its cap.{rest}")


def reliance(told_apart: int, given: int, coefficients: int, predictors: int | None = None) -> Sentence:
    """What the model can be leant on for; `predictors` are those of the model where intervals are of a reduced one."""
    if not told_apart:
        text = reliable_text(0, coefficients, predictors) if given else "No coefficient has an interval"
        return Sentence("note", "Read no single coefficient.", f"{text}; the model may still predict, as a whole.")
    return Sentence("good", "What to rely on.", f"{reliable_text(told_apart, coefficients, predictors)}.")


def outlook(warnings: Sequence[str], plan: Mapping[str, Any], mean: str = "") -> list[Sentence]:
    """What a plan expects, warnings first; `mean` says how sure the label's mean will be."""
    out = [Sentence("warn", "Warning.", f"{note[0].upper()}{note[1:]}.") for note in warnings]
    if told := forecast_text(plan):
        out.append(Sentence("note", "What to expect.", sentence(told.removesuffix("."))))
    if mean and mean not in warnings:
        out.append(Sentence("note", "The label's bounds.", sentence(mean)))
    return out


def broken(flaws: Sequence[str], seeded: bool) -> list[Sentence]:
    """Why no promise holds, where none does."""
    head = "The epsilons on this page do not hold:" if seeded else "This was a simulation:"
    return [Sentence("warn", head, f"{note}.") for note in flaws]
