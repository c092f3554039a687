"""Statements of small parties, and a proof of one of them from end to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.columns import resident
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.lattice.frames import Frames, parcel_places
from colonnade.crypto.lattice.kernels import NumpyKernels
from colonnade.crypto.lattice.parameters import LARGEST_MESSAGE, N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.product import ColumnGroup, Cross, GroupKind, ProductSpec, Words
from colonnade.crypto.ranges.coding import BitCoding
from colonnade.crypto.ranges.commitments import BitChecker, BitCommitter
from colonnade.crypto.ranges.proof import Committed, KeysHeld, ProverKey, VerifierChoices, Witness
from colonnade.crypto.ranges.statements import RangeStatement
from colonnade.crypto.ranges.witness import LatticeWitness
from colonnade.foundation.randomness import Randomness

NUMBER, HALVES = ColumnGroup(GroupKind.NUMBER, 1), ColumnGroup(GroupKind.HALVES, 2)


def levels(count: int) -> ColumnGroup:
    return ColumnGroup(GroupKind.LEVELS, count)


GROUPS = ((NUMBER, levels(4)), (levels(2), NUMBER, levels(3)), (HALVES, NUMBER))
Integers = NDArray[np.int16]


def draw_columns(groups: Sequence[ColumnGroup], rows: int, bound: int, draw: np.random.Generator) -> Integers:
    """Random records of these groups."""
    out = []
    for group in groups:
        if group.kind is GroupKind.NUMBER:
            out.append(draw.integers(-bound, bound + 1, (rows, 1)))
        elif group.kind is GroupKind.LEVELS:
            out.append(bound * np.eye(group.size, dtype=np.int64)[draw.integers(0, group.size, rows)])
        else:
            upper = draw.integers(0, bound + 1, (rows, 1))
            out.append(np.concatenate([bound - upper, upper], axis=1))
    return np.concatenate(out, axis=1).astype(np.int16)


def spec_of(rows: int = 300, bound: int = 7, parties: int = 2, bits: int = 44) -> ProductSpec:
    """Two parties, or three, each pair with all columns of both."""
    groups = GROUPS[:parties]
    width = [sum(group.size for group in own) for own in groups]
    pairs = [(k, other) for k in range(parties) for other in range(k + 1, parties)]
    crosses = tuple(Cross(k, m, 0, width[k], 0, width[m]) for k, m in pairs)
    gain = min((1 << (bits - 2)) // (rows * bound**2), LARGEST_MESSAGE // bound)
    names = ("a", "b", "c")[:parties]
    return ProductSpec(bytes(range(32)), names, rows, bound, crosses, bits, gain, 1 << (bits - 2), groups)


@dataclass
class OneProof:
    """A proof of the first party's statement (S), or of the second party's (M), step by step."""

    seals: bool
    spec: ProductSpec = field(default_factory=spec_of)
    seed: int = 0
    committer: type[BitCommitter] = BitCommitter
    checker: type[BitChecker] = BitChecker
    words_changed: Callable[[Words], None] = lambda words: None
    """Alters the first parcel."""
    witness_of: Callable[[Witness], Witness] = lambda witness: witness

    def __post_init__(self) -> None:
        self.me = int(not self.seals)
        draw = np.random.default_rng(self.seed)
        self.statement = RangeStatement(self.spec, BitCoding(self.spec.bound, self.spec.groups[self.me]), self.seals)
        rows = draw_columns(self.spec.groups[self.me], self.spec.rows, self.spec.bound, draw)
        self.columns, self.source = resident(rows), Randomness(draw.bytes(32))
        self.randomness = Randomness(draw.bytes(32)), Randomness(draw.bytes(32))
        own = LatticeWitness(self.spec, self.me, self.columns, self.source, self.seals)
        self.witness: Witness = self.witness_of(own)
        self.kernels, self.ring = AlignmentKernels(), NumpyKernels()

    def begin(self) -> tuple[Committed, KeysHeld]:
        """Rounds 1 to 3."""
        key = ProverKey(self.statement, b"context " * 4, self.randomness[0], self.kernels)
        checker = VerifierChoices(
            self.statement, b"context " * 4, key.public, self.randomness[1], self.kernels, self.checker
        )
        committing = key.take(checker.choices, self.committer)
        held = checker.take(committing.reply, self.ring)
        for matrix in committing.matrices(self.witness):
            held.take(matrix)
        return committing.committed, held

    def words(self) -> list[tuple[slice, int, Words]]:
        """The words of a party that follows the protocol: of which columns, from which word on."""
        noise = {cross: np.zeros(cross.shape, np.int64) for cross in self.spec.crosses}
        party = LatticeParty(self.spec, self.me, self.columns, noise, self.source)
        rows, name = (self.spec.rows, "seal") if self.seals else (0, "multiply")
        to = self.spec.parties[int(self.seals)]
        parcels = [p.payload for p in party.send(name) if p.recipient == to]
        out = []
        for place, payload in zip(parcel_places(self.statement.columns, rows), parcels, strict=True):
            words = Frames(self.spec).unwrap(int(not self.seals), self.me, place, payload).words()
            row = min(place.block * N, rows) if self.seals else self.spec.rows
            out.append((place.all_columns, row, words))
        return out

    def run(self) -> None:
        """All rounds; raises where a side refuses."""
        committed, held = self.begin()
        for corrections in held.corrections():
            committed.take(corrections)
        words = self.words()
        self.words_changed(words[0][2])
        for parcel in words:
            held.hear(*parcel)
        challenged = held.challenge()
        promised = committed.promise(challenged.seed, self.witness, self.ring)
        opened = challenged.take(promised.promise)
        opened.verify(promised.answer(opened.opening))
