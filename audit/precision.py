"""The precision attack: outputs of a float sampler that the neighbour could never have given.

A textbook sampler computes s b ln(u) from a uniform u with 53 bits, so that only some floats can ever come out, and
which of them depends on the exact value under the noise (Mironov, CCS 2012). Noise on the integers has no such gaps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BITS = 53
NEAR = 4
"""Uniforms looked at on either side of the likeliest."""


def textbook_laplace(scale: float, words: NDArray[np.uint64]) -> Floats:
    """Float Laplace noise as it is found in many programs: the sign from one bit, the rest by inversion."""
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-BITS
    sign = np.where(words & np.uint64(1), 1.0, -1.0)
    return -sign * scale * np.log(uniform)


def off_grid(values: NDArray[np.generic]) -> float:
    """Share of values that are no integers."""
    numbers = np.asarray(values, dtype=np.float64)
    return float((numbers != np.rint(numbers)).mean())


def impossible(outputs: Floats, exact: float, scale: float) -> NDArray[np.bool_]:
    """Which outputs cannot be exact + textbook noise, whatever uniform was drawn."""
    noise = outputs - exact
    around = np.rint(np.exp(-np.abs(noise) / scale) * 2.0**BITS)
    possible = np.zeros(len(outputs), dtype=bool)
    for step in range(-NEAR, NEAR + 1):
        uniform = np.clip(around + step, 1.0, 2.0**BITS) * 2.0**-BITS
        drawn = scale * np.log(uniform)
        for sign in (1.0, -1.0):
            possible |= exact + sign * drawn == outputs
    return ~possible


def gaps(scale: float, exact: float, words: NDArray[np.uint64]) -> tuple[float, float]:
    """Shares of textbook outputs on `exact` that are impossible on `exact` itself (a check) and on 0."""
    outputs = exact + textbook_laplace(scale, words)
    return float(impossible(outputs, exact, scale).mean()), float(impossible(outputs, 0.0, scale).mean())
