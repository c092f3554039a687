"""Processes of a site: one serves a folder, its jobs stand as long as it does, and a signal ends all of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from colonnade.flare.status import look, unfinished
from colonnade.foundation.errors import PolicyError, StoppedError
from colonnade.foundation.files import lock_alone
from colonnade.sites.site import STATUS

RUNNING = ".running"
"""Locked by the process that serves the folder, and holds its number; empty once it is told to stop."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
GRACE_SECONDS = 6.0
"""A job that has booked nothing leaves by itself when it notices, and tells the others; the rest are ended."""
KILL_SECONDS = 1.0  # a job that is asked to end gets so long before it is killed
TOLD_SECONDS = 0.5
"""For the thread that tells what the status file says."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time serves a folder."""
    # Opened without emptying it: it may be another's.
    with (folder / RUNNING).open("a") as file:
        if not lock_alone(file):
            raise PolicyError(f"{folder} is being served by another process already")
        write_starter(folder, str(os.getpid()))
        yield


def write_starter(folder: Path, number: str) -> None:
    (folder / RUNNING).write_text(number, encoding="utf-8")


def stands(folder: Path) -> bool:
    """Whether the process that started this one still serves the folder."""
    try:
        return (folder / RUNNING).read_text(encoding="utf-8") == str(os.getppid())
    except OSError:
        return False


class ParentWatch:
    """Asked by a party's session before each request and before it books; what is booked may run to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._thread, self._raised = folder, threading.get_ident(), False
        self.booked = False

    def require(self) -> None:
        """Raise, once, if somebody stopped this party; only in the session's own thread."""
        # Others must be told why it ends, so that requests pass again afterwards.
        if self.booked or self._raised or threading.get_ident() != self._thread:
            return
        if not stands(self._folder):
            self._raised = True
            raise StoppedError("this party was stopped")


class StopSignals:
    """A signal handler. FLARE's own threads would keep the process alive, and its jobs hear no signal of a terminal."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._begun = False

    def listen(self) -> None:
        for number in SIGNALS:
            # Whoever started us with a signal ignored (nohup) meant it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        try:
            # A second signal while jobs are given time: no more time.
            if not self._begun:
                self._begun = True
                self._wind_up()
            end_jobs()
        finally:
            os._exit(128 + number)

    def _wind_up(self) -> None:
        status = self._folder / STATUS
        busy = unfinished(look(status))
        # A terminal that is gone must not keep us from ending.
        with suppress(OSError, RuntimeError):
            self._say("stopping" + ("; a session is under way" if busy else ""))
        write_starter(self._folder, "")
        deadline = time.monotonic() + (GRACE_SECONDS if busy else 0.0)
        while unfinished(look(status)) and time.monotonic() < deadline:
            time.sleep(0.05)
        end_jobs()
        if busy:
            time.sleep(TOLD_SECONDS)


def end_jobs() -> None:
    """End the processes that this one started; FLARE gives each a session of its own."""
    jobs = psutil.Process().children(recursive=True)
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for job in jobs:
            with suppress(psutil.Error):
                send(job)
        _, jobs = psutil.wait_procs(jobs, timeout=KILL_SECONDS)


def dead(number: int) -> bool:
    """Whether no process of this number works any more."""
    try:
        return bool(psutil.Process(number).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
