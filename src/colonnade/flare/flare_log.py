"""What FLARE's own log tells: a certificate used twice, a line that breaks, a job that could not start."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.flare.status import look
from colonnade.foundation.names import LONGEST_NAME, is_visible
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.sites.site import OUTCOME, STATUS

if TYPE_CHECKING:
    from colonnade.flare.certificates import Address

# FLARE names its loggers by module and class: the module's hears all of them.
SERVER_LOGGER = "nvflare.private.fed.server.fed_server"
PARTY_LOGGER = "nvflare.private.fed.client.client_executor"
REPORTED = re.compile(r"^(?:Failing|Aborting) job (\S+) due to reported failure from ([\w.@-]+): (.*)$")
FINISHED = re.compile(r"^run \((\S+)\): child worker process finished with RC (.+)$")
Say = Callable[[str], None]
EVICTED = re.compile(r"is evicted for .* from endpoint ([\w.@-]+)")
SECONDS, OFTEN = 120.0, 2  # a line that breaks comes back once; twice in two minutes is somebody
TWICE = "twice.json"
LINE_LOGGER = "nvflare.fuel.f3.sfm.conn_manager"
MADE = re.compile(r"^Connection \[(\S+) \S+ => (\S+) SSL .*\] is created")
"""A connection to the server; those that a job of this site makes to it go the other way."""
CLOSED = re.compile(r"^Connection \[(\S+) .*\] is closed")
BREAKS = 5  # so many within SECONDS are no accident; chosen, not measured


class Listener(logging.Handler):
    """Hands what a pattern finds in a line of FLARE's own log to a function."""

    def __init__(self, pattern: re.Pattern[str], heard: Callable[[re.Match[str]], None]) -> None:
        super().__init__(logging.INFO)
        self._pattern, self._heard = pattern, heard

    def emit(self, record: logging.LogRecord) -> None:
        if found := self._pattern.search(record.getMessage()):
            self._heard(found)


def watch_server(folder: Path, tell: Say) -> None:
    """At the server: who is connected twice is written down, and told once."""
    seen: dict[str, deque[float]] = {}
    known: dict[str, float] = {}

    def evicted(found: re.Match[str]) -> None:
        """Once is a line that broke and came back, again within two minutes is somebody."""
        times = seen.setdefault(found[1], deque(maxlen=OFTEN))
        times.append(time.monotonic())
        if len(times) < OFTEN or times[-1] - times[0] >= SECONDS:
            return
        first = found[1] not in known
        known[found[1]] = time.time()
        (folder / TWICE).write_text(json.dumps(known), encoding="utf-8")
        if first:
            tell(sentence(found[1]))

    logging.getLogger("nvflare.fuel.f3.sfm.sfm_endpoint").addHandler(Listener(EVICTED, evicted))


def sentence(party: str) -> str:
    """What a connection that is taken over again and again means."""
    return (
        f"party {party} is connected twice: two processes use its certificate, or its line breaks again and again; "
        "no session starts before two minutes have passed without it"
    )


def doubled(folder: Path, parties: Collection[str]) -> str:
    """A party that was seen twice lately, or an empty text."""
    try:
        content = json.loads((folder / TWICE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return next((name for name, when in content.items() if name in parties and time.time() - when < SECONDS), "")


class ServerLine(logging.Handler):
    """Listens to FLARE's log: the line is made, breaks, and is made again. What that means it does not guess."""

    def __init__(self, party: str, address: Address, say: Callable[[str], None], idle: str) -> None:
        super().__init__(logging.INFO)
        self._party, self._server, self._say, self._idle = party, f"{address.host}:{address.port}", say, idle
        self._mine: set[str] = set()
        self._times: deque[float] = deque(maxlen=BREAKS)
        self._flickers = self._silent = False

    def hear(self, away: str) -> str:
        """What a try of the server told, a reason or nothing; whether the engine has a line too. Silence is said."""
        if self._mine and bool(away) != self._silent:
            self._silent = bool(away)
            self._say(f"{away}, though the line is open" if away else f"{self._server} answers again")
        return away or ("" if self._mine else "the engine has no line to the server")

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
        often = len(self._times) == BREAKS and self._times[-1] - self._times[0] < SECONDS
        if often and not self._flickers:
            self._say(
                f"the line to {self._server} was made {BREAKS} times within two minutes: it breaks, or another process "
                f"uses the certificate of {self._party}, which the server's terminal would say"
            )
        elif not often:
            self._say(f"connected to {self._server}, {self._idle}")
        self._flickers = often


def watch_line(party: str, address: Address, say: Callable[[str], None], idle: str) -> ServerLine:
    line = ServerLine(party, address, say, idle)
    logging.getLogger(LINE_LOGGER).addHandler(line)
    return line


def failed_party(run: Path) -> str:
    """Whose process FLARE has reported in a running job; empty if nobody's."""
    return str(look(run / OUTCOME).get("party", ""))


def watch_failures(folder: Path, party: str, say: Say) -> None:
    """Listen to FLARE's log, at the server where `party` is empty."""

    def reported(found: re.Match[str]) -> None:
        """Leave the coordinator a sentence with the party's name, where the job itself leaves none."""
        job, name, reason = found[1], found[2], found[3]
        if not is_visible(reason) or len(reason) > LONGEST_NAME:
            # A party's own words, which a terminal could take for commands.
            reason = "for a reason that cannot be shown"
        what = f"the session's process at {name} could not start, or was ended ({reason}): log.txt at {name} says why"
        try:
            # Whatever the server's job says at its end replaces this.
            with (folder / job / OUTCOME).open("x", encoding="utf-8") as file:
                json.dump({"ok": False, "sentence": f"{what}; {BOOKED_COUNTS}", "bytes": {}, "party": name}, file)
        except OSError:
            return
        say(f"job {job[:8]}: {what}")

    def finished(found: re.Match[str]) -> None:
        """A party's job that ended and never wrote a status."""
        job, code = found[1], found[2]
        if look(folder / STATUS).get("job") != job:
            told = f"its process ended before it began (code {code}), and nothing is spent"
            say(f"job {job[:8]}: {told}: log.txt and {job}/log.txt say why")

    handler = Listener(FINISHED, finished) if party else Listener(REPORTED, reported)
    logging.getLogger(PARTY_LOGGER if party else SERVER_LOGGER).addHandler(handler)
