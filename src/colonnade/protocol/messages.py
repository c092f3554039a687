"""Typed, versioned, size-checked messages. None can carry an exact value: a submission is made of a `Masked`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec

from colonnade.foundation.errors import MessageError, ProtocolError
from colonnade.protocol.codes import Code
from colonnade.protocol.conversation import PARTY, SERVER, Event, PartyState

MAGIC = b"CLN1"
VERSION = 3
"""Of the conversation: who speaks another is told so, and takes no part."""
SOFTWARE = re.compile(r"colonnade [0-9][0-9A-Za-z.+-]{0,31}, protocol [0-9]{1,9}")
IDENTITY_BYTES = 32
"""Of a session's id."""
JOINING = "join"
"""The round between an alignment's and a product's: a party enters the session proper."""
DIGESTS = "digests"
"""The round of accountable sessions in which each party signs what it will submit: nobody hands in before it."""
SUBMIT = "submit"
"""The last round of every session, after the product's own."""
PIECE = 16 << 20  # 16 MB a message: memory of a relay stays flat
LARGEST = (32 << 20) + (1 << 16)
"""A message above this is refused before it is decoded."""
SMALL = 1 << 20
"""The same of the body of a message that carries no bulk."""


class Step(StrEnum):
    """What a message is for."""

    HELLO = "hello"
    WELCOME = "welcome"
    RESUME = "resume"
    READY = "ready"
    JOIN = "join"
    PROPOSAL = "proposal"
    ACCEPT = "accept"
    REFUSE = "refuse"
    GO = "go"
    PARCEL = "parcel"
    SIGNATURE = "signature"
    DONE = "done"
    SUBMIT = "submit"
    HANDED = "handed"
    OPENED = "opened"
    CONFIRM = "confirm"
    HALT = "halt"
    WITHDRAW = "withdraw"
    END = "end"


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What every message carries around its body."""

    session: bytes
    plan: str
    sender: str
    recipient: str
    step: Step
    body: bytes

    def encode(self) -> bytes:
        data = MAGIC + _encoder.encode(self)
        if len(data) > LARGEST:
            raise MessageError(f"a message must have at most {LARGEST} bytes, got {len(data)}")
        return data

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        if len(data) > LARGEST:
            raise MessageError(f"a message must have at most {LARGEST} bytes, got {len(data)}")
        if data[:4] != MAGIC:
            raise MessageError(f"a message must start with {MAGIC!r}, got {data[:4]!r}")
        try:
            return _envelope_decoder.decode(data[4:])
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError, MemoryError):
            raise MessageError(f"a message of {len(data)} bytes cannot be decoded") from None


@cache
def versions() -> str:
    """Name this software and its protocol: HELLO, and an END before there is a plan, carry it in the plan's place.

    Peers of every version read that place as a text and pass over it, so that none fails to hear why it is sent away.
    """
    return f"colonnade {version('colonnade')}, protocol {VERSION}"


def versions_in(envelope: Envelope) -> str:
    """Return what a peer says of its versions; 0.1.0 says nothing."""
    return envelope.plan if SOFTWARE.fullmatch(envelope.plan) else "colonnade 0.1.0 or unknown"


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a message says, in the form that its step has."""


class Resumable(Body, frozen=True):
    """A session that ended at submit, of which a party keeps its submission and all parties' digests."""

    session: bytes
    plan: str
    rows: int
    digests: tuple[bytes, ...]
    """Of each party's submission, in the order of the parties."""


class Hello(Body, frozen=True, forbid_unknown_fields=False):
    """A party enters, and asks what became of sessions that it booked and never saw end.

    Fields of a later version are passed over: who speaks it hears that versions differ.
    """

    version: int
    terms: str
    """Digest of the public terms that its own files state."""
    seeded: bool
    pending: list[str]
    accountable: bool = False
    """Whether parties commit to seeds and data, and keep evidence."""
    kept: tuple[Resumable, ...] = ()
    """Sessions that it could go on with, if all can."""


class Welcome(Body, frozen=True):
    """The ids of the session and of its alignment; of each session that was asked about "void" or "opened"."""

    session: bytes
    alignment: bytes
    outcomes: dict[str, str]


class Ready(Body, frozen=True):
    """A party has read its data and found nothing to refuse."""


class Join(Body, frozen=True):
    """A party's public facts."""

    columns: dict[str, dict[str, Any]]
    rows: int
    mask_key: bytes


class Proposal(Body, frozen=True):
    """The server's proposal; the party computes every number of it again."""

    agreement: dict[str, Any]
    rows: int
    mask_keys: list[bytes]


class Accept(Body, frozen=True):
    """A party agrees to the plan named in the envelope."""

    digest: str


class Refuse(Body, frozen=True):
    """A party does not agree, or cannot go on; its own people alone are told the numbers."""

    code: Code
    phase: str = ""
    """Where it was, as its people are shown it."""
    withdrawn: tuple[tuple[str, bytes], ...] = ()
    """To each peer its signature that it has not submitted and will not, where it has not."""


class Go(Body, frozen=True):
    """The server opens a round of the alignment or the product, or asks to join or submit."""

    round: str


class ParcelBody(Body, frozen=True):
    """A piece of a round."""

    round: str
    payload: bytes


class Done(Body, frozen=True):
    """A party has sent all its parcels of a round."""

    round: str


class Piece(Body, frozen=True):
    """Part of something larger than one message: a submission, or the release."""

    index: int
    count: int
    data: bytes


class Handed(Body, frozen=True):
    """A piece of a party's submission, as it was signed: each party adds all of them up for itself."""

    party: str
    piece: bytes


class Signature(Body, frozen=True):
    """A party's signature for one peer: about its mask key, about all that it sent to it so far, or about what it
    submits and what was opened to it."""

    about: str
    value: bytes
    proof: bytes


class Confirm(Body, frozen=True):
    """A party has what was opened, and has put it where it stays."""


class Halt(Body, frozen=True):
    """The session will not be opened: whoever has not handed in is asked to sign that it will not."""


class Withdraw(Body, frozen=True):
    """What a party that has not handed in signs to each peer; nothing where it has."""

    withdrawn: tuple[tuple[str, bytes], ...]


class End(Body, frozen=True):
    """The session is over: without a code it went well, otherwise by whom and where it ended."""

    code: Code | None
    party: str
    phase: str
    opened: bool
    """Whether all parties had handed in what was asked of them, so that the session counts as opened."""
    withdrawn: tuple[tuple[str, bytes], ...] = ()
    """What others signed to the recipient: that they have not submitted and will not."""


BODIES: Mapping[Step, type[Body]] = {
    **{Step(kind.__name__.lower()): kind for kind in (Hello, Welcome, Ready, Join, Proposal, Accept, Refuse, Go, Done)},
    **{Step(kind.__name__.lower()): kind for kind in (Signature, Handed, Confirm, Halt, Withdraw, End)},
    Step.RESUME: Resumable,
    Step.PARCEL: ParcelBody,
    Step.SUBMIT: Piece,
    Step.OPENED: Piece,
}
"""A step is called as its body, but for four."""
BULKY = (Step.PARCEL, Step.SUBMIT, Step.HANDED, Step.OPENED)
"""Their bodies are bytes, which decoding does not multiply."""
_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_decoders = {step: msgspec.msgpack.Decoder(kind) for step, kind in BODIES.items()}
B = TypeVar("B", bound=Body)


def body_of(envelope: Envelope, kind: type[B], largest: int | None = None) -> B:
    """The typed body of an envelope, of at most `largest` bytes: decoded, one byte may become a hundred."""
    allowed = LARGEST if envelope.step in BULKY else SMALL if largest is None else largest
    if len(envelope.body) > allowed:
        raise MessageError(
            f"a {envelope.step.value} message must have at most {allowed} bytes here, got {len(envelope.body)}"
        )
    try:
        body = _decoders[envelope.step].decode(envelope.body)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError, MemoryError):
        raise MessageError(f"the body of a {envelope.step.value} message cannot be decoded") from None
    if not isinstance(body, kind):
        raise MessageError(f"a {envelope.step.value} message must carry a {kind.__name__}")
    return body


def encode_body(body: Body) -> bytes:
    return _encoder.encode(body)


def room_for(terms: Mapping[str, Any], parties: int = 1) -> int:
    """Bytes that a message with these terms cannot exceed, however its sender writes numbers."""
    return 2 * len(_encoder.encode(terms)) + 64 * parties + 1024


def in_pieces(blob: bytes) -> list[bytes]:
    """The encoded pieces of something large; there is one way to cut it."""
    count = max(1, -(-len(blob) // PIECE))
    return [encode_body(Piece(i, count, blob[i * PIECE : (i + 1) * PIECE])) for i in range(count)]


class Assembly:
    """Pieces of one sender, in order, until all are there."""

    def __init__(self, largest: int) -> None:
        self._parts: list[bytes] = []
        self._largest = largest
        self._size = 0

    def add(self, piece: Piece) -> bytes | None:
        """The whole when this was the last piece."""
        self._size += len(piece.data)
        # Empty pieces would be gathered for ever.
        empty = not piece.data and piece.count > 1
        if empty or piece.index != len(self._parts) or not piece.index < piece.count or self._size > self._largest:
            raise MessageError(
                f"pieces must come in order and within {self._largest} bytes, got piece {piece.index} of {piece.count} "
                f"after {len(self._parts)}"
            )
        self._parts.append(piece.data)
        return b"".join(self._parts) if len(self._parts) == piece.count else None


STEPS = Step.__members__
PARTY_EVENTS = {STEPS[event.name]: event for _, event in PARTY if event.name in STEPS}
# The server halts of itself: nobody tells it to.
SERVER_EVENTS = {STEPS[event.name]: event for _, event in SERVER if event.name in STEPS and event is not Event.HALT}
GO_EVENTS = {JOINING: Event.GO_JOIN, DIGESTS: Event.GO_DIGESTS, SUBMIT: Event.GO_SUBMIT}


def party_event(name: str, state: PartyState, envelope: Envelope) -> Event:
    """What a message is to a party in this state; some say by their bodies what they are."""
    match envelope.step:
        case Step.GO:
            round = body_of(envelope, Go).round
            joined = state in (PartyState.ACCEPTED, PartyState.SUBMITTED)
            return GO_EVENTS.get(round, Event.GO_ROUND if joined else Event.GO_ALIGN)
        case Step.OPENED:
            piece = body_of(envelope, Piece)
            return Event.OPENED if piece.index == piece.count - 1 else Event.PIECE
        case Step.END if (state, Event.END) in PARTY:
            return Event.END_OPENED if body_of(envelope, End).opened else Event.END
        case step if step in PARTY_EVENTS:
            return PARTY_EVENTS[step]
        case step:
            raise ProtocolError(f"party {name} is {state.value} and expects no {step.value} message")
