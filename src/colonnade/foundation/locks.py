"""A file that one process at a time may hold, where the system has such locks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import IO

from colonnade.foundation.errors import SiteError

UNFIT = (
    "this system has no file locks (fcntl), which a site needs: run it on Linux or macOS, or in a container; plan, "
    "fit, demo and all that is made of a release work here"
)


def require_locks() -> None:
    """Raise SiteError where the system cannot lock files; Windows cannot."""
    if find_spec("fcntl") is None:
        raise SiteError(UNFIT)


def lock_alone(file: IO[str]) -> bool:
    """Hold an open file for this process until it is closed; False if another process holds it."""
    require_locks()
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
