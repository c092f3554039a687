"""The server's role in any session: it relays, adds up and opens all at once, or nothing. No I/O.

Its states are those of `conversation.SERVER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import msgspec

from colonnade.crypto.alignment.frames import SESSION_BYTES
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.exchange import Exchange
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import AlignmentError, ColonnadeError, ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import column_to
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.coins import BIND, COMMIT, REVEAL, CoinsServer
from colonnade.protocol.conversation import SERVER as TABLE
from colonnade.protocol.conversation import Event, ServerState
from colonnade.protocol.events import SERVER_EVENTS
from colonnade.protocol.heard import Heard
from colonnade.protocol.journal import Journal, JournalEvent, Unwritten
from colonnade.protocol.kinds import ServerTask, matches_ids
from colonnade.protocol.messages import (
    IDENTITY_BYTES,
    JOINING,
    SUBMIT,
    VERSION,
    Accept,
    Assembly,
    Done,
    End,
    Envelope,
    Go,
    Hello,
    Join,
    ParcelBody,
    Piece,
    Proposal,
    Refuse,
    Step,
    Welcome,
    body_of,
    encode_body,
    room_for,
    versions,
    versions_in,
)

Watch = Callable[[str, float], None]
PHASES = {"wait", "read", "align", "plan", "products", "submit", "open"}
"""What a party that refuses may say of where it was."""
_PHASES = {
    ServerState.GATHERING: "wait",
    ServerState.ALIGNING: "align",
    ServerState.JOINING: "plan",
    ServerState.ASKING: "plan",
    ServerState.OPENED: "open",
    ServerState.CLOSED: "open",
}
SESSION_STEPS = (Step.JOIN, Step.ACCEPT, Step.PARCEL, Step.DONE, Step.SUBMIT)
"""What a release's transcript digest covers, once parties join."""


def _unseen(phase: str, share: float) -> None:
    """Nobody watches."""


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
        watch: Watch = _unseen,
        accountable: bool = False,
    ) -> None:
        self.task, self.accountable, self.state = task, accountable, ServerState.GATHERING
        self.phase = "wait"
        self.end: End | None = None
        """How the session ended, once it has."""
        self.error: ColonnadeError | None = None
        self.aside = ""
        """What else the server's own people should know of how it ended."""
        """What the server itself found wrong, for its own people."""
        self.counts = False
        """Whether all have handed in, so that the session counts as opened whatever happens from now on."""
        self._randomness, self._journal, self._watch = randomness, journal or Unwritten(), watch
        self._peers = {name: Peer() for name in task.declared}
        self._waiting = set(self._peers)
        self._digest = ""
        self._rounds: list[str] = []
        self._aligner: AlignmentServer | None = None
        self._transcript = Heard(self.parties)
        self._unconfirmed: dict[str, Code] = {}
        self._withdrawn: dict[str, dict[str, bytes]] = {}
        self._heard = 0

    @cached_property
    def identity(self) -> bytes:
        """The session's id, which is public."""
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
            case Event.PARCEL | Event.SIGNATURE:
                yield from self._relay(envelope)
            case Event.DONE:
                yield from self._finish_round(party, body_of(envelope, Done).round)
            case Event.JOIN:
                yield from self._join(party, envelope)
            case Event.ACCEPT:
                yield from self._accept(party, body_of(envelope, Accept))
            case Event.SUBMIT:
                yield from self._collect(party, body_of(envelope, Piece))
            case Event.CONFIRM:
                if self._arrived(party, "that it has what was opened"):
                    yield from self._close()
            case Event.REFUSE:
                refuse = body_of(envelope, Refuse)
                self._withdrawn[party] = dict(refuse.withdrawn)
                yield from self._leave(party, Event.REFUSE, refuse.code, refuse.phase)

    def fault(self, sender: str, error: BaseException) -> Iterator[Envelope]:
        """A party's message could not be worked on."""
        if isinstance(error, ColonnadeError):
            self.error = error
        code = Code.PROTOCOL if isinstance(error, ColonnadeError) else Code.INTERNAL
        if self.state is ServerState.OPENED and sender in self._peers:
            yield from self._leave(sender, Event.REFUSE, code)
        elif not self.over:
            yield from self._fail(Event.ERROR, code, sender if isinstance(error, ColonnadeError) else "")

    def lost(self, party: str, code: Code = Code.LOST) -> Iterator[Envelope]:
        """A party is not heard any more, or has never come."""
        yield from self._leave(party, Event.LOST, code)

    def stop(self, code: Code = Code.STOPPED) -> Iterator[Envelope]:
        """Somebody wants the session ended."""
        if self.over:
            self._advance(Event.STOP)
        elif self.state is ServerState.OPENED:
            self._advance(Event.STOP)
            self._unconfirmed = {**dict.fromkeys(self._waiting, code), **self._unconfirmed}
            yield from self._say_end(*self._verdict())
        else:
            yield from self._fail(Event.STOP, code)

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
        # Other sessions of this server are over: it runs one at a time.
        outcomes = self._journal.outcomes(hello.pending) if self.task.kind.spends else {}
        welcome = Welcome(self.identity, self.alignment_id, outcomes)
        yield self._make(party, Step.WELCOME, encode_body(welcome))

    def _align(self) -> Iterator[Envelope]:
        self._advance(Event.LAST_READY)
        self._rounds = [COMMIT, REVEAL] if self.accountable else []
        if matches_ids(self.task.alignment, self.parties):
            self._aligner = AlignmentServer(self.alignment_id, self.parties)
            self._rounds += self._aligner.rounds
        if self._rounds:
            yield from self._open_round()
        else:
            yield from self._begin()

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
        if self.accountable and round in (COMMIT, REVEAL, BIND):
            return CoinsServer(self.parties)
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
            current = self._rounds[0] if self._rounds else "none"
            raise ProtocolError(f"the server is in round {current}, {party} sends round {round}")

    def _finish_round(self, party: str, round: str) -> Iterator[Envelope]:
        self._check_round(party, round)
        if round == SUBMIT:
            yield from self._hand_in(party, None)
            return
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
        self._rounds.pop(0)
        if self._rounds:
            yield from self._open_round()
        else:
            yield from self._begin()

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
            without = "" if matches_ids(self.task.alignment, self.parties) else "without alignment "
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
            self._rounds = [*((BIND,) if self.accountable else ()), *self.task.rounds, SUBMIT]
            self._heard = 0
            yield from self._open_round()

    def _collect(self, party: str, piece: Piece) -> Iterator[Envelope]:
        self._check_round(party, SUBMIT)
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
        self._rounds.clear()
        self.counts = True
        self._show()
        if spends:
            # For people who read it: what parties are told was decided above, and is paid for.
            with suppress(OSError):
                self._journal.note(self.identity.hex(), JournalEvent.OPENED)
        for name in self.parties:
            for body in self.task.bodies(name):
                if not self.over:
                    yield self._make(name, Step.OPENED, body)

    # How it ends.

    def _leave(self, party: str, event: Event, code: Code, phase: str = "") -> Iterator[Envelope]:
        """A party is gone: before the opening the session ends, after it one confirmation is lacking."""
        if self.over:
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
        yield from self._say_end(*self._verdict())

    def _verdict(self) -> tuple[Code | None, str]:
        """How a session ended that was opened: well, unless somebody on whom it hinges did not confirm."""
        lacking = [(code, name) for name, code in self._unconfirmed.items() if self.task.hinges_on(name)]
        return lacking[0] if lacking else (None, "")

    def _fail(self, event: Event, code: Code, party: str = "", phase: str = "") -> Iterator[Envelope]:
        """Nothing was opened, or nothing will be handed out: it ends for everybody. The code is sent, no sentence."""
        self._advance(event)
        self.task.forget()
        yield from self._say_end(code, party, phase)

    def _say_end(self, code: Code | None, party: str = "", phase: str = "") -> Iterator[Envelope]:
        self.end = End(code, party, phase or self.phase, self.counts)
        for name, peer in self._peers.items():
            if peer.entered or name == party:
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
        if envelope.session != self.identity and not (before and step in (Step.HELLO, Step.REFUSE)):
            raise ProtocolError(f"the server ({state}) got a message of another session")
        event = SERVER_EVENTS.get(step)
        if event is None or (self.state, event) not in TABLE:
            raise ProtocolError(f"the server is {state} and expects no {step.value} message from {party}")
        if self.state is ServerState.RUNNING and step is not Step.REFUSE and envelope.plan != self._digest:
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
            raise ProtocolError(f"the server is {self.state.value}, and {event.value} has no place") from None

    def _note(self, envelope: Envelope) -> None:
        self._heard += len(envelope.body)
        if envelope.step in SESSION_STEPS and self.state is not ServerState.ALIGNING:
            self._transcript.add(envelope)

    def _show(self) -> None:
        if self.state is ServerState.RUNNING:
            self.phase = "submit" if self._rounds and self._rounds[0] == SUBMIT else "products"
        else:
            self.phase = _PHASES.get(self.state, self.phase)
        self._watch(self.phase, self.share)

    @property
    def share(self) -> float:
        """How much of the current phase is done."""
        if self.state is ServerState.GATHERING:
            return 1.0 - len(self._waiting) / len(self._peers)
        expected = self.task.expected_bytes if self.state is ServerState.RUNNING else 0.0
        return min(1.0, self._heard / expected) if expected else float(self.opened)

    def _to_all(self, step: Step, body: bytes) -> Iterator[Envelope]:
        for name in self.parties:
            # An answer to the first of these messages may have ended the session.
            if not self.over:
                yield self._make(name, step, body)

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        return Envelope(self.identity, self._digest, SERVER, recipient, step, body)
