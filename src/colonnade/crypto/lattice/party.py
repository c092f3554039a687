"""The fast secure product: ring-LWE with one public ring element per row block, opened only as a sum of shares.

R = Z_q[X]/(X^N + 1), N = 2048, q = 2^modulus_bits. Block r of the rows has a public uniform a_r. Party k seals its
column x as b_r = a_r s + e_r + gain * x_r. Party l, with y_r(X) = sum of y_i X^(-i), keeps v = sum of <b_r, y_r> + ...
and sends u = sum of a_r y_r + p rho + e1, from which k computes w = coefficient 0 of u s. Then v - w =
gain * x'y + e'y + (ep'rho - s'e1 + e2): two additive shares, and nobody sees their sum without the noise.
The last block, p, has no rows: it carries the key for rho, so that seal and multiply treat it as one more block.

Row i of a block is coefficient i in the order in which ring elements are stored; `kernels.py` has the arithmetic.
docs/secure-product.md has the assumptions, proofs/lattice_error.md what the lattice error costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.frames import Rounds, check_party
from colonnade.crypto.lattice.frames import START, ParcelPlace, parcel_places
from colonnade.crypto.lattice.kernels import Kernels, NumpyKernels, Small
from colonnade.crypto.lattice.parameters import (
    NORM_SLACK,
    SECRET_BOUND,
    SECRET_VARIANCE,
    WIDE_BOUND,
    N,
    check_lattice,
    multiply_limbs,
    seal_limbs,
)
from colonnade.crypto.lattice.words import Planes, width
from colonnade.crypto.lattice.work import (
    BLOCKS_AT_ONCE,
    WorkerStates,
    check_entries,
    multiply_piece,
    pad_rows,
    public_elements,
    seal_piece,
    spans,
    times_piece,
)
from colonnade.crypto.product import (
    Contribution,
    Cross,
    Integers,
    Parcel,
    PartyProduct,
    ProductSpec,
    Words,
)
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness

Bytes = NDArray[np.int8]


def draw_wide(randomness: Randomness, count: int) -> Bytes:
    """A difference of two uniform 4-bit numbers: variance 42.5, at most 15."""
    byte = randomness.words(count // 8).view(np.uint8)
    wide: Bytes = ((byte & np.uint8(15)) - (byte >> np.uint8(4))).view(np.int8)
    return wide


def draw_secrets(randomness: Randomness, columns: int) -> Bytes:
    """Centred binomial of four bits: variance 1, at most 2. A column whose norm is freakishly large is drawn again."""
    while True:
        byte = randomness.words(columns * N // 8).view(np.uint8).reshape(columns, N)
        ones = np.bitwise_count(byte & np.uint8(3)) - np.bitwise_count(byte & np.uint8(12))
        secrets: Bytes = ones.view(np.int8)
        squares = np.square(secrets, dtype=np.int64).sum(axis=1)
        if squares.max(initial=0) <= NORM_SLACK * N * SECRET_VARIANCE:
            return secrets


def draw_hints(randomness: Randomness, count: int) -> Integers:
    """Two differences of uniform 12-bit numbers: the wide error that hides rho in what a coalition may compute."""
    word = randomness.words(count)
    low = np.uint64(4095)
    plus = (word & low) + (word >> np.uint64(12) & low)
    minus = (word >> np.uint64(24) & low) + (word >> np.uint64(36) & low)
    return plus.view(np.int64) - minus.view(np.int64)


def source_of(randomness: Randomness, spec: ProductSpec, round: str) -> Randomness:
    """Return what keys and errors of a round are drawn from, keys first."""
    return randomness.child(f"lattice {round} {spec.session.hex()}")


def needed_columns(spec: ProductSpec, party: int, *, left: bool) -> NDArray[np.intp]:
    """Return the columns of a party that some cross seals, or multiplies, in order."""
    return _Needs(spec).of(party, left=left)


class _Needs:
    """The columns of each party that some cross seals (left) or multiplies (right)."""

    def __init__(self, spec: ProductSpec) -> None:
        spans: dict[tuple[int, bool], set[int]] = {}
        for cross in spec.crosses:
            spans.setdefault((cross.left, True), set()).update(range(cross.left_start, cross.left_stop))
            spans.setdefault((cross.right, False), set()).update(range(cross.right_start, cross.right_stop))
        self._columns = {key: np.array(sorted(found), np.intp) for key, found in spans.items()}

    def of(self, party: int, *, left: bool) -> NDArray[np.intp]:
        return self._columns.get((party, left), np.zeros(0, np.intp))

    def block(self, shares: Words, cross: Cross) -> Words:
        """A cross's part of all that its two parties share."""
        row = int(np.searchsorted(self.of(cross.left, left=True), cross.left_start))
        column = int(np.searchsorted(self.of(cross.right, left=False), cross.right_start))
        return shares[row : row + cross.shape[0], column : column + cross.shape[1]]


def planned_bytes(spec: ProductSpec, me: int) -> int:
    """The bytes that one party sends in all rounds."""
    total, needs = 0, _Needs(spec)
    for left in (True, False):
        peers = {c.right if left else c.left for c in spec.crosses if me == (c.left if left else c.right)}
        for place in parcel_places(len(needs.of(me, left=left)), spec.rows if left else 0):
            total += len(peers) * (START + place.rows * place.columns * width(spec.modulus_bits))
    return total


class LatticeParty(PartyProduct):
    """One party's side: it seals what crosses need of it on the left, and multiplies what they need on the right."""

    rounds = ("seal", "multiply")
    kernels: ClassVar[type[Kernels]] = NumpyKernels
    on_host: ClassVar[bool] = True
    """Whether kernels work in this machine's own memory."""

    def __init__(
        self,
        spec: ProductSpec,
        me: int,
        columns: IntegerColumns,
        noise: Mapping[Cross, Integers],
        randomness: Randomness,
    ) -> None:
        check_lattice(spec)
        check_party(spec, me, columns, self._shape(columns)[1], noise)
        self._spec, self._me, self._columns, self._name = spec, me, columns, spec.parties[me]
        self._noise = {cross: np.array(noise[cross], dtype=np.int64) for cross in spec.crosses}
        self._randomness = {name: source_of(randomness, spec, name) for name in self.rounds}
        self._needs = _Needs(spec)
        self._left, self._right = self._needs.of(me, left=True), self._needs.of(me, left=False)
        self._seal_bits = seal_limbs(spec.modulus_bits)
        self._multiply_bits, self._most = multiply_limbs(spec.modulus_bits, max(spec.bound, WIDE_BOUND))
        # s and rho are stored as s(1/X) and rho(1/X), the form in which inner products need them.
        self._secrets = draw_secrets(self._randomness["seal"], len(self._left))
        self._rho = draw_wide(self._randomness["multiply"], len(self._right) * N).reshape(-1, N)
        self._kept: dict[int, Words] = {}
        self._returned: dict[int, Words] = {}
        self._expected: dict[tuple[str, int], list[ParcelPlace]] = {}
        for left in sorted({cross.left for cross in spec.crosses if cross.right == me}):
            count = len(self._needs.of(left, left=True))
            self._kept[left] = np.zeros((count, len(self._right)), np.uint64)
            self._expected["seal", left] = parcel_places(count, spec.rows)
        for right in sorted({cross.right for cross in spec.crosses if cross.left == me}):
            count = len(self._needs.of(right, left=False))
            self._returned[right] = np.zeros((len(self._left), count), np.uint64)
            self._expected["multiply", right] = parcel_places(count, 0)
        due = {(round, spec.parties[peer]): len(places) for (round, peer), places in self._expected.items()}
        self._rounds = Rounds(f"party {self._name}", self.rounds, due)
        self._states = WorkerStates(self.kernels, spec)
        self._under_way: deque[tuple[int, ParcelPlace, Future[Words]]] = deque()
        self.heard: Callable[[int, ParcelPlace, Planes], None] = lambda peer, place, planes: None
        """Is shown the words of each parcel that is taken."""

    def _shape(self, columns: IntegerColumns) -> tuple[int, int]:
        """Rows and columns that crosses may name."""
        return columns.shape

    def __repr__(self) -> str:
        return f"LatticeParty({self._name!r}, rows={self._spec.rows})"

    def send(self, round: str) -> Iterator[Parcel]:
        self._rounds.answer(round)
        names = [self._spec.parties[k] for k in (self._returned if round == "seal" else self._kept)]
        payloads = self._seal() if round == "seal" else self._multiply()
        return (Parcel(name, payload) for payload in payloads for name in names)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        number = self._rounds.next(round, sender)
        peer = self._spec.parties.index(sender)
        place = self._expected[round, peer][number]
        planes = self._states.own.frames.unwrap(self.rounds.index(round), peer, place, payload)
        self.heard(peer, place, planes)
        if round == "multiply":
            products = self._states.own.kernels.times(planes, self._secrets.T, SECRET_BOUND)
            self._returned[peer][:, place.all_columns] += products.T
        elif self.workers.apart:
            self._gather(self.workers.ahead - 1)
            work = self.workers.submit(times_piece, self._states, self.workers.remote, planes, *self._small(place))
            self._under_way.append((peer, place, work))
        else:
            self._kept[peer][place.all_columns] += self._states.own.kernels.times(planes, *self._small(place))
        self._rounds.take(round, sender)

    def _gather(self, most: int) -> None:
        """Add what is done to the shares, until at most so many pieces are under way."""
        while len(self._under_way) > most:
            peer, place, work = self._under_way.popleft()
            self._kept[peer][place.all_columns] += work.result()

    def contribute(self) -> Contribution:
        self._rounds.close()
        self._gather(0)
        for share in self._kept.values():
            share += draw_hints(self._randomness["multiply"], share.size).reshape(share.shape).view(np.uint64)
        parts = [self._share(cross).ravel() for cross in self._spec.crosses]
        vector = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
        vector &= np.uint64((1 << self._spec.modulus_bits) - 1)
        self.wipe()
        return Contribution(vector)

    def _share(self, cross: Cross) -> Words:
        share = self._noise[cross].view(np.uint64).copy()
        if cross.left == self._me:
            share -= self._needs.block(self._returned[cross.right], cross)
        if cross.right == self._me:
            share += self._needs.block(self._kept[cross.left], cross)
        return share

    def wipe(self) -> None:
        self._secrets.fill(0)
        self._rho.fill(0)
        for share in (*self._kept.values(), *self._returned.values(), *self._noise.values()):
            share.fill(0)
        self._states.wipe()
        self._randomness.clear()

    def _rows(self, needed: NDArray[np.intp], block: int, blocks: int) -> NDArray[np.int16]:
        rows = self._columns.rows(block * N, min((block + blocks) * N, self._spec.rows))
        if len(needed) and len(needed) == needed[-1] - needed[0] + 1:
            return rows[:, needed[0] : needed[-1] + 1]
        return rows[:, needed]

    def _small(self, place: ParcelPlace) -> tuple[Small, int]:
        """The integers by which a sealed parcel is multiplied, and their bound."""
        if place.block * N >= self._spec.rows:
            return self._rho.T, WIDE_BOUND
        return self._rows(self._right, place.block, place.blocks), self._spec.bound

    def _seal(self) -> Iterator[bytes]:
        """The left party's half of a cross-party product. Alg. 1, line 11."""
        keys = self._states.own.kernels.keys(self._secrets, self._seal_bits)

        def pieces() -> Iterator[tuple[Any, ...]]:
            for place in parcel_places(len(self._left), self._spec.rows):
                if place.block * N >= self._spec.rows:
                    rows = np.zeros((N, place.columns), np.int16)
                else:
                    rows = self._rows(self._left, place.block, place.blocks)[:, place.all_columns]
                # Each parcel's errors have a key of their own: who draws them, and when, does not matter.
                source = self._randomness["seal"].bytes(32)
                yield self._states, self.workers.remote, self._me, place, keys, rows, source

        return self.workers.map(seal_piece, pieces())

    def _multiply(self) -> Iterator[bytes]:
        """The right party's half. Alg. 1, line 11."""
        spec, count = self._spec, len(self._right)
        u = draw_wide(self._randomness["multiply"], count * N).reshape(count, N).astype(np.int64).view(np.uint64)
        # A device does better on long sums than on many.
        apart = self.workers.apart and self.workers.device == "cpu"
        for columns, words in self._sums_apart() if apart else self._sums_here():
            u[columns] += words
        for place in parcel_places(count, 0):
            planes = Planes.empty((place.columns, N), spec.modulus_bits, self._states.own.scratch)
            planes.write(slice(None), 0, u[place.all_columns])
            yield self._states.own.frames.wrap(1, self._me, place, planes)

    def _sums_here(self) -> Iterator[tuple[slice, Words]]:
        """The parts of sum of a_r y_r + p rho, as many blocks at once as one rounding allows."""
        spec, count, kernels = self._spec, len(self._right), self._states.own.kernels
        bits, most = self._multiply_bits, self._most
        total = -(-spec.rows // N)
        sums = kernels.sums(count, bits)
        group, held = min(most, BLOCKS_AT_ONCE), 0
        for block in [*range(0, total, group), total] if count else []:
            blocks = 1 if block == total else min(group, total - block)
            rows: Small = self._rho.T
            if block < total:
                rows = pad_rows(check_entries(self._rows(self._right, block, blocks), spec, self._me))
            if held + blocks > most:
                yield slice(None), kernels.collect(sums, bits)
                held = 0
            held += blocks
            kernels.accumulate(sums, kernels.elements(public_elements(spec, block, blocks), bits), rows)
        yield slice(None), kernels.collect(sums, bits)

    def _sums_apart(self) -> Iterator[tuple[slice, Words]]:
        """The same in pieces; all are integers, so their sum is the same however they are cut."""
        spec, count, total = self._spec, len(self._right), -(-self._spec.rows // N)
        cut = [*spans(count, total, self._most), (slice(0, count), total, 1)] if count else []

        def pieces() -> Iterator[tuple[Any, ...]]:
            for columns, block, blocks in cut:
                rows: Small = self._rho.T
                if block < total:
                    rows = self._rows(self._right, block, blocks)[:, columns]
                yield self._states, self.workers.remote, spec, self._me, self._multiply_bits, block, rows

        found = self.workers.map(multiply_piece, pieces())
        return ((columns, words) for (columns, _, _), words in zip(cut, found, strict=True))
