"""Small discrete logarithms in GT by baby steps and giant steps (Shanks 1971), for many elements at once.

The inverse of an element of GT is its conjugate, whose first half is the same: one table of first words finds i and -i
alike, so that m baby steps cover 2m + 1 values. The search goes outwards from zero, where sums of centred columns lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from colonnade.crypto.bgn.pairing import Curve, Elements
from colonnade.crypto.frames import check_spec, entries
from colonnade.crypto.product import Integers, ProductSpec
from colonnade.foundation.errors import ProductError

LARGEST_TABLE = 1 << 23  # entries of 12 bytes: 100 MB of keys and their order
BATCH = 4096  # group elements made at once: they stay in a cache


def table_size(reach: int, count: int) -> int:
    """The number of baby steps that balances the table against the giant steps of `count` logarithms."""
    return max(1, min(LARGEST_TABLE, reach, isqrt(reach * max(1, count))))


class SmallLogarithm:
    """Finds x from x*g in GT for |x| <= reach."""

    def __init__(self, curve: Curve, reach: int, count: int) -> None:
        self._curve, self._reach = curve, reach
        self._step = table_size(reach, count)
        keys = np.zeros(self._step + 1, dtype=np.uint64)
        block = curve.gt.empty(BATCH)
        head = curve.gt.scale(curve.g, curve.integers(np.array([0])))
        for start in range(0, len(keys), BATCH):
            stop = min(len(keys), start + BATCH)
            head = self._chain(block, stop - start, head, curve.g)
            keys[start:stop] = block[: stop - start, 0]
        self._order = np.argsort(keys).astype(np.uint32)
        self._keys = keys[self._order]

    def _chain(self, block: Elements, count: int, head: Elements, step: Elements) -> Elements:
        """Fill block with head, head + step, ... and give the element that comes next."""
        gt = self._curve.gt
        block[0] = head[0]
        if count > 1:
            gt.add_into(block[1:count], block[: count - 1], step)
        return gt.add(block[count - 1 : count], step)

    def solve(self, elements: Elements) -> Integers:
        """The logarithms, or ProductError when one lies outside the reach."""
        curve, gt = self._curve, self._curve.gt
        width = 2 * self._step + 1
        giants = self._reach // width + 1
        found = np.zeros(len(elements), dtype=np.int64)
        down, up = (gt.scale(curve.g, curve.integers(np.array([s * width]))) for s in (-1, 1))
        for place in range(len(elements)):
            target = elements[place : place + 1]
            heads, steps = [target.copy(), target.copy()], [down, up]
            block, at, length = gt.empty(BATCH), 0, 8
            answer: int | None = None
            while answer is None and at <= giants:
                count = min(length, giants + 1 - at)
                for side in (0, 1):
                    heads[side] = self._chain(block, count, heads[side], steps[side])
                    centres = (1 - 2 * side) * width * np.arange(at, at + count)
                    answer = self._look(target, block[:count, 0], centres)
                    if answer is not None:
                        break
                at += count
                length = min(BATCH, 2 * length)
            if answer is None or abs(answer) > self._reach:
                raise ProductError(
                    f"opened integer {place} must be within {self._reach} of zero, got one beyond or an altered share"
                )
            found[place] = answer
        return found

    def _look(self, target: Elements, keys: Elements, centres: Integers) -> int | None:
        """The logarithm of the target, when one of the keys is in the table and stands the test."""
        curve = self._curve
        low, high = (np.searchsorted(self._keys, keys, side=side) for side in ("left", "right"))
        for hit in np.flatnonzero(high > low).tolist():
            for place in range(int(low[hit]), int(high[hit])):
                baby = int(self._order[place])
                for candidate in (int(centres[hit]) + baby, int(centres[hit]) - baby):
                    if np.array_equal(curve.gt.scale(curve.g, curve.integers(np.array([candidate]))), target):
                        return candidate
        return None


@dataclass(frozen=True)
class Costs:
    """CPU seconds of one operation on one core."""

    encrypt_g1: float
    encrypt_g2: float
    read_g1: float
    read_g2: float
    miller: float
    final: float
    power: float
    check: float
    add: float


# `python benchmarks/bgn_cost.py --calibrate`, 2026-11-15, one core of a shared x86-64 server.
MEASURED = {
    "bn254": Costs(113e-6, 200e-6, 114e-6, 256e-6, 147e-6, 246e-6, 180e-6, 380e-6, 3.2e-6),
    "bls12-381": Costs(186e-6, 322e-6, 90e-6, 127e-6, 248e-6, 690e-6, 286e-6, 655e-6, 3.8e-6),
}


def predicted_seconds(spec: ProductSpec, curve: str = "bn254", costs: Costs | None = None) -> float:
    """CPU seconds of all parties and the server together; `costs` measured where it runs are better."""
    check_spec(spec)
    if curve not in MEASURED:
        raise ProductError(f"the curve must be one of {', '.join(MEASURED)}, got {curve!r}")
    c = costs or MEASURED[curve]
    left = {(x.left, column) for x in spec.crosses for column in range(x.left_start, x.left_stop)}
    right = {(x.right, column) for x in spec.crosses for column in range(x.right_start, x.right_stop)}
    opened, parties = entries(spec), len(spec.parties)
    if not opened:
        return 0.0
    encrypt = spec.rows * (len(left) * (c.encrypt_g1 + 2 * c.read_g1) + len(right) * (c.encrypt_g2 + 2 * c.read_g2))
    multiply = 4 * opened * (spec.rows * c.miller + c.final)
    # Six powers for each party; it checks c2, c3, c4 and the others' B_j, the server all A_k and partial decryptions.
    decrypt = parties * opened * (6 * c.power + (parties + 4) * c.check)
    steps = table_size(spec.reach, opened)
    logarithm = (steps + opened * (spec.reach / steps + 2)) * c.add
    return encrypt + multiply + decrypt + logarithm
