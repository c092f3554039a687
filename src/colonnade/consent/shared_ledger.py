"""The same book in PostgreSQL, for several machines of one party.

A ledger file that ends in `.toml` names a database instead of being one:

    [ledger]
    postgres = "host=db.example.org sslmode=verify-full dbname=colonnade user=bank"
    table = "colonnade_entries"     # the default
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from ipaddress import ip_address
from itertools import zip_longest
from pathlib import Path
from typing import Any

from colonnade.consent.entries import Line
from colonnade.consent.ledger import VERSION, WAIT_SECONDS, Ledger
from colonnade.foundation.errors import LedgerError
from colonnade.foundation.sections import read_toml

LARGEST = 1 << 16  # 64 kB: a handful of keys, and a mistaken path must not fill memory
TABLE = re.compile(r"[a-z_][a-z0-9_]{0,40}")
DURABLE = {"fsync": "on", "full_page_writes": "on"}
"""What the database server must be set to: without it a committed entry may not outlive a power cut."""
TABLES = """
CREATE TABLE {0} (number bigint PRIMARY KEY, content text NOT NULL, hash text NOT NULL);
CREATE FUNCTION {0}_append_only() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {0}
  FOR EACH STATEMENT EXECUTE FUNCTION {0}_append_only();
COMMENT ON TABLE {0} IS '{1}';
"""
ENCRYPTED = ("require", "verify-ca", "verify-full")
"""Values of sslmode without which the lines of a ledger, and a password, might pass in the clear."""
MARK = "colonnade ledger, version"
OLDEST_TABLE = 2  # the oldest version of a table that is read


class SharedLedger(Ledger):
    """A ledger in PostgreSQL. A table's lock makes checking the cap and booking one step for all machines."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(path, clock)
        content = read_toml(path, "ledger", LARGEST, LedgerError).known(("ledger",))
        named = content.table("ledger", "[ledger]").known(("postgres", "table")).need("postgres")
        self._database = named.text("postgres")
        self._table = named.text("table", "colonnade_entries")
        if not TABLE.fullmatch(self._table):
            raise LedgerError(f"table of {path.name} must be letters, digits and _, all small, got {self._table!r}")
        if find_spec("psycopg") is None:
            raise LedgerError("a ledger in PostgreSQL needs psycopg, not installed here: pip install 'colonnade[sql]'")
        _require_tls(path.name, self._database)

    @property
    def exists(self) -> bool:
        with self._connection() as connection:
            return self._application(connection) != 0

    def try_to_write(self) -> None:
        with self._connection() as connection:
            connection.execute("BEGIN")
            self._lock(connection)
            self._read(connection)
            connection.execute("ROLLBACK")

    def _check_file(self, connection: Any) -> None:
        """A database checks its own pages."""

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import psycopg

        connection = None
        try:
            connection = psycopg.connect(self._database, autocommit=True, connect_timeout=10)
            # On, whatever the server, the database or the user are set to: a commit is on disk when it is told.
            connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET lock_timeout = '{WAIT_SECONDS:g}s'")
            for setting, wanted in DURABLE.items():
                found = connection.execute(f"SHOW {setting}").fetchone()
                if found is None or found[0] != wanted:
                    raise LedgerError(f"the database of {self.path.name} must have {setting} = {wanted}, and has not")
            yield connection
        except psycopg.Error as error:
            told = " ".join(str(error).split()) or type(error).__name__
            raise LedgerError(f"ledger {self.path.name} cannot be used: {told}") from None
        finally:
            if connection is not None:
                connection.close()

    @contextmanager
    def _writing(self) -> Iterator[tuple[Any, list[Line]]]:
        with self._connection() as connection:
            # Whatever ends this without a commit closes the line, and the database takes everything back.
            connection.execute("BEGIN")
            self._lock(connection)
            if self._application(connection) == 0:
                connection.execute(TABLES.format(self._table, f"{MARK} {VERSION}"))
            elif self._application(connection) < VERSION and self._owns(connection):
                # A table of an earlier version may get lines that its readers do not know.
                connection.execute(f"COMMENT ON TABLE {self._table} IS '{MARK} {VERSION}'")
            yield connection, self._read(connection)
            connection.execute("COMMIT")

    def _lock(self, connection: Any) -> None:
        """One writer at a time, also while there is no table yet; readers go on."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(current_schema() || '.' || %s))", (self._table,))

    def _application(self, connection: Any) -> int:
        found = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NOT NULL", (self._table,) * 2
        ).fetchone()
        comment, there = found
        if not there:
            return 0
        if not str(comment).startswith(MARK):
            raise LedgerError(f"the table {self._table} that {self.path.name} names is no ledger")
        found = next((v for v in range(OLDEST_TABLE, VERSION + 1) if str(comment) == f"{MARK} {v}"), 0)
        if found == 0:
            raise LedgerError(f"ledger {self.path.name} must have version {VERSION}, got {str(comment)!r}")
        return found

    def _owns(self, connection: Any) -> bool:
        """Whether this account may mark the table: its owner alone may."""
        asked = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)"
        return bool(connection.execute(asked, (self._table,)).fetchone()[0])

    def _read(self, connection: Any) -> list[Line]:
        if self._application(connection) == 0:
            return []
        # The table's name was checked when it was read.
        return self._chained(connection.execute(f"SELECT number, content, hash FROM {self._table} ORDER BY number"))  # noqa: S608

    def _insert(self, connection: Any, row: tuple[int, str, str]) -> None:
        connection.execute(f"INSERT INTO {self._table} VALUES (%s, %s, %s)", row)  # noqa: S608


def _require_tls(name: str, database: str) -> None:
    """Refuse a database of another machine without TLS, before anything is sent to it.

    libpq takes what is not said here from the environment, and from a service's file, which may name any host.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        said = conninfo_to_dict(database)
    except psycopg.Error as error:
        raise LedgerError(f"postgres of {name} must be a connection string: {' '.join(str(error).split())}") from None
    defaults = {d.keyword.decode(): (d.val or b"").decode() for d in psycopg.pq.Conninfo.get_defaults()}
    found = {**defaults, **{key: str(value) for key, value in said.items()}}
    listed = zip_longest(*(found.get(key, "").split(",") for key in ("hostaddr", "host")), fillvalue="")
    remote = [address or host for address, host in listed if not _is_here(address or host)]
    if "service" in said:
        remote.append(f"service {said['service']}")
        # The file may ask for less, unless the line itself says it.
        found["sslmode"] = str(said.get("sslmode", ""))
    if remote and found.get("sslmode") not in ENCRYPTED:
        raise LedgerError(
            f"postgres of {name} must say sslmode=verify-full (or verify-ca, or require), for {remote[0]} is another "
            f"machine, got sslmode={found.get('sslmode') or 'prefer'}"
        )


def _is_here(host: str) -> bool:
    """Whether a host is this machine: a socket's folder, or an address that no line leaves by."""
    if not host or host[0] in "/@" or host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
