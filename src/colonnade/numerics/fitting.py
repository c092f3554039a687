"""The nearest shares and tables: projection on the simplex, proportional fitting, drawing by weight, roots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
TINY = 1e-300
"""Stands for a sum of nothing: what is divided by it is nothing, too."""


def onto_simplex(rows: Floats, total: float) -> Floats:
    """The nearest rows of non-negative numbers with the given sum (Held, Wolfe & Crowder 1974)."""
    falling = -np.sort(-rows, axis=1)
    shifts = (np.cumsum(falling, axis=1) - total) / np.arange(1, rows.shape[1] + 1)
    kept = np.maximum((falling > shifts).sum(axis=1), 1)
    nearest: Floats = np.maximum(rows - shifts[np.arange(len(rows)), kept - 1][:, None], 0.0)
    return nearest


def fit_margins(tables: Floats, down: Floats, across: Floats, steps: int, possible: Floats | None = None) -> Floats:
    """Non-negative tables, of the last two axes, near the given ones and with the given margins.

    By proportional fitting (Deming & Stephan 1940). A cell of nothing starts as a trace of independent margins, but for
    cells that `possible` has as 0; levels without rows keep none.
    """
    fitted = np.maximum(tables, 0.0) + 1e-9 * np.outer(down, across) / max(float(down.sum()), 1.0)
    if possible is not None:
        fitted = fitted * possible
    for _ in range(steps):
        fitted *= (down / np.maximum(fitted.sum(axis=-1), TINY))[..., :, None]
        fitted *= (across / np.maximum(fitted.sum(axis=-2), TINY))[..., None, :]
    return fitted


def interaction(tables: Floats) -> Floats:
    """What tables, of the last two axes, have beyond their margins."""
    inner: Floats = tables - tables.mean(axis=-1, keepdims=True) - tables.mean(axis=-2, keepdims=True)
    inner += tables.mean(axis=(-2, -1), keepdims=True)
    return inner


def rake(weights: Floats, cells: Places, table: Floats, power: float = 1.0, small: float = 0.0) -> Floats:
    """Weights of records scaled so that their cells have a table's counts; `power` below 1 goes a part of the way.

    `small` is added to what is there and to what is asked for: a cell of few records moves less.
    """
    wanted = np.maximum(table.ravel(), 0.0) + small
    now = np.bincount(cells, weights, table.size) + small
    scaled: Floats = weights * ((wanted / np.maximum(now, TINY)) ** power)[cells]
    return scaled


def resample(weights: Floats, count: int, start: float) -> Places:
    """Indices drawn by weight at equal distances from a start in [0, 1): no weight is met worse than by one."""
    edges = np.cumsum(weights)
    points = (np.arange(count) + start) / count
    chosen: Places = np.minimum(np.searchsorted(edges / edges[-1], points, side="right"), len(weights) - 1)
    return chosen


def bisect(below: Callable[[float], bool], low: float, high: float, steps: int) -> tuple[float, float]:
    """Two ends, halved so often, between which `below` turns from true to false."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high
