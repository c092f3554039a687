"""Notices that a party's job could not start: FLARE ends the server's job too, before either has said a word."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

from colonnade.flare.site import OUTCOME, STATUS
from colonnade.flare.status import look

# FLARE names its loggers by module and class: the module's hears all of them.
SERVER_LOGGER = "nvflare.private.fed.server.fed_server"
PARTY_LOGGER = "nvflare.private.fed.client.client_executor"
REPORTED = re.compile(r"^(?:Failing|Aborting) job (\S+) due to reported failure from (\S+): (.*)$")
FINISHED = re.compile(r"^run \((\S+)\): child worker process finished with RC (.+)$")
Say = Callable[[str], None]


class Reported(logging.Handler):
    """At the server: leaves the coordinator a sentence with the party's name, where the job itself leaves none."""

    def __init__(self, folder: Path, say: Say) -> None:
        super().__init__(logging.INFO)
        self._folder, self._say = folder, say

    def emit(self, record: logging.LogRecord) -> None:
        found = REPORTED.search(record.getMessage())
        if found is None:
            return
        job, party, reason = found[1], found[2], found[3]
        what = f"the session's process at {party} could not start, or was ended ({reason}): log.txt at {party} says why"
        sentence = f"{what}; what parties have booked, if anything, stays booked until the next session settles it"
        try:
            # Whatever the server's job says at its end replaces this.
            with (self._folder / job / OUTCOME).open("x", encoding="utf-8") as file:
                json.dump({"ok": False, "sentence": sentence, "bytes": {}, "party": party}, file)
        except OSError:
            return
        self._say(f"job {job[:8]}: {what}")


class Unstarted(logging.Handler):
    """At a party: a job that ended and never wrote on the board."""

    def __init__(self, folder: Path, say: Say) -> None:
        super().__init__(logging.INFO)
        self._folder, self._say = folder, say

    def emit(self, record: logging.LogRecord) -> None:
        found = FINISHED.search(record.getMessage())
        if found is not None and look(self._folder / STATUS).get("job") != found[1]:
            self._say(
                f"job {found[1][:8]}: its process ended before it began (code {found[2]}), and nothing is spent: "
                f"log.txt and {found[1]}/log.txt say why"
            )


def failed_party(run: Path) -> str:
    """Whose process FLARE has reported in a running job; empty if nobody's."""
    return str(look(run / OUTCOME).get("party", ""))


def watch_failures(folder: Path, party: str, say: Say) -> None:
    """Listen to FLARE's log, at the server where `party` is empty."""
    handler = Unstarted(folder, say) if party else Reported(folder, say)
    logging.getLogger(PARTY_LOGGER if party else SERVER_LOGGER).addHandler(handler)
