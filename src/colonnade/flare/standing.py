"""Whether a job may go on: the process that started it must stand until something is booked."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from colonnade.consent.guard import ConsentGuard
from colonnade.flare.status import Spend, StatusFile
from colonnade.foundation.errors import LedgerError, PolicyError, StoppedError
from colonnade.mechanism.composition import charge_of
from colonnade.protocol.session_plan import SessionPlan

RUNNING = ".running"
"""Locked by the process that serves the folder, and holds its number; empty once it is told to stop."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time serves a folder."""
    # Opened without emptying it: it may be another's.
    with (folder / RUNNING).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PolicyError(f"{folder} is being served by another process already") from None
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


class Standing:
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

    def closing(self, sentence: str, board: StatusFile) -> str:
        """The sentence, with what it means for the budget where it does not say so itself."""
        silent = board.what == "a release" and not self.booked and "spen" not in sentence
        return f"{sentence}; nothing is spent" if silent else sentence


@dataclass(kw_only=True)
class WatchedGuard(ConsentGuard):
    """A guard that books for a party that stands, and shows its people the session and the spend."""

    standing: Standing
    board: StatusFile

    def consent(self, session: SessionPlan) -> None:
        self.board.session = session.identity.hex()
        super().consent(session)

    def book(self, session: SessionPlan) -> None:
        self.standing.require()
        super().book(session)
        self.standing.booked = True
        charge = charge_of(session.plan, self.party)
        self.board.note(Spend("booked", charge.epsilon, charge.delta, self.spent().epsilon, self.policy.cap.epsilon))

    def release(self) -> None:
        super().release()
        self._show()

    def void(self, reason: str) -> None:
        super().void(reason)
        self._show()

    def _show(self) -> None:
        """What the book itself says: it may be that it could not be written to."""
        with suppress(LedgerError):
            mine = (self.board.session, self.party)
            kinds = [e.kind for e in self.ledger.entries() if (e.booking.session, e.booking.party) == mine]
            if kinds:
                self.board.settle(kinds[-1].value)


def watched(guard: ConsentGuard | None, standing: Standing, board: StatusFile) -> ConsentGuard | None:
    """The same guard, watched; a simulation has none."""
    if guard is None:
        return None
    known = {f.name: getattr(guard, f.name) for f in fields(guard) if f.init}
    return WatchedGuard(**known, standing=standing, board=board)
