"""What a party's data has spent: an append-only, hash-chained SQLite book, written before a byte leaves.

A session is `booked`, then `released` or `void` by a further entry. What is booked counts until it is void.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import ColonnadeError, DataError, LedgerError
from colonnade.mechanism.composition import Cap, Charge, Rule, Spent, require_room, total

GENESIS = "0" * 64
APPLICATION = 0x436F6C6F  # SQLite's application_id: the bytes "Colo"
VERSION = 1
WAIT_SECONDS = 60.0

TABLES = (
    "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


class Kind(StrEnum):
    """What an entry says of a session."""

    BOOKED = "booked"
    RELEASED = "released"
    VOID = "void"


@dataclass(frozen=True)
class DataSet:
    """A data set by name and content; entries that share either with it count against it."""

    name: str
    digest: str

    @classmethod
    def of_file(cls, path: Path, name: str | None = None) -> DataSet:
        """The data set in a file, named like the file unless a name is given."""
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"the data file {path} cannot be read: {error.strerror}") from None
        return cls(path.name if name is None else name, digest)


@dataclass(frozen=True)
class Booking:
    """One party's spend in one session."""

    session: str
    party: str
    study: str
    plan: str
    """The digest of the plan that the party computed and accepted."""
    data: DataSet
    charge: Charge
    record_epsilon: float
    """The epsilon of the whole record, for information."""

    def to(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "party": self.party,
            "study": self.study,
            "plan": self.plan,
            "data": {"name": self.data.name, "digest": self.data.digest},
            "charge": {"epsilon": self.charge.epsilon, "delta": self.charge.delta, "rho": self.charge.rho},
            "record_epsilon": self.record_epsilon,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Booking:
        """Read back what `to` wrote."""
        texts = (*(content[key] for key in ("session", "party", "study", "plan")), *content["data"].values())
        if not all(isinstance(text, str) for text in texts):
            raise LedgerError("a booking's names and digests must be texts, got another type")
        return cls(
            content["session"],
            content["party"],
            content["study"],
            content["plan"],
            DataSet(**content["data"]),
            Charge(**content["charge"]),
            content["record_epsilon"],
        )


@dataclass(frozen=True)
class Entry:
    """One line of the book."""

    number: int
    kind: Kind
    time: str
    booking: Booking
    cap: Cap
    """The cap in force when the session was booked."""
    reason: str
    hash: str

    def to(self) -> dict[str, Any]:
        """The entry as it is exported: its hashed content, its number and its hash."""
        return {"number": self.number, **_content(self.kind, self.time, self.booking, self.cap, self.reason)} | {
            "hash": self.hash
        }


@dataclass(frozen=True)
class Account:
    """One data set under all its names and contents, and what it has spent of its cap."""

    data: tuple[DataSet, ...]
    cap: Cap
    spent: Spent
    pending: int
    """Sessions that were booked and neither released nor void; they count."""


class Ledger:
    """The book of one party, in one SQLite file; every call is one transaction of its own."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._clock = clock

    def check(self, data: DataSet, charge: Charge, cap: Cap) -> None:
        """Raise LedgerError if the cap has no room for the charge; books nothing."""
        require_room(cap, _counted(_of(self.entries(), data)), charge, data.name)

    def book(self, booking: Booking, cap: Cap) -> Entry:
        """Check the cap and book the spend in one durable transaction; the same booking again changes nothing."""
        with self._writing() as (connection, entries):
            earlier = _history(entries, booking.session, booking.party)
            if earlier:
                if earlier[0].booking != booking:
                    raise LedgerError(
                        f"session {booking.session} of party {booking.party} is booked with other terms in entry "
                        f"{earlier[0].number}"
                    )
                if len(earlier) > 1:
                    raise LedgerError(
                        f"session {booking.session} of party {booking.party} has ended: it is {earlier[-1].kind.value} "
                        f"by entry {earlier[-1].number}"
                    )
                return earlier[0]
            require_room(cap, _counted(_of(entries, booking.data)), booking.charge, booking.data.name)
            return self._append(connection, entries, Kind.BOOKED, booking, cap, "")

    def settle(self, session: str, party: str, kind: Kind, reason: str = "") -> Entry:
        """Append that a booked session was released, or is void: no submission of it was ever opened.

        A release that appears after all overrides void; nothing overrides released.
        """
        if kind is Kind.BOOKED:
            raise LedgerError("a session is settled as released or void, got booked")
        with self._writing() as (connection, entries):
            history = _history(entries, session, party)
            if not history:
                raise LedgerError(f"session {session} of party {party} was never booked")
            if history[-1].kind is kind:
                return history[-1]
            if history[-1].kind is Kind.RELEASED:
                raise LedgerError(f"session {session} of party {party} is released and cannot become {kind.value}")
            return self._append(connection, entries, kind, history[0].booking, history[0].cap, reason)

    def spent(self, data: DataSet, cap: Cap) -> Spent:
        """What the data set has spent, by the cap's rule."""
        return total(cap, _counted(_of(self.entries(), data)))

    def accounts(self) -> list[Account]:
        """Every data set with what it has spent of the cap it was last booked under."""
        entries = self.entries()
        out: list[Account] = []
        for entry in entries:
            if any(entry.booking.data in account.data for account in out):
                continue
            own = _of(entries, entry.booking.data)
            cap = [e for e in own if e.kind is Kind.BOOKED][-1].cap
            pending = sum(1 for last in _last(own).values() if last.kind is Kind.BOOKED)
            data = tuple(dict.fromkeys(e.booking.data for e in own))
            out.append(Account(data, cap, total(cap, _counted(own)), pending))
        return out

    def entries(self) -> list[Entry]:
        """All entries, their chain checked; none if there is no ledger yet."""
        if not self.path.exists():
            return []
        with self._connection() as connection:
            return self._read(connection)

    def verify(self, head: str | None = None) -> str:
        """Check file, chain and meaning, and return the last hash; `head` is one noted earlier that must be in it."""
        if not self.path.exists():
            raise LedgerError(f"there is no ledger {self.path}")
        with self._connection() as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise LedgerError(f"ledger {self.path.name} is damaged: {found}")
            entries = self._read(connection)
        if head is not None and head not in (GENESIS, *(e.hash for e in entries)):
            raise LedgerError(f"ledger {self.path.name} lacks the entry with hash {head}: it was cut off or replaced")
        return entries[-1].hash if entries else GENESIS

    def export(self) -> list[dict[str, Any]]:
        """All entries as plain data, for an auditor."""
        return [entry.to() for entry in self.entries()]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = None
        try:
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
            # A rollback journal with EXTRA syncs file and folder: a committed entry outlives a power cut too.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise LedgerError(f"ledger {self.path.name} cannot be used: {error}") from None
        finally:
            if connection is not None:
                connection.close()

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, list[Entry]]]:
        """One transaction that no other process can enter between reading and writing."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self._application(connection) == 0:
                    for statement in TABLES:
                        connection.execute(statement)
                yield connection, self._read(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _application(self, connection: sqlite3.Connection) -> int:
        """Whose file this is: ours, or 0 for an empty one; refuses any other."""
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not (application == APPLICATION or (application == 0 and empty)):
            raise LedgerError(f"{self.path.name} is an SQLite file but no ledger")
        if application == APPLICATION and version != VERSION:
            raise LedgerError(f"ledger {self.path.name} must have version {VERSION}, got version {version}")
        return application

    def _read(self, connection: sqlite3.Connection) -> list[Entry]:
        if self._application(connection) == 0:
            return []
        return _chain(connection.execute("SELECT number, content, hash FROM entries ORDER BY number"), self.path.name)

    def _append(
        self,
        connection: sqlite3.Connection,
        entries: Sequence[Entry],
        kind: Kind,
        booking: Booking,
        cap: Cap,
        reason: str,
    ) -> Entry:
        previous = entries[-1].hash if entries else GENESIS
        time = self._clock().isoformat(timespec="seconds")
        text = _canonical(_content(kind, time, booking, cap, reason))
        entry = Entry(len(entries) + 1, kind, time, booking, cap, reason, _link(previous, len(entries) + 1, text))
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.number, text, entry.hash))
        return entry


def _content(kind: Kind, time: str, booking: Booking, cap: Cap, reason: str) -> dict[str, Any]:
    rule = None if cap.rule is None else cap.rule.value
    return {
        "kind": kind.value,
        "time": time,
        **booking.to(),
        "cap": {"epsilon": cap.epsilon, "delta": cap.delta, "rule": rule},
        "reason": reason,
    }


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _link(previous: str, number: int, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()


def _chain(rows: Iterator[tuple[int, str, str]], name: str) -> list[Entry]:
    """The entries, each checked against the one before; names the first that is broken."""
    entries: list[Entry] = []
    status: dict[tuple[str, str], Entry] = {}
    previous = GENESIS
    for number, text, digest in rows:
        here = f"ledger {name} is broken at entry {len(entries) + 1}"
        if number != len(entries) + 1:
            raise LedgerError(f"{here}: the next entry has number {number}")
        if digest != _link(previous, number, text):
            raise LedgerError(f"{here}: its hash does not follow from its content and the entry before")
        try:
            entry = _entry(number, json.loads(text), digest)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, ColonnadeError):
            raise LedgerError(f"{here}: its content cannot be read") from None
        key = (entry.booking.session, entry.booking.party)
        if (entry.kind is Kind.BOOKED) != (key not in status):
            raise LedgerError(f"{here}: session {key[0]} is {entry.kind.value} out of turn")
        if key in status and status[key].booking != entry.booking:
            raise LedgerError(f"{here}: it settles session {key[0]} with other terms than were booked")
        if key in status and status[key].kind is Kind.RELEASED:
            raise LedgerError(f"{here}: session {key[0]} was released before")
        status[key] = entry
        entries.append(entry)
        previous = digest
    return entries


def _entry(number: int, content: Mapping[str, Any], digest: str) -> Entry:
    cap = content["cap"]
    rule = None if cap["rule"] is None else Rule(cap["rule"])
    return Entry(
        number,
        Kind(content["kind"]),
        content["time"],
        Booking.of(content),
        Cap(cap["epsilon"], cap["delta"], rule),
        content["reason"],
        digest,
    )


def _history(entries: Sequence[Entry], session: str, party: str) -> list[Entry]:
    return [e for e in entries if (e.booking.session, e.booking.party) == (session, party)]


def _of(entries: Sequence[Entry], data: DataSet) -> list[Entry]:
    """The entries of an account: a renamed copy and an edited file are the same people's data."""
    names, digests = {data.name}, {data.digest}
    known = {e.booking.data for e in entries}
    found = -1
    while found != len(names) + len(digests):
        found = len(names) + len(digests)
        for other in known:
            if other.name in names or other.digest in digests:
                names.add(other.name)
                digests.add(other.digest)
    return [e for e in entries if e.booking.data.name in names or e.booking.data.digest in digests]


def _last(entries: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    return {(e.booking.session, e.booking.party): e for e in entries}


def _counted(entries: Sequence[Entry]) -> list[Charge]:
    """The charges that count, in the order in which they were booked."""
    return [e.booking.charge for e in _last(entries).values() if e.kind is not Kind.VOID]
