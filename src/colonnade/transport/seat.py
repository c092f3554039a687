"""A party's side of any session over a network: asks the server, drives its role, leaves with a code."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.consent.guard import refusing
from colonnade.crypto.alignment import AlignmentParty
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.matching import HYBRID
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import Code, code_of
from colonnade.protocol.messages import Envelope, Join, Proposal, Step, body_of
from colonnade.protocol.party import State
from colonnade.transport.in_process import Member as Role
from colonnade.transport.vouching import ALIGNMENT, SESSION, Voucher, Vouching
from colonnade.transport.wire import (
    ENTRY_MEANING,
    INSTANCE_BYTES,
    Barred,
    Beat,
    Entry,
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
    Unreachable,
    Vouch,
    Wait,
    Welcome,
    decode_item,
    decode_reply,
    encode,
    encode_item,
)

Call = Callable[[bytes], bytes]
"""Carries a request to the server and brings the reply; raises Unreachable when there is none."""
Watch = Callable[[str, float], None]


class Playing(Role, Protocol):
    """A party of a session or of a prediction, which knows how far it is."""

    state: State


class _Told(Exception):
    """The server says that the session is over."""

    def __init__(self, over: Over) -> None:
        super().__init__("over")
        self.over = over


class Seat(ABC):
    """One organisation's process in one session; a kind of session says which role it plays, and how it ends."""

    steps: Mapping[Step, str] = {}
    """What people are shown while messages of a step come."""
    closing = ""
    """What a refusal before the session proper means for the party's ledger or scores."""

    def __init__(
        self,
        name: str,
        parties: tuple[str, ...],
        terms: str,
        alignment: str,
        read: Callable[[], Table],
        call: Call,
        randomness: Randomness,
        patience: Patience | None = None,
        watch: Watch | None = None,
        voucher: Voucher | None = None,
    ) -> None:
        self._name, self._parties, self._terms, self._alignment = name, parties, terms, alignment
        self._read, self._call, self._randomness = read, call, randomness
        self._patience, self._watch = patience or Patience(), watch
        # Says which process speaks, not who may: that is the certificate's matter.
        self._instance = Randomness().bytes(INSTANCE_BYTES)
        self._step, self._share = "wait", 0.0
        self._pushed = self._taken = 0
        self._table: Table | None = None
        self._aligner: AlignmentParty | None = None
        self._role: Playing | None = None
        self._vouching = Vouching(name, parties, voucher)
        self._quiet = threading.Event()

    # What a kind of session adds.

    def _pending(self) -> list[str]:
        """Earlier sessions that the server is asked about."""
        return []

    def _welcomed(self, welcome: Welcome) -> None:
        """What the server says of them."""

    @abstractmethod
    def _judge(self) -> None:
        """Refuse, before others hear of this party, what the public terms alone decide."""

    def _foresee(self, table: Table) -> None:
        """Refuse, before ids are matched, what is known before n is."""

    def _largest_list(self) -> int | None:
        """How many ids a partner may be able to test in one alignment."""
        return None

    @abstractmethod
    def _matching(self) -> None:
        """Ids are about to be matched: nothing of it has left yet."""

    @abstractmethod
    def _begin(self, table: Table, rows: NDArray[np.int64] | None) -> Playing:
        """The role that this party plays, with the common rows of its table; None means all as they stand."""

    def _arrived(self, envelope: Envelope) -> None:
        """A message came, and is not worked on yet."""

    def _barred(self, why: Entry) -> ColonnadeError:
        sentence = f"party {self._name} is not let in: {ENTRY_MEANING[why]}; nothing is spent"
        return StudyError(sentence) if why is Entry.STUDY else PolicyError(sentence)

    @abstractmethod
    def _ended(self, over: Over) -> ColonnadeError:
        """What the server's last word means here."""

    @abstractmethod
    def _alone(self) -> ColonnadeError:
        """What it means here that the server is not heard any more."""

    def _left(self, error: BaseException) -> None:
        """The server has been told a code; what happened stays here."""

    def _count(self, size: int) -> None:
        """So many bytes have passed."""

    def _progress(self) -> float:
        return 0.0

    # The way in and the conversation.

    def _attend(self) -> Playing:
        """The role, once it has what it came for; raises one sentence that says who ended the session, and where."""
        pulse = threading.Thread(target=self._beat, name="colonnade-beat", daemon=True)
        try:
            self._judge()
            self._enter()
            pulse.start()
            self._show("read", 0.0)
            self._table = self._read()
            self._foresee(self._table)
            self._show("wait", 0.0)
            return self._converse()
        except _Told as told:
            raise self._ended(told.over) from None
        except Unreachable:
            raise self._alone() from None
        except BaseException as error:
            self._ask_quietly(Leave(self._instance, code_of(error), self._step))
            self._left(error)
            raise
        finally:
            self._quiet.set()

    def _enter(self) -> None:
        hello = Hello(self._instance, self._terms, self._randomness.seeded, self._pending())
        welcome = self._ask(hello, self._patience.join)
        if not isinstance(welcome, Welcome):
            raise ProtocolError("the server must welcome a party or refuse it, got another answer")
        self._welcomed(welcome)
        self._alignment_id = welcome.alignment
        self._vouching.begin(ALIGNMENT, welcome.alignment, self._terms.encode())

    def _converse(self) -> Playing:
        while True:
            reply = self._ask(Pull(self._instance, self._taken))
            if not isinstance(reply, Mail) or reply.number != self._taken + 1:
                raise ProtocolError(f"the server must send item {self._taken + 1} next, got another")
            self._taken += 1
            self._count(len(reply.item))
            self._work(decode_item(reply.item))
            role = self._role
            if role is not None and role.state is State.RELEASED:
                self._take_leave()
                return role

    def _take_leave(self) -> None:
        """The last item has come: the server need not wait any longer."""
        self._ask_quietly(Pull(self._instance, self._taken))

    def _work(self, item: Item) -> None:
        match item:
            case Turn():
                self._vouching.settled()
                for parcel in self._aligning().send(item.round):
                    self._vouching.sent(parcel.recipient, item.round, parcel.payload)
                    self._push(Ring(item.round, parcel.recipient, parcel.payload))
                self._vouch(self._vouching.due())
                self._push(Turn(item.round))
            case Ring():
                self._vouching.came(item.peer, item.round, item.payload)
                with refusing(self._name, self.closing):
                    self._aligning().receive(item.round, item.peer, item.payload)
            case Vouch():
                self._vouching.take(item)
            case Start():
                self._join(item.identity)
            case Envelope():
                self._answer(item)

    @property
    def _aligns(self) -> bool:
        return self._alignment != "none" and len(self._parties) > 1

    def _aligning(self) -> AlignmentParty:
        table = self._table
        if not self._aligns:
            raise ProtocolError(f"party {self._name} has nothing to align, and the server asks for an alignment")
        if self._aligner is None:
            assert table is not None
            if table.ids is None:
                raise ProtocolError(f"party {self._name} has no ids to align by, and the server asks for an alignment")
            self._matching()
            self._show("align", 0.0)
            self._aligner = AlignmentParty(
                self._alignment_id,
                self._parties,
                self._parties.index(self._name),
                table.ids,
                # The same labels as in one process, so that a seeded run draws the same.
                self._randomness.child("alignment").child(f"alignment {self._name}"),
                lambda done, total: self._show("align", done / max(1, total)),
                post_quantum=self._alignment == HYBRID,
                largest_list=self._largest_list(),
            )
        return self._aligner

    def _join(self, identity: bytes) -> None:
        assert self._table is not None
        if self._role is not None:
            raise ProtocolError(f"party {self._name} joins once, and the server starts the session again")
        rows, common = None, b""
        if self._aligns:
            rows, common = self._aligning().rows(), self._aligning().common()
        # Who was served another alignment, or other terms, fits nobody's signature from here on.
        self._vouching.begin(SESSION, identity, self._terms.encode(), common)
        self._show("plan", 0.0)
        self._role = self._begin(self._table, rows)
        join = self._role.join(identity)
        self._vouch(self._vouching.mask_key(body_of(join, Join).mask_key))
        self._push(join)

    def _answer(self, envelope: Envelope) -> None:
        role = self._role
        if role is None:
            raise ProtocolError(f"party {self._name} has not joined and expects no {envelope.step.value} message")
        self._show(self.steps.get(envelope.step, self._step), self._progress())
        self._arrived(envelope)
        self._examine(envelope)
        for answer in role.receive(envelope):
            match answer.step:
                case Step.SUBMIT:
                    self._show("submit", 0.5)
                case Step.PARCEL:
                    self._vouching.sent(answer.recipient, answer.step, answer.body)
                case Step.DONE:
                    self._vouch(self._vouching.due())
            self._push(answer)

    def _examine(self, envelope: Envelope) -> None:
        """Refuse, before anything is booked or sent, what peers have not vouched for."""
        match envelope.step:
            case Step.PLAN:
                self._vouching.agree(self._parties, body_of(envelope, Proposal).mask_keys)
            case Step.PARCEL:
                self._vouching.came(envelope.sender, envelope.step, envelope.body)
            case Step.GO:
                self._vouching.settled()

    def _vouch(self, vouches: Iterator[Vouch]) -> None:
        for vouch in vouches:
            self._push(vouch)

    # Requests.

    def _push(self, item: Item) -> None:
        data = encode_item(item)
        self._pushed += 1
        self._ask(Push(self._instance, self._pushed, data))
        self._count(len(data))

    def _ask(self, request: Request, patience: float | None = None) -> Reply:
        """Ask until there is an answer; a server that says Wait is alive."""
        limit = self._patience.silence if patience is None else patience
        deadline = time.monotonic() + limit
        data = encode(request)
        while True:
            try:
                reply = decode_reply(self._call(data))
            except Unreachable:
                if time.monotonic() > deadline:
                    raise Unreachable from None
                time.sleep(min(0.5, self._patience.beat))
                continue
            match reply:
                case Wait():
                    deadline = time.monotonic() + limit
                case Barred() if not isinstance(request, Hello):
                    raise Unreachable("the server knows nothing of this session")
                case Barred():
                    raise self._barred(reply.why)
                case Over():
                    raise _Told(reply)
                case _:
                    return reply

    def _ask_to_the_end(self, request: Request) -> None:
        """Ask until the server has answered or is gone; the session is over either way."""
        with suppress(_Told, Unreachable):
            self._ask(request)

    def _ask_quietly(self, request: Request) -> None:
        with suppress(Unreachable):
            self._call(encode(request))

    def _beat(self) -> None:
        while not self._quiet.wait(self._patience.beat):
            self._ask_quietly(Beat(self._instance, self._step, self._share))

    def _show(self, step: str, share: float) -> None:
        self._step, self._share = step, share
        if self._watch is not None:
            self._watch(step, share)


def decline(call: Call, error: BaseException) -> None:
    """Tell the server, by a code, that this party cannot even begin: what its own files say stops it."""
    code = Code.SITE if isinstance(error, StudyError) else code_of(error)
    with suppress(Unreachable):
        call(encode(Leave(Randomness().bytes(INSTANCE_BYTES), code, "wait")))
