"""One party's part of a model's score: which values it can have, and how it is cut into bins. Public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from colonnade.analysis.measures import Axis
from colonnade.mechanism.moments import Floats

MOST_SCORES = 1 << 12
"""So many scores that a party's levels can add up to are listed, each one's bin known to hold it."""
APART, SAME = 1e-5, 1e-12
"""Of the range: scores that are nearer to each other are in one bin, or are one."""


@dataclass(frozen=True)
class Part:
    """Public facts of one party's part: where it lies, how far it spreads, and which values it can have."""

    centre: float
    spread: float
    lowest: float
    highest: float
    """By the model and the declared columns."""
    scores: tuple[float, ...] = ()
    """All that it can be, in order, where levels alone make it and they are few; none where it may be any number."""
    least: float = 0.0
    """No less than this is let be its reach."""

    @property
    def low(self) -> float:
        return self.lowest - self.centre

    @property
    def high(self) -> float:
        return self.highest - self.centre

    @property
    def reach(self) -> float:
        """How far from its centre it can lie; a hair more, so that rounding in floats clips nothing."""
        return max(self.high, -self.low, self.least) * (1 + 1e-9)

    def cuts(self, bins: int) -> tuple[float, ...]:
        """Where bins of the centred part meet: between the few scores there are, or narrower where more are likely."""
        apart = [(a + b) / 2 for a, b in pairwise(self.scores) if b - a > APART * (self.highest - self.lowest)]
        if 0 < len(apart) < bins:
            return tuple(v - self.centre for v in apart)
        low, high = np.arcsinh(np.array([self.low, self.high]) / self.spread)
        return tuple(float(v) for v in self.spread * np.sinh(np.linspace(low, high, bins + 1))[1:-1])

    def axis(self, bins: int) -> Axis:
        """Between which ends the centred part lies in each bin."""
        cuts = np.array(self.cuts(bins))
        lows, highs = np.array([self.low, *cuts]), np.array([*cuts, self.high])
        scores = np.array(self.scores) - self.centre
        at = np.searchsorted(cuts, scores, side="right")
        for i in set(at.tolist()):
            lows[i], highs[i] = scores[at == i].min(), scores[at == i].max()
        return Axis(lows, highs)

    def centred(self, score: Floats) -> Floats:
        # What is no number is put at the centre: no value may end a session.
        with np.errstate(all="ignore"):
            found: Floats = score - self.centre
        return np.where(np.isnan(found), 0.0, found)


def added_scores(scores: Floats | None, levels: Floats) -> Floats | None:
    """All sums of one of these scores and what one of the levels adds; None where they are too many to list."""
    if scores is None or scores.size * levels.size > MOST_SCORES * 16:
        return None
    found = np.unique(np.add.outer(scores, levels))
    apart = np.diff(found, prepend=-np.inf) > SAME * (found[-1] - found[0])
    return found[apart] if apart.sum() <= MOST_SCORES else None
