"""ML-KEM-768's encapsulation (FIPS 203, algorithms 14 and 17) of messages that the caller draws, many at once.

The library draws them by itself, so that nobody could make an encapsulation again, as an audit does. What is made here
is used once: times that depend on it tell of one message, and nobody's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha3_256, sha3_512, shake_128, shake_256

import numpy as np
from numpy.typing import NDArray

Q = 3329  # ML-KEM's modulus (FIPS 203)
VECTOR = 1152
"""Bytes of a key's 768 numbers; a seed of 32 bytes follows."""
MESSAGE = 32  # bytes that a ciphertext carries (FIPS 203)
_SAMPLED = 672
"""Bytes for 256 numbers below 3329: 448 candidates, of which 364 +- 8 are."""
_ROOTS = np.array([pow(17, 2 * int(f"{i:07b}"[::-1], 2) + 1, Q) for i in range(128)], np.int32)
_INVERSES = np.array([pow(int(root), -1, Q) for root in _ROOTS], np.int32)

Numbers = NDArray[np.int32]


def _powers(bases: Numbers, first: int) -> NDArray[np.float64]:
    """Row j: the first number times the power j of each base."""
    rows = [np.full(128, first, np.int32)]
    for _ in range(127):
        rows.append(rows[-1] * bases % Q)
    return np.array(rows, np.float64)


# The number-theoretic transform and its inverse, as matrices.
_FORWARD, _BACK = _powers(_ROOTS, 1), _powers(_INVERSES, pow(128, -1, Q)).T


def encapsulated(keys: Sequence[bytes], messages: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The secret that each message makes, and its ciphertext for the holder of each key."""
    hashed = [sha3_512(m + sha3_256(key).digest()).digest() for key, m in zip(keys, messages, strict=True)]
    small = _small([h[32:] for h in hashed])
    vectors = unpacked(np.frombuffer(b"".join(key[:VECTOR] for key in keys), np.uint8).reshape(-1, VECTOR))
    # Three rows of the matrix that the seed stands for, and the key's vector, times one short vector y.
    rows = _halves(np.concatenate([_matrices([key[VECTOR:] for key in keys]), vectors.reshape(-1, 1, 3, 256)], axis=1))
    y = _times(_halves(small[:, :3]), _FORWARD)[:, None]
    even = rows[..., 0, :] * y[..., 0, :] + rows[..., 1, :] * y[..., 1, :] % Q * _ROOTS
    odd = rows[..., 0, :] * y[..., 1, :] + rows[..., 1, :] * y[..., 0, :]
    products = _times(np.stack([even.sum(axis=2), odd.sum(axis=2)], axis=2) % Q, _BACK)
    found = products.swapaxes(-1, -2).reshape(-1, 4, 256) + small[:, 3:]
    found[:, 3] += (Q + 1) // 2 * _bits(b"".join(messages)).reshape(-1, 256)
    first, last = _compressed(found[:, :3] % Q, 10), _compressed(found[:, 3] % Q, 4)
    ciphers = np.concatenate([first, last], axis=1)
    return [h[:32] for h in hashed], [cipher.tobytes() for cipher in ciphers]


def below(data: Sequence[bytes], count: int) -> Numbers:
    """The first numbers below 3329 in each of some random bytes."""
    candidates = unpacked(np.frombuffer(b"".join(data), np.uint8).reshape(len(data), -1))
    good = candidates < Q
    good &= np.cumsum(good, axis=1) <= count
    return candidates[good].reshape(len(data), count)


def unpacked(raw: NDArray[np.uint8]) -> Numbers:
    """Twelve bits a number, as FIPS 203 encodes them; a row each."""
    a = raw.reshape(len(raw), -1, 3).astype(np.int32)
    pairs = np.stack([a[:, :, 0] | (a[:, :, 1] & 15) << 8, a[:, :, 1] >> 4 | a[:, :, 2] << 4], axis=2)
    numbers: Numbers = pairs.reshape(len(raw), -1)
    return numbers


def _matrices(seeds: Sequence[bytes]) -> Numbers:
    """Each seed's matrix, transposed."""
    places = [bytes([i, j]) for i in range(3) for j in range(3)]
    draws = [shake_128(seed + place).digest(_SAMPLED) for seed in seeds for place in places]
    return below(draws, 256).reshape(-1, 3, 3, 256)


def _small(coins: Sequence[bytes]) -> Numbers:
    """Seven polynomials of each, with coefficients from -2 to 2."""
    draws = b"".join(shake_256(coin + bytes([n])).digest(128) for coin in coins for n in range(7))
    bits = _bits(draws).reshape(-1, 7, 256, 4)
    return bits[..., 0] + bits[..., 1] - bits[..., 2] - bits[..., 3]


def _bits(data: bytes) -> Numbers:
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int32)


def _halves(polynomials: Numbers) -> Numbers:
    """Coefficients of even and of odd powers."""
    return polynomials.reshape(*polynomials.shape[:-1], 128, 2).swapaxes(-1, -2)


def _times(halves: Numbers, matrix: NDArray[np.float64]) -> Numbers:
    """A number theoretic transform as a product of matrices: sums stay under 2^31, where floats are exact."""
    sums: Numbers = np.rint(halves.astype(np.float64) @ matrix).astype(np.int32)
    return sums % Q


def _compressed(numbers: Numbers, width: int) -> NDArray[np.uint8]:
    """Rounded to so many bits, and packed; a row for each first index."""
    rounded = ((numbers << width) + Q // 2) // Q
    bits = (rounded[..., None] >> np.arange(width) & 1).astype(np.uint8)
    return np.packbits(bits.reshape(len(numbers), -1), axis=1, bitorder="little")
