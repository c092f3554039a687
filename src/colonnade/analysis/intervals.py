"""Confidence intervals that count the sampling of the records and the noise, for the coefficients that can have one.

Where the noise is small against the features' covariance they are those of the full model. Elsewhere they are those of
a reduced one (`reduction`), and every coefficient of it that noise would widen too far is marked, not given.

A linear model's coefficient is that of least squares with an intercept. A logistic model's is that of the linear
discriminant (Fisher 1936), the logistic fit of Gaussian classes: the least-squares coefficient of the class over the
variance that it leaves. The maximum-likelihood one is not determined by second moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from colonnade.analysis.contrasts import Contrast, NoisyCovariance, noisy_covariance
from colonnade.analysis.denoise import Estimate, complete, holds_indicators
from colonnade.analysis.equations import Target, chosen_attributes, coordinates_of, known_means, target_of
from colonnade.analysis.families import FAMILIES, Family
from colonnade.analysis.inversion import Ends, Equations, all_ends, linear_ends
from colonnade.analysis.reduction import MOST, choose_columns, unidentified_directions, whole_columns
from colonnade.foundation.errors import StudyError
from colonnade.foundation.threads import small_on_one_thread
from colonnade.mechanism.moments import Distribution, Encoding, Floats, Layout, Moments
from colonnade.mechanism.objective import Task

LIMITS = (4.5, 11.5)
"""An interval is given where noise makes it at most so many times as wide as sampling alone would; the second where the
first leaves too few (`FEW`). The widths are estimates: the true factors stay below 5 and 15."""
QUIETS = (0.35, 0.15)
"""How loud the noise may be in a reduced model: the second gives fewer columns and narrower intervals."""
FEW = 2
"""With fewer intervals inside the first limit the second holds."""
WIDENED = 1.15
"""Intervals of a reduced model are this much wider: its columns were chosen by looking at the same noise."""
LEAST_RESIDUAL = 0.05
"""Share of the target's variance that is left at least."""


@dataclass(frozen=True)
class Interval:
    """A coefficient of the model that the intervals are of, in encoded units."""

    feature: str
    column: str
    levels: tuple[str, ...]
    """The levels that count 1, as coordinates; empty for a number."""
    base: tuple[str, ...]
    """The levels that it counts against."""
    against: str
    """The same in few words; empty for a number."""
    estimate: float
    std: float
    low: float
    high: float
    factor: float
    """How many times as wide as sampling alone would make it."""
    given: bool
    """Whether the numbers are to be leant on; if not, the coefficient is not estimable."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of a release, and the reason where they are not those of the full model."""

    level: float
    quantity: str
    coefficients: tuple[Interval, ...]
    left_out: tuple[str, ...]
    """Columns that the reduced model leaves out."""
    full: bool
    """Whether they are those of the full model."""
    reason: str
    """Why there are none, or why not for all; empty where there is nothing to say."""
    caution: str = ""
    """Why they are wider than they need be, where they are."""

    @property
    def given(self) -> tuple[Interval, ...]:
        """Those that can be leant on."""
        return tuple(c for c in self.coefficients if c.given)

    @property
    def signed(self) -> tuple[Interval, ...]:
        """Those whose sign the release tells: zero lies outside of the interval."""
        return tuple(c for c in self.given if c.low * c.high > 0)

    @property
    def reliable_only(self) -> Intervals:
        """Without the numbers that are not to be leant on."""
        gone = np.nan
        return replace(
            self,
            coefficients=tuple(
                c if c.given else replace(c, estimate=gone, std=gone, low=gone, high=gone, factor=gone)
                for c in self.coefficients
            ),
        )

    def in_units(self, factors: Mapping[str, float]) -> Intervals:
        """With every coefficient times its column's factor, a positive number."""
        return replace(self, coefficients=tuple(_times(c, factors[c.column]) for c in self.coefficients))


LEAST_SQUARES = "least-squares coefficient"
DISCRIMINANT = "log-odds coefficient of the linear discriminant"


@small_on_one_thread
def intervals(
    moments: Moments,
    task: Task,
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
    level: float = 0.95,
) -> Intervals:
    """Intervals for every coefficient that can have one."""
    if not 0 < level < 1:
        raise StudyError(f"a confidence level must lie between 0 and 1, got level={level}")
    layout = moments.layout
    family = FAMILIES[task.value]
    target = target_of(layout, family, label)
    chosen = chosen_attributes(layout, target, features)
    quantity = LEAST_SQUARES if family.identity else DISCRIMINANT
    raw = complete(moments)
    lacking = _lacking(moments, raw, family, target, chosen, intercept)
    if lacking:
        return Intervals(level, quantity, (), (), False, lacking)
    whole = whole_columns(layout, chosen)
    reading = _Reading(moments, raw, family, target, level, whole)
    first = reading.of(choose_columns(moments, raw, chosen, QUIETS[0]))
    best, limit = first, LIMITS[0]
    if 2 * first.inside(limit) < len(first.columns):
        second = reading.of(choose_columns(moments, raw, chosen, QUIETS[1]))
        best = max(first, second, key=lambda fitted: fitted.inside(limit))
        if best.inside(limit) < min(FEW, len(first.columns)):
            best, limit = first, LIMITS[-1]
    found = _intervals(layout, best, limit, target.scale if family.identity else 1.0)
    used = {c.attribute for c in best.columns}
    left_out = tuple(layout.columns[i] for i in chosen if i not in used)
    full = best.columns == whole
    reason = _reason(found, full, noisy_covariance(moments, raw, whole))
    return Intervals(level, quantity, found, left_out, full, reason, _caution(moments, raw, target))


@dataclass(frozen=True)
class _Fitted:
    """A model's columns, the ends of their intervals, and how much wider these are than sampling alone makes them."""

    columns: tuple[Contrast, ...]
    ends: tuple[Ends, ...] = ()
    factors: tuple[float, ...] = ()

    def inside(self, limit: float) -> int:
        return sum(f <= limit for f in self.factors)


@dataclass(frozen=True)
class _Reading:
    """What is read from a release."""

    moments: Moments
    raw: Estimate
    family: Family
    target: Target
    level: float
    whole: tuple[Contrast, ...]
    """The columns of the full model."""

    def of(self, columns: tuple[Contrast, ...]) -> _Fitted:
        """The intervals of a model."""
        if not columns:
            return _Fitted(columns)
        layout, n = self.moments.layout, self.moments.n
        outcome = Contrast(self.target.attribute, (self.target.coordinate - layout.starts[self.target.attribute],))
        covariance = noisy_covariance(self.moments, self.raw, [*columns, outcome])
        variance = _target_variance(self.moments, self.raw, self.target, covariance)
        equations = _equations(covariance, self.family, variance, n)
        quantile = _quantile(self.level, self.moments.law) * (1.0 if columns == self.whole else WIDENED)
        ends = (all_ends if len(columns) <= MOST else linear_ends)(equations, quantile, len(columns))
        alone = float(ndtri(0.5 + 0.5 * self.level)) * _sampling_stds(covariance, self.family, variance, n)
        factors = tuple((e.high - e.low) / (2.0 * float(a)) for e, a in zip(ends, alone, strict=True))
        return _Fitted(columns, ends, factors)


def _lacking(
    moments: Moments, raw: Estimate, family: Family, target: Target, chosen: Sequence[int], intercept: bool
) -> str:
    """What the release lacks for any interval."""
    layout = moments.layout
    if moments.traces:
        return "the release holds traces in place of the products of the features"
    if not intercept:
        return "there are none for a model without an intercept"
    if not known_means(raw, [*coordinates_of(layout, chosen), target.coordinate]):
        return "the release does not hold the means of all columns"
    if not chosen:
        return "there is no feature"
    if not family.identity and not holds_indicators(moments, target.attribute):
        return "the release does not hold the label as a class"
    for a, i in enumerate((*chosen, target.attribute)):
        own = moments.std[layout.starts[i], layout.starts[i]]
        if layout.attributes[i].kind is Encoding.SIGNED and i != target.attribute and not np.isfinite(own):
            return f"the release lacks the square of {layout.columns[i]}"
        for j in (*chosen, target.attribute)[:a]:
            if not np.all(np.isfinite(moments.std[layout.span(i), layout.span(j)])):
                return f"the release lacks products, such as those of {layout.columns[j]} and {layout.columns[i]}"
    return ""


def _target_variance(moments: Moments, raw: Estimate, target: Target, covariance: NoisyCovariance) -> float:
    """The variance of the target's coordinate, or the largest it can have where its square was not released."""
    at, attribute = target.coordinate, moments.layout.attributes[target.attribute]
    if holds_indicators(moments, target.attribute):
        return float(covariance.matrix[-1, -1])
    mean = float(np.clip(raw.margin[at] / moments.n, -1.0, 1.0))
    largest = mean * (1.0 - mean) if attribute.kind is Encoding.SIMPLEX else 1.0 - mean**2
    known = _square(moments, raw, target)
    return largest if known is None else float(np.clip(known / moments.n - mean**2, 1e-3 * largest, largest))


def _square(moments: Moments, raw: Estimate, target: Target) -> float | None:
    """The sum of the target's squares; two halves that sum to one have a single product that tells it."""
    span = moments.layout.span(target.attribute)
    std = moments.std[span, span]
    at = target.coordinate - span.start
    if np.isfinite(std[at, at]):
        return float(moments.value[target.coordinate, target.coordinate])
    if span.stop - span.start == 2 and np.isfinite(std[0, 1]):
        return float(raw.margin[target.coordinate] - moments.value[span.start, span.start + 1])
    return None


def _residual(covariance: NoisyCovariance, variance: float) -> float:
    """The variance of the target that the columns leave."""
    gram, right = covariance.matrix[:-1, :-1], covariance.matrix[:-1, -1]
    weights = np.linalg.solve(gram, right)
    # Noise makes w'c too large by this much on average.
    excess = float(np.trace(np.linalg.solve(gram, covariance.noise(np.append(weights, -1.0))[:-1, :-1])))
    explained = max(float(right @ weights) - excess, 0.0)
    return float(np.clip(variance - explained, LEAST_RESIDUAL * variance, variance))


def _equations(covariance: NoisyCovariance, family: Family, variance: float, n: int) -> Equations:
    """C w = c for least squares; M b = -(0, .., 0, 1) for the discriminant, whose coefficients are entries of b."""
    matrix, size = covariance.matrix, len(covariance.matrix)
    left = _residual(covariance, variance)
    if family.identity:
        return Equations(covariance, np.array([-1.0]), np.zeros(size - 1), left / n * matrix[:-1, :-1])
    # M^-1 has -w/left beside 1/left in its last column; its sampling is that of a normal law.
    unit = np.zeros(size)
    unit[-1] = 1.0
    return Equations(covariance, np.zeros(0), -unit, (matrix / left + np.outer(unit, unit)) / n)


def _sampling_stds(covariance: NoisyCovariance, family: Family, variance: float, n: int) -> Floats:
    """The coefficients' standard errors without noise."""
    # A class that seems to be explained nearly whole, by noise, must not make the yardstick long.
    left = max(_residual(covariance, variance), 0.0 if family.identity else 0.5 * variance)
    inverse = np.diag(np.linalg.inv(covariance.matrix[:-1, :-1]))
    result: Floats = np.sqrt(np.maximum(inverse, 0.0) * left / n) / (1.0 if family.identity else left)
    return result


def _quantile(level: float, law: Distribution) -> float:
    """In standard deviations; a single Laplace number has heavier tails than a sum of many."""
    normal = float(ndtri(0.5 + 0.5 * level))
    return normal if law.stable else max(normal, float(-np.log1p(-level) / np.sqrt(2.0)))


def _intervals(layout: Layout, fitted: _Fitted, limit: float, scale: float) -> tuple[Interval, ...]:
    out = []
    for column, end, factor in zip(fitted.columns, fitted.ends, fitted.factors, strict=True):
        beside = [c for c in fitted.columns if c.attribute == column.attribute]
        one = Interval(
            *_named(layout, column, beside),
            end.estimate,
            end.std,
            end.low,
            end.high,
            factor,
            factor <= limit,
        )
        out.append(_times(one, scale))
    return tuple(out)


def _named(
    layout: Layout, column: Contrast, beside: Sequence[Contrast]
) -> tuple[str, str, tuple[str, ...], tuple[str, ...], str]:
    """A coefficient's name, its column, its levels and its base, and the base in words."""
    attribute, plain = layout.attributes[column.attribute], layout.columns[column.attribute]
    texts = layout.names[layout.span(column.attribute)]
    if attribute.kind is Encoding.SIGNED:
        return texts[0], plain, (), (), ""
    levels = tuple(texts[k] for k in column.levels)
    used = {k for c in beside for k in c.levels}
    rest = tuple(k for k in range(attribute.size) if k not in used)

    def words(group: Sequence[int]) -> str:
        ends = [attribute.levels[k] for k in (group[0], group[-1])]
        if len(group) == 1:
            return ends[0]
        return f"{ends[0]} to {ends[1]}" if attribute.ordered else "all other levels"

    name = levels[0] if len(levels) == 1 else f"{plain}: {words(column.levels)}"
    return name, plain, levels, tuple(texts[k] for k in rest), words(rest)


def _times(interval: Interval, factor: float) -> Interval:
    return replace(
        interval,
        estimate=factor * interval.estimate,
        std=factor * interval.std,
        low=factor * interval.low,
        high=factor * interval.high,
    )


def _caution(moments: Moments, raw: Estimate, target: Target) -> str:
    if holds_indicators(moments, target.attribute) or _square(moments, raw, target) is not None:
        return ""
    return (
        "the label's square was not released (label_square), so that sampling counts with the largest variance that "
        "the label's range allows"
    )


def _reason(found: Sequence[Interval], full: bool, covariance: NoisyCovariance) -> str:
    parts = []
    if not full:
        size, hidden = len(covariance.matrix), unidentified_directions(covariance)
        parts.append(
            f"the noise is as large as the features' covariance in {hidden} of {size} directions"
            if hidden
            else f"the noise is more than a third of the features' covariance in some of {size} directions"
        )
    if found and not any(i.given for i in found):
        parts.append(f"noise would make every interval more than {LIMITS[-1]:g} times as wide as sampling alone does")
    if not found and not full:
        parts.append("no column stands clear of it")
    return "; ".join(parts)
