"""What a party keeps of a session, so that it can be shown later that it did as it said; `sites.evidence` keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from colonnade.protocol.coins import BIND, ROUNDS, Opening, hashed
from colonnade.protocol.messages import Done, Envelope, Go, ParcelBody, Resumable, Signature, Step, body_of

HANDED_IN, WITHDRAWN = "handed in", "withdrawn"
EVIDENCE_DAYS = 90
"""So long secrets are kept, unless a policy says otherwise: a quarter of a year to doubt a result in."""


def auditors_named(auditors: Sequence[str]) -> str:
    """Who may audit a party, in words."""
    return f"Auditors that the study names: {', '.join(auditors) or 'none, so that any may be agreed on'}."


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party needs to hand in, in another process, what it has signed; all of it is masked or public."""

    offer: Resumable
    bodies: list[bytes]
    stage: str
    made_of: list[bytes]
    """What statements are about."""


class Evidence(Protocol):
    """Each call is durable when it returns, so that no commitment leaves that cannot be opened later."""

    def begin(self, session: bytes, opening: Opening) -> None:
        """The session has an id, and the party its secrets: nothing has left yet."""
        ...

    def rename(self, session: bytes) -> None:
        """All coins are there, and with them the session's own id."""
        ...

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        """A public fact: a commitment, a signature, a digest."""
        ...

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        """A message that leaves, and the digest of its body."""
        ...

    def keep_received(self, envelope: Envelope, digest: bytes) -> None:
        """A message that came, before it is worked on, and the digest of its body."""
        ...

    def keep_submission(self, kept: Kept | None) -> None:
        """What the party will hand in, if the session may go on in another process."""
        ...

    def decide(self, choice: str) -> str:
        """Hand in, or withdraw: which of the two was decided first, here or in another process, stands for good."""
        ...

    def drop_submission(self) -> None:
        """The session is over: it is not gone on with, and what was decided stays."""
        ...

    def offers(self) -> list[Resumable]:
        """Sessions by the same terms whose submissions are kept."""
        ...

    def resume(self, session: bytes) -> Kept | None:
        """Go on with the evidence of a session."""
        ...


def described(envelope: Envelope, digest: bytes) -> dict[str, Any]:
    """A message as evidence has it: by its body's digest; a signature without its proof, which no replay makes."""
    told: dict[str, Any] = {"step": envelope.step.value, "from": envelope.sender, "to": envelope.recipient}
    body = [digest]
    match envelope.step:
        case Step.PARCEL:
            told["round"] = body_of(envelope, ParcelBody).round
        case Step.GO:
            told["round"] = body_of(envelope, Go).round
        case Step.DONE:
            told["round"] = body_of(envelope, Done).round
        case Step.SIGNATURE:
            signature = body_of(envelope, Signature)
            told["about"], told["value"] = signature.about, signature.value.hex()
            body = [signature.about.encode(), signature.value]
        case _:
            pass
    told["bytes"], told["digest"] = len(envelope.body), hashed("message", envelope.plan.encode(), *body).hex()
    return told


def is_bulk(envelope: Envelope) -> bool:
    """Whether a message is a parcel that its sender can make again; without coins and bindings nobody could."""
    return envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round not in (*ROUNDS, BIND)
