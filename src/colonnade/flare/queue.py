"""The coordinator's queue: sessions that are wanted, at once, at a time or again and again, one after the other.

It lies in `queue.json` of the coordinator's folder, so that it outlives the server, the parties and the coordinator.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from colonnade.flare.coordinator import NotReached, resume_session, run_session
from colonnade.foundation.errors import ColonnadeError, StoppedError, StudyError
from colonnade.foundation.files import keep_release, lock_alone, put
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.sites.site import COORDINATOR, find_site

QUEUE, HELD, WORKED = "queue.json", ".queue", ".worker"
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
LOOK_SECONDS, AGAIN_SECONDS = 1.0, 15.0  # a person sees a session begin; a server that is away is asked again
SHORTEST_HOURS, LONGEST_HOURS = 0.01, 1e5  # half a minute, as demos want it, to eleven years
PATIENCE_SECONDS = 60.0
"""How long one try waits for server and parties; then the next in the queue is tried."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Queued:
    """One wish for a session."""

    number: int
    study: str
    due: str
    """Not before this time."""
    hours: float = 0.0
    """Again so many hours after the last was due; 0 for once."""
    state: str = WAITING
    job: str = ""
    told: str = ""
    """How it ended, or why it waits."""
    release: str = ""

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.due)


class SessionQueue:
    """The file, changed under a lock and replaced whole."""

    def __init__(self, folder: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.folder, self._clock = folder, clock

    def entries(self) -> list[Queued]:
        try:
            content = json.loads((self.folder / QUEUE).read_text(encoding="utf-8"))
            return [Queued(**entry) for entry in content]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, OSError):
            raise StudyError(
                f"{self.folder.name}/{QUEUE} cannot be read: it must be as colonnade queue wrote it"
            ) from None

    @contextmanager
    def _changing(self) -> Iterator[list[Queued]]:
        with (self.folder / HELD).open("a") as file:
            while not lock_alone(file):
                time.sleep(0.05)
            entries = self.entries()
            yield entries
            text = json.dumps([asdict(entry) for entry in entries], indent=1) + "\n"
            put(self.folder / QUEUE, text.encode())

    def add(self, study: str = "", due: datetime | None = None, hours: float = 0.0) -> Queued:
        """One more at the end; its study must be one of the folder's."""
        name = find_site(self.folder, study, COORDINATOR).study.agreement.name
        when = self._clock() if due is None else due
        if when.tzinfo is None:
            raise StudyError(f"a time must name its zone, as in 2026-11-16T08:00+00:00, got {when.isoformat()}")
        if hours and not SHORTEST_HOURS <= hours <= LONGEST_HOURS:
            raise StudyError(f"every must be {SHORTEST_HOURS:g} to {LONGEST_HOURS:g} hours, got {hours:g}")
        with self._changing() as entries:
            return _append(entries, name, when, hours)

    def drop(self, number: int) -> None:
        """Take back a wish that waits; one that runs is ended by Ctrl-C of whoever works the queue."""
        with self._changing() as entries:
            found = [entry for entry in entries if entry.number == number]
            if not found:
                raise StudyError(f"the queue has no number {number}")
            if found[0].state != WAITING:
                raise StudyError(f"number {number} is {found[0].state}: only what waits can be dropped")
            entries.remove(found[0])

    def change(self, number: int, **more: Any) -> None:
        """An entry; where it has ended its next turn, if it has one, comes in the same write."""
        with self._changing() as entries:
            found = [i for i, entry in enumerate(entries) if entry.number == number]
            if not found:
                raise StudyError(f"the queue has no number {number}")
            entries[found[0]] = entry = replace(entries[found[0]], **more)
            if entry.hours and entry.state in (DONE, FAILED):
                following, now = entry.time, self._clock()
                while following <= now:
                    # Turns that were missed are not made up for: each would be a spend.
                    following += timedelta(hours=entry.hours)
                _append(entries, entry.study, following, entry.hours)

    def next_due(self, resting: Collection[int] = ()) -> Queued | None:
        """What was begun goes first; else the one that is due longest. What rests from a try is passed over."""
        entries = self.entries()
        begun = [entry for entry in entries if entry.state == RUNNING]
        due = [entry for entry in entries if entry.state == WAITING and entry.time <= self._clock()]
        awake = [entry for entry in begun or due if entry.number not in resting]
        return min(awake, key=lambda entry: (entry.time, entry.number), default=None)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time works a queue."""
        with (self.folder / WORKED).open("a") as file:
            if not lock_alone(file):
                raise StudyError(f"the queue of {self.folder} is being worked by another process already")
            yield


def _append(entries: list[Queued], study: str, due: datetime, hours: float) -> Queued:
    number = 1 + max((entry.number for entry in entries), default=0)
    entries.append(Queued(number, study, due.astimezone(UTC).isoformat(timespec="seconds"), hours))
    return entries[-1]


def work_queue(queue: SessionQueue, say: Say, stop_when_empty: bool = False) -> None:
    """Run what is due, one after the other, until stopped; or until nothing waits any more."""
    resting: dict[int, float] = {}
    with queue.alone():
        while True:
            entry = queue.next_due([number for number, until in resting.items() if time.monotonic() < until])
            if entry is None:
                if stop_when_empty and not [e for e in queue.entries() if e.state in (WAITING, RUNNING)]:
                    return
                time.sleep(LOOK_SECONDS)
                continue
            if not _work(queue, entry, say):
                resting[entry.number] = time.monotonic() + AGAIN_SECONDS


def _work(queue: SessionQueue, entry: Queued, say: Say) -> bool:
    """One session; False if it could not begin, and waits on."""
    begun: list[str] = [entry.job] if entry.state == RUNNING else []

    def note(job: str) -> None:
        begun.append(job)
        queue.change(entry.number, state=RUNNING, job=job, told="")
        if job:
            say(f"number {entry.number}, study {entry.study}: job {job[:8]} began")

    if entry.state == RUNNING and not entry.job:
        # Whoever asked ended before it had an answer: to ask again could be a second spend.
        _settle(queue, entry, FAILED, f"it was asked for and may have gone on; {BOOKED_COUNTS}", "", say)
        return True

    try:
        site = find_site(queue.folder, entry.study, COORDINATOR)
        if entry.state == RUNNING:
            content, _ = resume_session(site, entry.job, PATIENCE_SECONDS, _quiet)
        else:
            content, _ = run_session(site, PATIENCE_SECONDS, _quiet, begun=note)
    except StoppedError as error:
        queue.change(entry.number, state=FAILED if begun else WAITING, told=str(error))
        raise
    except ColonnadeError as error:
        if not begun or isinstance(error, NotReached):
            # Nothing was asked for, or it goes on: the server may come back.
            if entry.told != str(error):
                say(f"number {entry.number}, study {entry.study}: waits, {error}")
            queue.change(entry.number, told=str(error))
            return False
        _settle(queue, entry, FAILED, str(error), "", say)
        return True
    place = site.folder / "releases" / f"{begun[-1][:8]}.json"
    place.parent.mkdir(exist_ok=True)
    kept = keep_release(place, content)
    _settle(queue, entry, DONE, "the release was opened", str(kept.relative_to(queue.folder)), say)
    return True


def _settle(queue: SessionQueue, entry: Queued, state: str, told: str, release: str, say: Say) -> None:
    """How it ended."""
    queue.change(entry.number, state=state, told=told, release=release)
    say(f"number {entry.number}, study {entry.study}: {state}: {told}")


def _quiet(step: str, share: float) -> None:
    """Steps are told by the sites."""
