"""Frames between a party's process and the server's: requests and replies, with a message of the protocol in them.

A party asks and the server answers: a party pushes its messages one by one and pulls the server's one by one, each
under a number, so that a request whose answer was lost is asked again and done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from colonnade.foundation.errors import MessageError
from colonnade.protocol.messages import LARGEST

LARGEST_FRAME = LARGEST + (1 << 16)  # a message, and what wraps it
INSTANCE_BYTES = 16  # 128 bits: no two processes of a party are alike
URGENT = 0
"""The number of a message that overtakes others; it may be repeated."""


class Rejection(StrEnum):
    """Why a process is not let into a session."""

    TWICE = "name-twice"
    STRANGER = "unknown-party"


class Send(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One message to the server; under number 0 it overtakes what waits there."""

    instance: bytes
    number: int
    item: bytes


class Poll(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The next message, please; all up to `taken` have come."""

    instance: bytes
    taken: int


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The party is alive, and how far it is."""

    instance: bytes
    step: str
    share: float


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Done."""


class Wait(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Nothing yet, or no room yet: ask again."""


class Delivery(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """One message to the party; under number 0 it overtakes what waits for it, and may answer a push."""

    number: int
    item: bytes


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The process is not let in."""

    why: Rejection


Request = Send | Poll | Heartbeat
Reply = Ack | Wait | Delivery | Rejected
_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
F = TypeVar("F")


def encode(frame: Request | Reply) -> bytes:
    return _encoder.encode(frame)


def decode_request(data: bytes) -> Request:
    return _decoded(_requests, data, "a request")


def decode_reply(data: bytes) -> Reply:
    return _decoded(_replies, data, "a reply")


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
class Timeouts:
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


@dataclass
class Traffic:
    """Bytes that each party sent and received."""

    sent: dict[str, int]
    received: dict[str, int]
