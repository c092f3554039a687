"""Kernels of a device give the processor's bits; numpy stands in for the card's library, whose functions it shares."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from math import sqrt

import numpy as np
import pytest

from benchmarks.columns import resident
from colonnade.crypto.lattice.device import SLACK, DeviceKernels, DeviceParty, agrees, even, require_cuda
from colonnade.crypto.lattice.parameters import (
    MODULUS_BITS,
    NORM_SLACK,
    SECRET_VARIANCE,
    WIDE_BOUND,
    N,
    fft_error,
    multiply_limbs,
    seal_limbs,
    uniform_norm,
)
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers
from colonnade.planning.crosses import party_product
from tests.helpers.product_sessions import Relay, Session


class Stand(DeviceKernels):
    module = "numpy"


class StandParty(DeviceParty):
    kernels = Stand


@pytest.mark.parametrize("bits", [32, 35, 40, 44, 48, 51])
def test_kernels_agree(bits: int) -> None:
    assert agrees(Stand(), seal_limbs(bits))


def test_a_device_that_errs_is_found() -> None:
    class Wrong(Stand):
        def _inverse(self, values: object) -> object:
            found = super()._inverse(values)
            found[0, ..., 5] += 1
            return found

    assert not agrees(Wrong())


def made(given: Session, party: type[LatticeParty], workers: Workers) -> Relay:
    relay = Relay(given, party, LatticeServer)
    for side in relay.parties:
        side.workers = workers
    return relay


@pytest.mark.parametrize(("bound", "bits", "gain"), [(7, 40, 600), (127, 47, 900), (2047, 51, 2)])
@pytest.mark.parametrize("threads", [False, True])
def test_a_session_is_the_same_on_a_device_and_in_threads(bound: int, bits: int, gain: int, threads: bool) -> None:
    given = Session.make(parties=3, rows=70_000, widths=(3, 2, 4), bound=bound, modulus_bits=bits, gain=gain, noise=9)
    plain = made(given, LatticeParty, HERE)
    shares = plain.contributions()
    with ThreadPoolExecutor(3) as executor:
        other = made(given, LatticeParty if threads else StandParty, Workers(executor, 5) if threads else HERE)
        found = other.contributions()
    assert [s.payload for s in other.sent] == [s.payload for s in plain.sent]
    assert all(np.array_equal(a.vector, b.vector) for a, b in zip(found, shares, strict=True))


def test_threads_wipe_their_scratch() -> None:
    given = Session.make(parties=2, rows=40_000, widths=(2, 2), bound=7, modulus_bits=40, gain=600)
    with ThreadPoolExecutor(3) as executor:
        relay = made(given, LatticeParty, Workers(executor, 5))
        relay.rounds()
        held_by = [side._states for side in relay.parties]  # type: ignore[attr-defined]
        held = [buffer for states in held_by for state in states._all for buffer in state.scratch._buffers.values()]
        assert len(held_by[0]._all) > 1
        assert any(buffer.any() for buffer in held)
        for side in relay.parties:
            side.contribute()
        assert not any(buffer.any() for buffer in held)


def test_wide_tables_are_cut_by_columns_too() -> None:
    given = Session.make(parties=2, rows=3 * N, widths=(1, 70), bound=7, modulus_bits=40, gain=600)
    plain = made(given, LatticeParty, HERE)
    shares = plain.contributions()
    with ThreadPoolExecutor(2) as executor:
        other = made(given, LatticeParty, Workers(executor, 3))
        found = other.contributions()
    assert [s.payload for s in other.sent] == [s.payload for s in plain.sent]
    assert all(np.array_equal(a.vector, b.vector) for a, b in zip(found, shares, strict=True))


def test_an_unseeded_piece_done_again_is_the_same_again() -> None:
    """A worker that is lost after it sealed must not leave a second sealing with other errors."""
    from colonnade.crypto.lattice.work import seal_piece

    given = Session.make(parties=2, rows=5000, widths=(2, 2), bound=7, modulus_bits=40, gain=600)
    party = LatticeParty(given.spec, 0, resident(given.data[0]), given.noise[0], Randomness())
    seen = []

    class Twice(Workers):
        def map(self, work, pieces):  # type: ignore[no-untyped-def]
            for piece in pieces:
                seen.append((work(*piece), work(*piece)))
                yield seen[-1][0]

    party.workers = Twice()
    parcels = list(party.send("seal"))
    assert len(parcels) == len(seen)
    assert all(first == again for first, again in seen)
    assert seal_piece.__module__ == "colonnade.crypto.lattice.work"


@pytest.mark.parametrize("modulus_bits", MODULUS_BITS)
def test_limbs_leave_room_for_an_unknown_transform(modulus_bits: int) -> None:
    """The a-priori error is below half of 1/SLACK for every modulus and bound that the processor takes."""
    seal = even(seal_limbs(modulus_bits))
    assert sum(seal) == modulus_bits
    assert SLACK * fft_error(uniform_norm(seal[0], N), sqrt(NORM_SLACK * N * SECRET_VARIANCE)) < 0.5
    for bound in (*range(WIDE_BOUND, 128, 7), 255, 511, 1023, 2047):
        cut, most = multiply_limbs(modulus_bits, bound)
        assert min(even(cut)) > 0
        error = fft_error(uniform_norm(even(cut)[0], most * N), bound * sqrt(most * N), most)
        assert SLACK * error < 0.5


def test_without_a_card_the_refusal_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(StudyError, match="device cuda needs CuPy") as told:
        require_cuda()
    assert "\n" not in str(told.value)


def test_a_driver_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cupy:
        class cuda:  # noqa: N801 - CuPy's name
            class runtime:  # noqa: N801
                @staticmethod
                def getDeviceCount() -> int:
                    raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    monkeypatch.setitem(sys.modules, "cupy", Cupy)  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="needs a graphics card and its driver: cudaErrorInsufficientDriver"):
        require_cuda()
    monkeypatch.setattr(Cupy.cuda.runtime, "getDeviceCount", staticmethod(lambda: 0))
    with pytest.raises(StudyError, match="got none"):
        require_cuda()


def test_a_device_serves_the_lattice_alone() -> None:
    assert party_product("lattice", "cuda") is DeviceParty
    with pytest.raises(StudyError, match='device cuda serves product "lattice", got product="plain"'):
        party_product("plain", "cuda")
