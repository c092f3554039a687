"""Makes a party's messages of an accountable session again, from its secrets and its data, and compares them.

A replay is one more carrier: the party's role, with what it committed to, is fed with what came in. Whatever it says
otherwise than the party did is a deviation. What a party noted itself is its own word. What others hold signed by it is
not, and what it keeps as having come from others must be what they signed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from colonnade.foundation.errors import ColonnadeError, MessageError, SignatureError, SiteError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.coins import COMMIT, Opening
from colonnade.protocol.evidence import described
from colonnade.protocol.kinds import PartyTask
from colonnade.protocol.messages import Envelope, Signature, Step, body_of
from colonnade.protocol.party import PartyRole
from colonnade.protocol.signatures import packed, statement
from colonnade.transport.evidence import KeptEvidence

Message = Mapping[str, Any]
Place = tuple[str, str, str]
"""Step, round and recipient of a message."""


class Checker(Protocol):
    """Knows whether a party signed a statement when the session was; raises SignatureError if not."""

    def check(self, peer: str, statement: bytes, proof: bytes) -> None: ...


CheckerOf = Callable[[KeptEvidence], Checker]
"""By the certificates that were valid when this evidence was kept."""


@dataclass(frozen=True)
class Deviation:
    """The first message that is not what data, seed and coins make."""

    step: str
    round: str
    """Of the message, or of what a signature is about."""
    recipient: str
    number: int
    """Among the party's messages of this step and round to this recipient, from 1 on."""
    sentence: str


@dataclass(frozen=True)
class SessionAudit:
    """What an audit of one party in one session found."""

    session: str
    party: str
    replayed: int
    """So many messages were made again, and are the same."""
    missing: int
    """So many could not be made again, for what came before them is not there: the audit is not whole."""
    left_out: tuple[str, ...]
    """What was not made again, and why."""
    compared: tuple[str, ...]
    """Peers whose evidence was looked at: without any, only the party's own notes were."""
    doubts: tuple[str, ...]
    """What peers show and did not count against the party, for it is not signed, or not of this session."""
    authority: str
    """Fingerprint of the authority by whose certificates signatures were checked; empty if they were believed."""
    deviation: Deviation | None

    @property
    def passed(self) -> bool:
        """Whether all that the party sent was made again; what cannot be produced fails the audit."""
        return self.deviation is None and not self.missing


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
    error: str = ""
    """Why the party could not go on, where it could not."""
    lacks: str = ""
    """What came and is not there to be heard again."""

    def begin(self, session: bytes, opening: Opening) -> None: ...
    def keep_received(self, envelope: Envelope, digest: bytes) -> None: ...
    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        self.notes.append({"what": what, **facts})

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        told = described(envelope, digest)
        if envelope.step is Step.SIGNATURE:
            told["statement"] = body_of(envelope, Signature).proof
        self.sent.append(told)
        self.keep(envelope)


def audit_session(
    kept: KeptEvidence,
    opening: Opening,
    task: PartyTask,
    against: Sequence[KeptEvidence] = (),
    *,
    checker_of: CheckerOf | None = None,
    authority: str = "",
    came: Sequence[Envelope] = (),
) -> SessionAudit:
    """Replay `task`'s party, with the data that the task reads, and compare with its evidence and its peers'.

    `came` are messages that the party did not keep, made again by their senders.
    """
    require_of(kept, task)
    party, session = task.name, str(kept.facts["session"])
    for peer in against:
        if peer.facts["session"] != session or peer.facts["party"] == party:
            raise SiteError(f"{peer.place} must be a peer's evidence of the same session")
    if len({peer.facts["party"] for peer in against}) < len(against):
        raise SiteError("each peer's evidence must be given once, and one is given twice")
    made = replay(kept, opening, task, came=came, checker=None if checker_of is None else checker_of(kept))
    own = _compare(kept.of("sent"), made)
    deviation = _broken_commitment(kept, made, party) or own.deviation
    doubts: list[str] = []
    for peer in against:
        signed = _Signed(peer, party, None if checker_of is None else checker_of(peer))
        found = signed.compare(made)
        if checker_of is None:
            # Nobody's signature counts here, so that one's word stands against another's.
            found = found or _compare_came(kept, peer)
        elif told := _compare_came(kept, peer):
            signed.doubts.append(f"{peer.facts['party']} notes otherwise what it signed: {told.sentence}")
        deviation, doubts = deviation or found, [*doubts, *signed.doubts]
    compared = tuple(str(peer.facts["party"]) for peer in against)
    left_out = (*own.left_out, *([f"the replay ended: {made.error}"] if made.error and not deviation else []))
    return SessionAudit(session, party, own.same, own.missing, left_out, compared, tuple(doubts), authority, deviation)


def unproduced(kept: KeptEvidence, why: str, authority: str = "") -> SessionAudit:
    """A party that cannot show its seed fails the audit, whatever the reason is."""
    party, sent = str(kept.facts["party"]), len(kept.of("sent"))
    sentence = f"it cannot show what it committed to: {why}"
    broken = Deviation(Step.PARCEL.value, COMMIT, "", 1, sentence)
    return SessionAudit(str(kept.facts["session"]), party, 0, sent, (), (), (), authority, broken)


def require_of(kept: KeptEvidence, task: PartyTask) -> None:
    """Raise unless the evidence is this party's, of a session with these terms."""
    for name, stated in (("party", task.name), ("terms", task.terms)):
        if kept.facts.get(name) != stated:
            raise SiteError(f"the evidence is of another session: its {name} is {str(kept.facts.get(name))[:16]!r}")


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
    role = PartyRole(task, source, _Signer(checker) if signs else None, account=SessionAccount(made, opening))
    list(role.start())
    try:
        for envelope in _incoming(kept, came, made):
            for _ in role.receive(envelope):
                pass
    except (ColonnadeError, AssertionError) as error:
        made.error = str(error)
    return made


def _incoming(kept: KeptEvidence, came: Sequence[Envelope], made: Replayed) -> Iterator[Envelope]:
    """What came, in its order: as it was kept, or as its sender made it again."""
    again: dict[tuple[str, str], Envelope] = {}
    for envelope in came:
        # Whoever made it may have made anything of it.
        with suppress(MessageError):
            again[envelope.sender, _digest(envelope)] = envelope
    waiting = kept.received()
    following = next(waiting, None)
    for noted in kept.of("received"):
        if following is not None and _digest(following) == noted["digest"]:
            yield following
            following = next(waiting, None)
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


def _told(place: Place, number: int) -> str:
    step, round, recipient = place
    return f"{step} {number}{f' of {round}' if round else ''} to {recipient or 'the server'}"


@dataclass(frozen=True)
class _Comparison:
    same: int
    missing: int
    left_out: tuple[str, ...]
    deviation: Deviation | None


def _compare(claimed: Sequence[Message], made: Replayed) -> _Comparison:
    """Message by message, in the order in which they were sent."""
    waiting: dict[Place, deque[Message]] = defaultdict(deque)
    for again in made.sent:
        waiting[_place(again)].append(again)
    seen: dict[Place, int] = defaultdict(int)
    same, missing, left_out = 0, 0, []
    for message in claimed:
        place = _place(message)
        seen[place] += 1
        told, sentence = _told(place, seen[place]), ""
        if message["step"] == Step.REFUSE.value:
            left_out.append(f"{told}: why a party refuses is its own matter")
        elif not waiting[place] and made.lacks:
            missing += 1
            left_out.append(f"{told}: it depends on what came, and {made.lacks} was not kept")
        elif not waiting[place]:
            sentence = f"it sent {told}, and its data and seed make no such message"
            sentence += f"; to what it keeps as having come it had to say: {made.error}" if made.error else ""
        elif waiting[place].popleft()["digest"] != message["digest"]:
            sentence = f"{told} is not what its data and seed make"
        else:
            same += 1
        if sentence:
            return _Comparison(same, missing, tuple(left_out), Deviation(*place, seen[place], sentence))
    return _Comparison(same, missing, tuple(left_out), None)


def _broken_commitment(kept: KeptEvidence, made: Replayed, party: str) -> Deviation | None:
    """Which part of the first message does not open to what is shown now."""
    for mine in kept.of("commitment"):
        for again in made.notes:
            if mine["from"] == party and again["what"] == "commitment" and again["from"] == party:
                for part in ("seed", "coin", "ids", "data"):
                    if mine[part] != again[part]:
                        sentence = f"the {part} shown now {'is' if part in ('seed', 'coin') else 'are'} not what"
                        return Deviation(Step.PARCEL.value, COMMIT, "", 1, f"{sentence} {party} committed to")
    return None


@dataclass
class _Signed:
    """What a peer holds signed by the audited party."""

    peer: KeptEvidence
    party: str
    checker: Checker | None
    doubts: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.peer.facts["party"])

    def compare(self, made: Replayed) -> Deviation | None:
        """Against what the replay would have signed to it."""
        again = _signed_again(made, self.name)
        roots = {str(self.peer.facts["session"])} | {
            note["of"][0] for note in made.notes if note["what"] == "context" and note["stage"] == "alignment"
        }
        seen: dict[str, int] = defaultdict(int)
        for held in self.peer.of("signature"):
            if held["from"] != self.party:
                continue
            about = str(held["about"])
            seen[about] += 1
            if not self._genuine(held, seen[about], roots):
                continue
            mine = again[about].popleft() if again[about] else None
            if mine is None and made.lacks:
                continue
            if mine is None or mine["statement"] != _statement(held):
                of = f"{about}, round {mine['round']}" if mine is not None and about == "passed" else about
                sentence = f"{self.name} holds signature {seen[about]} about {of}, which its data and seed do not make"
                return Deviation(Step.SIGNATURE.value, of, self.name, seen[about], sentence)
        return None

    def _genuine(self, held: Message, number: int, roots: set[str]) -> bool:
        """Whether the party signed this, and in this session: a peer could show anything."""
        told = f"{self.name} shows signature {number} about {held['about']}, which"
        if held["to"] != self.name:
            self.doubts.append(f"{told} is not addressed to it")
        elif not self._of_session(str(held["context"]), roots):
            self.doubts.append(f"{told} is not of this session")
        elif self.checker is None:
            return True
        else:
            try:
                self.checker.check(self.party, _statement(held), bytes.fromhex(str(held["proof"])))
                return True
            except SignatureError as error:
                self.doubts.append(f"{told} is not counted: {error}")
        return False

    def _of_session(self, context: str, roots: set[str]) -> bool:
        """What signatures are about is a digest; the evidence says of what, and that begins with the session's id."""
        known = {str(note["context"]): note["of"] for note in self.peer.of("context")}
        for _ in known:
            parts = known.get(context)
            if parts is None or hashlib.sha256(packed(*map(bytes.fromhex, parts))).hexdigest() != context:
                return False
            context = parts[0]
            if context in roots:
                return True
        return False


def _signed_again(made: Replayed, name: str) -> dict[str, deque[Message]]:
    again: dict[str, deque[Message]] = defaultdict(deque)
    round = ""
    for message in made.sent:
        if message["to"] == name and message["step"] == Step.PARCEL.value:
            round = str(message["round"])
        if message["to"] == name and message["step"] == Step.SIGNATURE.value:
            again[str(message["about"])].append({**message, "round": round})
    return again


def _statement(held: Message) -> bytes:
    context, value = bytes.fromhex(held["context"]), bytes.fromhex(held["value"])
    return statement(held["stage"], context, held["from"], held["to"], held["about"], value)


def _compare_came(kept: KeptEvidence, peer: KeptEvidence) -> Deviation | None:
    """What the party says came from a peer, against what that peer says it sent."""
    name, party = str(peer.facts["party"]), str(kept.facts["party"])
    sent: dict[Place, deque[Message]] = defaultdict(deque)
    for message in peer.of("sent"):
        if message["to"] == party:
            sent[_place(message)].append(message)
    seen: dict[Place, int] = defaultdict(int)
    for message in kept.of("received"):
        if message["from"] != name:
            continue
        place = _place(message)
        seen[place] += 1
        if not sent[place] or sent[place].popleft()["digest"] != message["digest"]:
            sentence = f"it keeps a {_told(place, seen[place])} that {name} says it never sent"
            return Deviation(*place, seen[place], sentence)
    return None
