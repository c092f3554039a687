"""The fast secure product: ring-LWE with one public ring element per row block, opened only as a sum of shares.

R = Z_q[X]/(X^N + 1), N = 2048, q = 2^modulus_bits. Block r of the rows has a public uniform a_r. Party k seals its
column x as b_r = a_r s + e_r + gain * x_r. Party l, with y_r(X) = sum of y_i X^(-i), keeps v = sum of <b_r, y_r> + ...
and sends u = sum of a_r y_r + p rho + e1, from which k computes w = coefficient 0 of u s. Then v - w =
gain * x'y + e'y + (ep'rho - s'e1 + e2): two additive shares, and nobody sees their sum without the noise.
The last block, p, has no rows: it carries the key for rho, so that seal and multiply treat it as one more block.

A ring element is stored with coefficients i and i + N/2 side by side, so that a pair is one complex number and its
N/2 pairs, twisted, are transformed by one complex FFT. Row i of a block is coefficient i of that stored order.
docs/security.md has the assumptions, proofs/lattice_error.md what the lattice error costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from colonnade.crypto.slots import BLOCK, WORDS_PER_PARCEL, Slot, pieces, slots, unwrap, wrap
from colonnade.crypto.product import (
    Columns,
    Contribution,
    Cross,
    Integers,
    Parcel,
    PartyProduct,
    ProductSpec,
    ServerProduct,
    Words,
    centred,
)
from colonnade.crypto.words import Floats, Planes, Scratch
from colonnade.foundation.errors import MessageError, ProductError
from colonnade.foundation.randomness import Randomness, Stream, derive

Bytes = NDArray[np.int8]
Complex = NDArray[np.complex128]

N = BLOCK
MODULUS_BITS = range(32, 52)
"""At most 51, so that adding 1.5 * 2^52 rounds a float64 and leaves its integer in the low bits."""
SECURITY = {40: 173, 44: 157, 48: 143, 53: 129}
"""Bits for N = 2048, ternary secret, error 3.2: lattice-estimator, least of uSVP, BDD, dual-hybrid, MATZOV model."""
SECURITY_FLOOR = 128
ERROR_STD = 3.2
"""The error width for which SECURITY was computed; every error here is at least as wide."""

TAU = 7
"""No error of a sealed word exceeds this; its variance is ERROR_VARIANCE."""
ERROR_VARIANCE = 10.5
SECRET_BOUND, SECRET_VARIANCE = 2, 1.0
WIDE_BOUND, WIDE_VARIANCE = 15, 42.5
HINT_BOUND, HINT_VARIANCE = 2 * 4095, 4 * (4096**2 - 1) / 12
FACTOR_SLACK = Fraction(1, 256)
"""The most that the lattice error may add to the epsilon of a block, relatively."""
ERROR_SHARE = Fraction(1, 100)
"""The most that the lattice error's standard deviation may be of the noise's."""

NORM_SLACK = 1.25
"""Squared norms of random ring elements stay under this many times their mean (9 standard deviations), checked."""
UNIT, UNIT32 = 2.0**-53, 2.0**-24
LOW_BITS, SINGLE_BITS = 34, 6
ROUND, ROUND32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
LARGEST_MESSAGE = 1 << 30

_TWIST: Complex = np.exp(1j * np.pi * np.arange(N // 2) / N)
_UNTWIST: Complex = _TWIST.conj()
_UNTWIST32 = _UNTWIST.astype(np.complex64)


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


def security(modulus_bits: int) -> int:
    """Bits of security at the next larger tabulated modulus.

    One bit of modulus is set aside for the hints that opened values give about the errors (docs/security.md).
    """
    larger = [bits for bits in SECURITY if bits >= modulus_bits + 1]
    return SECURITY[min(larger)] if larger else 0


def hint_error_std(columns: int) -> float:
    """The error width that remains to u when a coalition knows the hints of that many sealed columns.

    Kim, Lee, Seo, Song (CRYPTO 2023), Theorem 1: 1/s^2 = 2 (1/s1^2 + B/s2^2), with B the squared spectral norm of
    the hints' coefficients, here ep_j and -s_j of every j: random matrices, each of about variance * (sqrt(N) + sqrt(columns))^2.
    """
    norm = (ERROR_VARIANCE + SECRET_VARIANCE) * (sqrt(N) + sqrt(columns)) ** 2
    return 1 / sqrt(2 * (1 / WIDE_VARIANCE + norm / HINT_VARIANCE))


def lattice_error(rows: int, bound: int) -> tuple[float, int]:
    """Standard deviation and largest value of e'y + ep'rho - s'e1 + e2."""
    variance = rows * bound**2 * ERROR_VARIANCE + HINT_VARIANCE
    variance += N * (ERROR_VARIANCE + SECRET_VARIANCE) * WIDE_VARIANCE
    return sqrt(variance), rows * bound * TAU + N * (TAU + SECRET_BOUND) * WIDE_BOUND + HINT_BOUND


def choose_parameters(
    rows: int, bound: int, noise_std: float, noise_reach: int, columns: int, *, levels: int = 1
) -> Parameters:
    """The smallest modulus that holds the products and the noise, and the largest gain that fits in it.

    `noise_std` (the least of any cross) and `noise_reach` (passed with a probability under 2^-40) are in units of the
    product before the gain; `columns` counts all parties' columns, `levels` the largest attribute's.
    """
    if hint_error_std(columns) < ERROR_STD:
        raise ProductError(f"the lattice product serves fewer columns than this: its hints allow no columns={columns}")
    error_std, error_reach = lattice_error(rows, bound)
    least = max(ceil(error_std / (ERROR_SHARE * Fraction(noise_std))), ceil(levels * TAU / (FACTOR_SLACK * bound)))
    span = rows * bound**2 + noise_reach
    for modulus_bits in MODULUS_BITS:
        room = (1 << (modulus_bits - 1)) - 1 - error_reach
        gain = min(room // span, LARGEST_MESSAGE // bound)
        if gain >= least and security(modulus_bits) >= SECURITY_FLOOR:
            reach = gain * span + error_reach
            return Parameters(modulus_bits, gain, TAU, reach, error_std, security(modulus_bits))
    raise ProductError(
        f"rows={rows}, bound={bound}, noise_std={noise_std}, noise_reach={noise_reach} need a modulus above "
        f"2^{MODULUS_BITS[-1]}, which would leave fewer than {SECURITY_FLOOR} bits of security"
    )


def error_factor(parameters: Parameters, bound: int, levels: int, *, joint: bool = True) -> Fraction:
    """By how much, at most, the lattice error multiplies an epsilon (proofs/lattice_error.md).

    `joint=False` is for an epsilon that adds up single blocks, or for two parties; it is then half as much above 1.
    """
    return 1 + (2 if joint else 1) * Fraction(levels * parameters.tau, parameters.gain * bound)


def fft_error(left_norm: float, right_norm: float, terms: int = 1, unit: float = UNIT) -> float:
    """A bound on the distance of any coefficient of a sum of `terms` computed products from the true one.

    Percival (Math. Comp. 72, 2003), Theorem 5.1, for 2^10 points: |x| |y| ((1+u)^30 (1+u sqrt 5)^31 (1+b)^30 - 1); the
    twist is one more multiplication by a root on each of the three ways, and the sums add (1+u)^terms. Roots are
    products of two rounded table entries in double precision, b <= 4u, and rounded from double in single precision.
    """
    root = 4 * unit if unit == UNIT else unit
    grown = (1 + unit) ** (30 + terms) * (1 + unit * sqrt(5)) ** 34 * (1 + root) ** 33
    return left_norm * right_norm * (grown - 1)


def uniform_norm(bits: int, count: int) -> float:
    """A bound on the norm of `count` centred uniform limbs; `_limbs` checks it, so it is no assumption."""
    return sqrt(NORM_SLACK * count * (4.0**bits + 2) / 12)


def seal_limbs(modulus_bits: int) -> tuple[int, ...]:
    """Bits of the limbs of a_r in a_r s: a second one is transformed in single precision where it is short enough."""
    limbs = (modulus_bits,) if modulus_bits <= LOW_BITS else (LOW_BITS, modulus_bits - LOW_BITS)
    secret = sqrt(NORM_SLACK * N * SECRET_VARIANCE)
    for bits in limbs:
        unit = UNIT32 if bits <= SINGLE_BITS else UNIT
        assert fft_error(uniform_norm(bits, N), secret, unit=unit) < 0.5
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


def draw_errors(randomness: Randomness, count: int) -> Bytes:
    """A difference of two uniform 3-bit numbers: variance 10.5, at most 7. `count` is a multiple of 8."""
    mask = np.uint64(0x0707070707070707)
    word = randomness.words(count // 8)
    plus = word & mask
    word >>= np.uint64(3)
    word &= mask
    error = plus.view(np.int8)
    error -= word.view(np.int8)
    return error


def draw_wide(randomness: Randomness, count: int) -> Bytes:
    """A difference of two uniform 4-bit numbers: variance 42.5, at most 15."""
    byte = randomness.words(count // 8).view(np.uint8)
    return ((byte & np.uint8(15)) - (byte >> np.uint8(4))).view(np.int8)


def draw_secrets(randomness: Randomness, columns: int) -> Bytes:
    """Centred binomial of four bits: variance 1, at most 2. A column whose norm is freakishly large is drawn again."""
    while True:
        byte = randomness.words(columns * N // 8).view(np.uint8).reshape(columns, N)
        ones = np.bitwise_count(byte & np.uint8(3)) - np.bitwise_count(byte & np.uint8(12))
        secrets = ones.view(np.int8)
        squares = np.square(secrets, dtype=np.int64).sum(axis=1)
        if squares.max(initial=0) <= NORM_SLACK * N * SECRET_VARIANCE:
            return secrets


def draw_hints(randomness: Randomness, count: int) -> Integers:
    """Two differences of uniform 12-bit numbers: the wide error that hides rho in what a coalition may compute."""
    word = randomness.words(count)
    low = np.uint64(4095)
    plus = (word & low) + (word >> np.uint64(12) & low)
    minus = (word >> np.uint64(24) & low) + (word >> np.uint64(36) & low)
    return plus.view(np.int64) - minus.view(np.int64)


def transform(elements: Floats) -> Complex:
    """The values of ring elements at the 1024 roots of X^1024 = i; overwrites its argument."""
    pairs: Complex = elements.view(np.complex128)
    pairs *= _TWIST
    values: Complex = scipy.fft.fft(pairs, axis=-1, overwrite_x=True, workers=1)
    return values


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """The integer coefficients of ring elements given by their values; overwrites its argument.

    In double precision they are uint64, right modulo 2^51; in single precision uint32, right modulo 2^22.
    """
    pairs = scipy.fft.ifft(values, axis=-1, overwrite_x=True, workers=1)
    double = pairs.dtype == np.complex128
    pairs *= _UNTWIST if double else _UNTWIST32
    floats = pairs.view(np.float64 if double else np.float32)
    floats += ROUND if double else ROUND32
    return floats.view(np.uint64 if double else np.uint32)


def _limbs(words: Words, bits: Sequence[int]) -> list[Floats]:
    """Centred limbs, lowest first, of uniform words of sum(bits) bits; overwrites its argument."""
    limbs, rest = [], words.view(np.int64)
    for count in bits:
        limb = rest << np.int64(64 - count)
        limb >>= np.int64(64 - count)
        floats = limb.astype(np.float64)
        if np.vecdot(floats, floats).max() > uniform_norm(count, N) ** 2:
            raise ProductError("a public element of this session is freakishly large: start another session")
        limbs.append(floats)
        if len(limbs) < len(bits):
            rest -= limb
            rest >>= np.int64(count)
    return limbs


class _Elements:
    """The public a_0, a_1, ... and p of a session, in that order."""

    def __init__(self, spec: ProductSpec) -> None:
        self._stream = Stream(derive(spec.session, "lattice elements"))

    def next(self, blocks: int, bits: Sequence[int]) -> list[Complex]:
        """The values of each limb of the next blocks."""
        words = self._stream.words(blocks * N).reshape(blocks, N)
        return [transform(limb) for limb in _limbs(words, bits)]


def _accumulate(sums: Complex, rows: NDArray[np.int16] | Bytes, values: Sequence[Complex], scratch: Scratch) -> None:
    """Add the values of conjugated a_r y_r over some blocks to the sums, limb by limb."""
    for columns, blocks in pieces(rows.shape[1], len(values[0])):
        piece = rows[blocks.start * N : blocks.stop * N, columns].T
        floats: Floats = scratch("y", piece.shape, np.float64)
        np.copyto(floats, piece)
        y = transform(floats.reshape(len(piece), -1, N))
        products: Complex = scratch("products", y.shape, np.complex128)
        for total, value in zip(sums, values, strict=True):
            np.multiply(y, value[blocks], out=products)
            for block in range(products.shape[1]):
                total[columns] += products[:, block]


def _flush(sums: Complex, bits: Sequence[int], u: Words) -> None:
    """Round the sums, add them to u and start again from zero."""
    shift = 0
    for total, count in zip(sums, bits, strict=True):
        u += rounded(total.conj()) << np.uint64(shift)
        shift += count
    sums.fill(0)


def _needed(spec: ProductSpec, party: int, *, left: bool) -> NDArray[np.intp]:
    """The columns of a party that some cross seals (left) or multiplies."""
    spans = [
        np.arange(cross.left_start, cross.left_stop) if left else np.arange(cross.right_start, cross.right_stop)
        for cross in spec.crosses
        if party == (cross.left if left else cross.right)
    ]
    return np.unique(np.concatenate(spans)) if spans else np.zeros(0, np.intp)


def _block(shares: Words, spec: ProductSpec, cross: Cross) -> Words:
    """A cross's part of all that its two parties share."""
    row = int(np.searchsorted(_needed(spec, cross.left, left=True), cross.left_start))
    column = int(np.searchsorted(_needed(spec, cross.right, left=False), cross.right_start))
    return shares[row : row + cross.shape[0], column : column + cross.shape[1]]


def _check(spec: ProductSpec) -> None:
    if spec.modulus_bits not in MODULUS_BITS or security(spec.modulus_bits) < SECURITY_FLOOR:
        raise ProductError(
            f"the lattice product needs modulus_bits from {MODULUS_BITS[0]} to {MODULUS_BITS[-1]} for "
            f"{SECURITY_FLOOR} bits of security, got modulus_bits={spec.modulus_bits}"
        )
    if len(spec.session) != 32:
        raise ProductError(f"a session id has 32 bytes, got {len(spec.session)}")
    if not 0 < 2 * spec.reach < 1 << spec.modulus_bits:
        raise ProductError(f"reach must be positive and under 2^{spec.modulus_bits - 1}, got reach={spec.reach}")
    if spec.gain < 1 or spec.bound < 1 or spec.gain * spec.bound > LARGEST_MESSAGE:
        raise ProductError(f"gain * bound must be from 1 to 2^30, got gain={spec.gain}, bound={spec.bound}")


class LatticeParty(PartyProduct):
    """One party's side: it seals what crosses need of it on the left, and multiplies what they need on the right."""

    rounds = ("seal", "multiply")

    def __init__(
        self, spec: ProductSpec, me: int, columns: Columns, noise: Mapping[Cross, Integers], randomness: Randomness
    ) -> None:
        _check(spec)
        if columns.shape[0] != spec.rows:
            raise ProductError(f"columns must have rows={spec.rows}, got rows={columns.shape[0]}")
        self._spec, self._me, self._columns = spec, me, columns
        self._noise = {cross: np.asarray(noise[cross], dtype=np.int64).reshape(cross.shape) for cross in spec.crosses}
        session = spec.session.hex()
        self._randomness = {name: randomness.child(f"lattice {name} {session}") for name in ("seal", "multiply")}
        self._left, self._right = _needed(spec, me, left=True), _needed(spec, me, left=False)
        lefts = sorted({cross.left for cross in spec.crosses if cross.right == me})
        rights = sorted({cross.right for cross in spec.crosses if cross.left == me})
        self._seal_bits = seal_limbs(spec.modulus_bits)
        self._single = np.complex64 if self._seal_bits[-1] <= SINGLE_BITS else np.complex128
        # s and rho are stored as s(1/X) and rho(1/X), the form in which inner products need them.
        self._secrets = draw_secrets(self._randomness["seal"], len(self._left))
        self._rho = draw_wide(self._randomness["multiply"], len(self._right) * N).reshape(-1, N)
        self._sealed = {
            party: np.zeros((len(_needed(spec, party, left=True)), len(self._right)), np.uint64) for party in lefts
        }
        self._opened = {
            party: np.zeros((len(self._left), len(_needed(spec, party, left=False))), np.uint64) for party in rights
        }
        self._expected = {("seal", party): slots(len(_needed(spec, party, left=True)), spec.rows) for party in lefts}
        self._expected |= {("multiply", party): slots(len(_needed(spec, party, left=False)), 0) for party in rights}
        self._position = dict.fromkeys(self._expected, 0)
        self._scratch = Scratch()
        self._sent: set[str] = set()
        self._done = False

    def __repr__(self) -> str:
        return f"LatticeParty({self._spec.parties[self._me]!r}, rows={self._spec.rows}, done={self._done})"

    def send(self, round: str) -> Iterator[Parcel]:
        if round not in self.rounds:
            raise ProductError(f"the lattice product has the rounds {self.rounds}, got round={round!r}")
        if round in self._sent or self._done:
            raise ProductError(f"a party answers a round once, a retry resends the stored parcels: round={round!r}")
        self._sent.add(round)
        parcels = self._seal() if round == "seal" else self._multiply()
        parties = [party for kind, party in self._expected if kind != round]
        names = [self._spec.parties[party] for party in parties]
        return (Parcel(name, payload) for payload in parcels for name in names)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        party = self._spec.parties.index(sender) if sender in self._spec.parties else -1
        found = self._expected.get((round, party))
        if found is None or self._done:
            raise MessageError(f"no parcel of round {round!r} is expected from {sender!r}")
        position = self._position[round, party]
        if position == len(found):
            raise MessageError(f"all {position} parcels of round {round!r} from {sender!r} are already here")
        slot = found[position]
        planes = unwrap(self._spec, self.rounds.index(round), party, slot, payload)
        columns = slot.all_columns
        if round == "seal":
            small, bound = self._small(slot)
            self._sealed[party][columns] += planes.times(small, bound, self._scratch)
        else:
            secrets = self._secrets.astype(np.float64)
            self._opened[party][:, columns] += planes.times(secrets, SECRET_BOUND, self._scratch).T
        self._position[round, party] += 1

    def contribute(self) -> Contribution:
        if self._done:
            raise ProductError("a party contributes once, a retry resends the stored contribution")
        for (round, party), parcels in self._expected.items():
            if self._position[round, party] < len(parcels):
                raise ProductError(
                    f"parcels of round {round!r} from {self._spec.parties[party]!r} are missing: "
                    f"{self._position[round, party]} of {len(parcels)} came"
                )
        self._done = True
        for share in self._sealed.values():
            share += draw_hints(self._randomness["multiply"], share.size).reshape(share.shape).view(np.uint64)
        blocks = [self._share(cross).ravel() for cross in self._spec.crosses]
        vector = np.concatenate(blocks) if blocks else np.zeros(0, np.uint64)
        self._wipe()
        return Contribution(vector & np.uint64((1 << self._spec.modulus_bits) - 1))

    def _share(self, cross: Cross) -> Words:
        share = self._noise[cross].view(np.uint64).copy()
        if cross.left == self._me:
            share -= _block(self._opened[cross.right], self._spec, cross)
        if cross.right == self._me:
            share += _block(self._sealed[cross.left], self._spec, cross)
        return share

    def _wipe(self) -> None:
        self._secrets.fill(0)
        self._rho.fill(0)
        for share in (*self._sealed.values(), *self._opened.values(), *self._noise.values()):
            share.fill(0)
        self._scratch.wipe()
        self._randomness.clear()

    def _rows(self, needed: NDArray[np.intp], block: int, blocks: int) -> NDArray[np.int16]:
        """Rows of whole blocks, filled up with zeros after the last."""
        start, stop = block * N, min((block + blocks) * N, self._spec.rows)
        rows = self._columns.rows(start, stop)
        if len(needed) and len(needed) == needed[-1] - needed[0] + 1:
            rows = rows[:, needed[0] : needed[-1] + 1]
        else:
            rows = rows[:, needed]
        if max(int(rows.max(initial=0)), -int(rows.min(initial=0))) > self._spec.bound:
            raise ProductError(f"entries must be at most bound={self._spec.bound}, a row of {start} to {stop} is not")
        if stop - start == blocks * N:
            return rows
        return np.concatenate([rows, np.zeros((blocks * N - (stop - start), rows.shape[1]), np.int16)])

    def _small(self, slot: Slot) -> tuple[Floats, int]:
        """The integers by which a sealed parcel is multiplied, one row for each column, and their bound."""
        if slot.block * N >= self._spec.rows:
            return self._rho.astype(np.float64), WIDE_BOUND
        rows = self._rows(self._right, slot.block, slot.blocks)[: slot.rows]
        small: Floats = self._scratch("small", rows.T.shape, np.float64)
        np.copyto(small, rows.T)
        return small, self._spec.bound

    # Alg. 1, line 11: the left party's half of a cross-party product.
    def _seal(self) -> Iterator[bytes]:
        elements = _Elements(self._spec)
        keys: list[NDArray[Any]] = [transform(self._secrets.astype(np.float64)).conj()]
        keys += [keys[0].astype(self._single) for _ in self._seal_bits[1:]]
        block, values = -1, list[NDArray[Any]]()
        rows = np.zeros((N, len(self._left)), np.int16)
        for slot in slots(len(self._left), self._spec.rows):
            if slot.block != block:
                block, values = slot.block, [*elements.next(slot.blocks, self._seal_bits)]
                values[1:] = [value.astype(self._single) for value in values[1:]]
                key = block * N >= self._spec.rows
                rows = np.zeros_like(rows[:N]) if key else self._rows(self._left, block, slot.blocks)
            planes = Planes.empty((slot.columns, slot.rows), self._spec.modulus_bits, self._scratch)
            for columns, blocks in pieces(slot.columns, slot.blocks):
                source = slice(slot.column + columns.start, slot.column + columns.stop)
                piece = rows[blocks.start * N : blocks.stop * N, source]
                parts = self._sealed_words([k[source] for k in keys], [v[blocks] for v in values], piece)
                planes.write(columns, slice(blocks.start * N, min(blocks.stop * N, slot.rows)), *parts)
            yield wrap(self._spec, 0, self._me, slot, planes)

    def _sealed_words(
        self, keys: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], rows: NDArray[np.int16]
    ) -> tuple[Words, NDArray[np.int32], NDArray[np.uint32] | None]:
        """Some columns and blocks of a s, right in the low 51 bits; e + gain x; and what the upper halves lack."""
        shape, scratch = (rows.shape[1], len(rows) // N, N // 2), self._scratch
        low: Complex = scratch("low", shape, np.complex128)
        words = rounded(np.multiply(keys[0][:, None], values[0], out=low)).reshape(rows.T.shape)
        upper: NDArray[np.uint32] | None = None
        if len(keys) == 2:
            high: NDArray[Any] = scratch("high", shape, self._single)
            limb = rounded(np.multiply(keys[1][:, None], values[1], out=high)).reshape(rows.T.shape)
            limb <<= limb.dtype.type(LOW_BITS - 32 if self._single is np.complex64 else LOW_BITS)
            if self._single is np.complex64:
                upper = limb
            else:
                words += limb
        message: NDArray[np.int32] = scratch("message", words.shape, np.int32)
        np.multiply(rows.T, np.int32(self._spec.gain), out=message)
        message += draw_errors(self._randomness["seal"], message.size).reshape(message.shape)
        return words, message, upper

    # Alg. 1, line 11: the right party's half.
    def _multiply(self) -> Iterator[bytes]:
        spec, count = self._spec, len(self._right)
        bound = max(spec.bound, WIDE_BOUND)
        bits, most = multiply_limbs(spec.modulus_bits, bound)
        elements, total = _Elements(spec), -(-spec.rows // N)
        sums = np.zeros((len(bits), count, N // 2), np.complex128)
        u = draw_wide(self._randomness["multiply"], count * N).reshape(count, N).astype(np.int64).view(np.uint64)
        group = min(most, max(8, WORDS_PER_PARCEL // (N * max(count, 1))))
        held = 0
        for block in [*range(0, total, group), total] if count else []:
            blocks = 1 if block == total else min(group, total - block)
            rows = self._rho.T if block == total else self._rows(self._right, block, blocks)
            values = [value.conj() for value in elements.next(blocks, bits)]
            if held + blocks > most:
                _flush(sums, bits, u)
                held = 0
            held += blocks
            _accumulate(sums, rows, values, self._scratch)
        _flush(sums, bits, u)
        for slot in slots(count, 0):
            planes = Planes.empty((slot.columns, N), spec.modulus_bits, self._scratch)
            planes.write(slice(None), slice(0, N), u[slot.all_columns])
            yield wrap(spec, 1, self._me, slot, planes)


class LatticeServer(ServerProduct):
    """The server relays parcels between parties and opens the sum of all contributions."""

    def __init__(self, spec: ProductSpec) -> None:
        _check(spec)
        self._spec = spec

    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        if total.shape != (sum(rows * columns for rows, columns in (cross.shape for cross in self._spec.crosses)),):
            raise MessageError(f"the sum of contributions has a wrong shape: {total.shape}")
        return centred(total, self._spec.modulus_bits)
