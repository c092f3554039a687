"""How much privacy loss two samples prove: Clopper-Pearson lower bounds on epsilon.

For every event S and neighbours D, D' a mechanism that is (epsilon, delta)-private has P(S) <= e^epsilon P'(S) + delta.
Turned round, epsilon >= ln((p - delta) / p'), with p a lower and p' an upper confidence limit of the two probabilities
(Clopper and Pearson 1934; used against private mechanisms by Jagielski, Ullman and Oprea 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CONFIDENCE = 0.999
"""Of each bound: a right claim is called false once in a thousand, at most."""
THRESHOLDS = 200  # events that are compared; chosen, more were not tried
SELECTION = 0.9
"""Confidence with which events are compared when one is chosen."""
TRAINING = 0.25
"""Share of the samples by which the event is chosen; the bound is taken from the others."""


@dataclass(frozen=True)
class RejectionEvent:
    """Statistic at least (`above`) or at most `threshold`; `swapped` where it is likelier under D'."""

    threshold: float
    above: bool
    swapped: bool

    def counts(self, first: Floats, second: Floats) -> tuple[int, int]:
        """How often it happened where it is likelier, and where it is less likely."""
        likely, rare = (second, first) if self.swapped else (first, second)
        if self.above:
            return int((likely >= self.threshold).sum()), int((rare >= self.threshold).sum())
        return int((likely <= self.threshold).sum()), int((rare <= self.threshold).sum())


def limits(hits: Integers, runs: int, alpha: float) -> tuple[Floats, Floats]:
    """Clopper and Pearson's limits of probabilities; each is passed with probability at most alpha."""
    hits = np.asarray(hits)
    low = np.where(hits == 0, 0.0, beta.ppf(alpha, np.maximum(hits, 1), runs - hits + 1))
    high = np.where(hits == runs, 1.0, beta.ppf(1 - alpha, hits + 1, np.maximum(runs - hits, 1)))
    return low, high


def proved(likely: Integers, rare: Integers, runs: int, others: int, delta: float, confidence: float) -> Floats:
    """The epsilons that events prove, with `likely` of `runs` hits against `rare` of `others`; at least 0."""
    alpha = (1 - confidence) / 2
    low = limits(likely, runs, alpha)[0] - delta
    high = limits(rare, others, alpha)[1]
    ratio: Floats = np.log(np.maximum(low, 1e-300) / high)
    return np.where(low > 0, np.maximum(ratio, 0.0), 0.0)


def choose(first: Floats, second: Floats, delta: float) -> RejectionEvent:
    """The event that would prove most on these samples, over thresholds, sides and directions."""
    values = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, THRESHOLDS)))
    slack = 1e-9 * max(1.0, float(np.abs(values).max()))
    ordered = np.sort(first), np.sort(second)
    best, found = -np.inf, RejectionEvent(float(values[0]), True, False)
    for above in (True, False):
        thresholds = values - slack if above else values + slack
        hits = [np.searchsorted(s, thresholds, side="left" if above else "right") for s in ordered]
        counts = [len(s) - h if above else h for s, h in zip(ordered, hits, strict=True)]
        for swapped in (False, True):
            likely, rare = counts[::-1] if swapped else counts
            runs, others = (len(s) for s in (ordered[::-1] if swapped else ordered))
            score = proved(likely, rare, runs, others, delta, SELECTION)
            # Where nothing is proved the plain difference decides, so that the choice is never arbitrary.
            score = np.where(score > 0, score, likely / runs - rare / others - 2.0)
            if float(score.max()) > best:
                best = float(score.max())
                # The middle of those that do as well: the edge of a gap between two samples is a poor place to cut.
                ties = np.flatnonzero(score >= best - 1e-12)
                found = RejectionEvent(float(thresholds[ties[len(ties) // 2]]), above, swapped)
    return found


def lower_bound(first: Floats, second: Floats, delta: float = 0.0, confidence: float = CONFIDENCE) -> float:
    """The epsilon that two samples of a statistic prove, one under D and one under its neighbour."""
    cut, other = (max(1, int(TRAINING * len(s))) for s in (first, second))
    event = choose(first[:cut], second[:other], delta)
    likely, rare = event.counts(first[cut:], second[other:])
    runs, others = len(first) - cut, len(second) - other
    if event.swapped:
        runs, others = others, runs
    return float(proved(np.array(likely), np.array(rare), runs, others, delta, confidence))
