"""Sessions in which parties prove what they send, and parties that would send something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.frames import ParcelPlace, parcel_places
from colonnade.crypto.lattice.kernels import NumpyKernels
from colonnade.crypto.lattice.parameters import N, multiply_limbs
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.lattice.work import public_elements
from colonnade.crypto.product import Parcel, PartyProduct, ProductSpec, Words
from colonnade.crypto.ranges.commitments import BitChecker, BitCommitter
from colonnade.crypto.ranges.party import MULTIPLY, SEAL, ProvenParty
from colonnade.crypto.ranges.proof import ProverKey, VerifierChoices, Witness
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.fit import FitParty
from colonnade.protocol.party import PartyRole
from colonnade.transport.in_process import pass_on
from tests.helpers.sessions import TappedSession, agreement_of, parties_of, server_of, tables_of

LARGE = 2047
Kinds = Mapping[str, type[PartyProduct]]


def proven_session(
    kinds: Kinds | None = None, parties: int = 2, rows: int = 120, seed: bytes | None = b"seed", **options: Any
) -> TappedSession:
    """A whole session, in which some parties may be of another kind. p1 seals to p0, and p2 to both."""
    changes = options.pop("changes", {"proofs": "required"})
    meddle = options.pop("meddle", pass_on)
    agreement = agreement_of(parties, product="lattice", **changes)
    source = Randomness(seed)
    roles = parties_of(agreement, tables_of(agreement, rows), source, **options)
    for name, kind in (kinds or {}).items():
        task = roles[name].task
        assert isinstance(task, FitParty)
        task.product = lambda session, workers, kind=kind: kind
    return TappedSession(server_of(agreement, source), roles, meddle=meddle)


def role_of(session: TappedSession, name: str) -> PartyRole:
    return session.parties[name]


# Other words than those that are proved.


class Wide(LatticeParty):
    """Seals, and multiplies with, numbers far beyond the bound of the plan, in a few records."""

    def __init__(self, spec: ProductSpec, *given: Any) -> None:
        super().__init__(replace(spec, bound=LARGE), *given)

    def _rows(self, needed: NDArray[np.intp], block: int, blocks: int) -> NDArray[np.int16]:
        rows = super()._rows(needed, block, blocks).copy()
        rows[:8, 0] = LARGE
        return rows


class FarNumbers(ProvenParty):
    """Its bits are of what is allowed."""

    inner = Wide


@dataclass
class TwoLevels:
    """Columns of which one record has two levels set: columns 1 to 3 of p0, 1 and 2 of p1."""

    columns: Any
    levels: slice
    bound: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape  # type: ignore[no-any-return]

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        rows = np.array(self.columns.rows(start, stop))
        if start <= 5 < stop:
            rows[5 - start, self.levels] = self.bound
        return rows


class TwoOnes(ProvenParty):
    """One record has two levels set, in its bits as in its words."""

    def __init__(self, spec: ProductSpec, me: int, columns: Any, *given: Any) -> None:
        super().__init__(spec, me, TwoLevels(columns, slice(1, 4), spec.bound), *given)  # type: ignore[arg-type]


class Changing(LatticeParty):
    """Changes its first parcel of one round on its way out."""

    round: ClassVar[str] = MULTIPLY

    def change(self, words: Words) -> None: ...

    def form(self, planes: Planes) -> None: ...

    def send(self, round: str) -> Iterator[Parcel]:
        for at, parcel in enumerate(super().send(round)):
            place = self._place(round)
            first = at == 0 or (at < len(self._spec.parties) and parcel.payload == self._before)
            if round != self.round or not first:
                yield parcel
                continue
            self._before, frames = parcel.payload, self._states.own.frames
            words = frames.unwrap(self.rounds.index(round), self._me, place, parcel.payload).words()
            self.change(words)
            planes = Planes.empty(words.shape, self._spec.modulus_bits, Scratch())
            planes.write(slice(None), 0, words)
            self.form(planes)
            yield Parcel(parcel.recipient, frames.wrap(self.rounds.index(round), self._me, place, planes))

    def _place(self, round: str) -> ParcelPlace:
        count, rows = (len(self._left), self._spec.rows) if round == SEAL else (len(self._right), 0)
        return parcel_places(count, rows)[0]


def changing(change: Callable[[LatticeParty, Words], None], at: str = MULTIPLY) -> type[ProvenParty]:
    """A party whose first words of a round are changed."""
    inner = type("Changed", (Changing,), {"round": at, "change": change})
    return type("Changed", (ProvenParty,), {"inner": inner})


def second_form(at: str) -> type[ProvenParty]:
    """A party whose first word of a round has a bit above the modulus: the same number modulo q."""

    def form(party: LatticeParty, planes: Planes) -> None:
        planes.arrays[-1][0, 0] |= planes.arrays[-1].dtype.type(planes._last_mask + 1)

    inner = type("Changed", (Changing,), {"round": at, "form": form})
    return type("Changed", (ProvenParty,), {"inner": inner})


def spell_a_key(party: LatticeParty, words: Words) -> None:
    """An answer of its own making, small multiples of powers of 5: it would spell the partner's key."""
    words[0] = 0
    words[0, :6] = np.uint64(1 << 20) * np.uint64(5) ** np.arange(6, dtype=np.uint64)


def move_by_half(party: LatticeParty, words: Words) -> None:
    """One word is moved by half the modulus."""
    words[0, 7] ^= np.uint64(1 << (party._spec.modulus_bits - 1))


def weigh_beyond_rows(party: LatticeParty, words: Words) -> None:
    """A weight on a row that fills up the last block: it would read the key."""
    kernels, (limbs, _) = NumpyKernels(), multiply_limbs(party._spec.modulus_bits, 1)
    sums, rows = kernels.sums(1, limbs), np.zeros((N, 1), np.int16)
    rows[-1] = 1
    last = public_elements(party._spec, -(-party._spec.rows // N) - 1, 1)
    kernels.accumulate(sums, kernels.elements(last, limbs), rows)
    words[0] += kernels.collect(sums, limbs)[0]


class LongKeys(ProvenParty):
    """Some coefficients of s, and of rho, are far beyond their law; its bits are of what is allowed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._product._secrets[:, :4] = 100
        self._product._rho[:, :4] = 100


def rewrapped(party: LatticeParty, round: int, place: ParcelPlace, payload: bytes) -> bytes:
    """A parcel of other words, well made."""
    frames, bits = party._states.own.frames, party._spec.modulus_bits
    words = frames.unwrap(round, party._me, place, payload).words() ^ np.uint64(1)
    planes = Planes.empty(words.shape, bits, Scratch())
    planes.write(slice(None), 0, words)
    return frames.wrap(round, party._me, place, planes)


class OtherAnswer(ProvenParty):
    """Binds itself to a good answer, and sends another one."""

    def _send_bits(self) -> Iterator[Parcel]:
        yield from super()._send_bits()
        (place,) = parcel_places(len(self._product._right), 0)
        self._answer = [Parcel(p.recipient, rewrapped(self._product, 1, place, p.payload)) for p in self._answer]

    _sends: ClassVar[Any] = {**ProvenParty._sends, "proof bits": _send_bits}


class TwoFaces(ProvenParty):
    """One of two partners gets other words than the other."""

    def _send_sealed(self) -> Iterator[Parcel]:
        for parcel in super()._send_sealed():
            payload = parcel.payload
            if parcel.recipient == "p1":
                place = parcel_places(len(self._product._left), self._spec.rows)[self._turns]
                self._turns += 1
                payload = rewrapped(self._product, 0, place, payload)
            yield Parcel(parcel.recipient, payload)

    _turns = 0
    _sends: ClassVar[Any] = {**ProvenParty._sends, SEAL: _send_sealed}


@dataclass
class Turned:
    """A witness of the same words, but of other records."""

    inner: Witness
    count: int

    @property
    def keys(self) -> NDArray[np.int8]:
        return self.inner.keys

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self.inner.rows(self.count - stop, self.count - start)[::-1]

    def errors(self) -> Iterator[tuple[int, slice, NDArray[np.int8]]]:
        return self.inner.errors()


class TwoBits(ProvenParty):
    """All partners get the same words, and one of them bits of other records."""

    def _witness(self, peer: int) -> Any:
        found = super()._witness(peer)
        return Turned(found, self._spec.rows) if peer == 1 else found


def committing(kind: type[BitCommitter]) -> type[ProvenParty]:
    """A party that commits its bits in another way."""

    def take_choices(self: ProvenParty, peer: int, payload: bytes) -> None:
        self._proving[peer] = self._step(self._proving, peer, ProverKey).take(payload, kind)

    return type("Committing", (ProvenParty,), {"_takes": {**ProvenParty._takes, "proof choices": take_choices}})


def checking(kind: type[BitChecker]) -> type[ProvenParty]:
    """A party that checks in another way."""

    def take_key(self: ProvenParty, peer: int, payload: bytes) -> None:
        pair = peer, self._me
        terms = self._statements[pair], self._bound(*pair), payload, self._sources[pair], self._kernels
        self._checking[peer] = VerifierChoices(*terms, kind)

    return type("Checking", (ProvenParty,), {"_takes": {**ProvenParty._takes, "proof key": take_key}})


READ_BITS, DIGIT = 7, 13
"""Of a column of weights, how many people's values it spells; and how many bits of weights are multiplied at once."""


class Reading(LatticeParty):
    """Multiplies with `weights` in place of its columns, two digits at a time; hides nothing and adds no noise.

    What is opened then spells the values of chosen people (docs/threat-model.md).
    """

    weights: ClassVar[NDArray[np.int64]] = np.zeros((0, 0), np.int64)
    digit = 0

    def __init__(self, spec: ProductSpec, *given: Any) -> None:
        super().__init__(replace(spec, bound=1 << DIGIT, gain=1), *given)
        self._rho[:] = 0

    def _rows(self, needed: NDArray[np.intp], block: int, blocks: int) -> NDArray[np.int16]:
        rows = self.weights[block * N : min((block + blocks) * N, self._spec.rows)]
        return (rows >> (DIGIT * self.digit) & ((1 << DIGIT) - 1)).astype(np.int16)

    def _multiply(self) -> Iterator[bytes]:
        u = np.zeros((len(self._right), N), np.uint64)
        for self.digit in range(4):
            for columns, words in self._sums_here():
                u[columns] += words << np.uint64(DIGIT * self.digit)
        (place,) = parcel_places(len(u), 0)
        planes = Planes.empty((place.columns, N), self._spec.modulus_bits, self._states.own.scratch)
        planes.write(slice(None), 0, u)
        yield self._states.own.frames.wrap(1, self._me, place, planes)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        peer = self._spec.parties.index(sender)
        place = self._expected[round, peer][self._rounds.next(round, sender)]
        planes = self._states.own.frames.unwrap(0, peer, place, payload)
        self.heard(peer, place, planes)
        if place.block * N < self._spec.rows:
            met = self.weights[place.block * N : place.block * N + place.rows].view(np.uint64)
            self._kept[peer][place.all_columns] += planes.words() @ met
        self._rounds.take(round, sender)

    def _share(self, cross: Any) -> Words:
        return self._needs.block(self._kept[cross.left], cross)


class ProvenReading(ProvenParty):
    """Proves what it can: bits of its true records, of a rho that is 0 and of no error."""

    inner = Reading
