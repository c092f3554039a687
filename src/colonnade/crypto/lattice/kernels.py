"""The array work of the lattice product, behind one seam: transforms of ring elements and products of words.

A ring element is stored with coefficients i and i + N/2 side by side, so that a pair is one complex number and its
N/2 pairs, twisted, are transformed by one complex FFT. `party.py` says what is computed and in which order; kernels
say how. All results are integers, and the bounds of `parameters` make them exact, so other kernels (a device's, say)
must give the same bits: `class DeviceParty(LatticeParty): kernels = DeviceKernels` is all that is needed to use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.parameters import PAIR_LIMB, N, uniform_norm
from colonnade.crypto.lattice.words import PAIR_BITS, Floats, Planes, Scratch
from colonnade.crypto.product import Words
from colonnade.foundation.errors import ProductError

Complex = NDArray[np.complex128]
Small = NDArray[np.int8] | NDArray[np.int16] | NDArray[np.int32]
"""Integers of data, secrets or errors."""

PIECE = 24
"""Ring elements worked on at once: with what they are multiplied by, they stay in a second-level cache."""

# Adding this rounds a float to an integer, which then lies in the low bits of its pattern.
ROUND = 1.5 * 2.0**52
_PATTERN = np.float64(2.0**52).view(np.uint64)  # exponent bits of a float from 2^52 on, whose low bits are an integer

_TWIST: Complex = np.exp(1j * np.pi * np.arange(N // 2) / N)  # turns the negacyclic product into a cyclic one
# The inverse transform's factor 2/N is a power of two and is taken here, without a rounding.
_UNTWIST: Complex = _TWIST.conj() * (2.0 / N)


class Kernels(Protocol):
    """What a party asks of its arrays in one session; what it gets back and hands in again is the kernels' own.

    `bits` are those of the limbs, lowest first, in which public elements are multiplied.
    """

    def __init__(self) -> None: ...

    def keys(self, secrets: NDArray[np.int8], bits: Sequence[int]) -> Any:
        """Secrets s(1/X), one row each, made ready for `seal`."""
        ...

    def elements(self, words: Words, bits: Sequence[int]) -> Any:
        """Public elements, one row each, right modulo 2^sum(bits), made ready for `seal` or `accumulate`."""
        ...

    def seal(self, planes: Planes, keys: Any, columns: slice, elements: Any, message: Small) -> None:
        """Write a_r s + message for these columns' keys; `message` has a row for each coefficient of all blocks."""
        ...

    def sums(self, columns: int, bits: Sequence[int]) -> Any:
        """Zeros, one ring element for each column and limb."""
        ...

    def accumulate(self, sums: Any, elements: Any, rows: Small) -> None:
        """Add a_r y_r(1/X) over some blocks; `rows` has a row for each coefficient of all blocks."""
        ...

    def collect(self, sums: Any, bits: Sequence[int]) -> Words:
        """The sums modulo 2^51, one row for each column; starts again from zero."""
        ...

    def times(self, planes: Planes, small: Small, bound: int) -> Words:
        """Words times integers of absolute value at most `bound`, exactly, right modulo 2^modulus_bits."""
        ...

    def wipe(self) -> None:
        """Overwrite what was used."""
        ...


class Keys(NamedTuple):
    """The values of secrets, and of pairs s_j + 2^PAIR_BITS s_(j+1) where a second limb is short enough for them."""

    values: Complex
    pairs: Complex | None


class NumpyKernels:
    """Kernels on numpy, its BLAS and its FFT, one thread."""

    def __init__(self) -> None:
        self._scratch = Scratch()

    def keys(self, secrets: NDArray[np.int8], bits: Sequence[int]) -> Keys:
        values = forward(secrets.astype(np.float64)).conj()
        if not paired(bits):
            return Keys(values, None)
        pairs = values[::2].copy()
        pairs[: len(values) // 2] += values[1::2] * 2.0**PAIR_BITS
        return Keys(values, pairs)

    def elements(self, words: Words, bits: Sequence[int]) -> list[tuple[int, Complex]]:
        """Each limb's place and values."""
        places = (sum(bits[:limb]) for limb in range(len(bits)))
        return [(place, forward(limb)) for place, limb in zip(places, limbs(words, bits), strict=True)]

    def seal(
        self, planes: Planes, keys: Keys, columns: slice, elements: Sequence[tuple[int, Complex]], message: Small
    ) -> None:
        (_, low), *others = elements
        values = keys.values[columns]
        pairs = None if keys.pairs is None else keys.pairs[columns.start // 2 : (columns.stop + 1) // 2]
        for part, blocks in pieces(message.shape[1], len(low)):
            words = self._sealed(values[part], low[blocks], message[blocks.start * N : blocks.stop * N, part])
            upper = None
            for place, limb in others:
                own = values[part] if pairs is None else pairs[part.start // 2 : (part.stop + 1) // 2]
                found = inverse(*self._product(own, limb[blocks], "upper")).reshape(len(own), -1)
                if pairs is not None:
                    upper = found
                else:
                    found <<= np.uint64(place)
                    words += found
            planes.write(part, blocks.start * N, words, upper)

    def _product(self, keys: Complex, values: Complex, name: str) -> tuple[Complex, Complex]:
        """Every key times every element, and room for its coefficients."""
        shape = len(keys), *values.shape
        product: Complex = self._scratch("product", shape, np.complex128)
        # A transform into its own argument would copy that first.
        room: Complex = self._scratch(name, shape, np.complex128)
        return np.multiply(keys[:, None], values, out=product), room

    def _sealed(self, keys: Complex, values: Complex, message: Small) -> Words:
        """Ring elements a s, plus a message; right modulo 2^51."""
        turned: Floats = self._scratch("message", message.T.shape, np.float64)
        np.copyto(turned, message.T)
        turned += ROUND
        floats = backward(*self._product(keys, values, "words")).reshape(turned.shape)
        floats += turned
        return floats.view(np.uint64)

    def sums(self, columns: int, bits: Sequence[int]) -> Complex:
        return np.zeros((len(bits), columns, N // 2), np.complex128)

    def accumulate(self, sums: Complex, elements: Sequence[tuple[int, Complex]], rows: Small) -> None:
        conjugates = [value.conj() for _, value in elements]
        for columns, blocks in pieces(rows.shape[1], len(conjugates[0])):
            piece = rows[blocks.start * N : blocks.stop * N, columns].T
            floats: Floats = self._scratch("y", piece.shape, np.float64)
            np.copyto(floats, piece)
            shape = len(piece), floats.shape[1] // N, N // 2
            y = forward(floats.reshape(len(piece), -1, N), self._scratch("values of y", shape, np.complex128))
            products: Complex = self._scratch("product", y.shape, np.complex128)
            for total, value in zip(sums, conjugates, strict=True):
                np.multiply(y, value[blocks], out=products)
                total[columns] += products[:, 0] if len(value[blocks]) == 1 else products.sum(axis=1)

    def collect(self, sums: Complex, bits: Sequence[int]) -> Words:
        words: Words = np.zeros((sums.shape[1], N), np.uint64)
        shift = 0
        for total, count in zip(sums, bits, strict=True):
            words += inverse(total.conj()) << np.uint64(shift)
            shift += count
        sums.fill(0)
        return words

    def times(self, planes: Planes, small: Small, bound: int) -> Words:
        return planes.times(small, bound, self._scratch)

    def wipe(self) -> None:
        self._scratch.wipe()


def paired(bits: Sequence[int]) -> bool:
    """Whether a second limb is so short that two secrets share a transform with it (`parameters.seal_limbs`)."""
    return len(bits) == 2 and bits[0] == 32 and bits[1] <= PAIR_LIMB


def pieces(columns: int, blocks: int) -> Iterator[tuple[slice, slice]]:
    """Columns and blocks of about PIECE ring elements at a time; pairs of columns stay together."""
    wide = -(-columns // max(1, round(columns / PIECE)))
    wide += wide % 2 if wide < columns else 0
    long = max(1, PIECE // wide)
    for column in range(0, columns, wide):
        for block in range(0, blocks, long):
            yield slice(column, min(column + wide, columns)), slice(block, min(block + long, blocks))


def forward(elements: Floats, out: Complex | None = None) -> Complex:
    """The values of ring elements at the 1024 roots of X^1024 = i; overwrites its argument."""
    pairs: Complex = elements.view(np.complex128)
    pairs *= _TWIST
    return np.fft.fft(pairs, out=out)


def backward(values: Complex, out: Complex | None = None) -> Floats:
    """The coefficients, as floats near integers, of ring elements given by their values."""
    pairs: Complex = np.fft.ifft(values, norm="forward", out=out)
    pairs *= _UNTWIST
    return pairs.view(np.float64)


def inverse(values: Complex, out: Complex | None = None) -> Words:
    """The integer coefficients, right modulo 2^51, of ring elements given by their values."""
    floats = backward(values, out)
    floats += ROUND
    return floats.view(np.uint64)


def limbs(words: Words, bits: Sequence[int]) -> list[Floats]:
    """Centred limbs, lowest first, of uniform words of sum(bits) bits; overwrites its argument."""
    # With half of each limb's range added, limbs are plain digits; in the low bits of 2^52 they are floats.
    places = [sum(bits[:place]) for place in range(len(bits))]
    words += np.uint64(sum(1 << (place + count - 1) for place, count in zip(places, bits, strict=True)))
    found = []
    for place, count in zip(places, bits, strict=True):
        digits = words >> np.uint64(place)
        digits &= np.uint64((1 << count) - 1)
        digits |= _PATTERN
        floats: Floats = digits.view(np.float64)
        floats -= 2.0**52 + 2.0 ** (count - 1)
        check_norm(float(np.vecdot(floats, floats).max()), count)
        found.append(floats)
    return found


def check_norm(square: float, bits: int) -> None:
    """Refuse a public element whose squared norm is beyond what makes transforms exact."""
    if square > uniform_norm(bits, N) ** 2:
        raise ProductError("a public element of this session is freakishly large: start another session")
