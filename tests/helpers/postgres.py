"""A PostgreSQL server of a test's own: made in a temporary folder, on a Unix socket, and not as root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ACCOUNT = "postgres"
NO_SERVER = "there is no PostgreSQL server on this machine, or no account to run it"


def binaries() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


class PostgresServer:
    """One server; `database` is how psycopg reaches it."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder, self._binaries = folder, binaries
        self.database = f"host={folder} dbname=postgres user={ACCOUNT}"
        self._process: subprocess.Popen[bytes] | None = None

    def _as_account(self, *words: str | Path) -> list[str]:
        """Nobody runs a database as root, and it refuses."""
        given = [str(word) for word in words]
        return ["runuser", "-u", ACCOUNT, "--", *given] if os.getuid() == 0 else given

    def make(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self.folder, ACCOUNT, ACCOUNT)
        call = [self._binaries / "initdb", "-D", self.folder / "data", "-U", ACCOUNT, "-A", "trust", "--no-sync"]
        subprocess.run(self._as_account(*call, "-E", "UTF8", "--locale=C"), check=True, capture_output=True)

    def start(self, *settings: str) -> None:
        given = [word for setting in (f"unix_socket_directories={self.folder}", *settings) for word in ("-c", setting)]
        call = [self._binaries / "postgres", "-D", self.folder / "data", "-c", "listen_addresses=", *given]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_account(*call), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.wait()

    def wait(self, seconds: float = 30.0) -> None:
        import psycopg

        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.database, connect_timeout=2).close()
                return
            except psycopg.Error:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    @property
    def number(self) -> int:
        """The server's own process, which `runuser` started."""
        return int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def kill(self) -> None:
        """kill -9 of the server: what is committed must be there after the next start."""
        os.kill(self.number, signal.SIGKILL)
        assert self._process is not None
        self._process.wait(20)
        # Its children notice on their own; a start before that is refused.
        time.sleep(0.5)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self.number, signal.SIGINT)
            self._process.wait(20)


@contextmanager
def running_postgres(*settings: str) -> Iterator[PostgresServer]:
    """A server until the block ends; skips the test where there is none."""
    pytest.importorskip("psycopg", reason="the extra sql is not installed")
    found = binaries()
    if sys.platform != "linux" or found is None or (os.getuid() == 0 and shutil.which("runuser") is None):
        pytest.skip(NO_SERVER)
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder), found)
        try:
            server.make()
        except (subprocess.CalledProcessError, LookupError):
            pytest.skip(NO_SERVER)
        try:
            server.start(*settings)
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server
