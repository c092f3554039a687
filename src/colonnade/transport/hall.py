"""The server's side of any session over a network: answers requests, drives a role, ends cleanly in any case."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from colonnade.crypto.alignment.frames import SESSION_BYTES
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import AlignmentError, ColonnadeError, MessageError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import Code
from colonnade.protocol.convener import State
from colonnade.protocol.messages import Envelope, Step
from colonnade.transport.in_process import Middle
from colonnade.transport.journal import Journal
from colonnade.transport.outbox import Outbox
from colonnade.transport.wire import (
    INSTANCE_BYTES,
    Barred,
    Beat,
    Entry,
    Fine,
    Hello,
    Item,
    Leave,
    Mail,
    Over,
    Patience,
    Pull,
    Push,
    Reply,
    Request,
    Ring,
    Start,
    Turn,
    Vouch,
    Wait,
    Welcome,
    decode_item,
    decode_request,
    encode,
    encode_item,
)

ROOM = 64 << 20
"""Bytes that wait to be worked on; whoever brings more is asked to come again."""
STEPS = frozenset({"wait", "read", "align", "plan", "products", "submit", "open"})
"""What a party that leaves may say of where it was."""
Watch = Callable[[str, float], None]


class Serving(Middle, Protocol):
    """The server of a session or of a prediction, which says who ended it."""

    code: Code | None
    culprit: str

    @property
    def parties(self) -> tuple[str, ...]: ...


@dataclass
class Seated:
    """A party as the server sees it."""

    instance: bytes
    heard: float
    outbox: Outbox = field(default_factory=Outbox)
    pushed: int = 0
    share: float = 0.0
    left: Leave | None = None
    ready: bool = False
    """Has read its data and found nothing to refuse: it asks for its first item."""
    told: bool = False


class _Ended(Exception):
    """The session cannot go on, by whom and why."""

    def __init__(self, code: Code, party: str = "", step: str = "") -> None:
        super().__init__(code.value)
        self.code, self.party, self.step = code, party, step


class Hall:
    """`handle` may be called by many threads; the session is driven in the thread of whoever runs it.

    A kind of session says what is noted as messages come, when it counts as opened, and who is waited for at the end.
    """

    steps: Mapping[Step, str] = {}
    """What people are shown while messages of a step come."""

    def __init__(
        self,
        server: Serving,
        terms: str,
        alignment: str,
        randomness: Randomness,
        journal: Journal,
        patience: Patience | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._server, self._terms = server, terms
        self._alignment, self._journal = alignment, journal
        self._patience, self._watch = patience or Patience(), watch
        self._seeded = randomness.seeded
        self._session_id = randomness.child("alignment").bytes(SESSION_BYTES)
        self._changed = threading.Condition()
        self._members: dict[str, Seated] = {}
        self._inbox: deque[tuple[str, bytes]] = deque()
        self._waiting = 0
        self._over: Over | None = None
        self._stop: Callable[[], bool] = lambda: False
        self._stopped: float | None = None
        self.step = "wait"
        self.absent = ""
        """A party whose process the engine knows to be dead; `stop` may say so."""
        self._sent = dict.fromkeys(self.parties, 0)
        self._received = dict.fromkeys(self.parties, 0)

    @property
    def parties(self) -> tuple[str, ...]:
        return self._server.parties

    @property
    def identity(self) -> bytes:
        """The session's id, which is public."""
        return self._server.identity

    # What a kind of session adds.

    @property
    def _counts(self) -> bool:
        """Whether the session counts as opened, whatever happens from now on."""
        return self._server.state is State.OPENED

    def _settled(self, pending: list[str]) -> dict[str, str]:
        """What became of earlier sessions that a party asks about."""
        return {}

    def _started(self) -> None:
        """All parties are there, and nothing of the session has been sent yet."""

    def _heard(self, sender: str, envelope: Envelope) -> None:
        """A message came, and is not worked on yet."""

    def _opened(self) -> None:
        """The last message was worked on."""

    # Answers, in the threads of whoever asks.

    def handle(self, sender: str, data: bytes) -> bytes:
        """Answer one request of a party; raises MessageError when it cannot be read."""
        request = decode_request(data)
        with self._changed:
            reply = self._answer(sender, request)
        return encode(reply)

    def _answer(self, sender: str, request: Request) -> Reply:
        if sender not in self.parties:
            return Barred(Entry.STRANGER)
        if isinstance(request, Hello):
            return self._enter(sender, request)
        member = self._members.get(sender)
        if member is None and isinstance(request, Leave):
            member = self._members[sender] = Seated(request.instance, time.monotonic())
        if member is None or member.instance != request.instance:
            return Barred(Entry.STRANGER if member is None else Entry.TWICE)
        member.heard = time.monotonic()
        match request:
            case Push():
                return self._take(sender, member, request)
            case Pull():
                member.ready = True
                return self._give(member, request)
            case Beat():
                member.share = min(1.0, max(0.0, request.share))
                return self._over or Fine()
            case Leave():
                member.left, member.told = request, True
                self._changed.notify_all()
                return Fine()

    def _enter(self, sender: str, hello: Hello) -> Reply:
        known = self._members.get(sender)
        if known is not None and known.instance != hello.instance:
            return Barred(Entry.TWICE)
        if len(hello.instance) != INSTANCE_BYTES or hello.study != self._terms:
            return Barred(Entry.STUDY)
        if hello.seeded != self._seeded:
            return Barred(Entry.SEED)
        if self._over is not None:
            return self._over
        if known is None:
            self._members[sender] = Seated(hello.instance, time.monotonic())
            self._changed.notify_all()
        # This session's own id is not known to anyone yet, and no other session is running.
        return Welcome(self._session_id, self._settled(hello.pending))

    def _take(self, sender: str, member: Seated, push: Push) -> Reply:
        if push.number <= member.pushed:
            return Fine()
        if self._over is not None:
            member.told = True
            self._changed.notify_all()
            return self._over
        if push.number != member.pushed + 1:
            member.left = Leave(member.instance, Code.PROTOCOL, self.step)
            self._changed.notify_all()
            return Wait()
        deadline = time.monotonic() + self._patience.poll
        while self._waiting and self._waiting + len(push.item) > ROOM:
            if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                return Wait()
        if push.number != member.pushed + 1:
            return Fine()
        member.pushed = push.number
        self._inbox.append((sender, push.item))
        self._waiting += len(push.item)
        self._sent[sender] += len(push.item)
        self._changed.notify_all()
        return Fine()

    def _give(self, member: Seated, pull: Pull) -> Reply:
        deadline = time.monotonic() + self._patience.poll
        while True:
            mail = member.outbox.take(pull.taken)
            if mail is not None:
                return Mail(*mail)
            if self._over is not None:
                member.told = True
                self._changed.notify_all()
                return self._over
            self._changed.notify_all()
            if time.monotonic() >= deadline:
                return Wait()
            self._changed.wait(max(0.0, deadline - time.monotonic()))

    # The session, in the thread of whoever runs it.

    def _session(self, stop: Callable[[], bool]) -> Over:
        """Drive the session to its end; how it ended, without a code if well."""
        self._stop = stop
        with self._journal.alone():
            try:
                self._gather()
                if self._alignment != "none" and len(self.parties) > 1:
                    self._align()
                self._drive()
            except _Ended as end:
                return self._finish(Over(end.code, end.party, end.step or self.step, self._counts))
            except BaseException:
                self._finish(Over(Code.INTERNAL, "", self.step, self._counts))
                raise
            return self._deliver()

    def _gather(self) -> None:
        deadline = time.monotonic() + self._patience.join
        with self._changed:
            while True:
                self._check()
                missing = [p for p in self.parties if p not in self._members]
                if missing and time.monotonic() > deadline:
                    raise _Ended(Code.TIMEOUT, missing[0])
                # Nobody sends a byte of an alignment before all have said that nothing keeps them from it.
                ready = sum(member.ready for member in self._members.values())
                if ready == len(self.parties):
                    return
                self._show("wait", ready / len(self.parties))
                self._changed.wait(0.25)

    def _align(self) -> None:
        """The alignment's rounds, as align_in_process has them."""
        server = AlignmentServer(self._session_id, self.parties)
        self._show("align", 0.0)
        for round in server.rounds:
            self._to_all(Turn(round))
            waiting = set(self.parties)
            while waiting:
                sender, item = self._next()
                try:
                    if isinstance(item, Turn) and item.round == round and sender in waiting:
                        waiting.discard(sender)
                    elif isinstance(item, Ring) and item.peer == SERVER:
                        server.receive(item.round, sender, item.payload)
                    elif isinstance(item, Ring) and item.peer in self.parties:
                        self._post(item.peer, Ring(item.round, sender, item.payload))
                    else:
                        raise MessageError(f"party {sender} sent another item than the alignment's round {round}")
                except ColonnadeError:
                    raise _Ended(Code.PROTOCOL, sender) from None
                self._show("align", self._share())
            try:
                for parcel in server.send(round):
                    self._post(parcel.recipient, Ring(round, SERVER, parcel.payload))
            except AlignmentError:
                raise _Ended(Code.NO_MATCH) from None
            except ColonnadeError:
                raise _Ended(Code.PROTOCOL) from None

    def _drive(self) -> None:
        """The session's messages, as transport.in_process has them."""
        server = self._server
        self._started()
        self._show("plan", 0.0)
        self._to_all(Start(server.identity))
        while server.state not in (State.OPENED, State.FAILED):
            sender, item = self._next()
            if not isinstance(item, Envelope) or item.sender != sender:
                raise _Ended(Code.PROTOCOL, sender)
            try:
                self._heard(sender, item)
                self._show("open" if self._counts else self.steps.get(item.step, self.step), self._share())
                for answer in server.receive(item):
                    self._post(answer.recipient, answer)
            except ColonnadeError:
                raise _Ended(Code.PROTOCOL, sender) from None
        if server.state is State.FAILED:
            raise _Ended(server.code or Code.INTERNAL, server.culprit)
        self._opened()

    def _deliver(self) -> Over:
        """It is opened; parties have a while to take what is theirs."""
        self._show("open", 1.0)
        over = Over(None, "", "open", True)
        with self._changed:
            self._over = over
            self._changed.notify_all()
            self._until_told()
        return over

    def _finish(self, over: Over) -> Over:
        with self._changed:
            self._over = over
            self._inbox.clear()
            for member in self._members.values():
                member.outbox.clear()
            self._changed.notify_all()
            self._until_told()
        return over

    def _until_told(self) -> None:
        deadline = time.monotonic() + self._patience.farewell
        while time.monotonic() < deadline:
            now = time.monotonic()
            quick = max(5.0, 4 * self._patience.beat)
            if all(m.told or now - m.heard > min(quick, self._patience.silence) for m in self._members.values()):
                return
            self._changed.wait(0.1)

    def _next(self) -> tuple[str, Item]:
        """The next item of any party that is for the server; raises _Ended when there will be none."""
        while True:
            sender, item = self._any()
            if not isinstance(item, Vouch):
                return sender, item
            if item.peer not in self.parties:
                raise _Ended(Code.PROTOCOL, sender)
            self._post(item.peer, Vouch(sender, item.about, item.value, item.proof))

    def _any(self) -> tuple[str, Item]:
        with self._changed:
            while not self._inbox:
                self._check()
                self._changed.wait(0.25)
            sender, data = self._inbox.popleft()
            self._waiting -= len(data)
            self._changed.notify_all()
        try:
            return sender, decode_item(data)
        except MessageError:
            raise _Ended(Code.PROTOCOL, sender) from None

    def _check(self) -> None:
        now = time.monotonic()
        for name, member in self._members.items():
            if member.left is not None:
                raise _Ended(member.left.code, name, member.left.step if member.left.step in STEPS else "")
            if now - member.heard > self._patience.silence:
                raise _Ended(Code.LOST, name)
        if not self._stop():
            return
        if self.absent in self.parties:
            raise _Ended(Code.LOST, self.absent)
        # The engine knows at once of a dead process, but not to tell us whose: the dead one is heard no more.
        self._stopped = self._stopped or now
        if now - self._stopped < 3 * self._patience.beat and self._members:
            return
        silent = [name for name, member in self._members.items() if member.heard < self._stopped]
        if not silent:
            raise _Ended(Code.STOPPED)
        raise _Ended(Code.LOST, min(silent, key=lambda name: self._members[name].heard))

    def _share(self) -> float:
        return sum(m.share for m in self._members.values()) / max(1, len(self._members))

    def _to_all(self, item: Item) -> None:
        for name in self.parties:
            self._post(name, item)

    def _post(self, name: str, item: Item) -> None:
        data = encode_item(item)
        with self._changed:
            self._members[name].outbox.put(data)
            self._received[name] += len(data)
            self._changed.notify_all()

    def _show(self, step: str, share: float) -> None:
        self.step = step
        if self._watch is not None:
            self._watch(step, share)
