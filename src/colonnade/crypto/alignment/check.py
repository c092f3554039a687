"""The consistency check of an OT extension: all columns of the hub's matrix are codewords of one message a row.

Without it a hub that flips a bit of one codeword sees, from whether a known common id still matches, one bit of its
partner's key. The form is that of Orru, Orsini and Scholl (2016): random sums of rows must be codewords of the same
sums of messages. The challenge is a hash of the matrix (Fiat and Shamir), hence 128 sums.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from colonnade.crypto.alignment.code import LENGTH, MESSAGE_BYTES, byte_sums, pack, unpack
from colonnade.crypto.alignment.kernels import SUMS, AlignmentKernels
from colonnade.crypto.product import Words
from colonnade.foundation.errors import MessageError
from colonnade.foundation.proof import proven
from colonnade.foundation.randomness import Stream

PROOF_BYTES = SUMS * (MESSAGE_BYTES + LENGTH // 8)


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
