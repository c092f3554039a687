"""Oblivious transfers of seeds: one side gets two seeds each, the other the one that its secret bit says.

Masny and Rindal (Endemic Oblivious Transfer, 2019) over X25519: for a bit c the receiver draws r_(1-c), and sends it
with r_c = B - H(r_(1-c)) for a key B = bG of its own. The sender, whose key A = aG is known, takes a(r_0 + H(r_1)) and
a(r_1 + H(r_0)); the receiver knows b A, which is one of the two. (r_0, r_1) are two uniform points whatever c is.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from gmpy2 import mpz
from numpy.typing import NDArray

from colonnade.crypto.alignment.code import LENGTH
from colonnade.crypto.alignment.curve25519 import (
    LOW_ORDER,
    POINT_BYTES,
    add,
    compress,
    decompress,
    hash_to_group,
    lift,
    multiply,
    negative,
)
from colonnade.foundation.errors import MessageError
from colonnade.foundation.randomness import Randomness

COUNT = LENGTH
"""Transfers of a matching, one for each column of its code; products of several owners have their own number."""
SEED_BYTES = 32  # 256 bits, a key of the stream cipher
PAIR_BYTES = 2 * POINT_BYTES
"""What a receiver sends for each transfer: r_0 and r_1."""
CHOICE_BYTES = PAIR_BYTES * COUNT
_TAG = b"colonnade/1 base transfer"

Bits = NDArray[np.uint8]


class BaseSender:
    """Draws one key a session, which all receivers may see."""

    def __init__(self, randomness: Randomness) -> None:
        self._key = X25519PrivateKey.from_private_bytes(randomness.bytes(POINT_BYTES))
        self.public = self._key.public_key().public_bytes_raw()

    def seeds(self, context: bytes, choices: bytes) -> tuple[list[bytes], list[bytes]]:
        """Both seeds of each transfer, from what the receiver sent."""
        pairs, count = _split(choices), len(choices) // PAIR_BYTES
        first, second = decompress(b"".join(pairs[0::2])), decompress(b"".join(pairs[1::2]))
        for_first = add(first, _hashes(context, pairs[1::2], np.zeros(count, np.uint8)))
        for_second = add(second, _hashes(context, pairs[0::2], np.ones(count, np.uint8)))
        keys = [[multiply(self._key, _flat(u)) for u, _ in points] for points in (for_first, for_second)]
        zeros, ones = (_seeds(context, np.full(count, slot, np.uint8), choices, keys[slot]) for slot in range(2))
        return zeros, ones


class BaseReceiver:
    """Asks for one seed of each transfer by secret bits, one for each."""

    def __init__(self, context: bytes, public: bytes, bits: Bits, randomness: Randomness) -> None:
        check_public(public)
        count = len(bits)
        raw = randomness.bytes(2 * count * POINT_BYTES)
        keys = [X25519PrivateKey.from_private_bytes(part) for part in _split(raw)]
        signs = np.unpackbits(np.frombuffer(randomness.bytes(2 * count // 8), np.uint8))
        # X25519's clamped multiples of the base point, with a random sign, are uniform but for 2^-125.
        points = [
            lift(mpz.from_bytes(key.public_key().public_bytes_raw(), "little"), int(sign))
            for key, sign in zip(keys, signs, strict=True)
        ]
        other = compress(points[count:])
        mine = compress(add(points[:count], negative(_hashes(context, _split(other), bits))))
        self.choices = ordered(mine, other, bits)
        self.seeds = _seeds(context, bits, self.choices, [multiply(key, public) for key in keys[:count]])


def check_public(public: bytes) -> None:
    """Raise MessageError for a sender's key that is no point of the curve, or of low order."""
    if public in LOW_ORDER:
        raise MessageError("a key of base transfers must not be of low order, got one that is")
    decompress(public)


def ordered(mine: bytes, other: bytes, bits: Bits) -> bytes:
    """For each bit, the own item at its place and the other one at the other, chosen by masks."""
    own, rest = (np.frombuffer(raw, np.uint8).reshape(len(bits), -1) for raw in (mine, other))
    swap = (own ^ rest) & (-bits)[:, None]
    return np.concatenate([own ^ swap, rest ^ swap], axis=1).tobytes()


def _hashes(context: bytes, points: list[bytes], slots: Bits) -> list[tuple[mpz, mpz]]:
    """H, another function for each transfer and place."""
    places = enumerate(zip(slots.tolist(), points, strict=True))
    return hash_to_group([context + j.to_bytes(2, "big") + bytes([slot]) + r for j, (slot, r) in places], _TAG)


def _seeds(context: bytes, slots: Bits, choices: bytes, keys: list[bytes]) -> list[bytes]:
    sent = _split(choices, PAIR_BYTES)
    places = enumerate(zip(slots.tolist(), sent, keys, strict=True))
    return [
        blake2b(context + j.to_bytes(2, "big") + bytes([slot]) + r + key, digest_size=SEED_BYTES).digest()
        for j, (slot, r, key) in places
    ]


def _split(raw: bytes, size: int = POINT_BYTES) -> list[bytes]:
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def _flat(u: mpz) -> bytes:
    return bytes(u.to_bytes(POINT_BYTES, "little"))
