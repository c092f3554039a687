"""A party's own sums of products."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from colonnade.crypto.product import Columns
from colonnade.foundation.sums import Sums

GRAM_ROWS = 1 << 15


@runtime_checkable
class Summed(Columns, Protocol):
    """Columns whose sums of products were formed when they were made."""

    @property
    def sums(self) -> Sums: ...


def with_sums_of(sums: Sums, columns: Columns, bound: int) -> Sums:
    """The sums of products of the first columns, and behind them the sums by themselves of all others."""
    n, width = columns.shape
    own = len(sums.products) - 1
    out = np.zeros((width + 1, width + 1))
    out[: own + 1, : own + 1] = sums.products
    for start in range(0, n, GRAM_ROWS):
        rows = columns.rows(start, min(n, start + GRAM_ROWS))
        out[0, own + 1 :] += float(bound) * rows[:, own:].sum(axis=0, dtype=np.float64)
    out[own + 1 :, 0] = out[0, own + 1 :]
    return replace(sums, products=out, excess=np.concatenate([sums.excess, np.zeros(width - own)]))


def sums_of(columns: Columns, bound: int) -> Sums:
    """Sums of products of all own columns and of the constant 1, which the grid writes as its bound.

    float64 holds every partial sum exactly: entries are below 2^11, so n may reach 2^31.
    """
    if isinstance(columns, Summed):
        return columns.sums
    n, width = columns.shape
    total = np.zeros((width + 1, width + 1))
    for start in range(0, n, GRAM_ROWS):
        stop = min(n, start + GRAM_ROWS)
        block = np.full((stop - start, width + 1), float(bound))
        block[:, 1:] = columns.rows(start, stop)
        total += block.T @ block
    return Sums.of(total)
