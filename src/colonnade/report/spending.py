"""What each organisation's data had spent before a session and has spent with it, from the ledgers that are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from colonnade.consent.entries import DataSet
from colonnade.consent.ledger import Ledger, open_ledger
from colonnade.consent.policy import read_policy
from colonnade.foundation.errors import StudyError
from colonnade.mechanism.composition import charge_of

if TYPE_CHECKING:
    from pathlib import Path

    from colonnade.mechanism.release import ReleaseRecord
    from colonnade.planning.session_plan import SessionPlan
    from colonnade.study import StudySpec


@dataclass(frozen=True)
class Spending:
    """One party's data set around one session; epsilons add up by the rule of its ledger."""

    data: str
    before: float
    after: float
    cap: float
    delta: float
    sessions: int
    """Sessions that are spent with this one."""
    time: str = ""
    """When it was booked; empty before it is."""


def planned_spending(study: StudySpec, session: SessionPlan) -> dict[str, Spending]:
    """What a run of the plan would spend, for parties whose policy is on this machine; data is found by its name."""
    out = {}
    for party, source in study.sources.items():
        name = source.name
        if source.policy is None or source.ledger is None or name is None or not source.policy.is_file():
            continue
        cap, charge = read_policy(source.policy).cap, charge_of(session.plan, party)
        before, after = open_ledger(source.ledger).before_and_after(DataSet(name, ""), charge, cap)
        out[party] = Spending(name, before.epsilon, after.epsilon, cap.epsilon, cap.delta, after.sessions)
    return out


def named_ledgers(paths: Iterable[Path]) -> list[Ledger]:
    """The ledgers in these files; one that is not there is refused."""
    found = [open_ledger(path) for path in paths]
    for ledger in found:
        if not ledger.exists:
            raise StudyError(f"there is no ledger {ledger.path}")
    return found


def booked_spending(release: ReleaseRecord, ledgers: Iterable[Ledger]) -> dict[str, Spending]:
    """What the release's session spent, as the ledgers booked it; a ledger without it tells nothing."""
    out = {}
    for ledger in ledgers:
        for entry, before, after in ledger.around(release.provenance["session"]):
            out[entry.booking.party] = Spending(
                entry.data.name,
                before.epsilon,
                after.epsilon,
                entry.cap.epsilon,
                entry.cap.delta,
                after.sessions,
                entry.time,
            )
    return out


def spending_json(found: Mapping[str, Spending]) -> dict[str, Any]:
    """The same for programs; nothing where no ledger is at hand."""
    return {"spending": {party: asdict(one) for party, one in found.items()}} if found else {}
