"""A small file that says how far a site's session is, written by the job and read by whoever started the site."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OFTEN = 0.2


@dataclass
class Board:
    """The file, replaced whole at each step."""

    path: Path
    job: str
    seeded: bool = False
    _last: tuple[str, float] = ("", 0.0)

    def __call__(self, step: str, share: float) -> None:
        now = time.monotonic()
        if step != self._last[0] or now - self._last[1] > OFTEN:
            self._last = (step, now)
            self._write({"step": step, "share": share})

    def end(self, sentence: str, release: Path | None = None) -> None:
        """The last word on a session."""
        self._write(
            {
                "step": self._last[0],
                "share": 1.0,
                "done": True,
                "ok": release is not None,
                "sentence": sentence,
                "release": None if release is None else str(release),
            }
        )

    def _write(self, content: dict[str, Any]) -> None:
        known = {"job": self.job, "pid": os.getpid(), "seeded": self.seeded, "done": False, **content}
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(known), encoding="utf-8")
        os.replace(beside, self.path)


def look(path: Path) -> dict[str, Any]:
    """What the board says now; empty when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
