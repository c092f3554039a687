"""Secure products of three owners and more: Gilboa's products by correlated transfers, then the lattice product.

At each stage every holder of a share a meets the next owner, who has the column c. The owner's number c + bound is
taken bit by bit: for bit k a transfer gives it r, or r + 2^k a, and the holder keeps r (Gilboa 1999). So both share
a (c + bound), of which the holder takes off bound a. Shares are modulo t, the power of two that the last step's gain
leaves. The last owner multiplies sealed shares; what is opened is the sum of all parties' parts, noise included.
docs/secure-product.md has the assumptions, proofs/transfers.md and proofs/chain_error.md the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colonnade.crypto.alignment.base_ot import BaseSender
from colonnade.crypto.alignment.curve25519 import POINT_BYTES
from colonnade.crypto.chains.last import LastStep
from colonnade.crypto.chains.stages import Meeting, Shares, check_chains, column_words, meetings, prefixes, stages
from colonnade.crypto.chains.transfer import CHOICE_BYTES, BitSide, WordSide, hashed, matrix_bytes
from colonnade.crypto.frames import HEADER, check_round, pack, unpack
from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.party import planned_bytes as last_bytes
from colonnade.crypto.lattice.work import seal_words
from colonnade.crypto.product import ChainParty, ChainSpec, Cross, Integers, Parcel, ProductSpec, Words
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, derive


class SharedWords(LatticeParty):
    """A party that seals words modulo 2^modulus_bits in place of its columns, and multiplies with its columns.

    The kernels of numpy do it: those of a device, and compiled ones, take small integers only.
    """

    def __init__(
        self, spec: ProductSpec, me: int, columns: IntegerColumns, words: Words, randomness: Randomness
    ) -> None:
        none: dict[Cross, Integers] = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
        self._words = words
        super().__init__(spec, me, columns, none, randomness)

    def _shape(self, columns: IntegerColumns) -> tuple[int, int]:
        """Columns count as wide as the shares that are sealed beside them."""
        rows, width = columns.shape
        return rows, max(width, self._words.shape[1])

    def _seal(self) -> Iterator[bytes]:
        spec, count = self._spec, len(self._left)
        keys = self._states.own.kernels.keys(self._secrets, self._seal_bits)
        for place in parcel_places(count, spec.rows):
            start = place.block * N
            words = np.zeros((0, place.columns), np.uint64)
            if start < spec.rows:
                words = self._words[start : start + place.rows][:, self._left[place.all_columns]]
            source = self._randomness["seal"].bytes(32)
            yield seal_words(self._states, spec, self._me, place, keys, words, source)

    def wipe(self) -> None:
        super().wipe()
        self._words.fill(0)


KEYS, CHOICES, SEAL, MULTIPLY = "chain keys", "chain choices", "chain seal", "chain multiply"
TRANSFERS_AT_ONCE = 1 << 18  # bounds the memory of a piece of rows; chosen, not measured


class _Cut:
    """How the transfers of a meeting are cut in pieces of rows."""

    def __init__(self, spec: ChainSpec, meeting: Meeting) -> None:
        self.bits = (2 * spec.bound).bit_length()
        each = len(meeting.wanted) * self.bits
        self._step = max(64, TRANSFERS_AT_ONCE // each)
        self._rows = spec.rows
        self.pieces = -(-spec.rows // self._step)
        self.word_bytes = -(-(spec.modulus_bits - spec.gains[meeting.chain].bit_length() + 1) // 8)
        self._meeting = meeting

    def rows(self, piece: int) -> slice:
        return slice(piece * self._step, min(self._rows, (piece + 1) * self._step))

    def records(self, piece: int) -> int:
        return min(self._rows, (piece + 1) * self._step) - piece * self._step

    def transfers(self, piece: int) -> int:
        return len(self._meeting.wanted) * self.bits * self.records(piece)

    def reply_bytes(self, piece: int) -> int:
        return self._meeting.words * self.bits * self.records(piece) * self.word_bytes


class _Link:
    """One meeting as one side goes through it: what it has to keep until the other side's next parcel."""

    def __init__(self, spec: ChainSpec, meeting: Meeting) -> None:
        self.meeting, self.cut = meeting, _Cut(spec, meeting)
        self.taken = 0
        self.kept: list[list[Words]] = []
        self.replies: list[bytes] = []


class LatticeChain(ChainParty):
    """One party's side."""

    @staticmethod
    def rounds(spec: ChainSpec) -> tuple[str, ...]:
        told = (f"chain {what} {stage}" for stage in range(1, stages(spec) + 1) for what in ("bits", "words"))
        return (KEYS, CHOICES, *told, SEAL, MULTIPLY)

    @staticmethod
    def planned_bytes(spec: ChainSpec, me: int) -> int:
        total = last_bytes(LastStep(spec).product, me)
        met: set[tuple[int, int]] = set()
        for stage in range(1, stages(spec) + 1):
            for meeting in meetings(spec, stage):
                cut = _Cut(spec, meeting)
                met.add((meeting.holder, meeting.owner))
                for piece in range(cut.pieces):
                    if meeting.owner == me:
                        total += HEADER.size + matrix_bytes(cut.transfers(piece))
                    if meeting.holder == me:
                        total += HEADER.size + cut.reply_bytes(piece)
        keys = sum(HEADER.size + POINT_BYTES for _, owner in met if owner == me)
        return total + keys + sum(HEADER.size + CHOICE_BYTES for holder, _ in met if holder == me)

    def __init__(
        self, spec: ChainSpec, me: int, columns: IntegerColumns, noise: Integers, randomness: Randomness
    ) -> None:
        check_chains(spec, me, columns, noise)
        self._spec, self._me, self._columns, self._name = spec, me, columns, spec.parties[me]
        self._noise = np.array(noise, dtype=np.int64)
        self._randomness: Randomness | None = randomness
        self._rounds = self.rounds(spec)
        self._links = [
            [_Link(spec, m) for m in meetings(spec, stage) if me in (m.holder, m.owner)]
            for stage in range(1, stages(spec) + 1)
        ]
        every = [link.meeting for links in self._links for link in links]
        self._holders = sorted({m.holder for m in every if m.owner == me})
        self._owners = sorted({m.owner for m in every if m.holder == me})
        self._base: BaseSender | None = None
        self._bit_sides: dict[int, BitSide] = {}
        self._word_sides: dict[int, WordSide] = {}
        self._used: dict[tuple[int, int], int] = {}
        self._shares: Shares = {}
        self._last_step = LastStep(spec)
        self._last: SharedWords | None = None
        self._counts: dict[tuple[str, int], int] = {}
        self._sent: list[str] = []
        self._done = False
        for number, chain in enumerate(spec.chains):
            if chain.owners[0] == me:
                found = column_words(columns, [p[0] for p in prefixes(chain, 1)])
                self._shares |= {(number, (place,)): words for place, words in found.items()}

    def __repr__(self) -> str:
        return f"LatticeChain({self._name!r}, rows={self._spec.rows}, done={self._done})"

    def send(self, round: str) -> Iterator[Parcel]:
        check_round(self._rounds, round)
        if self._done or round in self._sent or round != self._rounds[len(self._sent)]:
            raise ProtocolError(f"party {self._name} answers each round once and in order, got round {round}")
        if self._sent:
            self._require_all(self._sent[-1])
        self._sent.append(round)
        if round == KEYS:
            return self._send_keys()
        if round == CHOICES:
            return self._send_choices()
        if round in (SEAL, MULTIPLY):
            return self._send_last(round)
        what, stage = round.split()[1:]
        links = self._links[int(stage) - 1]
        return self._send_bits(round, links) if what == "bits" else self._send_words(round, links)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        check_round(self._rounds, round)
        peer = self._spec.parties.index(sender) if sender in self._spec.parties else -1
        if self._done or peer == -1 or (round not in (SEAL, MULTIPLY) and not self._open(round, peer)):
            raise MessageError(f"party {self._name} expects no parcel of round {round} from {sender!r}")
        if round in (SEAL, MULTIPLY):
            self._prepared().receive(round.removeprefix("chain "), sender, payload)
            return
        number = self._counts.get((round, peer), 0)
        body = bytes(unpack(self._spec, round, sender, self._name, number, payload))
        self._counts[round, peer] = number + 1
        if round == KEYS:
            self._word_sides[peer] = WordSide(self._context(self._me, peer), body, self._child(f"choices {peer}"))
        elif round == CHOICES:
            if len(body) != CHOICE_BYTES or self._base is None:
                raise MessageError(f"choices of {sender} must have {CHOICE_BYTES} bytes, got {len(body)}")
            context = self._context(peer, self._me)
            self._bit_sides[peer] = BitSide(self._base, context, body, self._child(f"bits {peer}"))
        else:
            link = self._open(round, peer)[0]
            take = self._take_bits if " bits " in round else self._take_words
            take(link, body)
            link.taken += 1

    def contribute(self) -> Words:
        if self._done or len(self._sent) < len(self._rounds):
            raise ProductError(f"party {self._name} contributes once, after its rounds {', '.join(self._rounds)}")
        vector = self._last_step.sums(self._prepared().contribute().vector)
        vector += self._noise.view(np.uint64)
        vector &= np.uint64((1 << self._spec.modulus_bits) - 1)
        self._done = True
        self.wipe()
        return vector

    def wipe(self) -> None:
        if self._last is not None and not self._done:
            self._last.wipe()
        for words in (*self._shares.values(), *(w for links in self._links for k in links for p in k.kept for w in p)):
            words.fill(0)
        self._noise.fill(0)
        self._bit_sides.clear()
        self._word_sides.clear()
        self._randomness = self._base = None

    def _child(self, label: str) -> Randomness:
        """A source for one use with one peer: what is drawn does not depend on whose parcel comes first."""
        assert self._randomness is not None
        return self._randomness.child(f"chain {label} {self._spec.session.hex()}")

    def _context(self, holder: int, owner: int) -> bytes:
        return derive(self._spec.session, f"chain base {holder} {owner}")

    def _open(self, round: str, peer: int) -> list[_Link]:
        """The meetings that still wait for a parcel of this round from a peer; for keys, whether one is due."""
        if round in (KEYS, CHOICES):
            due = peer in (self._owners if round == KEYS else self._holders) and not self._counts.get((round, peer), 0)
            return [link for links in self._links for link in links][:1] if due else []
        what, stage = round.split()[1:]
        mine = [
            k for k in self._links[int(stage) - 1] if peer == (k.meeting.owner if what == "bits" else k.meeting.holder)
        ]
        return [k for k in mine if k.taken < k.cut.pieces]

    def _require_all(self, round: str) -> None:
        """Raise where a parcel of a round is missing: the next one builds on it."""
        for peer, name in enumerate(self._spec.parties):
            if round not in (SEAL, MULTIPLY) and peer != self._me and self._open(round, peer):
                raise ProductError(f"party {self._name} needs all parcels of round {round} from {name}, got too few")

    def _parcel(self, round: str, recipient: int, number: int, body: bytes) -> Parcel:
        name = self._spec.parties[recipient]
        return Parcel(name, pack(self._spec, round, self._name, name, number, body))

    def _send_keys(self) -> Iterator[Parcel]:
        if self._holders:
            self._base = BaseSender(self._child("keys"))
            for holder in self._holders:
                yield self._parcel(KEYS, holder, 0, self._base.public)

    def _send_choices(self) -> Iterator[Parcel]:
        for owner in self._owners:
            yield self._parcel(CHOICES, owner, 0, self._word_sides[owner].choices)

    def _send_bits(self, round: str, links: Sequence[_Link]) -> Iterator[Parcel]:
        """The owner's matrices; what hides the answers is kept."""
        numbers: dict[int, int] = {}
        for link in links:
            meeting, cut = link.meeting, link.cut
            if meeting.owner != self._me:
                continue
            for piece in range(cut.pieces):
                body, rows = self._bit_sides[meeting.holder].matrix(self._bits(link, piece).ravel())
                link.kept.append(self._hashed(link, self._advance(meeting, len(rows)), rows))
                number = numbers.get(meeting.holder, 0)
                numbers[meeting.holder] = number + 1
                yield self._parcel(round, meeting.holder, number, body)

    def _bits(self, link: _Link, piece: int) -> Words:
        """Bits of the owner's columns, raised by the bound: one row for each column and bit."""
        here = link.cut.rows(piece)
        rows = self._columns.rows(here.start, here.stop)
        raised = np.stack([rows[:, column].astype(np.int64) + self._spec.bound for column, _ in link.meeting.wanted])
        if raised.min() < 0 or raised.max() > 2 * self._spec.bound:
            raise ProductError(f"an entry of {self._name} must be within {self._spec.bound} of zero, got another")
        places = np.arange(link.cut.bits, dtype=np.uint64)
        return raised.view(np.uint64)[:, None, :] >> places[:, None] & np.uint64(1)

    def _advance(self, meeting: Meeting, count: int) -> int:
        """The number of the first of so many transfers between two parties: no two have the same."""
        first = self._used.get((meeting.holder, meeting.owner), 0)
        self._used[meeting.holder, meeting.owner] = first + count
        return first

    def _hashed(self, link: _Link, first: int, rows: Words) -> list[Words]:
        """For each column the words that its transfers' rows hide: (bits, records, prefixes)."""
        key = derive(self._spec.session, f"chain hash {link.meeting.holder} {link.meeting.owner}")
        count = len(rows) // len(link.meeting.wanted)
        out = []
        for i, (_, found) in enumerate(link.meeting.wanted):
            part = rows[i * count : (i + 1) * count]
            words = hashed(key, first + i * count, part, len(found))
            out.append(words.reshape(link.cut.bits, -1, len(found)))
        return out

    @proven("transfers")
    def _take_bits(self, link: _Link, body: bytes) -> None:
        """The holder's answer to a matrix: corrections, under which its words lie; it keeps its new shares.

        Domain: body: a matrix as it came.
        Unit: words modulo 2^modulus_bits / gain.
        Guarantee: its words are hidden from the other side but for the product's share. Proof: transfers.
        """
        meeting, cut, piece = link.meeting, link.cut, link.taken
        side = self._word_sides[meeting.owner]
        rows = side.rows(body, cut.transfers(piece))
        first = self._advance(meeting, len(rows))
        zeros, ones = self._hashed(link, first, rows), self._hashed(link, first, rows ^ side.secret)
        here, powers = cut.rows(piece), np.arange(cut.bits, dtype=np.uint64)[:, None]
        replies = []
        for (column, found), zero, one in zip(meeting.wanted, zeros, ones, strict=True):
            for k, prefix in enumerate(found):
                word = self._shares[meeting.chain, prefix][here]
                new = self._new_share(meeting.chain, (*prefix, column))
                new[here] -= zero[:, :, k].sum(axis=0, dtype=np.uint64) + word * np.uint64(self._spec.bound)
                replies.append(zero[:, :, k] - one[:, :, k] + (word << powers))
        link.replies.append(_shortened(np.concatenate([r.ravel() for r in replies]), cut.word_bytes))

    def _new_share(self, chain: int, prefix: tuple[int, ...]) -> Words:
        return self._shares.setdefault((chain, prefix), np.zeros(self._spec.rows, np.uint64))

    def _send_words(self, round: str, links: Sequence[_Link]) -> Iterator[Parcel]:
        numbers: dict[int, int] = {}
        for link in links:
            if link.meeting.holder == self._me:
                for body in link.replies:
                    number = numbers.get(link.meeting.owner, 0)
                    numbers[link.meeting.owner] = number + 1
                    yield self._parcel(round, link.meeting.owner, number, body)
                link.replies.clear()

    @proven("transfers")
    def _take_words(self, link: _Link, body: bytes) -> None:
        """The owner's shares: what its bits let it read of the holder's answer.

        Domain: body: corrections as they came.
        Unit: words modulo 2^modulus_bits / gain.
        Guarantee: both sides' shares add up to the product. Proof: transfers, the product is right.
        """
        meeting, cut, piece = link.meeting, link.cut, link.taken
        if len(body) != cut.reply_bytes(piece):
            raise MessageError(f"an answer must have {cut.reply_bytes(piece)} bytes, got {len(body)}")
        here = cut.rows(piece)
        corrections = _lengthened(body, cut.word_bytes).reshape(-1, cut.bits, cut.records(piece))
        at = 0
        for (column, found), own, bits in zip(meeting.wanted, link.kept[piece], self._bits(link, piece), strict=True):
            for k, prefix in enumerate(found):
                words = own[:, :, k] + bits * corrections[at]
                self._new_share(meeting.chain, (*prefix, column))[here] += words.sum(axis=0, dtype=np.uint64)
                at += 1

    def _prepared(self) -> SharedWords:
        """The last step; it begins once all shares are there."""
        if self._last is None:
            words = self._last_step.words(self._me, self._shares)
            for share in self._shares.values():
                share.fill(0)
            self._last = SharedWords(self._last_step.product, self._me, self._columns, words, self._child("last"))
        return self._last

    def _send_last(self, round: str) -> Iterator[Parcel]:
        return self._prepared().send(round.removeprefix("chain "))


def _shortened(words: Words, size: int) -> bytes:
    """The low bytes of each word."""
    return np.ascontiguousarray(words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]).tobytes()


def _lengthened(body: bytes, size: int) -> Words:
    out = np.zeros((len(body) // size, 8), np.uint8)
    out[:, :size] = np.frombuffer(body, np.uint8).reshape(-1, size)
    return out.view("<u8").astype(np.uint64).ravel()
