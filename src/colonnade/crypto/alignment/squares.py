"""Which of many numbers are squares modulo 2^255 - 19: Legendre symbols, a batch at a time in numpy.

The binary algorithm of Pornin (Optimized Binary GCD for Modular Inversion, 2020, sections 3 and 6): 29 steps run on the
lowest 31 and the highest 31 bits of a and b, then the whole numbers catch up with one linear combination.
A power in Python's integers costs fifty times as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import AlignmentError

PRIME = 2**255 - 19

_LIMB = 29
_LIMBS = 9
_ROUNDS = 18  # times 29 steps is above 2 * 255 - 1, after which a = 0
_LOW = (1 << (_LIMB + 2)) - 1  # 29 steps use up 29 bits, and a symbol needs two more
_BATCH = 8192  # the working set stays in the second-level cache

Limbs = NDArray[np.int64]


def are_squares(values: Sequence[int]) -> NDArray[np.bool_]:
    """Whether each value, in [1, PRIME), is a square modulo PRIME."""
    raw = np.frombuffer(b"".join([v.to_bytes(32, "little") for v in values]), dtype="<u8").reshape(-1, 4)
    parts = [_batch(raw[i : i + _BATCH]) for i in range(0, len(raw), _BATCH)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)


def _batch(raw: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if not raw.any(axis=1).all():
        raise AlignmentError("a Legendre symbol is taken of a number prime to 2^255 - 19, got 0")
    square = np.zeros(len(raw), dtype=np.bool_)
    left = np.arange(len(raw))
    modulus = np.frombuffer(PRIME.to_bytes(32, "little"), dtype="<u8").reshape(1, 4)
    a, b = _split(raw), np.repeat(_split(modulus), len(raw), axis=1)
    sign = np.zeros(len(raw), dtype=np.int64)
    for _ in range(_ROUNDS):
        fa, ga, fb, gb = _run(*_windows(a, b), sign)
        a, b = _combine(a, b, fa, ga), _combine(a, b, fb, gb)
        # The windows may misjudge a comparison of near equals, which leaves a or b negative, never both.
        # (-a|b) = (-1|b)(a|b); a negative b changes nothing, for a is not negative then.
        if (a[-1] < 0).any():
            negative = a[-1] >> 63
            sign ^= negative & b[0]
            a = _negate(a, negative)
        if (b[-1] < 0).any():
            b = _negate(b, b[-1] >> 63)
        while len(a) > 3 and not (a[-1].any() or b[-1].any()):
            a, b = a[:-1], b[:-1]
        done = ~a.any(axis=0)
        if done.any():  # most values are through after two thirds of the rounds
            square[left[done]] = (sign[done] & 2) == 0
            left, sign, a, b = left[~done], sign[~done], a[:, ~done], b[:, ~done]
        if not len(left):
            return square
    raise AlignmentError(f"a Legendre symbol must end within {_ROUNDS} rounds, got {len(left)} that did not")


def _split(raw: NDArray[np.uint64]) -> Limbs:
    """Four 64-bit words a number, as nine limbs of 29 bits, lowest first."""
    out = np.zeros((_LIMBS, len(raw)), dtype=np.int64)
    for i in range(_LIMBS):
        word, shift = divmod(_LIMB * i, 64)
        limb = raw[:, word] >> np.uint64(shift)
        if shift + _LIMB > 64 and word < 3:
            limb = limb | (raw[:, word + 1] << np.uint64(64 - shift))
        out[i] = (limb & np.uint64((1 << _LIMB) - 1)).astype(np.int64)
    return out


def _windows(a: Limbs, b: Limbs) -> tuple[Limbs, Limbs]:
    """a and b in 62 bits: exact where both fit, else the lowest 31 and the aligned highest 31."""
    high_a, high_b = (np.zeros(a.shape[1]) for _ in range(2))
    for i in range(len(a) - 1, -1, -1):
        high_a = high_a * 2.0**_LIMB + a[i]
        high_b = high_b * 2.0**_LIMB + b[i]
    length = np.frexp(np.maximum(high_a, high_b))[1]
    exact = length <= 62
    out = []
    for limbs, high in ((a, high_a), (b, high_b)):
        low = limbs[0] | (limbs[1] << _LIMB)
        scaled = np.floor(np.ldexp(high, 31 - np.maximum(length, 62))).astype(np.int64)
        out.append(np.where(exact, low | (limbs[2] << (2 * _LIMB)), (scaled << 31) | (low & _LOW)))
    return out[0], out[1]


def _run(a: Limbs, b: Limbs, sign: Limbs) -> tuple[Limbs, Limbs, Limbs, Limbs]:
    """29 steps: halve an even a; else order a and b, subtract, halve. Gives the steps' matrix times 2^29.

    `sign` gathers the symbol in its bit 1: reciprocity at a swap, (2|b) at a halving.
    """
    # Two factors travel in one word, the second 32 bits up: sums, negations and doublings act on both.
    x, y = np.empty((2, len(a)), dtype=np.int64), np.empty((2, len(a)), dtype=np.int64)
    x[0], x[1], y[0], y[1] = a, 1, b, 1 << 32
    a, p, b, q = x[0], x[1], y[0], y[1]
    odd, swap, t, both = np.empty_like(a), np.empty_like(a), np.empty_like(a), np.empty_like(x)
    twos = np.zeros_like(a)  # (2|b) is minus 1 where bits 1 and 2 of b differ
    for _ in range(_LIMB):
        np.bitwise_and(a, 1, out=odd)
        np.negative(odd, out=odd)
        np.subtract(a, b, out=swap)
        np.right_shift(swap, 63, out=swap)
        np.bitwise_and(swap, odd, out=swap)
        np.bitwise_and(a, b, out=t)
        np.bitwise_and(t, swap, out=t)
        np.bitwise_xor(sign, t, out=sign)
        # (x, y) becomes (y - x, x) at a swap, (x - y, y) at an odd a without one
        np.bitwise_xor(x, y, out=both)
        np.bitwise_and(both, swap, out=both)
        np.bitwise_xor(x, both, out=x)
        np.bitwise_xor(y, both, out=y)
        np.bitwise_and(y, odd, out=both)
        np.subtract(x, both, out=x)
        np.right_shift(a, 1, out=a)
        np.add(q, q, out=q)
        np.bitwise_xor(twos, b, out=twos)
    sign ^= twos ^ (twos >> 1)
    return *_unpack(p), *_unpack(q)


def _unpack(packed: Limbs) -> tuple[Limbs, Limbs]:
    low = (packed << 32) >> 32
    return low, (packed - low) >> 32


def _combine(a: Limbs, b: Limbs, f: Limbs, g: Limbs) -> Limbs:
    """(f a + g b) / 2^29, which is exact: the lowest limb of the sum is zero."""
    out = np.empty_like(a)
    carry = (f * a[0] + g * b[0]) >> _LIMB
    for i in range(1, len(a)):
        total = f * a[i] + g * b[i] + carry
        out[i - 1] = total & ((1 << _LIMB) - 1)
        carry = total >> _LIMB
    out[-1] = carry
    return out


def _negate(limbs: Limbs, mask: Limbs) -> Limbs:
    """Minus the number where mask is -1, the number where it is 0."""
    out = (limbs ^ mask) - mask
    for i in range(len(out) - 1):
        out[i + 1] += out[i] >> _LIMB
        out[i] &= (1 << _LIMB) - 1
    return out
