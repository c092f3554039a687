"""Another way to the same intersection, as a cross-check: every id under all parties' secrets, by X25519 in a ring.

Party k's list goes round under a blind, each other party multiplies it by its secret, and at home the own secret takes
the blind's place: each then has F(id) = [s_1 ... s_K] H(id) for its own ids. Here the final points are simply compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.crypto.alignment.curve25519 import POINT_BYTES, field_elements, map_to_curve
from colonnade.foundation.randomness import Randomness

ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point: RFC 7748, section 4.1."""
SHORTEST = 1 << 251  # an eighth of the smallest clamped scalar; the largest is under twice that


def raise_points(scalar: bytes, points: Sequence[bytes]) -> list[bytes]:
    """Each point times one clamped scalar."""
    exchange = X25519PrivateKey.from_private_bytes(scalar).exchange
    return [exchange(X25519PublicKey.from_public_bytes(point)) for point in points]


def hash_points(ids: Sequence[str], tag: bytes) -> list[bytes]:
    raw = map_to_curve(field_elements([one.encode() for one in ids], tag))
    return [raw[i : i + POINT_BYTES] for i in range(0, len(raw), POINT_BYTES)]


def quotient(secret: bytes, blind: bytes) -> bytes | None:
    """The scalar that turns a multiple by `blind` into one by `secret`, up to sign, or None if no clamped one does."""
    ratio = _clamped(secret) * pow(8 * _clamped(blind), -1, ORDER) % ORDER
    for eighth in (ratio, ORDER - ratio):
        if SHORTEST <= eighth < 2 * SHORTEST:
            return (8 * eighth).to_bytes(POINT_BYTES, "little")
    return None


def ring(ids: Mapping[str, Sequence[str]], randomness: Randomness) -> dict[str, list[int]]:
    """Each party's rows of the common ids, in the order of a hash of their final points."""
    session, names = randomness.bytes(32), list(ids)
    secrets = [randomness.bytes(32) for _ in names]
    final: dict[str, list[bytes]] = {}
    for k, name in enumerate(names):
        last = None
        while last is None:
            blind = randomness.bytes(32)
            last = quotient(secrets[k], blind)
        points = raise_points(blind, hash_points(ids[name], session))
        for other in secrets[:k] + secrets[k + 1 :]:
            points = raise_points(other, points)
        final[name] = raise_points(last, points)
    common = sorted(set.intersection(*map(set, final.values())), key=lambda point: blake2b(point).digest())
    return {name: [points.index(point) for point in common] for name, points in final.items()}


def _clamped(scalar: bytes) -> int:
    """RFC 7748, section 5: the integer that X25519 multiplies by."""
    return (int.from_bytes(scalar, "little") & ((1 << 254) - 8)) | (1 << 254)
