"""What a party binds itself to before anything else: its seed, its data, and a coin for everybody's randomness.

Each party commits to a seed, a coin and its data, then all reveal their coins. A party's randomness in the session
comes from its seed, all coins and the server's id: nobody can steer its own noise or keys, and whoever is shown the
seed later can make every message of the party again, bit for bit. The session's own id comes from all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import BrokenError, MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness, derive
from colonnade.protocol.messages import SOFTWARE

SECRET_BYTES = 32  # 256 bits
COMMIT, REVEAL, BIND = "commit", "reveal", "bind"
ROUNDS = (COMMIT, REVEAL)


class RunningHash:
    """SHA-256 of parts behind their lengths, so that the whole has one reading."""

    def __init__(self, label: str) -> None:
        self._digest = hashlib.sha256(b"colonnade/2 " + label.encode() + b"\0")

    def add(self, part: bytes) -> None:
        self._digest.update(len(part).to_bytes(8, "big"))
        self._digest.update(part)

    def value(self) -> bytes:
        return self._digest.digest()


def hashed(label: str, *parts: bytes) -> bytes:
    """The same of parts that are at hand."""
    running = RunningHash(label)
    for part in parts:
        running.add(part)
    return running.value()


class Commitment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party is bound to; nothing can be read from it."""

    seed: bytes
    coin: bytes
    ids: bytes
    data: bytes
    software: str
    """By which an auditor makes its messages again."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Commitment)


@dataclass(frozen=True, repr=False)
class Opening:
    """What a party shows to be audited: whoever has it can draw all that the party drew."""

    seed: bytes
    coin: bytes
    salt: bytes

    @classmethod
    def draw(cls, randomness: Randomness) -> Opening:
        return cls(*(randomness.bytes(SECRET_BYTES) for _ in range(3)))

    def commit(self, session: bytes, party: str, ids: bytes, data: bytes, software: str) -> Commitment:
        """To this opening, and to digests of the party's id list and of its data."""
        name = party.encode()
        return Commitment(
            hashed("seed", session, name, self.seed),
            hashed("coin", session, name, self.coin),
            self.bind("ids", session, ids),
            self.bind("data", session, data),
            software,
        )

    def bind(self, what: str, session: bytes, value: bytes) -> bytes:
        """A salted digest: data of few possible values cannot be guessed from it."""
        return hashed(f"bound {what}", session, self.salt, value)

    def source(self, session: bytes, coins: Sequence[bytes], simulated: bool) -> Randomness:
        """All that the party draws in the session."""
        secret = derive(hashed("joint seed", session, self.seed, *coins), "accountable session")
        return Randomness.derived(secret, simulated)


class Coins:
    """What all parties commit to and reveal, as the server hears it; the session's id comes from it."""

    def __init__(self, server: bytes, parties: Sequence[str]) -> None:
        self._server, self._parties = server, tuple(parties)
        self.commitments: dict[str, Commitment] = {}
        self.coins: dict[str, bytes] = {}

    def send(self, round: str) -> Iterator[Parcel]:
        """Behind every signature of the round."""
        return iter([Parcel(name, b"") for name in self._parties if round == REVEAL])

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a party's commitment, or its coin, which must be the one that it committed to."""
        if sender not in self._parties:
            raise MessageError(f"a commitment must come from a party of the session, got one from {sender!r}")
        known = self.commitments.get(sender)
        if round == COMMIT and known is None:
            try:
                made = _decoder.decode(payload)
                if SOFTWARE.fullmatch(made.software) is None:
                    raise ValueError
                self.commitments[sender] = made
            except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
                raise MessageError(f"the commitment of {sender} cannot be decoded") from None
            return
        if round != REVEAL or sender in self.coins or known is None:
            raise MessageError(f"a parcel of round {round!r} of {sender} comes out of turn")
        if hashed("coin", self._server, sender.encode(), payload) != known.coin:
            raise MessageError(f"the coin of {sender} is not the one that it committed to")
        self.coins[sender] = payload

    def require_from(self, round: str, sender: str) -> None:
        """Raise where a party that says it is done has not sent its commitment, or its coin."""
        if sender not in (self.commitments if round == COMMIT else self.coins):
            raise ProtocolError(f"party {sender} ends round {round}, and has sent the server nothing of it")

    @property
    def complete(self) -> bool:
        return len(self.coins) == len(self._parties)

    @property
    def session(self) -> bytes:
        """The session's id from here on. All had a part in it, so that nobody chose it, and none has it twice."""
        if not self.complete:
            raise BrokenError("a session must have its id of coins that all parties have revealed")
        parts: list[bytes] = []
        for name in self._parties:
            made = self.commitments[name]
            parts += (
                name.encode(),
                made.seed,
                made.coin,
                made.ids,
                made.data,
                made.software.encode(),
                self.coins[name],
            )
        return hashed("session", self._server, *parts)


class PartyCoins(Coins):
    """One party's side of the exchange that comes before all others."""

    def __init__(self, server: bytes, party: str, parties: Sequence[str], opening: Opening, own: Commitment) -> None:
        super().__init__(server, parties)
        self._party, self._opening = party, opening
        self.commitments[party], self.coins[party] = own, opening.coin
        self._revealed = False

    def send(self, round: str) -> Iterator[Parcel]:
        """To all others and to the server."""
        if round == REVEAL and len(self.commitments) < len(self._parties):
            raise ProtocolError("coins are revealed once all parties have committed")
        if round not in ROUNDS:
            raise ProtocolError(f"coins have the rounds {', '.join(ROUNDS)}, got {round!r}")
        self._revealed = self._revealed or round == REVEAL
        own = _encoder.encode(self.commitments[self._party]) if round == COMMIT else self._opening.coin
        return iter([Parcel(name, own) for name in (*self._parties, SERVER) if name != self._party])

    @property
    def complete(self) -> bool:
        """Whether all coins are there, and this party's own is out."""
        return self._revealed and super().complete

    def source(self, simulated: bool) -> Randomness:
        """This party's randomness from here on."""
        return self._opening.source(self._server, [self.coins[name] for name in self._parties], simulated)
