"""A party's ledger: data sets with what they have spent, and every entry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from colonnade.consent.entries import EntryKind, Note
from colonnade.mechanism.defects import defects_of
from colonnade.report.results import Answer, Heading, Listing
from colonnade.report.text import epsilon_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colonnade.consent.entries import Account, Alignment, Booking, Entry, Line
    from colonnade.consent.guard import ConsentGuard
    from colonnade.mechanism.composition import Cap, Spent
    from colonnade.mechanism.defects import Defect
    from colonnade.mechanism.release import ReleaseRecord

SHORT = 12
"""Characters of a session id that a table shows."""
COUNTS = ("sessions", "pending", "alignments", "failed", "bits_told")
ACCOUNTS = (
    Heading("data set", "names"),
    Heading("spent", "epsilon", epsilon_text, True),
    Heading("cap", "cap", lambda cap: f"{cap['epsilon']:g}", True),
    Heading("delta", "cap", lambda cap: f"{cap['delta']:g}", True),
    Heading("rule", "rule"),
    *(Heading(key.replace("_", " "), key, number=True) for key in COUNTS),
)
LINES = (
    Heading("no.", "number", number=True),
    Heading("time (UTC)", "time"),
    Heading("what", "kind"),
    *(Heading(key, key) for key in ("session", "study", "party")),
    Heading("epsilon", "epsilon", epsilon_text, True),
    Heading("reason", "reason"),
)


def account_json(account: Account) -> dict[str, Any]:
    """A data set with its cap and what is spent."""
    return {
        "data": [{"name": data.name, "digest": data.digest} for data in account.data],
        "cap": cap_json(account.cap),
        "spent": spent_json(account.spent),
        "pending": account.pending,
        "alignments": account.alignments,
        "failed": account.failed,
        "bits_told": account.bits_told,
    }


def cap_json(cap: Cap) -> dict[str, Any]:
    return {"epsilon": cap.epsilon, "delta": cap.delta, "rule": None if cap.rule is None else cap.rule.value}


def spent_json(spent: Spent) -> dict[str, Any]:
    return {
        "sessions": spent.sessions,
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "rule": spent.rule.value,
    }


def guard_json(guard: ConsentGuard, spent: Spent | None) -> dict[str, Any]:
    """A party's ledger after a run; what is spent is null where the book failed after the release."""
    return {
        "file": str(guard.ledger.path),
        "data": guard.data.name,
        "cap": cap_json(guard.policy.cap),
        "spent": None if spent is None else spent_json(spent),
    }


def spent_line(guard: ConsentGuard, spent: Spent) -> str:
    """What a party's data set has spent, in one sentence."""
    sessions = "1 session" if spent.sessions == 1 else f"{spent.sessions} sessions"
    return (
        f"Ledger of {guard.party}: {guard.data.name} has spent epsilon {epsilon_text(spent.epsilon)} of "
        f"{guard.policy.cap.epsilon:g} in {sessions}."
    )


def booked(ledger: str, accounts: Sequence[Account], lines: Sequence[Line]) -> Answer:
    """Every data set with its cap and what is spent of it, and every entry on a line."""
    told = [account_json(account) for account in accounts]
    records = [
        {**one, **one["spent"], "cap": one["cap"], "names": ", ".join(dict.fromkeys(d["name"] for d in one["data"]))}
        for one in told
    ]
    title = "Epsilon that data sets have spent; pending sessions were booked and not settled, and count"
    tables = [Listing(ACCOUNTS, records, title), Listing(LINES, [_line(line) for line in lines], "Entries")]
    facts = {"ledger": ledger, "accounts": told, "entries": [line.to() for line in lines]}
    return Answer("", tables, lambda: facts)


def _line(line: Line) -> dict[str, Any]:
    told: dict[str, Any] = {"number": line.number, "kind": line.kind.value, "reason": line.reason}
    told["time"] = line.time[:19].replace("T", " ") if line.time.endswith("+00:00") else line.time
    if isinstance(line, Note):
        what: Alignment | Booking = line.alignment
        told["reason"] = line.reason or f"ids matched with {', '.join(line.alignment.partners)}"
    else:
        what, told["epsilon"] = line.booking, line.booking.charge.epsilon
    return {**told, "session": what.session[:SHORT], "study": what.study, "party": what.party}


def touched_entries(
    entries: Sequence[Entry], releases: Sequence[ReleaseRecord]
) -> tuple[list[tuple[dict[str, Any], Defect]], list[int]]:
    """Bookings of 0.1.0 that a defect touches, by their releases; and the numbers of those whose release is not given.

    What is void released nothing.
    """
    by_session = {release.provenance["session"]: release for release in releases}
    void = {(e.booking.session, e.booking.party) for e in entries if e.kind is EntryKind.VOID}
    void -= {(e.booking.session, e.booking.party) for e in entries if e.kind is EntryKind.RELEASED}
    touched, unknown = [], []
    for entry in entries:
        booking = entry.booking
        if entry.kind is not EntryKind.BOOKED or entry.software or (booking.session, booking.party) in void:
            continue
        release = by_session.get(booking.session)
        if release is None:
            unknown.append(entry.number)
            continue
        known = {"entry": entry.number, "session": booking.session, "study": booking.study, "party": booking.party}
        touched += [(known, defect) for defect in defects_of(release, booking.party)]
    return touched, unknown


def ledger_file(content: dict[str, Any]) -> bytes:
    """The bytes of an exported ledger."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
