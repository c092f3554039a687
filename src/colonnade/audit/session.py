"""Makes a party's messages of an accountable session again, from its secrets and its data, and compares them.

A replay is one more carrier: the party's role, with what it committed to, is fed with what came in. Whatever it says
otherwise than the party did is a deviation. What the party itself noted as sent is its own word; what its peers hold
signed by it is not.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from colonnade.foundation.errors import ColonnadeError, SiteError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.coins import COMMIT, Opening
from colonnade.protocol.kinds import PartyTask
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import PartyRole
from colonnade.sites.evidence import KeptEvidence, described

Message = Mapping[str, Any]


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
    left_out: tuple[str, ...]
    """What could not be made again, and why."""
    compared: tuple[str, ...]
    """Peers whose evidence was looked at: without any, only the party's own notes were."""
    deviation: Deviation | None


class _Believing:
    """Proofs are other keys' matter: what is said counts here, and not who signed it."""

    def sign(self, statement: bytes) -> bytes:
        return b""

    def check(self, peer: str, statement: bytes, proof: bytes) -> None: ...


@dataclass
class _Replayed:
    """What the replay says, in the place of evidence."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, session: bytes, opening: Opening) -> None: ...
    def keep_received(self, envelope: Envelope) -> None: ...
    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        self.notes.append({"what": what, **facts})

    def keep_sent(self, envelope: Envelope) -> None:
        self.sent.append(described(envelope))


def audit_session(
    kept: KeptEvidence, opening: Opening, task: PartyTask, against: Sequence[KeptEvidence] = ()
) -> SessionAudit:
    """Replay `task`'s party, with the data that the task reads, and compare with its evidence and its peers'."""
    facts = kept.facts
    for name, stated in (("party", task.name), ("terms", task.terms)):
        if facts.get(name) != stated:
            raise SiteError(f"the evidence is of another session: its {name} is {str(facts.get(name))[:16]}")
    for peer in against:
        if peer.facts["session"] != facts["session"] or peer.facts["party"] == task.name:
            raise SiteError(f"{peer.place} must be a peer's evidence of the same session")
    made, error = _replay(kept, opening, task)
    whole = _whole(kept)
    own = _compare(kept.of("sent"), made, whole)
    deviation = _broken_commitment(kept, made, task.name) or own.deviation
    for peer in against:
        deviation = deviation or _compare_signed(peer, made, task.name, whole) or _compare_came(kept, peer)
    left_out = list(own.left_out)
    if error and not deviation:
        left_out.append(f"the replay ended: {error}")
    compared = tuple(str(peer.facts["party"]) for peer in against)
    return SessionAudit(str(facts["session"]), task.name, own.same, tuple(left_out), compared, deviation)


def _replay(kept: KeptEvidence, opening: Opening, task: PartyTask) -> tuple[_Replayed, str]:
    """All that the role says to what came in, and why it stopped, where it did."""
    made = _Replayed()
    source = Randomness.derived(opening.seed, bool(kept.facts.get("simulated")))
    role = PartyRole(task, source, _Believing(), account=SessionAccount(made, opening))
    list(role.start())
    try:
        for envelope in kept.received():
            for _ in role.receive(envelope):
                pass
    except (ColonnadeError, AssertionError) as error:
        return made, str(error)
    return made, ""


def _whole(kept: KeptEvidence) -> bool:
    return len(kept.of("received")) == sum(1 for _ in kept.received())


def _place(message: Message) -> tuple[str, str, str]:
    return str(message["step"]), str(message.get("round", message.get("about", ""))), str(message["to"])


def _told(place: tuple[str, str, str], number: int) -> str:
    step, round, recipient = place
    return f"{step} {number}{f' of {round}' if round else ''} to {recipient or 'the server'}"


@dataclass(frozen=True)
class _Comparison:
    same: int
    left_out: tuple[str, ...]
    deviation: Deviation | None


def _compare(claimed: Sequence[Message], made: _Replayed, whole: bool) -> _Comparison:
    """Message by message, in the order in which they were sent."""
    waiting: dict[tuple[str, str, str], deque[Message]] = defaultdict(deque)
    for again in made.sent:
        waiting[_place(again)].append(again)
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    same, left_out = 0, []
    for message in claimed:
        place = _place(message)
        seen[place] += 1
        told = _told(place, seen[place])
        if message["step"] == Step.REFUSE.value:
            left_out.append(f"{told}: why a party refuses is its own matter")
        elif not waiting[place]:
            if whole:
                sentence = f"it sent {told}, and its data and seed make no such message"
                return _Comparison(same, tuple(left_out), _deviation(place, seen[place], sentence))
            left_out.append(f"{told}: it depends on what came, which was not kept")
        elif waiting[place].popleft()["digest"] != message["digest"]:
            sentence = f"{told} is not what its data and seed make"
            return _Comparison(same, tuple(left_out), _deviation(place, seen[place], sentence))
        else:
            same += 1
    return _Comparison(same, tuple(left_out), None)


def _deviation(place: tuple[str, str, str], number: int, sentence: str) -> Deviation:
    step, round, recipient = place
    return Deviation(step, round, recipient, number, sentence)


def _broken_commitment(kept: KeptEvidence, made: _Replayed, party: str) -> Deviation | None:
    """Which part of the first message does not open to what is shown now."""
    for mine in kept.of("commitment"):
        for again in made.notes:
            if mine["from"] == party and again["what"] == "commitment" and again["from"] == party:
                for part in ("seed", "coin", "ids", "data"):
                    if mine[part] != again[part]:
                        sentence = f"the {part} shown now {'is' if part in ('seed', 'coin') else 'are'} not what"
                        return Deviation(Step.PARCEL.value, COMMIT, "", 1, f"{sentence} {party} committed to")
    return None


def _compare_signed(peer: KeptEvidence, made: _Replayed, party: str, whole: bool) -> Deviation | None:
    """What the peer holds signed by the party, against what the replay would have signed."""
    name = str(peer.facts["party"])
    again: dict[str, deque[Message]] = defaultdict(deque)
    round = ""
    for message in made.sent:
        if message["to"] == name and message["step"] == Step.PARCEL.value:
            round = str(message["round"])
        if message["to"] == name and message["step"] == Step.SIGNATURE.value:
            again[str(message["about"])].append({**message, "round": round})
    seen: dict[str, int] = defaultdict(int)
    for held in peer.of("signature"):
        if held["from"] != party:
            continue
        about = str(held["about"])
        seen[about] += 1
        mine = again[about].popleft() if again[about] else None
        if mine is None and not whole:
            continue
        if mine is None or mine["value"] != held["value"]:
            of = f"{about}, round {mine['round']}" if mine is not None and about == "passed" else about
            sentence = f"{name} holds signature {seen[about]} about {of}, which its data and seed do not make"
            return Deviation(Step.SIGNATURE.value, of, name, seen[about], sentence)
    return None


def _compare_came(kept: KeptEvidence, peer: KeptEvidence) -> Deviation | None:
    """What the party says came from a peer, against what that peer says it sent."""
    name, party = str(peer.facts["party"]), str(kept.facts["party"])
    sent: dict[tuple[str, str, str], deque[Message]] = defaultdict(deque)
    for message in peer.of("sent"):
        if message["to"] == party:
            sent[_place(message)].append(message)
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    for envelope in kept.received():
        if envelope.sender != name:
            continue
        message = described(envelope)
        place = _place(message)
        seen[place] += 1
        if not sent[place] or sent[place].popleft()["digest"] != message["digest"]:
            sentence = f"it keeps a {_told(place, seen[place])} that {name} says it never sent"
            return _deviation(place, seen[place], sentence)
    return None
