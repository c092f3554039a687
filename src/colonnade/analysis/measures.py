"""How good a model is, by a release of its scores: tables of score bins, or second moments. Post-processing alone.

Within a bin scores are taken to lie as a normal law of the stated centre and spread would have them. Every interval is
about the value that the evaluated records really have: it counts the noise of the release and the width of bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import log, sqrt

import numpy as np
from scipy.special import ndtr

from colonnade.mechanism.moments import Floats

SURE = 1.959964
"""Standard deviations on either side of a 95% interval."""
POINTS = 1024
"""Places at which the law of a sum of scores is computed."""
CURVE = 10
"""Points of a calibration curve."""
CLEAR_SHARE = 0.05
"""The share of a class is counted as known if its standard deviation is no more."""
CLEAR = 0.2
"""A class is counted as known if its size is more than 1 / this many standard deviations away from none."""


@dataclass(frozen=True)
class Measure:
    """One number with its 95% interval, and what somebody reaches who knows no score."""

    value: float
    std: float
    low: float
    high: float
    trivial: float | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(
        cls, value: float, std: float, limits: tuple[float, float] = (-np.inf, np.inf), trivial: float | None = None
    ) -> Measure:
        kept, low, high = (float(np.clip(value + sign * SURE * std, *limits)) for sign in (0, -1, 1))
        return cls(kept, float(std), low, high, trivial, limits)

    def moved(self, by: float) -> Measure:
        """Moved, with an interval that is as much wider on either side."""
        ends = (self.value + by - SURE * self.std - abs(by), self.value + by + SURE * self.std + abs(by))
        value, low, high = (float(np.clip(v, *self.limits)) for v in (self.value + by, *ends))
        return replace(self, value=value, low=low, high=high)

    def to(self) -> dict[str, float | None]:
        return {"value": self.value, "std": self.std, "low": self.low, "high": self.high, "trivial": self.trivial}


@dataclass(frozen=True)
class CurvePoint:
    """Records with predicted probabilities in an interval: how many, what was predicted, and what was."""

    low: float
    high: float
    records: float
    predicted: float
    observed: Measure | None
    """None where noise drowns the records."""


@dataclass(frozen=True)
class Axis:
    """One party's centred score: where its bins end, and the spread that scores are taken to have."""

    edges: tuple[float, ...]
    spread: float

    @property
    def bins(self) -> int:
        return len(self.edges) - 1

    def densities(self, step: float, start: float, count: int) -> Floats:
        """For each bin the law of a score in it, on a grid of so many places."""
        ends = start + step * (np.arange(count + 1) - 0.5)
        out = np.zeros((self.bins, count))
        for i, (low, high) in enumerate(pairwise(self.edges)):
            inside = np.diff(ndtr(np.clip(ends, low, high) / self.spread))
            if inside.sum() < 1e-12:
                inside = np.diff(np.clip(ends, low, high))
            out[i] = inside / inside.sum()
        return out


@dataclass(frozen=True)
class ScoreTable:
    """Noisy counts by outcome (no, yes) and by the score bins of one party, or of two."""

    n: int
    counts: Floats
    """[outcome, bin of the first] or [outcome, bin of the first, bin of the second]."""
    std: float
    """Of the noise on every count."""
    axes: tuple[Axis, ...]
    shift: float = 0.0
    """What is added to the centred scores to make the log-odds."""

    @cached_property
    def laws(self) -> tuple[Floats, Floats]:
        """Places of the whole score, and for each cell of an outcome the law of it there."""
        low, high = (sum(axis.edges[end] for axis in self.axes) for end in (0, -1))
        step = (high - low) / POINTS
        first = self.axes[0]
        counts = [max(3, round((a.edges[-1] - a.edges[0]) / step) + 2) for a in self.axes]
        law = first.densities(step, first.edges[0], counts[0])
        start = first.edges[0]
        if len(self.axes) == 2:
            second = self.axes[1]
            other = second.densities(step, second.edges[0], counts[1])
            size = 1 << (counts[0] + counts[1]).bit_length()
            product = np.fft.rfft(law, size)[:, None, :] * np.fft.rfft(other, size)[None, :, :]
            law = np.fft.irfft(product, size)[..., : counts[0] + counts[1] - 1].reshape(-1, counts[0] + counts[1] - 1)
            start += second.edges[0]
        places: Floats = self.shift + start + step * np.arange(law.shape[1], dtype=np.float64)
        return places, law

    @property
    def positives(self) -> float:
        """The number of records whose outcome is yes; n is known exactly."""
        no, yes = (float(part.sum()) for part in self.counts)
        return min(max((self.n + yes - no) / 2, 0.0), float(self.n))

    def coarser(self) -> ScoreTable:
        """The same with neighbouring bins as one."""
        counts, axes = self.counts, []
        for i, axis in enumerate(self.axes):
            starts = np.arange(0, axis.bins, 2)
            counts = np.add.reduceat(counts, starts, axis=i + 1)
            axes.append(replace(axis, edges=(*(axis.edges[k] for k in starts), axis.edges[-1])))
        return replace(self, counts=counts, axes=tuple(axes))

    def measures(self) -> dict[str, Measure]:
        """Accuracy, log-loss, Brier score and the area under the ROC curve, as far as noise does not drown them.

        What bins hide shrinks with the square of their width: twice as wide they hide four times as much, so that a
        third of the difference is what these hide. It is added, and the interval is as much wider on either side.
        """
        wide = self.coarser().raw_measures()
        out = {}
        for name, found in self.raw_measures().items():
            hidden = (found.value - wide[name].value) / 3 if name in wide else 0.0
            out[name] = found.moved(hidden)
        return out

    def raw_measures(self) -> dict[str, Measure]:
        """The measures with the release's noise alone in their intervals."""
        places, law = self.laws
        cells = [part.ravel() for part in self.counts]
        share = self.positives / self.n
        known = self.std * sqrt(cells[0].size / 2) <= CLEAR_SHARE * self.n
        trivial = (max(share, 1.0 - share), _entropy(share), share * (1.0 - share)) if known else (None,) * 3
        chance = 1.0 / (1.0 + np.exp(-places))
        # The last number is the half width of an interval that would tell nothing.
        losses: Mapping[str, tuple[tuple[Floats, Floats], tuple[float, float], float]] = {
            "accuracy": (((places < 0).astype(float), (places >= 0).astype(float)), (0.0, 1.0), 0.5),
            "log_loss": ((np.logaddexp(0.0, places), np.logaddexp(0.0, -places)), (0.0, np.inf), log(2)),
            "brier": ((chance**2, (1.0 - chance) ** 2), (0.0, 1.0), 0.5),
        }
        out = {}
        for (name, (by_outcome, limits, drowned)), other in zip(losses.items(), trivial, strict=True):
            value, variance = 0.0, 0.0
            # What is known of n is used: a constant in all cells would add noise and tell nothing.
            weights = [law @ loss for loss in by_outcome]
            middle = float(np.mean(np.concatenate(weights)))
            for counts, weight in zip(cells, weights, strict=True):
                value += float(counts @ (weight - middle))
                variance += self.std**2 * float(((weight - middle) ** 2).sum())
            std = sqrt(variance) / self.n
            if SURE * std < drowned:
                out[name] = Measure.of(middle + value / self.n, std, limits, other)
        area = self.area()
        if area is not None:
            out["auc"] = area
        return out

    def area(self) -> Measure | None:
        """The chance that a record with outcome yes scores above one with no; None where a class drowns in noise."""
        _, law = self.laws
        no, yes = (part.ravel() for part in self.counts)
        ones = self.positives
        zeros = self.n - ones
        unsure = self.std * sqrt(no.size / 2)
        if min(ones, zeros) * CLEAR < unsure:
            return None
        below = np.cumsum(law, axis=1) - 0.5 * law
        wins = law @ below.T  # wins[i, j]: a record of cell i scores above one of cell j
        total = float(yes @ wins @ no)
        value = total / (ones * zeros)
        # d value: by every cell of either class, and by the class sizes, which come from the same cells.
        by_ones = value / zeros - value / ones
        up = (wins @ no) / (ones * zeros) + 0.5 * by_ones
        down = (yes @ wins) / (ones * zeros) - 0.5 * by_ones
        second = self.std**4 * float((wins**2).sum()) / (ones * zeros) ** 2
        variance = self.std**2 * float((up**2).sum() + (down**2).sum()) + second
        return Measure.of(value, sqrt(variance), (0.0, 1.0), 0.5)

    def curve(self, points: int = CURVE) -> list[CurvePoint]:
        """Predicted against observed shares, in intervals of the predicted probability."""
        places, law = self.laws
        chance = 1.0 / (1.0 + np.exp(-places))
        no, yes = (part.ravel() for part in self.counts)
        out = []
        for low, high in pairwise(np.linspace(0.0, 1.0, points + 1)):
            inside = ((chance >= low) & ((chance < high) | (high == 1.0))).astype(float)
            weight, sums = law @ inside, law @ (inside * chance)
            records = float((no + yes) @ weight)
            noise = self.std * sqrt(float((weight**2).sum()))
            if records * CLEAR <= noise * sqrt(2):
                out.append(CurvePoint(float(low), float(high), max(records, 0.0), float((low + high) / 2), None))
                continue
            share = float(yes @ weight) / records
            spread = noise * sqrt((1 - share) ** 2 + share**2) / records
            predicted = min(max(float((no + yes) @ sums) / records, float(low)), float(high))
            observed = Measure.of(share, spread, (0.0, 1.0))
            out.append(CurvePoint(float(low), float(high), records, predicted, observed))
        return out


@dataclass(frozen=True)
class Sum:
    """A noisy sum over records, or one that is made of such sums."""

    value: float
    std: float

    @classmethod
    def of(cls, terms: Iterable[tuple[float, float, float]], known: float = 0.0) -> Sum:
        """Of independent terms, each with its weight, value and noise, and of what is known."""
        terms = list(terms)
        value = known + sum(weight * value for weight, value, _ in terms)
        return cls(float(value), sqrt(sum((weight * std) ** 2 for weight, _, std in terms)))


def error_measures(n: int, errors: Sum, about: Sum, scale: float) -> dict[str, Measure]:
    """By the sum of squared errors, and that of the label about what it was where the model was made.

    The root mean error is in units of the label. What noise drowns is left out.
    """
    mean, spread = errors.value / n, errors.std / n
    ends = [scale * sqrt(max(mean + sign * SURE * spread, 0.0)) for sign in (-1, 1)]
    root = sqrt(max(mean, 0.0))
    std = spread / (2 * root) if root > 0 else sqrt(spread)
    known = about.value * CLEAR > about.std
    trivial = scale * sqrt(about.value / n) if known else None
    out = {"rmse": Measure(root * scale, std * scale, ends[0], ends[1], trivial)} if mean > SURE * spread else {}
    if known and SURE * errors.std < about.value:
        left = errors.value / about.value
        noise = sqrt(errors.std**2 + (left * about.std) ** 2) / about.value
        out["r_squared"] = Measure.of(1.0 - left, noise, (-np.inf, 1.0), 0.0)
    return out


@dataclass(frozen=True)
class ClassMoments:
    """Sums of the whole score in either class, and of its square, all noisy."""

    n: int
    ones: Sum
    """The number of records with outcome yes."""
    sums: tuple[Sum, Sum]
    """Of scores in the class no, and in yes."""
    square: Sum
    shift: float = 0.0
    """What is added to the centred scores to make the log-odds."""

    def measures(self) -> dict[str, Measure]:
        """Accuracy and AUC that a normal law within classes would mean; none where noise drowns what they need."""
        known = (self.ones, *self.sums, self.square)
        start = np.array([part.value for part in known])
        found = self._normal(start)
        if found is None or min(start[0], self.n - start[0]) * CLEAR < self.ones.std:
            return {}
        variance = np.zeros(2)
        for i, part in enumerate(known):
            ends = [self._normal(start + sign * part.std * np.eye(4)[i]) for sign in (-1, 1)]
            if ends[0] is None or ends[1] is None:
                return {}
            variance += ((np.array(ends[1]) - np.array(ends[0])) / 2) ** 2
        share = start[0] / self.n
        trivial = {"accuracy": max(share, 1 - share), "auc": 0.5}
        return {
            name: Measure.of(found[i], sqrt(variance[i]), (0.0, 1.0), float(trivial[name]))
            for i, name in enumerate(trivial)
        }

    def _normal(self, at: Floats) -> tuple[float, float] | None:
        """Accuracy and AUC, with one spread for both classes."""
        ones, no, yes, square = at
        zeros = self.n - ones
        if min(ones, zeros) <= 0:
            return None
        means = no / zeros, yes / ones
        within = (square - zeros * means[0] ** 2 - ones * means[1] ** 2) / self.n
        if within <= 0:
            return None
        spread = sqrt(within)
        right = zeros * ndtr(-(means[0] + self.shift) / spread) + ones * ndtr((means[1] + self.shift) / spread)
        return right / self.n, ndtr((means[1] - means[0]) / (spread * sqrt(2)))


def _entropy(share: float) -> float:
    return -sum(p * log(p) for p in (share, 1.0 - share) if p > 0)
