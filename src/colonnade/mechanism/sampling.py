"""Exact integer samplers: every decision compares random bits with a probability enclosed as tightly as it takes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, isqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness

# enclose(bits) gives integers low <= p 2^bits <= high <= 2^bits whose gap stays bounded as bits grows.
Enclosure = Callable[[int], tuple[int, int]]

SMALLEST_SCALE = Fraction(1, 1 << 40)  # the proofs are for scales from here on; smaller ones are no noise
LARGEST_SCALE = Fraction(1 << 45)  # the proof's range (proofs/discrete_laplace.md)
LARGEST_SIGMA2 = Fraction(1 << 80)  # the proof's range (proofs/discrete_gaussian.md)

# A float estimate of a probability is trusted to half of this; proofs/discrete_gaussian.md bounds its error by 2^-40.
DOUBT = 2.0**-31

# A geometric variable is drawn digit by digit up to this many scales.
DIGIT_SCALES = 16

# Rows of work that stay in the cache.
CHUNK = 1 << 15


def check_rational(name: str, value: Fraction, smallest: Fraction, largest: Fraction) -> Fraction:
    """The value, once it is known to be an exact rational in its range."""
    if not isinstance(value, (int, Fraction)):
        raise PrivacyError(f"{name} must be an exact rational, got {name}={value!r}")
    if not smallest <= value <= largest:
        given = float(min(Fraction(value), Fraction(10**300)))
        raise PrivacyError(
            f"{name} must be in [{float(smallest):.3g}, {float(largest):.3g}], got {name}={given:.3g}; "
            f"a {'larger' if value > largest else 'smaller'} epsilon has noise that can be drawn exactly"
        )
    return Fraction(value)


def check_count(name: str, value: int, smallest: int = 0) -> int:
    """The value, once it is known to be a whole number that is large enough."""
    if not isinstance(value, (int, np.integer)) or value < smallest:
        raise PrivacyError(f"{name} must be a whole number of at least {smallest}, got {name}={value!r}")
    return int(value)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= exp(-x) 2^bits <= high, for x >= 0."""
    if x > bits:
        return 0, 1
    halvings = (2 * x.numerator // x.denominator).bit_length()
    work = bits + 2 * halvings + 32
    numerator, denominator = x.numerator, x.denominator << halvings
    # Taylor's series of exp(-x / 2^halvings), whose argument is below 1/2: each floor errs by less than 2 units.
    term = total = 1 << work
    step = 0
    while term:
        step += 1
        term = term * numerator // (denominator * step)
        total += -term if step % 2 else term
    error = 2 * step + 2
    low, high = total - error, min(total + error, 1 << work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return low >> (work - bits), -(-high >> (work - bits))


def decide(prefix: int, bits: int, enclose: Enclosure, randomness: Randomness) -> bool:
    """Whether a uniform real that starts with these bits is below p: more bits are drawn until it is certain."""
    while True:
        low, high = enclose(bits)
        if prefix < low:
            return True
        if prefix >= high:
            return False
        prefix = prefix << 64 | int(randomness.words(1)[0])
        bits += 64


class Coin:
    """A coin of one probability p, tossed many at a time; p is only known through its enclosure."""

    def __init__(self, enclose: Enclosure) -> None:
        self._enclose = enclose
        self._low, self._high = enclose(64)

    def toss(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        words = randomness.words(count)
        heads = words < np.uint64(self._low)
        if self._high > self._low:
            for index in np.flatnonzero(~heads & (words <= np.uint64(self._high - 1))):
                heads[index] = decide(int(words[index]), 64, self._enclose, randomness)
        return heads


def accept(
    estimates: NDArray[np.float64], enclosure_of: Callable[[int], Enclosure], randomness: Randomness
) -> NDArray[np.bool_]:
    """One toss per probability: floats decide where they are certain, and the enclosure where they are not."""
    prefixes = randomness.words((len(estimates) + 1) // 2).view(np.uint32)[: len(estimates)]
    gap = estimates - prefixes * 2.0**-32
    heads = gap > DOUBT
    for index in np.flatnonzero(np.abs(gap) <= DOUBT):
        heads[index] = decide(int(prefixes[index]), 32, enclosure_of(int(index)), randomness)
    return heads


class Poisson:
    """Poisson variables of one rational mean, drawn many at a time, exactly."""

    def __init__(self, mean: Fraction) -> None:
        self._mean = mean
        lows, highs = self._cumulative(64)
        self._steps = np.array(lows, dtype=np.uint64)
        # The last word that is still in doubt about the step before.
        self._last_doubt = np.array([0] + [high - 1 for high in highs], dtype=np.uint64)

    def _cumulative(self, bits: int) -> tuple[list[int], list[int]]:
        """Lower and upper bounds of P(N <= n) 2^bits for n = 0, 1, ... until nearly all is covered."""
        # Rounding errors of exp(-mean) grow by the factor exp(mean) at most.
        spare = 64 + 2 * ceil(self._mean)
        low, high = exp_bounds(self._mean, bits + spare)
        sum_low, sum_high = low, high
        lows, highs = [low >> spare], [-(-high >> spare)]
        while lows[-1] < (1 << bits) - (1 << bits // 4):
            low = low * self._mean.numerator // (self._mean.denominator * len(lows))
            high = -(-high * self._mean.numerator // (self._mean.denominator * len(lows)))
            sum_low, sum_high = sum_low + low, min(sum_high + high, 1 << bits + spare)
            lows.append(sum_low >> spare)
            highs.append(-(-sum_high >> spare))
        return lows, highs

    def _refine(self, prefix: int, randomness: Randomness) -> int:
        bits = 64
        while True:
            lows, highs = self._cumulative(bits)
            n = sum(low <= prefix for low in lows)
            if n < len(lows) and (n == 0 or prefix >= highs[n - 1]):
                return n
            prefix = prefix << 64 | int(randomness.words(1)[0])
            bits += 64

    def draw(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        words = randomness.words(count)
        out = np.searchsorted(self._steps, words, side="right").astype(np.int64)
        doubtful = (out == len(self._steps)) | ((out > 0) & (words <= self._last_doubt[out]))
        for index in np.flatnonzero(doubtful):
            out[index] = self._refine(int(words[index]), randomness)
        return out


def uniform_below(bound: int, count: int, randomness: Randomness) -> NDArray[np.uint8]:
    """Independent uniform integers in 0 .. bound - 1, for a bound of at most 128, by rejection of bytes."""
    limit = 256 - 256 % bound
    kept = np.empty(0, dtype=np.uint8)
    while len(kept) < count:
        missing = count - len(kept)
        drawn = np.frombuffer(randomness.bytes(missing * 256 // limit + missing // 64 + 64), dtype=np.uint8)
        kept = np.concatenate([kept, drawn[drawn < limit]]) if limit < 256 else np.concatenate([kept, drawn])
    return (np.arange(256) % bound).astype(np.uint8)[kept[:count]]


def fair_run(count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Independent i with P(i) = 2^-(i + 1): the zeros at the end of a random word, and of the next if it is 0."""
    words = randomness.words(count)
    lowest = words & (~words + np.uint64(1))
    out = (np.frexp(lowest.astype(np.float64))[1] - 1).astype(np.int64)
    empty = np.flatnonzero(words == 0)
    if empty.size:
        out[empty] = 64 + fair_run(empty.size, randomness)
    return out


def _bit_of_geometric(exponent: Fraction) -> Enclosure:
    """exp(-x) / (1 + exp(-x)): binary digit i of a geometric variable of scale t is 1 so often, at x = 2^i / t."""

    def enclose(bits: int) -> tuple[int, int]:
        low, high = exp_bounds(exponent, bits)
        one = 1 << bits
        return (low << bits) // (one + low), -(-(high << bits) // (one + high))

    return enclose


def _zero_of_laplace(exponent: Fraction) -> Enclosure:
    """(1 - exp(-x)) / (1 + exp(-x)): the discrete Laplace variable of scale t is 0 so often, at x = 1 / t."""

    def enclose(bits: int) -> tuple[int, int]:
        low, high = exp_bounds(exponent, bits)
        one = 1 << bits
        return ((one - high) << bits) // (one + high), -(-((one - low) << bits) // (one + low))

    return enclose


@proven("discrete_laplace")
def discrete_laplace(scale: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Independent integers with P(x) proportional to exp(-|x| / scale), exactly.

    Domain: scale: b, a rational in [2^-40, 2^45].
    Unit: integers of the submitted vector, not of the data.
    Guarantee: L1 sensitivity / scale is the epsilon. Proof: discrete_laplace, claims 1 and 2.
    """
    scale = check_rational("scale", scale, SMALLEST_SCALE, LARGEST_SCALE)
    count = check_count("count", count)
    zero = Coin(_zero_of_laplace(1 / scale))
    # What lies beyond the digits starts again there, for a geometric variable has no memory.
    digits = (-(-DIGIT_SCALES * scale.numerator // scale.denominator) - 1).bit_length()
    low_digits = [Coin(_bit_of_geometric(Fraction(1 << digit) / scale)) for digit in range(digits)]
    beyond = Coin(lambda bits: exp_bounds(Fraction(1 << digits) / scale, bits))

    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        magnitude = np.ones(size, dtype=np.int64)
        for digit, coin in enumerate(low_digits):
            magnitude += coin.toss(size, randomness).astype(np.int64) << digit
        further = np.flatnonzero(beyond.toss(size, randomness))
        while further.size:
            magnitude[further] += 1 << digits
            further = further[beyond.toss(further.size, randomness)]
        magnitude[zero.toss(size, randomness)] = 0
        minus = (randomness.words(size) & np.uint64(1)).view(np.int64)
        out[start : start + size] = (magnitude ^ -minus) + minus
    return out


def _bell(sigma2: Fraction, centre: Fraction, proposals: NDArray[np.int64]) -> Callable[[int], Enclosure]:
    """The probability exp(-(|y| - centre)^2 / (2 sigma2)) with which a proposal y stays."""

    def enclosure_of(index: int) -> Enclosure:
        exponent = (abs(int(proposals[index])) - centre) ** 2 / (2 * sigma2)
        return lambda bits: exp_bounds(exponent, bits)

    return enclosure_of


@proven("discrete_gaussian")
def discrete_gaussian(sigma2: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Independent integers with P(x) proportional to exp(-x^2 / (2 sigma2)), exactly.

    Domain: sigma2: a rational in [2^-40, 2^80].
    Unit: integers of the submitted vector.
    Guarantee: the law is exact: no probability is rounded. Proof: discrete_gaussian, claim 1.
    """
    sigma2 = check_rational("sigma2", sigma2, SMALLEST_SCALE, LARGEST_SIGMA2)
    count = check_count("count", count)
    # Canonne, Kamath, Steinke 2020, algorithm 3: reject from the discrete Laplace law of scale floor(sigma) + 1.
    scale = isqrt(sigma2.numerator // sigma2.denominator) + 1
    centre = sigma2 / scale

    out = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        proposals = discrete_laplace(Fraction(scale), min(CHUNK, (count - filled) * 3 // 2 + 16), randomness)
        distance = np.abs(proposals) - float(centre)
        estimates = np.exp(distance * distance * (-0.5 / float(sigma2)))
        kept = proposals[accept(estimates, _bell(sigma2, centre, proposals), randomness)][: count - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out
