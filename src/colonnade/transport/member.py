"""A party's side of a session over a network: asks the server, drives its roles, settles its ledger at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress

from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.ledger import Kind, Ledger
from colonnade.mechanism.release import Release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.codes import code_of
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import Consent, Party, State
from colonnade.protocol.session import Session
from colonnade.table import Table
from colonnade.transport.keeper import Keeper
from colonnade.transport.study_digest import study_digest
from colonnade.transport.wire import (
    ENTRY_MEANING,
    INSTANCE_BYTES,
    Barred,
    Beat,
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
    Wait,
    Welcome,
    decode_item,
    decode_reply,
    encode,
    encode_item,
    ending,
)

Call = Callable[[bytes], bytes]
"""Carries a request to the server and brings the reply; raises Unreachable when there is none."""
Watch = Callable[[str, float], None]
STEPS = {Step.PLAN: "plan", Step.GO: "products", Step.PARCEL: "products", Step.OPENED: "open"}


class _Told(Exception):
    """The server says that the session is over."""

    def __init__(self, over: Over) -> None:
        super().__init__("over")
        self.over = over


class Member:
    """One organisation's process in one session."""

    def __init__(
        self,
        name: str,
        agreement: Agreement,
        alignment: str,
        read: Callable[[], Table],
        call: Call,
        randomness: Randomness,
        keeper: Keeper | None = None,
        patience: Patience | None = None,
        watch: Watch | None = None,
        executor: Executor | None = None,
        consent: Consent | None = None,
    ) -> None:
        self._name, self._agreement, self._alignment = name, agreement, alignment
        self._read, self._call, self._randomness = read, call, randomness
        self._keeper, self._executor, self._further = keeper, executor, consent
        self._patience, self._watch = patience or Patience(), watch
        # Says which process speaks, not who may: that is the certificate's matter.
        self._instance = Randomness().bytes(INSTANCE_BYTES)
        self._step, self._share = "wait", 0.0
        self._moved, self._expected = 0, 0.0
        self._pushed = self._taken = 0
        self._announced = ""
        self._table: Table | None = None
        self._aligner: AlignmentParty | None = None
        self.party: Party | None = None
        self._quiet = threading.Event()

    def run(self) -> Release:
        """The session's release; raises one sentence that says who ended it, at which step, and what was spent."""
        pulse = threading.Thread(target=self._beat, name="colonnade-beat", daemon=True)
        try:
            self._enter()
            pulse.start()
            self._show("read", 0.0)
            self._table = self._read()
            self._show("wait", 0.0)
            release = self._converse()
        except _Told as told:
            raise self._ended(told.over) from None
        except Unreachable as lost:
            raise self._alone(str(lost)) from None
        except BaseException as error:
            self._leave(error)
            raise
        finally:
            self._quiet.set()
        if self._keeper is not None:
            # What is booked counts: a book that cannot be written to now must not cost the release too.
            with suppress(LedgerError):
                self._keeper.release()
        self._show("open", 1.0)
        return release

    # The way in and the conversation.

    def _enter(self) -> None:
        pending = [] if self._keeper is None else unsettled(self._keeper.ledger, self._name, self._agreement.name)
        hello = Hello(self._instance, study_digest(self._agreement, self._alignment), self._randomness.seeded, pending)
        welcome = self._ask(hello, self._patience.join)
        if not isinstance(welcome, Welcome):
            raise ProtocolError("the server must welcome a party or refuse it, got another answer")
        if self._keeper is not None:
            settle(self._keeper.ledger, self._name, {k: v for k, v in welcome.settled.items() if k in pending})
        if self._alignment != "none" and len(self._agreement.schema.names) > 1:
            self._alignment_id = welcome.alignment

    def _converse(self) -> Release:
        while True:
            reply = self._ask(Pull(self._instance, self._taken))
            if not isinstance(reply, Mail) or reply.number != self._taken + 1:
                raise ProtocolError(f"the server must send item {self._taken + 1} next, got another")
            self._taken += 1
            self._count(len(reply.item))
            self._work(decode_item(reply.item))
            party = self.party
            if party is not None and party.state is State.RELEASED:
                assert party.release is not None
                self._ask_quietly(Pull(self._instance, self._taken))
                return party.release

    def _work(self, item: Item) -> None:
        match item:
            case Turn():
                aligner = self._aligning()
                for parcel in aligner.send(item.round):
                    self._push(Ring(item.round, parcel.recipient, parcel.payload))
                self._push(Turn(item.round))
            case Ring():
                self._aligning().receive(item.round, item.peer, item.payload)
            case Start():
                self._join(item.identity)
            case Envelope():
                self._converse_as_party(item)

    def _aligning(self) -> AlignmentParty:
        table, names = self._table, self._agreement.schema.names
        if self._aligner is None:
            assert table is not None
            if table.ids is None:
                raise ProtocolError(f"party {self._name} has no ids to align by, and the server asks for an alignment")
            self._show("align", 0.0)
            self._aligner = AlignmentParty(
                self._alignment_id,
                names,
                names.index(self._name),
                table.ids,
                # The same labels as in one process, so that a seeded run draws the same.
                self._randomness.child("alignment").child(f"alignment {self._name}"),
                self._executor,
                lambda done, total: self._show("align", done / max(1, total)),
            )
        return self._aligner

    def _join(self, identity: bytes) -> None:
        table = self._table
        assert table is not None
        if self._alignment != "none" and len(self._agreement.schema.names) > 1:
            table = table.take(self._aligning().rows())
        self._show("plan", 0.0)
        self.party = Party(
            self._name,
            self._agreement.schema.parties[self._name],
            table.rows,
            table.encode,
            self._randomness.child(f"party {self._name}"),
            consent=self._consent,
            book=self._book,
        )
        self._push(self.party.join(identity))

    def _converse_as_party(self, envelope: Envelope) -> None:
        party = self.party
        if party is None:
            raise ProtocolError(f"party {self._name} has not joined and expects no {envelope.step.value} message")
        self._show(STEPS.get(envelope.step, self._step), self._progress())
        if envelope.step is Step.PLAN:
            self._announced = envelope.plan
        for answer in party.receive(envelope):
            if answer.step is Step.SUBMIT:
                self._show("submit", 0.5)
            self._push(answer)

    def _consent(self, session: Session) -> None:
        """The plan must be of the study that this party holds, and the one that was announced; then the keeper."""
        mine, theirs = self._agreement.to(), session.agreement.to()
        for key, value in mine.items():
            if theirs[key] != value:
                raise PolicyError(f"the plan's {key} is not what this party agreed to: it is {theirs[key]!r}")
        if session.digest != self._announced:
            raise PolicyError(
                f"the server announces plan {self._announced[:16]} and sends the terms of plan {session.digest[:16]}"
            )
        if self._keeper is not None:
            self._keeper.consent(session)
        if self._further is not None:
            self._further(session)
        spec, word = session.spec, max(1, session.spec.modulus_bits // 8)
        me = session.parties.index(self._name)
        self._moved = 0
        self._expected = sum(c.shape[0] for c in spec.crosses if me in (c.left, c.right)) * session.rows * word

    def _book(self, session: Session) -> None:
        if self._keeper is not None:
            self._keeper.book(session)

    # How it ends.

    def _ended(self, over: Over) -> ColonnadeError:
        """The server's word decides what is spent."""
        own = "" if self.party is None else self.party.reason
        if not over.opened and self._keeper is not None:
            self._keeper.void(own or ending(over))
        if own and over.party == self._name:
            return PolicyError(f"{self._name} refuses: {own}; nothing is spent")
        return ProtocolError(ending(over))

    def _alone(self, why: str) -> ColonnadeError:
        handed_in = self.party is not None and self.party.handed_in
        if not handed_in and self._keeper is not None:
            self._keeper.void("the server was lost before a submission left")
        spent = (
            "the spend stays booked until the server says whether the session was opened"
            if handed_in
            else "nothing had been submitted, so that nothing is spent"
        )
        return ProtocolError(f"the server was not heard for {self._patience.silence:g} s at step {self._step}; {spent}")

    def _leave(self, error: BaseException) -> None:
        """Tell the server a code; what happened stays here."""
        code = code_of(error)
        self._ask_quietly(Leave(self._instance, code, self._step))
        if self._keeper is not None and not (self.party is not None and self.party.handed_in):
            self._keeper.void(str(error) if isinstance(error, ColonnadeError) else type(error).__name__)

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
                    raise PolicyError(f"party {self._name} is not let in: {ENTRY_MEANING[reply.why]}; nothing is spent")
                case Over():
                    raise _Told(reply)
                case _:
                    return reply

    def _ask_quietly(self, request: Request) -> None:
        with suppress(Unreachable):
            self._call(encode(request))

    def _beat(self) -> None:
        while not self._quiet.wait(self._patience.beat):
            self._ask_quietly(Beat(self._instance, self._step, self._share))

    def _count(self, size: int) -> None:
        self._moved += size
        if self._step == "products":
            self._show("products", self._progress())

    def _progress(self) -> float:
        return min(1.0, self._moved / self._expected) if self._expected else 0.0

    def _show(self, step: str, share: float) -> None:
        self._step, self._share = step, share
        if self._watch is not None:
            self._watch(step, share)


def decline(call: Call, error: BaseException) -> None:
    """Tell the server, by a code, that this party cannot even begin."""
    with suppress(Unreachable):
        call(encode(Leave(Randomness().bytes(INSTANCE_BYTES), code_of(error), "wait")))


def unsettled(ledger: Ledger, party: str, study: str) -> list[str]:
    """Sessions of a party in a study that were booked and neither released nor void; other studies are not told of."""
    own = [e for e in ledger.entries() if (e.booking.party, e.booking.study) == (party, study)]
    last = {e.booking.session: e.kind for e in own}
    return [session for session, kind in last.items() if kind is Kind.BOOKED]


def settle(ledger: Ledger, party: str, outcomes: dict[str, str]) -> None:
    """Write into the ledger what the server knows of sessions that this party's process did not see end."""
    for session, outcome in outcomes.items():
        if outcome == "void":
            ledger.settle(session, party, Kind.VOID, "the server says that not all parties had submitted")
        elif outcome == "opened":
            ledger.settle(session, party, Kind.RELEASED, "the server says that all parties had submitted")
