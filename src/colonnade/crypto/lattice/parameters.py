"""How large the lattice product's ring words must be, what its errors cost, and why its transforms are exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, floor, log1p, sqrt

from colonnade.crypto.frames import check_spec
from colonnade.crypto.lattice.frames import BLOCK
from colonnade.crypto.lattice.security import hinted_stds, key_bits
from colonnade.crypto.lattice.words import PAIR_BITS
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.errors import BrokenError, ProductError
from colonnade.foundation.proven import proven

N = BLOCK
MODULUS_BITS = range(32, 52)
"""At most 51, so that adding 1.5 * 2^52 rounds a float64 and leaves its integer in the low bits."""
SECURITY_FLOOR = 128  # bits; what a plan must not go below
ERROR_STD = 3.2
"""The least error width that hints about rho may leave to u."""

TAU = 7
"""No error of a sealed word exceeds this; its variance is ERROR_VARIANCE."""
ERROR_VARIANCE = 10.5  # of the sum of two even ones on 8 values: 2 (8^2 - 1) / 12
SECRET_BOUND, SECRET_VARIANCE = 2, 1.0  # of SECRET_DISTRIBUTION: four fair coins, less two
SECRET_DISTRIBUTION: tuple[int, ...] = (1, 4, 6, 4, 1)
"""Weights of -2 to 2."""
WIDE_BOUND, WIDE_VARIANCE = 15, 42.5  # of WIDE_DISTRIBUTION: the sum of two even ones on 16 values
WIDE_DISTRIBUTION = tuple(16 - abs(k) for k in range(-15, 16))
HINT_BOUND, HINT_VARIANCE = 2 * 4095, 4 * (4096**2 - 1) / 12  # the sum of four even ones on 4096 values
FACTOR_SLACK = Fraction(1, 256)
"""The most that the lattice error may move an attribute by, relatively; `error_factor` is at most 1 + twice this."""
ERROR_SHARE = Fraction(1, 100)
"""The most that the lattice error's standard deviation should be of the noise's."""

SPAN = 8 * N
"""Rows whose errors are summed together where they are proved to be short (crypto/ranges)."""
DEVIATIONS = 9
"""Standard deviations within which a sum of errors is proved to be: an honest one leaves it with 2^-57."""

NORM_SLACK = 1.25
"""Squared norms of random ring elements stay under this many times their mean (9 standard deviations), checked."""
UNIT = 2.0**-53  # the unit roundoff of a float64
LOW_BITS, PAIR_LIMB = 35, 8
"""The longest limb of a_r in a_r s, and the longest that two secrets may share a transform with."""
LARGEST_NOISE = 2.0**43
"""Standard deviation of noise on opened words, a quarter of what its samplers draw."""
LARGEST_MESSAGE = 1 << 30
"""gain * bound, so that what is sealed fits 32 bits."""


@dataclass(frozen=True)
class Parameters:
    """What a plan needs to know of the lattice product at its size."""

    modulus_bits: int
    gain: int
    tau: int
    reach: int
    """No opened value exceeds this unless the noise exceeds its own reach."""
    error_std: float
    """Standard deviation, at most, of what the lattice adds to an opened value."""
    security: int


def check_lattice(spec: ProductSpec) -> None:
    """Refuse a specification that the lattice product could not run, or not safely."""
    check_spec(spec)
    if spec.modulus_bits not in MODULUS_BITS or security(spec.modulus_bits) < SECURITY_FLOOR:
        raise ProductError(
            f"the lattice product needs modulus_bits within {MODULUS_BITS[0]} and {MODULUS_BITS[-1]} for "
            f"{SECURITY_FLOOR} bits of security, got modulus_bits={spec.modulus_bits}"
        )
    if spec.gain * spec.bound > LARGEST_MESSAGE:
        raise ProductError(f"gain * bound must be at most {LARGEST_MESSAGE}, got {spec.gain} * {spec.bound}")


def security(modulus_bits: int, hints: int = 0, share: float = 0.0) -> int:
    """Bits of security of a sealing key against a coalition that multiplies it with that many columns.

    `share` is the standard deviation of the lattice error over the noise's; docs/secure-product.md, "Parameters".
    """
    widths = hinted_stds(sqrt(SECRET_VARIANCE), sqrt(ERROR_VARIANCE), hints, share)
    return floor(key_bits(N, modulus_bits, *widths))


def proved_security(modulus_bits: int, rows: int, bound: int, hints: int, noise_std: float) -> int:
    """Bits of security of all keys against a coalition whose words are only proved to be made of short numbers.

    `noise_std` is of the honest parties' noise on an opened value, which alone hides rho and s: of its own errors the
    coalition knows more than their law. All hints are counted as one direction, for it may repeat a column. 0 where
    less of rho's width is left than ERROR_STD.
    """
    tau, own = proved_tau(rows), 2 * error_sum(N, WIDE_VARIANCE)
    of_rho = sqrt(N * (tau**2 + SECRET_BOUND**2) * WIDE_VARIANCE) / noise_std
    of_s = sqrt(rows * bound**2 * ERROR_VARIANCE + N * (WIDE_BOUND**2 * ERROR_VARIANCE + own**2)) / noise_std
    wide = hinted_stds(sqrt(WIDE_VARIANCE), sqrt(WIDE_VARIANCE), hints, of_rho)
    if wide[0] < ERROR_STD:
        return 0
    sealing = hinted_stds(sqrt(SECRET_VARIANCE), sqrt(ERROR_VARIANCE), hints, of_s)
    return floor(min(key_bits(N, modulus_bits, *wide), key_bits(N, modulus_bits, *sealing)))


def hint_error_std(columns: int) -> float:
    """The error width that remains to u when a coalition knows the hints of that many sealed columns.

    Kim, Lee, Seo, Song (CRYPTO 2023), Theorem 1: 1/s^2 = 2 (1/s1^2 + B/s2^2), with B the squared spectral norm of
    the hints' coefficients, here the ep_j and -s_j of all j: two random matrices, each of a squared norm of about
    variance * (sqrt(N) + sqrt(columns))^2.
    """
    norm = (ERROR_VARIANCE + SECRET_VARIANCE) * (sqrt(N) + sqrt(columns)) ** 2
    return 1 / sqrt(2 * (1 / WIDE_VARIANCE + norm / HINT_VARIANCE))


def lattice_error(rows: int, bound: int) -> tuple[float, int]:
    """Standard deviation and largest value of e'y + ep'rho - s'e1 + e2."""
    variance = rows * bound**2 * ERROR_VARIANCE + HINT_VARIANCE
    variance += N * (ERROR_VARIANCE + SECRET_VARIANCE) * WIDE_VARIANCE
    return sqrt(variance), rows * bound * TAU + N * (TAU + SECRET_BOUND) * WIDE_BOUND + HINT_BOUND


def error_sum(rows: int, variance: float) -> int:
    """Return Z, which the sum of errors of a random half of so many rows stays within, but for 2^-50.

    The half has at most rows / 2 + 4 sqrt(rows) of them, 8 standard deviations more than on average.
    """
    return ceil(DEVIATIONS * sqrt((rows / 2 + 4 * sqrt(rows)) * variance))


@proven("proven_ranges")
def proved_tau(rows: int) -> int:
    """Return what no error of a sealed word exceeds once its sender has proved statement (S), in place of TAU.

    Domain: rows: records of the session.
    Unit: integers of sealed words.
    Guarantee: words with a longer error pass with 2^-64 at most. Proof: proven_ranges, soundness.
    """
    return 2 * error_sum(min(rows, SPAN) + N, ERROR_VARIANCE)


def choose_parameters(
    rows: int,
    bound: int,
    noise_std: float,
    noise_reach: int,
    columns: int,
    *,
    levels: int = 1,
    share: Fraction = ERROR_SHARE,
    hints: int | None = None,
    own_reach: int = 0,
    least_bits: int = MODULUS_BITS[0],
    proved: int = 0,
) -> Parameters:
    """The smallest modulus that holds the products and the noise, and the largest gain that fits in it.

    `noise_std` (the least of any cross) and `noise_reach` (`ProductNeeds`) are in units of the
    product before the gain; `columns` counts all parties' columns, `levels` the largest attribute's. `share` is the
    most that the lattice error's standard deviation may be of the noise's; `hints` counts the columns of those who may
    collude, all columns if it is not given. `own_reach` bounds what parties add to the same words without the gain:
    sums of one owner, such as traces. `least_bits` is what other sums in the same words need. `proved` is the number of
    records where parties prove what they send, and is 0 where they do not: then the errors that pass are longer.
    """
    if hint_error_std(columns) < ERROR_STD:
        raise ProductError(f"the lattice product serves fewer columns than this: its hints allow no columns={columns}")
    hints = columns if hints is None else hints
    tau = proved_tau(proved) if proved else TAU
    error_std, error_reach = lattice_error(rows, bound)
    least = max(ceil(error_std / (share * Fraction(noise_std))), ceil(levels * tau / (FACTOR_SLACK * bound)))
    span = rows * bound**2 + noise_reach
    hinted = ""
    for modulus_bits in range(least_bits, MODULUS_BITS.stop):
        room = (1 << (modulus_bits - 1)) - 1 - error_reach
        if own_reach > room:
            continue
        gain = min(room // span, LARGEST_MESSAGE // bound)
        if gain < least:
            continue
        error_share = error_std / (gain * noise_std)
        bits = security(modulus_bits, hints, error_share)
        if proved:
            bits = min(bits, proved_security(modulus_bits, proved, bound, hints, gain * noise_std))
        if bits >= SECURITY_FLOOR:
            return Parameters(modulus_bits, gain, tau, gain * span + error_reach, error_std, bits)
        hinted = (
            f"its error, {100 * error_share:.2g}% of the noise on {hints} columns, tells so much of its keys that a "
            f"modulus of 2^{modulus_bits} has {bits} bits of security"
        )
    refused = hinted or f"it would need a modulus above 2^{MODULUS_BITS[-1]}"
    raise ProductError(
        f"with n={rows} records and noise of standard deviation {noise_std / bound**2:.3g} on sums of their products "
        f"the lattice product cannot have {SECURITY_FLOOR} bits of security: {refused}; a smaller epsilon, or a "
        f"sample of the records, fits{', and so may fewer levels, or a study without proofs' if proved else ''}"
    )


@proven("lattice_error")
def error_factor(parameters: Parameters, bound: int, levels: int) -> Fraction:
    """By how much the rates of cross-party blocks grow in every sensitivity, so that it covers the lattice error.

    Half of it above 1 is enough for one block, or one party's part, but not for blocks of several owners together.

    Domain: levels: the most coordinates of an attribute; at most one party's numbers are summed by themselves.
    Unit: a factor.
    Guarantee: sensitivities at rates stretched by it cover every draw of the errors. Proof: lattice_error.
    """
    return 1 + 2 * Fraction(levels * parameters.tau, parameters.gain * bound)


@proven("chain_error")
def chain_move(owners: int, bound: int, gain: int) -> float:
    """How far the errors of all sealed shares move a term of so many owners where a record changes, in units of it.

    Domain: owners: 2 and more; bound and gain positive.
    Unit: one term's largest value.
    Guarantee: no draw of the errors moves a term farther. Proof: chain_error.
    """
    return 2.0 * (owners - 1) * TAU / (gain * float(bound) ** (owners - 1))


@proven("chain_error")
def chain_gain(
    owners: int,
    rows: int,
    bound: int,
    noise_std: float,
    noise_reach: int,
    modulus_bits: int,
    *,
    share: Fraction = ERROR_SHARE,
    hints: int = 0,
) -> int | None:
    """The largest gain, a power of two, for sums of products of so many owners; None where the words are too short.

    Shares are modulo t = 2^modulus_bits / gain, and t has room for the sums, the noise and the errors of all holders.

    Domain: owners: 3 and more; noise_std and noise_reach before the gain.
    Unit: integers of products of `owners` entries.
    Guarantee: no sum wraps unless the noise passes its reach. Proof: chain_error.
    """
    std, reach = lattice_error(rows, bound)
    error_std, error_reach = std * sqrt(owners - 1), reach * (owners - 1)
    span = rows * bound**owners + noise_reach
    gain = 1 << max(modulus_bits - 1 - span.bit_length(), 0)
    if gain * span + error_reach >= 1 << (modulus_bits - 1):
        gain //= 2
    while gain > 1 and gain * noise_std > LARGEST_NOISE:
        gain //= 2
    least = max(ceil(error_std / (share * Fraction(noise_std))), 1)
    if gain < least or gain * span + error_reach >= 1 << (modulus_bits - 1):
        return None
    if chain_move(owners, bound, gain) > FACTOR_SLACK:
        return None
    return gain if security(modulus_bits, hints, error_std / (gain * noise_std)) >= SECURITY_FLOOR else None


def fft_error(left_norm: float, right_norm: float, terms: int = 1) -> float:
    """A bound on the distance of any coefficient of a sum of `terms` computed products from the true one.

    Percival (Math. Comp. 72, 2003): |x| |y| ((1+u)^3a (1+u sqrt 5)^(3m+1) (1+b)^3m - 1) for three transforms with a
    levels of additions and m of multiplications by roots of error b. 2^10 points have a = 10; pocketfft's radices of 2
    and 8 leave m <= 6. The twist is one multiplication more on each of the three ways, and a sum of products adds
    (1+u)^terms. A root is a product of two rounded table entries, b <= 4u (assumed: docs/secure-product.md).
    """
    grown = (3 * 10 + terms) * log1p(UNIT) + (3 * 7 + 1) * log1p(UNIT * sqrt(5)) + 3 * 7 * log1p(4 * UNIT)
    return left_norm * right_norm * expm1(grown)


def uniform_norm(bits: int, count: int) -> float:
    """A bound on the norm of `count` centred uniform limbs; it is checked when they are made."""
    return sqrt(NORM_SLACK * count * (4.0**bits + 2) / 12)


def seal_limbs(modulus_bits: int) -> tuple[int, ...]:
    """Bits of the limbs of a_r in a_r s; a second one of at most PAIR_LIMB bits is a word's fifth byte."""
    limbs: tuple[int, ...] = (modulus_bits,)
    if modulus_bits > LOW_BITS:
        low = 32 if modulus_bits <= 32 + PAIR_LIMB else LOW_BITS
        limbs = (low, modulus_bits - low)
    secret = sqrt(NORM_SLACK * N * SECRET_VARIANCE)
    exact = all(fft_error(uniform_norm(bits, N), secret) < 0.5 for bits in limbs)
    # Pairs of secrets s + 2^PAIR_BITS s': the transform is exact, and the first product is short of the second.
    pairs = fft_error(uniform_norm(PAIR_LIMB, N), secret * (1 + 2**PAIR_BITS)) < 0.5
    apart = uniform_norm(PAIR_LIMB, N) * secret < 2 ** (PAIR_BITS - 1)
    if not (exact and pairs and apart):
        raise BrokenError(f"transforms must be exact for a modulus of {modulus_bits} bits")
    return limbs


def multiply_limbs(modulus_bits: int, bound: int) -> tuple[tuple[int, ...], int]:
    """Bits of the limbs of a_r in sums of a_r y_r, and the number of blocks that may be summed before rounding."""
    for count in (2, 3, 4):
        bits = ceil(modulus_bits / count)

        def error(blocks: int, bits: int = bits) -> float:
            return fft_error(uniform_norm(bits, blocks * N), bound * sqrt(blocks * N), blocks)

        blocks = next((blocks for blocks in (1024, 512, 256, 128, 64, 32, 16, 8) if error(blocks) < 0.5), 0)
        if blocks:
            return (bits,) * (count - 1) + (modulus_bits - (count - 1) * bits,), blocks
    raise ProductError(f"entries of the lattice product must be small enough for exact transforms, got bound={bound}")
