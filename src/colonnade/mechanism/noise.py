"""Noise as each party draws it: whole for its own block, in shares for a block of two owners."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import isqrt, log

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.sampling import (
    CHUNK,
    LARGEST_SCALE,
    LARGEST_SIGMA2,
    SMALLEST_SCALE,
    Enclosure,
    Poisson,
    accept,
    check_count,
    check_rational,
    discrete_gaussian,
    discrete_laplace,
    exp_bounds,
    fair_run,
    uniform_below,
)

# Above this the sum of Gaussian shares is not close enough to the law that was accounted for.
LARGEST_SLACK = Fraction(1, 1 << 40)

TWO_PI_SQUARED = Fraction(19739, 1000)  # rounded down


@proven("noise_shares")
def laplace_share(scale: Fraction, parts: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Shares of which any `parts` independent ones add up to discrete_laplace(scale), exactly.

    Domain: scale: b of P(x) ~ exp(-|x| / b), in [2^-40, 2^45]; parts: K - c.
    Unit: integers of the submitted vector, not of the data.
    Guarantee: epsilon = L1 sensitivity / scale against a view to which `parts` shares are unknown. Proof:
        noise_shares, claim 1.
    """
    scale = check_rational("scale", scale, SMALLEST_SCALE, LARGEST_SCALE)
    parts = check_count("parts", parts, 1)
    count = check_count("count", count)
    if parts == 1:
        return discrete_laplace(scale, count, randomness)
    # A share is a sum of jumps +-k, a Poisson number exp(-k / scale) / (k parts) of them for each k and each sign.
    # Candidates come uniformly from each octave of k below 2^octaves and from steps of 2^octaves beyond, and are
    # thinned to that intensity.
    octaves = (-(-scale.numerator // scale.denominator) - 1).bit_length()
    mean = Fraction(2 * (octaves + 1), parts)
    candidates = Poisson(mean)
    shift = np.uint64(63) - np.arange(octaves + 1, dtype=np.uint64)
    first = np.int64(1) << np.arange(octaves + 1, dtype=np.int64)
    weight = first.astype(np.float64)
    weight[octaves] *= 2
    rate = -1 / float(scale)

    out = np.empty(count, dtype=np.int64)
    rows = min(CHUNK, int(4 * CHUNK / mean))
    for start in range(0, count, rows):
        ends = np.cumsum(candidates.draw(min(rows, count - start), randomness))
        size = int(ends[-1])
        octave = uniform_below(octaves + 1, size, randomness)
        words = randomness.words(size)
        jumps = first[octave] + ((words >> np.uint64(1)) >> shift[octave]).view(np.int64)
        weights = weight[octave]
        tail = np.flatnonzero(octave == octaves)
        steps = fair_run(tail.size, randomness)
        jumps[tail] += steps << octaves
        weights[tail] *= np.exp2(steps)
        kept = accept(np.exp(jumps * rate) * weights / jumps, _thinning(scale, jumps, weights), randomness)
        minus = (words & np.uint64(1)).view(np.int64)
        jumps = ((jumps ^ -minus) + minus) * kept
        sums = np.concatenate([[0], np.cumsum(jumps)])[np.concatenate([[0], ends])]
        out[start : start + len(ends)] = np.diff(sums)
    return out


def _thinning(scale: Fraction, jumps: NDArray[np.int64], weights: NDArray[np.float64]) -> Callable[[int], Enclosure]:
    """The probability weight exp(-k / scale) / k with which a candidate jump k stays; weights are powers of two."""

    def enclosure_of(index: int) -> Enclosure:
        jump, power = int(jumps[index]), int(weights[index])

        def enclose(bits: int) -> tuple[int, int]:
            work = bits + power.bit_length()
            low, high = exp_bounds(jump / scale, work)
            return low * power // (jump << work - bits), -(-high * power // (jump << work - bits))

        return enclose

    return enclosure_of


@proven("noise_shares")
def gaussian_sum_slack(sigma2: Fraction, parts: int, count: int = 1) -> Fraction:
    """A bound on |ln(P(z) / Q(z))| at every z: P of `count` sums of Gaussian shares, Q of discrete Gaussians.

    Domain: sigma2 / parts: at least 1/4.
    Unit: natural logarithms.
    Guarantee: as the first line says. Proof: noise_shares, claim 2.
    """
    sigma2 = check_rational("sigma2", sigma2, SMALLEST_SCALE, LARGEST_SIGMA2)
    parts = check_count("parts", parts, 1)
    if parts > 1 and 4 * sigma2 < parts:
        raise PrivacyError(f"sigma2/parts must be at least 1/4, got sigma2/parts={float(sigma2 / parts):.6g}")
    bits = 1024
    total = 0
    for k in range(1, parts):
        total += exp_bounds(TWO_PI_SQUARED * sigma2 / parts * Fraction(k, k + 1), bits)[1]
    return check_count("count", count) * Fraction(5 * total, 1 << bits)


@proven("noise_shares")
def gaussian_share(sigma2: Fraction, parts: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Shares of which any `parts` independent ones add up to discrete_gaussian(sigma2), within gaussian_sum_slack.

    Domain: sigma2: of the sum of `parts` shares, in [2^-40, 2^80]; parts: K - c.
    Unit: integers of the submitted vector.
    Guarantee: sums are within 2^-40 of the discrete Gaussian in log probability, or it is refused. Proof:
        noise_shares, claim 2.
    """
    slack = gaussian_sum_slack(sigma2, parts, count)
    if slack > LARGEST_SLACK:
        raise PrivacyError(
            f"{count} sums of Gaussian shares must be within 2^-40 of the discrete Gaussian, "
            f"got {float(slack):.3g} for sigma2={float(sigma2):.6g} in {parts} parts"
        )
    return discrete_gaussian(Fraction(sigma2) / parts, count, randomness)


@lru_cache(maxsize=4096)
@proven("noise_shares")
def quantile_reach(
    law: Distribution, scale: Fraction, count: int, log2_probability: int = 40, *, parties: int = 1, parts: int = 1
) -> int:
    """An R that `count` sums of `parties` shares all stay within, but for probability 2^-log2_probability.

    The scale is b of exp(-|x| / b) for Laplace and sigma^2 of exp(-x^2 / (2 sigma^2)) for Gaussian noise.

    Domain: parties: shares that are added; parts: shares that make the whole noise.
    Unit: integers of the submitted vector.
    Guarantee: as the first line says. Proof: noise_shares, claim 3.
    """
    largest = LARGEST_SCALE if law is Distribution.LAPLACE else LARGEST_SIGMA2
    scale = check_rational("scale", scale, SMALLEST_SCALE, largest)
    count = check_count("count", count, 1)
    shape = Fraction(check_count("parties", parties, 1), check_count("parts", parts, 1))
    odds = _above(log(2 * count) + check_count("log2_probability", log2_probability) * log(2))
    if law is Distribution.GAUSSIAN:
        square = 2 * scale * shape * odds
        return isqrt(square.numerator // square.denominator)
    if shape == 1:
        return int(scale * odds)
    # Chernoff's bound at the exponent tilt / scale holds for every tilt in (0, 1); the best of a grid is taken.
    best = min(range(1, 64), key=lambda i: (float(odds) - float(shape) * log(1 - (i / 64) ** 2)) / i)
    tilt = Fraction(best, 64)
    return int(scale / tilt * (odds - shape * _below(log(1 - tilt * tilt))))


def _above(value: float) -> Fraction:
    """A rational above the real number whose float this is."""
    return Fraction(value) + Fraction(abs(value)) / (1 << 40) + Fraction(1, 1 << 60)


def _below(value: float) -> Fraction:
    """A rational below it."""
    return -_above(-value)
