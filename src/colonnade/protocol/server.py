"""The server's role in any session: it relays, adds up and opens all at once, or nothing. No I/O.

Its states are those of `conversation.SERVER`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import msgspec

from colonnade.crypto.alignment.frames import SESSION_BYTES
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER, Exchange
from colonnade.foundation.errors import (
    AlignmentError,
    BrokenError,
    ColonnadeError,
    ProtocolError,
    SignatureError,
    SiteError,
    StudyError,
)
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import column_to
from colonnade.protocol.codes import Code, code_of, sentence_of
from colonnade.protocol.coins import BIND, COMMIT, REVEAL, Coins, hashed
from colonnade.protocol.conversation import SERVER as TABLE
from colonnade.protocol.conversation import Event, ServerState
from colonnade.protocol.messages import (
    DIGESTS,
    IDENTITY_BYTES,
    JOINING,
    SERVER_EVENTS,
    SUBMIT,
    VERSION,
    Accept,
    Assembly,
    Done,
    End,
    Envelope,
    Go,
    Halt,
    Handed,
    Hello,
    Join,
    ParcelBody,
    Piece,
    Proposal,
    Refuse,
    Resumable,
    Signature,
    Step,
    Welcome,
    Withdraw,
    body_of,
    encode_body,
    in_pieces,
    room_for,
    versions,
    versions_in,
)
from colonnade.protocol.signatures import SUBMISSION
from colonnade.protocol.tasks import Journal, JournalEvent, NullJournal, ServerTask, Watch, unseen


class RoundLog:
    """A running hash per sender: the digest does not depend on how senders interleave."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._heard = {name: hashlib.sha256() for name in parties}

    def add(self, envelope: Envelope) -> None:
        note = self._heard[envelope.sender]
        note.update(f"{envelope.step.value}>{envelope.recipient}:{len(envelope.body)}:".encode())
        note.update(envelope.body)

    def digest(self) -> str:
        transcript = hashlib.sha256()
        for name in sorted(self._heard):
            transcript.update(name.encode() + b"\0" + self._heard[name].digest())
        return transcript.hexdigest()


PHASES = {"wait", "read", "align", "plan", "products", "submit", "open"}
"""What a party that refuses may say of where it was."""
_PHASES = {
    ServerState.GATHERING: "wait",
    ServerState.ALIGNING: "align",
    ServerState.JOINING: "plan",
    ServerState.ASKING: "plan",
    ServerState.SUBMITTING: "submit",
    ServerState.OPENED: "open",
    ServerState.CLOSED: "open",
}
_AGREED = (ServerState.RUNNING, ServerState.SUBMITTING, ServerState.HALTING)
"""Messages are about what all have agreed to."""
SESSION_STEPS = (Step.JOIN, Step.ACCEPT, Step.PARCEL, Step.DONE, Step.SUBMIT)
"""What a release's transcript digest covers, once parties join."""


@dataclass
class Peer:
    """A party as the server knows it."""

    entered: bool = False
    join: Join | None = None
    assembly: Assembly | None = None


class ServerRole:
    """The honest-but-curious middle of one session; what the session is for is its task's matter."""

    def __init__(
        self,
        task: ServerTask,
        randomness: Randomness,
        journal: Journal | None = None,
        watch: Watch = unseen,
        accountable: bool = False,
    ) -> None:
        self.task, self.accountable, self.state = task, accountable, ServerState.GATHERING
        self.phase = "wait"
        self.end: End | None = None
        """How the session ended, once it has."""
        self.error: ColonnadeError | None = None
        """What the server itself found wrong, for its own people."""
        self.aside = ""
        """What else the server's own people should know of how it ended."""
        self.counts = False
        """Whether all have handed in, so that the session counts as opened whatever happens from now on."""
        self._randomness, self._journal, self._watch = randomness, journal or NullJournal(), watch
        self._peers = {name: Peer() for name in task.declared}
        self._waiting = set(self._peers)
        self._digest = ""
        self._rounds: list[str] = []
        self._aligner: AlignmentServer | None = None
        self._coins: Coins | None = None
        self._transcript = RoundLog(self.parties)
        self._unconfirmed: dict[str, Code] = {}
        self._signed: dict[str, dict[str, bytes]] = {}  # What each party signed, to each other one, of its submission.
        self._withdrawn: dict[str, dict[str, bytes]] = {}
        self._pending: dict[str, list[str]] = {}  # Sessions whose end those parties ask for that wait at the door.
        self._offers: dict[str, set[Resumable]] = {}
        self._heard = 0
        self._welcomed = b""  # The id that parties knew before they had exchanged coins.

    @cached_property
    def identity(self) -> bytes:
        """The session's id, which is public; where parties exchange coins, another one comes from these."""
        return self._randomness.child(self.task.label).bytes(IDENTITY_BYTES)

    @cached_property
    def alignment_id(self) -> bytes:
        return self._randomness.child("alignment").bytes(SESSION_BYTES)

    @property
    def seeded(self) -> bool:
        """Whether whoever knows a seed could draw the same: a simulation."""
        return self._randomness.seeded

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self._peers)

    @property
    def over(self) -> bool:
        return self.state in (ServerState.CLOSED, ServerState.FAILED)

    @property
    def failed(self) -> bool:
        return self.state is ServerState.FAILED

    @property
    def halting(self) -> bool:
        """Whether parties are asked to withdraw, before the last word is said."""
        return self.state is ServerState.HALTING

    @property
    def opened(self) -> bool:
        """Whether parties are being sent what was opened, or were."""
        return self.state in (ServerState.OPENED, ServerState.CLOSED)

    @property
    def awaited(self) -> list[str]:
        """Parties that have not entered yet."""
        return [name for name, peer in self._peers.items() if not peer.entered]

    @property
    def gathering(self) -> bool:
        """Whether not all are ready yet."""
        return self.state is ServerState.GATHERING

    # What carriers tell.

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer or relay one message. What it raises goes to `fault`."""
        event = self._admit(envelope)
        party = envelope.sender
        self._note(envelope)
        self._show()
        match event:
            case Event.HELLO:
                yield from self._enter(party, body_of(envelope, Hello), versions_in(envelope))
            case Event.READY:
                if self._arrived(party, "that it is ready"):
                    yield from self._align()
            case Event.PARCEL:
                yield from self._relay(envelope)
            case Event.SIGNATURE:
                yield from self._relay(envelope)
                yield from self._heed(envelope)
            case Event.DONE:
                yield from self._finish_round(party, body_of(envelope, Done).round)
            case Event.JOIN:
                yield from self._join(party, envelope)
            case Event.ACCEPT:
                yield from self._accept(party, body_of(envelope, Accept))
            case Event.SUBMIT:
                yield from self._collect(party, body_of(envelope, Piece))
            case Event.WITHDRAW:
                self._withdrawn[party] = dict(body_of(envelope, Withdraw).withdrawn)
                yield from self._answered(party)
            case Event.CONFIRM:
                if self._arrived(party, "that it has what was opened"):
                    yield from self._close()
            case Event.REFUSE:
                refuse = body_of(envelope, Refuse)
                self._withdrawn[party] = dict(refuse.withdrawn)
                yield from self._leave(party, Event.REFUSE, refuse.code, refuse.phase)

    def fault(self, sender: str, error: BaseException) -> Iterator[Envelope]:
        """A party's message could not be worked on, or the server's own machine or program failed."""
        if isinstance(error, ColonnadeError):
            self.error = error
        if isinstance(error, (SiteError, BrokenError)) or not isinstance(error, ColonnadeError):
            # No party is named for what is the server's own.
            sender, code = "", code_of(error)
        else:
            code = Code.PROTOCOL
        if self.state is ServerState.OPENED and sender in self._peers:
            yield from self._leave(sender, Event.REFUSE, code)
        elif not self.over:
            yield from self._fail(Event.ERROR, code, sender)

    def lost(self, party: str, code: Code = Code.LOST) -> Iterator[Envelope]:
        """A party is not heard any more, or has never come."""
        yield from self._leave(party, Event.LOST, code)

    def stop(self) -> Iterator[Envelope]:
        """Somebody wants the session ended."""
        if self.over:
            self._advance(Event.STOP)
        elif self.state is ServerState.OPENED:
            self._advance(Event.STOP)
            self._unconfirmed = {**dict.fromkeys(self._waiting, Code.STOPPED), **self._unconfirmed}
            yield from self._confirmed()
        else:
            yield from self._fail(Event.STOP, Code.STOPPED)

    def farewell(self, party: str) -> Envelope:
        """The last word, for a party that comes when all is over."""
        assert self.end is not None
        proofs = [(name, theirs[party]) for name, theirs in self._withdrawn.items() if party in theirs]
        body = encode_body(msgspec.structs.replace(self.end, withdrawn=tuple(proofs)))
        return Envelope(self.identity, self._digest or versions(), SERVER, party, Step.END, body)

    # The way in.

    def _enter(self, party: str, hello: Hello, theirs: str) -> Iterator[Envelope]:
        peer = self._peers[party]
        if peer.entered:
            raise ProtocolError(f"the server has heard hello from {party} already")
        peer.entered = True
        for differs, code in (
            (hello.version != VERSION, Code.VERSION),
            (hello.terms != self.task.terms or hello.accountable != self.accountable, Code.TERMS),
            (hello.seeded != self._randomness.seeded, Code.SEED),
        ):
            if differs:
                if code is Code.VERSION:
                    self.aside = f"{party} is {theirs}, the server {versions()}"
                yield from self._fail(Event.ERROR, code, party)
                return
        self._pending[party], self._offers[party] = hello.pending, set(hello.kept)
        common = set.intersection(*self._offers.values())
        if common and self.awaited:
            # If all can go on with a session that broke, nobody begins another.
            return
        for offer in sorted(common, key=lambda offer: offer.session):
            if self._resumable(offer):
                yield from self._resume(offer)
                return
        for name, pending in self._pending.items():
            # Other sessions of this server are over: it runs one at a time.
            outcomes = self._journal.outcomes(pending) if self.task.kind.spends else {}
            welcome = Welcome(self.identity, self.alignment_id, outcomes)
            yield self._make(name, Step.WELCOME, encode_body(welcome))
        self._pending.clear()

    def _resumable(self, offer: Resumable) -> bool:
        """Whether this server began the session, has not opened it, and plans it as it was."""
        session = offer.session.hex()
        if not self.accountable or self._journal.outcomes([session]) != {session: "void"}:
            return False
        if len(offer.session) != IDENTITY_BYTES or len(offer.digests) != len(self._peers):
            return False
        with suppress(ColonnadeError):
            return self.task.propose(offer.session, offer.rows)[1] == offer.plan
        return False

    def _resume(self, offer: Resumable) -> Iterator[Envelope]:
        """All hand in again what they had signed, and nothing before it is repeated."""
        self._advance(Event.LAST_HELLO)
        self.identity, self._digest = offer.session, offer.plan
        self.task.begin_product()
        self._signed = {name: {SERVER: digest} for name, digest in zip(self.parties, offer.digests, strict=True)}
        self._waiting = set(self._peers)
        self._show()
        yield from self._to_all(Step.RESUME, encode_body(offer))

    def _align(self) -> Iterator[Envelope]:
        self._advance(Event.LAST_READY)
        if self.accountable:
            self._coins, self._rounds = Coins(self.identity, self.parties), [COMMIT, REVEAL]
        if self.task.aligned:
            self._aligner = AlignmentServer(self.alignment_id, self.parties)
            self._rounds += self._aligner.rounds
        yield from self._next_round()

    def _begin(self) -> Iterator[Envelope]:
        self._advance(Event.MATCHED)
        self._aligner = None
        if self.task.kind.spends:
            self._journal.note(self.identity.hex(), JournalEvent.STARTED)
        yield from self._to_all(Step.GO, encode_body(Go(JOINING)))

    # Rounds of the alignment, then of the product.

    def _open_round(self) -> Iterator[Envelope]:
        self._show()
        yield from self._to_all(Step.GO, encode_body(Go(self._rounds[0])))

    def _exchange(self, round: str) -> Exchange:
        if self._coins is not None and round in (COMMIT, REVEAL, BIND):
            return self._coins
        return self._aligner or self.task

    def _relay(self, envelope: Envelope) -> Iterator[Envelope]:
        if envelope.recipient in self._peers:
            yield envelope
        elif envelope.recipient == SERVER and envelope.step is Step.PARCEL:
            parcel = body_of(envelope, ParcelBody)
            self._check_round(envelope.sender, parcel.round)
            self._exchange(parcel.round).receive(parcel.round, envelope.sender, parcel.payload)
        else:
            raise ProtocolError(
                f"party {envelope.sender} sends a {envelope.step.value} to {envelope.recipient!r}, whom nobody knows"
            )

    def _check_round(self, party: str, round: str) -> None:
        if not self._rounds or round != self._rounds[0]:
            current = self._rounds[0] if self._rounds else SUBMIT
            raise ProtocolError(f"the server is in round {current}, {party} sends round {round}")

    def _heed(self, envelope: Envelope) -> Iterator[Envelope]:
        """Whoever signs what it will hand in signs the same to all; what it hands in is compared with it."""
        if not self._rounds or self._rounds[0] != DIGESTS:
            return
        signature, sender = body_of(envelope, Signature), envelope.sender
        if signature.about != SUBMISSION:
            return
        signed = self._signed.setdefault(sender, {})
        signed[envelope.recipient] = signature.value
        if len(set(signed.values())) > 1:
            yield from self._blame(sender, f"party {sender} signs different digests of one submission")
        elif silent := self._silent(set(self._peers) - self._waiting):
            yield from self._blame(silent, f"party {silent} has not signed to all what it hands in")

    def _silent(self, done: set[str]) -> str:
        """One of these that has not signed to all others what it will hand in, where anybody signs."""
        needed = len(self._peers) - 1 if self._signed else 0
        return next((name for name in self.parties if name in done and len(self._signed.get(name, ())) < needed), "")

    def _blame(self, party: str, sentence: str) -> Iterator[Envelope]:
        self.error = SignatureError(sentence)
        yield from self._fail(Event.ERROR, Code.SIGNATURE, party)

    def _finish_round(self, party: str, round: str) -> Iterator[Envelope]:
        if self.state is ServerState.HALTING:
            return
        if self.state is ServerState.SUBMITTING and round == SUBMIT:
            yield from self._hand_in(party, None)
            return
        self._check_round(party, round)
        if round == DIGESTS and (silent := self._silent({party})):
            yield from self._blame(silent, f"party {silent} has not signed to all what it hands in")
            return
        if self._coins is not None and round in (COMMIT, REVEAL):
            self._coins.require_from(round, party)
        if not self._arrived(party, f"the end of round {round}"):
            return
        self._advance(Event.LAST_DONE)
        try:
            for parcel in self._exchange(round).send(round):
                yield self._make(parcel.recipient, Step.PARCEL, encode_body(ParcelBody(round, parcel.payload)))
        except AlignmentError as error:
            self.error = error
            yield from self._fail(Event.ERROR, Code.NO_MATCH)
            return
        if round == REVEAL and self._coins is not None:
            self._welcomed, self.identity = self.identity, self._coins.session
        self._rounds.pop(0)
        yield from self._next_round()

    def _next_round(self) -> Iterator[Envelope]:
        if self._rounds:
            yield from self._open_round()
        elif self.state is ServerState.ALIGNING:
            yield from self._begin()
        else:
            self._advance(Event.LAST_ROUND)
            self._show()
            yield from self._to_all(Step.GO, encode_body(Go(SUBMIT)))

    # The session proper.

    def _join(self, party: str, envelope: Envelope) -> Iterator[Envelope]:
        declared = {name: column_to(column) for name, column in self.task.declared[party].items()}
        join = body_of(envelope, Join, room_for(declared))
        # The order of columns is that of sums in a release.
        if list(join.columns.items()) != list(declared.items()):
            raise ProtocolError(f"party {party} declares other columns than the {self.task.kind.declared} has")
        last = self._arrived(party, "join")
        self._peers[party].join = join
        if not last:
            return
        self._advance(Event.LAST_JOIN)
        joined = [self._joined(name) for name in self.parties]
        rows = {name: own.rows for name, own in zip(self.parties, joined, strict=True)}
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{name} {n}" for name, n in rows.items())
            without = "" if self.task.aligned else "without alignment "
            self.error = StudyError(f"{without}all parties must hold the same number of records, got {told}")
            yield from self._fail(Event.ERROR, Code.ROWS)
            return
        try:
            terms, self._digest = self.task.propose(self.identity, join.rows)
        except ColonnadeError as error:
            self.error = error
            yield from self._fail(Event.ERROR, Code.PLAN)
            return
        proposal = Proposal(terms, join.rows, [own.mask_key for own in joined])
        yield from self._to_all(Step.PROPOSAL, encode_body(proposal))

    def _joined(self, party: str) -> Join:
        join = self._peers[party].join
        assert join is not None
        return join

    def _accept(self, party: str, accept: Accept) -> Iterator[Envelope]:
        agreed = self.task.kind.agreed
        if accept.digest != self._digest:
            self.error = ProtocolError(
                f"party {party} computed another {agreed}: {accept.digest[:16]}, not {self._digest[:16]}"
            )
            yield from self._fail(Event.ERROR, Code.PLAN, party)
            return
        if self._arrived(party, "accept"):
            self._advance(Event.LAST_ACCEPT)
            self.task.begin_product()
            self._rounds = [BIND, *self.task.rounds, DIGESTS] if self.accountable else [*self.task.rounds]
            self._heard = 0
            yield from self._next_round()

    def _collect(self, party: str, piece: Piece) -> Iterator[Envelope]:
        if self.state is ServerState.HALTING:
            return
        if party not in self._waiting or not self.task.hands_in(party):
            raise ProtocolError(f"the server has the submission of {party} already, or expects none")
        peer = self._peers[party]
        peer.assembly = peer.assembly or Assembly(self.task.largest_submission)
        whole = peer.assembly.add(piece)
        if whole is not None:
            peer.assembly = None
            yield from self._hand_in(party, whole)

    def _hand_in(self, party: str, whole: bytes | None) -> Iterator[Envelope]:
        if whole is None and self.task.hands_in(party):
            raise ProtocolError(f"party {party} must hand in a submission, and says that it is done")
        if whole is not None and self._signed and hashed(SUBMISSION, *in_pieces(whole)) not in self._signed_by(party):
            yield from self._blame(party, f"party {party} hands in another submission than it has signed")
            return
        spends = self.task.kind.spends
        if spends and self._waiting == {party}:
            # On disk before the last submission is looked at: from here on the session counts.
            self._journal.note(self.identity.hex(), JournalEvent.SUBMITTED)
            self.counts = True
        if whole is not None:
            self.task.collect(party, whole)
        if not self._arrived(party, "the submission"):
            return
        self.task.open(self._transcript.digest(), self._randomness.seeded)
        self._advance(Event.LAST_SUBMIT)
        self.counts = True
        self._show()
        if spends:
            # For people who read it: what parties are told was decided above, and is paid for.
            with suppress(OSError):
                self._journal.note(self.identity.hex(), JournalEvent.OPENED)
        for name in self.parties:
            # Where submissions were signed, each party adds them up for itself.
            for owner, piece in self.task.handed() if self._signed else ():
                if not self.over:
                    yield self._make(name, Step.HANDED, encode_body(Handed(owner, piece)))
            for body in self.task.bodies(name):
                if not self.over:
                    yield self._make(name, Step.OPENED, body)
        self.task.forget()

    def _signed_by(self, party: str) -> Collection[bytes]:
        return self._signed.get(party, {}).values()

    # How it ends.

    def _leave(self, party: str, event: Event, code: Code, phase: str = "") -> Iterator[Envelope]:
        """A party is gone: before the opening the session ends, after it one confirmation is lacking."""
        if self.over:
            return
        if self.state is ServerState.HALTING:
            self._advance(event)
            yield from self._answered(party)
            return
        if self.state is not ServerState.OPENED:
            yield from self._fail(event, code, party, phase if phase in PHASES else "")
            return
        self._advance(event)
        if party in self._waiting:
            self._unconfirmed[party] = code
            if self._arrived(party, "its end"):
                yield from self._close()

    def _close(self) -> Iterator[Envelope]:
        self._advance(Event.LAST_CONFIRM)
        yield from self._confirmed()

    def _confirmed(self) -> Iterator[Envelope]:
        """A session that was opened ended well, unless somebody on whom it hinges did not confirm."""
        lacking = [name for name in self._unconfirmed if self.task.hinges_on(name)]
        code, party = (self._unconfirmed[lacking[0]], lacking[0]) if lacking else (None, "")
        self.end = End(code, party, self.phase, self.counts)
        yield from self._bid_farewell()

    def _fail(self, event: Event, code: Code, party: str = "", phase: str = "") -> Iterator[Envelope]:
        """Nothing was opened, or nothing will be handed out: it ends for everybody. The code is sent, no sentence."""
        self.end = self.end or End(code, party, phase or self.phase, self.counts)
        self.task.forget()
        if self.accountable and self.task.kind.spends and self.state is ServerState.SUBMITTING and not self.counts:
            # Some may have handed in: the others are asked to sign that they will not.
            self._advance(Event.HALT)
            self._waiting = set(self._peers)
            for name in self.parties:
                if name != party and not self.over:
                    yield self.halt(name)
            yield from self._answered(party)
            return
        self._advance(event)
        yield from self._bid_farewell()

    def halt(self, party: str) -> Envelope:
        """What a party is asked before the last word, where that is not said yet."""
        return self._make(party, Step.HALT, encode_body(Halt()))

    def _answered(self, party: str) -> Iterator[Envelope]:
        """A party has said whether it withdraws, or is gone; with the last of them the session ends."""
        self._waiting.discard(party)
        if self.state is ServerState.HALTING and not self._waiting:
            self._advance(Event.LAST_WITHDRAW)
            yield from self._bid_farewell()

    def _bid_farewell(self) -> Iterator[Envelope]:
        assert self.end is not None
        for name, peer in self._peers.items():
            if peer.entered or name == self.end.party:
                yield self.farewell(name)

    @property
    def sentence(self) -> str:
        """Why it ended, for the server's own people."""
        if self.error is not None:
            return str(self.error)
        return "" if self.end is None or self.end.code is None else sentence_of(self.end.code, self.end.party)

    # Small things.

    def _admit(self, envelope: Envelope) -> Event:
        """Refuse a message of another session or plan, of a stranger, or out of turn."""
        party, step, state = envelope.sender, envelope.step, self.state.value
        if party not in self._peers:
            raise ProtocolError(f"the server knows no party {party!r}")
        before = self.state is ServerState.GATHERING and not envelope.session
        early = (before and step in (Step.HELLO, Step.REFUSE)) or (
            step is Step.REFUSE and envelope.session == self._welcomed
        )
        if envelope.session != self.identity and not early:
            raise ProtocolError(f"the server ({state}) got a message of another session")
        event = SERVER_EVENTS.get(step)
        if event is None or (self.state, event) not in TABLE:
            raise ProtocolError(f"the server is {state} and expects no {step.value} message from {party}")
        if self.state in _AGREED and step is not Step.REFUSE and envelope.plan != self._digest:
            raise ProtocolError(f"the server ({state}) got a message of another {self.task.kind.agreed} from {party}")
        return event

    def _arrived(self, party: str, what: str) -> bool:
        """Whether this was the last party to be heard; each is heard once."""
        if party not in self._waiting:
            raise ProtocolError(f"the server has heard {what} from {party} already")
        self._waiting.discard(party)
        if self._waiting:
            return False
        self._waiting = set(self._peers)
        return True

    def _advance(self, event: Event) -> None:
        try:
            self.state = TABLE[self.state, event]
        except KeyError:
            raise BrokenError(f"the server is {self.state.value}, and {event.value} has no place") from None

    def _note(self, envelope: Envelope) -> None:
        self._heard += len(envelope.body)
        if envelope.step in SESSION_STEPS and self.state is not ServerState.ALIGNING:
            self._transcript.add(envelope)

    def _show(self) -> None:
        if self.state is ServerState.RUNNING:
            self.phase = "submit" if self._rounds and self._rounds[0] == DIGESTS else "products"
        else:
            self.phase = _PHASES.get(self.state, self.phase)
        self._watch(self.phase, self.share)

    @property
    def share(self) -> float:
        """How much of the current phase is done."""
        if self.state is ServerState.GATHERING:
            return 1.0 - len(self._waiting) / len(self._peers)
        expected = self.task.expected_bytes if self.state in _AGREED else 0.0
        return min(1.0, self._heard / expected) if expected else float(self.opened)

    def _to_all(self, step: Step, body: bytes) -> Iterator[Envelope]:
        for name in self.parties:
            # An answer to the first of these messages may have ended the session.
            if not self.over:
                yield self._make(name, step, body)

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        return Envelope(self.identity, self._digest, SERVER, recipient, step, body)
