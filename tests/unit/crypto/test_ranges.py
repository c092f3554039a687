"""Proven ranges by themselves: bits, numbers and relations; honest proofs pass, and each deviation is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.columns import resident
from colonnade.crypto.alignment.base_ot import BaseSender, _hashes
from colonnade.crypto.alignment.curve25519 import LOW_ORDER, compress, negative
from colonnade.crypto.alignment.kernels import SUMS, AlignmentKernels
from colonnade.crypto.chains.transfer import COLUMNS, SPARE, BitRows, _challenge, _drawn, padded
from colonnade.crypto.lattice.kernels import NumpyKernels
from colonnade.crypto.lattice.parameters import DEVIATIONS, TAU, N, error_sum, proved_tau
from colonnade.crypto.product import ProductSpec, Words
from colonnade.crypto.ranges.coding import BitCoding, Bits, spell, weights_to
from colonnade.crypto.ranges.commitments import BASE_BYTES, BitChecker, BitCommitter
from colonnade.crypto.ranges.field import PRIMES, Field, LimbSums, Numbers
from colonnade.crypto.ranges.party import ProvenParty
from colonnade.crypto.ranges.proof import HASH_BYTES, SALT_BYTES, ProverKey, VerifierChoices, Witness, digest_of
from colonnade.crypto.ranges.relations import RelationSums
from colonnade.crypto.ranges.statements import SEED_BYTES, RandomMasks, RangeStatement, T
from colonnade.crypto.ranges.witness import LatticeWitness
from colonnade.foundation.errors import BrokenError, MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness, Stream
from tests.helpers.ranges import GROUPS, HALVES, NUMBER, OneProof, draw_columns, levels, spec_of

RUNS = 3
FIELDS = [Field(size) for size in PRIMES]


# Bits.


@pytest.mark.parametrize("reach", [*range(1, 70), 254, 255, 256, 1022, 4094])
def test_subsets_of_weights_have_all_sums_up_to_the_reach_and_no_others(reach: int) -> None:
    sums = {0}
    for weight in weights_to(reach):
        sums |= {weight + s for s in sums}
    assert sums == set(range(reach + 1))
    values = np.arange(reach + 1)
    assert (spell(values, weights_to(reach)).astype(np.int64) @ np.array(weights_to(reach)) == values).all()


def test_any_bits_give_columns_within_their_bounds() -> None:
    coding = BitCoding(5, (NUMBER, levels(2), HALVES))
    for bits in product((0, 1), repeat=coding.width):
        number, first, second, lower, upper = np.array(bits) @ coding.weights + coding.offset
        assert -5 <= number <= 5
        assert {int(first), int(second)} == {0, 5}
        assert lower + upper == 5 and 0 <= upper <= 5


@pytest.mark.parametrize("bound", [1, 3, 7, 127, 2047])
def test_bits_spell_columns_and_levels_sum_to_one(bound: int) -> None:
    groups = (HALVES, levels(3), NUMBER, levels(2), levels(7))
    coding = BitCoding(bound, groups)
    rows = draw_columns(groups, 200, bound, np.random.default_rng(bound))
    bits = coding.bits(rows).astype(np.int64)
    assert (bits @ coding.weights + coding.offset == rows).all()
    assert (bits @ coding.sums == 1).all() and coding.sums.shape[1] == 2


# Numbers.


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.size} bytes")
def test_numbers_of_a_field_add_up_as_integers_modulo_its_prime(field: Field) -> None:
    p = field.p
    rows = np.random.default_rng(field.size).integers(0, 2**64, (500, 2), dtype=np.uint64)
    integers = [(int(a) | int(b) << 64) % (1 << 8 * field.size) % p for a, b in rows]
    numbers = field.uniform(rows)
    assert _integers(numbers) == integers
    assert _integers(field.negative(numbers)) == [-v % p for v in integers]
    assert _integers(field.add(numbers, numbers[:, ::-1])) == [
        (v + w) % p for v, w in zip(integers, integers[::-1], strict=True)
    ]
    edges = field.unpack(b"".join(v.to_bytes(16, "little")[:8] for v in (0, p - 1)) + _high(field, 0, p - 1), 2)
    assert _integers(field.add(edges, edges)) == [0, p - 2]
    assert _integers(field.negative(edges)) == [0, 1]
    assert _integers(field.unpack(field.pack(numbers), 500)) == integers


def _integers(numbers: Numbers) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in zip(*numbers, strict=True)]


def _high(field: Field, *numbers: int) -> bytes:
    return b"".join((number >> 64).to_bytes(8, "little")[: field.size - 8] for number in numbers)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.size} bytes")
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_number_not_below_the_prime_is_refused(field: Field, beyond: int) -> None:
    large = field.p + beyond
    with pytest.raises(MessageError, match="below the prime"):
        field.unpack(large.to_bytes(16, "little")[:8] + _high(field, large), 1)
    with pytest.raises(MessageError, match="below the prime"):
        field.whole(large)
    with pytest.raises(MessageError, match="bytes"):
        field.unpack(bytes(field.size), 2)


def test_primes_are_prime_and_the_smallest_that_fits_is_taken() -> None:
    for size, p in PRIMES.items():
        assert p < 1 << 8 * size and all(pow(a, p - 1, p) == 1 for a in (2, 3, 5, 7, 11, 13))
        assert Field.beyond((p - 1) // 2).size == size
    with pytest.raises(BrokenError, match="below 2\\^87"):
        Field.beyond(1 << 87)


@pytest.mark.parametrize("bits", [1, 20, 32, 44, 51])
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.size} bytes")
def test_sums_of_limbs_are_exact(bits: int, field: Field) -> None:
    draw = np.random.default_rng(bits)
    low = 0 if bits == 1 else -(1 << (bits - 1))
    coefficients = draw.integers(low, max(1, -low) + (bits == 1), (3, 2500))
    coefficients[:, :3] = (low, low + 1, max(1, -low) - (bits > 1))
    numbers = field.uniform(draw.integers(0, 2**64, (5000, 2), dtype=np.uint64)).reshape(2, 2500, 2)
    sums = LimbSums.of_numbers(bits, field)
    for at in (slice(0, 700), slice(700, 2500)):
        sums.add_numbers(coefficients[:, at], np.ascontiguousarray(numbers[:, at]))
    whole = numbers[0].astype(object) + (numbers[1].astype(object) << 64)
    assert (sums.value() == coefficients.astype(object) @ whole).all()


# Bounds.


@pytest.mark.parametrize(("rows", "tau"), [(1_000, 2_438), (14_146, 5_412), (16_384, 5_762), (10**6, 5_762)])
def test_the_proved_bound_is_what_is_computed_by_hand(rows: int, tau: int) -> None:
    # 2 ceil(9 sqrt((m/2 + 4 sqrt m) 10.5)), m = min(n, 16,384) + 2,048.
    assert proved_tau(rows) == tau


def test_honest_sums_of_errors_stay_far_within_what_is_proved() -> None:
    draw = np.random.default_rng(3)
    errors = draw.integers(0, 8, (N + 1000, 500)) - draw.integers(0, 8, (N + 1000, 500))
    assert np.abs(errors).max() == TAU
    sums = draw.integers(0, 2, (200, N + 1000)) @ errors
    # 10^5 sums of standard deviation 128 or so: the largest is at about 4.4 of them, the bound at 9 of a larger one.
    assert 0.3 < np.abs(sums).max() / error_sum(N + 1000, 10.5) < 0.6 and DEVIATIONS == 9


# Proofs.


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
@pytest.mark.parametrize("rows", [2, 300, 2100])
def test_honest_statements_are_proved(seals: bool, rows: int) -> None:
    OneProof(seals, spec_of(rows), seed=rows).run()


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
def test_statements_of_several_spans_are_proved(seals: bool) -> None:
    proof = OneProof(seals, spec_of(17_000, bound=3, bits=48))
    assert len(proof.statement.spans) == (2 if seals else 1)
    proof.run()


def test_the_same_seeds_say_the_same() -> None:
    def said() -> list[bytes]:
        proof = OneProof(True)
        committed, held = proof.begin()
        corrections = list(held.corrections())
        for each in corrections:
            committed.take(each)
        for words in proof.words():
            held.hear(*words)
        challenged = held.challenge()
        promised = committed.promise(challenged.seed, proof.witness, proof.ring)
        opened = challenged.take(promised.promise)
        return [*corrections, challenged.seed, promised.promise, opened.opening, promised.answer(opened.opening)]

    assert said() == said()


def moved_by_half(words: Words) -> None:
    words[0, 7] ^= np.uint64(1 << 43)


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_word_moved_by_half_the_modulus_is_refused(seals: bool, run: int) -> None:
    """Codes modulo q itself would let it pass wherever F is even."""
    with pytest.raises(MessageError, match="made of numbers within their bounds"):
        OneProof(seals, seed=run, words_changed=moved_by_half).run()


@dataclass
class Longer:
    """A witness that owns up to one error that is longer, so that its prover spells what it can."""

    inner: Witness
    by: int

    @property
    def keys(self) -> NDArray[np.int8]:
        return self.inner.keys

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        return self.inner.rows(start, stop)

    def errors(self) -> Iterator[tuple[int, slice, NDArray[np.int8]]]:
        for number, (start, columns, errors) in enumerate(self.inner.errors()):
            changed = errors.astype(np.int64)
            if number == 0:
                changed[3, 0] += self.by
            yield start, columns, changed  # type: ignore[misc]


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
@pytest.mark.parametrize(("times", "refused"), [(Fraction(1, 4), False), (3, True)])
def test_an_error_beyond_the_proved_bound_is_refused(seals: bool, times: Fraction, refused: bool) -> None:
    """Within half of what a sum may be it goes through, as the proved bound says; three times the bound does not."""
    by = int(times * 2 * OneProof(seals).statement.z)

    def longer(words: Words) -> None:
        words[0, 3] += np.uint64(by)

    proof = OneProof(seals, words_changed=longer, witness_of=lambda inner: Longer(inner, by))
    if refused:
        with pytest.raises(MessageError, match="made of numbers within their bounds"):
            proof.run()
    else:
        proof.run()


class MixedRows(BitRows):
    """In one row of each matrix the bit is another one in some columns; sums are of what is sent."""

    columns = 64

    def matrix(self, bits: Words) -> tuple[bytes, Words]:
        rows = padded(len(bits))
        chosen = np.concatenate([bits, self._randomness.words(rows - len(bits)) & np.uint64(1)])
        columns = _drawn(self._zeros, rows // 64)
        matrix = columns ^ np.packbits(chosen.astype(np.uint8), bitorder="little").view(np.uint64)
        for stream, column in zip(self._ones, matrix, strict=True):
            stream.add_to(column)
        matrix[: self.columns, 0] ^= np.uint64(4)
        own = self._kernels.rows_of(columns)
        challenge = _challenge(self._context, self._number, matrix)
        sums = self._kernels.combine(np.concatenate([own, chosen[:, None]], axis=1), challenge)
        self._number += 1
        return matrix.tobytes() + sums.tobytes(), own[: len(bits)]


class OtherBits(BitCommitter):
    """In one row of the transfers the bit is another one in some columns."""

    rows = MixedRows

    def commit(self, bits: Bits) -> bytes:
        self._rows.__class__ = self.rows
        return super().commit(bits)


def test_a_row_of_transfers_that_mixes_bits_is_refused() -> None:
    with pytest.raises(MessageError, match="repeat one bit"):
        OneProof(True, committer=OtherBits).run()


def test_the_sums_of_rows_are_drawn_after_all_that_they_are_about() -> None:
    """The challenge is a hash: of the base transfers' messages, of a matrix's number and of each of its words."""
    matrix = np.arange(COLUMNS * 3, dtype=np.uint64).reshape(COLUMNS, 3)
    told = [_challenge(b"a", 0, matrix), _challenge(b"b", 0, matrix), _challenge(b"a", 1, matrix)]
    for place in ((0, 0), (COLUMNS - 1, 2)):
        changed = matrix.copy()
        changed[place] ^= np.uint64(1)
        told.append(_challenge(b"a", 0, changed))
    assert len({each.tobytes() for each in told}) == len(told)
    # Two of the words of a whole matrix for each row.
    assert {each.shape for each in told} == {(64 * 3, 2)}


class WrongCorrection(BitChecker):
    """A verifier that would read one bit: with another correction the answer depends on it."""

    def take(self, body: bytes, count: int) -> tuple[Numbers, bytes]:
        keys, corrections = super().take(body, count)
        wrong = self._field.unpack(corrections, count)
        wrong[:, 5:6] = self._field.add(wrong[:, 5:6], self._field.whole(1))
        return keys, self._field.pack(wrong)


class WrongFirst(WrongCorrection):
    """Of the first piece alone."""

    def take(self, body: bytes, count: int) -> tuple[Numbers, bytes]:
        return (super() if self._first == 0 else super(WrongCorrection, self)).take(body, count)


def test_a_wrong_correction_of_one_piece_is_refused() -> None:
    proof = OneProof(True, checker=WrongFirst)
    assert len(proof.statement.pieces) > 1
    with pytest.raises(MessageError, match="corrections must all be made by the opened secret"):
        proof.run()


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_wrong_correction_is_refused_whatever_the_bits_are(seals: bool, run: int) -> None:
    with pytest.raises(MessageError, match="corrections must all be made by the opened secret"):
        OneProof(seals, seed=run, checker=WrongCorrection).run()


class FalseOpening(BitChecker):
    def opening(self) -> bytes:
        return self.changed(super().opening())

    @staticmethod
    def changed(opening: bytes) -> bytes:
        return opening


def _flip(place: int) -> Callable[[bytes], bytes]:
    return lambda opening: opening[:place] + bytes([opening[place] ^ 1]) + opening[place + 1 :]


def _opening(changed: Callable[[bytes], bytes]) -> type[BitChecker]:
    """A verifier that opens something else."""
    return type("False", (FalseOpening,), {"changed": staticmethod(changed)})


def _view(checker: type[BitChecker], value: int, seed: int, count: int) -> tuple[str, Words, Words, bool]:
    """What a verifier has of bits that are all the same: the end, and what looks random to it if it should."""
    field, kernels, context = Field(9), AlignmentKernels(), b"c" * 32
    base = BaseSender(Randomness(bytes([seed])))
    side = checker(context, base.public, Randomness(b"verifier"), field, kernels)
    bits = BitCommitter(context, base, side.choices, Randomness(bytes([seed, 1])), field, kernels)
    side.take_reply(bits.reply)
    body = bits.commit(np.full(count, value, np.uint8))
    keys, corrections = side.take(body, count)
    size = COLUMNS * padded(count) // 8
    seen = np.frombuffer(body[:size], np.uint64).reshape(COLUMNS, -1).copy()
    for stream, column in zip(side._seeds, seen, strict=True):
        Stream(stream).add_to(column)
    stated = np.frombuffer(body[size:], np.uint64).reshape(SUMS, 3)[:, 2]
    bits.take(corrections)
    numbers, own = next(bits.numbers()), False
    try:
        bits.check(side.opening())
        end, moved = "answers", field.add(keys, field.whole(side.offset)) if value else keys
        own = bool((numbers == moved).all())
    except MessageError as error:
        end = str(error)
    return end, seen, stated, own


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (BitChecker, "answers"),
        (WrongCorrection, "corrections must all be made by the opened secret and offset, got some that are not"),
        (_opening(_flip(0)), "the opened secret must be that of the base transfers, got another"),
        (_opening(_flip(20)), "the opened secret must be that of the base transfers, got another"),
        (_opening(_flip(48)), "corrections must all be made by the opened secret and offset, got some that are not"),
        (_opening(lambda opening: opening[:48] + b"\xff" * 9), "a number of a proof must be below the prime"),
    ],
    ids=["follows", "correction", "secret", "seeds", "offset", "offset beyond p"],
)
def test_transcripts_for_zero_and_one_are_alike_for_each_verifier(kind: type[BitChecker], said: str) -> None:
    """The end is the same whatever the bits are, matrices and their sums look random to who has the other seeds, and
    an answer is made of numbers that the verifier could have written itself.
    """
    count = 2000
    for value in (0, 1):
        views = [_view(kind, value, seed, count) for seed in range(3)]
        ones = sum(int(np.bitwise_count(seen).sum()) for _, seen, _, _ in views)
        total = 64 * sum(seen.size for _, seen, _, _ in views)
        assert abs(ones - total / 2) < 5 * np.sqrt(total) / 2
        stated = sum(int(sums.sum()) for _, _, sums, _ in views)
        assert abs(stated - 3 * SUMS / 2) < 5 * np.sqrt(3 * SUMS) / 2
        assert {end[: len(said)] for end, _, _, _ in views} == {said}
        assert {own for _, _, _, own in views} == {said == "answers"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (_flip(0), "that of the base transfers"),
        (_flip(20), "that of the base transfers"),
        (_flip(48), "made by the opened secret"),
        (lambda opening: opening[:-1], "bytes"),
        (lambda opening: opening + b"\0", "bytes"),
        (lambda opening: b"", "bytes"),
    ],
    ids=["secret", "seeds", "offset", "short", "long", "empty"],
)
def test_a_false_opening_is_refused(changed: Callable[[bytes], bytes], said: str) -> None:
    with pytest.raises(MessageError, match=said):
        OneProof(True, checker=_opening(changed)).run()


@pytest.mark.parametrize("size", PRIMES)
def test_an_offset_beyond_the_prime_is_refused(size: int) -> None:
    """With F = 2^(8 size) + p - t rows that chance picks have another offset, and the answer tells their bits."""
    field, kernels = Field(size), AlignmentKernels()
    base = BaseSender(Randomness(bytes(32)))
    side = BitChecker(b"c" * 32, base.public, Randomness(b"v" * 32), field, kernels)
    bits = BitCommitter(b"c" * 32, base, side.choices, Randomness(b"p" * 32), field, kernels)
    side.take_reply(bits.reply)
    side.offset = 0
    drawn = np.random.default_rng(size).integers(0, 2, 2000).astype(np.uint8)
    _, plain = side.take(bits.commit(drawn), 2000)
    apart = sorted(_integers(field.unpack(plain, 2000)))
    offset = (1 << 8 * size) + field.p - (apart[-12] + apart[-13]) // 2
    with pytest.raises(MessageError, match="below the prime"):
        bits.take(field.pack(np.tile(field.whole(field.p - 1), 2000) + np.array([[1], [0]], np.uint64)))
    bits.take(plain)
    opening = side.opening()[:48] + offset.to_bytes(size + 1, "little")
    with pytest.raises(MessageError, match="bytes"):
        bits.check(opening)
    with pytest.raises(MessageError, match="below the prime"):
        bits.check(side.opening()[:48] + (field.p + 1).to_bytes(size, "little"))


def test_a_broken_base_transfer_of_one_kind_reads_no_bit() -> None:
    """Whoever computes one discrete logarithm has both seeds over X25519: under these alone all bits would be read."""
    field, kernels, count = Field(9), AlignmentKernels(), 20_000
    drawn = np.random.default_rng(1).integers(0, 2, count).astype(np.uint8)
    base = BaseSender(Randomness(bytes(32)))
    side = BitChecker(b"c" * 32, base.public, Randomness(b"v" * 32), field, kernels)
    bits = BitCommitter(b"c" * 32, base, side.choices, Randomness(b"p" * 32), field, kernels)
    body = bits.commit(drawn)
    recorded = np.frombuffer(body[: COLUMNS * padded(count) // 8], np.uint64).reshape(COLUMNS, -1)

    def agreeing(seeds: tuple[list[bytes], list[bytes]]) -> int:
        column = recorded[17].copy()
        for slot in seeds:
            Stream(slot[17]).add_to(column)
        return int((np.unpackbits(column.view(np.uint8), bitorder="little")[:count] == drawn).sum())

    assert agreeing(bits._seeds) == count  # the reading itself is right
    assert abs(agreeing(base.seeds(b"c" * 32, side.choices[:BASE_BYTES])) - count / 2) < 5 * np.sqrt(count) / 2


class RubbishSlot(BitCommitter):
    """Wraps rubbish for one bit of one transfer: whether V can go on tells the prover that bit of D."""

    def __init__(self, context: bytes, base: BaseSender, choices: bytes, *given: Any) -> None:
        super().__init__(context, base, choices, *given)
        self.reply = bytes([self.reply[0] ^ 1]) + self.reply[1:]
        self._rows._context = sha256(context + base.public + choices + self.reply).digest()


def test_rubbish_in_one_base_transfer_costs_the_session_where_its_bit_is_asked_for() -> None:
    ends = []
    for seed in range(8):
        proof, asked = OneProof(False, seed=seed, committer=RubbishSlot), []

        class Noting(BitChecker):
            def take_reply(self, reply: bytes, asked: list[int] = asked) -> None:
                asked.append(int(self._bits[0]))
                super().take_reply(reply)

        proof.checker = Noting
        try:
            proof.begin()
            ends.append((asked[0], True))
        except MessageError as error:
            assert "repeat one bit" in str(error)
            ends.append((asked[0], False))
    assert set(ends) == {(0, False), (1, True)}


@pytest.mark.parametrize("shift", [0, 1], ids=["first", "second"])
def test_choices_of_another_form_are_refused_before_use(shift: int) -> None:
    """Points of the twist, beyond the field, of low order, or that are their own hash; numbers beyond ML-KEM's."""
    base, kernels = BaseSender(Randomness(bytes(32))), AlignmentKernels()
    side = BitChecker(b"c" * 32, base.public, Randomness(b"v" * 32), Field(9), kernels)
    twist, beyond = (2).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little")
    vanishing = negative(_hashes(b"c" * 32, [side.choices[32:64]], np.zeros(1, np.uint8)))
    same = _hashes(b"c" * 32, [side.choices[32:64]], np.zeros(1, np.uint8))
    points = [twist, beyond, compress(same), compress(vanishing)][: 4 if not shift else 2]
    for point in points:
        changed = side.choices[: 32 * shift] + point + side.choices[32 * (shift + 1) :]
        with pytest.raises(MessageError, match="base transfer must"):
            BitCommitter(b"c" * 32, base, changed, Randomness(b"p" * 32), Field(9), kernels)
    at = BASE_BYTES + 1152 * shift
    with pytest.raises(MessageError, match="below 3329"):
        changed = side.choices[:at] + b"\xff" * 3 + side.choices[at + 3 :]
        BitCommitter(b"c" * 32, base, changed, Randomness(b"p" * 32), Field(9), kernels)


def test_a_key_of_low_order_is_refused_by_who_checks() -> None:
    for key in (*LOW_ORDER, (2).to_bytes(32, "little")):
        with pytest.raises(MessageError, match="must"):
            BitChecker(b"c" * 32, key, Randomness(bytes(32)), Field(9), AlignmentKernels())


@pytest.mark.parametrize("seals", [True, False], ids=["S", "M"])
def test_an_answer_other_than_promised_or_cut_is_refused(seals: bool) -> None:
    for change in (_flip(0), _flip(40), lambda answer: answer[:-1]):
        proof = OneProof(seals)
        committed, held = proof.begin()
        for corrections in held.corrections():
            committed.take(corrections)
        for words in proof.words():
            held.hear(*words)
        challenged = held.challenge()
        promised = committed.promise(challenged.seed, proof.witness, proof.ring)
        opened = challenged.take(promised.promise)
        with pytest.raises(MessageError):
            opened.verify(change(promised.answer(opened.opening)))


def test_steps_are_taken_once_and_in_order() -> None:
    proof = OneProof(True)
    key = ProverKey(proof.statement, b"c" * 32, Randomness(b"p" * 32), proof.kernels)
    choices = VerifierChoices(proof.statement, b"c" * 32, key.public, Randomness(b"v" * 32), proof.kernels)
    committing = key.take(choices.choices)
    held = choices.take(committing.reply, proof.ring)
    matrices, words = committing.matrices(proof.witness), proof.words()
    held.take(next(matrices))
    with pytest.raises(ProtocolError, match="once all bits are committed"):
        next(held.corrections())
    with pytest.raises(ProtocolError, match="words are taken once all bits"):
        held.hear(*words[0])
    for matrix in matrices:
        held.take(matrix)
    for each in words:
        held.hear(*each)
    with pytest.raises(ProtocolError, match="all corrections are sent"):
        held.challenge()

    proof = OneProof(True)
    committed, held = proof.begin()
    with pytest.raises(ProtocolError, match="corrections of all bits"):
        committed.promise(bytes(32), proof.witness, proof.ring)
    with pytest.raises(ProtocolError, match="takes the step Committed once"):
        committed.promise(bytes(32), proof.witness, proof.ring)
    with pytest.raises(MessageError, match="got more"):
        held.take(b"")

    proof = OneProof(True)
    committed, held = proof.begin()
    for corrections in held.corrections():
        committed.take(corrections)
    with pytest.raises(MessageError, match="got more"):
        committed.take(corrections)
    words = proof.words()
    for each in words[:-1]:
        held.hear(*each)
    with pytest.raises(ProtocolError, match="once all words are heard"):
        held.challenge()

    proof = OneProof(False)
    committed, held = proof.begin()
    for corrections in held.corrections():
        committed.take(corrections)
    for each in proof.words():
        held.hear(*each)
    challenged = held.challenge()
    with pytest.raises(MessageError, match="a challenge of a proof must have 32 bytes, got 31"):
        copy(committed).promise(challenged.seed[:-1], proof.witness, proof.ring)
    promised = committed.promise(challenged.seed, proof.witness, proof.ring)
    with pytest.raises(ProtocolError, match="Committed once"):
        committed.promise(bytes(32), proof.witness, proof.ring)
    for promise in (promised.promise[:-1], promised.promise + b"\0"):
        with pytest.raises(MessageError, match="a promise of a proof must have"):
            copy(challenged).take(promise)
    opened = challenged.take(promised.promise)
    with pytest.raises(ProtocolError, match="Challenged once"):
        challenged.take(promised.promise)
    with pytest.raises(MessageError, match="that of the base transfers"):
        promised.answer(_flip(0)(opened.opening))
    with pytest.raises(ProtocolError, match="Promised once"):
        promised.answer(opened.opening)


def test_what_soundness_counts_is_what_runs() -> None:
    """The numbers of proofs/proven_ranges.md, and the ranges that bits can spell, by hand."""
    assert (T, SEED_BYTES, SALT_BYTES, HASH_BYTES, COLUMNS, SPARE, SUMS) == (64, 32, 32, 32, 128, 256, 128)
    seals, multiplies = OneProof(True).statement, OneProof(False).statement
    assert [s.reach for s in (seals, multiplies)] == [2, 15]
    assert [sum(s.key_weights) for s in (seals, multiplies)] == [4, 30]
    # 9 sqrt((300 + 2048) / 2 + 4 sqrt(300 + 2048)) times sqrt(10.5), and 2,048 of variance 42.5.
    assert [s.z for s in (seals, multiplies)] == [1079, 2037] and 2 * seals.z == proved_tau(300)
    for statement in (seals, multiplies):
        assert [sum(weights) for weights in statement.sum_weights] == [2 * statement.z, 2 * statement.h]
        # An integer of a relation is below half of p, whatever the bits are: columns, keys, z, carries, L.
        half, k = 1 << (statement.k - 1), statement.k
        columns = (statement.spec.gain if statement.seals else half) * 300 * 7
        largest = columns + half * N * statement.reach + statement.z + (statement.h << k) + half
        assert 2 * largest < statement.field.p
    # 2^50 · 8,191 is below half of 2^64 - 59; with rho, 2^50 · 2,048 · 15, it is not.
    spec = replace(spec_of(8191), modulus_bits=51, bound=1)
    assert RangeStatement(spec, BitCoding(1, GROUPS[1]), False).field.size == 9


@pytest.mark.parametrize(("seals", "relations"), [(True, 2 * 64 * 5 + 64), (False, 64 * 6 + 64)], ids=["S", "M"])
def test_every_relation_is_in_the_answer(seals: bool, relations: int) -> None:
    """(S) has two spans of 64 masks on 5 columns, (M) 64 masks on 6; each has one attribute of more than two levels."""
    proof = OneProof(seals, spec_of(17_000, bound=1, bits=48))
    statement = proof.statement
    sums = RelationSums(statement, RandomMasks(statement, bytes(32), proof.ring))
    for piece in statement.pieces:
        sums.add(piece.kind, piece.start, np.zeros((2, piece.bits), np.uint64))
    totals = sums.totals(np.zeros(statement.sum_bits, np.uint8), 0)
    assert len(totals) == relations
    digests = {digest_of(totals, statement.field)}
    for at in range(relations):
        digests.add(digest_of([*totals[:at], 1, *totals[at + 1 :]], statement.field))
    assert len(digests) == relations + 1


def _said_by(proof: OneProof) -> dict[str, bytes]:
    """What has to be fresh in a session."""
    committed, held = proof.begin()
    for corrections in held.corrections():
        committed.take(corrections)
    for words in proof.words():
        held.hear(*words)
    challenged = held.challenge()
    promised = committed.promise(challenged.seed, proof.witness, proof.ring)
    opened = challenged.take(promised.promise)
    answer = promised.answer(opened.opening)
    opened.verify(answer)
    named = {"secret": opened.opening[:16], "seeds": opened.opening[16:48], "offset": opened.opening[48:]}
    rows, key = RandomMasks(proof.statement, challenged.seed, proof.ring).rows(0, 300), opened._targets._masks.key
    masks = {"masks of rows": rows.tobytes(), "masks of keys": key.tobytes()}
    return named | masks | {"challenge": challenged.seed, "salt": answer[:32], "hidden": promised.promise[32:]}


def test_secrets_challenges_and_salts_are_fresh() -> None:
    said = [_said_by(OneProof(True, seed=seed)) for seed in range(3)]
    for name in said[0]:
        assert len({each[name] for each in said}) == 3, name


class Same(LatticeWitness):
    """The same number, or level, in every record."""

    value: ClassVar[int] = 0

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        rows = np.zeros((stop - start, 5), np.int16)
        rows[:, 0] = self._spec.bound * (2 * self.value - 1)
        rows[:, 1 + 3 * self.value] = self._spec.bound
        return rows


def _promised(value: int, seed: int) -> tuple[NDArray[np.uint8], bytes]:
    """The bits of a promise about columns that are all the same, and what is hashed in it."""
    kind = type("Same", (Same,), {"value": value})
    proof = OneProof(True, seed=seed)
    proof.witness = kind(proof.spec, 0, proof.columns, proof.source, True)
    committed, held = proof.begin()
    for corrections in held.corrections():
        committed.take(corrections)
    promised = committed.promise(bytes(32), proof.witness, proof.ring)
    return np.unpackbits(np.frombuffer(promised.promise[HASH_BYTES:], np.uint8)), promised.promise[:HASH_BYTES]


def test_promises_tell_nothing_of_the_columns() -> None:
    """Bits of z and h are turned by random ones: for x = 0 and for x = 1 each of them is a fair coin."""
    ones = [np.stack([_promised(value, seed)[0] for seed in range(8)]) for value in (0, 1)]
    for told in ones:
        assert abs(told.mean() - 0.5) < 5 / (2 * np.sqrt(told.size))
        # No bit of the promise is the same in all sessions beyond chance: 2^-7 of them are.
        same = ((told == told[0]).all(axis=0)).mean()
        assert abs(same - 2**-7) < 5 * np.sqrt(2**-7 / told.shape[1])


def test_a_proof_is_bound_to_its_session_its_terms_and_its_direction() -> None:
    def bound(spec: ProductSpec, *pair: int) -> bytes:
        columns = resident(draw_columns(spec.groups[0], spec.rows, spec.bound, np.random.default_rng(1)))
        noise = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
        return ProvenParty(spec, 0, columns, noise, Randomness(bytes(32)))._bound(*pair)

    spec = spec_of()
    others = [
        replace(spec, session=bytes(32)),
        replace(spec, bound=6),
        replace(spec, gain=spec.gain - 1),
        replace(spec, groups=(spec.groups[0], (levels(5), NUMBER))),
    ]
    told = [bound(spec, 0, 1), bound(spec, 1, 0), *(bound(other, 0, 1) for other in others)]
    assert len(set(told)) == len(told)


def test_masks_are_the_same_from_any_row_on_and_differ() -> None:
    statement = RangeStatement(spec_of(), BitCoding(7, GROUPS[0]), True)
    masks = RandomMasks(statement, bytes(32), NumpyKernels())
    assert masks.rows(0, 300).shape == (T, 300) and set(np.unique(masks.key)) == {0, 1}
    assert (masks.rows(2, 300) == masks.rows(0, 300)[:, 2:]).all()
    assert len(np.unique(masks.rows(0, 300), axis=0)) == T
