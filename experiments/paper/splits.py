"""Whether another split of the budget would reach the panel's goals: `python -m experiments.paper splits`.

A plan gives tables with the label so many times the weight of others (`mechanism/weights.py`). Here the cells of the
panel that miss their goal are run with other weights, on the same splits and with the same noise: the least gap, chosen
by looking at it, is about what one round with this solver can reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from experiments.paper.methods import APPROXIMATE, PURE
from experiments.paper.panel import BINNED, GOALS, NON_PRIVATE, SPLITS, measure, missing, ours, part
from experiments.paper.simulated import auc

WEIGHTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CELLS = (
    ("flights", APPROXIMATE, 1.0), ("visits", PURE, 1.0), ("visits", APPROXIMATE, 1.0), ("diamonds", APPROXIMATE, 1.0),
    ("acs", PURE, 10.0), ("skewed", PURE, 1.0), ("skewed", PURE, 10.0), ("skewed", APPROXIMATE, 1.0),
    ("stops", APPROXIMATE, 1.0), ("adult-41", APPROXIMATE, 1.0), ("adult-77", APPROXIMATE, 1.0),
)  # fmt: skip
"""Those that missed when the panel was run."""


@dataclass(frozen=True)
class Split:
    """The gap of one cell with one weight; none for the plan's own."""

    data: str
    privacy: str
    epsilon: float
    weight: float | None
    gap: float
    error: float


def run(draws: int) -> Iterator[Split]:
    """Every cell with the plan's weight and with others."""
    for data, privacy, epsilon in CELLS:
        if missing(data) is not None:
            continue
        free = [measure(data, NON_PRIVATE, privacy, 0.0, number, b"")["auc"] for number in range(SPLITS)]
        for weight in (None, *WEIGHTS):
            gaps = [free[k % SPLITS] - _auc(data, privacy, epsilon, weight, k) for k in range(draws)]
            error = float(np.std(gaps, ddof=1) / np.sqrt(draws))
            yield Split(data, privacy, epsilon, weight, float(np.mean(gaps)), error)


def _auc(data: str, privacy: str, epsilon: float, weight: float | None, number: int) -> float:
    rows = part(data, number % SPLITS)
    delta = 1 / len(rows.train) if privacy == APPROXIMATE else 0.0
    rng = np.random.default_rng([7, number])
    if weight is None:
        return auc(ours(data, BINNED, epsilon, delta, number % SPLITS, rng)[0], rows.y_test)
    with patch("colonnade.mechanism.plan.label_weight", lambda *terms: weight):
        return auc(ours(data, BINNED, epsilon, delta, number % SPLITS, rng)[0], rows.y_test)


def markdown(found: Sequence[Split], draws: int) -> str:
    """A line for each cell; the least gap is marked."""
    out = [
        "# Other splits of the budget",
        "",
        "Made by `python -m experiments.paper splits --write`.",
        "",
        f"AUC gaps to logistic regression without noise, of the panel's cells that miss their goal ({draws} releases,",
        "the same noise in every column), with the weight of tables with the label that the plan chooses, and with",
        "others. The least of a line was chosen by looking at it: about what one round with this solver can reach.",
        "",
        "| data | privacy | ε | goal | plan | " + " | ".join(f"{w:g}" for w in WEIGHTS) + " |",
        "|---" * (5 + len(WEIGHTS)) + "|",
    ]
    for key in dict.fromkeys((s.data, s.privacy, s.epsilon) for s in found):
        own = {s.weight: s for s in found if (s.data, s.privacy, s.epsilon) == key}
        least = min(own.values(), key=lambda s: s.gap)
        told = [f"{s.gap:.4f} ± {s.error:.4f}" for s in own.values()]
        told = [f"**{text}**" if s is least else text for text, s in zip(told, own.values(), strict=True)]
        out.append(f"| {key[0]} | {key[1]} | {key[2]:g} | {GOALS[key[1:]]:g} | " + " | ".join(told) + " |")
    return "\n".join(out) + "\n"
