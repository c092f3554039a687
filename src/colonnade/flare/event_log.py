"""`log.jsonl` in a site's folder: one JSON object for each step of a session, for machines that gather logs.

It has times, names and ids, and never a sentence: what a party's own people are told may hold numbers.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EVENTS, AUDIT = "log.jsonl", "audit.log"
LARGEST, KEPT = 20 << 20, 5
FIELDS = ("time", "site", "study", "event", "job", "session", "step", "ok", "spend")


class Lines:
    """A file of lines, kept in six of 20 MB at most. A full disk loses lines, and keeps nobody from going on."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", delay=True
        )

    def write(self, line: str) -> None:
        self._handler.emit(logging.LogRecord("lines", logging.INFO, "", 0, "%s", (line.rstrip("\n"),), None))

    def flush(self) -> None:
        """Each line is written at once."""

    def close(self) -> None:
        self._handler.close()


def rotate_audit_log(folder: Path) -> None:
    """The engine's audit.log grows by some 60 lines a session, for ever: its own auditor writes into ours."""
    from nvflare.fuel.sec.audit import Auditor, AuditService

    AuditService.the_auditor = auditor = Auditor(str(folder / AUDIT))
    auditor.audit_file.close()
    auditor.audit_file = Lines(folder / AUDIT)


class EventLog:
    """Appends what the status file says, as far as it is new."""

    def __init__(self, folder: Path, site: str, study: str) -> None:
        self._known = {"site": site, "study": study}
        self._last: tuple[str, str, bool] = ("", "", False)
        self._lines = Lines(folder / EVENTS)

    def note(self, event: str, **more: Any) -> None:
        """One line."""
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **self._known, "event": event, **more}
        self._lines.write(json.dumps({key: entry[key] for key in FIELDS if key in entry}))

    def follow(self, content: dict[str, Any]) -> None:
        """A line for each step, and one for the end."""
        job, step, done = str(content.get("job", "")), str(content.get("step", "")), bool(content.get("done"))
        if (job, step, done) == self._last:
            return
        self._last = (job, step, done)
        known = {"job": job, "session": str(content.get("session") or ""), "step": step}
        if not done:
            self.note("step", **known)
            return
        spend = content.get("spend") or {}
        self.note("end", **known, ok=bool(content.get("ok")), spend=str(spend.get("state", "none")))
