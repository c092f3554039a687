"""The lattice product's arrays on a graphics card, through CuPy; the same bits as on the processor, or a refusal.

No bound on cuFFT's rounding error is published. So words are cut in twice as many limbs as on the processor: what a
textbook transform could err by (lattice_plan.fft_error) is then at most 1/SLACK of what would spoil an integer, and
the results are the processor's unless cuFFT is SLACK times worse. `require_cuda` tries that on the card at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import ceil, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.kernels import Kernels, NumpyKernels, Small
from colonnade.crypto.lattice.parameters import NORM_SLACK, SECRET_VARIANCE, N, fft_error, uniform_norm
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.words import EXACT_BITS, Planes, Scratch
from colonnade.crypto.product import Words
from colonnade.foundation.errors import ProductError, StudyError

SLACK = 128  # how much worse than the textbook's bound cuFFT may be; tried by require_cuda
LARGEST_CHUNK = 1 << 13
"""Rows summed in floating point before integers take over."""

_TWIST = np.exp(1j * np.pi * np.arange(N // 2) / N)  # turns the negacyclic product into a cyclic one
_UNTWIST = _TWIST.conj() * (2.0 / N)  # and back, with the inverse transform's factor


def even(bits: Sequence[int]) -> tuple[int, ...]:
    """Twice as many limbs, all of about one length, for as many bits in all."""
    total, count = sum(bits), 2 * len(bits)
    size = ceil(total / count)
    return (*(size for _ in range(count - 1)), total - (count - 1) * size)


class DeviceKernels:
    """Kernels whose arrays live in a card's memory; words cross the bus in as many bytes as they have on the wire."""

    module: ClassVar[str] = "cupy"
    """A module with numpy's functions."""

    def __init__(self) -> None:
        self._xp: Any = import_module(self.module)
        self._twist, self._untwist = self._xp.asarray(_TWIST), self._xp.asarray(_UNTWIST)
        self._secret: list[Any] = []

    def keys(self, secrets: NDArray[np.int8], bits: Sequence[int]) -> Any:
        size = even(bits)[0]
        if SLACK * fft_error(uniform_norm(size, N), sqrt(NORM_SLACK * N * SECRET_VARIANCE)) >= 0.5:
            raise ProductError(f"limbs of {size} bits are too long for exact transforms on a device")
        keys = self._forward(self._up(secrets)).conj()
        self._secret.append(keys)
        return keys

    def elements(self, words: Words, bits: Sequence[int]) -> list[tuple[int, Any]]:
        """Each limb's place and values."""
        rest, place, found = self._up(words.view(np.int64)), 0, []
        for count in even(bits):
            limb = (rest << (64 - count)) >> (64 - count)
            floats = limb.astype(np.float64)
            if float((floats * floats).sum(axis=1).max()) > uniform_norm(count, N) ** 2:
                raise ProductError("a public element of this session is freakishly large: start another session")
            found.append((place, self._forward(floats)))
            rest = (rest - limb) >> count
            place += count
        return found

    def seal(
        self, planes: Planes, keys: Any, columns: slice, elements: Sequence[tuple[int, Any]], message: Small
    ) -> None:
        words = self._up(message).T.astype(np.int64)
        for place, value in elements:
            words += self._inverse(keys[columns, None] * value[None]).reshape(words.shape) << place
        self._down(planes, words[:, : planes.arrays[0].shape[1]])

    def sums(self, columns: int, bits: Sequence[int]) -> Any:
        return self._xp.zeros((len(even(bits)), columns, N // 2), np.complex128)

    def accumulate(self, sums: Any, elements: Sequence[tuple[int, Any]], rows: Small) -> None:
        y = self._forward(self._up(rows).T.reshape(rows.shape[1], -1, N))
        for total, (_, value) in zip(sums, elements, strict=True):
            total += (y * value.conj()[None]).sum(axis=1)

    def collect(self, sums: Any, bits: Sequence[int]) -> Words:
        words, place = self._xp.zeros((sums.shape[1], N), np.int64), 0
        for total, count in zip(sums, even(bits), strict=True):
            words += self._inverse(total.conj()).reshape(words.shape) << place
            place += count
        sums.fill(0)
        collected: Words = self._host(words).view(np.uint64)
        return collected

    def times(self, planes: Planes, small: Small, bound: int) -> Words:
        xp = self._xp
        low, *rest = (self._up(plane) for plane in planes.arrays)
        limbs = [low.astype(np.float64)]
        if rest:
            high = rest[0].astype(np.float64)
            limbs.append(high if len(rest) == 1 else high + 65536.0 * rest[1].astype(np.float64))
        right = self._up(small).astype(np.float64)
        chunk = min((1 << (EXACT_BITS - 32)) // bound, LARGEST_CHUNK)
        total = xp.zeros((len(limbs), len(low), right.shape[1]), np.int64)
        for start in range(0, len(right), chunk):
            part = slice(start, start + chunk)
            for place, limb in enumerate(limbs):
                total[place] += xp.matmul(limb[:, part], right[part]).astype(np.int64)
        words = total[0] + (total[1] << 32) if rest else total[0]
        product: Words = self._host(words).view(np.uint64)
        return product

    def wipe(self) -> None:
        for array in self._secret:
            array.fill(0)
        self._secret.clear()

    def _up(self, array: NDArray[Any]) -> Any:
        return self._xp.asarray(np.ascontiguousarray(array))

    def _host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = array if isinstance(array, np.ndarray) else array.get()
        return host

    def _down(self, planes: Planes, words: Any) -> None:
        """The low modulus_bits of words, cut in planes before they cross the bus."""
        low, *rest = planes.arrays
        self._into(low, words & 0xFFFFFFFF)
        if rest:
            high = (words >> 32) & ((1 << (planes.modulus_bits - 32)) - 1)
            self._into(rest[0], high)
            if len(rest) == 2:
                self._into(rest[1], high >> 16)

    def _into(self, plane: NDArray[Any], values: Any) -> None:
        cut = self._xp.ascontiguousarray(values.astype(plane.dtype))
        if isinstance(cut, np.ndarray):
            np.copyto(plane, cut)
        else:
            cut.get(out=plane)

    def _forward(self, elements: Any) -> Any:
        """The values of ring elements, whose coefficients lie in the last axis."""
        floats = self._xp.ascontiguousarray(elements, dtype=np.float64)
        return self._xp.fft.fft(floats.view(np.complex128) * self._twist, axis=-1)

    def _inverse(self, values: Any) -> Any:
        """The integer coefficients of ring elements given by their values."""
        pairs = self._xp.fft.ifft(values, axis=-1, norm="forward") * self._untwist
        return self._xp.rint(pairs.view(np.float64)).astype(np.int64)


class DeviceParty(LatticeParty):
    """One party's side of the lattice product, with its arrays on a card."""

    kernels, on_host = DeviceKernels, False


def require_cuda() -> None:
    """Refuse where there is no card, or where one computes other integers than the processor."""
    try:
        cards = int(import_module("cupy").cuda.runtime.getDeviceCount())
    except ImportError:
        raise StudyError("device cuda needs CuPy, which is not installed: pip install cupy-cuda13x") from None
    except Exception as error:
        # Without a driver the library's own error says so.
        raise StudyError(f"device cuda needs a graphics card and its driver: {error}") from None
    if not cards:
        raise StudyError("device cuda needs a graphics card, got none")
    if not agrees(DeviceKernels()):
        raise StudyError("device cuda computes other integers than the processor on this card")


def agrees(device: Kernels, bits: Sequence[int] = (35, 16)) -> bool:
    """Whether a device's kernels give the processor's words on the largest entries there are."""
    mine, theirs = (_tried(kernels, bits) for kernels in (NumpyKernels(), device))
    return bool(np.array_equal(mine, theirs))


def _tried(kernels: Kernels, bits: Sequence[int]) -> Words:
    columns, blocks = 3, 2
    words = np.arange(1, blocks * N + 1, dtype=np.uint64).reshape(blocks, N) * np.uint64(0x9E3779B97F4A7C15)
    sign = 1 - 2 * (np.arange(columns * N).reshape(columns, N) % 3 % 2).astype(np.int8)
    planes = Planes.empty((columns, blocks * N), sum(bits), Scratch())
    message = np.full((blocks * N, columns), (1 << 30) - 1, np.int32)
    kernels.seal(planes, kernels.keys(sign, bits), slice(0, columns), kernels.elements(words.copy(), bits), message)
    short, small = even(bits), np.repeat(np.int16(2047) * sign.T.astype(np.int16), blocks, axis=0)
    sums = kernels.sums(columns, short)
    kernels.accumulate(sums, kernels.elements(words.copy(), short), small)
    parts = [planes.words(), kernels.collect(sums, short), kernels.times(planes, small, 2047)]
    kernels.wipe()
    return np.concatenate([part.ravel() for part in parts]) & np.uint64((1 << sum(bits)) - 1)
