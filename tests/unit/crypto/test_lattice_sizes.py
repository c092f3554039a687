"""Sizes of the lattice product at their edges, each by hand or by the formula that its page gives."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, expm1, log1p, sqrt
from typing import Any

import numpy as np
import pytest

from colonnade.crypto.lattice import parameters, party, work
from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.kernels import NumpyKernels
from colonnade.crypto.lattice.parameters import (
    choose_parameters,
    multiply_limbs,
    proved_security,
    proved_tau,
    seal_limbs,
    uniform_norm,
)
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.lattice.work import _message
from colonnade.crypto.product import Cross, ProductSpec
from colonnade.foundation.errors import BrokenError, ProductError
from colonnade.foundation.randomness import Stream
from tests.helpers.product_sessions import Session, run

SECRET = sqrt(1.25 * 2048)
"""No secret's norm is longer: 5/4 of its mean square."""


def test_limbs_of_a_sealed_word() -> None:
    """Whole to 35 bits; up to 40 bits all above the lowest four bytes; 35 bits and the rest beyond."""
    for bits in range(32, 52):
        known = (bits,) if bits <= 35 else (32, bits - 32) if bits <= 40 else (35, bits - 35)
        assert seal_limbs(bits) == known


@pytest.mark.parametrize("edge", ["pair", "limb"])
def test_limbs_are_exact_below_a_half(edge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each limb, and pairs of secrets s + 2^24 s', which are longer by that much."""
    pair, asked = uniform_norm(8, 2048), []

    def error(left: float, right: float, terms: int = 1) -> float:
        asked.append((left, right))
        return 0.5 if (left == pair) is (edge == "pair") else 0.1

    monkeypatch.setattr(parameters, "fft_error", error)
    with pytest.raises(BrokenError):
        seal_limbs(39)
    assert (pair, pytest.approx(SECRET * (1 + 2**24), rel=1e-15)) in asked
    assert (uniform_norm(32, 2048), pytest.approx(SECRET, rel=1e-15)) in asked


def test_the_second_of_two_secrets_stands_beyond_the_first_ones_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """|a| |s| <= sqrt(5/4 2048 65538 / 12) sqrt(5/4 2048) = 189,200 is below 2^18 and above 2^17."""
    monkeypatch.setattr(parameters, "PAIR_BITS", 19)
    assert seal_limbs(40) == (32, 8)
    monkeypatch.setattr(parameters, "PAIR_BITS", 18)
    with pytest.raises(BrokenError):
        seal_limbs(40)


@pytest.mark.parametrize("modulus_bits", [32, 40, 51])
@pytest.mark.parametrize("bound", [15, 127, 2047])
def test_blocks_that_are_summed_before_they_are_rounded(modulus_bits: int, bound: int) -> None:
    """Percival's bound for limbs of a half of the bits, a third or a fourth: the most blocks that stay below 1/2."""

    def error(bits: int, blocks: int) -> float:
        size = 2048 * blocks
        left, right = sqrt(1.25 * size * (4**bits + 2) / 12), bound * sqrt(size)
        u = 2.0**-53
        grown = (30 + blocks) * log1p(u) + 22 * log1p(u * sqrt(5)) + 21 * log1p(4 * u)
        return left * right * expm1(grown)

    fits = [
        (count, blocks)
        for count in (2, 3, 4)
        for blocks in (1024, 512, 256, 128, 64, 32, 16, 8)
        if error(ceil(modulus_bits / count), blocks) < 0.5
    ]
    count, blocks = min(fits, key=lambda found: (found[0], -found[1]))
    bits = ceil(modulus_bits / count)
    assert multiply_limbs(modulus_bits, bound) == ((bits,) * (count - 1) + (modulus_bits - (count - 1) * bits,), blocks)


def test_widths_of_keys_that_are_only_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/secure-product.md: hints of s and rho through the honest parties' noise alone, all in one direction."""
    seen: list[tuple[float, float]] = []

    def noted(dimension: int, modulus_bits: int, secret: float, error: float) -> float:
        seen.append((secret, error))
        return 250.9 - 50 * len(seen)

    monkeypatch.setattr(parameters, "key_bits", noted)
    rows, bound, hints, noise = 1000, 15, 12, 1e7
    tau, own = proved_tau(rows), 2 * ceil(9 * sqrt((1024 + 4 * sqrt(2048)) * 42.5))
    assert tau == 2 * ceil(9 * sqrt((3048 / 2 + 4 * sqrt(3048)) * 10.5))
    assert proved_security(40, rows, bound, hints, noise) == 150
    of_rho = 2048 * (tau**2 + 4) * 42.5 / noise**2
    of_s = (rows * 225 * 10.5 + 2048 * (225 * 10.5 + own**2)) / noise**2
    wide, sealing = (sqrt(2 * (1 + hints * share)) for share in (of_rho, of_s))
    assert seen[0] == pytest.approx((sqrt(42.5) / wide, sqrt(42.5) / wide), rel=1e-12)
    assert seen[1] == pytest.approx((1 / sealing, sqrt(10.5) / sealing), rel=1e-12)


def test_the_least_gain_is_rounded_up() -> None:
    """Errors of 7 move an attribute of one level by 7 / (15 gain) at most, which must not pass 1/256: 119.5 <= gain."""
    rows, bound, bits = 1000, 15, 51
    room = 2 ** (bits - 1) - 1 - (rows * bound * 7 + 2048 * 9 * 15 + 8190)

    def gain(most: int) -> int:
        reach = room // most - rows * bound**2
        return choose_parameters(rows, bound, 1e9, reach, 3, least_bits=bits).gain

    assert gain(120) == 120
    with pytest.raises(ProductError):
        gain(119)


SPEC = ProductSpec(bytes(32), ("A", "B"), 3 * 2048, 7, (Cross(0, 1, 0, 2, 0, 2),), 40, 1 << 20, 1 << 38)
ENTRIES = (np.arange(3 * 2048 * 2).reshape(-1, 2) % 15 - 7).astype(np.int16)


def test_every_word_has_an_error_however_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _message(ENTRIES, SPEC, Stream(bytes(32)), Scratch()).copy()
    monkeypatch.setattr(work, "ERRORS_AT_ONCE", 4096)
    found = _message(ENTRIES, SPEC, Stream(bytes(32)), Scratch())
    assert (found == whole).all()
    errors = whole - ENTRIES.astype(np.int64) * SPEC.gain
    assert errors.min() == -7 and errors.max() == 7
    # Of each 4096 words, too: an error is 0 with 1/8.
    assert all(0.05 < (part == 0).mean() < 0.2 for part in errors.ravel().reshape(-1, 4096))


def test_blocks_are_multiplied_by_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    states = work.WorkerStates(NumpyKernels, SPEC)
    bits, _ = multiply_limbs(SPEC.modulus_bits, SPEC.bound)
    whole = work.multiply_piece(states, False, SPEC, 1, bits, 0, ENTRIES)
    monkeypatch.setattr(work, "BLOCKS_AT_ONCE", 1)
    found = work.multiply_piece(states, False, SPEC, 1, bits, 0, ENTRIES)
    mask = np.uint64((1 << SPEC.modulus_bits) - 1)
    assert ((found & mask) == (whole & mask)).all()


@pytest.mark.parametrize(("gain", "dtype"), [(4680, np.int16), (4681, np.int32)])
def test_messages_that_fit_16_bits_are_short(gain: int, dtype: type[np.generic]) -> None:
    """7 gain + 7 is 32,767 or 32,774: the largest that 16 bits hold, and more."""
    rows = np.full((2048, 1), 7, np.int16)
    message = _message(rows, replace(SPEC, gain=gain), Stream(bytes(32)), Scratch())
    assert message.dtype == dtype and np.abs(message.astype(np.int64) - 7 * gain).max() == 7


@pytest.mark.parametrize("bits", range(32, 52))
def test_words_are_centred_and_cut(bits: int) -> None:
    """0 to 2^(b-1) - 1 stay, what is above is negative; bits beyond a word's are cleared."""
    half = 1 << (bits - 1)
    words = np.array([[0, 1, half - 1, half, 2 * half - 1]], np.uint64)
    planes = Planes.empty((1, 5), bits, Scratch())
    planes.write(slice(None), 0, words)
    floats = np.empty((1, 5))
    planes._centre(slice(0, 5), floats)
    assert floats.tolist() == [[0, 1, half - 1, -half, -1]]
    if bits > 32:
        for plane in planes.arrays[1:]:
            plane[...] = np.iinfo(plane.dtype).max
        planes.cut()
        assert planes.below_modulus and (planes.words() >> np.uint64(32) == (1 << (bits - 32)) - 1).all()


@pytest.mark.parametrize(("columns", "blocks", "most"), [(100, 150, 64), (3, 7, 1024), (64, 64, 8), (1, 1, 8)])
def test_pieces_of_a_multiplication_cover_every_block_once(columns: int, blocks: int, most: int) -> None:
    seen = np.zeros((columns, blocks), int)
    for some, first, count in work.spans(columns, blocks, most):
        assert first + count <= blocks and count <= most
        seen[some, first : first + count] += 1
    assert (seen == 1).all()


def test_words_of_a_piece_have_as_many_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    states, shapes = work.WorkerStates(NumpyKernels, SPEC), list[tuple[int, ...]]()

    def noted(rows: Any, *rest: Any) -> Any:
        shapes.append(rows.shape)
        return _message(rows, *rest)

    monkeypatch.setattr(work, "_message", noted)
    keys = states.own.kernels.keys(np.ones((1, 2048), np.int8), seal_limbs(SPEC.modulus_bits))
    for place in parcel_places(1, SPEC.rows):
        work.seal_words(states, SPEC, 0, place, keys, np.zeros((place.blocks * 2048, 1), np.uint64), bytes(32))
        assert shapes.pop() == (place.blocks * 2048, 1)


class Noted(Scratch):
    """Buffers that tell their shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[tuple[int, ...]] = []

    def __call__(self, name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Any:
        if name == "words":
            self.words.append(shape)
        return super().__call__(name, shape, dtype)


@pytest.mark.parametrize(
    ("columns", "small", "first"),
    [
        (4, 9, (4, 7020)),  # three times 2340 = 2^14 / 7 rows that are exact, of 8192 that fit
        (32, 9, (32, 1024)),  # 2^15 words are fewer rows than 1024 then
        (8, 9, (8, 2340)),
        (4, 8, (8, 4096)),  # of few columns two limbs, each exact for 2^21 / 7 rows
    ],
)
def test_words_that_are_multiplied_at_once(columns: int, small: int, first: tuple[int, int]) -> None:
    planes, scratch = Planes.empty((columns, 9000), 40, Scratch()), Noted()
    planes.write(slice(None), 0, np.ones((columns, 9000), np.uint64))
    found = planes.times(np.full((9000, small), 7, np.int16), 7, scratch)
    assert scratch.words[0] == first and (found == 63_000).all()


def test_eight_blocks_are_worked_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, counts, made = replace(SPEC, rows=10 * 2048), list[int](), work.public_elements
    monkeypatch.setattr(work, "public_elements", lambda s, first, count: counts.append(count) or made(s, first, count))
    bits, _ = multiply_limbs(spec.modulus_bits, spec.bound)
    work.multiply_piece(work.WorkerStates(NumpyKernels, spec), False, spec, 1, bits, 0, np.ones((20480, 1), np.int16))
    assert counts == [8, 2]


def test_sums_are_rounded_when_no_more_blocks_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three blocks and the key's, where two may be summed: two roundings, where the other party has nothing to sum."""
    session = Session.make(parties=2, rows=3 * 2048, widths=(1, 1), bound=15, modulus_bits=45, gain=1 << 16, noise=0)
    monkeypatch.setattr(party, "BLOCKS_AT_ONCE", 1)
    monkeypatch.setattr(party, "multiply_limbs", lambda bits, bound: ((bits - bits // 2, bits // 2), 2))
    counts: list[int] = []
    sums = party.LatticeParty._sums_here

    def noted(self: party.LatticeParty) -> Any:
        found = list(sums(self))
        counts.append(len(found))
        return iter(found)

    monkeypatch.setattr(party.LatticeParty, "_sums_here", noted)
    error = run(session, party.LatticeParty, LatticeServer) - session.expected()
    assert counts == [1, 2] and np.abs(error).max() < 2**16
