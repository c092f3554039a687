"""How many bits of security a ring-LWE key has, whole or partly read: a small estimator of known attacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil, e, inf, lgamma, log, log1p, log2, pi, sqrt

from colonnade.crypto.lattice.frames import BLOCK
from colonnade.foundation.proven import proven

SIEVE_SLOPE, SIEVE_START = 0.29613500308205365, 20.387885985467914
"""log2 of the gates of one sieve, a line in its dimension: MATZOV (2022), as malb/lattice-estimator 27a581b fits it."""
PROGRESSIVE = -log2(1 - 2**-SIEVE_SLOPE)
"""log2 of what sieving, or reducing, in all smaller dimensions before costs."""
SMALLEST_BLOCK, LARGEST_BLOCK = 40, 2000  # of BKZ, between which the cost model is searched
SMALLEST_DIMENSION = 64
"""A key of which no more is left counts as read."""


@cache
def key_bits(dimension: int, modulus_bits: int, secret_std: float, error_std: float) -> float:
    """Bits of the best attack known here on LWE of that dimension, with any number of samples.

    Bounded distance decoding: reduce a basis by blocks, then find the closest vector by one sieve in a projection of
    it; both take the same time at the best block size. docs/secure-product.md compares it with the lattice-estimator.
    """
    if dimension <= SMALLEST_DIMENSION:
        return 0.0

    def costs(block: int) -> tuple[float, float]:
        return _attack(block, dimension, modulus_bits, secret_std, error_std)

    low, high = SMALLEST_BLOCK, LARGEST_BLOCK
    while low < high:
        block = (low + high) // 2
        reduction, decoding = costs(block)
        low, high = (low, block) if decoding <= reduction else (block + 1, high)
    # Projections have whole dimensions, so that the least is found near the crossing, not always at it.
    near = range(max(low - 4, SMALLEST_BLOCK), low + 3)
    best = min(_sum_bits(*costs(block)) for block in near)
    return max(best - _narrow_margin(secret_std), 0.0)


def _narrow_margin(secret_std: float) -> float:
    """Bits that dual and hybrid attacks may save.

    A line in the secret's deviation, fitted to the estimator's numbers in the tables of docs/secure-product.md: the
    code says half a bit more than any of them at most, and 2.5 less.
    """
    return max(5.3 - 4.3 * secret_std, 1.0)


@proven("key_reading")
def readable_coefficients(information: float, law: Sequence[int]) -> int:
    """How many coefficients of a key can be named, at most, from opened values that tell so many bits of it.

    `law` has the weights of a coefficient's values.

    Domain: information: bits, not negative.
    Unit: coefficients, at most 2048.
    Guarantee: whoever learns no more bits names no more of them with certainty. Proof: key_reading, claim 2.
    """
    return min(ceil(information / entropy(law)), BLOCK)


def entropy(law: Sequence[int]) -> float:
    """Bits of a value with these weights."""
    total = sum(law)
    return sum(weight * log2(total / weight) for weight in law) / total


def hinted_stds(secret_std: float, error_std: float, hints: int, share: float) -> tuple[float, float]:
    """The widths that remain of a secret and its errors to whoever knows that many noisy sums of them.

    `share` is the standard deviation of such a sum's lattice error over that of the noise on it. Kim, Lee, Seo and Song
    (CRYPTO 2023), theorem 1: both shrink, by sqrt(2) even without a hint.
    """
    shrunk = sqrt(2 * (1 + hints * share**2))
    return secret_std / shrunk, error_std / shrunk


def _attack(block: int, dimension: int, modulus_bits: int, secret_std: float, error_std: float) -> tuple[float, float]:
    """Bits of reducing by this block size, and of the sieve that then finds the errors and the secret."""
    slope = _log_root_hermite(block)
    # Secrets are scaled to the errors' width (Bai and Galbraith 2014).
    scale = log(max(error_std / secret_std, 1.0))
    modulus = modulus_bits * log(2)
    rank = max(block, ceil(sqrt(dimension * (modulus - scale) / slope)))
    volume = (rank - dimension) * modulus + dimension * scale

    def hides(left: int) -> bool:
        """Whether in the last `left` directions of the reduced basis the target is longer than a random vector."""
        projected = left / rank * volume - (rank - left) * left * slope
        shortest = (projected + log(error_std) - _log_ball(left + 1)) / (left + 1)
        return shortest < log(error_std) + log(left + 1) / 2

    low, high = 1, rank
    while low < high:
        left = (low + high) // 2
        low, high = (left + 1, high) if hides(left) else (low, left)
    return _reduction_bits(block, rank), inf if hides(low) else _reduction_bits(low + 1, low + 1)


def _log_root_hermite(block: int) -> float:
    """Logarithm of the root Hermite factor that a block size reaches (Chen 2013)."""
    return (log(block / (2 * pi * e)) + log(pi * block) / block) / (2 * (block - 1))


def _log_ball(dimension: int) -> float:
    """Logarithm of the volume of the unit ball."""
    return dimension / 2 * log(pi) - lgamma(dimension / 2 + 1)


def _reduction_bits(block: int, rank: int) -> float:
    """Bits of progressive BKZ, one sieve for each block; a sieve saves some dimensions (Ducas 2018)."""
    saved = max(block * log(4 / 3) / log(block / (2 * pi * e)), 0.0) if block > 2 * pi * e else 0.0
    return 2 * PROGRESSIVE + log2(max(rank - block, 1)) + SIEVE_SLOPE * (block - saved) + SIEVE_START


def _sum_bits(left: float, right: float) -> float:
    """log2 of 2^left + 2^right."""
    high, low = max(left, right), min(left, right)
    return high + log1p(2.0 ** (low - high)) / log(2)
