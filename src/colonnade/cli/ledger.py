"""The `ledger` commands: a party's ledger shown, checked, exported and settled."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colonnade.cli.options import Json, group, option, path_argument, path_option
from colonnade.cli.screen import print_json, stderr, stdout
from colonnade.cli.screen import show as answered
from colonnade.foundation.errors import LedgerError

if TYPE_CHECKING:
    from colonnade.consent.entries import Entry
    from colonnade.consent.ledger import Ledger

SHORT = 16
"""Characters of a session id, at least, that name a session."""

app = group("What a party's data has spent.")

LedgerFile = Annotated[Path, path_argument("LEDGER", "A party's ledger.")]


class Ending(StrEnum):
    """How a session ended."""

    RELEASED = "released"
    VOID = "void"


@app.command(short_help="Every data set with its cap, and every entry.")
def show(ledger: LedgerFile, json: Json = False) -> None:
    """Show every data set with what it has spent of its cap, and every entry. The chain is checked on the way."""
    from colonnade.report.answers.booked import booked

    opened = _open(ledger)
    answered(booked(str(ledger), opened.accounts(), opened.lines()), json)


@app.command(short_help="Check file, chain and meaning.")
def verify(
    ledger: LedgerFile,
    head: Annotated[
        str | None, option("--head", "HASH", "A last hash noted earlier, which must be in the chain.")
    ] = None,
    release: Annotated[
        list[Path] | None,
        path_option(
            "--release", "A release of an entry that 0.1.0 wrote, to say whether a defect touches it; may be repeated."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a ledger: its file, its chain of hashes, its meaning. Note the last hash outside the machine.

    Entries that 0.1.0 wrote are named with the defect that touches them and the epsilon that holds, by their releases.
    """
    from colonnade.foundation.files import read_whole
    from colonnade.mechanism.release import read_release
    from colonnade.report.answers.booked import touched_entries

    opened = _open(ledger)
    last = opened.verify(head)
    count = len(opened.lines())
    touched, unknown = touched_entries(
        opened.entries(), [read_release(read_whole(path, "release")) for path in release or []]
    )
    if json:
        found = [{**known, **defect.describe()} for known, defect in touched]
        print_json({"ledger": str(ledger), "entries": count, "head": last, "defects": found, "unknown": unknown})
        return
    stdout().print(f"{count:,} entries, each follows from the one before; last hash {last}", soft_wrap=True)
    for known, defect in touched:
        stdout().print(f"Entry {known['entry']}, study {known['study']}: {defect.sentence}.", soft_wrap=True)
    if unknown:
        named = ", ".join(str(number) for number in unknown)
        stdout().print(
            f"Written by 0.1.0, whose releases of traces and of derived columns have defects: entries {named}. Give "
            "their releases with --release to learn which are touched.",
            soft_wrap=True,
        )


@app.command(short_help="All entries as JSON, for an auditor.")
def export(
    ledger: LedgerFile,
    out: Annotated[Path | None, path_option("--out", "JSON file to write; standard output if not given.")] = None,
    json: Json = False,
) -> None:
    """Write all entries with their hashes as one JSON object, for an auditor."""
    from colonnade.foundation.files import places
    from colonnade.report.answers.booked import ledger_file

    opened = _open(ledger)
    with places(out) as (file,):
        last, entries = opened.verify(), opened.export()
        content = {"ledger": ledger.name, "head": last, "entries": entries}
        if out is None:
            print_json(content)
            return
        file.write(ledger_file(content))
    if json:
        print_json({"ledger": str(ledger), "entries": len(entries), "head": last, "file": str(out)})
    else:
        stderr().print(f"{len(entries):,} entries written to {out}.")


@app.command(short_help="Say how a booked session ended.")
def settle(
    ledger: LedgerFile,
    session: Annotated[str, option("--session", "ID", f"The session's id, or its first {SHORT} characters or more.")],
    ending: Annotated[
        Ending, option("--as", "released|void", "void: more than `collusion` other parties never submitted.")
    ],
    party: Annotated[str | None, option("--party", "NAME", "Whose booking, where the ledger has several.")] = None,
    reason: Annotated[str, option("--reason", "TEXT", "Kept in the ledger; void needs one.")] = "",
    json: Json = False,
) -> None:
    """Append how a booked session ended. What is void no longer counts: others must show that they never submitted."""
    from colonnade.consent.entries import EntryKind

    opened = _open(ledger)
    if ending is Ending.VOID and not reason.strip():
        raise LedgerError("a session is settled as void with a reason that the ledger keeps, got none")
    name, whose = _find(opened.entries(), session, party)
    entry = opened.settle(name, whose, EntryKind(ending.value), reason.strip())
    if json:
        print_json({"ledger": str(ledger), "entry": entry.to()})
    else:
        stdout().print(f"Session {name[:SHORT]} of {whose} is {entry.kind.value} by entry {entry.number}.")


def _open(path: Path) -> Ledger:
    from colonnade.consent.ledger import open_ledger

    if not path.is_file():
        raise LedgerError(f"there is no ledger {path}")
    return open_ledger(path)


def _find(entries: list[Entry], session: str, party: str | None) -> tuple[str, str]:
    """The one booking that a session's first characters and a party's name mean."""
    if len(session) < SHORT:
        raise LedgerError(f"a session is named by at least {SHORT} characters of its id, got {session!r}")
    booked = {(e.booking.session, e.booking.party) for e in entries}
    found = sorted(b for b in booked if b[0].startswith(session.lower()) and party in (None, b[1]))
    whose = "" if party is None else f" of party {party}"
    if not found:
        raise LedgerError(f"session {session}{whose} was never booked")
    if len(found) > 1:
        raise LedgerError(f"session {session} is booked by {', '.join(p for _, p in found)}: give --party")
    return found[0]
