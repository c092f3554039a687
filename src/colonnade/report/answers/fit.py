"""What a run of a study gave: its model, what it spent and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.report.answers.booked import guard_json, spent_line
from colonnade.report.answers.coefficients import fitted
from colonnade.report.results import Answer, Heading, Listing, Part, Passage
from colonnade.report.text import epsilon_text, flaws, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from colonnade.analysis.intervals import Intervals
    from colonnade.model import PublicModel
    from colonnade.runs import FittedStudy


def run_of(
    ran: FittedStudy, public: PublicModel, sure: Intervals, release: Path, model: Path | None, matched: bool
) -> Answer:
    """All of it, with the files that were written; `matched` says that ids were matched before."""
    outcome, of_model = ran.outcome, fitted(public, sure)
    plan = outcome.session.describe()
    told = ", ".join(f"{name} {epsilon_text(p['epsilon']['outsider'])}" for name, p in plan["parties"].items())
    parts: list[Part] = [*of_model.parts]
    parts.append(
        Passage(f"Spent: epsilon {epsilon_text(plan['epsilon'])} of every record ({told}), by views as planned.")
    )
    parts += [Passage(spent_line(ran.guards[name], total)) for name, total in ran.spent.items()]
    if ran.unkept:
        whose = f" for {', '.join(ran.unkept)}" if ran.guards else ""
        parts.append(Passage(f"There was no ledger kept{whose}: [party.NAME] may name a policy and a ledger."))
    parts += traffic(outcome.traffic.sent, outcome.traffic.received, outcome.seconds, matched)
    written = f"Release written to {release}" + ("" if model is None else f", model to {model}") + "."
    warned = [*of_model.warnings, *flaws(outcome.release.provenance)]

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

    return Answer(of_model.title, [*parts, Passage(written)], facts, warned)


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
