"""A small file that says how far a site's session is, written by the job and read by whoever started the site."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from colonnade.foundation.files import replace_file
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.protocol.tasks import SessionKind
from colonnade.sites.site import SERVER

OFTEN = 0.2  # seconds between two writes of the file within one step
ROOM = 4096
"""Bytes of the file: blanks behind what it says."""
TOPIC, COMMAND, FRAME = "colonnade", "colonnade", "frame"
"""What requests to the server's job are called, a party's and the coordinator's; under what a party's has its bytes."""
BEFORE_BOOKING = ("wait", "read", "align", "plan")
"""Steps at which a party has booked nothing."""


@dataclass(frozen=True)
class Spend:
    """What a party's ledger says of the session."""

    state: str
    """booked, released or void."""
    epsilon: float
    delta: float
    total: float
    """What the data set has spent with it."""
    cap: float


@dataclass
class StatusFile:
    """The file, replaced whole at each step."""

    path: Path
    job: str
    kind: SessionKind
    """What the session is for."""
    seeded: bool = False
    session: str = ""
    """The session's id, as ledgers, releases and the server's journal have it, once it is known."""
    spend: Spend | None = None
    bytes: dict[str, int] = field(default_factory=lambda: {"sent": 0, "received": 0})
    """Of the session, by its own messages."""
    _last: tuple[str, float] = ("wait", 0.0)

    def __call__(self, step: str, share: float) -> None:
        now = time.monotonic()
        if step != self._last[0] or now - self._last[1] > OFTEN:
            self._last = (step, now)
            self._write({"step": step, "share": share})

    def note(self, spend: Spend) -> None:
        """A spend is booked."""
        self.spend = spend
        self._write({"step": self._last[0], "share": 0.0})

    def settle(self, state: str) -> None:
        """What became of the booking."""
        if self.spend is not None:
            self.spend = replace(self.spend, state=state)

    def end(self, sentence: str, ok: bool = False, file: Path | None = None, code: str = "") -> None:
        """The last word on a session, the file that it left here, and what all were told where it failed."""
        self._write(
            {
                "step": self._last[0],
                "share": 1.0,
                "done": True,
                "ok": ok,
                "sentence": sentence,
                "file": None if file is None else str(file),
                "code": code,
                "bytes": self.bytes,
            }
        )

    def _write(self, content: dict[str, Any]) -> None:
        known = {"job": self.job, "session": self.session, "pid": os.getpid(), "seeded": self.seeded}
        known["time"] = datetime.now(UTC).isoformat(timespec="seconds")
        known |= {
            "what": self.kind.name,
            "spends": self.kind.spends,
            "done": False,
            "spend": None if self.spend is None else asdict(self.spend),
        }
        replace_status(self.path, {**known, **content})


def replace_status(path: Path, content: dict[str, Any]) -> None:
    """Always as long, so that the last word on a session finds room where a full disk was what ended it."""
    with suppress(OSError):
        replace_file(path, json.dumps(content).encode().ljust(ROOM))


def look(path: Path) -> dict[str, Any]:
    """What the status file says now; empty when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def unfinished(content: dict[str, Any]) -> bool:
    """Whether a session is under way, by its status file; its process may be dead."""
    return bool(content) and not content.get("done")


def last_word(content: dict[str, Any], role: str) -> dict[str, Any]:
    """What the status file would say of a session whose process ended without a last word."""
    if not content.get("spends", True):
        meaning = "the receiver of the scores can say whether it has them"
    elif role == SERVER:
        meaning = "the next session tells parties whether it counts"
    elif content.get("step") in BEFORE_BOOKING:
        meaning = "nothing had been booked, and nothing is spent"
    else:
        meaning = BOOKED_COUNTS
    sentence = f"the session's process ended at step {content.get('step')}; {meaning}"
    return {**content, "share": 1.0, "done": True, "ok": False, "sentence": sentence, "file": None}


def job_name(path: Path) -> str:
    """The name in a job's description; empty where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(content.get("name", "")) if isinstance(content, dict) else ""
