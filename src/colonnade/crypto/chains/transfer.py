"""Correlated oblivious transfers: one side's words times the other's bits, shared between them.

128 seeds of base transfers are stretched to any number of transfers (Ishai, Kilian, Nissim and Petrank 2003). The
receiver, who has the bits, sends the columns of a matrix whose rows repeat each bit; the sender's rows then differ from
the receiver's by its secret where the bit is 1. Hashed, they hide the sender's correction, by which the receiver gets
r or r + word and the sender knows r. The matrix is checked by random sums of its rows (`check_rows`), which bits drawn
for that alone hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.crypto.alignment.base_ot import PAIR_BYTES, BaseReceiver, BaseSender, Bits
from colonnade.crypto.alignment.kernels import SUMS, AlignmentKernels
from colonnade.crypto.product import Words
from colonnade.foundation.errors import MessageError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, Stream

COLUMNS = 128  # base transfers: 128 bits of security
CHOICE_BYTES = PAIR_BYTES * COLUMNS
"""What the sender asks for its seeds with."""
SPARE = 256
"""Transfers of bits that are drawn at random and used for nothing: they hide the sums of the others."""
PROOF_BYTES = SUMS * (8 + COLUMNS // 8)  # for each sum its bits and its row

SeedPairs = tuple[list[bytes], list[bytes]]
"""Both seeds of each base transfer."""


def padded(transfers: int) -> int:
    """Rows of a matrix for so many transfers and the spare ones."""
    return -(-(transfers + SPARE) // 64) * 64


def matrix_bytes(transfers: int) -> int:
    """What the receiver sends for so many transfers."""
    return COLUMNS * padded(transfers) // 8 + PROOF_BYTES


class BitRows:
    """Whoever has a bit for each transfer: it knows both seeds of each base transfer."""

    def __init__(
        self, seeds: SeedPairs, context: bytes, randomness: Randomness, kernels: AlignmentKernels | None = None
    ) -> None:
        self._seeds, self._context, self._randomness, self._number = seeds, context, randomness, 0
        self._zeros, self._ones = ([Stream(seed) for seed in side] for side in seeds)
        self._kernels = kernels or AlignmentKernels()

    def matrix(self, bits: Words) -> tuple[bytes, Words]:
        """What to send for these bits, one in each word, and the rows that hide what comes back."""
        rows = padded(len(bits))
        spare = self._randomness.words(rows - len(bits)) & np.uint64(1)
        chosen = np.concatenate([bits, spare])
        packed = np.packbits(chosen.astype(np.uint8), bitorder="little").view(np.uint64)
        columns = _drawn(self._zeros, rows // 64)
        matrix = columns ^ packed
        for stream, column in zip(self._ones, matrix, strict=True):
            stream.add_to(column)
        own = self._kernels.rows_of(columns)
        challenge = _challenge(self._context, self._number, matrix)
        sums = self._kernels.combine(np.concatenate([own, chosen[:, None]], axis=1), challenge)
        self._number += 1
        return matrix.tobytes() + sums.tobytes(), own[: len(bits)]

    def again(self, transfers: Sequence[int]) -> Iterator[Words]:
        """The rows of all matrices once more, by the transfers of each."""
        streams = [Stream(seed) for seed in self._seeds[0]]
        for count in transfers:
            yield self._kernels.rows_of(_drawn(streams, padded(count) // 64))[:count]


class BitSide(BitRows):
    """The receiver: it has a bit for each transfer, and was asked for seeds."""

    def __init__(self, base: BaseSender, context: bytes, choices: bytes, randomness: Randomness) -> None:
        super().__init__(base.seeds(context, choices), context, randomness)


class WordRows:
    """Whoever has words to multiply the other's bits by: its secret bits say which seeds it knows."""

    def __init__(
        self, secret: Bits, seeds: list[bytes], context: bytes, kernels: AlignmentKernels | None = None
    ) -> None:
        self._streams = [Stream(seed) for seed in seeds]
        self.secret: Words = np.packbits(secret, bitorder="little").view(np.uint64)
        self._masks = (np.uint64(0) - secret.astype(np.uint64))[:, None]
        self._context, self._number = context, 0
        self._kernels = kernels or AlignmentKernels()

    @proven("transfers")
    def rows(self, body: bytes, transfers: int) -> Words:
        """The rows for the transfers of a matrix; raises MessageError unless each row repeats one bit.

        Domain: body: a matrix as it came.
        Unit: rows of 128 bits, one for each transfer.
        Guarantee: k wrong columns pass with chance 2^-k + 2^-128 at most. Proof: transfers, the check.
        """
        if len(body) != matrix_bytes(transfers):
            raise MessageError(f"a matrix of transfers must have {matrix_bytes(transfers)} bytes, got {len(body)}")
        size = COLUMNS * padded(transfers) // 8
        matrix = np.frombuffer(body[:size], np.uint64).reshape(COLUMNS, -1)
        columns = _drawn(self._streams, matrix.shape[1])
        columns ^= matrix & self._masks
        own = self._kernels.rows_of(columns)
        told = np.frombuffer(body[size:], np.uint64).reshape(SUMS, 3)
        found = self._kernels.combine(own, _challenge(self._context, self._number, matrix))
        self._number += 1
        if ((told[:, :2] ^ (self.secret * (told[:, 2:] & np.uint64(1)))) != found).any():
            raise MessageError("a matrix of transfers must repeat one bit in each row, got one that does not")
        return own[:transfers]


class WordSide(WordRows):
    """The sender: it has words to multiply the other's bits by, and asks for its seeds."""

    def __init__(self, context: bytes, public: bytes, randomness: Randomness) -> None:
        bits = np.unpackbits(np.frombuffer(randomness.bytes(COLUMNS // 8), np.uint8), bitorder="little")
        base = BaseReceiver(context, public, bits, randomness)
        super().__init__(bits, base.seeds, context)
        self.choices = base.choices


def hashed(key: bytes, first: int, rows: Words, words: int) -> Words:
    """So many words of each row, another function for each number from `first` on.

    AES as a permutation p that everybody knows: p(p(x) ^ i) ^ p(x), two words at a time (Guo, Katz, Wang and Yu 2020).
    """
    permute = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, not encryption
    once = np.frombuffer(permute.update(rows.tobytes()), np.uint64).reshape(rows.shape)
    out = np.empty((len(rows), 2 * -(-words // 2)), np.uint64)
    numbers = np.arange(first, first + len(rows), dtype=np.uint64)
    for block in range(0, words, 2):
        tweaked = once.copy()
        tweaked[:, 0] ^= numbers
        tweaked[:, 1] ^= np.uint64(block)
        twice = np.frombuffer(permute.update(tweaked.tobytes()), np.uint64).reshape(rows.shape)
        out[:, block : block + 2] = twice ^ once
    return out[:, :words]


def _drawn(streams: list[Stream], words: int) -> Words:
    out = np.zeros((len(streams), words), np.uint64)
    for stream, column in zip(streams, out, strict=True):
        stream.add_to(column)
    return out


def _challenge(context: bytes, number: int, matrix: Words) -> Words:
    """128 bits for each row, from the matrix and where it belongs (Fiat and Shamir)."""
    digest = blake2b(context + number.to_bytes(8, "big"), digest_size=32, person=b"transfers")
    digest.update(matrix.data)
    return Stream(digest.digest()).words(2 * 64 * matrix.shape[1]).reshape(-1, 2)
