"""Makes a party's messages of an accountable session again, from its secrets and its data, and judges it by them.

A replay is one more carrier: the party's role, with what it committed to, is fed with what came in. A statement that
the party signed, and that its replay contradicts, convicts it. Nothing else does: what a party noted itself is its own
word, and what a peer lacks, spoils or cannot prove is a doubt about the peer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from colonnade.audit.quoted import JUDGED, Contexts, Key, Quote, Statement, chain_of, contexts_in
from colonnade.foundation.errors import (
    ColonnadeError,
    LapsedError,
    MessageError,
    PolicyError,
    ProtocolError,
    SignatureError,
    SiteError,
    StudyError,
)
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.codes import Code
from colonnade.protocol.coins import Opening
from colonnade.protocol.conversation import PartyState
from colonnade.protocol.evidence import Kept, described
from colonnade.protocol.messages import VERSION, Envelope, Refuse, Resumable, Signature, Step, body_of, versions
from colonnade.protocol.party import PartyRole
from colonnade.protocol.signatures import COINS, PASSED
from colonnade.protocol.tasks import PartyTask
from colonnade.transport.evidence import FORMAT, KeptEvidence

TOLD = (ProtocolError, PolicyError, SiteError, StudyError, SignatureError)
"""Errors whose sentences a verdict may tell to all: they speak of messages and files, and never of values."""
Message = Mapping[str, Any]
Place = tuple[str, str, str]
"""Step, round and recipient of a message."""


class AuditOutcome(StrEnum):
    """What an audit comes to; the second alone convicts."""

    FOLLOWED = "followed"
    DEVIATED = "did not follow"
    NOT_SHOWN = "not shown"
    NOT_REPLAYED = "cannot be replayed"


class Checker(Protocol):
    """Knows whether a party signed a statement when the session was, and by what; raises SignatureError if not."""

    def check(self, peer: str, statement: bytes, proof: bytes) -> object: ...


class SessionAudit(msgspec.Struct, frozen=True):
    """What an audit of one party in one session found."""

    session: str
    party: str
    outcome: AuditOutcome
    sentence: str
    """Why, unless the party followed the protocol."""
    replayed: int
    """So many messages were made again, and are the same."""
    missing: int
    """So many were not."""
    left_out: tuple[str, ...]
    """What was not made again, and why."""
    compared: tuple[str, ...]
    """Peers that hold what the party signed: without any, only the party's own notes were looked at."""
    doubts: tuple[str, ...]
    """What peers show and did not count against the party, for it is not signed, or not of this session."""
    authority: str
    """Fingerprint of the authority by whose certificates signatures were checked; empty without any."""
    quotes: tuple[Quote, ...]
    """What the party signed and its replay contradicts."""
    ran: str
    """The software that the party committed to."""
    replayed_by: str

    @property
    def passed(self) -> bool:
        return self.outcome is AuditOutcome.FOLLOWED


@dataclass
class _Signer:
    """Shows the statement in place of a proof; peers' proofs are checked where there is somebody to check them."""

    checker: Checker | None

    def sign(self, statement: bytes) -> bytes:
        return statement

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        if self.checker is not None:
            self.checker.check(peer, statement, proof)


@dataclass
class Replayed:
    """What the replay says, in the place of evidence."""

    keep: Callable[[Envelope], None] = lambda envelope: None
    """Is handed each message as it is made."""
    sent: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    statements: dict[Key, Statement] = field(default_factory=dict)
    """In the order in which they are made."""
    rounds: dict[Key, str] = field(default_factory=dict)
    session: str = ""
    """The session's id by the coins that came, once they have."""
    over: bool = False
    """Whether the party has nothing more to say."""
    error: str = ""
    """Why the party could not go on, where it could not."""
    code: Code | None = None
    lacks: str = ""
    """What came and is not there to be heard again."""

    def begin(self, session: bytes, opening: Opening) -> None: ...
    def keep_received(self, envelope: Envelope, digest: bytes) -> None: ...
    def rename(self, session: bytes) -> None:
        self.session = session.hex()

    def keep_submission(self, kept: Kept | None) -> None: ...
    def drop_submission(self) -> None: ...
    def decide(self, choice: str) -> str:
        return choice

    def offers(self) -> list[Resumable]:
        return []

    def resume(self, session: bytes) -> Kept | None:
        return None

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        self.notes.append({"what": what, **facts})

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        told = described(envelope, digest)
        if envelope.step is Step.SIGNATURE:
            made = Statement.signed(body_of(envelope, Signature).proof)
            self.statements[made.key] = made
            if made.about == PASSED:
                parcels = (m for m in reversed(self.sent) if m["to"] == made.recipient and "round" in m)
                self.rounds[made.key] = next((str(m["round"]) for m in parcels), "")
        self.sent.append(told)
        self.keep(envelope)

    def went_past(self, held: Statement) -> bool:
        """Whether what the party had to say of this, it would have said before the replay ended."""
        contexts = list(dict.fromkeys(made.context for made in self.statements.values()))
        if self.over or held.context in contexts[:-1]:
            return True
        later = (m.number for m in self.statements.values() if m.key[:4] == held.key[:4])
        return held.about == PASSED and max(later, default=0) > held.number


def audit_session(
    kept: KeptEvidence,
    opening: Opening,
    task: PartyTask,
    against: Sequence[KeptEvidence] = (),
    *,
    checker: Checker | None = None,
    authority: str = "",
    came: Sequence[Envelope] = (),
) -> SessionAudit:
    """Replay `task`'s party, with the data that the task reads, and judge it by what it and its peers keep.

    `came` are messages that the party did not keep, made again by their senders.
    """
    told = foreign(kept, against, authority) or other_terms(kept, task, authority)
    return told or judge(kept, replay(kept, opening, task, came=came, checker=checker), against, checker, authority)


def undecided(kept: KeptEvidence, outcome: AuditOutcome, why: str, authority: str = "") -> SessionAudit:
    """A verdict without a replay."""
    sent, ran = len(kept.of("sent")), software_of(kept)
    party = str(kept.facts["party"])
    return SessionAudit(kept.session, party, outcome, why, 0, sent, (), (), (), authority, (), ran, versions())


def unproduced(kept: KeptEvidence, why: str, authority: str = "") -> SessionAudit:
    """A party that cannot show what it should have kept is not shown to have followed, whatever the reason is."""
    return undecided(kept, AuditOutcome.NOT_SHOWN, f"it cannot show what it committed to: {why}", authority)


def software_of(kept: KeptEvidence) -> str:
    return str(kept.facts.get("software", "colonnade 0.1.0 or unknown"))


def foreign(kept: KeptEvidence, against: Sequence[KeptEvidence], authority: str = "") -> SessionAudit | None:
    """Evidence of another version is for that version, unless peers of the session keep it as this one does."""
    if _kind_of(kept) == (FORMAT, VERSION):
        return None
    peers = [peer for peer in against if peer.session == kept.session]
    if any(_kind_of(peer) != _kind_of(kept) for peer in peers):
        return unproduced(kept, "its evidence names another version than its peers'", authority)
    why = f"its evidence is of {software_of(kept)}, and this is {versions()}: audit it with that version"
    return undecided(kept, AuditOutcome.NOT_REPLAYED, why, authority)


def _kind_of(kept: KeptEvidence) -> tuple[object, object]:
    return kept.facts.get("format"), kept.facts.get("protocol")


def other_terms(kept: KeptEvidence, task: PartyTask, authority: str = "") -> SessionAudit | None:
    """The files that are shown must state the terms of the session, for this party."""
    for name, stated in (("party", task.name), ("terms", task.terms)):
        if kept.facts.get(name) != stated:
            why = f"its files state another session: there the {name} is {stated[:16]}"
            return unproduced(kept, f"{why}, in its evidence {str(kept.facts.get(name))[:16]}", authority)
    return None


def replay(
    kept: KeptEvidence,
    opening: Opening,
    task: PartyTask,
    *,
    came: Sequence[Envelope] = (),
    checker: Checker | None = None,
    keep: Callable[[Envelope], None] = lambda envelope: None,
) -> Replayed:
    """All that the role says to what came in; it ends where the role does, or where a message is missing."""
    made = Replayed(keep)
    source = Randomness.derived(opening.seed, bool(kept.facts.get("simulated")))
    # Runs in one process sign nothing; across machines there is somebody to check by.
    signs = checker is not None or any(sent["step"] == Step.SIGNATURE.value for sent in kept.of("sent"))
    account = SessionAccount(made, opening, software_of(kept))
    role = PartyRole(task, source, _Signer(checker) if signs else None, account=account)
    try:
        list(role.start())
        for envelope in _incoming(kept, came, made):
            for _ in role.receive(envelope):
                pass
        made.over = role.state in (PartyState.RELEASED, PartyState.CLOSED)
    except Exception as error:
        # What the party keeps may be anything, and must not keep an auditor from saying so.
        made.error = str(error) if isinstance(error, TOLD) else f"{type(error).__name__} in the replay"
        with suppress(ColonnadeError):
            made.code = next((body_of(said, Refuse).code for said in role.fault(error)), None)
    return made


def _incoming(kept: KeptEvidence, came: Sequence[Envelope], made: Replayed) -> Iterator[Envelope]:
    """What came, in its order: as it was kept, or as its sender made it again."""
    again: dict[tuple[str, str], Envelope] = {}
    for envelope in came:
        # Whoever made it may have made anything of it.
        with suppress(MessageError):
            again[envelope.sender, _digest(envelope)] = envelope
    wanted = {str(noted["digest"]) for noted in kept.of("received")}
    # A process that was killed may have kept a message of which it noted nothing.
    waiting = ((digest, message) for message in kept.received() if (digest := _digest(message)) in wanted)
    digest, following = next(waiting, ("", None))
    for noted in kept.of("received"):
        if following is not None and digest == noted["digest"]:
            yield following
            digest, following = next(waiting, ("", None))
        elif found := again.get((str(noted["from"]), str(noted["digest"]))):
            yield found
        else:
            step, round, _ = _place(noted)
            made.lacks = f"{step}{f' of {round}' if round else ''} from {noted['from'] or 'the server'}"
            return


def _digest(envelope: Envelope) -> str:
    return str(described(envelope, hashlib.sha256(envelope.body).digest())["digest"])


def _place(message: Message) -> Place:
    return str(message["step"]), str(message.get("round", message.get("about", ""))), str(message["to"])


def judge(
    kept: KeptEvidence,
    made: Replayed,
    against: Sequence[KeptEvidence] = (),
    checker: Checker | None = None,
    authority: str = "",
) -> SessionAudit:
    """By the party's own record, and by what its peers hold signed by it."""
    own = _Own(kept, made)
    held = _Held(kept, made, checker, made.session if made.session and not own.broken else _named(kept, against))
    for peer in against:
        held.add(peer)
    # Without its coins nothing tells which of the party's sessions a statement is of.
    quotes = held.quotes() if made.session and not own.broken else ()
    if quotes and software_of(kept) != versions():
        why = f"it ran by {software_of(kept)}, of which the replay by {versions()} makes another session"
        outcome, sentence, quotes = AuditOutcome.NOT_REPLAYED, f"{why}: audit it with that version", ()
    elif quotes:
        outcome, sentence = AuditOutcome.DEVIATED, quotes[0].sentence
    elif made.code is Code.PLAN and _planned_alike(kept, against):
        why = f"it and its peers computed another plan by {software_of(kept)} than {versions()} does"
        outcome, sentence = AuditOutcome.NOT_REPLAYED, f"{why}: audit it with that version"
    else:
        sentence = own.unlike() or held.unlike()
        outcome = AuditOutcome.NOT_SHOWN if sentence else AuditOutcome.FOLLOWED
        quotes = held.committed() if own.broken else ()
    left_out = (*own.left_out, *([f"the replay ended: {made.error}"] if made.error else []))
    return SessionAudit(
        kept.session,
        str(kept.facts["party"]),
        outcome,
        sentence,
        own.same,
        own.missing,
        left_out,
        tuple(dict.fromkeys(held.compared)),
        tuple(dict.fromkeys(held.doubts)),
        authority,
        quotes,
        software_of(kept),
        versions(),
    )


def _named(kept: KeptEvidence, against: Sequence[KeptEvidence]) -> str:
    """The session's id by the party's record; where that ends before the id was known, by peers that the server gave
    the same.
    """
    others = (peer.session for peer in against if peer.facts["session"] == kept.facts["session"])
    return kept.session if kept.of("named") else next(others, kept.session)


def _planned_alike(kept: KeptEvidence, against: Sequence[KeptEvidence]) -> bool:
    """Whether the peers' records have the plan that the party's own has: then it is the software that differs."""
    own = [str(note.get("digest")) for note in kept.of("plan")]
    peers = [str(note.get("digest")) for peer in against if peer.session == kept.session for note in peer.of("plan")]
    return len(own) == 1 and bool(peers) and set(peers) == set(own)


class _Own:
    """The party's own record against its replay: it could have written it anew, so that it convicts nobody."""

    def __init__(self, kept: KeptEvidence, made: Replayed) -> None:
        self._kept, self._made = kept, made
        waiting = Counter((_place(again), again["digest"]) for again in made.sent)
        places = Counter(_place(again) for again in made.sent)
        self.same = self.missing = 0
        self.left_out: list[str] = []
        self._first = ""
        """The first message that was not made again, and should have been."""
        self.broken = self._broken_commitment()
        for message in kept.of("sent"):
            place = _place(message)
            step, round, recipient = place
            told = f"{step}{f' of {round}' if round else ''} to {recipient or 'the server'}"
            if step == Step.REFUSE.value:
                self.left_out.append(f"{told}: why a party refuses is its own matter")
            elif waiting[place, message["digest"]]:
                waiting[place, message["digest"]] -= 1
                self.same += 1
            else:
                self.missing += 1
                lacks = f"it depends on what came, and {made.lacks} was not kept" if made.lacks else ""
                other = "its data and seed make another" if places[place] else "its data and seed make none"
                self.left_out.append(f"{told}: {lacks or other}")
                self._first = self._first or self.left_out[-1]

    def unlike(self) -> str:
        """Why the record does not show what the party did; empty if it does."""
        if self._kept.damaged:
            return f"its record is damaged in line {self._kept.damaged[0]}"
        if self.broken:
            return self.broken
        # A process that was killed as the last coin came had no time to note the session's own id.
        if self._kept.of("named") and self._made.session and self._made.session != self._kept.session:
            return "its record names another session than what came in it"
        if self.missing:
            count = f"{self.missing:,} of {self.same + self.missing:,} messages could not be made again"
            ended = f"; to what it keeps as having come it had to say: {self._made.error}" if self._made.error else ""
            return f"{count}, the first a {self._first}{ended}"
        return f"what came was not kept: {self._made.lacks}" if self._made.lacks else ""

    def _broken_commitment(self) -> str:
        """Which part of the first message does not open to what is shown now."""
        party = self._kept.facts["party"]
        mine = [note for note in self._kept.of("commitment") if note["from"] == party]
        again = [note for note in self._made.notes if note["what"] == "commitment" and note["from"] == party]
        for part in ("seed", "coin", "ids", "data", "software"):
            for old, new in zip(mine, again, strict=False):
                if old.get(part) != new[part]:
                    verb = "are" if part in ("ids", "data") else "is"
                    return f"the {part} shown now {verb} not what {party} committed to: {old.get(part)} is signed"
        return ""


@dataclass(frozen=True)
class _Genuine:
    """A statement that the audited party signed, and who holds it."""

    holder: str
    said: Statement
    proof: str
    certificate: bytes
    revoked: bool
    contexts: Contexts


class _Held:
    """What peers hold signed by the audited party, as a set."""

    def __init__(self, kept: KeptEvidence, made: Replayed, checker: Checker | None, session: str) -> None:
        self._kept, self._made, self._checker = kept, made, checker
        self._party, self._session = str(kept.facts["party"]), session
        self._own = contexts_in(made.notes)
        self._before = {said.context for said in made.statements.values() if said.stage == COINS}
        self._names = {str(note["from"]) for note in (*kept.of("commitment"), *made.notes) if "from" in note}
        self._known: dict[tuple[str, Statement], _Genuine] = {}
        self._lapsed: list[str] = []
        self._revoked = ""
        """What a statement by a certificate that was revoked since says of the replay."""
        self.compared: list[str] = []
        self.doubts: list[str] = []

    def add(self, peer: KeptEvidence) -> None:
        """Take what is genuine of a peer's evidence; the rest is a doubt about the peer."""
        name = str(peer.facts["party"])
        if peer.damaged:
            self.doubts.append(f"{len(peer.damaged)} lines of {name} cannot be read, the first is {peer.damaged[0]}")
        if name == self._party or (self._names and name not in self._names):
            self.doubts.append(f"evidence of {name} is not a peer's of this session")
            return
        if peer.session != self._session:
            self.doubts.append(f"{name} shows evidence of another session, or cut off before it had an id")
        contexts, before = {**contexts_in(peer.of("context")), **self._own}, len(self._known)
        for held in peer.of("signature"):
            if held["from"] == self._party:
                self._take(name, held, contexts)
        if len(self._known) > before:
            self.compared.append(name)
        else:
            self.doubts.append(f"{name} shows nothing signed by {self._party} that counts")
        self.doubts += _unlike_sent(self._kept, peer)

    def _take(self, name: str, held: Message, contexts: Contexts) -> None:
        said = Statement.noted(held)
        told = f"{name} shows a signature about {said.about}, which"
        if said.recipient != name:
            self.doubts.append(f"{told} is not addressed to it")
        elif said.about not in JUDGED:
            self.doubts.append(f"{told} no replay makes")
        elif not self._of_session(said, contexts):
            self.doubts.append(f"{told} is not of this session")
        elif self._checker is None:
            self.doubts.append(f"{told} is not counted: there are no certificates to check it by")
        else:
            try:
                shown = self._checker.check(self._party, said.encode(), bytes.fromhex(str(held["proof"])))
            except LapsedError as error:
                self._lapsed.append(str(error))
                self.doubts.append(f"{told} is not counted: {error}")
            except SignatureError as error:
                self.doubts.append(f"{told} is not counted: {error}")
            else:
                certificate, revoked = getattr(shown, "certificate", b""), bool(getattr(shown, "revoked", False))
                genuine = _Genuine(name, said, str(held["proof"]), certificate, revoked, contexts)
                self._known.setdefault((name, said), genuine)

    def _of_session(self, said: Statement, contexts: Contexts) -> bool:
        """What is signed before the session has its id is of the session whose replay makes the same context."""
        if said.stage == COINS:
            return said.context in self._before
        return chain_of(said.context, self._session, contexts) is not None

    def _confirmed(self) -> set[bytes]:
        """The certificates of statements that the replay makes too."""
        again = self._made.statements
        return {one.certificate for one in self._known.values() if again.get(one.said.key) == one.said}

    def _contradictions(self, before: bool) -> list[_Genuine]:
        again, found = self._made.statements, []
        for one in self._known.values():
            unlike = (one.said.stage == COINS) == before and again.get(one.said.key) != one.said
            if unlike and (one.said.key in again or self._made.went_past(one.said)):
                found.append(one)
        order = {key: number for number, key in enumerate(again)}
        return sorted(found, key=lambda one: (order.get(one.said.key, len(order)), one.holder))

    def quotes(self) -> tuple[Quote, ...]:
        """The first statement that each peer holds and the replay contradicts."""
        confirmed, found = self._confirmed(), dict[str, Quote]()
        for one in self._contradictions(before=False):
            told = f"{one.holder} shows a signature about {one.said.about}, which is not counted:"
            if one.certificate not in confirmed:
                self.doubts.append(f"{told} it is by another certificate than {self._party} signed the session by")
            elif one.revoked:
                self._revoked = "its certificate was revoked since, and what it signed does not fit its replay"
                self.doubts.append(f"{told} its certificate was revoked since")
            else:
                found.setdefault(one.holder, self._quote(one))
        return tuple(found.values())

    def committed(self) -> tuple[Quote, ...]:
        """What the party signed of its commitment, where what is shown now makes another."""
        return tuple({one.holder: self._quote(one) for one in reversed(self._contradictions(before=True))}.values())

    def _quote(self, one: _Genuine) -> Quote:
        said, again = one.said, self._made.statements.get(one.said.key)
        made_of = chain_of(said.context, self._session, one.contexts) or [list(one.contexts.get(said.context, ()))]
        value, round = "" if again is None else again.value, self._made.rounds.get(said.key, "")
        return Quote(one.holder, said.stage, said.context, made_of, said.about, round, said.value, one.proof, value)

    def unlike(self) -> str:
        """Why the replay does not show all that the party signed; empty if it does."""
        if self._lapsed and not self._confirmed():
            return f"its record dates the session when what it signed did not count: {self._lapsed[0]}"
        if self._revoked:
            return self._revoked
        for one in self._known.values():
            before = one.said.stage == COINS and self._made.session
            if not before and one.said.key not in self._made.statements:
                return f"{one.holder} holds its signature about {one.said.about}, and the replay ends before it"
        return ""


def _unlike_sent(kept: KeptEvidence, peer: KeptEvidence) -> list[str]:
    """Where a peer notes otherwise what it sent than the party notes that it came: one's word against another's."""
    name, party = str(peer.facts["party"]), str(kept.facts["party"])
    sent = Counter((_place(message), message["digest"]) for message in peer.of("sent") if message["to"] == party)
    came = Counter((_place(message), message["digest"]) for message in kept.of("received") if message["from"] == name)
    unlike = [place for (place, _), count in came.items() if sent[place, _] < count]
    if not unlike:
        return []
    step, round, _ = unlike[0]
    return [f"{name} does not note that it sent the {step}{f' of {round}' if round else ''} that came from it"]
