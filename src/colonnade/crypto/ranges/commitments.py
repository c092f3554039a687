"""Bits committed by checked oblivious transfers: who commits x holds m = k + F x, the partner holds k and F.

The transfers are those of crypto/chains/transfer.py: rows M of who commits and K of the partner, M = K ^ x D under the
partner's secret D of 128 bits. The partner's corrections d = H(K) - H(K ^ D) + F turn them into numbers modulo p:
m = H(M) + x d, k = H(K). Corrections are not believed: before anything that depends on them is shown, the partner opens
D, with a digest of the seeds that D gave it, and F, and every correction is computed again. All columns lie under each
single base transfer, so that base transfers are always X25519's mixed with ML-KEM-768's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from colonnade.crypto.alignment.base_ot import PAIR_BYTES, BaseReceiver, BaseSender
from colonnade.crypto.alignment.curve25519 import POINT_BYTES
from colonnade.crypto.alignment.kem_ot import KemReceiver, KemSender, kem_choice_bytes, kem_reply_bytes, mixed
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.chains.transfer import COLUMNS, BitRows, WordRows, hashed
from colonnade.crypto.product import Words
from colonnade.crypto.ranges.coding import Bits
from colonnade.crypto.ranges.field import Field, Numbers
from colonnade.foundation.errors import MessageError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, derive

BASE_BYTES = PAIR_BYTES * COLUMNS
CHOICE_BYTES = BASE_BYTES + kem_choice_bytes(COLUMNS)
REPLY_BYTES = kem_reply_bytes(COLUMNS)
SECRET_BYTES = COLUMNS // 8
DIGEST_BYTES = 32


def require_bytes(what: str, body: bytes, size: int) -> bytes:
    """Return a message of a proof, once it has as many bytes as it must."""
    if len(body) != size:
        raise MessageError(f"{what} of a proof must have {size} bytes, got {len(body)}")
    return body


class _Side:
    def __init__(self, context: bytes, field: Field) -> None:
        self._key, self._field, self._first = derive(context, "hash of transfers"), field, 0

    def _hashed(self, rows: Words, first: int) -> Numbers:
        return self._field.uniform(hashed(self._key, first, rows, 2))

    def _correction(self, zeros: Numbers, ones: Numbers, offset: int) -> Numbers:
        field = self._field
        return field.add(field.add(zeros, field.negative(ones)), field.whole(offset))


class BitCommitter(_Side):
    """Who has the bits: it sends a matrix for each piece of them, and gets corrections for it."""

    def __init__(
        self, context: bytes, base: BaseSender, choices: bytes, randomness: Randomness, field: Field,
        kernels: AlignmentKernels,
    ) -> None:  # fmt: skip
        super().__init__(context, field)
        require_bytes("choices", choices, CHOICE_BYTES)
        kem = KemSender(context, choices[BASE_BYTES:], randomness)
        zeros, ones = base.seeds(context, choices[:BASE_BYTES])
        self._seeds = mixed(zeros, kem.keys[0]), mixed(ones, kem.keys[1])
        self.reply = kem.reply
        said = hashlib.sha256(context + base.public + choices + kem.reply).digest()
        self._rows = BitRows(self._seeds, said, randomness, kernels)
        self._bits: list[bytes] = []
        self._counts: list[int] = []
        self._corrections: list[bytes] = []

    def commit(self, bits: Bits) -> bytes:
        """Return the matrix of the next piece, with its check."""
        body, _ = self._rows.matrix(bits.astype(np.uint64))
        self._bits.append(np.packbits(bits).tobytes())
        self._counts.append(len(bits))
        return body

    def take(self, body: bytes) -> None:
        """Keep the corrections of the next piece; raises MessageError for bytes that are no numbers below p."""
        number = len(self._corrections)
        if number == len(self._counts):
            raise MessageError(f"corrections must be as many as matrices, {number}, got more")
        self._field.unpack(body, self._counts[number])
        self._corrections.append(body)

    def complete(self, pieces: int) -> bool:
        """Whether corrections of so many pieces are there."""
        return len(self._corrections) == len(self._counts) == pieces

    def _pieces(self) -> Iterator[tuple[Words, Bits, bytes, int]]:
        """Rows, bits, corrections and first number of each piece; rows are made again, from their seeds."""
        first = 0
        pieces = zip(self._rows.again(self._counts), self._bits, self._corrections, strict=True)
        for rows, packed, corrections in pieces:
            yield rows, np.unpackbits(np.frombuffer(packed, np.uint8), count=len(rows)), corrections, first
            first += len(rows)

    def numbers(self) -> Iterator[Numbers]:
        """m of every bit, piece after piece."""
        for rows, bits, corrections, first in self._pieces():
            turned = self._field.unpack(corrections, len(rows)) * bits.astype(np.uint64)
            yield self._field.add(self._hashed(rows, first), turned)

    @proven("proven_ranges")
    def check(self, opening: bytes) -> None:
        """Raise MessageError unless the opening is of the base transfers, and every correction is made by it.

        Domain: opening: as it came, of any bytes.
        Unit: bytes, and one number of the field.
        Guarantee: what is refused depends on the partner's messages and on seeds of this side, never on a bit.
            Proof: proven_ranges, the opening.
        """
        field = self._field
        require_bytes("an opening", opening, SECRET_BYTES + DIGEST_BYTES + field.size)
        offset = int.from_bytes(opening[SECRET_BYTES + DIGEST_BYTES :], "little")
        field.whole(offset)
        secret = np.frombuffer(opening[:SECRET_BYTES], np.uint64)
        if seeds_digest(secret, self._seeds) != opening[SECRET_BYTES : SECRET_BYTES + DIGEST_BYTES]:
            raise MessageError("the opened secret must be that of the base transfers, got another")
        right = True
        for rows, bits, corrections, first in self._pieces():
            own, other, one = self._hashed(rows, first), self._hashed(rows ^ secret, first), bits == 1
            made = self._correction(np.where(one, other, own), np.where(one, own, other), offset)
            right &= field.pack(made) == corrections
        if not right:
            raise MessageError("corrections must all be made by the opened secret and offset, got some that are not")

    def wipe(self) -> None:
        """Forget seeds and bits."""
        self._bits.clear()
        self._corrections.clear()
        self._seeds = [], []


class BitChecker(_Side):
    """Who has the secret D and the offset F: it holds k for each bit."""

    def __init__(
        self, context: bytes, public: bytes, randomness: Randomness, field: Field, kernels: AlignmentKernels
    ) -> None:
        super().__init__(context, field)
        require_bytes("the key", public, POINT_BYTES)
        self._raw, self._context, self._kernels = randomness.bytes(SECRET_BYTES), context, kernels
        self._bits = np.unpackbits(np.frombuffer(self._raw, np.uint8), bitorder="little")
        self._base = BaseReceiver(context, public, self._bits, randomness)
        self._kem = KemReceiver(context, self._bits, randomness)
        self.choices = self._base.choices + self._kem.choices
        self._public = public
        self.offset = int.from_bytes(randomness.bytes(32), "big") % field.p
        self._seeds: list[bytes] = []
        self._rows: WordRows | None = None

    def take_reply(self, reply: bytes) -> None:
        """Take the reply of ML-KEM, with which the seeds are complete."""
        require_bytes("the reply", reply, REPLY_BYTES)
        self._seeds = mixed(self._base.seeds, self._kem.keys(reply))
        said = hashlib.sha256(self._context + self._public + self.choices + reply).digest()
        self._rows = WordRows(self._bits, self._seeds, said, self._kernels)

    def take(self, body: bytes, count: int) -> tuple[Numbers, bytes]:
        """Return k for the bits of the next piece, and the corrections to send back."""
        if self._rows is None:
            raise MessageError("a matrix of a proof must follow the reply, got it before")
        rows = self._rows.rows(body, count)
        keys, others = self._hashed(rows, self._first), self._hashed(rows ^ self._rows.secret, self._first)
        self._first += count
        return keys, self._field.pack(self._correction(keys, others, self.offset))

    def opening(self) -> bytes:
        """D, the digest of the seeds that it gave, and F."""
        seeds = hashlib.sha256(b"".join(self._seeds)).digest()
        return self._raw + seeds + self.offset.to_bytes(self._field.size, "little")


def seeds_digest(secret: Words, seeds: tuple[list[bytes], list[bytes]]) -> bytes:
    """Return the digest of the seeds that a secret has asked for."""
    bits = np.unpackbits(secret.view(np.uint8), bitorder="little").tolist()
    return hashlib.sha256(b"".join(seeds[bit][j] for j, bit in enumerate(bits))).digest()
