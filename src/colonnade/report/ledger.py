"""A party's ledger as tables and for programs: data sets with what they have spent, and every entry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from colonnade.consent.entries import EntryKind, Note
from colonnade.mechanism.defects import defects_of
from colonnade.report.text import epsilon_text, titled
from colonnade.report.tidy import tidy_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from colonnade.consent.entries import Account, Entry, Line
    from colonnade.consent.guard import ConsentGuard
    from colonnade.mechanism.composition import Cap, Spent
    from colonnade.mechanism.defects import Defect
    from colonnade.mechanism.release import Release

SHORT = 12
"""Characters of a session id that a table shows."""


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


def accounts_table(accounts: list[Account]) -> RenderableType:
    """Every data set with its cap and what is spent of it."""
    table = tidy_table(
        *("data set", "spent", "cap", "delta", "rule", "sessions", "pending", "alignments", "failed", "bits told"),
        right=(1, 2, 3, 5, 6, 7, 8, 9),
    )
    for account in accounts:
        names = dict.fromkeys(data.name for data in account.data)
        table.add_row(
            Text(", ".join(names)),
            epsilon_text(account.spent.epsilon),
            f"{account.cap.epsilon:g}",
            f"{account.cap.delta:g}",
            account.spent.rule.value,
            str(account.spent.sessions),
            str(account.pending),
            str(account.alignments),
            str(account.failed),
            str(account.bits_told),
        )
    return titled("Epsilon that data sets have spent; pending sessions were booked and not settled, and count", table)


def lines_table(lines: list[Line]) -> RenderableType:
    """Every entry on a line."""
    table = tidy_table("no.", "time (UTC)", "what", "session", "study", "party", "epsilon", "reason", right=(0, 6))
    for line in lines:
        what = line.alignment if isinstance(line, Note) else line.booking
        cost, reason = (
            ("", line.reason or f"ids matched with {', '.join(line.alignment.partners)}")
            if isinstance(line, Note)
            else (
                epsilon_text(line.booking.charge.epsilon),
                line.reason,
            )
        )
        table.add_row(
            str(line.number),
            line.time[:19].replace("T", " ") if line.time.endswith("+00:00") else line.time,
            line.kind.value,
            what.session[:SHORT],
            Text(what.study),
            Text(what.party),
            cost,
            Text(reason),
        )
    return titled("Entries", table)


def touched_entries(
    entries: Sequence[Entry], releases: Sequence[Release]
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
