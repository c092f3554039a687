"""What a run of a study gave: its model, what it spent and what it took, as text and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from colonnade.report.certainty import intervals_json, intervals_report
from colonnade.report.ledger import guard_json, spent_line
from colonnade.report.machine import model_json
from colonnade.report.text import caution, flaws, model_report, spent_text, traffic_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from colonnade.analysis.intervals import Intervals
    from colonnade.model import PublicModel
    from colonnade.runs import FittedStudy


def fitted_json(
    fitted: FittedStudy, public: PublicModel, sure: Intervals, release: Path, model: Path | None
) -> dict[str, Any]:
    """All of it for programs, with the files that were written."""
    outcome = fitted.outcome
    return {
        **outcome.session.describe(),
        **model_json(public),
        **intervals_json(sure),
        "seconds": sum(outcome.seconds.values()),
        "steps": dict(outcome.seconds),
        "bytes": {"sent": outcome.traffic.sent, "received": outcome.traffic.received},
        "seeded": outcome.release.provenance["seeded"],
        "release": str(release),
        "model": None if model is None else str(model),
        "ledger": {n: guard_json(guard, fitted.spent.get(n)) for n, guard in fitted.guards.items()} or None,
        "terms_digest": outcome.session.terms,
        "warnings": [*outcome.session.warnings(), *public.warnings],
    }


def fitted_report(fitted: FittedStudy, public: PublicModel, sure: Intervals, matched: bool) -> Iterator[RenderableType]:
    """All of it for a terminal, part by part; `matched` says that ids were matched before."""
    outcome = fitted.outcome
    yield model_report(public)
    yield intervals_report(sure)
    yield spent_text(outcome.session.describe())
    for name, total in fitted.spent.items():
        yield spent_line(fitted.guards[name], total)
    if fitted.unkept:
        whose = f" for {', '.join(fitted.unkept)}" if fitted.guards else ""
        yield f"There was no ledger kept{whose}: [party.NAME] may name a policy and a ledger."
    yield ""
    yield traffic_table(outcome.traffic.sent, outcome.traffic.received, outcome.seconds, matched)
    for note in flaws(outcome.release.provenance):
        yield caution(note)
