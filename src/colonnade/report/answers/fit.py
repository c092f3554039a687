"""What a run of a study gave: its model, what it spent and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.foundation.shown import figure, ratio_text
from colonnade.report.answers.booked import guard_json, spent_line
from colonnade.report.answers.coefficients import NUMBERS, conf_int, fitted, surety
from colonnade.report.answers.plan import worst_parts
from colonnade.report.results import Answer, Brief, Heading, Listing, Part, Passage
from colonnade.report.text import epsilon_text, flaws_of, reliable_text, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from colonnade.analysis.intervals import Intervals
    from colonnade.model import PublicModel
    from colonnade.runs import FittedStudy

LINE = 70
"""Characters of a line in a verdict."""
SHOWN_SIGNS = 6
"""Coefficients in a verdict."""


def run_of(
    ran: FittedStudy, public: PublicModel, sure: Intervals, release: Path, model: Path | None, matched: bool
) -> Answer:
    """All of it, with the files that were written; `matched` says that ids were matched before."""
    outcome, of_model = ran.outcome, fitted(public, sure)
    plan = outcome.session.describe()
    parts: list[Part] = [*of_model.parts]
    spent = f"Spent: epsilon {epsilon_text(plan['epsilon'])} of every record ({worst_parts(plan)})."
    ledgers = [spent_line(ran.guards[name], total) for name, total in ran.spent.items()]
    if ran.unkept:
        whose = f" for {', '.join(ran.unkept)}" if ran.guards else ""
        ledgers.append(f"No ledger was charged{whose}: set policy, ledger at each party.")
    parts += map(Passage, (spent, *ledgers))
    parts += traffic(outcome.traffic.sent, outcome.traffic.received, outcome.seconds, matched)
    files = f"{release}{'' if model is None else f', {model}'}"
    warned = [*of_model.warnings, *flaws_of(outcome.release)]
    took = f"{sum(outcome.seconds.values()):.1f} s; the parties sent {size_text(sum(outcome.traffic.sent.values()))}."
    delta = f", delta {plan['delta']:g}" if plan["delta"] else ""
    lines = [
        (
            "Spent",
            " ".join(
                [f"epsilon {epsilon_text(plan['epsilon'])}{delta} of every record ({worst_parts(plan)}).", *ledgers]
            ),
        ),
        ("Quality", quality(public)),
        ("Reliable", reliable(public, sure)),
        ("Took", took),
        ("Files", f"{files}. More costs nothing: colonnade tables, solve."),
    ]
    brief = Brief(f"{plan['study']}: fitted on {plan['n']:,} people. {of_model.title}.", lines)

    def facts() -> dict[str, Any]:
        return {
            **plan,
            **of_model.facts(),
            "seconds": sum(outcome.seconds.values()),
            "steps": dict(outcome.seconds),
            "bytes": {"sent": outcome.traffic.sent, "received": outcome.traffic.received},
            "seeded": outcome.release.provenance["seeded"],
            "release": str(release),
            "model": None if model is None else str(model),
            "ledger": {n: guard_json(guard, ran.spent.get(n)) for n, guard in ran.guards.items()} or None,
            "terms_digest": outcome.session.terms,
            "warnings": [*outcome.session.warnings(), *public.warnings],
        }

    written = Passage(f"Written: {files}.")
    return Answer(of_model.title, [*parts, written], facts, warned, brief)


def quality(public: PublicModel) -> str:
    """How good a model is, as far as the release says it."""
    found = public.model.r_squared_interval
    if found is not None:
        return f"R² {public.model.r_squared:.3f} on these records, 95% interval {found[0]:.3f} to {found[1]:.3f}."
    return "not measured: evaluate does, on held-out people, and spends; rehearse simulates."


def reliable(public: PublicModel, sure: Intervals) -> str:
    """The coefficients whose sign the release tells, the surest first."""
    if not sure.coefficients:
        return f"no coefficient has an interval: {sure.reason}."
    known = {record["feature"]: record for record in conf_int(public, sure).records}
    found = sorted(sure.signed, key=surety)
    told = reliable_text(len(found), len(sure.coefficients), None if sure.full else len(public.model.features))
    rows = [known[one.feature] for one in found[:SHOWN_SIGNS]]
    odds = any("odds_low" in row for row in rows)
    out = [f"{told}{'.' if not rows else ' (odds):' if odds else ':'}"]
    for row in rows:
        ends = [row[f"odds_{name}" if odds else name] for name in NUMBERS]
        middle, low, high = [ratio_text(end) if odds else figure(end, 3, "+") for end in ends]
        told = f": {'×' if odds else ''}{middle} ({low} to {high})"
        against = f" vs {row['base']}" if row["base"] else ""
        # What does not fit on a line is left to the table.
        fits = len(row["feature"] + against + told) <= LINE
        out.append(f"{row['feature']}{against if fits else ''}{told}")
    return "\n".join(out)


def traffic(
    sent: Mapping[str, int], received: Mapping[str, int], seconds: Mapping[str, float], matched: bool
) -> list[Part]:
    """What a run took."""
    columns = [Heading("party", "party"), *(Heading(key, key, size_text, True) for key in ("sent", "received"))]
    records = [{"party": name, "sent": sent[name], "received": received[name]} for name in sent]
    took = ", ".join(f"{step} {value:.2f} s" for step, value in seconds.items())
    note = " The bytes of matching ids are in the table." if matched else ""
    told = Passage(f"{sum(seconds.values()):.1f} seconds: {took}.{note}")
    return [Listing(columns, records, "Traffic of the session"), told]
