"""Objectives of any terms: every degree dissects, up to two runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import Objective


def polynomial(layout: Layout, terms: Sequence[tuple[float, Sequence[str]]]) -> Objective:
    """The sum of these terms, each with its weight and the names of its coordinates."""
    width = max(2, max((len(names) for _, names in terms), default=0))
    rows = [[0] * (width - len(names)) + [layout.names.index(name) for name in names] for _, names in terms]
    return Objective(layout, np.array(rows, np.int64).reshape(-1, width), np.array([weight for weight, _ in terms]))
