"""Products of three owners and more in the clear, for simulation and tests only: rows go to a chain's last owner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.chains.stages import Prefix, check_chains
from colonnade.crypto.frames import HEADER, Rounds, pack, unpack
from colonnade.crypto.product import Chain, ChainParty, ChainSpec, Integers, Parcel, Words
from colonnade.foundation.errors import MessageError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness

SHOW, SHARE = "chain show", "chain share"
LARGEST_PIECE = 16 << 20
"""Bytes of columns in one parcel."""
ROWS_AT_ONCE = 1 << 14  # products of these rows stay in a cache


class PlainChain(ChainParty):
    """One party's side: it shows its columns to the last owner, who sums the products and gives shares of them back."""

    @staticmethod
    def rounds(spec: ChainSpec) -> tuple[str, ...]:
        return SHOW, SHARE

    @staticmethod
    def planned_bytes(spec: ChainSpec, me: int) -> int:
        shown = [columns for (owner, _), columns in _shown(spec).items() if owner == me]
        total = sum(len(_pieces(spec, len(c))) * HEADER.size + 2 * spec.rows * len(c) for c in shown)
        return total + sum((HEADER.size + 8 * spec.values) * (last == me) for _, last in _shown(spec))

    def __init__(
        self, spec: ChainSpec, me: int, columns: IntegerColumns, noise: Integers, randomness: Randomness
    ) -> None:
        check_chains(spec, me, columns, noise)
        self._spec, self._me, self._columns, self._name = spec, me, columns, spec.parties[me]
        self._randomness, self._shown = randomness, _shown(spec)
        self._vector: Words = np.array(noise, dtype=np.int64).view(np.uint64)
        self._seen: dict[int, NDArray[np.int16]] = {}
        due = {
            (round, name): len(self._due(round, peer))
            for peer, name in enumerate(spec.parties)
            for round in (SHOW, SHARE)
            if peer != me
        }
        self._rounds = Rounds(f"party {self._name}", (SHOW, SHARE), due)

    def send(self, round: str) -> Iterator[Parcel]:
        if round == SHOW:
            self._rounds.answer(SHOW)
            return self._show()
        self._rounds.answer(round, SHOW)
        self._rounds.require(SHOW)
        return self._share()

    def _parcel(self, round: str, recipient: int, number: int, body: bytes) -> Parcel:
        name = self._spec.parties[recipient]
        return Parcel(name, pack(self._spec, round, self._name, name, number, body))

    def _show(self) -> Iterator[Parcel]:
        for (owner, last), columns in self._shown.items():
            if owner != self._me:
                continue
            for number, (start, stop) in enumerate(_pieces(self._spec, len(columns))):
                rows = self._columns.rows(start, stop)[:, columns]
                yield self._parcel(SHOW, last, number, rows.astype("<i2").tobytes())

    def _share(self) -> Iterator[Parcel]:
        """The sums of the chains that end here, split among all that showed a column."""
        holders = [owner for owner, last in self._shown if last == self._me]
        if not holders:
            return
        rest = self._sums()
        for holder in holders:
            given = self._randomness.words(self._spec.values)
            rest -= given
            yield self._parcel(SHARE, holder, 0, given.astype("<u8").tobytes())
        self._vector += rest

    def _sums(self) -> Words:
        """Of each term of a chain that ends here, times its gain, modulo 2^64; 0 for all others."""
        sums, spec = np.zeros(self._spec.values, np.uint64), self._spec
        for start in range(0, spec.rows, ROWS_AT_ONCE):
            stop = min(spec.rows, start + ROWS_AT_ONCE)
            own = self._columns.rows(start, stop)
            value = 0
            for chain, gain in zip(spec.chains, spec.gains, strict=True):
                if chain.owners[-1] == self._me:
                    found = self._products(chain, start, stop, own)
                    sums[value : value + len(found)] += found * np.uint64(gain)
                value += len(chain.terms)
        return sums

    def _products(self, chain: Chain, start: int, stop: int, own: NDArray[np.int16]) -> Words:
        known: dict[Prefix, Words] = {}
        out = np.zeros(len(chain.terms), np.uint64)
        for i, term in enumerate(chain.terms):
            for length in range(1, len(term)):
                if term[:length] not in known:
                    owner = chain.owners[length - 1]
                    place = self._shown[owner, self._me].index(term[length - 1])
                    column = _words(self._seen[owner][start:stop, place])
                    known[term[:length]] = column if length == 1 else known[term[: length - 1]] * column
            out[i] = np.dot(known[term[:-1]], _words(own[:, term[-1]]))
        return out

    def _due(self, round: str, peer: int) -> list[int]:
        """The sizes, in bytes, of all parcels of a round from a peer."""
        if round == SHARE:
            return [8 * self._spec.values] if (self._me, peer) in self._shown else []
        columns = len(self._shown.get((peer, self._me), ()))
        return [2 * columns * (stop - start) for start, stop in _pieces(self._spec, columns)] if columns else []

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        number = self._rounds.next(round, sender)
        peer = self._spec.parties.index(sender)
        size = self._due(round, peer)[number]
        body = unpack(self._spec, round, sender, self._name, number, payload)
        if len(body) != size:
            raise MessageError(f"a parcel of round {round} must have {size} bytes, got {len(body)}")
        self._rounds.take(round, sender)
        if round == SHARE:
            self._vector += np.frombuffer(body, "<u8").astype(np.uint64)
            return
        columns = len(self._shown[peer, self._me])
        seen = self._seen.setdefault(peer, np.empty((self._spec.rows, columns), np.int16))
        start, stop = _pieces(self._spec, columns)[number]
        seen[start:stop] = np.frombuffer(body, "<i2").reshape(-1, columns)

    def contribute(self) -> Words:
        self._rounds.close()
        vector = self._vector.copy() & np.uint64((1 << self._spec.modulus_bits) - 1)
        self.wipe()
        return vector

    def wipe(self) -> None:
        self._vector.fill(0)
        for seen in self._seen.values():
            seen.fill(0)
        self._seen = {}


def _words(column: NDArray[np.int16]) -> Words:
    """A column modulo 2^64."""
    return column.astype(np.int64).view(np.uint64)


def _shown(spec: ChainSpec) -> dict[tuple[int, int], list[int]]:
    """Which columns each owner shows to which last owner."""
    out: dict[tuple[int, int], set[int]] = {}
    for chain in spec.chains:
        for place, owner in enumerate(chain.owners[:-1]):
            out.setdefault((owner, chain.owners[-1]), set()).update(term[place] for term in chain.terms)
    return {pair: sorted(columns) for pair, columns in out.items()}


def _pieces(spec: ChainSpec, columns: int) -> list[tuple[int, int]]:
    """Rows of so many columns, as many at once as a parcel holds."""
    step = max(1, LARGEST_PIECE // (2 * columns))
    return [(start, min(spec.rows, start + step)) for start in range(0, spec.rows, step)]
