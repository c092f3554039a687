"""The product in the clear: the same roles, rounds and shares as the real backends, for simulation and tests only.

The left party sends its columns as they are; the right party multiplies, keeps one additive share of the product and
sends the other back. It is not private: a transport that leaves the process refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.frames import (
    HEADER,
    Rounds,
    check_party,
    check_spec,
    entries,
    flat_noise,
    offsets,
    pack,
    unpack,
)
from colonnade.crypto.product import (
    Contribution,
    Cross,
    Integers,
    Parcel,
    PartyProduct,
    ProductSpec,
    ServerProduct,
    Words,
    centred,
)
from colonnade.foundation.errors import MessageError, ProductError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness

BLOCK_BYTES = 1 << 20
"""Body of one parcel of columns: 2^19 entries at most, so that a block's product is below 2^30 * 2^19 < 2^53."""
SHARE_WORDS = 1 << 21  # 16 MB a parcel
# `python -m benchmarks.product --product plain`, n = 20,000, d = 40 and 200, one core of a shared x86-64 server.
SECONDS_AN_ENTRY = 4.5e-9
SECONDS_A_TERM = 0.06e-9  # measured, as above


class _Pair:
    """All crosses of one left and one right party, with the spans of columns that they need."""

    def __init__(self, spec: ProductSpec, places: Mapping[Cross, slice], left: int, right: int) -> None:
        self.crosses = [cross for cross in spec.crosses if (cross.left, cross.right) == (left, right)]
        self.left = slice(min(c.left_start for c in self.crosses), max(c.left_stop for c in self.crosses))
        self.right = slice(min(c.right_start for c in self.crosses), max(c.right_stop for c in self.crosses))
        self.width = self.left.stop - self.left.start
        self.index = np.concatenate([np.arange(places[c].start, places[c].stop) for c in self.crosses])
        self.entries = len(self.index)
        self._step = max(1, min(spec.rows, BLOCK_BYTES // (2 * self.width)))
        self.blocks = -(-spec.rows // self._step)
        self.shares = -(-self.entries // SHARE_WORDS)
        self._rows = spec.rows

    def rows(self, number: int) -> tuple[int, int]:
        return number * self._step, min(self._rows, (number + 1) * self._step)

    def part(self, number: int) -> slice:
        return slice(number * SHARE_WORDS, min(self.entries, (number + 1) * SHARE_WORDS))


def _pairs(spec: ProductSpec, me: int) -> dict[tuple[int, int], _Pair]:
    """The pairs that one party belongs to."""
    places = offsets(spec)
    keys = dict.fromkeys((cross.left, cross.right) for cross in spec.crosses if me in (cross.left, cross.right))
    return {key: _Pair(spec, places, *key) for key in keys}


def planned_bytes(spec: ProductSpec, me: int) -> int:
    """The bytes that one party sends in all rounds."""
    total = 0
    for (left, right), pair in _pairs(spec, me).items():
        if left == me:
            total += pair.blocks * HEADER.size + 2 * spec.rows * pair.width
        if right == me:
            total += pair.shares * HEADER.size + 8 * pair.entries
    return total


def predicted_seconds(spec: ProductSpec) -> float:
    """CPU seconds of all parties together, mostly of copying entries and of one plain product of matrices."""
    places = offsets(spec)
    pairs = [_Pair(spec, places, left, right) for left, right in {(c.left, c.right) for c in spec.crosses}]
    entries = sum(2 * pair.width + pair.right.stop - pair.right.start for pair in pairs)
    return spec.rows * (entries * SECONDS_AN_ENTRY + sum(pair.entries for pair in pairs) * SECONDS_A_TERM)


class PlainParty(PartyProduct):
    """One party of a simulated product."""

    rounds: ClassVar[tuple[str, ...]] = ("seal", "multiply")

    def __init__(
        self,
        spec: ProductSpec,
        me: int,
        columns: IntegerColumns,
        noise: Mapping[Cross, Integers],
        randomness: Randomness,
    ) -> None:
        check_spec(spec)
        check_party(spec, me, columns, columns.shape[1], noise)
        self._spec, self._me, self._columns, self._randomness = spec, me, columns, randomness
        self._name = spec.parties[me]
        pairs = _pairs(spec, me)
        self._to_right = {right: pair for (left, right), pair in pairs.items() if left == me}
        self._from_left = {left: pair for (left, right), pair in pairs.items() if right == me}
        due = {("seal", spec.parties[left]): pair.blocks for left, pair in self._from_left.items()}
        due |= {("multiply", spec.parties[right]): pair.shares for right, pair in self._to_right.items()}
        self._rounds = Rounds(f"party {self._name}", self.rounds, due)
        self._exact = {
            left: np.zeros((pair.width, pair.right.stop - pair.right.start), dtype=np.int64)
            for left, pair in self._from_left.items()
        }
        self._vector: Words = flat_noise(spec, noise).copy()

    def send(self, round: str) -> Iterator[Parcel]:
        self._rounds.answer(round)
        return self._seal() if round == "seal" else self._multiply()

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        number = self._rounds.next(round, sender)
        peer = self._spec.parties.index(sender)
        body = unpack(self._spec, round, sender, self._name, number, payload)
        if round == "seal":
            self._take_block(peer, self._from_left[peer], number, body)
        else:
            self._take_share(peer, self._to_right[peer], number, body)
        self._rounds.take(round, sender)

    def contribute(self) -> Contribution:
        self._rounds.close()
        if self._exact:
            raise ProductError(f"party {self._name} contributes once its round multiply has left")
        vector, self._vector = self._vector, np.zeros(0, dtype=np.uint64)
        vector &= np.uint64((1 << self._spec.modulus_bits) - 1)
        return Contribution(vector)

    def _block(self, start: int, stop: int, columns: slice) -> NDArray[np.int16]:
        return np.ascontiguousarray(self._columns.rows(start, stop)[:, columns], dtype=np.int16)

    def _seal(self) -> Iterator[Parcel]:
        for right, pair in self._to_right.items():
            recipient = self._spec.parties[right]
            for number in range(pair.blocks):
                body = self._block(*pair.rows(number), pair.left).astype("<i2", copy=False).tobytes()
                yield Parcel(recipient, pack(self._spec, "seal", self._name, recipient, number, body))

    def _take_block(self, left: int, pair: _Pair, number: int, body: memoryview) -> None:
        start, stop = pair.rows(number)
        if len(body) != 2 * (stop - start) * pair.width:
            raise MessageError(
                f"columns of {self._spec.parties[left]} must have {stop - start} x {pair.width} entries of 2 bytes,"
                f" got {len(body)} bytes"
            )
        theirs = np.frombuffer(body, dtype="<i2").reshape(stop - start, pair.width)
        if (most := max(-int(theirs.min()), int(theirs.max()))) > self._spec.bound:
            owner = self._spec.parties[left]
            raise MessageError(f"an entry of {owner} must be within {self._spec.bound} of zero, got {most}")
        mine = self._block(start, stop, pair.right)
        # Exact: the sum of a block is below 2^49, and int64 takes over after each.
        self._exact[left] += (theirs.astype(np.float64).T @ mine.astype(np.float64)).astype(np.int64)

    def _multiply(self) -> Iterator[Parcel]:
        self._rounds.require("seal")
        for left, pair in self._from_left.items():
            recipient, product = self._spec.parties[left], self._exact.pop(left)
            parts = [
                product[
                    cross.left_start - pair.left.start : cross.left_stop - pair.left.start,
                    cross.right_start - pair.right.start : cross.right_stop - pair.right.start,
                ].ravel()
                for cross in pair.crosses
            ]
            share = self._randomness.words(pair.entries)
            # The right party keeps gain * X'Y - share, the left party gets share.
            kept = np.concatenate(parts).view(np.uint64) * np.uint64(self._spec.gain) - share
            self._vector[pair.index] += kept
            share &= np.uint64((1 << self._spec.modulus_bits) - 1)
            for number in range(pair.shares):
                body = share[pair.part(number)].astype("<u8", copy=False).tobytes()
                yield Parcel(recipient, pack(self._spec, "multiply", self._name, recipient, number, body))

    def _take_share(self, right: int, pair: _Pair, number: int, body: memoryview) -> None:
        part = pair.part(number)
        if len(body) != 8 * (part.stop - part.start):
            raise MessageError(
                f"a share from {self._spec.parties[right]} must have {part.stop - part.start} words of 8 bytes,"
                f" got {len(body)} bytes"
            )
        self._vector[pair.index[part]] += np.frombuffer(body, dtype="<u8")


class PlainServer(ServerProduct):
    """The server of a simulated product: it only reads the sum."""

    def __init__(self, spec: ProductSpec) -> None:
        check_spec(spec)
        self._spec = spec

    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        if total.shape != (entries(self._spec),):
            raise ProductError(f"the sum of contributions must have {entries(self._spec)} words, got {total.shape}")
        return centred(total & np.uint64((1 << self._spec.modulus_bits) - 1), self._spec.modulus_bits)
