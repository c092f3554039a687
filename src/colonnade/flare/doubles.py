"""Notices that two processes use one certificate: FLARE lets each take the other's connection, in turns."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path

EVICTED = re.compile(r"is evicted for .* from endpoint (\S+)")
SECONDS, OFTEN = 120.0, 2
FILE = "twice.json"


class Doubles(logging.Handler):
    """Listens to FLARE's own log: once is a line that broke and came back, again within two minutes is somebody."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self._seen: dict[str, deque[float]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        found = EVICTED.search(record.getMessage())
        if found is None:
            return
        times = self._seen.setdefault(found[1], deque(maxlen=OFTEN))
        times.append(time.monotonic())
        if len(times) == OFTEN and times[-1] - times[0] < SECONDS:
            self._tell(found[1])


def watch_server(folder: Path, tell: Callable[[str], None]) -> None:
    """At the server: who is connected twice is written down, and told once."""
    told: set[str] = set()

    def note(name: str) -> None:
        (folder / FILE).write_text(json.dumps({name: time.time()}), encoding="utf-8")
        if name not in told:
            told.add(name)
            tell(sentence(name))

    logging.getLogger("nvflare.fuel.f3.sfm.sfm_endpoint").addHandler(Doubles(note))


def sentence(party: str) -> str:
    """What a connection that is taken over again and again means."""
    return (
        f"party {party} is connected twice: two processes use its certificate, or its line breaks again and again; "
        "no session starts before two minutes have passed without it"
    )


def doubled(folder: Path, parties: Collection[str]) -> str:
    """A party that was seen twice lately, or an empty text."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return next((name for name, when in content.items() if name in parties and time.time() - when < SECONDS), "")
