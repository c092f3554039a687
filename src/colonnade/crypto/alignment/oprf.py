"""An oblivious pseudorandom function by OT extension: the hub evaluates a partner's key on its own ids, unseen.

Pinkas, Rosulek, Trieu and Yanai's form (2020): the hub writes its ids' messages into an oblivious table D and sends the
columns of its codewords under two streams a column, of which its partner knows one, by a secret bit. The partner's rows
then differ from the hub's by key & C(D's row), so that both compute one row exactly where D reads the id's message.
"""

from __future__ import annotations

import numpy as np

from colonnade.crypto.alignment.code import (
    HIGH,
    LENGTH,
    MESSAGE_BYTES,
    byte_sums,
    challenge_of,
    encode_columns,
    prove,
    verify,
)
from colonnade.crypto.alignment.hashed_ids import Bin
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.alignment.oblivious import Store
from colonnade.crypto.product import Words
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, Stream

OUTPUT_WORDS = 4
"""Two words of an output are compared in secret, two are announced."""


class Codewords:
    """The hub's part that is the same for all partners: messages by an oblivious table, and their codewords."""

    def __init__(self, ids: Bin, entries: int, rows: int, kernels: AlignmentKernels, randomness: Randomness) -> None:
        self.ids, self.kernels = ids, kernels
        self.store = Store(ids.slots, ids.coins, entries, kernels)
        self.messages = self.store.write(ids.messages, randomness, rows - self.store.size)
        self.messages[:, 1] &= HIGH
        self.columns = encode_columns(kernels.columns_of(self.messages, 8 * MESSAGE_BYTES))


class Evaluator:
    """The hub's side towards one partner, bin after bin."""

    def __init__(self, zeros: list[bytes], ones: list[bytes], prefix: bytes, context: bytes) -> None:
        self._zeros, self._ones = _streams(zeros), _streams(ones)
        self._prefix, self._context = prefix, context

    def matrix(self, codewords: Codewords, number: int) -> tuple[bytes, Words]:
        """What the partner is sent of this bin, and the function's values at the hub's ids."""
        kernels, width = codewords.kernels, len(codewords.messages) // 64
        columns = _drawn(self._zeros, width)
        matrix = columns ^ codewords.columns
        _add(self._ones, matrix)
        rows = kernels.rows_of(columns)
        proof = prove(codewords.messages, rows, challenge_of(matrix, self._context, number), kernels)
        values = hashed(self._prefix, codewords.ids.tags, codewords.store.read(rows), kernels)
        return matrix.tobytes() + proof, values


class KeyHolder:
    """The partner's side: it can evaluate the function anywhere."""

    def __init__(self, key: Words, seeds: list[bytes], prefix: bytes, context: bytes) -> None:
        self._key, self._streams = key, _streams(seeds)
        bits = np.unpackbits(key.view(np.uint8), bitorder="little")
        self._masks = (np.uint64(0) - bits.astype(np.uint64))[:, None]
        self._prefix, self._context = prefix, context

    def values(self, body: bytes, number: int, ids: Bin, entries: int, rows: int, kernels: AlignmentKernels) -> Words:
        """The function at own ids of a bin; raises MessageError unless the hub's matrix is consistent."""
        size = LENGTH * rows // 8
        matrix = np.frombuffer(body[:size], np.uint64).reshape(LENGTH, -1)
        columns = _drawn(self._streams, rows // 64)
        columns ^= matrix & self._masks
        own = kernels.rows_of(columns)
        verify(own, self._key, challenge_of(matrix, self._context, number), body[size:], kernels)
        return evaluate(self._key, self._prefix, own, ids, entries, kernels)


@proven("alignment")
def evaluate(key: Words, prefix: bytes, rows: Words, ids: Bin, entries: int, kernels: AlignmentKernels) -> Words:
    """The function of a key at any ids, from the rows that its holder has.

    Domain: `rows` and `entries` as the partner holds them for one bin; any ids.
    Unit: 256-bit outputs, one for each id.
    Guarantee: at an id outside the hub's list an output is uniform to the hub, but for 2^-128 a guess. Proof:
        alignment, 1.
    """
    at = Store(ids.slots, ids.coins, entries, kernels).read(rows)
    kernels.add_bytes(at, byte_sums() & key, ids.messages.view(np.uint8).reshape(len(ids), -1))
    return hashed(prefix, ids.tags, at, kernels)


def hashed(prefix: bytes, tags: Words, rows: Words, kernels: AlignmentKernels) -> Words:
    """BLAKE2b-256 of prefix, tag and row: 112 bytes, one block."""
    whole = np.hstack([tags, rows])
    size = whole.itemsize * whole.shape[1]
    ends = size * np.arange(1, len(whole) + 1)
    return kernels.digests(prefix, whole.view(np.uint8).ravel(), ends, OUTPUT_WORDS)


def _streams(seeds: list[bytes]) -> list[Stream]:
    return [Stream(seed) for seed in seeds]


def _drawn(streams: list[Stream], words: int) -> Words:
    """The next words of each stream: bin after bin, a stream goes on."""
    out = np.zeros((len(streams), words), np.uint64)
    _add(streams, out)
    return out


def _add(streams: list[Stream], columns: Words) -> None:
    for stream, column in zip(streams, columns, strict=True):
        stream.add_to(column)
