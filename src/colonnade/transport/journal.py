"""The server's own book of sessions: which began, which had all submissions, so that parties can settle afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.files import append_durably, lock_alone
from colonnade.protocol.tasks import JournalEvent

VOID, OPENED = "void", "opened"


class FileJournal:
    """Append-only lines, each synced before the next thing happens. Submissions themselves are in memory only."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path, self._clock = path, clock

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the journal: one session at a time, so that all other sessions in it are known to be over."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            if not lock_alone(file):
                raise ProtocolError("the server runs one session at a time, and one is running")
            yield

    def note(self, session: str, event: JournalEvent) -> None:
        entry = {"time": self._clock().isoformat(timespec="seconds"), "session": session, "event": event.value}
        # A crash may have left half a line.
        append_durably(self.path, ("" if self._whole() else "\n") + json.dumps(entry) + "\n")

    def _whole(self) -> bool:
        if not self.path.exists() or not (size := self.path.stat().st_size):
            return True
        with self.path.open("rb") as file:
            file.seek(size - 1)
            return file.read(1) == b"\n"

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        """Of sessions that began here and are over: void where a submission was lacking, else opened."""
        asked = set(sessions)
        seen: dict[str, set[str]] = {}
        if asked and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict) and entry.get("session") in asked:
                    seen.setdefault(entry["session"], set()).add(str(entry.get("event")))
        spent = {JournalEvent.SUBMITTED.value, JournalEvent.OPENED.value}
        return {name: OPENED if events & spent else VOID for name, events in seen.items()}
