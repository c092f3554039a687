"""The ledger: caps, chain, two processes, and kill -9 at any line."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest

from colonnade.consent import ledger as module
from colonnade.consent.entries import Alignment, Booking, DataSet, EntryKind, content_of
from colonnade.consent.ledger import GENESIS, Ledger
from colonnade.data.ids import IdColumns
from colonnade.data.table import read_table, table_from
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import DataError, LedgerError, PolicyError
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.composition import (
    Cap,
    Charge,
    Rule,
    charge_of,
    record_epsilon,
    rho_of_pure,
)
from colonnade.mechanism.objective import Task
from colonnade.mechanism.plan import View
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.in_process import Wire, pass_on
from tests.helpers.sessions import TappedSession, tapped_session

FORK = multiprocessing.get_context("fork")
DATA = DataSet("bank.csv", "d" * 64)
CAP = Cap(1.0)


def pure(epsilon: float) -> Charge:
    return Charge(epsilon, 0.0, rho_of_pure(epsilon))


def noisy(epsilon: float, delta: float = 1e-6) -> Charge:
    return Charge(epsilon, delta, float(gaussian_rho(epsilon, delta)))


def booking(session: str = "s1", epsilon: float = 0.25, data: DataSet = DATA, party: str = "bank") -> Booking:
    return Booking(session, party, "income", "p" * 64, data, pure(epsilon), 1.0)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", lambda: datetime(2026, 1, 2, tzinfo=UTC))


def test_a_spend_counts_from_its_booking_until_it_is_void(book: Ledger) -> None:
    book.book(booking("s1"), CAP)
    assert book.spent(DATA, CAP).epsilon == 0.25
    book.settle("s1", "bank", EntryKind.RELEASED)
    book.book(booking("s2"), CAP)
    assert book.spent(DATA, CAP).epsilon == 0.5
    book.settle("s2", "bank", EntryKind.VOID, "the server ended the session")
    assert book.spent(DATA, CAP).epsilon == 0.25
    assert [e.kind for e in book.entries()] == [EntryKind.BOOKED, EntryKind.RELEASED, EntryKind.BOOKED, EntryKind.VOID]
    assert book.entries()[-1].reason == "the server ended the session"


def test_the_cap_is_reached_exactly_and_not_passed(book: Ledger) -> None:
    for i in range(10):
        book.check(DATA, pure(0.1), CAP)
        book.book(booking(f"s{i}", 0.1), CAP)
    head = book.verify()
    for refused in (lambda: book.check(DATA, pure(1e-9), CAP), lambda: book.book(booking("more", 1e-9), CAP)):
        with pytest.raises(LedgerError, match=r"bank\.csv may spend at most epsilon=1 in total, epsilon=1 is spent"):
            refused()
    assert book.verify() == head


def test_bits_that_sessions_could_tell_add_up_but_for_void_ones(book: Ledger) -> None:
    """300, 250 and 400 that are void: 450 more make 1000, and 451 pass it. Sessions set apart are not counted."""
    told = {"s1": 300, "s2": 250, "s3": 400}
    for session, bits in told.items():
        book.book(replace(booking(session, 0.1), bits_told=bits), CAP, largest_told=950)
    book.settle("s1", "bank", EntryKind.RELEASED)
    book.settle("s3", "bank", EntryKind.VOID)
    book.check_told(DATA, 450, 1000)
    book.check_told(DATA, 750, 1000, apart=["s1"])
    for refused in (
        lambda: book.check_told(DATA, 451, 1000),
        lambda: book.check_told(DATA, 751, 1000, apart=["s1"]),
        lambda: book.book(replace(booking("s4", 0.1), bits_told=451), CAP, largest_told=1000),
    ):
        with pytest.raises(PolicyError):
            refused()
    book.book(replace(booking("s4", 0.1), bits_told=450), CAP, largest_told=1000)
    assert [account.bits_told for account in book.accounts()] == [1000]


def test_attempts_are_sessions_that_are_void_and_those_that_were_never_booked(book: Ledger) -> None:
    for session, kind in (("s1", EntryKind.RELEASED), ("s2", EntryKind.VOID), ("s3", EntryKind.VOID)):
        book.book(booking(session, 0.1), CAP)
        book.settle(session, "bank", kind)
    book.check_attempts(DATA, 3)
    with pytest.raises(PolicyError, match="largest_attempts is 2, and 2 sessions on it have ended"):
        book.check_attempts(DATA, 2)
    book.note_failure(Alignment("s4", "bank", "income", ("shop",), DATA), CAP, "a partner left")
    with pytest.raises(PolicyError, match="largest_attempts is 3, and 3 sessions on it have ended"):
        book.check_attempts(DATA, 3)
    book.check_attempts(DATA, 4)


def test_a_first_session_above_the_cap_is_refused_and_leaves_no_entry(book: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"at most epsilon=1 in total, this session alone asks epsilon=1\.5"):
        book.book(booking(epsilon=1.5), CAP)
    gaussian = noisy(0.5)
    with pytest.raises(LedgerError, match=r"asks epsilon=0\.5 at delta=1e-06"):
        book.book(replace(booking(), charge=gaussian), CAP)
    assert book.entries() == []


def test_a_gaussian_account_holds_more_sessions_than_the_sum_of_its_epsilons(book: Ledger) -> None:
    charge = noisy(0.25)
    cap = Cap(1.0, 1e-6)
    booked = 0
    with pytest.raises(LedgerError, match='by rule "rho"'):
        for booked in range(100):
            book.book(replace(booking(f"s{booked}"), charge=charge), cap)
    assert booked > 8
    assert 0.9 < book.spent(DATA, cap).epsilon <= 1.0


def admitted(book: Ledger, charge: Charge, cap: Cap, most: int) -> int:
    """How many more sessions of this charge, up to so many, the ledger takes."""
    start = len(book.entries())
    for done in range(most):
        try:
            book.book(replace(booking(f"s{start + done}"), charge=charge), cap)
        except LedgerError:
            return done
    return most


@pytest.mark.parametrize(
    ("first", "then", "cap", "rule", "most"),
    [
        # 0.1.0 booked 5.5 of a cap of 4.5: the sum took over when the first was void.
        (noisy(0.5, 1e-7), pure(0.5), Cap(4.5, 1e-6), Rule.RHO, 2),
        # 0.1.0 counted 1.0 as less and admitted many more: rho took over.
        (pure(0.25), noisy(0.25, 1e-7), Cap(1.0, 1e-6), Rule.SUM, 3),
        (pure(0.25), pure(0.25), Cap(1.0, 1e-6, Rule.ZCDP), Rule.ZCDP, 3),
    ],
)
def test_the_first_entry_fixes_the_rule_and_void_does_not_change_it(
    tmp_path: Path, first: Charge, then: Charge, cap: Cap, rule: Rule, most: int
) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    assert admitted(book, first, cap, 1) == 1
    assert admitted(book, then, cap, 20) == most
    before = book.spent(DATA, cap)
    book.settle("s0", "bank", EntryKind.VOID, "the server died")
    after = book.spent(DATA, cap)
    assert before.rule is after.rule is rule and after.sessions == before.sessions - 1
    # One session is void, and no more than one takes its place.
    assert admitted(book, then, cap, 20) <= 1
    assert book.spent(DATA, cap).epsilon <= cap.epsilon and book.accounts()[0].spent.rule is rule


def test_neither_a_void_entry_nor_another_cap_changes_the_rule(book: Ledger) -> None:
    cap = Cap(1.0, 1e-6)
    book.book(replace(booking("s1"), charge=noisy(0.25, 1e-7)), cap)
    book.settle("s1", "bank", EntryKind.VOID, "the server died")
    book.book(booking("s2", 0.05), cap)
    assert book.spent(DATA, cap).rule is Rule.RHO
    # A policy that names no delta any more does not make a sum of it.
    with pytest.raises(LedgerError, match=r'by rule "rho" since its first entry, which needs a total\.delta above 0'):
        book.book(booking("s3"), Cap(1.0))
    assert book.spent(DATA, Cap(1.0)).rule is Rule.RHO
    for other in (Rule.SUM, Rule.ZCDP):
        with pytest.raises(LedgerError, match=f'"rho", fixed by entry 1; the policy\'s total.rule is "{other.value}"'):
            book.book(booking("s3"), replace(cap, rule=other))
    book.check(DATA, noisy(0.1, 1e-7), replace(cap, rule=Rule.RHO))
    assert len(book.entries()) == 3


def test_zcdp_admits_a_session_in_which_a_party_knows_noise(book: Ledger) -> None:
    cap, known = Cap(1.0, 1e-6, Rule.ZCDP), Charge(0.25, 1e-7, None, 2.0e-3)
    for i in range(3):
        book.book(replace(booking(f"s{i}"), charge=known), cap)
    assert [e.booking.charge for e in book.entries()] == [known] * 3
    assert book.export()[0]["charge"]["zcdp"] == 2.0e-3
    book.book(replace(booking("s3"), charge=noisy(0.25, 1e-7)), cap)
    assert "zcdp" not in book.export()[3]["charge"]


def test_a_session_is_booked_once(book: Ledger) -> None:
    first = book.book(booking(), CAP)
    assert book.book(booking(), CAP) == first
    assert len(book.entries()) == 1
    with pytest.raises(LedgerError, match="session s1 of party bank is booked with other terms in entry 1"):
        book.book(booking(epsilon=0.3), CAP)
    book.book(booking(party="shop", data=DataSet("shop.csv", "e" * 64)), CAP)
    book.settle("s1", "bank", EntryKind.VOID)
    with pytest.raises(LedgerError, match="has ended: it is void by entry 3"):
        book.book(booking(), CAP)


def test_settling_follows_booking_and_never_takes_a_release_back(book: Ledger) -> None:
    with pytest.raises(LedgerError, match="session s1 of party bank was never booked"):
        book.settle("s1", "bank", EntryKind.VOID)
    book.book(booking(), CAP)
    with pytest.raises(LedgerError, match="released or void, got booked"):
        book.settle("s1", "bank", EntryKind.BOOKED)
    void = book.settle("s1", "bank", EntryKind.VOID)
    assert book.settle("s1", "bank", EntryKind.VOID) == void
    assert book.spent(DATA, CAP).sessions == 0
    book.settle("s1", "bank", EntryKind.RELEASED, "the release appeared after all")
    assert book.spent(DATA, CAP).epsilon == 0.25
    with pytest.raises(LedgerError, match="is released and cannot become void"):
        book.settle("s1", "bank", EntryKind.VOID)
    book.verify()


def test_a_renamed_copy_and_an_edited_file_share_the_budget(book: Ledger) -> None:
    book.book(booking("s1", 0.5), CAP)
    book.book(booking("s2", 0.25, DataSet("bank.csv", "e" * 64)), CAP)
    renamed = DataSet("copy.csv", "e" * 64)
    with pytest.raises(LedgerError, match=r"epsilon=0\.75 is spent"):
        book.book(booking("s3", 0.5, renamed), CAP)
    assert book.spent(renamed, CAP).epsilon == 0.75
    assert book.spent(DataSet("other.csv", "f" * 64), CAP).sessions == 0
    book.book(booking("s4", 1.0, DataSet("other.csv", "f" * 64)), CAP)
    accounts = book.accounts()
    assert [(len(a.data), a.spent.epsilon, a.pending) for a in accounts] == [(2, 0.75, 2), (1, 1.0, 1)]


def test_a_data_set_is_named_and_digested_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x\n1\n")
    one = DataSet.of_file(path)
    path.write_bytes(b"x\n2\n")
    assert one.name == "a.csv" and one.digest != DataSet.of_file(path).digest
    assert DataSet.of_file(path, "patients").name == "patients"
    with pytest.raises(DataError, match="there is no data file"):
        DataSet.of_file(tmp_path / "none.csv")


def test_a_data_set_in_parts_is_what_a_table_reads(tmp_path: Path) -> None:
    """A folder or a pattern: one data set, by the contents of its parts."""
    folder = tmp_path / "gains"
    folder.mkdir()
    with pytest.raises(DataError, match="the folder gains has no Parquet, Feather or CSV file"):
        DataSet.of_file(folder)
    alone = tmp_path / "alone.csv"
    alone.write_bytes(b"id,x\na,1\n")
    (folder / "1.csv").write_bytes(alone.read_bytes())
    assert DataSet.of_file(folder) == DataSet("gains", DataSet.of_file(alone).digest)
    (folder / "2.csv").write_bytes(b"id,x\nb,2\n")
    (folder / "notes.txt").write_bytes(b"not read")
    both = DataSet.of_file(folder)
    assert both.digest not in {DataSet.of_file(part).digest for part in folder.glob("*.csv")}
    assert read_table("p", folder, {"x": Numeric(0, 5)}, IdColumns(("id",))).rows == 2
    # A pattern that names the same parts, and other names that change their order.
    assert DataSet.of_file(folder / "*.csv") == DataSet("*.csv", both.digest)
    (folder / "1.csv").rename(folder / "3.csv")
    (folder / "notes.txt").write_bytes(b"still not read")
    assert DataSet.of_file(folder) == both
    (folder / "2.csv").write_bytes(b"id,x\nb,3\n")
    edited = DataSet.of_file(folder)
    assert edited.name == both.name and edited.digest != both.digest
    (folder / "4.csv").write_bytes(b"id,x\nc,3\n")
    assert DataSet.of_file(folder).digest not in {both.digest, edited.digest}
    with pytest.raises(DataError, match="no data file fits the pattern"):
        DataSet.of_file(folder / "*.parquet")


def test_a_part_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.foundation.parts.data_files", lambda path: [path / "gone.csv"])
    with pytest.raises(DataError, match=r"gone.csv cannot be read: No such file"):
        DataSet.of_file(tmp_path)


def test_a_folder_that_is_named_by_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_bytes(b"x\n1\n")
    monkeypatch.chdir(tmp_path)
    assert DataSet.of_file(Path()).name == tmp_path.name


def matching(session: str = "a1", data: DataSet = DATA) -> Alignment:
    return Alignment(session, "bank", "income", ("shop", "clinic"), data)


def test_alignments_are_linked_counted_and_cost_nothing(book: Ledger) -> None:
    one = book.align(matching(), CAP, 2)
    entry = book.book(booking(), CAP)
    # A copy under another name holds the same people.
    two = book.align(matching("a2", replace(DATA, name="copy.csv")), CAP, 2)
    assert book.lines() == [one, entry, two] and book.entries() == [entry]
    assert book.verify(one.hash) == two.hash
    (account,) = book.accounts()
    assert (account.alignments, account.spent.epsilon, account.spent.sessions) == (2, 0.25, 1)
    with pytest.raises(PolicyError, match=r"largest_alignments is 2, and the ids of data set bank\.csv were matched 2"):
        book.align(matching("a3"), CAP, 2)
    with pytest.raises(PolicyError, match="largest_alignments is 1"):
        book.check_alignments(DATA, 1)
    book.check_alignments(DATA, None)
    other = book.align(matching("a3", DataSet("other.csv", "e" * 64)), CAP, 2)
    assert book.verify() == other.hash
    told = book.export()
    assert [line["kind"] for line in told] == ["aligned", "booked", "aligned", "aligned"]
    assert told[0]["partners"] == ["shop", "clinic"] and "charge" not in told[0]
    # An account may have matchings alone.
    assert [(a.alignments, a.cap, a.spent.epsilon) for a in book.accounts()][1] == (1, CAP, 0.0)
    with pytest.raises(LedgerError, match="settled as released or void, got aligned"):
        book.settle("s1", "bank", EntryKind.ALIGNED)


def test_an_alignment_cannot_be_taken_out_or_changed(book: Ledger) -> None:
    book.align(matching(), CAP)
    book.book(booking(), CAP)
    connection = sqlite3.connect(book.path)
    connection.execute("DROP TRIGGER no_update")
    connection.execute("UPDATE entries SET content = replace(content, 'clinic', 'school') WHERE number = 1")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="broken at entry 1"):
        book.verify()
    with pytest.raises(LedgerError, match="broken at entry 1"):
        book.align(matching("a2"), CAP)


def _version(book: Ledger, number: int | None = None) -> int:
    connection = sqlite3.connect(book.path)
    if number is not None:
        connection.execute(f"PRAGMA user_version = {number}")
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    connection.close()
    return found


def test_a_ledger_of_the_version_before_is_read_and_goes_on(book: Ledger) -> None:
    entry = book.book(booking(), CAP)
    _version(book, 1)
    assert book.entries() == [entry] and book.verify() == entry.hash and _version(book) == 1
    book.try_to_write()
    # Earlier versions cannot read a note, and must say so rather than call the book broken.
    assert _version(book) == 1
    book.align(matching(), CAP)
    assert _version(book) == 3 and [line.kind for line in book.lines()] == [EntryKind.BOOKED, EntryKind.ALIGNED]


def test_trying_to_write_writes_nothing(book: Ledger, tmp_path: Path) -> None:
    book.try_to_write()
    assert book.lines() == []
    book.book(booking(), CAP)
    before = book.path.read_bytes()
    book.try_to_write()
    assert book.path.read_bytes() == before
    with pytest.raises(LedgerError, match="ledger none cannot be used"):
        Ledger(Path("/proc/none")).try_to_write()


def test_room_apart_from_what_may_be_void(book: Ledger) -> None:
    book.book(booking("s1", 0.75), CAP)
    with pytest.raises(LedgerError, match=r"epsilon=0\.75 is spent"):
        book.check(DATA, pure(0.5), CAP)
    book.check(DATA, pure(0.5), CAP, apart=["s1"])


def test_export_can_be_verified_by_anyone_with_a_hash_function(book: Ledger) -> None:
    import hashlib
    import json

    book.book(booking("s1"), CAP)
    book.settle("s1", "bank", EntryKind.RELEASED)
    previous = GENESIS
    for line in json.loads(json.dumps(book.export())):
        number, digest = line.pop("number"), line.pop("hash")
        text = json.dumps(line, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()
        assert previous == digest
    assert book.verify() == previous


def test_the_file_refuses_updates_and_deletions(book: Ledger) -> None:
    book.book(booking(), CAP)
    connection = sqlite3.connect(book.path)
    for statement in ("UPDATE entries SET content = '{}'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
    assert book.path.stat().st_mode & 0o077 == 0


def _tamper(book: Ledger, *statements: str) -> None:
    connection = sqlite3.connect(book.path)
    connection.execute("DROP TRIGGER no_update")
    connection.execute("DROP TRIGGER no_delete")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "UPDATE entries SET content = replace(content, '0.25', '0.05') WHERE number = 2",
            "broken at entry 2: its hash",
        ),
        ("UPDATE entries SET hash = replace(hash, 'a', 'b') WHERE number = 3", "broken at entry 3"),
        ("DELETE FROM entries WHERE number = 1", "broken at entry 1: the next entry has number 2"),
        ("DELETE FROM entries WHERE number = 2", "broken at entry 2: the next entry has number 3"),
        ("DELETE FROM entries WHERE number = 3", "lacks the entry with hash"),
    ],
)
def test_tampering_is_found_and_named(book: Ledger, statement: str, message: str) -> None:
    for i in range(3):
        book.book(booking(f"s{i}"), CAP)
    head = book.verify()
    assert "a" in head
    _tamper(book, statement)
    with pytest.raises(LedgerError, match=message):
        book.verify(head)
    if "broken" in message:
        with pytest.raises(LedgerError, match=message):
            book.book(booking("s9"), CAP)


def test_a_chain_that_is_hashed_anew_must_still_make_sense(book: Ledger) -> None:
    book.book(booking("s1"), CAP)
    entry = book.entries()[0]
    content = content_of(EntryKind.RELEASED, entry.time, booking("s2"), CAP, "")
    text = canonical_json(content)
    link = module._link(entry.hash, 2, text)
    connection = sqlite3.connect(book.path)
    connection.execute("INSERT INTO entries VALUES (2, ?, ?)", (text, link))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="entry 2: session s2 is released out of turn"):
        book.verify()


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "none").verify()
    assert Ledger(tmp_path / "none").entries() == [] and not (tmp_path / "none").exists()
    text = tmp_path / "text"
    text.write_text("no database at all, but long enough to be looked at" * 20)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(text).book(booking(), CAP)
    foreign = tmp_path / "foreign"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE entries (number)")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="is an SQLite file but no ledger"):
        Ledger(foreign).book(booking(), CAP)
    future = Ledger(tmp_path / "future")
    future.book(booking(), CAP)
    connection = sqlite3.connect(future.path)
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    with pytest.raises(LedgerError, match="must have version 3, got version 4"):
        future.verify()


ROUNDS = 25


def _compete(path: Path, who: str, barrier: Any, pipe: Any) -> None:
    done = 0
    for i in range(ROUNDS):
        barrier.wait()
        try:
            Ledger(path).book(booking(f"{who}{i}", 1.0, DataSet(f"data{i}", f"{i}")), CAP)
            done += 1
        except LedgerError as error:
            assert "in total" in str(error)  # refused by the cap, not by a lock
    pipe.send(done)


def test_two_processes_share_one_cap(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    barrier = FORK.Barrier(2)
    pipes, children = [], []
    for who in "ab":
        ours, theirs = FORK.Pipe()
        child = FORK.Process(target=_compete, args=(path, who, barrier, theirs))
        child.start()
        pipes.append(ours)
        children.append(child)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert sum(pipe.recv() for pipe in pipes) == ROUNDS
    Ledger(path).verify()
    assert [a.spent.epsilon for a in Ledger(path).accounts()] == [1.0] * ROUNDS


def _run(path: Path, work: Callable[[Path, int], None], seconds: float | None = None) -> list[str]:
    """Fork and let the child work until it dies, by its own hand or ours; the sessions whose booking it confirmed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(path, writer)
        finally:
            os._exit(0)
    os.close(writer)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as confirmed:
        lines = confirmed.read().split()
    os.waitpid(child, 0)
    return lines


def _consistent(path: Path, confirmed: list[str], before: int) -> int:
    """The ledger is whole, holds all that was confirmed, and at most one booking more."""
    book = Ledger(path)
    if path.exists():
        book.verify()
    entries = book.entries()
    new = [e.booking.session for e in entries[before:]]
    assert new[: len(confirmed)] == confirmed
    assert len(new) <= len(confirmed) + 1
    return len(entries)


def test_kill_9_at_every_line_of_a_booking(tmp_path: Path) -> None:
    source = module.__file__

    def lines(limit: int) -> tuple[Callable[[Path, int], None], Callable[[], int]]:
        count = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != source:
                return None
            if event == "line":
                count += 1
                if count == limit:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        def work(path: Path, writer: int) -> None:
            sys.settrace(trace)
            Ledger(path).book(booking("first"), CAP)
            os.write(writer, b"first\n")
            Ledger(path).book(booking("second"), CAP)
            os.write(writer, b"second\n")
            sys.settrace(None)

        return work, lambda: count

    work, counted = lines(0)
    reader, writer = os.pipe()
    old = sys.gettrace()
    try:
        work(tmp_path / "whole", writer)
    finally:
        sys.settrace(old)
        os.close(reader)
        os.close(writer)
    steps = counted()
    assert steps > 50
    seen = set()
    for limit in range(1, steps + 1):
        path = tmp_path / f"killed{limit}"
        confirmed = _run(path, lines(limit)[0])
        left = _consistent(path, confirmed, 0)
        seen.add((len(confirmed), left))
        if limit % 8 == 0:  # A killed booking can be repeated, and then stands once.
            Ledger(path).book(booking("first"), CAP)
            assert Ledger(path).spent(DATA, CAP).sessions == max(left, 1)
    assert {(0, 0), (0, 1), (1, 1), (1, 2)} <= seen


def test_kill_9_at_random_instants(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    cap = Cap(1e9)
    chance = random.Random(5)
    entries = lives = 0
    while lives < 10 or entries < 10:

        def work(path: Path, writer: int, life: int = lives) -> None:
            for i in range(10_000):
                Ledger(path).book(booking(f"{life}-{i}"), cap)
                os.write(writer, f"{life}-{i}\n".encode())

        entries = _consistent(path, _run(path, work, chance.uniform(0.005, 0.1)), entries)
        lives += 1
        assert lives < 200


AGREEMENT = Agreement.from_terms(
    name="income",
    schema=Schema({"bank": {"gain": Numeric(0, 9)}, "shop": {"spend": Numeric(0, 5)}}),
    label="spend",
    task=Task.LINEAR,
    epsilon=1.0,
    product="plain",
)


class BookingOnly(Unguarded):
    """Books in a party's ledger and settles by how the session ended; no policy asks beforehand."""

    def __init__(self, folder: Path, party: str, cap: Cap) -> None:
        self._ledger, self._party, self._cap, self._session = Ledger(folder / party), party, cap, ""

    def book(self, session: SessionPlan) -> None:
        spend, data = charge_of(session.plan, self._party), DataSet(f"{self._party}.csv", self._party)
        name, study = session.identity.hex(), session.agreement.name
        entry = Booking(name, self._party, study, session.digest, data, spend, record_epsilon(session.plan))
        self._ledger.book(entry, self._cap)
        self._session = name

    def release(self) -> None:
        self._ledger.settle(self._session, self._party, EntryKind.RELEASED)

    def void(self, reason: str) -> None:
        if self._session:
            self._ledger.settle(self._session, self._party, EntryKind.VOID)


def _study(folder: Path, caps: dict[str, Cap], meddle: Wire = pass_on) -> TappedSession:
    """A run in which each party books in its own ledger."""
    tables = {
        party: table_from(party, pl.DataFrame({name: [0.5, 1.0, 2.0, 4.0] for name in columns}), columns)
        for party, columns in AGREEMENT.schema.parties.items()
    }
    guards = {party: BookingOnly(folder, party, cap) for party, cap in caps.items()}
    wire = tapped_session(AGREEMENT, None, tables=tables, guards=guards, meddle=meddle)
    wire.run()
    return wire


def test_a_session_is_booked_by_every_party_before_its_submission_leaves(tmp_path: Path) -> None:
    seen: dict[str, list[EntryKind]] = {}

    def listen(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if envelope.step is Step.SUBMIT:
            seen[envelope.sender] = [e.kind for e in Ledger(tmp_path / envelope.sender).entries()]
        elif envelope.step is not Step.OPENED and envelope.sender not in ("", *seen):
            assert Ledger(tmp_path / envelope.sender).entries() == []
        return (envelope,)

    session = _study(tmp_path, {"bank": CAP, "shop": CAP}, listen).session
    # A party's own booking is there when its message is on the wire; which party comes first does not matter.
    assert seen == {"bank": [EntryKind.BOOKED], "shop": [EntryKind.BOOKED]}
    for party in ("bank", "shop"):
        entries = Ledger(tmp_path / party).entries()
        assert [e.kind for e in entries] == [EntryKind.BOOKED, EntryKind.RELEASED]
        assert entries[0].booking.plan == session.digest
        assert entries[0].booking.charge.epsilon == session.plan.parties[party][View.OUTSIDER]


def test_a_second_session_beyond_the_budget_is_refused_and_nobody_spends(tmp_path: Path) -> None:
    caps = {"bank": Cap(5.0), "shop": CAP}
    first = _study(tmp_path, caps).session.plan
    with pytest.raises(LedgerError, match=r"data set shop\.csv may spend at most epsilon=1 in total"):
        _study(tmp_path, caps)
    for party, cap in caps.items():
        spent = Ledger(tmp_path / party).spent(DataSet(f"{party}.csv", party), cap)
        assert spent.sessions == 1 and spent.epsilon == first.parties[party][View.OUTSIDER]
        Ledger(tmp_path / party).verify()


def test_what_partners_could_be_told_adds_up_over_sessions(book: Ledger) -> None:
    """Of one data set, void sessions apart; the limit is reached and not passed."""
    other = DataSet("other.csv", "e" * 64)

    def tell(session: str, bits: int, data: DataSet = DATA, limit: int = 1000) -> None:
        book.book(replace(booking(session, 0.01, data), bits_told=bits), CAP, largest_told=limit)

    def told() -> dict[str, int]:
        return {account.data[0].name: account.bits_told for account in book.accounts()}

    for number in range(5):
        tell(f"s{number}", 179)
    tell("elsewhere", 999, other)
    assert told() == {"bank.csv": 5 * 179, "other.csv": 999}
    says = "could have told partners that break the protocol 895 bits of it, and this one could tell 106 more"
    with pytest.raises(PolicyError, match=f"largest_bits_told is 1000: sessions on data set bank.csv {says}"):
        tell("s5", 106)
    with pytest.raises(PolicyError, match=says):
        book.check_told(DATA, 106, 1000)
    tell("s5", 105)
    assert told()["bank.csv"] == 1000
    book.settle("s0", "bank", EntryKind.VOID, "nobody handed in")
    book.settle("s1", "bank", EntryKind.RELEASED)
    assert told()["bank.csv"] == 1000 - 179
    # The same booking again is no further session, and sessions that are settled by an officer leave the sum.
    tell("s5", 105)
    book.check_told(DATA, 179, 1000)
    book.check_told(DATA, 1000, 1000, apart=[f"s{number}" for number in range(6)])
    with pytest.raises(PolicyError):
        book.check_told(DATA, 180, 1000)
