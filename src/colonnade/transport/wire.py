"""Frames between a party's process and the server's: requests, replies, and what travels inside them.

A party asks and the server answers: a party pushes its items one by one and pulls the server's one by one, each under
a number, so that a request whose answer was lost is asked again and done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from colonnade.foundation.errors import MessageError
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.messages import LARGEST, MAGIC, Envelope

LARGEST_FRAME = LARGEST + (1 << 16)
INSTANCE_BYTES = 16


class Entry(StrEnum):
    """Why a party is not let into a session."""

    TWICE = "name-twice"
    STRANGER = "unknown-party"
    STUDY = "study-differs"
    SEED = "seed-differs"


ENTRY_MEANING = {
    Entry.TWICE: "a party of this name has entered the session already",
    Entry.STRANGER: "the study has no party of this name",
    Entry.STUDY: "its study file states other terms than the server's",
    Entry.SEED: "server and parties must all be seeded for a simulation, or none",
}


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A party's process enters the session and asks about bookings that were never settled."""

    instance: bytes
    study: str
    seeded: bool
    pending: list[str]


class Push(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One item to the server."""

    instance: bytes
    number: int
    item: bytes


class Pull(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The next item, please; all up to `taken` have come."""

    instance: bytes
    taken: int


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The party is alive, and how far it is."""

    instance: bytes
    step: str
    share: float


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The party cannot go on."""

    instance: bytes
    code: Code
    step: str


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The session's id for alignment, and what became of sessions asked about: "void" or "opened"."""

    alignment: bytes
    settled: dict[str, str]


class Fine(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Done."""


class Wait(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Nothing yet, or no room yet: ask again."""


class Mail(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """One item to the party."""

    number: int
    item: bytes


class Over(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """The session has ended, where, and whether all had submitted so that it counts as opened."""

    code: Code | None
    party: str
    step: str
    opened: bool


class Barred(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The party is not let in."""

    why: Entry


Request = Hello | Push | Pull | Beat | Leave
Reply = Welcome | Fine | Wait | Mail | Over | Barred


class Ring(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """A parcel of the alignment, to or from a peer."""

    round: str
    peer: str
    payload: bytes


class Turn(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """The server opens a round of the alignment; a party has sent all its parcels of it."""

    round: str


class Start(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """The session proper begins."""

    identity: bytes


class Vouch(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """A party's signature for one peer, to or from it: about its mask key, or about all that it sent so far."""

    peer: str
    about: str
    value: bytes
    proof: bytes


Item = Envelope | Ring | Turn | Start | Vouch
_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
_items: msgspec.msgpack.Decoder[Ring | Turn | Start | Vouch] = msgspec.msgpack.Decoder(Ring | Turn | Start | Vouch)
F = TypeVar("F")


def encode(frame: Request | Reply) -> bytes:
    return _encoder.encode(frame)


def decode_request(data: bytes) -> Request:
    return _decoded(_requests, data, "a request")


def decode_reply(data: bytes) -> Reply:
    return _decoded(_replies, data, "a reply")


def encode_item(item: Item) -> bytes:
    """An envelope travels as its own bytes, anything else as a small frame."""
    return item.encode() if isinstance(item, Envelope) else _encoder.encode(item)


def decode_item(data: bytes) -> Item:
    return Envelope.decode(data) if data[: len(MAGIC)] == MAGIC else _decoded(_items, data, "an item")


def _decoded(decoder: msgspec.msgpack.Decoder[F], data: bytes, what: str) -> F:
    if len(data) > LARGEST_FRAME:
        raise MessageError(f"{what} must have at most {LARGEST_FRAME} bytes, got {len(data)}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError, MemoryError):
        raise MessageError(f"{what} of {len(data)} bytes cannot be decoded") from None


class Unreachable(Exception):
    """A request had no answer: ask again, and give up after a while."""


@dataclass(frozen=True)
class Patience:
    """How long either side waits, in seconds."""

    join: float = 900.0
    """Until all parties have entered."""
    silence: float = 60.0
    """Who is not heard for so long is lost."""
    beat: float = 1.0
    """A party says so often that it is alive."""
    poll: float = 2.0
    """A request for mail is answered after so long at the latest."""
    farewell: float = 20.0
    """The server stays so long for parties to hear of the end."""


def ending(over: Over) -> str:
    """Who, at which step, and what was spent."""
    spent = (
        "all parties had submitted, so that the session counts as spent"
        if over.opened
        else "not all parties had submitted, so that nothing was opened and nothing is spent"
    )
    return f"{sentence_of(over.code or Code.INTERNAL, over.party)}; it was at step {over.step}; {spent}"
