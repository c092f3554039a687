"""The `ledger` commands: a party's book as tables or JSON, checked, exported and settled."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.foundation.errors import LedgerError
from colonnade.foundation.parts import local_path
from colonnade.report.screen import print_json, stderr, stdout

if TYPE_CHECKING:
    from rich.console import RenderableType

    from colonnade.consent.entries import Account, Entry, Line
    from colonnade.consent.guard import ConsentGuard
    from colonnade.consent.ledger import Ledger
    from colonnade.mechanism.composition import Cap, Spent

SHORT = 16
"""Characters of a session id that a table shows, and that name a session on the command line."""

app = typer.Typer(
    help="What a party's data has spent.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LedgerFile = Annotated[Path, typer.Argument(parser=local_path, metavar="LEDGER", help="A party's ledger (SQLite).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


class Ending(StrEnum):
    """How a session ended."""

    RELEASED = "released"
    VOID = "void"


@app.command(short_help="Every data set with its cap, and every entry.")
def show(ledger: LedgerFile, json: Json = False) -> None:
    """Show every data set with what it has spent of its cap, and every entry. The chain is checked on the way."""
    book = _open(ledger)
    lines, accounts = book.lines(), book.accounts()
    if json:
        told = [account_json(account) for account in accounts]
        print_json({"ledger": str(ledger), "accounts": told, "entries": [line.to() for line in lines]})
        return
    stdout().print(_accounts(accounts))
    stdout().print(_lines(lines))


@app.command(short_help="Check file, chain and meaning.")
def verify(
    ledger: LedgerFile,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HASH", help="A last hash noted earlier, which must be in the chain."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a ledger: its file, its chain of hashes, its meaning. Note the last hash outside the machine."""
    book = _open(ledger)
    last = book.verify(head)
    count = len(book.lines())
    if json:
        print_json({"ledger": str(ledger), "entries": count, "head": last})
    else:
        stdout().print(f"{count:,} entries, each follows from the one before; last hash {last}", soft_wrap=True)


@app.command(short_help="All entries as JSON, for an auditor.")
def export(
    ledger: LedgerFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=local_path, metavar="FILE", help="JSON file to write; standard output if not given."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write all entries with their hashes as one JSON object, for an auditor."""
    from colonnade.report.output import places

    book = _open(ledger)
    with places(out) as (file,):
        last, entries = book.verify(), book.export()
        content = {"ledger": ledger.name, "head": last, "entries": entries}
        if out is None:
            print_json(content)
            return
        file.write(_bytes(content))
    if json:
        print_json({"ledger": str(ledger), "entries": len(entries), "head": last, "file": str(out)})
    else:
        stderr().print(f"{len(entries):,} entries written to {out}.")


@app.command(short_help="Say how a booked session ended.")
def settle(
    ledger: LedgerFile,
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help=f"The session's id, or its first {SHORT} characters or more.")
    ],
    ending: Annotated[
        Ending,
        typer.Option(
            "--as", metavar="released|void", help="void: the server confirms that the session was never opened."
        ),
    ],
    party: Annotated[
        str | None, typer.Option("--party", metavar="NAME", help="Whose booking, where the ledger has several.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept in the ledger; void needs one.")] = "",
    json: Json = False,
) -> None:
    """Append how a booked session ended. What is void no longer counts, so the server must have confirmed it."""
    from colonnade.consent.entries import EntryKind

    book = _open(ledger)
    if ending is Ending.VOID and not reason.strip():
        raise LedgerError("a session is settled as void with a reason that the ledger keeps, got none")
    name, whose = _find(book.entries(), session, party)
    entry = book.settle(name, whose, EntryKind(ending.value), reason.strip())
    if json:
        print_json({"ledger": str(ledger), "entry": entry.to()})
    else:
        stdout().print(f"Session {name[:SHORT]} of {whose} is {entry.kind.value} by entry {entry.number}.")


def account_json(account: Account) -> dict[str, Any]:
    """A data set with its cap and what is spent."""
    return {
        "data": [{"name": data.name, "digest": data.digest} for data in account.data],
        "cap": cap_json(account.cap),
        "spent": spent_json(account.spent),
        "pending": account.pending,
        "alignments": account.alignments,
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
    from colonnade.report.text import epsilon_text

    sessions = "1 session" if spent.sessions == 1 else f"{spent.sessions} sessions"
    return (
        f"Ledger of {guard.party}: {guard.data.name} has spent epsilon {epsilon_text(spent.epsilon)} of "
        f"{guard.policy.cap.epsilon:g} in {sessions}."
    )


def _open(path: Path) -> Ledger:
    from colonnade.consent.ledger import Ledger

    if not path.is_file():
        raise LedgerError(f"there is no ledger {path}")
    return Ledger(path)


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


def _accounts(accounts: list[Account]) -> RenderableType:
    from rich.text import Text

    from colonnade.report.text import epsilon_text, tidy_table, titled

    table = tidy_table(
        "data set", "spent", "cap", "delta", "rule", "sessions", "pending", "alignments", right=(1, 2, 3, 5, 6, 7)
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
        )
    return titled("Epsilon that data sets have spent; pending sessions were booked and not settled, and count", table)


def _lines(lines: list[Line]) -> RenderableType:
    from rich.text import Text

    from colonnade.consent.entries import Note
    from colonnade.report.text import epsilon_text, tidy_table, titled

    table = tidy_table("entry", "time", "what", "session", "study", "party", "epsilon", "reason", right=(0, 6))
    # A reason is long, and may fold; a time must not.
    table.columns[1].no_wrap = True
    for line in lines:
        what = line.alignment if isinstance(line, Note) else line.booking
        cost, reason = (
            ("", f"ids matched with {', '.join(line.alignment.partners)}")
            if isinstance(line, Note)
            else (
                epsilon_text(line.booking.charge.epsilon),
                line.reason,
            )
        )
        table.add_row(
            str(line.number),
            line.time,
            line.kind.value,
            what.session[:SHORT],
            Text(what.study),
            Text(what.party),
            cost,
            Text(reason),
        )
    return titled("Entries", table)


def _bytes(content: dict[str, Any]) -> bytes:
    import json

    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
