"""How an alignment's parcels look: a digest that binds each to its place in its session, a number, a body.

Between two parties the body is under AES-256-GCM, with a key for each direction, round and piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError
from colonnade.foundation.randomness import derive

_DIGEST = 16  # bytes that bind a parcel to its place: 128 bits
_HEAD = _DIGEST + 8  # the digest, and the parcel's number
SESSION_BYTES = 32  # 256 bits from the server: no two sessions are alike
PIECE = 1 << 20
"""Bytes of a body that go in one parcel."""
ROUNDS = ("greet", "choose", "matrix", "compare", "announce", "agree")
_NONCE = bytes(12)  # a key seals one piece only


@dataclass(frozen=True)
class Frame:
    """What both sides of an alignment know: the session and who takes part, in order."""

    session: bytes
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise AlignmentError(f"a session id must have {SESSION_BYTES} bytes, got {len(self.session)}")
        if len(self.parties) < 2 or SERVER in self.parties or len(set(self.parties)) < len(self.parties):
            raise AlignmentError(f"parties must be two or more with distinct names, got {list(self.parties)}")

    def seal(self, round: str, sender: str, recipient: str, body: bytes, number: int = 0) -> Parcel:
        return Parcel(recipient, self.head(round, sender, recipient, number) + body)

    def open(self, round: str, sender: str, recipient: str, payload: bytes) -> tuple[int, bytes]:
        """Number and body, once the parcel is known to belong here."""
        if round not in ROUNDS or sender not in (SERVER, *self.parties):
            raise MessageError(f"an alignment knows neither round {round!r} nor sender {sender!r}, or one of them")
        if len(payload) <= _HEAD:
            raise MessageError(f"a parcel of round {round!r} must exceed {_HEAD} bytes, got {len(payload)}")
        number = int.from_bytes(payload[_DIGEST:_HEAD], "big")
        if payload[:_HEAD] != self.head(round, sender, recipient, number):
            raise MessageError(
                f"a parcel of round {round!r} must be bound to this session, got another's from {sender!r}"
            )
        return number, payload[_HEAD:]

    def head(self, round: str, sender: str, recipient: str, number: int) -> bytes:
        digest = blake2b(self.session, digest_size=_DIGEST, person=b"colonnade/2 psi")
        for name in (round, sender, recipient, *self.parties):
            digest.update(len(name.encode()).to_bytes(4, "big") + name.encode())
        return digest.digest() + number.to_bytes(8, "big")


class Channel:
    """Both directions between two parties, under keys that nobody else has."""

    def __init__(self, frame: Frame, me: str, peer: str, secret: bytes, greetings: bytes) -> None:
        """`greetings` are those of both, in the parties' order: who was told others has other keys."""
        self._frame, self._me, self._peer = frame, me, peer
        places = sorted((frame.parties.index(me), frame.parties.index(peer)))
        told = blake2b(frame.session + greetings, digest_size=32).hexdigest()
        self._secret = derive(secret, f"alignment {places[0]} {places[1]} {told}")
        self._sent: dict[str, int] = {}

    def key(self, purpose: str) -> bytes:
        """A key that both ends share, for one purpose."""
        return derive(self._secret, purpose)

    def strengthen(self, secret: bytes) -> None:
        """From here on keys depend on a further secret that both ends share."""
        self._secret = derive(self._secret + secret, "alignment hybrid")

    def sealed(self, round: str, body: bytes) -> Iterator[Parcel]:
        """The body's next parcels of a round."""
        for start in range(0, len(body), PIECE):
            number = self._sent.get(round, 0)
            self._sent[round] = number + 1
            head = self._frame.head(round, self._me, self._peer, number)
            cipher = self._cipher(round, self._me, self._peer, number)
            yield Parcel(self._peer, head + cipher.encrypt(_NONCE, body[start : start + PIECE], head))

    def opened(self, round: str, number: int, body: bytes) -> bytes:
        """A piece that the peer sealed; raises MessageError for any other."""
        head = self._frame.head(round, self._peer, self._me, number)
        try:
            return self._cipher(round, self._peer, self._me, number).decrypt(_NONCE, body, head)
        except InvalidTag:
            raise MessageError(
                f"a parcel of round {round!r} must be sealed by {self._peer!r} for this place, got another"
            ) from None

    def _cipher(self, round: str, sender: str, recipient: str, number: int) -> AESGCM:
        places = (self._frame.parties.index(sender), self._frame.parties.index(recipient))
        return AESGCM(self.key(f"seal {places[0]} {places[1]} {round} {number}"))


class Inbox:
    """Bodies of known sizes that arrive from one sender, piece by piece and in order."""

    def __init__(self, what: str) -> None:
        self.what, self.bodies, self._next, self._held = what, 0, 0, 0
        self._pieces: list[bytes] = []

    def add(self, number: int, piece: bytes, size: int) -> bytes | None:
        """The body of this size, once it is there."""
        if number != self._next:
            raise MessageError(f"{self.what} must go on with piece {self._next}, got {number}")
        if self._held + len(piece) > size:
            raise MessageError(f"{self.what} must have {size} bytes next, got {self._held + len(piece)}")
        self._next += 1
        self._held += len(piece)
        self._pieces.append(piece)
        if self._held < size:
            return None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._held = [], 0
        self.bodies += 1
        return body


def as_count(what: str, body: bytes) -> int:
    if len(body) != 8:
        raise MessageError(f"{what} must have 8 bytes, got {len(body)}")
    return int.from_bytes(body, "big")


def party_of(parties: Sequence[str], sender: str) -> int:
    if sender not in parties:
        raise MessageError(f"the sender must be one of the parties {list(parties)}, got {sender!r}")
    return list(parties).index(sender)
