"""Points of Curve25519 for base transfers: hashed to, added, and multiplied by secrets through X25519.

A hash becomes a point by the suite curve25519_XMD:SHA-512_ELL2_NU_ of RFC 9380, but that of the two points with its u
the one with even v is taken. Eight times that point lies in the subgroup of prime order.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha512
from itertools import accumulate

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from gmpy2 import legendre, mpz, powmod

from colonnade.foundation.errors import MessageError

PRIME = 2**255 - 19  # of the field (RFC 7748)
POINT_BYTES = 32  # u in 255 bits, and the sign of v

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

Point = tuple[mpz, mpz]

_J = 486662  # Curve25519's A (RFC 7748)
_FIELD_BYTES = 48  # RFC 9380: the field's 255 bits and 128 more, so that the remainder is uniform
_P, _JJ = mpz(PRIME), mpz(_J * _J)
_MINUS_J = int(legendre(-_J, PRIME))
_ROOT = mpz(pow(2, (PRIME - 1) // 4, PRIME))  # of -1
_SIGN = 1 << 255  # the bit that u leaves free
_DOUBLINGS = 3  # the cofactor is 8


def field_elements(messages: Sequence[bytes], tag: bytes) -> list[mpz]:
    """hash_to_field of RFC 9380 with expand_message_xmd and SHA-512, one element a message."""
    suffix = tag + bytes([len(tag)])
    head, tail, one = bytes(128), _FIELD_BYTES.to_bytes(2, "big") + b"\0" + suffix, b"\1" + suffix
    digests = [sha512(sha512(head + message + tail).digest() + one).digest() for message in messages]
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


def hash_to_group(messages: Sequence[bytes], tag: bytes) -> list[Point]:
    """A point of the subgroup for each message."""
    mapped = map_to_curve(field_elements(messages, tag))
    starts = range(0, len(mapped), POINT_BYTES)
    points = [lift(mpz.from_bytes(mapped[i : i + POINT_BYTES], "little"), 0) for i in starts]
    for _ in range(_DOUBLINGS):
        points = _doubled(points)
    return points


def multiply(key: X25519PrivateKey, point: bytes) -> bytes:
    """The u-coordinate of a multiple of the point with this one; its bit 255 is not looked at."""
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(point))
    except ValueError as error:
        raise MessageError("a point of a base transfer must not be of low order, got one that vanishes") from error


def lift(u: mpz, odd: int) -> Point:
    """The point with this u and a v of this parity; raises MessageError where the curve has none."""
    square = ((u + _J) * u + 1) * u % _P
    root = powmod(square, (PRIME + 3) // 8, _P)
    if root * root % _P != square:
        root = root * _ROOT % _P
    if root * root % _P != square:
        raise MessageError("a point of a base transfer must lie on the curve, got one of its twist")
    # Without a branch on the parity, which may be secret.
    wrong = (root & 1) ^ odd
    return u, root + wrong * (_P - 2 * root)


def add(left: Sequence[Point], right: Sequence[Point]) -> list[Point]:
    """Sums of points, one division in all; raises MessageError for two points with one u."""
    try:
        inverses = _inverses([(b[0] - a[0]) % _P for a, b in zip(left, right, strict=True)])
    except (ValueError, ZeroDivisionError):
        raise MessageError("points of a base transfer must differ from their hashes, got one that does not") from None
    sums = []
    for (u, v), (x, y), inverse in zip(left, right, inverses, strict=True):
        slope = (y - v) * inverse % _P
        w = (slope * slope - _J - u - x) % _P
        sums.append((w, (slope * (u - w) - v) % _P))
    return sums


def _doubled(points: Sequence[Point]) -> list[Point]:
    """Twice each point; none that a hash leads to is of low order but for a chance of 2^-250."""
    inverses = _inverses([2 * v % _P for _, v in points])
    twice = []
    for (u, v), inverse in zip(points, inverses, strict=True):
        slope = ((3 * u + 2 * _J) * u + 1) * inverse % _P
        w = (slope * slope - _J - 2 * u) % _P
        twice.append((w, (slope * (u - w) - v) % _P))
    return twice


def negative(points: Sequence[Point]) -> list[Point]:
    return [(u, _P - v) for u, v in points]


def compress(points: Sequence[Point]) -> bytes:
    """32 bytes a point: u, and the parity of v in the highest bit."""
    return b"".join([(u + (v & 1) * _SIGN).to_bytes(POINT_BYTES, "little") for u, v in points])


def decompress(raw: bytes) -> list[Point]:
    """The points again; raises MessageError for what is no point of the curve, or not in its one form."""
    points = []
    for i in range(0, len(raw), POINT_BYTES):
        value = mpz.from_bytes(raw[i : i + POINT_BYTES], "little")
        u, odd = value % _SIGN, value // _SIGN
        if u >= _P:
            raise MessageError("a point of a base transfer must be below 2^255 - 19, got one that is not")
        points.append(lift(u, int(odd)))
    return points


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
