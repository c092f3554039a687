"""A party's policy and ledger around `fit`, and the `ledger` commands."""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import colonnade as cn
from colonnade.consent.entries import Entry, EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.foundation.errors import PolicyError, ProtocolError
from colonnade.protocol.fit import FitServer
from colonnade.study import read_study
from tests.helpers.cli_study import Answer, Run, runner, write_study

PEOPLE = 60
COMMON = 54

POLICY = """[policy]
party = "{party}"
partners = ["{partner}"]

[session]
epsilon = 40.0

[total]
epsilon = 50.0
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study in which both parties have a policy and keep a ledger."""
    write_study(tmp_path, PEOPLE)
    study = tmp_path / "study.toml"
    text = study.read_text()
    for party, partner in (("works", "bank"), ("bank", "works")):
        (tmp_path / f"{party}.toml").write_text(POLICY.format(party=party, partner=partner))
        data = f'data = "{party}.csv"\n'
        text = text.replace(data, f'{data}policy = "{party}.toml"\nledger = "{party}.ledger"\n')
    study.write_text(text)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def fit(run: Run, folder: Path, name: str = "r.json", *more: object) -> Answer:
    return run("fit", folder / "study.toml", "--out", folder / name, "--json", *more)


def entries(folder: Path, party: str) -> list[Entry]:
    return Ledger(folder / f"{party}.ledger").entries()


def noted(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All lines but those of sessions that failed: what was spent, and that ids were matched."""
    books = {party: Ledger(folder / f"{party}.ledger") for party in ("works", "bank")}
    return {party: [n for n in book.export() if n["kind"] != EntryKind.FAILED.value] for party, book in books.items()}


def refused(answer: Answer, says: str) -> None:
    assert (answer.code, answer.out) == (1, "")
    last = answer.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert says in last, last


def test_a_run_is_booked_and_released_by_every_party(run: Run, folder: Path) -> None:
    told = fit(run, folder).json
    release = json.loads((folder / "r.json").read_text())
    for party in ("works", "bank"):
        booked, released = entries(folder, party)
        assert (booked.kind, released.kind) == (EntryKind.BOOKED, EntryKind.RELEASED)
        assert booked.booking.charge.epsilon == told["parties"][party]["epsilon"]["outsider"]
        assert booked.booking.record_epsilon == told["epsilon"]
        assert (booked.booking.party, booked.booking.study) == (party, "pay")
        assert booked.booking.data.name == f"{party}.csv"
        assert booked.booking.session == release["provenance"]["session"]
        assert booked.booking.plan == release["provenance"]["plan_digest"]
        kept = told["ledger"][party]
        assert kept["spent"]["epsilon"] == booked.booking.charge.epsilon
        assert (kept["spent"]["sessions"], kept["cap"]["epsilon"]) == (1, 50.0)
        assert Path(kept["file"]) == folder / f"{party}.ledger"
    assert ".ledger" not in (folder / "r.json").read_text()
    assert ".toml" not in (folder / "r.json").read_text()


def test_a_second_session_within_the_same_budget_is_refused_and_spends_nothing(run: Run, folder: Path) -> None:
    first = fit(run, folder).json
    before = noted(folder)
    spent = first["parties"]["works"]["epsilon"]["outsider"]
    refused(
        fit(run, folder, "again.json"),
        f"works refuses: data set works.csv may spend at most epsilon=50 in total, epsilon={spent:.6g} is spent and "
        f"with this session's epsilon={spent:.6g} it would be epsilon={2 * spent:.6g}",
    )
    assert not (folder / "again.json").exists()
    # A copy under another name holds the same people.
    (folder / "copy.csv").write_bytes((folder / "works.csv").read_bytes())
    edit(folder / "study.toml", '"works.csv"', '"copy.csv"')
    refused(fit(run, folder, "again.json"), "data set copy.csv may spend at most")
    assert before == noted(folder)
    edit(folder / "works.toml", "50.0", "100.0")
    edit(folder / "bank.toml", "50.0", "100.0")
    assert fit(run, folder, "again.json").json["ledger"]["works"]["spent"]["sessions"] == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("epsilon = 40.0", "epsilon = 3.5", "bank refuses: session.epsilon is at most 3.5, the plan has "),
        ('"works"', '"clinic"', "bank refuses: partners allows clinic, the session has works"),
        (
            "[session]",
            "smallest_rows = 55\n[session]",
            f"bank refuses: smallest_rows is 55, bank itself has n={COMMON}",
        ),
        ("epsilon = 50.0", "epsilon = 2.0", "bank refuses: data set bank.csv may spend at most epsilon=2 in total"),
        ('party = "bank"', 'party = "shop"', "the policy in bank.toml is for party 'shop', and was named for bank"),
        ("partners", "partner", "[policy] has no key 'partner'; did you mean 'partners'?"),
    ],
)
def test_a_policy_refuses_by_rule_and_number(run: Run, folder: Path, old: str, new: str, says: str) -> None:
    edit(folder / "bank.toml", old, new)
    refused(fit(run, folder), says)
    assert not (folder / "r.json").exists()
    assert entries(folder, "works") == entries(folder, "bank") == []


def test_a_product_in_the_clear_is_refused_unless_its_views_are_waived(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", '"lattice"', '"plain"')
    refused(fit(run, folder), "works refuses: products allows lattice, bgn, the session has plain")
    for party in ("works", "bank"):
        edit(folder / f"{party}.toml", "[session]", 'products = ["plain"]\n[session]')
    refused(fit(run, folder), "works refuses: views asks for a guarantee against server, the plan has none")
    for party in ("works", "bank"):
        edit(folder / f"{party}.toml", "[session]", 'views = ["outsider"]\n[session]')
    assert fit(run, folder).code == 0


def test_a_run_that_fails_after_a_booking_leaves_it_void(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session takes the rest of the bank's budget between its consent and its booking."""
    monkeypatch.setattr(Ledger, "check", lambda *_: None)
    edit(folder / "bank.toml", "epsilon = 50.0", "epsilon = 2.0")
    refused(fit(run, folder), "data set bank.csv may spend at most epsilon=2 in total, this session alone asks")
    booked, void = entries(folder, "works")
    assert (booked.kind, void.kind) == (EntryKind.BOOKED, EntryKind.VOID)
    assert void.reason == "the session ended at bank (budget): a ledger has no room for the spend, or cannot be written"
    assert entries(folder, "bank") == []
    monkeypatch.undo()


def test_void_costs_nothing(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(Ledger, "check", lambda *_: None)
        edit(folder / "bank.toml", "epsilon = 50.0", "epsilon = 2.0")
        assert fit(run, folder).code == 1
    edit(folder / "bank.toml", "epsilon = 2.0", "epsilon = 50.0")
    assert fit(run, folder).json["ledger"]["works"]["spent"]["sessions"] == 1


def test_a_run_that_fails_after_all_have_submitted_counts(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server holds all it needs to open, and its last word says so."""

    def fail(*_: object) -> None:
        raise ProtocolError("planted")

    monkeypatch.setattr(FitServer, "open", fail)
    refused(fit(run, folder), "planted")
    monkeypatch.undo()
    for party in ("works", "bank"):
        assert [e.kind for e in entries(folder, party)] == [EntryKind.BOOKED, EntryKind.RELEASED]
    refused(fit(run, folder), "works refuses: data set works.csv may spend at most epsilon=50")


def test_a_book_that_fails_after_the_release_does_not_lose_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session stays booked until a person settles it."""
    from colonnade.foundation.errors import LedgerError

    def fail(*_: object) -> None:
        raise LedgerError("planted")

    monkeypatch.setattr(Ledger, "settle", fail)
    answer = fit(run, folder)
    assert answer.code == 0
    assert (folder / "r.json").exists()
    assert "the session of works stays booked: planted" in answer.err
    assert answer.json["ledger"]["works"]["spent"] is None
    monkeypatch.undo()
    assert [e.kind for e in entries(folder, "works")] == [EntryKind.BOOKED]
    told = run("ledger", "show", folder / "works.ledger", "--json").json
    assert told["accounts"][0]["pending"] == 1
    session = told["entries"][0]["session"]
    book = folder / "works.ledger"
    refused(run("ledger", "settle", book, "--session", session, "--as", "void"), "with a reason")
    refused(run("ledger", "settle", book, "--session", session[:8], "--as", "released"), "at least 16 characters")
    refused(run("ledger", "settle", book, "--session", "0" * 16, "--as", "released"), "was never booked")
    refused(
        run("ledger", "settle", book, "--session", session, "--as", "released", "--party", "bank"),
        "of party bank was never booked",
    )
    settled = run("ledger", "settle", book, "--session", session[:16], "--as", "void", "--reason", "server said so")
    assert (settled.code, settled.out) == (0, f"Session {session[:16]} of works is void by entry 3.\n")
    assert run("ledger", "show", book, "--json").json["accounts"][0]["spent"]["sessions"] == 0
    edit(folder / "study.toml", 'ledger = "bank.ledger"', 'ledger = "other.ledger"')
    assert fit(run, folder, "--force").code == 0


def test_approval_by_the_digest_that_plan_prints(run: Run, folder: Path) -> None:
    # Bins that a plan chooses depend on the number of rows, and a run without it has none.
    edit(folder / "study.toml", "[study]", '[study]\nnumeric = "declared"')
    edit(folder / "bank.toml", "[session]", "require_approval = true\n[session]")
    digest = run("plan", folder / "study.toml", "--rows", COMMON, "--json").json["terms_digest"]
    assert digest in run("plan", folder / "study.toml", "--rows", COMMON).out
    assert digest == read_study(folder / "study.toml").session(COMMON, bytes(range(32))).terms
    refused(fit(run, folder), f"bank refuses: require_approval is set and nobody approved the plan {digest}")
    refused(fit(run, folder, "r.json", "--approve", digest[:8]), "at least 16 characters of a digest")
    other = run("plan", folder / "study.toml", "--rows", COMMON + 1, "--json").json["terms_digest"]
    refused(fit(run, folder, "r.json", "--approve", other), "nobody approved the plan")
    assert entries(folder, "works") == entries(folder, "bank") == []
    told = fit(run, folder, "r.json", "--approve", other, "--approve", digest[:16]).json
    assert told["terms_digest"] == digest
    assert len(entries(folder, "bank")) == 2


@pytest.mark.parametrize(("word", "code"), [("y", 0), ("n", 1)])
def test_a_person_at_the_terminal_is_asked(folder: Path, word: str, code: int) -> None:
    edit(folder / "bank.toml", "[session]", "require_approval = true\n[session]")
    leader, terminal = pty.openpty()
    os.write(leader, f"{word}\n".encode())
    command = [sys.executable, "-m", "colonnade.cli", "fit", "study.toml", "--out", "r.json"]
    done = subprocess.run(command, cwd=folder, stdin=terminal, capture_output=True, text=True, timeout=120)
    os.close(leader)
    os.close(terminal)
    assert done.returncode == code, done.stderr
    assert "bank: study pay with n=54 would spend epsilon=" in done.stderr
    assert "Is it approved?" in done.stderr
    assert (folder / "r.json").exists() == (code == 0)
    assert [e.kind for e in entries(folder, "bank")] == ([EntryKind.BOOKED, EntryKind.RELEASED] if code == 0 else [])


def test_without_a_ledger_fit_says_so_once(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", 'policy = "bank.toml"\nledger = "bank.ledger"\n', "")
    shown = run("fit", folder / "study.toml", "--out", folder / "r.json").out
    assert " ".join(shown.split()).count("No ledger was charged for bank") == 1
    assert "Ledger of works: works.csv has spent epsilon" in " ".join(shown.split())
    assert "of 50 in 1 session" in " ".join(shown.split())
    edit(folder / "study.toml", 'policy = "works.toml"\nledger = "works.ledger"\n', "")
    shown = run("fit", folder / "study.toml", "--out", folder / "r2.json").out
    assert shown.count("No ledger was charged:") == 1
    assert fit(run, folder, "r3.json").json["ledger"] is None


def test_a_policy_needs_its_ledger_and_no_ledger_books_a_seed(run: Run, folder: Path) -> None:
    refused(fit(run, folder, "r.json", "--seed", "00"), "a seed is for simulations")
    (folder / "works.toml").rename(folder / "moved.toml")
    refused(fit(run, folder), "there is no policy file")
    edit(folder / "study.toml", 'ledger = "bank.ledger"\n', "")
    refused(fit(run, folder), "[party.bank] needs policy and ledger together")
    edit(folder / "study.toml", 'policy = "bank.toml"\n', "policy = 3\n")
    refused(fit(run, folder), "[party.bank] policy must be a path, got 3")
    assert not (folder / "works.ledger").exists()


@pytest.fixture
def book(run: Run, folder: Path) -> Path:
    """The bank's ledger after one session."""
    assert fit(run, folder).code == 0
    return folder / "bank.ledger"


def test_show_verify_and_export(run: Run, folder: Path, book: Path) -> None:
    shown = run("ledger", "show", book).out
    for text in ("bank.csv", "booked", "released", "pay", "50"):
        assert text in shown
    checked = run("ledger", "verify", book, "--json").json
    assert checked["entries"] == 3
    assert checked["head"] in run("ledger", "verify", book).out
    told = run("ledger", "export", book).json
    assert told == run("ledger", "export", book, "--json").json
    assert told["head"] == told["entries"][-1]["hash"] == checked["head"]
    out = folder / "audit.json"
    assert run("ledger", "export", book, "--out", out, "--json").json["file"] == str(out)
    assert json.loads(out.read_text()) == told
    first = told["entries"][0]["hash"]
    assert run("ledger", "verify", book, "--head", first).code == 0
    refused(run("ledger", "verify", book, "--head", "ab" * 32), "it was cut off or replaced")
    assert run("ledger", "show", book, "--json").json["entries"] == told["entries"]


def test_a_matching_of_ids_is_noted_and_limited(run: Run, folder: Path, book: Path) -> None:
    """A note costs nothing, and counts: the policy's number of matchings holds for whoever asks again and again."""
    told = run("ledger", "show", book, "--json").json
    note = told["entries"][0]
    assert (note["kind"], note["study"], note["partners"]) == ("aligned", "pay", ["works"])
    assert note["data"]["name"] == "bank.csv" and "charge" not in note
    assert note["session"] == told["entries"][1]["session"] and told["accounts"][0]["alignments"] == 1
    shown = run("ledger", "show", book).out
    assert "ids matched with works" in " ".join(shown.split())
    edit(folder / "bank.toml", "[session]", "largest_alignments = 2\nrequire_approval = true\n[session]")
    for party in ("works", "bank"):
        edit(folder / f"{party}.toml", "50.0", "500.0")
    refused(fit(run, folder, "b.json"), "require_approval is set and nobody approved")
    says = "bank refuses: largest_alignments is 2, and the ids of data set bank.csv were matched 2 times"
    before = noted(folder)
    refused(fit(run, folder, "b.json"), says)
    # Nobody's ids were matched, and the other party has no note of it either.
    assert before == noted(folder)


def test_a_partners_list_may_be_too_long(run: Run, folder: Path) -> None:
    edit(folder / "bank.toml", "[session]", "largest_list = 100\n[session]")
    refused(fit(run, folder), "bank refuses: largest_list is 100, works could test ")
    # The matching had begun: it is noted, and nothing is spent.
    for party in ("works", "bank"):
        book = Ledger(folder / f"{party}.ledger")
        assert [line.kind for line in book.lines()] == [EntryKind.ALIGNED, EntryKind.FAILED]


def test_no_ids_are_matched_for_what_is_refused_anyway(run: Run, folder: Path) -> None:
    for old, new in (("epsilon = 50.0", "epsilon = 2.0"), ("[session]", 'labels = ["works.hours"]\n[session]')):
        edit(folder / "bank.toml", old, new)
        refused(fit(run, folder), "bank refuses: ")
        assert not any(noted(folder).values())


def test_a_time_stays_on_one_line(run: Run, folder: Path, book: Path) -> None:
    reason = "the server's administrator confirmed by telephone that nothing was ever opened in this session " * 2
    ledger = Ledger(book)
    entry = ledger.entries()[0]
    ledger.book(replace(entry.booking, session="f" * 64), replace(entry.cap, epsilon=500.0))
    ledger.settle("f" * 64, "bank", EntryKind.VOID, reason)
    shown = run("ledger", "show", book).out
    # Day and time of day may stand below each other, each of them whole.
    assert all(part in shown for line in ledger.lines() for part in re.split("[T+]", line.time)[:2])


def _alter(book: Path, change: str, *values: Any) -> None:
    with sqlite3.connect(book) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("DROP TRIGGER no_delete")
        connection.execute(change, values)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE entries SET content = replace(content, '\"pay\"', '\"gift\"') WHERE number = 1", "broken at entry 1"),
        ("UPDATE entries SET content = replace(content, 'released', 'void') WHERE number = 3", "broken at entry 3"),
        ("DELETE FROM entries WHERE number = 1", "broken at entry 1"),
    ],
)
def test_an_altered_ledger_is_refused(run: Run, folder: Path, book: Path, change: str, says: str) -> None:
    _alter(book, change)
    for command in ("verify", "show", "export"):
        refused(run("ledger", command, book), says)
    edit(folder / "works.toml", "50.0", "500.0")
    refused(fit(run, folder, "again.json"), says)
    assert not (folder / "again.json").exists()


def test_files_that_are_no_ledger(run: Run, folder: Path) -> None:
    for command in ("show", "verify", "export"):
        refused(run("ledger", command, folder / "none.ledger"), "there is no ledger")
        refused(run("ledger", command, folder / "works.csv"), "cannot be used")
    assert not (folder / "none.ledger").exists()
    assert run("ledger", "settle", folder / "none.ledger").code == 2


def test_the_rule_of_the_first_entry_stays_when_it_is_void(run: Run, folder: Path) -> None:
    """Gaussian first, which is void, then Laplace: the sum would have taken over, and more would have been admitted."""
    for party in ("works", "bank"):
        edit(folder / f"{party}.toml", "epsilon = 40.0", "epsilon = 40.0\ndelta = 1e-5")
        edit(folder / f"{party}.toml", "epsilon = 50.0", "epsilon = 50.0\ndelta = 1e-5")
    edit(folder / "works.toml", "epsilon = 50.0", "epsilon = 5000.0")
    study = folder / "study.toml"
    text = study.read_text()
    study.write_text(text.replace("delta = 0\n", "delta = 1e-6\n", 1))
    answer = fit(run, folder, "first.json")
    assert answer.code == 0, answer.err
    session = entries(folder, "bank")[0].booking.session
    with sqlite3.connect(folder / "bank.ledger") as book:
        # As if the process had died before it heard of the release.
        book.execute("DROP TRIGGER no_delete")
        book.execute("DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)")
    ended = run("ledger", "settle", folder / "bank.ledger", "--session", session, "--as", "void", "--reason", "died")
    assert ended.code == 0, ended.err
    study.write_text(text)
    assert fit(run, folder, "second.json").code == 0
    (account,) = json.loads(run("ledger", "show", folder / "bank.ledger", "--json").out)["accounts"]
    assert account["spent"]["rule"] == "rho" and account["spent"]["sessions"] == 1
    edit(folder / "bank.toml", "delta = 1e-5\n\n[total]", 'delta = 1e-5\n\n[total]\nrule = "sum"')
    refused(fit(run, folder, "third.json"), 'is accounted by rule "rho", fixed by entry')


def test_verify_and_report_name_what_a_defect_of_0_1_0_touches(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = folder / "study.toml"
    savings = "savings = { kind = "
    text = study.read_text().replace("[study]\n", '[study]\nrelease = "trace"\n', 1)
    study.write_text(text.replace(savings, f'debts = {{ kind = "numeric", low = 0, high = 1000 }}\n{savings}', 1))
    head, *rows = (folder / "bank.csv").read_text().splitlines()
    (folder / "bank.csv").write_text("\n".join([f"{head},debts", *(f"{row},3" for row in rows)]) + "\n")
    with monkeypatch.context() as earlier:
        # As 0.1.0 wrote them: its releases named it, its entries did not.
        earlier.setattr("colonnade.consent.ledger.version", lambda name: "")
        earlier.setattr("colonnade.protocol.fit.version", lambda name: "0.1.0")
        assert fit(run, folder, "old.json").code == 0
    monkeypatch.setattr("colonnade.consent.ledger.version", lambda name: "0.2.0.dev1")
    ledger = folder / "bank.ledger"
    assert "colonnade" not in Ledger(ledger).export()[1]
    bare = run("ledger", "verify", ledger)
    assert "Written by 0.1.0" in bare.out and "entries 2." in bare.out
    named = run("ledger", "verify", ledger, "--release", folder / "old.json")
    assert "Entry 2, study" in named.out and "defect of 0.1.0, the rounding of a trace" in named.out
    found = json.loads(run("ledger", "verify", ledger, "--release", folder / "old.json", "--json").out)
    assert found["unknown"] == [] and [d["defect"] for d in found["defects"]] == ["traces"]
    assert found["defects"][0]["bound"] >= found["defects"][0]["stated"]
    shown = run("report", folder / "old.json")
    assert "defect of 0.1.0" in " ".join(shown.out.split())
    assert json.loads(run("report", folder / "old.json", "--json").out)["defects"][0]["defect"] == "traces"
    # Settled by this version, it still is an entry of the other.
    assert run("ledger", "show", ledger).code == 0
    edit(folder / "bank.toml", "epsilon = 50.0", "epsilon = 500.0")
    edit(folder / "works.toml", "epsilon = 50.0", "epsilon = 500.0")
    with monkeypatch.context() as later:
        later.setattr("colonnade.protocol.fit.version", lambda name: "0.2.0.dev1")
        assert fit(run, folder, "new.json").code == 0
    assert Ledger(ledger).export()[-1]["colonnade"] == "0.2.0.dev1"
    both = run("ledger", "verify", ledger, "--release", folder / "old.json", "--release", folder / "new.json", "--json")
    assert len(json.loads(both.out)["defects"]) == 1
    assert json.loads(run("report", folder / "new.json", "--json").out)["defects"] == []


def test_sessions_that_fail_after_data_was_read_are_counted_and_limited(run: Run, folder: Path) -> None:
    edit(folder / "bank.toml", 'partners = ["works"]', f'partners = ["works"]\nsmallest_rows = {COMMON + 1}')
    refused(fit(run, folder), f"smallest_rows is {COMMON + 1}")
    for party in ("works", "bank"):
        (account,) = json.loads(run("ledger", "show", folder / f"{party}.ledger", "--json").out)["accounts"]
        assert account["failed"] == 1 and account["spent"]["sessions"] == 0, party
    assert "smallest_rows is" in run("ledger", "show", folder / "bank.ledger").out
    # Mended at the bank; the other party has had enough of it.
    edit(folder / "bank.toml", f"smallest_rows = {COMMON + 1}\n", "")
    edit(folder / "works.toml", 'partners = ["bank"]', 'partners = ["bank"]\nlargest_attempts = 1')
    refused(fit(run, folder), "largest_attempts is 1, and 1 session on it has ended without a release")
    # Refused before data was read: that is no attempt.
    (account,) = json.loads(run("ledger", "show", folder / "works.ledger", "--json").out)["accounts"]
    assert account["failed"] == 1
    edit(folder / "works.toml", "largest_attempts = 1", "largest_attempts = 2")
    assert fit(run, folder).code == 0
    (account,) = json.loads(run("ledger", "show", folder / "works.ledger", "--json").out)["accounts"]
    assert account["failed"] == 1 and account["spent"]["sessions"] == 1


def test_what_partners_could_be_told_is_summed_over_sessions(run: Run, folder: Path) -> None:
    """A policy with room for two and a half sessions: the third is refused, at the command and in Python."""
    study = read_study(folder / "study.toml")
    (told,) = (one.people for one in study.session(COMMON).tellings if one.partner == "bank")
    assert told > 10
    for party in ("works", "bank"):
        edit(folder / f"{party}.toml", "50.0", "500.0")
    edit(folder / "bank.toml", "[session]", f"largest_bits_told = {2 * told + told // 2}\n[session]")
    for name in ("a.json", "b.json"):
        assert fit(run, folder, name).code == 0
    shown = json.loads(run("ledger", "show", folder / "bank.ledger", "--json").out)
    assert [account["bits_told"] for account in shown["accounts"]] == [2 * told]
    says = f"could have told partners that break the protocol {2 * told} bits of it, and this one could tell"
    refused(fit(run, folder, "c.json"), says)
    with pytest.raises(PolicyError, match=says):
        cn.Study.read(folder / "study.toml").fit(progress=False)
    edit(folder / "bank.toml", f"{2 * told + told // 2}", f"{3 * told}")
    assert fit(run, folder, "c.json").code == 0
