"""How an alignment's parcels look: a digest that binds each to its place in its session, an offset, a body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from colonnade.crypto.alignment.curve import LOW_ORDER, POINT_BYTES
from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError

_DIGEST = 16
_HEAD = _DIGEST + 8
SESSION_BYTES = 32


@dataclass(frozen=True)
class Frame:
    """What both sides of an alignment know: the session and who takes part, in ring order."""

    session: bytes
    parties: tuple[str, ...]
    rounds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise AlignmentError(f"a session id must have {SESSION_BYTES} bytes, got {len(self.session)}")
        if len(self.parties) < 2 or SERVER in self.parties or len(set(self.parties)) < len(self.parties):
            raise AlignmentError(f"parties must be two or more with distinct names, got {list(self.parties)}")
        hops = tuple(f"hop{j}" for j in range(1, len(self.parties) + 1))
        object.__setattr__(self, "rounds", ("greet", *hops, "compare", "agree"))

    def seal(self, round: str, sender: str, recipient: str, body: bytes, offset: int = 0) -> Parcel:
        return Parcel(recipient, self._binding(round, sender, recipient) + offset.to_bytes(8, "big") + body)

    def open(self, round: str, sender: str, recipient: str, payload: bytes) -> tuple[int, bytes]:
        """Offset and body, once the parcel is known to belong here."""
        if round not in self.rounds or sender not in (SERVER, *self.parties):
            raise MessageError(f"an alignment knows neither round {round!r} nor sender {sender!r}, or one of them")
        if len(payload) <= _HEAD:
            raise MessageError(f"a parcel of round {round!r} must exceed {_HEAD} bytes, got {len(payload)}")
        if payload[:_DIGEST] != self._binding(round, sender, recipient):
            raise MessageError(
                f"a parcel of round {round!r} must be bound to this session, got another's from {sender!r}"
            )
        return int.from_bytes(payload[_DIGEST:_HEAD], "big"), payload[_HEAD:]

    def _binding(self, round: str, sender: str, recipient: str) -> bytes:
        digest = blake2b(self.session, digest_size=_DIGEST, person=b"colonnade/1 psi")
        for name in (round, sender, recipient, *self.parties):
            digest.update(len(name.encode()).to_bytes(4, "big") + name.encode())
        return digest.digest()


class Pieces:
    """A body of known size that arrives piece by piece, in order."""

    def __init__(self, what: str, size: int, unit: int, keep: bool = True) -> None:
        self.what, self.size, self.unit, self.arrived, self._keep = what, size, unit, 0, keep
        self._pieces: list[bytes] = []

    @property
    def complete(self) -> bool:
        return self.arrived == self.size

    def add(self, offset: int, body: bytes) -> None:
        if len(body) % self.unit:
            raise MessageError(f"{self.what} must come in units of {self.unit} bytes, got {len(body)}")
        if offset != self.arrived or offset + len(body) > self.size:
            raise MessageError(
                f"{self.what} must go on at byte {self.arrived} of {self.size}, got {len(body)} bytes at {offset}"
            )
        if self._keep:
            self._pieces.append(body)
        self.arrived += len(body)

    def whole(self) -> bytes:
        return b"".join(self._pieces)


def split_points(points: bytes) -> list[bytes]:
    """The points one by one."""
    return [points[i : i + POINT_BYTES] for i in range(0, len(points), POINT_BYTES)]


def check_points(what: str, points: bytes) -> None:
    """Refuse a list that no honest party sends: points not canonical, of low order, or sent twice."""
    words = np.frombuffer(points, dtype="<u8").reshape(-1, 4)
    full = np.uint64(2**64 - 1)
    prime = (words[:, 3] == full >> np.uint64(1)) & (words[:, 1] == full) & (words[:, 2] == full)
    wrong = (words[:, 3] > full >> np.uint64(1)) | (prime & (words[:, 0] >= full - np.uint64(18)))
    if wrong.any():
        raise MessageError(f"points of {what} must be below 2^255 - 19, got {int(wrong.sum())} that are not")
    distinct = set(split_points(points))
    if low := len(distinct & LOW_ORDER):
        raise MessageError(f"points of {what} must not be of low order, got {low}")
    if repeated := len(words) - len(distinct):
        raise MessageError(f"points of {what} must be distinct, got {repeated} repeated")


def as_count(what: str, body: bytes) -> int:
    if len(body) != 8:
        raise MessageError(f"{what} must have 8 bytes, got {len(body)}")
    return int.from_bytes(body, "big")


def party_of(parties: Sequence[str], sender: str) -> int:
    if sender not in parties:
        raise MessageError(f"the sender must be one of the parties {list(parties)}, got {sender!r}")
    return list(parties).index(sender)
