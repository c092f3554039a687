"""One-way and contingency tables of a release, denoised, with 95% intervals for the rows' own counts.

The count is the most plausible one: margins combined over all tables, dependence shrunk by the noise that is known. The
interval is that of the unshrunk count, and covers the exact count of the rows in 95 of 100 releases, whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from colonnade.analysis.bounded import GAUSSIAN_SHAPE, count_intervals
from colonnade.analysis.denoise import Estimate
from colonnade.analysis.mediators import FITTING_STEPS, NoisyTables, shrink_tables
from colonnade.analysis.released import Released
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.names import Name
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import fit_margins, interaction

NEARLY_ALL = 0.9
"""An interval of this share of all that there can be says nothing."""


@dataclass(frozen=True)
class Margin:
    """One column: how many rows have each level."""

    name: str
    of: Name
    levels: tuple[str, ...]
    count: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Bracketed:
    """A number and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Number:
    """A column that was released as a number: mean and standard deviation, with intervals for the rows' own.

    There is none of what is not known: where the noise allows for all that the bounds do, or nothing was released.
    """

    name: str
    of: Name
    mean: Bracketed | None
    std: Bracketed | None


@dataclass(frozen=True)
class CrossTable:
    """Two columns: how many rows have each pair of levels."""

    names: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    count: Floats
    low: Floats
    high: Floats
    noise_std: float


@dataclass(frozen=True)
class Tables:
    """Every table of a release, cleaned together."""

    released: Released
    estimate: Estimate
    """Counts: margins in row 0, the table of two columns in their block."""

    @classmethod
    def of(cls, released: Released) -> Tables:
        """Denoise a release for tables: those of two columns are shrunk together, towards paths through a third."""
        estimate = released.known.estimate
        tables = cls(released, Estimate(estimate.n, estimate.layout, estimate.value.copy(), estimate.std.copy()))
        value, std = tables.estimate.value, tables.estimate.std
        spans = [released.layout.span(i) for i in released.tabular]
        at = np.concatenate([np.arange(span.start, span.stop) for span in spans]) if spans else np.zeros(0, np.intp)
        shrunk = shrink_tables(tables.noisy(spans), value[np.ix_(at, at)])
        for x, y in combinations(range(len(spans)), 2):
            rows, columns = spans[x], spans[y]
            if (x, y) in shrunk:
                table, left = shrunk[x, y]
                std[rows, columns], std[columns, rows] = left, left.T
            else:
                table = fit_margins(value[rows, columns], value[0, rows], value[0, columns], FITTING_STEPS)
            value[rows, columns], value[columns, rows] = table, table.T
        return tables

    def noisy(self, spans: Sequence[slice]) -> NoisyTables:
        """The released tables over their combined margins, unshrunk; columns are counted among those with levels."""
        released, value = self.released, self.estimate.value
        tables, noise = {}, {}
        for x, y in combinations(range(len(spans)), 2):
            i, j = released.tabular[x], released.tabular[y]
            if released.has_table(i, j):
                tables[x, y] = unshrunk_table(self, i, j)[0]
                noise[x, y] = float((released.moments.std[spans[x], spans[y]] ** 2).mean())
        starts = np.cumsum([0, *(span.stop - span.start for span in spans)]).tolist()
        margin = np.concatenate([value[0, span] for span in spans]) if spans else np.zeros(0)
        return NoisyTables(released.n, starts, margin, tables, noise)

    def margin(self, i: int) -> Margin:
        """One column's margin."""
        released, span = self.released, self.released.layout.span(i)
        released.require_counts(i)
        count = self.estimate.value[0, span]
        std = np.sqrt(margin_variance(self, i))
        low, high = count_intervals(count, std, GAUSSIAN_SHAPE)
        low, high = _holding(count, low, high, released.n)
        attribute = released.layout.attributes[i]
        return Margin(released.short(i), attribute.of, attribute.levels, count, low, high)

    def drowns_cells(self, i: int, j: int) -> bool:
        """Whether the noise on a cell of two columns is larger than an average cell."""
        std = self.released.moments.std[self.released.layout.span(i), self.released.layout.span(j)]
        return bool(np.sqrt((std**2).mean()) * std.size > self.released.n)

    def drowns_number(self, i: int) -> bool:
        """Whether noise on what was released of a number is larger than its standard deviation."""
        found, known = self.number(i), self.released.known
        if found.mean is None or found.std is None:
            return known.has_square(i) if found.mean is not None else known.has_sums(i)
        return found.mean.high - found.mean.low > 2.0 * found.std.value

    def not_known(self) -> list[str]:
        """What the release does not tell of columns with levels."""
        released = self.released
        uncounted = [i for i in released.tabular if i not in released.counted]
        return [f"how many records have each level of {released.short(i)}" for i in uncounted]

    def number(self, i: int) -> Number:
        """What is known of a number that was not cut at bins, in its own units."""
        released, estimate = self.released, self.estimate
        (low, high), span = released.columns[i].require_bounds(), released.layout.span(i)
        half, middle = 0.5 * (high - low), 0.5 * (low + high)
        halved = span.stop - span.start == 2
        at, factor, shift = span.stop - 1, 2.0 if halved else 1.0, -1.0 if halved else 0.0
        mean = factor * estimate.value[0, at] / released.n + shift
        # Records are rounded to the grid at random, by at most half a step in standard deviation.
        rounding = factor * 0.5 / float(released.release.plan["grid"]["bound"]) / np.sqrt(released.n)
        mean_std = float(np.hypot(factor * estimate.std[0, at] / released.n, rounding))
        first = _bracket(mean, mean_std, -1.0, 1.0, released)
        square, square_std = _mean_square(self, span)
        if first is None:
            shown, nearest = None, 0.0
        else:
            shown = Bracketed(*(float(middle + half * v) for v in (first.value, first.low, first.high)))
            nearest = max(first.low, -first.high, 0.0)
        # The most that it can vary: all at the two bounds.
        most = 1.0 - nearest**2
        square_std = float(np.hypot(square_std, 2.0 * rounding))
        spread = float(np.hypot(square_std, np.hypot(2.0 * mean * mean_std, np.sqrt(2.0) * mean_std**2)))
        variance = factor**2 * max(float(estimate.covariance[at, at]), 0.0) / released.n
        second = _bracket(square - mean**2, spread, 0.0, most, released)
        std = None
        if second is not None:
            ends = (float(np.clip(variance, second.low, second.high)), second.low, second.high)
            std = Bracketed(*(float(half * np.sqrt(v)) for v in ends))
        return Number(released.short(i), released.layout.attributes[i].of, shown, std)

    def cross(self, i: int, j: int) -> CrossTable:
        """The table of two columns."""
        released, layout = self.released, self.released.layout
        if i == j:
            raise ReleaseError(f"a contingency table needs two columns, got {released.short(i)} twice")
        if not released.has_table(i, j):
            raise ReleaseError(f"the release holds no table of {released.short(i)} and {released.short(j)}")
        rows, columns = layout.span(i), layout.span(j)
        unshrunk, std, shape = unshrunk_table(self, i, j)
        low, high = count_intervals(unshrunk, std, shape)
        count = self.estimate.value[rows, columns]
        low, high = _holding(count, low, high, released.n)
        names = released.short(i), released.short(j)
        noise = float(released.moments.std[rows, columns].max())
        return CrossTable(names, released.levels(i), released.levels(j), count, low, high, noise)


def _holding(count: Floats, low: Floats, high: Floats, n: int) -> tuple[Floats, Floats]:
    """An interval of at most n rows that holds the count shown with it, which is shrunk where the interval is not."""
    return np.minimum(np.minimum(low, n), count), np.maximum(np.minimum(high, n), count)


def reach_of(released: Released) -> float:
    """Standard deviations that hold 95 of 100 values of the release's noise."""
    return released.release.law.reach


def _bracket(value: float, std: float, low: float, high: float, released: Released) -> Bracketed | None:
    """A value with its interval inside a range; None where that is the whole range."""
    reach = reach_of(released) * std
    inside = float(np.clip(value, low, high))
    if not np.isfinite(reach) or (inside - reach <= low and inside + reach >= high):
        return None
    return Bracketed(inside, max(inside - reach, low), min(inside + reach, high))


def _mean_square(tables: Tables, span: slice) -> tuple[float, float]:
    """The mean square of a number in [-1, 1] as it was released, and the standard deviation of its noise."""
    moments, estimate, n = tables.released.moments, tables.estimate, tables.released.n
    first, at = span.start, span.stop - 1
    if first == at:
        return float(moments.value[at, at]) / n, float(moments.std[at, at]) / n
    # Of the two halves of a label the product was released, or follows from a square: 1 - y^2 is four times it.
    known = bool(np.isfinite(moments.std[first, at]))
    cross = float((moments if known else estimate).value[first, at])
    return 1.0 - 4.0 * cross / n, 4.0 * float(estimate.std[first, at]) / n


def unshrunk_table(tables: Tables, i: int, j: int) -> tuple[Floats, Floats, float]:
    """The released table over its combined margins, the standard deviation of its noise, and that noise's shape.

    The interaction of the released table is uncorrelated with its margins, so that their variances add up; only the
    part of this table in both combined margins is shared by them.
    """
    released, layout, n = tables.released, tables.released.layout, tables.released.n
    rows, columns = layout.span(i), layout.span(j)
    table = released.moments.value[rows, columns]
    down, across = tables.estimate.value[0, rows], tables.estimate.value[0, columns]
    R, C = table.shape
    value = interaction(table) + down[:, None] / C + across / R - n / (R * C)
    variance = released.moments.std[rows, columns] ** 2
    own = float(variance.mean())
    first, second = margin_variance(tables, i)[:, None], margin_variance(tables, j)
    free = (1 - 1 / R) * (1 - 1 / C)
    share = np.minimum(first / (C * own), 1.0) * np.minimum(second / (R * own), 1.0)
    total = variance * free + first / C**2 + second / R**2 + 2 * own * free * share / (R * C)
    shape = released.shape(i, j)
    if np.isfinite(shape):
        # Fourth moments of the interaction's coefficients: many small terms make the noise more Gaussian.
        coefficients = np.outer(_centring(R), _centring(C))
        peaked = float((coefficients**4).sum()) * own**2 / float(total.mean()) ** 2
        shape = min(shape / peaked, GAUSSIAN_SHAPE)
    return value, np.sqrt(total), shape


def _centring(size: int) -> Floats:
    """A row of the matrix that takes the mean away."""
    row = np.full(size, -1.0 / size)
    row[0] += 1.0
    return row


def margin_variance(tables: Tables, i: int) -> Floats:
    """The variance of a combined margin, which is known to sum to n."""
    span = tables.released.layout.span(i)
    size = span.stop - span.start
    variance: Floats = tables.estimate.std[0, span] ** 2 * (1 - 1 / size)
    return variance
