"""What the server's role writes down, so that parties can settle their books after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol


class JournalEvent(StrEnum):
    """What happened to a session."""

    STARTED = "started"
    SUBMITTED = "submitted"
    OPENED = "opened"


class Journal(Protocol):
    """Notes are durable when the call returns."""

    def note(self, session: str, event: JournalEvent) -> None: ...

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        """Of sessions that began here and are over: "void" where a submission was lacking, else "opened"."""
        ...


class NullJournal:
    """The journal of a run in one process: whoever would ask ends with it."""

    def note(self, session: str, event: JournalEvent) -> None: ...

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        return {}
