"""A PostgreSQL server of a test's own: on a socket in a temporary folder, as a user that is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "postgres"


def binaries() -> Path | None:
    """Where Debian has the server's programs, the newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: -float(path.parts[-3]))
    return found[0].parent if found else None


def missing() -> str | None:
    """Why no server can run here, or None when one can."""
    if binaries() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {USER}"
    return None


@contextmanager
def running_server() -> Iterator[str]:
    """The folder of the server's socket; it ends with the context."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    programs = binaries()
    assert programs is not None
    # Short: a socket's path has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam(USER)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        as_user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    folder.chmod(0o755)

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            **as_user,  # type: ignore[call-overload]
        )

    data = str(folder / "data")
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=20 -c shared_buffers=16MB"
    try:
        call("initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        call("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "-t", "120", "start")
        try:
            yield str(folder)
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
