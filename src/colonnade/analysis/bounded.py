"""Confidence intervals for a count that cannot be negative, seen once with noise of a known law.

Likelihood-ratio ordering (Feldman & Cousins 1998): for each true count m the values x with the largest f(x - m) over
their best possible likelihood are accepted until they hold 95%; the interval is all m that accept the value seen. It
covers every true count alike, zero too, and is never empty.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import kv

from colonnade.mechanism.moments import Floats

LEVEL = 0.95
REACH = 12.0
STEPS = 32
"""Grid points in one standard deviation of the noise."""
GAUSSIAN_SHAPE = 200.0
"""From this shape on the noise is taken as Gaussian."""
SHAPES = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, GAUSSIAN_SHAPE)
"""Shapes that intervals are made for; any other takes the one that is nearest in kurtosis."""


def count_intervals(value: Floats, std: Floats, shape: float) -> tuple[Floats, Floats]:
    """Lower and upper ends for counts seen with noise of some standard deviations and a shape as in `draws.noise`."""
    seen, low, high = _belt(min(SHAPES, key=lambda known: abs(1 / known - 1 / shape)))
    spread = np.maximum(std, 1e-12)
    scaled = value / spread
    inside = np.clip(scaled, seen[0], seen[-1])
    # Far from zero the interval is the value and a fixed distance to either side.
    lower = np.where(scaled > seen[-1], scaled - seen[-1], 0.0) + np.interp(inside, seen, low)
    upper = np.where(scaled > seen[-1], scaled - seen[-1], 0.0) + np.interp(inside, seen, high)
    return lower * spread, upper * spread


def density(x: Floats, shape: float) -> Floats:
    """The density of noise of variance 1 (Madan & Seneta 1990), up to a constant."""
    if shape >= GAUSSIAN_SHAPE:
        gaussian: Floats = np.exp(-0.5 * x * x)
        return gaussian
    order, scaled = shape - 0.5, np.maximum(np.abs(x) * np.sqrt(2.0 * shape), 1e-6)
    values: Floats = scaled**order * kv(order, scaled)
    return values


@lru_cache(maxsize=64)
def _belt(shape: float) -> tuple[Floats, Floats, Floats]:
    """The interval's ends, in standard deviations, for each value on a grid."""
    step = 1.0 / STEPS
    seen = np.arange(-REACH, 3 * REACH, step)
    truths = np.arange(0.0, 2 * REACH, step)
    best = np.maximum(density(np.minimum(seen, 0.0), shape), 1e-300)
    apart = density(np.arange(1.0 - len(truths), len(seen)) * step - REACH, shape)
    total = float(density(np.arange(-2 * REACH, 2 * REACH, step), shape).sum())
    accepted = np.zeros((len(truths), len(seen)), dtype=bool)
    for k in range(len(truths)):
        chance = apart[len(truths) - 1 - k :][: len(seen)]
        # Ties, as Laplace noise has below zero, go to the larger value.
        order = np.lexsort((-seen, -np.round(chance / best, 12)))
        held = np.cumsum(chance[order]) / total
        values = order[: int(np.searchsorted(held, LEVEL)) + 1]
        accepted[k, values] = True
        if seen[values].min() >= 0:
            # No value below zero is as likely any more: from here on the same values move along with the count.
            moved = np.arange(len(truths) - k)[:, None]
            accepted[k + moved, values + moved] = True
            break
    keep = seen < REACH
    low = truths[np.argmax(accepted, axis=0)][keep]
    high = truths[len(truths) - 1 - np.argmax(accepted[::-1], axis=0)][keep]
    return seen[keep], np.maximum.accumulate(low), np.maximum.accumulate(high)
