"""The data sets of the evidence by their command-line names."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from colonnade.foundation.errors import StudyError
from experiments.data import Dataset, adult_41, adult_77, adult_hours, cps_wages, dutch_36, synthetic
from experiments.data.dutch import VARIABLE
from experiments.paper.protocol import Encoded, Replicate

SPARSITIES = (0.1, 0.5, 1.0)
SMALL = "-small"
"""Ends the name of a synthetic data set of 4,000 x 24, for quick runs only."""

_LOADERS: dict[str, Callable[[], Dataset]] = {
    "adult-41": adult_41,
    "adult-77": adult_77,
    "dutch-36": dutch_36,
    "cps-wages": cps_wages,
    "adult-hours": adult_hours,
}
CLASSIFIED = ("adult-41", "adult-77", "dutch-36")
SYNTHETIC = tuple(f"synthetic-{s}" for s in SPARSITIES)
KEYS = (*_LOADERS, *SYNTHETIC)


def task_of(key: str) -> str:
    """Which regression a data set asks for, without loading it."""
    return "logistic" if key in CLASSIFIED else "linear"


def missing(key: str) -> str | None:
    """Why a data set cannot be had here, or None when it can."""
    if key == "dutch-36" and not os.environ.get(VARIABLE):
        return f"the Dutch census may not be shipped; give the path of your copy in {VARIABLE}"
    return None


def load(key: str) -> Dataset:
    """A data set by its name."""
    if key in _LOADERS:
        return _LOADERS[key]()
    name = key.removesuffix(SMALL)
    if name not in SYNTHETIC:
        raise StudyError(f"data must be one of {', '.join(KEYS)}, got {key!r}")
    s = float(name.removeprefix("synthetic-"))
    return synthetic(4_000, 24, s) if key.endswith(SMALL) else synthetic(s=s)


@lru_cache(maxsize=1)
def encoded(key: str) -> Encoded:
    """The last data set used by this process, encoded."""
    return Encoded(load(key))


@lru_cache(maxsize=1)
def replicate(key: str, number: int) -> Replicate:
    """The last split used by this process."""
    return Replicate(encoded(key), number)
