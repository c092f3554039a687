"""What a party's data has spent: an append-only, hash-chained SQLite book, written before a byte leaves.

A session is `booked`, then `released` or `void` by a further entry. What is booked counts until it is void. That ids
were matched is noted too, and that a session failed after data was read: neither spends, and a policy may limit how
often each happens.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from colonnade.consent.entries import (
    Account,
    Alignment,
    Booking,
    DataSet,
    Entry,
    EntryKind,
    Line,
    Note,
    content_of,
    read_back,
)
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError
from colonnade.mechanism.composition import Cap, Charge, Rule, Spent, require_room, total

GENESIS = "0" * 64
APPLICATION = 0x436F6C6F  # SQLite's application_id: the bytes "Colo"
VERSION, OLDEST = 3, 1  # the version of a book that is written, and the oldest that is read
WAIT_SECONDS = 60.0  # another session of the same book holds it for milliseconds

SHARED = ".toml"

TABLES = (
    "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    f"PRAGMA application_id = {APPLICATION}",
)


class Ledger:
    """The book of one party, in one SQLite file; every call is one transaction of its own.

    `shared_ledger` keeps the same book in PostgreSQL, for several machines of one party.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._clock = clock

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def check(self, data: DataSet, charge: Charge, cap: Cap, apart: Collection[str] = ()) -> None:
        """Raise LedgerError if the cap has no room for the charge; books nothing.

        `apart` are sessions of which it is not known yet whether they count.
        """
        own = _bookings(_of(self.lines(), data))
        known = [e for e in own if e.booking.session not in apart]
        require_room(cap, _rule(own, cap, charge), _counted(known), charge, data.name)

    def check_alignments(self, data: DataSet, limit: int | None) -> None:
        """Raise PolicyError if the data set's ids were matched as often as the policy allows."""
        _within(limit, _of(self.lines(), data), data)

    def check_attempts(self, data: DataSet, limit: int | None) -> None:
        """Raise PolicyError if as many sessions on the data set failed after it was read as the policy allows."""
        count = _failed(_of(self.lines(), data))
        if limit is not None and count >= limit:
            ended = "session on it has" if count == 1 else "sessions on it have"
            raise PolicyError(
                f"largest_attempts is {limit}, and {count} {ended} ended without a release after data set {data.name} "
                "was read"
            )

    def check_told(self, data: DataSet, bits: int, limit: int, apart: Collection[str] = ()) -> None:
        """Raise PolicyError if sessions on the data set could tell cheating partners more than the policy allows."""
        _tell(limit, [e for e in _bookings(_of(self.lines(), data)) if e.booking.session not in apart], bits, data)

    def note_failure(self, attempt: Alignment, cap: Cap, reason: str) -> Note:
        """Note that a session ended without a release after data was read; it spends nothing."""
        with self._writing() as (connection, lines):
            number, time, digest = self._write(connection, lines, EntryKind.FAILED, attempt, cap, reason)
            return Note(number, time, attempt, cap, digest, version("colonnade"), EntryKind.FAILED, reason)

    def try_to_write(self) -> None:
        """Raise LedgerError unless an entry could be written now; writes none."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._read(connection)
            # Touches the file's first page, through a journal beside it as an entry does.
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("ROLLBACK")

    def align(self, alignment: Alignment, cap: Cap, limit: int | None = None) -> Note:
        """Check the limit and note, durably, that ids are about to be matched; before a parcel of it leaves."""
        with self._writing() as (connection, lines):
            _within(limit, _of(lines, alignment.data), alignment.data)
            number, time, digest = self._write(connection, lines, EntryKind.ALIGNED, alignment, cap)
            return Note(number, time, alignment, cap, digest, version("colonnade"))

    def book(self, booking: Booking, cap: Cap, once: bool = False, largest_told: int | None = None) -> Entry:
        """Check the cap and book the spend in one durable transaction; the same booking again changes nothing.

        `once` refuses it: whoever draws noise for a session must be the first to do so. `largest_told` limits the bits
        that all sessions of the data set could tell.
        """
        with self._writing() as (connection, lines):
            earlier = _history(lines, booking.session, booking.party)
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
                if once:
                    raise LedgerError(
                        f"session {booking.session} of party {booking.party} is booked already, in entry "
                        f"{earlier[0].number}: fresh noise is another spend, under another session id"
                    )
                return earlier[0]
            own, charge = _bookings(_of(lines, booking.data)), booking.charge
            require_room(cap, _rule(own, cap, charge), _counted(own), charge, booking.data.name)
            if largest_told is not None:
                _tell(largest_told, own, booking.bits_told, booking.data)
            return self._append(connection, lines, EntryKind.BOOKED, booking, cap, "")

    def settle(self, session: str, party: str, kind: EntryKind, reason: str = "") -> Entry:
        """Append that a booked session was released, or is void: no submission of it was ever opened.

        A release that appears after all overrides void; nothing overrides released.
        """
        if kind not in (EntryKind.RELEASED, EntryKind.VOID):
            raise LedgerError(f"a session is settled as released or void, got {kind.value}")
        with self._writing() as (connection, lines):
            history = _history(lines, session, party)
            if not history:
                raise LedgerError(f"session {session} of party {party} was never booked")
            if history[-1].kind is kind:
                return history[-1]
            if history[-1].kind is EntryKind.RELEASED:
                raise LedgerError(f"session {session} of party {party} is released and cannot become {kind.value}")
            return self._append(connection, lines, kind, history[0].booking, history[0].cap, reason)

    def spent(self, data: DataSet, cap: Cap) -> Spent:
        """What the data set has spent, by the rule of its first entry."""
        return _spent(_bookings(_of(self.lines(), data)), cap)

    def accounts(self) -> list[Account]:
        """Every data set with what it has spent of the cap that was last in force."""
        lines = self.lines()
        out: list[Account] = []
        for line in lines:
            if any(line.data in account.data for account in out):
                continue
            own = _of(lines, line.data)
            booked = _bookings(own)
            cap = ([e for e in booked if e.kind is EntryKind.BOOKED] or own)[-1].cap
            pending = sum(1 for last in _last(booked).values() if last.kind is EntryKind.BOOKED)
            data = tuple(dict.fromkeys(e.data for e in own))
            out.append(Account(data, cap, _spent(booked, cap), pending, _matched(own), _told(booked), _failed(own)))
        return out

    def before_and_after(self, data: DataSet, charge: Charge, cap: Cap) -> tuple[Spent, Spent]:
        """What the data set has spent, and what it would have with one more charge; books nothing."""
        own = _bookings(_of(self.lines(), data))
        return _spent(own, cap), _spent(own, cap, charge)

    def around(self, session: str) -> list[tuple[Entry, Spent, Spent]]:
        """Every booking of a session with what its data set had spent before it, and had with it."""
        lines, out = self.lines(), []
        for i, line in enumerate(lines):
            if isinstance(line, Entry) and line.kind is EntryKind.BOOKED and line.booking.session == session:
                own = _bookings(_of(lines[:i], line.data))
                out.append((line, _spent(own, line.cap), _spent(own, line.cap, line.booking.charge)))
        return out

    def entries(self) -> list[Entry]:
        """All entries of sessions, the whole chain checked; none if there is no ledger yet."""
        return _bookings(self.lines())

    def lines(self) -> list[Line]:
        """All entries of sessions and all notes of alignments, their chain checked."""
        if not self.exists:
            return []
        with self._connection() as connection:
            return self._read(connection)

    def verify(self, head: str | None = None) -> str:
        """Check file, chain and meaning, and return the last hash; `head` is one noted earlier that must be in it."""
        if not self.exists:
            raise LedgerError(f"there is no ledger {self.path}")
        with self._connection() as connection:
            self._check_file(connection)
            lines = self._read(connection)
        if head is not None and head not in (GENESIS, *(line.hash for line in lines)):
            raise LedgerError(f"ledger {self.path.name} lacks the entry with hash {head}: it was cut off or replaced")
        return lines[-1].hash if lines else GENESIS

    def export(self) -> list[dict[str, Any]]:
        """All entries and notes as plain data, for an auditor."""
        return [line.to() for line in self.lines()]

    def _check_file(self, connection: Any) -> None:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise LedgerError(f"ledger {self.path.name} is damaged: {found}")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
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
    def _writing(self) -> Iterator[tuple[Any, list[Line]]]:
        """One transaction that no other process can enter between reading and writing."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self._application(connection) == 0:
                    for statement in TABLES:
                        connection.execute(statement)
                # A file of an earlier version may get lines that its readers do not know.
                connection.execute(f"PRAGMA user_version = {VERSION}")
                yield connection, self._read(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _application(self, connection: Any) -> int:
        """Whose file this is: ours, or 0 for an empty one; refuses any other."""
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not (application == APPLICATION or (application == 0 and empty)):
            raise LedgerError(f"{self.path.name} is an SQLite file but no ledger")
        if application == APPLICATION and not OLDEST <= found <= VERSION:
            raise LedgerError(f"ledger {self.path.name} must have version {VERSION}, got version {found}")
        return application

    def _read(self, connection: Any) -> list[Line]:
        if self._application(connection) == 0:
            return []
        return self._chained(connection.execute("SELECT number, content, hash FROM entries ORDER BY number"))

    def _chained(self, rows: Iterable[tuple[int, str, str]]) -> list[Line]:
        """The rows as lines, each checked against the one before."""
        return _chain(rows, self.path.name)

    def _insert(self, connection: Any, row: tuple[int, str, str]) -> None:
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)

    def _append(
        self,
        connection: Any,
        lines: Sequence[Line],
        kind: EntryKind,
        booking: Booking,
        cap: Cap,
        reason: str,
    ) -> Entry:
        number, time, digest = self._write(connection, lines, kind, booking, cap, reason)
        return Entry(number, kind, time, booking, cap, reason, digest, version("colonnade"))

    def _write(
        self,
        connection: Any,
        lines: Sequence[Line],
        kind: EntryKind,
        what: Booking | Alignment,
        cap: Cap,
        reason: str | None = None,
    ) -> tuple[int, str, str]:
        """Link one more line to the chain: its number, time and hash."""
        previous, number = lines[-1].hash if lines else GENESIS, len(lines) + 1
        time = self._clock().isoformat(timespec="seconds")
        text = canonical_json(content_of(kind, time, what, cap, reason, version("colonnade")))
        digest = _link(previous, number, text)
        self._insert(connection, (number, text, digest))
        return number, time, digest


def open_ledger(path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Ledger:
    """The ledger that a path names: an SQLite file, or one whose name ends in `.toml`, which names a database."""
    if path.suffix != SHARED:
        return Ledger(path, clock)
    from colonnade.consent.shared_ledger import SharedLedger

    return SharedLedger(path, clock)


def _link(previous: str, number: int, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()


def _chain(rows: Iterable[tuple[int, str, str]], name: str) -> list[Line]:
    """The entries, each checked against the one before; names the first that is broken."""
    lines: list[Line] = []
    status: dict[tuple[str, str], Entry] = {}
    previous = GENESIS
    for number, text, digest in rows:
        here = f"ledger {name} is broken at entry {len(lines) + 1}"
        if number != len(lines) + 1:
            raise LedgerError(f"{here}: the next entry has number {number}")
        if digest != _link(previous, number, text):
            raise LedgerError(f"{here}: its hash does not follow from its content and the entry before")
        try:
            line = _line(number, json.loads(text), digest)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, ColonnadeError):
            raise LedgerError(f"{here}: its content cannot be read") from None
        if isinstance(line, Entry):
            _in_turn(line, status, here)
        lines.append(line)
        previous = digest
    return lines


def _in_turn(entry: Entry, status: dict[tuple[str, str], Entry], here: str) -> None:
    """A session is booked first, then settled by the same terms, and stays released."""
    key = (entry.booking.session, entry.booking.party)
    if (entry.kind is EntryKind.BOOKED) != (key not in status):
        raise LedgerError(f"{here}: session {key[0]} is {entry.kind.value} out of turn")
    if key in status and status[key].booking != entry.booking:
        raise LedgerError(f"{here}: it settles session {key[0]} with other terms than were booked")
    if key in status and status[key].kind is EntryKind.RELEASED:
        raise LedgerError(f"{here}: session {key[0]} was released before")
    status[key] = entry


def _line(number: int, content: Mapping[str, Any], digest: str) -> Line:
    kind, cap = EntryKind(content["kind"]), content["cap"]
    rule = None if cap["rule"] is None else Rule(cap["rule"])
    limit, software = Cap(cap["epsilon"], cap["delta"], rule), str(content.get("colonnade", ""))
    if kind is EntryKind.ALIGNED:
        return Note(number, content["time"], read_back(content, Alignment), limit, digest, software)
    if kind is EntryKind.FAILED:
        attempt, reason = read_back(content, Alignment), str(content["reason"])
        return Note(number, content["time"], attempt, limit, digest, software, kind, reason)
    return Entry(number, kind, content["time"], read_back(content, Booking), limit, content["reason"], digest, software)


def _bookings(lines: Sequence[Line]) -> list[Entry]:
    return [line for line in lines if isinstance(line, Entry)]


def _history(lines: Sequence[Line], session: str, party: str) -> list[Entry]:
    return [e for e in _bookings(lines) if (e.booking.session, e.booking.party) == (session, party)]


def _within(limit: int | None, own: Sequence[Line], data: DataSet) -> None:
    count = _matched(own)
    if limit is not None and count >= limit:
        times = "once" if count == 1 else f"{count} times"
        raise PolicyError(f"largest_alignments is {limit}, and the ids of data set {data.name} were matched {times}")


def _tell(limit: int, own: Sequence[Entry], bits: int, data: DataSet) -> None:
    told = _told(own)
    if told + bits > limit:
        raise PolicyError(
            f"largest_bits_told is {limit}: sessions on data set {data.name} could have told partners that break the "
            f"protocol {told} bits of it, and this one could tell {bits} more; other data, or a larger limit, would do"
        )


def _told(own: Sequence[Entry]) -> int:
    return sum(e.booking.bits_told for e in _last(own).values() if e.kind is not EntryKind.VOID)


def _matched(own: Sequence[Line]) -> int:
    return sum(line.kind is EntryKind.ALIGNED for line in own)


def _failed(own: Sequence[Line]) -> int:
    """Sessions that ended without a release after data was read: those that are void, and those never booked."""
    void = sum(last.kind is EntryKind.VOID for last in _last(_bookings(own)).values())
    return void + sum(line.kind is EntryKind.FAILED for line in own)


def _of(lines: Sequence[Line], data: DataSet) -> list[Line]:
    """The lines of an account: a renamed copy and an edited file are the same people's data."""
    names, digests = {data.name}, {data.digest}
    known = {line.data for line in lines}
    found = -1
    while found != len(names) + len(digests):
        found = len(names) + len(digests)
        for other in known:
            if other.name in names or other.digest in digests:
                names.add(other.name)
                digests.add(other.digest)
    return [line for line in lines if line.data.name in names]


def _last(entries: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    return {(e.booking.session, e.booking.party): e for e in entries}


def _counted(entries: Sequence[Entry]) -> list[Charge]:
    """The charges that count, in the order in which they were booked."""
    return [e.booking.charge for e in _last(entries).values() if e.kind is not EntryKind.VOID]


def _fixed(own: Sequence[Entry]) -> Rule | None:
    """The rule that an account's first entry fixed for good, void or not: whoever voids it has seen releases since."""
    return own[0].cap.rule_for(own[0].booking.charge) if own else None


def _rule(own: Sequence[Entry], cap: Cap, asked: Charge) -> Rule:
    """The rule by which one more charge is judged; refuses a cap that names another than the account has."""
    fixed = _fixed(own)
    if fixed is not None and cap.rule not in (None, fixed):
        raise LedgerError(
            f'data set {own[0].data.name} is accounted by rule "{fixed.value}", fixed by entry {own[0].number}; the '
            f'policy\'s total.rule is "{cap.rule.value}": leave it out, or write "{fixed.value}"'
        )
    return fixed or cap.rule_for(asked)


def _spent(own: Sequence[Entry], cap: Cap, asked: Charge | None = None) -> Spent:
    """What the entries that count add up to, and one more charge if there is one."""
    charges = _counted(own) + ([] if asked is None else [asked])
    rule = _fixed(own) or (cap.rule or Rule.SUM if asked is None else cap.rule_for(asked))
    return total(cap, rule, charges)
