"""The linear code that spreads an id's message over the OPRF's columns: extended BCH, length 512, dimension 85.

The BCH code of length 511 whose words vanish at a^1 .. a^126, for a root a of x^9 + x^4 + 1, has distance 127 at least
(BCH bound) and dimension 85; one parity bit makes every weight even, hence the distance 128. Bit k of a message stands
for x^k times the generator polynomial; the parity is bit 511.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment.kernels import SUMS, AlignmentKernels
from colonnade.crypto.product import Words
from colonnade.foundation.errors import MessageError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Stream

Bytes = NDArray[np.uint8]

BYTE = 256  # values of a byte, by which subset sums are looked up
LENGTH = 512  # the BCH code of length 511 with a parity bit
DIMENSION = 85  # dimension of the BCH code: bits of an id's message
DISTANCE = 128  # of two codewords, at least: by it the partner's key is hidden (proofs/alignment.md)
MESSAGE_BYTES = 11  # whole bytes of DIMENSION bits
HIGH = np.uint64((1 << (DIMENSION - 64)) - 1)
"""The bits of a message in its second word."""

_ORDER = 511  # 2^9 - 1: nonzero elements of the field
_FIELD = 0b1000010001  # x^9 + x^4 + 1, which is primitive
_BLOCK = 256  # words of a column that are worked on at once: their subset sums stay in the cache


def generator_polynomial() -> int:
    """The product of the minimal polynomials of a^1 .. a^126; bit k is the coefficient of x^k."""
    powers = [1]
    for _ in range(_ORDER - 1):
        shifted = powers[-1] << 1
        powers.append(shifted ^ _FIELD if shifted >> 9 else shifted)
    logs = {value: i for i, value in enumerate(powers)}
    product, roots = 1, set[int]()
    for first in range(1, DISTANCE - 1, 2):
        if first in roots:
            continue
        conjugates = [first]
        while (after := conjugates[-1] * 2 % _ORDER) != first:
            conjugates.append(after)
        roots.update(conjugates)
        minimal = [1]
        for root in conjugates:  # times x + a^root, lowest coefficient first
            scaled = [powers[(logs[c] + root) % _ORDER] if c else 0 for c in minimal]
            minimal = [a ^ b for a, b in zip([0, *minimal], [*scaled, 0], strict=True)]
        product = _times(product, sum(bit << k for k, bit in enumerate(minimal)))
    return product


def _times(left: int, right: int) -> int:
    """The product of two polynomials over GF(2)."""
    out = 0
    while right:
        low = right & -right
        out ^= left * low
        right ^= low
    return out


@cache
def generator_rows() -> Words:
    """The codewords of the 85 unit messages, eight words each."""
    generator = generator_polynomial()
    words = [generator << k for k in range(DIMENSION)]
    words = [word | (word.bit_count() & 1) << _ORDER for word in words]
    return np.frombuffer(b"".join(word.to_bytes(LENGTH // 8, "little") for word in words), "<u8").reshape(-1, 8)


@cache
def byte_sums() -> Words:
    """[i, b]: the codeword of the message whose byte i is b and whose other bytes are zero."""
    sums = np.zeros((MESSAGE_BYTES, BYTE, 8), np.uint64)
    for k, row in enumerate(generator_rows()):
        i, j = divmod(k, 8)
        sums[i, 1 << j : 2 << j] = sums[i, : 1 << j] ^ row
    # Bits beyond the dimension stand for nothing.
    width = 1 << (DIMENSION % 8)
    for start in range(width, BYTE, width):
        sums[-1, start : start + width] = sums[-1, :width]
    return sums


@cache
def _chosen() -> Bytes:
    """[j, i]: which bits of a message's byte i are summed in bit j of its codeword."""
    bits = np.unpackbits(generator_rows().view(np.uint8), axis=1, bitorder="little")
    whole = np.zeros((8 * MESSAGE_BYTES, LENGTH), np.uint8)
    whole[:DIMENSION] = bits
    packed: Bytes = np.packbits(whole, axis=0, bitorder="little")
    return np.ascontiguousarray(packed.T)


def encode_columns(columns: Words) -> Words:
    """The 512 columns of codewords from the 88 columns of their messages; bit r of a column belongs to message r."""
    width = columns.shape[1]
    out = np.zeros((LENGTH, width), np.uint64)
    chosen = _chosen()
    for start in range(0, width, _BLOCK):
        part, goal = columns[:, start : start + _BLOCK], out[:, start : start + _BLOCK]
        sums = np.zeros((BYTE, part.shape[1]), np.uint64)
        for i in range(MESSAGE_BYTES):
            for j in range(8):
                np.bitwise_xor(sums[: 1 << j], part[8 * i + j], out=sums[1 << j : 2 << j])
            goal ^= np.take(sums, chosen[:, i], axis=0)
    return out


def pack(messages: Words) -> bytes:
    """Messages in 11 bytes each."""
    return np.ascontiguousarray(messages).view(np.uint8).reshape(-1, 16)[:, :MESSAGE_BYTES].tobytes()


def unpack(raw: bytes) -> Words:
    """The messages again; the bits beyond the dimension are not looked at."""
    out = np.zeros((len(raw) // MESSAGE_BYTES, 16), np.uint8)
    out[:, :MESSAGE_BYTES] = np.frombuffer(raw, np.uint8).reshape(-1, MESSAGE_BYTES)
    messages: NDArray[np.uint64] = out.view(np.uint64)
    messages[:, 1] &= HIGH
    return messages


PROOF_BYTES = SUMS * (MESSAGE_BYTES + LENGTH // 8)  # for each sum its message and its row


def challenge_of(matrix: Words, context: bytes, number: int) -> Words:
    """128 bits for each row, from the matrix and where it belongs."""
    digest = blake2b(context + number.to_bytes(8, "big"), digest_size=32)
    digest.update(matrix.data)
    return Stream(digest.digest()).words(128 * matrix.shape[1]).reshape(-1, 2)


def prove(messages: Words, rows: Words, challenge: Words, kernels: AlignmentKernels) -> bytes:
    """The sums of message rows, and of the rows that their sender holds."""
    sums = kernels.combine(np.concatenate([messages, rows], axis=1), challenge)
    return pack(sums[:, :2]) + sums[:, 2:].tobytes()


@proven("alignment")
def verify(rows: Words, key: Words, challenge: Words, proof: bytes, kernels: AlignmentKernels) -> None:
    """Raise MessageError unless the sums fit the rows that the receiver of the matrix holds, under its key.

    Domain: `proof` as it came, of any bytes; `challenge` a hash of the matrix.
    Unit: bits: 128 sums of rows and of messages.
    Guarantee: a matrix whose rows are no codewords in e columns passes with chance 2^-e at most, and 2^-124
        besides. Proof: alignment, 2.
    """
    cut = SUMS * MESSAGE_BYTES
    messages, wanted = unpack(proof[:cut]), np.frombuffer(proof[cut:], np.uint64).reshape(SUMS, -1).copy()
    kernels.add_bytes(wanted, byte_sums() & key, messages.view(np.uint8).reshape(SUMS, -1))
    if (kernels.combine(rows, challenge) != wanted).any():
        raise MessageError("the hub's matrix must consist of codewords, got one that does not")
