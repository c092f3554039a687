"""What else a study could release, and what other terms would buy: forecasts from public facts, nothing is spent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rich.text import Text

from colonnade.mechanism.forecast import forecast
from colonnade.mechanism.moments import Encoding, Law, Role
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import PrivacyPlan
from colonnade.mechanism.weights import explained_left, release_risks
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session_plan import SessionPlan, draft_plan
from colonnade.report.text import share_text

TINY_DELTA = 1e-12
"""So small a delta that nobody would call it a risk: one chance in a million million."""
MEANINGS = {
    "full": "all products",
    "label": "products with the label, margins and squares",
    "pairs": "products with the label and the listed pairs",
    "margins": "how many records have each level, column by column",
    "trace": "products with the label and sums of squares",
}


@dataclass(frozen=True)
class Choice:
    """One release that the study could make."""

    release: str
    label_noise: float
    """Standard deviation of the noise on a released product with the label; the largest, where they differ."""
    explained: float | None
    """The share that is left of what a weak model would explain without noise; None where it is not foretold."""


@dataclass(frozen=True)
class Alternative:
    """The same study under one changed term."""

    term: str
    release: str
    label_noise: float
    ratio: float
    """Of its label noise to the plan's."""
    explained: float | None
    caution: str = ""


def choices(session: SessionPlan) -> list[Choice]:
    """The planned release first, then the others."""
    agreement, rows = session.agreement, session.rows
    out = [_choice(session.released, session.plan, agreement, rows)]
    if not _chosen(agreement):
        return out
    features = [a for a in session.plan.layout.attributes if a.role is Role.FEATURE]
    numeric = all(a.kind is Encoding.SIGNED for a in features)
    for release in ("full", "label", *(["trace"] if numeric else [])):
        if release != session.released:
            plan = draft_plan(replace(agreement, release=release, pairs=()), rows)[1]
            out.append(_choice(release, plan, agreement, rows))
    return out


def _chosen(agreement: Agreement) -> bool:
    """Whether a plan could choose: the paper, interactions, several classes, tables of all columns leave no choice."""
    for_label = agreement.purpose is not Purpose.ALL and agreement.evaluates is None and not agreement.interactions
    return for_label and agreement.calibration is Calibration.EXACT and agreement.task is not Task.MULTINOMIAL


def alternatives(session: SessionPlan) -> list[Alternative]:
    """What a tiny delta, and no collusion, would buy."""
    agreement, noise = session.agreement, _label_noise(session.plan)
    changed: list[tuple[str, Agreement, str]] = []
    if agreement.delta == 0 and agreement.calibration is Calibration.EXACT:
        changed.append((f"delta = {TINY_DELTA:g}", replace(agreement, delta=TINY_DELTA), ""))
    if session.plan.collusion > 0 and any(not i.block.single for i in session.plan.blocks):
        caution = (
            "there is then no guarantee against a party, which knows its share of the noise"
            if session.plan.law is Law.LAPLACE
            else "a party, which knows its share of the noise, then sees more than this epsilon"
        )
        changed.append(("collusion = 0", replace(agreement, collusion=0), caution))
    out = []
    for term, other, caution in changed:
        release, plan = draft_plan(other, session.rows)
        found = _choice(release, plan, other, session.rows)
        ratio = found.label_noise / noise
        # The predicted risk knows nothing of collusion.
        explained = found.explained if other.collusion == agreement.collusion else None
        out.append(Alternative(term, release, found.label_noise, ratio, explained, caution))
    return out


def _choice(release: str, plan: PrivacyPlan, agreement: Agreement, rows: int) -> Choice:
    return Choice(release, _label_noise(plan), _explained(release, plan, agreement, rows))


def _label_noise(plan: PrivacyPlan) -> float:
    labels = [i for i in plan.blocks if i.block.role is Role.LABEL and not i.block.summed]
    return max(plan.noise_std(i) for i in labels)


def _explained(release: str, plan: PrivacyPlan, agreement: Agreement, rows: int) -> float | None:
    """By the same predicted risk that the plan chooses by; of a trace by the noise on X'y alone."""
    if release == "trace":
        return forecast(plan, rows).explained
    if release not in ("full", "label") or not _chosen(agreement):
        return None
    epsilon = agreement.epsilon or min(o.total for o in agreement.offers.values())
    law = Law.GAUSSIAN if agreement.delta > 0 else Law.LAPLACE
    return explained_left(release_risks(plan.layout, rows, law, epsilon, agreement.delta)[release])


def why(session: SessionPlan) -> str:
    """Why this release, in one sentence."""
    if session.agreement.calibration is Calibration.PAPER:
        return "the paper's calibration releases all products"
    if session.agreement.release != "auto":
        return "the study asks for it"
    if session.released == "margins":
        return "tables of two columns would be no nearer to the rows' own than those of independent columns"
    if not _chosen(session.agreement):
        return "the task or the purpose of the study needs it"
    if session.released == "label":
        return "pairs of features would be mostly noise, and without them the label's products have less of it"
    if session.released == "trace":
        return "X'X would drown in noise, and without it X'y has less"
    return "the pairs of features are foretold to help more than their noise costs, or nothing would be left either way"


def describe_choices(session: SessionPlan) -> dict[str, Any]:
    """For a JSON object."""
    return {
        "release_choice": {
            "chosen": session.released,
            "why": why(session),
            "choices": [vars(c) for c in choices(session)],
        },
        "other_terms": [vars(a) for a in alternatives(session)],
    }


def choices_text(session: SessionPlan) -> Text:
    """For the plan on a terminal."""
    first, *others = choices(session)
    out = Text(
        f"Release {first.release} ({MEANINGS.get(first.release, first.release)}): {why(session)}. It has {_told(first)}"
    )
    for other in others:
        out.append(f" Release {other.release} ({MEANINGS[other.release]}) would have {_told(other)}")
    for change in alternatives(session):
        release = f" and release {change.release}" if change.release != session.released else ""
        kept = "" if change.explained is None else f", which leaves {share_text(change.explained)} of the weak model"
        out.append(f"\nWith {change.term}{release} that noise would be {change.ratio:.2f} times as large{kept}")
        out.append(f"; {change.caution}." if change.caution else ".")
    return out


def _told(choice: Choice) -> str:
    where = "a count of the label" if choice.release == "margins" else "a product with the label"
    noise = f"noise of {choice.label_noise:.4g} on {where}"
    if choice.explained is None:
        return f"{noise}."
    return f"{noise}, {share_text(choice.explained)} left of what a weak model would explain."
