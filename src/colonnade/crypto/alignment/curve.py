"""Ids to points of Curve25519, and points to secret multiples, many at a time.

An id becomes a point by the suite curve25519_XMD:SHA-512_ELL2_NU_ of RFC 9380, without its last step: X25519 clears the
cofactor itself, for every clamped scalar is a multiple of 8. Elligator 2 ends on the curve and never on its twist, so
a raised point does not even show on which of the two an id fell, and one scalar modulo ORDER undoes another.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha512
from itertools import accumulate

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from gmpy2 import legendre, mpz

from colonnade.foundation.errors import MessageError

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point: RFC 7748, section 4.1."""
POINT_BYTES = 32

LOW_ORDER = frozenset(
    u.to_bytes(POINT_BYTES, "little")
    for u in (
        0,
        1,
        PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
)
"""The u-coordinates that every clamped scalar takes to zero: Bernstein, cr.yp.to/ecdh.html, "How do I validate"."""

_J = 486662
_FIELD_BYTES = 48  # RFC 9380: the field's 255 bits and 128 more, so that the remainder is uniform
_P, _JJ = mpz(PRIME), mpz(_J * _J)
_MINUS_J = int(legendre(-_J, PRIME))
_SHORTEST = 1 << 251  # an eighth of the smallest clamped scalar; the largest is under twice that


def field_elements(ids: Sequence[bytes], tag: bytes) -> list[mpz]:
    """hash_to_field of RFC 9380 with expand_message_xmd and SHA-512, one element an id."""
    suffix = tag + bytes([len(tag)])
    head, tail, one = bytes(128), _FIELD_BYTES.to_bytes(2, "big") + b"\0" + suffix, b"\1" + suffix
    digests = [sha512(sha512(head + name + tail).digest() + one).digest() for name in ids]
    return [mpz.from_bytes(digest[:_FIELD_BYTES], "big") % _P for digest in digests]


def map_to_curve(elements: Sequence[mpz]) -> bytes:
    """Elligator 2 of RFC 9380, section 6.7.1, with Z = 2: the u-coordinates, little-endian, one after another."""
    # 1 + 2r^2 is never zero, because -1/2 is no square modulo PRIME.
    denominators = [(1 + 2 * r * r) % _P for r in elements]
    # The symbol of g(-J/w) is that of w^4 g(-J/w) = -J w (w^2 - J^2 w + J^2): no division is needed to know it.
    symbols = [legendre(w * (w * (w - _JJ) + _JJ) % _P, _P) for w in denominators]
    inverses = _inverses(denominators)
    points = [(-_J * v if s == _MINUS_J else _J * v - _J) % _P for v, s in zip(inverses, symbols, strict=True)]
    return b"".join([u.to_bytes(POINT_BYTES, "little") for u in points])


def _inverses(values: Sequence[mpz]) -> list[mpz]:
    """All inverses modulo PRIME with one division (Montgomery's trick)."""
    prefixes = list(accumulate(values, lambda product, value: product * value % _P, initial=mpz(1)))
    inverse = pow(prefixes.pop(), -1, _P)
    out = []
    for value, prefix in zip(reversed(values), reversed(prefixes), strict=True):
        out.append(prefix * inverse % _P)
        inverse = inverse * value % _P
    out.reverse()
    return out


def raise_points(scalar: bytes, points: bytes) -> bytes:
    """Each point times one clamped scalar."""
    exchange = X25519PrivateKey.from_private_bytes(scalar).exchange
    load = X25519PublicKey.from_public_bytes
    try:
        return b"".join([exchange(load(points[i : i + POINT_BYTES])) for i in range(0, len(points), POINT_BYTES)])
    except ValueError as error:
        raise MessageError("a point of an alignment list must not be of low order, got one that vanishes") from error


def hash_and_raise(scalar: bytes, ids: Sequence[bytes], tag: bytes) -> bytes:
    """Each id's point times one clamped scalar: the only form in which an id leaves its party."""
    return raise_points(scalar, map_to_curve(field_elements(ids, tag)))


def quotient(secret: bytes, blind: bytes) -> bytes | None:
    """The scalar that turns a multiple by `blind` into one by `secret`, up to sign, or None if no clamped scalar does.

    Signs do not show on u-coordinates, so one of m and ORDER - m will do, and one of them is in the clamped range
    but for a probability of 2^-127.
    """
    ratio = _clamped(secret) * pow(8 * _clamped(blind), -1, ORDER) % ORDER
    for eighth in (ratio, ORDER - ratio):
        if _SHORTEST <= eighth < 2 * _SHORTEST:
            return (8 * eighth).to_bytes(POINT_BYTES, "little")
    return None


def _clamped(scalar: bytes) -> int:
    """RFC 7748, section 5: the integer that X25519 multiplies by."""
    return (int.from_bytes(scalar, "little") & ((1 << 254) - 8)) | (1 << 254)
