"""The contract of products of three owners and more, asked of both: right sums, uniform shares, no mistake passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.columns import resident
from colonnade.crypto.alignment.base_ot import BaseSender
from colonnade.crypto.chains import transfer
from colonnade.crypto.chains.in_the_clear import PlainChain
from colonnade.crypto.chains.party import LatticeChain
from colonnade.crypto.chains.transfer import BitSide, WordSide, hashed, matrix_bytes
from colonnade.crypto.product import Chain, ChainParty, ChainSpec, Parcel, centred
from colonnade.foundation.errors import ColonnadeError, MessageError, ProductError, ProtocolError
from colonnade.foundation.randomness import Randomness

THREE = (Chain((0, 1, 2), ((0, 0, 0), (1, 0, 1), (0, 1, 1))),)
FOUR = (Chain((3, 0, 2, 1), ((0, 0, 0, 1), (1, 1, 1, 0), (0, 0, 0, 0))), Chain((1, 2, 0), ((1, 0, 1),)))
BOUND, ROWS = 7, 100


@dataclass
class Chained:
    """A session of chains with all sides in one process."""

    kind: type[ChainParty]
    chains: tuple[Chain, ...] = THREE
    rows: int = ROWS
    bits: int = 48
    gain: int = 1 << 16
    seed: bytes = b"chains"
    parties: int = 4
    sent: list[tuple[str, str, Parcel]] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = np.random.default_rng(5)
        names = tuple(f"p{k}" for k in range(self.parties))
        gains = (self.gain,) * len(self.chains)
        self.spec = ChainSpec(bytes(range(32)), names, self.rows, BOUND, self.chains, self.bits, gains)
        shape = (self.rows, 2)
        self.data = [draw.integers(-BOUND, BOUND + 1, shape).astype(np.int16) for _ in names]
        self.noise = [draw.integers(-99, 99, self.spec.values) for _ in names]
        self.sides = [self.side(k) for k in range(self.parties)]

    def side(self, k: int) -> ChainParty:
        source = Randomness(self.seed + bytes([k]))
        return self.kind(self.spec, k, resident(self.data[k]), self.noise[k], source)

    def run(self, until: str = "") -> None:
        for round in self.kind.rounds(self.spec):
            if round == until:
                return
            for k, side in enumerate(self.sides):
                for parcel in side.send(round):
                    self.sent.append((round, self.spec.parties[k], parcel))
                    to = self.spec.parties.index(parcel.recipient)
                    self.sides[to].receive(round, self.spec.parties[k], parcel.payload)

    def opened(self) -> np.ndarray:
        total = np.sum([side.contribute() for side in self.sides], axis=0, dtype=np.uint64)
        return centred(total & np.uint64((1 << self.bits) - 1), self.bits)

    def expected(self) -> np.ndarray:
        sums = []
        for chain in self.chains:
            for term in chain.terms:
                columns = [self.data[o][:, c].astype(np.int64) for o, c in zip(chain.owners, term, strict=True)]
                sums.append(int(np.prod(columns, axis=0).sum()))
        return self.gain * np.array(sums) + np.sum(self.noise, axis=0)


@pytest.fixture(params=[PlainChain, LatticeChain], ids=["plain", "lattice"])
def kind(request: pytest.FixtureRequest) -> type[ChainParty]:
    chosen: type[ChainParty] = request.param
    return chosen


@pytest.mark.parametrize("chains", [THREE, FOUR], ids=["three", "four"])
def test_opened_integers_are_the_products_with_all_noise(kind: type[ChainParty], chains: tuple[Chain, ...]) -> None:
    session = Chained(kind, chains)
    session.run()
    most = max(len(chain.owners) - 1 for chain in chains)
    error = np.abs(session.opened() - session.expected()).max()
    # 100 * 7 * 7 + 2048 * (7 + 2) * 15 + 2 * 4095 for each holder of a share: proofs/no_wrap.md
    assert error <= (0 if kind is PlainChain else most * 289_570)
    # Far below one unit of the products themselves.
    assert error < session.gain


def test_bytes_are_as_planned_and_the_same_when_seeded(kind: type[ChainParty]) -> None:
    one, two, other = Chained(kind), Chained(kind), Chained(kind, seed=b"other")
    for session in (one, two, other):
        session.run()
    for k, name in enumerate(one.spec.parties):
        assert sum(len(p.payload) for _, sender, p in one.sent if sender == name) == kind.planned_bytes(one.spec, k)
    assert one.sent == two.sent != other.sent


def test_shares_alone_are_uniform(kind: type[ChainParty]) -> None:
    many = (Chain((0, 1, 2), tuple((a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1))),)
    given: list[list[np.ndarray]] = [[] for _ in range(3)]
    for seed in range(12):
        session = Chained(kind, many, rows=20, seed=b"uniform %d" % seed, parties=3, gain=16)
        session.run()
        for k, side in enumerate(session.sides):
            given[k].append(side.contribute())
    for words in map(np.concatenate, given):
        for shift in (0, 40):
            bits = np.bincount(((words >> np.uint64(shift)) & np.uint64(7)).astype(np.int64), minlength=8)
            assert stats.chisquare(bits).pvalue > 1e-6


def test_no_parcel_depends_on_what_it_hides(kind: type[ChainParty]) -> None:
    """Of the lattice: with other data of a holder, whose words are hidden, the next owner's bits stay its own."""
    if kind is PlainChain:
        pytest.skip("plain shows columns")
    sent = []
    for change in (0, 1):
        session = Chained(kind)
        session.data[0] = np.roll(session.data[0], change, axis=0)
        session.sides[0] = session.side(0)
        session.run()
        sent.append({(r, s, p.recipient): p.payload for r, s, p in session.sent})
    same = {key for key in sent[0] if sent[0][key] == sent[1][key]}
    assert ("chain bits 1", "p1", "p0") in same and ("chain words 1", "p0", "p1") not in same


@pytest.mark.parametrize("at", [0, -1])
def test_altered_cut_repeated_and_foreign_parcels_are_refused(kind: type[ChainParty], at: int) -> None:
    first = Chained(kind)
    rounds = kind.rounds(first.spec)
    first.run()
    for round in rounds:
        session = Chained(kind)
        session.run(until=round)
        parcels = [(s, p) for r, s, p in first.sent if r == round]
        sender, parcel = parcels[0]
        to = session.sides[session.spec.parties.index(parcel.recipient)]
        payload = bytearray(parcel.payload)
        payload[at] ^= 1
        for wrong in (bytes(payload), parcel.payload[:-1], b""):
            with pytest.raises((MessageError, ProductError)):
                to.receive(round, sender, wrong)
        to.receive(round, sender, parcel.payload)
        if len([1 for s, p in parcels if (s, p.recipient) == (sender, parcel.recipient)]) == 1:
            with pytest.raises((MessageError, ProductError)):
                to.receive(round, sender, parcel.payload)
        with pytest.raises(MessageError):
            to.receive(round, "stranger", parcel.payload)


def test_rounds_come_once_and_in_order(kind: type[ChainParty]) -> None:
    session = Chained(kind)
    rounds = kind.rounds(session.spec)
    with pytest.raises(ProtocolError):
        session.sides[0].send(rounds[1])
    with pytest.raises(ProtocolError):
        session.sides[0].send("seal")
    session.run()
    with pytest.raises(ProtocolError):
        session.sides[0].send(rounds[0])
    session.opened()
    with pytest.raises(ProductError):
        session.sides[0].contribute()


def test_a_missing_parcel_stops_the_next_round(kind: type[ChainParty]) -> None:
    session = Chained(kind)
    first, second = kind.rounds(session.spec)[:2]
    for side in session.sides:
        list(side.send(first))
    with pytest.raises(ProductError, match="needs"):
        [list(side.send(second)) for side in session.sides]


@pytest.mark.parametrize(
    "change",
    [
        {"gains": (3,)},
        {"gains": ()},
        {"rows": ROWS + 1},
        {"session": b"short"},
        {"chains": (Chain((0, 1), ((0, 0),)),)},
        {"chains": (Chain((0, 1, 1), ((0, 0, 0),)),)},
        {"chains": (Chain((0, 1, 2), ((0, 0),)),)},
        {"chains": (Chain((0, 1, 2), ((9, 0, 0),)),)},
        {"chains": (Chain((0, 1, 2), ((0, 0, 0), (0, 0, 0))),)},
    ],
)
def test_what_no_session_could_run_is_refused(kind: type[ChainParty], change: dict[str, object]) -> None:
    session = Chained(kind)
    spec = replace(session.spec, **change)  # type: ignore[arg-type]
    noise = np.zeros(spec.values, np.int64)
    with pytest.raises(ProductError):
        kind(spec, 0, resident(session.data[0]), noise, Randomness(b"x"))


def test_entries_beyond_the_bound_are_refused(kind: type[ChainParty]) -> None:
    for party in range(3):
        session = Chained(kind, parties=3)
        session.data[party][3] = BOUND + 1
        with pytest.raises(ColonnadeError, match="within 7 of zero"):
            session.sides[party] = session.side(party)
            session.run()


def _sides() -> tuple[BitSide, WordSide]:
    base = BaseSender(Randomness(b"base"))
    word = WordSide(b"context", base.public, Randomness(b"word"))
    return BitSide(base, b"context", word.choices, Randomness(b"bit")), word


def test_base_transfers_are_as_many_as_columns() -> None:
    """Two points of 32 bytes for each of 128 columns; a matching's code has 512, of which these would not be used."""
    bit_side, word_side = _sides()
    assert len(word_side.choices) == 128 * 2 * 32
    body, _ = bit_side.matrix(np.zeros(64, np.uint64))
    assert len(word_side.secret) * 64 == 128 and len(body) == matrix_bytes(64)


def test_transfers_give_the_word_where_the_bit_is_one() -> None:
    bit_side, word_side = _sides()
    bits = np.random.default_rng(0).integers(0, 2, 1000).astype(np.uint64)
    for _ in range(2):
        body, own = bit_side.matrix(bits)
        rows = word_side.rows(body, len(bits))
        key = bytes(32)
        zero, one = hashed(key, 5, rows, 3), hashed(key, 5, rows ^ word_side.secret, 3)
        got = hashed(key, 5, own, 3)
        assert np.array_equal(got, np.where(bits[:, None] == 0, zero, one))
        assert len(np.unique(zero)) == zero.size and not np.array_equal(hashed(key, 6, rows, 3), zero)


def test_a_matrix_whose_rows_mix_bits_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that turns one bit of a row, and states its sums honestly for what it sent, would learn a key bit."""
    bit_side, word_side = _sides()
    wrong = int(np.flatnonzero(np.unpackbits(word_side.secret.view(np.uint8), bitorder="little"))[5])
    told = transfer._challenge

    def turned(context: bytes, number: int, matrix: np.ndarray) -> np.ndarray:
        matrix[wrong, 0] ^= np.uint64(1 << 7)
        return told(context, number, matrix)

    monkeypatch.setattr(transfer, "_challenge", turned)
    body, _ = bit_side.matrix(np.zeros(500, np.uint64))
    monkeypatch.setattr(transfer, "_challenge", told)
    with pytest.raises(MessageError, match="one bit in each row"):
        word_side.rows(body, 500)
