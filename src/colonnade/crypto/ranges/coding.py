"""Columns as sums of weighted bits: whatever the bits are, the columns are within what sensitivity assumes.

A number in [-B, B] is the sum of weighted bits less B; its weights have exactly the sums 0 to 2B. Two halves of a label
are a number in [0, B], and B less it. Two levels are one bit. Of more levels each has a bit of weight B, and what bits
alone do not say, that one level is set in each record, is a relation of its own (`BitCoding.sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import ColumnGroup, GroupKind

Bits = NDArray[np.uint8]
Integers = NDArray[np.int64]


def weights_to(reach: int) -> tuple[int, ...]:
    """Return weights whose subsets have exactly the sums 0 to reach: powers of two, and a last one for what lacks."""
    bits = (reach + 1).bit_length() - 1
    last = reach - ((1 << bits) - 1)
    return (*(1 << b for b in range(bits)), *((last,) if last else ()))


def spell(values: NDArray[Any], weights: Sequence[int]) -> Bits:
    """Return bits whose weighted sum each value is; values from 0 to the sum of the weights, of `weights_to`."""
    rest = np.array(values, np.int64)
    plain = [w for b, w in enumerate(weights) if w == 1 << b]
    out = np.zeros((*rest.shape, len(weights)), np.uint8)
    if len(plain) < len(weights):
        out[..., -1] = rest > sum(plain)
        rest -= weights[-1] * out[..., -1].astype(np.int64)
    for b in range(len(plain)):
        out[..., b] = rest >> b & 1
    return out


class BitCoding:
    """What bits stand for some columns: column j is offset[j] plus the bits times weights[:, j]."""

    def __init__(self, bound: int, groups: Sequence[ColumnGroup]) -> None:
        self.bound, self.groups = bound, tuple(groups)
        weights: list[dict[int, int]] = []
        offset: list[int] = []
        ones: list[range] = []
        for group in self.groups:
            at = len(offset)
            if group.kind is GroupKind.NUMBER:
                weights += [{at: w} for w in weights_to(2 * bound)]
                offset += [-bound]
            elif group.kind is GroupKind.HALVES or group.size == 2:
                # The second column is the number, or the bit; the first is what lacks to the bound.
                steps = weights_to(bound) if group.kind is GroupKind.HALVES else (bound,)
                weights += [{at: -w, at + 1: w} for w in steps]
                offset += [bound, 0]
            else:
                ones.append(range(len(weights), len(weights) + group.size))
                weights += [{at + level: bound} for level in range(group.size)]
                offset += [0] * group.size
        self.offset: Integers = np.array(offset, np.int64)
        self.weights: Integers = np.zeros((len(weights), len(offset)), np.int64)
        for i, places in enumerate(weights):
            for place, weight in places.items():
                self.weights[i, place] = weight
        self.sums: Integers = np.zeros((len(weights), len(ones)), np.int64)
        for k, bits in enumerate(ones):
            self.sums[list(bits), k] = 1

    @property
    def columns(self) -> int:
        return len(self.offset)

    @property
    def width(self) -> int:
        """Bits of a record."""
        return len(self.weights)

    def bits(self, rows: NDArray[np.int16]) -> Bits:
        """Return the bits of each record. Columns that no bits spell get bits of others, and no proof."""
        out, at = [], 0
        for group in self.groups:
            last = rows[:, at + group.size - 1].astype(np.int64)
            if group.kind is GroupKind.NUMBER:
                out.append(spell(last + self.bound, weights_to(2 * self.bound)))
            elif group.kind is GroupKind.HALVES:
                out.append(spell(last, weights_to(self.bound)))
            elif group.size == 2:
                out.append((last > 0).astype(np.uint8)[:, None])
            else:
                out.append((rows[:, at : at + group.size] > 0).astype(np.uint8))
            at += group.size
        return np.concatenate(out, axis=1)
