"""How good a model is, by a release of its scores: tables of score bins, or sums. Post-processing alone.

Every interval is about the value that the evaluated records really have, and holds wherever scores lie within their
bins and whatever law they have within classes: its ends are the least and the greatest value that the released numbers
leave possible, moved outwards by their noise. The value itself stands for one such law, and lies between the ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, xlogy

from colonnade.mechanism.moments import Floats

SURE = 1.959964
"""Standard deviations on either side of a 95% interval."""
SURE_OF_ONE = 2.12
"""The same of one number with Laplace noise, whose ends are heavier: log(20) / sqrt(2)."""
JOINTLY = 2.5
"""Standard deviations within which all of four noisy numbers lie, 95 times in 100."""
TELLING = 0.25
"""An accuracy or an area is told if the half width of its interval is less."""
PLACES = 9
"""Places at which the score of a bin is taken to lie, evenly, for the value that is told."""
GRID = 400
"""Places at which the scores of a law may lie."""
SAME = 12
"""Scores that agree to so many digits are the same."""
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
    """Of the noise alone."""
    low: float
    high: float
    trivial: float | None = None

    @classmethod
    def of(
        cls, value: float, std: float, limits: tuple[float, float] = (-np.inf, np.inf), trivial: float | None = None
    ) -> Measure:
        """One released number, or a few: noise alone keeps it from being known, and may move it past its limits."""
        kept = float(np.clip(value, *limits))
        low, high = (float(np.clip(kept + sign * SURE_OF_ONE * std, *limits)) for sign in (-1, 1))
        return cls(kept, float(std), low, high, trivial)

    @classmethod
    def between(
        cls,
        value: float,
        ends: tuple[float, float],
        std: float,
        limits: tuple[float, float] = (-np.inf, np.inf),
        trivial: float | None = None,
    ) -> Measure:
        """A number that lies between two ends, known but for noise: it may turn them round, or move them out."""
        first, last = sorted(float(np.clip(end, *limits)) for end in ends)
        sure = _sure((last - first) / std) if std > 0 else SURE
        low, high = (float(np.clip(v, *limits)) for v in (first - sure * std, last + sure * std))
        return cls(float(np.clip(value, low, high)), float(std), low, high, trivial)

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def to(self) -> dict[str, float | None]:
        return {"value": self.value, "std": self.std, "low": self.low, "high": self.high, "trivial": self.trivial}


def _sure(gap: float) -> float:
    """Deviations beyond either end that hold a number between them 95 times in 100, the ends so many deviations apart.

    1.96 where the ends are one, and 1.64 where they lie far apart: then only one of them can be missed.
    """
    # Loaded where it is needed: a fit starts without it.
    from scipy.optimize import brentq

    found = brentq(lambda z: ndtr(z + gap) - ndtr(-z) - 0.95, 1.0, 2.5)
    return float(found)


class Loss(NamedTuple):
    """What a record's score costs, or wins, by its outcome: it grows, or falls, with the score throughout."""

    no: Callable[[Floats], Floats]
    yes: Callable[[Floats], Floats]
    limits: tuple[float, float]
    drowned: float
    """The half width of an interval that would tell nothing."""
    trivial: Callable[[float], float]
    """What the share of yes alone reaches."""


def _chance(score: Floats) -> Floats:
    found: Floats = 1.0 / (1.0 + np.exp(-np.clip(score, -500, 500)))
    return found


LOSSES = {
    "accuracy": Loss(
        lambda s: (s < 0).astype(float),
        lambda s: (s >= 0).astype(float),
        (0.0, 1.0),
        TELLING,
        lambda share: max(share, 1.0 - share),
    ),
    "log_loss": Loss(
        lambda s: np.logaddexp(0.0, s),
        lambda s: np.logaddexp(0.0, -s),
        (0.0, np.inf),
        log(2) / 2,
        lambda share: float(-xlogy(share, share) - xlogy(1 - share, 1 - share)),
    ),
    "brier": Loss(
        lambda s: _chance(s) ** 2,
        lambda s: _chance(-s) ** 2,
        (0.0, 1.0),
        TELLING / 2,
        lambda share: share * (1.0 - share),
    ),
}


@dataclass(frozen=True)
class CurvePoint:
    """Records in bins whose middle predicts a probability in an interval: how many, what was predicted, what was."""

    low: float
    high: float
    records: float
    predicted: float
    observed: Measure | None
    """None where noise drowns the records."""


@dataclass(frozen=True)
class Axis:
    """One party's centred score: between which ends it lies in each of its bins."""

    lows: Floats
    highs: Floats


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
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the greatest log-odds of every cell of an outcome."""
        low, high = np.array([self.shift]), np.array([self.shift])
        for axis in self.axes:
            low, high = np.add.outer(low, axis.lows).ravel(), np.add.outer(high, axis.highs).ravel()
        return low, high

    @cached_property
    def places(self) -> Floats:
        """[cell, place]: log-odds that stand for the records of a cell."""
        low, high = self.ends
        found: Floats = low[:, None] + (high - low)[:, None] * (np.arange(PLACES) + 0.5) / PLACES
        return found

    @property
    def positives(self) -> float:
        """The number of records whose outcome is yes; n is known exactly."""
        no, yes = (float(part.sum()) for part in self.counts)
        return min(max((self.n + yes - no) / 2, 0.0), float(self.n))

    @property
    def _unsure(self) -> float:
        """The deviation of the number of positives."""
        return self.std * sqrt(self.counts[0].size / 2)

    def measures(self) -> dict[str, Measure]:
        """Accuracy, log-loss, Brier score and the area under the ROC curve, as far as noise does not drown them."""
        share = self.positives / self.n
        known = self._unsure <= CLEAR_SHARE * self.n
        out = {}
        for name, loss in LOSSES.items():
            by_cell = [np.stack([f(self.ends[0]), f(self.ends[1])]) for f in (loss.no, loss.yes)]
            ends = [self._mean(*(side(v, axis=0) for v in by_cell)) for side in (np.min, np.max)]
            value, _ = self._mean(loss.no(self.places).mean(axis=1), loss.yes(self.places).mean(axis=1))
            found = Measure.between(
                value,
                (ends[0][0], ends[1][0]),
                max(ends[0][1], ends[1][1]),
                loss.limits,
                loss.trivial(share) if known else None,
            )
            if found.half_width < loss.drowned:
                out[name] = found
        area = self.area()
        if area is not None:
            out["auc"] = area
        return out

    def _mean(self, no: Floats, yes: Floats) -> tuple[float, float]:
        """The mean over all records of what each cell weighs by outcome, and the deviation of its noise."""
        weights = np.concatenate([no, yes])
        # What is known of n is used: a constant in all cells would add noise and tell nothing.
        middle = float(weights.mean())
        value = middle + float(self.counts.ravel() @ (weights - middle)) / self.n
        return value, self.std * float(np.linalg.norm(weights - middle)) / self.n

    def area(self) -> Measure | None:
        """The chance that a record with outcome yes scores above one with no; None where a class drowns in noise."""
        ones = self.positives
        if min(ones, self.n - ones) * CLEAR < self._unsure:
            return None
        low, high = (np.round(end, SAME)[:, None] for end in self.ends)
        value, _ = self._area(self.places, self.places)
        ends = self._area(low, high), self._area(high, low)
        found = Measure.between(value, (ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1]), (0.0, 1.0), 0.5)
        return found if found.half_width < TELLING else None

    def _area(self, yes_at: Floats, no_at: Floats) -> tuple[float, float]:
        """The area where cells of yes and of no lie at these places, and the deviation of its noise."""
        no, yes = (part.ravel() for part in self.counts)
        ones = self.positives
        zeros = self.n - ones
        above = _weight_below(yes_at, no_at, no)  # by cell of yes: the records of no that it beats
        beaten = _weight_below(-no_at, -yes_at, yes)
        value = float(yes @ above) / (ones * zeros)
        # d value: by every cell of either class, and by the class sizes, which come from the same cells.
        by_ones = value / zeros - value / ones
        up = above / (ones * zeros) + 0.5 * by_ones
        down = beaten / (ones * zeros) - 0.5 * by_ones
        pairs = float(_weight_below(yes_at, no_at, np.ones_like(no)).sum())
        second = self.std**4 * pairs / (ones * zeros) ** 2
        return value, sqrt(self.std**2 * float(up @ up + down @ down) + second)

    def curve(self, points: int = CURVE) -> list[CurvePoint]:
        """Predicted against observed shares, of the bins whose middle lies in an interval of the probability."""
        middle = _chance(np.mean(self.ends, axis=0))
        predicted = _chance(self.places).mean(axis=1)
        no, yes = (part.ravel() for part in self.counts)
        out = []
        for low, high in pairwise(np.linspace(0.0, 1.0, points + 1)):
            inside = (middle >= low) & ((middle < high) | (high == 1.0))
            records = float((no + yes)[inside].sum())
            noise = self.std * sqrt(float(inside.sum()))
            if records * CLEAR <= noise * sqrt(2):
                out.append(CurvePoint(float(low), float(high), max(records, 0.0), float((low + high) / 2), None))
                continue
            share = float(yes[inside].sum()) / records
            spread = noise * sqrt((1 - share) ** 2 + share**2) / records
            mean = min(max(float((no + yes)[inside] @ predicted[inside]) / records, float(low)), float(high))
            out.append(CurvePoint(float(low), float(high), records, mean, Measure.of(share, spread, (0.0, 1.0))))
        return out


def _weight_below(at: Floats, places: Floats, weights: Floats) -> Floats:
    """[cell, place] and the same of others: for each cell the weight of the others below it; half of those beside."""
    flat = places.ravel()
    order = np.argsort(flat)
    total = np.concatenate([[0.0], np.cumsum(np.repeat(weights, places.shape[1])[order])]) / places.shape[1]
    below, upto = (total[np.searchsorted(flat[order], at, side)] for side in ("left", "right"))
    found: Floats = ((below + upto) / 2).mean(axis=1)
    return found


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

    def ends(self) -> tuple[float, float]:
        return self.value - JOINTLY * self.std, self.value + JOINTLY * self.std


def error_measures(n: int, errors: Sum, about: Sum, scale: float, typical: float) -> dict[str, Measure]:
    """By the sum of squared errors, and that of the label about what it was where the model was made.

    The root mean error is in units of the label. What is not estimable is left out: that is judged by the noise
    and not by what it hit, for what is told only when it came out large is too large. `typical` is the label's
    variance as if it were even.
    """
    mean, spread = max(errors.value / n, 0.0), errors.std / n
    ends = [scale * sqrt(max(mean + sign * SURE_OF_ONE * spread, 0.0)) for sign in (-1, 1)]
    root = sqrt(mean)
    std = spread / (2 * root) if root > 0 else sqrt(spread)
    known = about.value * CLEAR > about.std
    trivial = scale * sqrt(about.value / n) if known else None
    out = {}
    if SURE_OF_ONE * spread < typical:
        out["rmse"] = Measure(root * scale, std * scale, ends[0], ends[1], trivial)
    if known and SURE_OF_ONE * errors.std < about.value:
        left = errors.value / about.value
        noise = sqrt(errors.std**2 + (left * about.std) ** 2) / about.value
        out["r_squared"] = Measure.of(1.0 - left, noise, (-np.inf, 1.0), 0.0)
    return out


@dataclass(frozen=True)
class ClassSums:
    """Sums of the whole score in either class, and of its square, all noisy, and between which ends scores lie."""

    n: int
    ones: Sum
    """The number of records with outcome yes."""
    sums: tuple[Sum, Sum]
    """Of centred scores in the class no, and in yes."""
    square: Sum
    ends: tuple[float, float]
    """Of the centred score."""
    shift: float = 0.0
    """What is added to the centred scores to make the log-odds."""

    def measures(self) -> dict[str, Measure]:
        """What normal laws within classes would give, between the least and the greatest that any laws would.

        None of them where noise drowns what they need.
        """
        ones = self.ones.value
        if min(ones, self.n - ones) * CLEAR < self.ones.std:
            return {}
        share, out = ones / self.n, {}
        scores = self._scores()
        laws = self._normal(scores)
        for name, loss in LOSSES.items():
            weights = loss.no(scores + self.shift), loss.yes(scores + self.shift)
            least, most = (self._least(scores, *(sign * w for w in weights)) for sign in (1.0, -1.0))
            if least is None or most is None or laws is None:
                continue
            value = float(laws[0] @ weights[0] + laws[1] @ weights[1])
            found = Measure.between(value, (least, -most), 0.0, loss.limits, loss.trivial(share))
            if found.half_width < loss.drowned:
                out[name] = found
        area = self._area()
        if area is not None and area.half_width < TELLING:
            out["auc"] = area
        return out

    def _scores(self) -> Floats:
        """Places at which a law may have its mass: the ends, the threshold on either side, and a grid."""
        low, high = self.ends
        threshold = np.clip([-self.shift - 1e-9 * (high - low), -self.shift], low, high)
        found: Floats = np.unique(np.concatenate([np.linspace(low, high, GRID), threshold]))
        return found

    def _least(self, scores: Floats, no: Floats, yes: Floats) -> float | None:
        """The least mean of these weights over all laws that the sums allow, within noise; None if none does."""
        # Loaded where it is needed: a fit starts without it.
        from scipy.optimize import linprog

        count, scale = len(scores), max(abs(v) for v in self.ends)
        zero, ones, by, square = np.zeros(count), np.ones(count), scores / scale, (scores / scale) ** 2
        rows = np.array([[*zero, *ones], [*by, *zero], [*zero, *by], [*square, *square]])
        known = [(self.ones, 1.0), (self.sums[0], scale), (self.sums[1], scale), (self.square, scale**2)]
        ends = np.array([part.ends() for part, _ in known]) / (self.n * np.array([unit for _, unit in known])[:, None])
        found = linprog(
            np.concatenate([no, yes]),
            A_ub=np.concatenate([rows, -rows]),
            b_ub=np.concatenate([ends[:, 1], -ends[:, 0]]) + 1e-9,
            A_eq=np.ones((1, 2 * count)),
            b_eq=[1.0],
            method="highs",
        )
        return float(found.fun) if found.success else None

    @property
    def _spread(self) -> float | None:
        """Of scores within classes, one for both."""
        ones, zeros = self.ones.value, self.n - self.ones.value
        within = self.square.value - self.sums[0].value ** 2 / zeros - self.sums[1].value ** 2 / ones
        return sqrt(within / self.n) if within > 0 else None

    def _means(self) -> tuple[float, float]:
        return self.sums[0].value / (self.n - self.ones.value), self.sums[1].value / self.ones.value

    def _normal(self, scores: Floats) -> list[Floats] | None:
        """The share of all records that normal laws have at each place, of no and of yes."""
        if self._spread is None:
            return None
        edges = np.concatenate([[-np.inf], (scores[1:] + scores[:-1]) / 2, [np.inf]])
        # The threshold's two places are so near that what lies between them is of no weight.
        shares = (self.n - self.ones.value) / self.n, self.ones.value / self.n
        return [s * np.diff(ndtr((edges - m) / self._spread)) for s, m in zip(shares, self._means(), strict=True)]

    def _area(self) -> Measure | None:
        """By Cantelli: a difference of mean d and variance v is above 0 with a chance of at least d² / (d² + v)."""
        ones = self.ones.ends()
        zeros = self.n - ones[1], self.n - ones[0]
        if min(ones[0], zeros[0]) <= 0 or self._spread is None:
            return None
        means = [
            sorted(s / c for s in part.ends() for c in count)
            for part, count in zip(self.sums, (zeros, ones), strict=True)
        ]
        apart = means[1][0] - means[0][-1], means[1][-1] - means[0][0]
        least = [0.0 if m[0] <= 0 <= m[-1] else min(m[0] ** 2, m[-1] ** 2) for m in means]
        within = max(self.square.ends()[1] - zeros[0] * least[0] - ones[0] * least[1], 0.0)
        # Of two classes with this sum of squares about their means the smaller one may have all of it.
        variance = within / min(zeros[0], ones[0])
        sure = [d * d / (d * d + variance) if d * d + variance > 0 else 1.0 for d in apart]
        ends = (sure[0] if apart[0] > 0 else 0.0, 1.0 - sure[1] if apart[1] < 0 else 1.0)
        normal = self._means()
        value = float(ndtr((normal[1] - normal[0]) / (self._spread * sqrt(2))))
        return Measure.between(value, ends, 0.0, (0.0, 1.0), 0.5)
