"""The ledger in PostgreSQL, on a real server: the same contract, two machines and one epsilon, kill -9 of both ends."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from colonnade.consent import shared_ledger as module
from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import GENESIS, Ledger, open_ledger
from colonnade.consent.shared_ledger import SharedLedger
from colonnade.foundation.errors import LedgerError
from tests.helpers.cli_study import runner
from tests.helpers.postgres import PostgresServer, postgres, running_postgres
from tests.unit import test_ledger as contract
from tests.unit.test_ledger import CAP, DATA, booking

psycopg = pytest.importorskip("psycopg", reason="the extra sql is not installed")
FORK = multiprocessing.get_context("fork")
NUMBERS = count()
NOW = datetime(2026, 1, 2, tzinfo=UTC)
__all__ = ["postgres"]


def name_file(folder: Path, database: str, table: str | None = None) -> Path:
    """A fresh table for each."""
    path = folder / "ledger.toml"
    path.write_text(f'[ledger]\npostgres = "{database}"\ntable = "{table or f"entries_{next(NUMBERS)}"}"\n')
    return path


@pytest.fixture
def path(postgres: PostgresServer, tmp_path: Path) -> Path:
    return name_file(tmp_path, postgres.database)


@pytest.fixture
def book(path: Path) -> Ledger:
    return open_ledger(path, lambda: NOW)


CONTRACT: list[Callable[..., None]] = [
    check
    for name, check in vars(contract).items()
    if name.startswith("test_")
    and list(inspect.signature(check).parameters) == ["book"]
    # Those that reach into the file are about SQLite alone.
    and not any(word in inspect.getsource(check) for word in ("sqlite3", "_version("))
]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_it_keeps_the_contract_of_a_ledger(check: Callable[..., None], book: Ledger) -> None:
    assert len(CONTRACT) > 5
    check(book)


def test_the_chain_is_that_of_a_file(book: Ledger, tmp_path: Path) -> None:
    """Hash for hash: an auditor needs no other program."""
    alone = Ledger(tmp_path / "ledger.sqlite", lambda: NOW)
    for each in (book, alone):
        each.book(booking("s1"), CAP)
        each.settle("s1", "bank", EntryKind.RELEASED)
    assert book.verify() == alone.verify() != GENESIS
    assert book.export() == alone.export()
    assert isinstance(book, SharedLedger) and not isinstance(alone, SharedLedger)


def test_nothing_is_there_before_the_first_entry(book: Ledger) -> None:
    assert book.entries() == [] and book.accounts() == [] and not book.exists
    book.try_to_write()
    assert not book.exists
    with pytest.raises(LedgerError, match="there is no ledger"):
        book.verify()


def table_of(path: Path) -> str:
    return path.read_text().split('table = "')[1].split('"')[0]


@pytest.mark.parametrize("change", ["UPDATE {} SET content = ''", "DELETE FROM {}", "TRUNCATE {}"])
def test_the_table_refuses_changes(change: str, book: Ledger, path: Path, postgres: PostgresServer) -> None:
    book.book(booking(), CAP)
    with psycopg.connect(postgres.database) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute(change.format(table_of(path)))
    assert len(book.entries()) == 1


def test_a_chain_that_was_changed_is_noticed(book: Ledger, path: Path, postgres: PostgresServer) -> None:
    book.book(booking(), CAP)
    table = table_of(path)
    with psycopg.connect(postgres.database) as connection:
        connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER append_only")
        connection.execute(f"UPDATE {table} SET content = replace(content, '0.25', '0.01')")
    for use in (book.verify, book.entries, lambda: book.book(booking("s2"), CAP)):
        with pytest.raises(LedgerError, match=r"ledger ledger\.toml is broken at entry 1"):
            use()


def test_another_table_is_no_ledger(path: Path, postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.database) as connection:
        connection.execute(f"CREATE TABLE {table_of(path)} (number int)")
    with pytest.raises(LedgerError, match="is no ledger"):
        open_ledger(path).book(booking(), CAP)


def test_refusals_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = name_file(tmp_path, f"host={tmp_path} dbname=none")
    with pytest.raises(LedgerError, match=r"ledger ledger\.toml cannot be used: .*failed"):
        open_ledger(away).entries()
    with pytest.raises(LedgerError, match="all small, got 'x; DROP TABLE y'"):
        open_ledger(name_file(tmp_path, "dbname=none", "x; DROP TABLE y"))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(LedgerError, match=r"colonnade\[sql\]"):
        open_ledger(name_file(tmp_path, "dbname=none"))


def race(path: Path, start: Any, told: Any, name: str) -> None:
    ledger = open_ledger(path)
    start.wait()
    try:
        ledger.book(booking(name, 0.6), CAP, once=True)
        told.put((name, "booked"))
    except LedgerError as error:
        told.put((name, str(error)))


def test_two_machines_race_for_the_last_epsilon(path: Path) -> None:
    """Also for making the table: nothing is there when they start."""
    start, told = FORK.Event(), FORK.Queue()
    racers = [FORK.Process(target=race, args=(path, start, told, f"s{i}")) for i in range(6)]
    for racer in racers:
        racer.start()
    start.set()
    said = dict(told.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    winners = [name for name, what in said.items() if what == "booked"]
    assert len(winners) == 1, said
    ledger = open_ledger(path)
    assert [entry.booking.session for entry in ledger.entries()] == winners
    assert ledger.spent(DATA, CAP).epsilon == 0.6


def killed_at_line(path: Path, number: int, writer: int) -> None:
    """Book and settle; die with kill -9 before the n-th line of the ledger's code that is run."""
    lines = count()
    files = {module.__file__, sys.modules[Ledger.__module__].__file__}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename in files:
            if event == "line" and next(lines) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace
        return None

    ledger = open_ledger(path)
    sys.settrace(trace)
    ledger.book(booking("s"), CAP)
    os.write(writer, b"b")
    ledger.settle("s", "bank", EntryKind.RELEASED)
    os.write(writer, b"r")
    sys.settrace(None)
    os._exit(0)


def test_kill_9_at_lines_of_a_booking(postgres: PostgresServer, tmp_path: Path) -> None:
    """Every seventh line: an entry is there whole or not at all, what was confirmed is there, and others can go on."""
    seen = set()
    for number in range(0, 10_000, 7):
        path = name_file(tmp_path, postgres.database)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                killed_at_line(path, number, writer)
            finally:
                os._exit(9)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader) as file:
            confirmed = file.read()
        ledger = open_ledger(path)
        kinds = [entry.kind for entry in ledger.entries()]
        assert kinds == [EntryKind.BOOKED, EntryKind.RELEASED][: len(kinds)]
        assert len(confirmed) <= len(kinds) <= len(confirmed) + 1
        seen.add((confirmed, len(kinds)))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0 and confirmed == "br"
            break
        ledger.settle("s", "bank", EntryKind.RELEASED) if kinds else ledger.book(booking("s"), CAP)
    else:
        raise AssertionError("no pass ended by itself")
    assert {("", 0), ("b", 1), ("br", 2)} <= seen


def keep_booking(path: Path, writer: int) -> None:
    ledger = open_ledger(path)
    for i in range(100_000):
        ledger.book(booking(f"s{i}", 1e-6), CAP)
        os.write(writer, b"b")


def test_kill_9_of_the_database_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    with running_postgres() as server:
        path = name_file(tmp_path, server.database)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                keep_booking(path, writer)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            # Once some are in, in the middle of the next.
            confirmed = len(file.read(5))
            time.sleep(0.05)
            server.kill()
            os.waitpid(child, 0)
            confirmed += len(file.read())
        server.start()
        ledger = open_ledger(path)
        kept = len(ledger.entries())
        assert 5 <= confirmed <= kept <= confirmed + 1
        ledger.verify()
        ledger.book(booking("after"), CAP)


REMOTE = [
    "host=db.example.org dbname=c",
    "host=db.example.org sslmode=prefer",
    "host=db.example.org sslmode=allow",
    "host=10.0.0.7 sslmode=disable",
    "hostaddr=192.0.2.1 host=localhost",
    "host=/run/postgresql,db.example.org",
    "host=localhost,other hostaddr=127.0.0.1,",
    "postgresql://bank@db.example.org:5432/c",
    "service=ledger",
]
HERE = ["dbname=c", "host=/run/postgresql", "host=localhost", "host=127.0.0.1", "host=::1", "postgresql:///c"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every database that somebody tried to reach; none is."""
    tried: list[str] = []

    def connect(database: str, **more: object) -> None:
        tried.append(database)
        raise psycopg.OperationalError("not reached")

    monkeypatch.setattr(psycopg, "connect", connect)
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    return tried


@pytest.mark.parametrize("database", REMOTE)
def test_a_remote_database_without_tls_is_refused_before_a_line_leaves(
    tmp_path: Path,
    calls: list[str],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = name_file(tmp_path, database)
    with pytest.raises(LedgerError, match="sslmode"):
        open_ledger(path)
    answer = runner(monkeypatch, capfd)("ledger", "show", str(path))
    assert answer.code != 0 and "sslmode=verify-full" in answer.err
    assert calls == []


@pytest.mark.parametrize(
    "database", [*HERE, "host=db.example.org sslmode=require", "postgresql://db.example.org/c?sslmode=verify-full"]
)
def test_tls_or_this_machine_is_tried(tmp_path: Path, calls: list[str], database: str) -> None:
    with pytest.raises(LedgerError, match="not reached"):
        open_ledger(name_file(tmp_path, database)).entries()
    assert calls == [database]


def test_the_environment_counts_where_the_file_is_silent(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = name_file(tmp_path, "dbname=c")
    monkeypatch.setenv("PGHOST", "db.example.org")
    with pytest.raises(LedgerError, match=r"db\.example\.org is another machine"):
        open_ledger(path)
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    open_ledger(path)
    with pytest.raises(LedgerError, match="sslmode=disable"):
        open_ledger(name_file(tmp_path, "host=db.example.org sslmode=disable"))
    assert calls == []


def test_a_database_that_does_not_sync_is_refused(tmp_path: Path) -> None:
    with running_postgres("fsync=off") as server, pytest.raises(LedgerError, match="must have fsync = on"):
        open_ledger(name_file(tmp_path, server.database)).book(booking(), CAP)


def test_commits_wait_for_the_disk_whatever_the_user_is_set_to(path: Path, postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.database, autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            with open_ledger(path)._connection() as ours:
                assert ours.execute("SHOW synchronous_commit").fetchone() == ("on",)
        finally:
            connection.execute("ALTER ROLE postgres RESET synchronous_commit")
