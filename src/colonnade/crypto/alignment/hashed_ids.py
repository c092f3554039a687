"""A party's ids as digests under the session, in bins by a public hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment.code import HIGH
from colonnade.crypto.alignment.kernels import AlignmentKernels, Bytes, take
from colonnade.crypto.product import Words
from colonnade.foundation.errors import AlignmentError

Rows = NDArray[np.int64]
Binned = tuple[Rows, Words, Rows]

_WORDS = 8  # BLAKE2b's 64 bytes: tag, message, three slots and coins
TAG, MESSAGE, SLOTS, COINS = slice(0, 2), slice(2, 4), slice(4, 7), 7
"""What the words of a digest are for."""
_BATCH = 1 << 16  # ids that are hashed at once
_CHUNK = 1 << 20  # digests in one array: one so large goes back to the system when it is let go


@runtime_checkable
class Encoded(Protocol):
    """Texts that need not become Python's to be hashed."""

    def encoded(self, start: int, stop: int) -> tuple[Bytes, Rows]:
        """Texts [start, stop) in UTF-8, one after the other, and where each of them ends."""


@dataclass
class Bin:
    """The ids of one bin: rows of the party's file, and what their digests say."""

    rows: Rows
    tags: Words
    """Two words by which ids are told apart."""
    messages: Words
    """85 bits that the code spreads."""
    slots: Words
    coins: Words

    def __len__(self) -> int:
        return len(self.rows)


class Ids:
    """Digests of distinct ids, chunk by chunk; they are let go bin by bin."""

    def __init__(self, party: str, ids: Sequence[str], session: bytes, kernels: AlignmentKernels) -> None:
        """Refuse ids that are none, repeated or no text; errors name rows, never an id."""
        self.count = len(ids)
        if not self.count:
            raise AlignmentError(f"party {party!r} must have ids, got none")
        try:
            self._chunks = list(_digests(ids, session, kernels))
        except UnicodeEncodeError:
            raise AlignmentError(f"ids of party {party!r} must be valid Unicode, got one that is not") from None
        _refuse_repeated(party, self._chunks)

    def bins(self, count: int) -> Binned:
        """Rows and digests in the order of their bins, and where bins end; the chunks are given up one by one."""
        sizes = np.sum([np.bincount(_bin_of(words, count), minlength=count) for words in self._chunks], axis=0)
        ends = np.cumsum([0, *sizes])
        # One array for all: many would leave holes in memory when they go.
        rows, digests = np.empty(self.count, np.int64), np.empty((self.count, _WORDS), np.uint64)
        filled, start = ends[:-1].copy(), 0
        self._chunks.reverse()
        while self._chunks:
            words = self._chunks.pop()
            of = _bin_of(words, count)
            order = np.argsort(of, kind="stable")
            cuts = np.cumsum([0, *np.bincount(of, minlength=count)])
            for which, (first, last) in enumerate(pairwise(cuts.tolist())):
                mine, place = order[first:last], slice(filled[which], filled[which] + last - first)
                rows[place], digests[place] = start + mine, take(words, mine)
                filled[which] += last - first
            start += len(words)
        return rows, digests, ends


def opened(rows: Rows, words: Words) -> Bin:
    """A bin with its digests taken apart."""
    messages = words[:, MESSAGE].copy()
    messages[:, 1] &= HIGH
    tags, slots, coins = (np.ascontiguousarray(words[:, part]) for part in (TAG, SLOTS, COINS))
    return Bin(rows, tags, messages, slots, coins)


def _bin_of(words: Words, count: int) -> NDArray[np.integer]:
    """Two bytes each, which are sorted much faster, where they hold the number of a bin."""
    return (words[:, 0] % np.uint64(count)).astype(np.uint16 if count <= 1 << 16 else np.int64)


def _digests(ids: Sequence[str], session: bytes, kernels: AlignmentKernels) -> Iterator[Words]:
    """BLAKE2b-512 of session and id: tag 16 bytes, message 16, three slots of 8, coins 8."""
    batches = _encoded(ids)
    for first in range(0, len(ids), _CHUNK):
        words = np.empty((min(_CHUNK, len(ids) - first), _WORDS), np.uint64)
        for start in range(0, len(words), _BATCH):
            # The session's 32 bytes as a prefix: a key would cost BLAKE2b a second block.
            words[start : start + _BATCH] = kernels.digests(session, *next(batches), _WORDS)
        yield words


def _encoded(ids: Sequence[str]) -> Iterator[tuple[Bytes, Rows]]:
    """Batch by batch, the ids in UTF-8 and where each of them ends."""
    if isinstance(ids, Encoded):
        for start in range(0, len(ids), _BATCH):
            yield ids.encoded(start, min(len(ids), start + _BATCH))
        return
    texts = iter(ids)
    while batch := list(islice(texts, _BATCH)):
        whole = "".join(batch)
        # A letter of ASCII is a byte.
        sizes = map(len, batch if whole.isascii() else [text.encode() for text in batch])
        yield np.frombuffer(whole.encode(), np.uint8), np.cumsum(np.fromiter(sizes, np.int64, len(batch)))


def _refuse_repeated(party: str, chunks: list[Words]) -> None:
    firsts = np.concatenate([words[:, 0] for words in chunks])
    firsts.sort()
    if not (firsts[1:] == firsts[:-1]).any():
        return
    tags = np.concatenate([words[:, :2] for words in chunks])
    order = np.lexsort((tags[:, 1], tags[:, 0]))
    alike = (tags[order[1:]] == tags[order[:-1]]).all(axis=1)
    if repeated := int(alike.sum()):
        # The sort is stable: whoever follows its like has the higher row.
        first = int(order[1:][alike].min())
        raise AlignmentError(f"ids of party {party!r} must be distinct, got {repeated} repeated, first at row {first}")
