"""Tells a party's people how its line to the server is, by FLARE's own log."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable

from colonnade.flare.provision import Address

LOGGER = "nvflare.fuel.f3.sfm.conn_manager"
MADE = re.compile(r"^Connection \[(\S+) \S+ => (\S+) SSL .*\] is created")
"""A connection to the server; those that a job of this site makes to it go the other way."""
CLOSED = re.compile(r"^Connection \[(\S+) .*\] is closed")
SECONDS, OFTEN = 120.0, 5


class Line(logging.Handler):
    """Listens to FLARE's log: the line is made, breaks, and is made again. What that means it does not guess."""

    def __init__(self, party: str, address: Address, say: Callable[[str], None], idle: str) -> None:
        super().__init__(logging.INFO)
        self._party, self._server, self._say, self._idle = party, f"{address.host}:{address.port}", say, idle
        self._mine: set[str] = set()
        self._times: deque[float] = deque(maxlen=OFTEN)
        self._flickers = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if made := MADE.search(text):
            self._mine.add(made[1])
            self._made()
        elif (closed := CLOSED.search(text)) and closed[1] in self._mine:
            self._mine.discard(closed[1])
            if not self._mine and not self._flickers:
                self._say(f"the line to {self._server} is broken, trying again")

    def _made(self) -> None:
        self._times.append(time.monotonic())
        often = len(self._times) == OFTEN and self._times[-1] - self._times[0] < SECONDS
        if often and not self._flickers:
            self._say(
                f"the line to {self._server} was made {OFTEN} times within two minutes: it breaks, or another process "
                f"uses the certificate of {self._party}, which the server's terminal would say"
            )
        elif not often:
            self._say(f"connected to {self._server}, {self._idle}")
        self._flickers = often


def watch_line(party: str, address: Address, say: Callable[[str], None], idle: str) -> None:
    logging.getLogger(LOGGER).addHandler(Line(party, address, say, idle))
