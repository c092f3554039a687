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
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from colonnade.crypto.lattice_plan import (
    LARGEST_MESSAGE,
    LOW_BITS,
    MODULUS_BITS,
    NORM_SLACK,
    SECRET_BOUND,
    SECRET_VARIANCE,
    SECURITY_FLOOR,
    SINGLE_BITS,
    WIDE_BOUND,
    N,
    multiply_limbs,
    seal_limbs,
    security,
    uniform_norm,
)
from colonnade.crypto.lattice_plan import Parameters as Parameters
from colonnade.crypto.lattice_plan import choose_parameters as choose_parameters
from colonnade.crypto.lattice_plan import error_factor as error_factor
from colonnade.crypto.lattice_plan import lattice_error as lattice_error
from colonnade.crypto.parcels import check_party, check_round, check_spec, entries
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
from colonnade.crypto.slots import PIECE, START, Frames, Slot, pieces, slots
from colonnade.crypto.words import Floats, Planes, Scratch, width
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.randomness import Randomness, Stream, derive

Bytes = NDArray[np.int8]
Complex = NDArray[np.complex128]

# Adding these rounds a float to an integer, which then lies in the low bits of its pattern.
ROUND, ROUND32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)

_TWIST: Complex = np.exp(1j * np.pi * np.arange(N // 2) / N)
_UNTWIST: Complex = _TWIST.conj()
_UNTWIST32 = _UNTWIST.astype(np.complex64)


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
    wide: Bytes = ((byte & np.uint8(15)) - (byte >> np.uint8(4))).view(np.int8)
    return wide


def draw_secrets(randomness: Randomness, columns: int) -> Bytes:
    """Centred binomial of four bits: variance 1, at most 2. A column whose norm is freakishly large is drawn again."""
    while True:
        byte = randomness.words(columns * N // 8).view(np.uint8).reshape(columns, N)
        ones = np.bitwise_count(byte & np.uint8(3)) - np.bitwise_count(byte & np.uint8(12))
        secrets: Bytes = ones.view(np.int8)
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
    words: NDArray[Any] = floats.view(np.uint64 if double else np.uint32)
    return words


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
    check_spec(spec)
    if spec.modulus_bits not in MODULUS_BITS or security(spec.modulus_bits) < SECURITY_FLOOR:
        raise ProductError(
            f"the lattice product needs modulus_bits within {MODULUS_BITS[0]} and {MODULUS_BITS[-1]} for "
            f"{SECURITY_FLOOR} bits of security, got modulus_bits={spec.modulus_bits}"
        )
    if spec.gain * spec.bound > LARGEST_MESSAGE:
        raise ProductError(f"gain * bound must be at most {LARGEST_MESSAGE}, got {spec.gain} * {spec.bound}")


def planned_bytes(spec: ProductSpec, me: int) -> int:
    """The bytes that one party sends in all rounds."""
    total = 0
    for left in (True, False):
        peers = {c.right if left else c.left for c in spec.crosses if me == (c.left if left else c.right)}
        for slot in slots(len(_needed(spec, me, left=left)), spec.rows if left else 0):
            total += len(peers) * (START + slot.rows * slot.columns * width(spec.modulus_bits))
    return total


class LatticeParty(PartyProduct):
    """One party's side: it seals what crosses need of it on the left, and multiplies what they need on the right."""

    rounds = ("seal", "multiply")

    def __init__(
        self, spec: ProductSpec, me: int, columns: Columns, noise: Mapping[Cross, Integers], randomness: Randomness
    ) -> None:
        _check(spec)
        check_party(spec, me, columns, noise)
        self._spec, self._me, self._columns, self._name = spec, me, columns, spec.parties[me]
        self._noise = {cross: np.array(noise[cross], dtype=np.int64) for cross in spec.crosses}
        session = spec.session.hex()
        self._randomness = {name: randomness.child(f"lattice {name} {session}") for name in self.rounds}
        self._left, self._right = _needed(spec, me, left=True), _needed(spec, me, left=False)
        self._seal_bits = seal_limbs(spec.modulus_bits)
        self._single = np.complex64 if self._seal_bits[-1] <= SINGLE_BITS else np.complex128
        self._multiply_bits, self._most = multiply_limbs(spec.modulus_bits, max(spec.bound, WIDE_BOUND))
        # s and rho are stored as s(1/X) and rho(1/X), the form in which inner products need them.
        self._secrets = draw_secrets(self._randomness["seal"], len(self._left))
        self._rho = draw_wide(self._randomness["multiply"], len(self._right) * N).reshape(-1, N)
        self._kept: dict[int, Words] = {}
        self._returned: dict[int, Words] = {}
        self._expected: dict[tuple[str, int], list[Slot]] = {}
        for left in sorted({cross.left for cross in spec.crosses if cross.right == me}):
            count = len(_needed(spec, left, left=True))
            self._kept[left] = np.zeros((count, len(self._right)), np.uint64)
            self._expected["seal", left] = slots(count, spec.rows)
        for right in sorted({cross.right for cross in spec.crosses if cross.left == me}):
            count = len(_needed(spec, right, left=False))
            self._returned[right] = np.zeros((len(self._left), count), np.uint64)
            self._expected["multiply", right] = slots(count, 0)
        self._taken = dict.fromkeys(self._expected, 0)
        self._scratch, self._frames = Scratch(), Frames(spec)
        self._sent: set[str] = set()
        self._done = False

    def __repr__(self) -> str:
        return f"LatticeParty({self._name!r}, rows={self._spec.rows}, done={self._done})"

    def send(self, round: str) -> Iterator[Parcel]:
        check_round(self.rounds, round)
        if round in self._sent or self._done:
            # Sealing other data under the same secrets would show the difference.
            raise ProtocolError(
                f"party {self._name} answers a round once, a retry resends the parcels of round {round}"
            )
        self._sent.add(round)
        names = [self._spec.parties[k] for k in (self._returned if round == "seal" else self._kept)]
        payloads = self._seal() if round == "seal" else self._multiply()
        return (Parcel(name, payload) for payload in payloads for name in names)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        check_round(self.rounds, round)
        peer = self._spec.parties.index(sender) if sender in self._spec.parties else -1
        found, number = self._expected.get((round, peer), []), self._taken.get((round, peer), 0)
        if number == len(found) or self._done:
            raise MessageError(
                f"party {self._name} expects {len(found)} parcels of round {round} from {sender!r}, got another"
            )
        slot = found[number]
        planes = self._frames.unwrap(self.rounds.index(round), peer, slot, payload)
        if round == "seal":
            small, bound = self._small(slot)
            self._kept[peer][slot.all_columns] += planes.times(small, bound, self._scratch)
        else:
            secrets = self._secrets.T.astype(np.float64)
            self._returned[peer][:, slot.all_columns] += planes.times(secrets, SECRET_BOUND, self._scratch).T
        self._taken[round, peer] = number + 1

    def contribute(self) -> Contribution:
        for (round, peer), found in self._expected.items():
            if self._taken[round, peer] < len(found):
                raise ProductError(
                    f"party {self._name} needs {len(found)} parcels of round {round} from {self._spec.parties[peer]}, "
                    f"got {self._taken[round, peer]}"
                )
        if self._done or len(self._sent) < len(self.rounds):
            raise ProductError(f"party {self._name} contributes once, after its rounds {', '.join(self.rounds)}")
        self._done = True
        for share in self._kept.values():
            share += draw_hints(self._randomness["multiply"], share.size).reshape(share.shape).view(np.uint64)
        parts = [self._share(cross).ravel() for cross in self._spec.crosses]
        vector = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
        vector &= np.uint64((1 << self._spec.modulus_bits) - 1)
        self._wipe()
        return Contribution(vector)

    def _share(self, cross: Cross) -> Words:
        share = self._noise[cross].view(np.uint64).copy()
        if cross.left == self._me:
            share -= _block(self._returned[cross.right], self._spec, cross)
        if cross.right == self._me:
            share += _block(self._kept[cross.left], self._spec, cross)
        return share

    def _wipe(self) -> None:
        self._secrets.fill(0)
        self._rho.fill(0)
        for share in (*self._kept.values(), *self._returned.values(), *self._noise.values()):
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
        if stop - start == blocks * N:
            return rows
        return np.concatenate([rows, np.zeros((blocks * N - (stop - start), rows.shape[1]), np.int16)])

    def _checked(self, needed: NDArray[np.intp], block: int, blocks: int) -> NDArray[np.int16]:
        rows, bound = self._rows(needed, block, blocks), self._spec.bound
        largest = max(int(rows.max()), -int(rows.min()))
        if largest > bound:
            raise ProductError(f"an entry of {self._name} must be within {bound} of zero, got {largest}")
        return rows

    def _small(self, slot: Slot) -> tuple[Floats, int]:
        """The integers by which a sealed parcel is multiplied, and their bound."""
        if slot.block * N >= self._spec.rows:
            return self._rho.T.astype(np.float64), WIDE_BOUND
        rows = self._rows(self._right, slot.block, slot.blocks)[: slot.rows]
        small: Floats = self._scratch("small", rows.shape, np.float64)
        np.copyto(small, rows)
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
                rows = np.zeros_like(rows[:N]) if key else self._checked(self._left, block, slot.blocks)
            planes = Planes.empty((slot.columns, slot.rows), self._spec.modulus_bits, self._scratch)
            for columns, blocks in pieces(slot.columns, slot.blocks):
                source = slice(slot.column + columns.start, slot.column + columns.stop)
                piece = rows[blocks.start * N : blocks.stop * N, source]
                parts = self._sealed_words([k[source] for k in keys], [v[blocks] for v in values], piece)
                planes.write(columns, slice(blocks.start * N, min(blocks.stop * N, slot.rows)), *parts)
            yield self._frames.wrap(0, self._me, slot, planes)

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
        bits, most = self._multiply_bits, self._most
        elements, total = _Elements(spec), -(-spec.rows // N)
        sums = np.zeros((len(bits), count, N // 2), np.complex128)
        u = draw_wide(self._randomness["multiply"], count * N).reshape(count, N).astype(np.int64).view(np.uint64)
        group = min(most, 8 if count > PIECE else 64)
        held = 0
        for block in [*range(0, total, group), total] if count else []:
            blocks = 1 if block == total else min(group, total - block)
            rows = self._rho.T if block == total else self._checked(self._right, block, blocks)
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
            yield self._frames.wrap(1, self._me, slot, planes)


class LatticeServer(ServerProduct):
    """The server relays parcels between parties and opens the sum of all contributions."""

    def __init__(self, spec: ProductSpec) -> None:
        _check(spec)
        self._spec = spec

    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        if total.shape != (entries(self._spec),):
            raise ProductError(f"the sum of contributions must have {entries(self._spec)} words, got {total.shape}")
        return centred(total, self._spec.modulus_bits)
