"""Compiled loops give numpy's words, on roots and transforms within the bounds that are assumed of them."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.crypto.lattice import parameters as lattice_plan
from colonnade.crypto.lattice.compiled import WORTHWHILE, CompiledParty, best_party
from colonnade.crypto.lattice.kernels import Kernels, NumpyKernels
from colonnade.crypto.lattice.parameters import N, fft_error, multiply_limbs, seal_limbs, uniform_norm
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.product import Cross, ProductSpec
from colonnade.foundation.randomness import Randomness
from colonnade.planning.crosses import party_product
from tests.helpers.product_sessions import Relay, Session

pytest.importorskip("numba")

from colonnade.crypto.lattice import loops
from colonnade.crypto.lattice.compiled import CompiledKernels


def work(kernels: Kernels, bits: int, columns: int, message: np.dtype) -> list[NDArray[np.uint64]]:
    """Words sealed, summed and multiplied, at the largest secrets and entries and on a part of the last block."""
    generator, blocks, bound = np.random.default_rng(bits), 2, 127
    secrets = generator.choice(np.array([-2, 2], np.int8), (columns, N))
    words = generator.integers(0, 2**64, (blocks, N), np.uint64)
    rows = generator.choice(np.array([-bound, bound], np.int16), (blocks * N, columns))
    planes = Planes.empty((columns, blocks * N - 100), bits, Scratch())
    small, large = seal_limbs(bits), multiply_limbs(bits, bound)[0]
    sealed = kernels.elements(words.copy(), small)
    kernels.seal(planes, kernels.keys(secrets, small), slice(0, columns), sealed, (rows * 200).astype(message))
    sums = kernels.sums(columns, large)
    for _ in range(2):
        kernels.accumulate(sums, kernels.elements(words.copy(), large), rows)
    parts = [planes.words(), kernels.collect(sums, large), kernels.times(planes, rows[:-100], bound)]
    assert not np.any(sums)
    kernels.wipe()
    return [part & np.uint64(2**bits - 1) for part in parts]


@pytest.mark.parametrize(("bits", "columns"), [(32, 1), (35, 17), (39, 7), (40, 2), (51, 3)])
def test_words_are_those_of_numpy(bits: int, columns: int) -> None:
    for message in (np.dtype(np.int16), np.dtype(np.int32)) if bits == 39 else (np.dtype(np.int16),):
        one, other = (work(kernels(), bits, columns, message) for kernels in (NumpyKernels, CompiledKernels))
        for mine, theirs in zip(one, other, strict=True):
            assert np.array_equal(mine, theirs)
        assert len(np.unique(one[0])) > 1000


def test_a_session_sends_and_opens_the_same_bytes() -> None:
    session = Session.make(parties=3, rows=5000, widths=(3, 2, 4), bound=7, modulus_bits=40, gain=600)
    runs = []
    for party in (LatticeParty, CompiledParty):
        relay = Relay(session, party, LatticeServer, seed=b"same")
        given = relay.contributions()
        runs.append(([parcel.payload for parcel in relay.sent], relay.open(given).tolist()))
    assert runs[0] == runs[1]


def test_roots_are_within_the_bound_that_exactness_needs() -> None:
    unit = 2.0**-53
    for count, power, of in ((256, 3, 1024), (64, 2, 256), (16, 3, 64), (4, 1, 16), (N // 2, 1, 2 * N)):
        angle = -2 * np.arccos(np.longdouble(-1)) * np.arange(count) * power / np.longdouble(of)
        real, imaginary = loops._roots(count, power, of)
        error = np.hypot(real - np.cos(angle), imaginary - np.sin(angle))
        assert error.max() < 2 * unit  # fft_error assumes 4
    assert error.max() > 0


def test_observed_distances_to_integers_stay_under_the_bound() -> None:
    randomness = Randomness(b"compiled distances")
    bits, columns = lattice_plan.LOW_BITS, 20
    words = randomness.words(columns * N).reshape(columns, N) & np.uint64(2**bits - 1)
    a = words.astype(np.float64) - 2.0 ** (bits - 1)
    s = np.where(randomness.words(columns * N).reshape(columns, N) & np.uint64(1), 1.0, -1.0)
    values = [np.empty((columns, N)) for _ in range(2)]
    for elements, found in zip((a, s), values, strict=True):
        loops.values_of(elements, found, loops.ROOTS, loops.TWIST)
    y, x = np.empty(N), np.empty(N)
    worst = 0.0
    for row in range(columns):
        loops._product(values[1][row], values[0][row], y)
        loops._from_values(y, x, loops.ROOTS)
        pairs = (x[: N // 2] + 1j * x[N // 2 :]) * (loops.TWIST[: N // 2] - 1j * loops.TWIST[N // 2 :]) * (2 / N)
        floats = pairs.view(np.float64)
        worst = max(worst, float(np.abs(floats - np.rint(floats)).max()))
    assert 0 < worst < fft_error(uniform_norm(bits, N), sqrt(1.25 * N)) / 4


def test_loading_is_worth_it_for_many_words_only() -> None:
    spec = Session.make(parties=2, rows=5000, widths=(3, 2), bound=7, modulus_bits=40, gain=600).spec
    assert best_party(spec) is LatticeParty
    assert best_party(replace(spec, rows=100_000_000)) is CompiledParty


def test_a_large_session_takes_the_compiled_loops_and_a_small_one_does_not() -> None:
    cross = Cross(0, 1, 0, 8, 0, 8)
    small = ProductSpec(bytes(16), ("A", "B"), 1000, 63, (cross,), 40, 1, 1 << 20)
    assert party_product("lattice", spec=small) is LatticeParty
    assert party_product("lattice", spec=replace(small, rows=WORTHWHILE // 16)) is CompiledParty
    assert party_product("lattice") is LatticeParty
