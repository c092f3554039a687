"""The server's side of a conversation over a network: answers requests, drives its role, keeps patience."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO

from colonnade.foundation.errors import ColonnadeError, MessageError, ProtocolError, SiteError
from colonnade.protocol.codes import Code
from colonnade.protocol.messages import Envelope
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Watch
from colonnade.transport.wire import (
    INSTANCE_BYTES,
    URGENT,
    Ack,
    Delivery,
    Heartbeat,
    Poll,
    Rejected,
    Rejection,
    Reply,
    Request,
    Send,
    Timeouts,
    Traffic,
    Wait,
    decode_request,
    encode,
)

ROOM = 64 << 20
"""Bytes that wait to be worked on; whoever brings more is asked to come again."""
MEMORY = 48 << 20
"""Bytes of one outbox that stay in memory."""
TICK = 0.25  # seconds between looks at the clock, while nobody says anything


class Outbox:
    """What waits for a party, a few items in memory, the rest in a file; the first stays until it has arrived."""

    def __init__(self) -> None:
        self._items: deque[bytes | tuple[int, int]] = deque()
        self._held = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._head: bytes | None = None
        self.arrived = 0
        """How many items are known to have arrived."""

    def put(self, item: bytes) -> None:
        if self._held + len(item) <= MEMORY:
            self._items.append(item)
            self._held += len(item)
            return
        if self._file is None:
            # What lies here is sealed or masked already, and no other process can open the file.
            self._file = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115 - lives as long as the outbox
        self._file.seek(self._end)
        self._file.write(item)
        self._items.append((self._end, len(item)))
        self._end += len(item)

    def take(self, taken: int) -> tuple[int, bytes] | None:
        """The next item with its number, once all up to `taken` have arrived; the same again if it has not."""
        if taken == self.arrived + 1 and self._head is not None:
            self._drop()
        if not self._items:
            return None
        if self._head is None:
            self._head = self._read(self._items[0])
        return self.arrived + 1, self._head

    def __len__(self) -> int:
        return len(self._items)

    def _drop(self) -> None:
        first = self._items.popleft()
        if isinstance(first, bytes):
            self._held -= len(first)
        self._head = None
        self.arrived += 1
        if not self._items and self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def _read(self, item: bytes | tuple[int, int]) -> bytes:
        if isinstance(item, bytes):
            return item
        assert self._file is not None
        self._file.seek(item[0])
        return self._file.read(item[1])

    def clear(self) -> None:
        """Drop what has not arrived: the session is over."""
        self._items.clear()
        self._held, self._head = 0, None
        if self._file is not None:
            self._file.close()
            self._file, self._end = None, 0


@dataclass
class Link:
    """A party's process as the server hears it."""

    instance: bytes
    heard: float
    outbox: Outbox = field(default_factory=Outbox)
    pushed: int = 0
    share: float = 0.0
    told: bool = False
    """Whether it was given the last word."""
    asked: float = 0.0
    """When it was last asked to withdraw."""


class Relay:
    """`handle` may be called by many threads; the role is driven in the thread of whoever runs it."""

    def __init__(self, role: ServerRole, patience: Timeouts | None = None, watch: Watch | None = None) -> None:
        role.task.require_private()
        self.role = role
        self.absent = ""
        """A party whose process the engine knows to be dead; `stop` may say so."""
        self.traffic = Traffic(dict.fromkeys(role.parties, 0), dict.fromkeys(role.parties, 0))
        self._patience, self._watch = patience or Timeouts(), watch
        self._changed = threading.Condition()
        self._links: dict[str, Link] = {}
        self._inbox: deque[tuple[str, bytes]] = deque()
        self._faults: deque[tuple[str, ColonnadeError]] = deque()
        self._waiting = self._urgent = 0
        self._stop: Callable[[], bool] = lambda: False
        self._stopped: float | None = None
        self._halted = 0.0
        self._ended = False
        self._deadline = time.monotonic() + self._patience.join

    # Answers, in the threads of whoever asks.

    def handle(self, sender: str, data: bytes) -> bytes:
        """Answer one request of a party; raises MessageError when it cannot be read."""
        request = decode_request(data)
        with self._changed:
            reply = self._answer(sender, request)
        return encode(reply)

    def _answer(self, sender: str, request: Request) -> Reply:
        link = self._links.get(sender)
        if sender not in self.role.parties or (link is None and not isinstance(request, Send)):
            return Rejected(Rejection.STRANGER)
        if link is None:
            if len(request.instance) != INSTANCE_BYTES:
                return Rejected(Rejection.STRANGER)
            link = self._links[sender] = Link(request.instance, time.monotonic())
            self._changed.notify_all()
        if link.instance != request.instance:
            return Rejected(Rejection.TWICE)
        link.heard = time.monotonic()
        match request:
            case Send():
                return self._take(sender, link, request)
            case Poll():
                return self._give(sender, link, request)
            case Heartbeat():
                link.share = min(1.0, max(0.0, request.share))
                return Ack()

    def _take(self, sender: str, link: Link, push: Send) -> Reply:
        if self.role.failed:
            return self._last_word(sender, link)
        if push.number == URGENT:
            if link.told:
                # Repeated: it waits already, or nothing that it says matters any more.
                return Ack()
            # Before all else that waits, but not before what came as urgently.
            self._inbox.insert(self._urgent, (sender, push.item))
            self._urgent += 1
            self._waiting += len(push.item)
            link.told = True
            self._changed.notify_all()
            return Ack()
        if push.number <= link.pushed or self.role.over:
            return Ack()
        if push.number != link.pushed + 1:
            return self._put_off(sender, f"message {link.pushed + 1} must come next, got {push.number}")
        deadline = time.monotonic() + self._patience.poll
        while self._waiting and self._waiting + len(push.item) > ROOM:
            if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                return Wait()
        if self.role.failed:
            return self._last_word(sender, link)
        if push.number != link.pushed + 1:
            return Ack()
        link.pushed = push.number
        self._inbox.append((sender, push.item))
        self._waiting += len(push.item)
        self.traffic.sent[sender] += len(push.item)
        self._changed.notify_all()
        return Ack()

    def _put_off(self, sender: str, sentence: str) -> Reply:
        self._faults.append((sender, MessageError(sentence)))
        self._changed.notify_all()
        return Wait()

    def _give(self, sender: str, link: Link, pull: Poll) -> Reply:
        deadline = time.monotonic() + self._patience.poll
        arrived = link.outbox.arrived
        while True:
            if self.role.failed:
                return self._last_word(sender, link)
            if self.role.halting:
                # It overtakes all that waits, above all the request to submit; an answer may be lost on its way.
                if time.monotonic() - link.asked > 3 * self._patience.beat:
                    link.asked = time.monotonic()
                    return Delivery(URGENT, self.role.halt(sender).encode())
            elif (mail := link.outbox.take(pull.taken)) is not None:
                return Delivery(*mail)
            # Only news wakes others: parties that wait together would else wake each other for ever.
            if link.outbox.arrived > arrived:
                arrived = link.outbox.arrived
                self._changed.notify_all()
            # Behind the end nothing comes any more: whoever says that the last message arrived goes home.
            if self._ended or time.monotonic() >= deadline:
                return Wait()
            self._changed.wait(max(0.0, deadline - time.monotonic()))

    def _last_word(self, sender: str, link: Link) -> Reply:
        """The session ended before anything was handed out: nothing else matters to a party any more."""
        if self.role.end is None:
            return Wait()
        link.told = True
        self._changed.notify_all()
        return Delivery(URGENT, self.role.farewell(sender).encode())

    # The conversation, in the thread of whoever runs it.

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Drive the role to the session's end; `stop` says that somebody wants it ended."""
        self._stop = stop
        self._deadline = time.monotonic() + self._patience.join
        try:
            while not self.role.over:
                self._show()
                self._check()
                self._work()
        except BaseException as error:
            self._post(self.role.fault("", error))
            raise
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            self._say_farewell()
        self._show()

    def _work(self) -> None:
        with self._changed:
            if not self._inbox and not self.role.over:
                self._changed.wait(TICK)
            if not self._inbox:
                return
            sender, data = self._inbox.popleft()
            self._urgent = max(0, self._urgent - 1)
            self._waiting -= len(data)
            self._changed.notify_all()
        if self.role.over:
            return
        try:
            envelope = Envelope.decode(data)
            if envelope.sender != sender:
                raise ProtocolError(f"party {sender} speaks in the name of {envelope.sender!r}")
            self._post(self.role.receive(envelope))
        except ColonnadeError as error:
            self._post(self.role.fault(sender, error))
        except OSError as error:
            # The server's own disk: no party is to be named for it.
            why = (error.strerror or str(error)).lower()
            self._post(self.role.fault("", SiteError(f"the server cannot write what the session needs: {why}")))

    def _check(self) -> None:
        """Tell the role who is lost, who never came, and that somebody wants the end."""
        now = time.monotonic()
        role, patience = self.role, self._patience
        while self._faults:
            self._post(role.fault(*self._faults.popleft()))
        for name, link in self._heard():
            # What was opened is waited for only as long as somebody is plainly there to take it.
            quickly = role.halting or (role.opened and not role.task.hinges_on(name))
            if now - link.heard > (self._quick if quickly else patience.silence):
                self._post(role.lost(name))
        if role.gathering and role.awaited and now > self._deadline:
            self._post(role.lost(role.awaited[0], Code.TIMEOUT))
        if role.halting:
            self._halted = self._halted or now
            if now - self._halted > patience.silence:
                self._post(role.stop())
        if not role.over and self._stop():
            self._wind_up(now)

    def _wind_up(self, now: float) -> None:
        role = self.role
        if self.absent in role.parties:
            self._post(role.lost(self.absent))
            return
        # The engine knows at once of a dead process, but not to tell us whose: the dead one is heard no more.
        self._stopped = self._stopped or now
        links = dict(self._heard())
        # What was opened is paid for, and handed out before the end.
        grace = self._patience.farewell if role.opened else 3 * self._patience.beat
        if now - self._stopped < grace and links:
            return
        silent = {name: link.heard for name, link in links.items() if link.heard < self._stopped}
        if silent and not role.opened:
            self._post(role.lost(min(silent, key=lambda name: silent[name])))
        else:
            self._post(role.stop())

    def _heard(self) -> list[tuple[str, Link]]:
        with self._changed:
            return list(self._links.items())

    @property
    def _quick(self) -> float:
        """Who is silent for so long is not waited for, where nothing hinges on it."""
        return min(max(5.0, 4 * self._patience.beat), self._patience.silence)

    def _post(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            data = envelope.encode()
            with self._changed:
                link = self._links.get(envelope.recipient)
                # A failed session's last word overtakes all that waits: it is the answer to any request.
                if link is not None and not self.role.failed and not self.role.halting:
                    link.outbox.put(data)
                    self.traffic.received[envelope.recipient] += len(data)
                self._changed.notify_all()
        with self._changed:
            # The state is news, too, where there is nothing to send.
            self._changed.notify_all()

    def _say_farewell(self) -> None:
        """Stay until parties have heard how it ended; whoever has what was opened needs no more, if nobody signs it."""
        if not self.role.failed:
            if self.role.accountable:
                self._await_end()
            return
        deadline = time.monotonic() + self._patience.farewell
        with self._changed:
            self._inbox.clear()
            self._urgent = 0
            for link in self._links.values():
                link.outbox.clear()
            self._changed.notify_all()
            while time.monotonic() < deadline:
                now = time.monotonic()
                if all(link.told or now - link.heard > self._quick for link in self._links.values()):
                    return
                self._changed.wait(0.1)

    def _await_end(self) -> None:
        """Accountable parties wait for the last word, behind which no signature can come."""
        deadline = time.monotonic() + self._patience.farewell
        with self._changed:
            while time.monotonic() < deadline:
                now = time.monotonic()
                if all(not len(link.outbox) or now - link.heard > self._quick for link in self._links.values()):
                    return
                self._changed.wait(0.1)

    def _show(self) -> None:
        if self._watch is not None:
            beats = [link.share for _, link in self._heard()]
            share = self.role.share if self.role.gathering or self.role.opened or not beats else sum(beats) / len(beats)
            self._watch(self.role.phase, share)
