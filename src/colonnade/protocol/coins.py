"""What a party binds itself to before anything else: its seed, its data, and a coin for everybody's randomness.

Each party commits to a seed, a coin and its data, then all reveal their coins. A party's randomness in the session
comes from its seed, all coins and the session's id: nobody can steer its own noise or keys, and whoever is shown the
seed later can make every message of the party again, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from colonnade.crypto.product import Parcel
from colonnade.foundation.errors import MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness, derive

SECRET_BYTES = 32
COMMIT, REVEAL, BIND = "commit", "reveal", "bind"
ROUNDS = (COMMIT, REVEAL)


def hashed(label: str, *parts: bytes) -> bytes:
    """SHA-256 of parts behind their lengths, so that the whole has one reading."""
    digest = hashlib.sha256(b"colonnade/2 " + label.encode() + b"\0")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


class Commitment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party is bound to; nothing can be read from it."""

    seed: bytes
    coin: bytes
    ids: bytes
    data: bytes


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

    def commit(self, session: bytes, party: str, ids: bytes, data: bytes) -> Commitment:
        """To this opening, and to digests of the party's id list and of its data."""
        name = party.encode()
        return Commitment(
            hashed("seed", session, name, self.seed),
            hashed("coin", session, name, self.coin),
            self.bind("ids", session, ids),
            self.bind("data", session, data),
        )

    def bind(self, what: str, session: bytes, value: bytes) -> bytes:
        """A salted digest: data of few possible values cannot be guessed from it."""
        return hashed(f"bound {what}", session, self.salt, value)

    def source(self, session: bytes, coins: Sequence[bytes], simulated: bool) -> Randomness:
        """All that the party draws in the session."""
        secret = derive(hashed("joint seed", session, self.seed, *coins), "accountable session")
        return Randomness.derived(secret, simulated)


class Coins:
    """One party's side of the exchange that comes before all others."""

    def __init__(self, session: bytes, party: str, parties: Sequence[str], opening: Opening, own: Commitment) -> None:
        self._session, self._party, self._parties = session, party, tuple(parties)
        self._opening = opening
        self.commitments: dict[str, Commitment] = {party: own}
        self.coins: dict[str, bytes] = {party: opening.coin}
        self._revealed = False

    def send(self, round: str) -> Iterator[Parcel]:
        if round == REVEAL and len(self.commitments) < len(self._parties):
            raise ProtocolError("coins are revealed once all parties have committed")
        if round not in ROUNDS:
            raise ProtocolError(f"coins have the rounds {', '.join(ROUNDS)}, got {round!r}")
        self._revealed = self._revealed or round == REVEAL
        own = _encoder.encode(self.commitments[self._party]) if round == COMMIT else self._opening.coin
        return iter([Parcel(peer, own) for peer in self._parties if peer != self._party])

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a peer's commitment, or its coin, which must be the one that it committed to."""
        if sender not in self._parties or sender == self._party:
            raise MessageError(f"a commitment must come from a peer, got one from {sender!r}")
        if round == COMMIT and sender not in self.commitments and not self._revealed:
            try:
                self.commitments[sender] = _decoder.decode(payload)
            except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
                raise MessageError(f"the commitment of {sender} cannot be decoded") from None
            return
        known = self.commitments.get(sender)
        if round != REVEAL or sender in self.coins or known is None:
            raise MessageError(f"a parcel of round {round!r} of {sender} comes out of turn")
        if hashed("coin", self._session, sender.encode(), payload) != known.coin:
            raise MessageError(f"the coin of {sender} is not the one that it committed to")
        self.coins[sender] = payload

    @property
    def complete(self) -> bool:
        """Whether all coins are there, and this party's own is out."""
        return self._revealed and len(self.coins) == len(self._parties)

    def source(self, simulated: bool) -> Randomness:
        """This party's randomness from here on."""
        return self._opening.source(self._session, [self.coins[name] for name in self._parties], simulated)


class CoinsServer:
    """The server's side: it relays, and says when all have revealed, behind every signature of the round."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._parties = tuple(parties)

    def send(self, round: str) -> Iterator[Parcel]:
        return iter([Parcel(name, b"") for name in self._parties if round == REVEAL])

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        raise MessageError(f"a parcel of round {round!r} is for peers, and {sender} sends the server one")
