"""What a plan says of parties that do not follow the protocol: how many people one could read, and whose keys."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from colonnade.planning.leakage import KEY_BITS, TOLD_BITS, Leakage, people_sentence
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.evidence import EVIDENCE_DAYS, auditors_named
from colonnade.report.text import titled
from colonnade.report.tidy import tidy_table

SHOWN_PAIRS = 30


@dataclass(frozen=True)
class LeakageNotes:
    """The pairs of a plan that a reader is shown, the least secure first, and what to know of them."""

    shown: tuple[Leakage, ...]
    notes: tuple[str, ...]


def cheating_notes(session: SessionPlan) -> LeakageNotes:
    """What one party could read of another, in people and in keys, and what would leave more."""
    ordered = sorted(session.exposures, key=lambda exposure: exposure.key.bits)
    shown, rest = ordered[:SHOWN_PAIRS], ordered[SHOWN_PAIRS:]
    notes = [people_sentence(session.tellings, session.rows)] if session.tellings else []
    if session.tellings:
        by_party = (f"{told.people:,} of {told.partner}'s ({', '.join(told.cheaters)})" for told in session.tellings)
        notes.append(
            f"By whose records: {'; '.join(by_party)}. It is one yes or no a person, of one column. A policy refuses "
            f"more than {TOLD_BITS:,} in all sessions of a data set (largest_bits_told)."
        )
    if len(session.parties) > 1:
        notes.append(
            "Across machines each party keeps evidence, by which an auditor can make its messages again; its secrets "
            f"are kept for as long as its policy says (keep_evidence, {EVIDENCE_DAYS} days by default). "
            f"{auditors_named(session.agreement.auditors)}"
        )
    if rest:
        notes.append(f"{len(rest)} more pairs leave {rest[0].key.bits} bits or more.")
    if ordered and ordered[0].key.bits < KEY_BITS:
        notes.append(
            f"A policy refuses what leaves under {KEY_BITS} bits (smallest_key_bits): {ordered[0].tell()}; "
            f"{session.leave_bits(ordered[0], KEY_BITS)}."
        )
    elif ordered:
        notes.append(
            f"A policy refuses what leaves under {KEY_BITS} bits (smallest_key_bits). Fewer columns or levels of the "
            "party that cheats, fewer records and a smaller epsilon leave more."
        )
    return LeakageNotes(tuple(shown), tuple(notes))


def cheating_table(session: SessionPlan) -> RenderableType | None:
    """The same for a terminal; nothing where opened values cannot be made to spell a key."""
    found = cheating_notes(session)
    if not found.notes:
        return None
    notes = [Text(note, style="dim") for note in found.notes]
    title = "If a party breaks the protocol: what it could read of a partner's column and its key, at most"
    if not found.shown:
        return titled(title, *notes)
    numbers = ("bits told", "key read", "key left", "security")
    table = tidy_table("columns of", "if these cheat", *numbers, right=range(2, 6))
    for exposure in found.shown:
        key = exposure.key
        weak = "red" if key.bits < KEY_BITS else ""
        table.add_row(
            Text(exposure.partner),
            Text(", ".join(exposure.cheaters)),
            f"{exposure.information:,.0f}",
            f"{key.coefficients:,}",
            f"{key.dimension:,}",
            Text(f"{key.bits} bits", style=weak),
        )
    return titled(title, table, *notes)
