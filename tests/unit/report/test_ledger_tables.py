"""A ledger as tables and JSON: what was booked, what it cost, and which ids were matched."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from colonnade.consent.entries import Booking, DataSet, EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.mechanism.composition import Cap, Charge, rho_of_pure
from colonnade.report.answers.booked import account_json, booked, ledger_file
from colonnade.report.render.terminal import shown as rendered
from colonnade.report.results import Answer

CAP = Cap(epsilon=1.0)
DATA = DataSet("bank.csv", "0" * 64)


def shown(answer: Answer) -> str:
    console = Console(width=160, color_system=None, force_terminal=False)
    with console.capture() as taken:
        console.print(rendered(answer))
    return taken.get()


def kept(path: Path) -> Ledger:
    """One session released, and one that was booked and never ended."""
    ledger = Ledger(path)
    charge = Charge(epsilon=0.25, delta=0.0, rho=rho_of_pure(0.25))
    for name in ("a" * 64, "b" * 64):
        ledger.book(Booking(name, "bank", "income", "digest", DATA, charge, record_epsilon=0.5), CAP)
    ledger.settle("a" * 64, "bank", EntryKind.RELEASED)
    return ledger


def test_accounts_say_spent_of_cap_and_pending(tmp_path: Path) -> None:
    (account,) = kept(tmp_path / "ledger").accounts()
    found = account_json(account)
    assert (found["spent"]["epsilon"], found["cap"]["epsilon"], found["pending"]) == (0.5, 1.0, 1)
    row = next(line for line in shown(booked("ledger", [account], [])).splitlines() if "bank.csv" in line)
    assert row.split()[:4] == ["bank.csv", "0.5", "1", "0"]


def test_entries_stand_in_their_order_with_their_cost(tmp_path: Path) -> None:
    ledger = kept(tmp_path / "ledger")
    rows = [line.split() for line in shown(booked("ledger", [], ledger.lines())).splitlines() if "income" in line]
    assert [row[3] for row in rows] == ["booked", "booked", "released"]
    assert [row[4] for row in rows] == ["a" * 12, "b" * 12, "a" * 12]
    assert all("0.25" in row for row in rows)


def test_an_export_is_json_with_letters_as_they_are() -> None:
    data = ledger_file({"ledger": "größe"})
    assert json.loads(data) == {"ledger": "größe"} and "größe".encode() in data and data.endswith(b"\n")
