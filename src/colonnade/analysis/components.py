"""Correlations of all released coordinates with intervals for the rows' own, and principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from colonnade.analysis.released import Released
from colonnade.analysis.tables import NEARLY_ALL, reach_of
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.threads import small_on_one_thread
from colonnade.mechanism.moments import Floats, Role
from colonnade.numerics.spectra import eigen

CLEAR = 2.0
"""A variance is known if it is more than this many standard deviations of its noise away from 0."""


@dataclass(frozen=True)
class Components:
    """Principal components of the encoded columns: levels 0 or 1, numbers in [-1, 1], centred."""

    names: tuple[str, ...]
    share: Floats
    """Of the total variance, for each component, largest first."""
    loadings: Floats
    """One row for each component."""
    correlations: Floats
    """Of every two coordinates; nan where the noise leaves nearly all that a correlation can be."""
    low: Floats
    high: Floats
    """The ends of their 95% intervals, for the correlations of the records."""
    clear: int
    """How many components have more variance than noise alone would give one."""

    def notes(self) -> list[str]:
        """What a reader of the components has to know of their noise."""
        first, second = np.triu_indices(len(self.names), 1)
        width, known = (self.high - self.low)[first, second] / 2, np.isfinite(self.correlations[first, second])
        out = []
        if width.size:
            told = f"Noise leaves a correlation open by {np.median(width):.2g} to either side (median)"
            hidden = int((~known).sum())
            out.append(f"{told}; {hidden:,} of {width.size:,} are not known." if hidden else f"{told}.")
        if self.clear < len(self.share):
            out.append(
                f"Noise alone would give a component as much variance as those beyond the first {self.clear} have: "
                "their shares and loadings are not known."
            )
        return out


@small_on_one_thread
def components(released: Released) -> Components:
    """PCA of a release's features; refuses one without their products."""
    released.require_pairs("nothing in it tells how columns go together")
    layout, estimate = released.layout, released.known.estimate
    chosen = [i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE]
    _require_products(released, chosen)
    at = [k for i in chosen for k in range(layout.width)[layout.span(i)]]
    covariance = estimate.covariance[np.ix_(at, at)] / estimate.n
    values, vectors = eigen(covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    noise = _noise_norm(released, at)
    if values.size and noise >= values[0]:
        raise ReleaseError(
            "components of this release are not known: its noise alone would make a component of variance "
            f"{noise:.3g}, and the largest one found has {values[0]:.3g}"
        )
    # A component has no sign of its own: its largest loading, the first of equals, is made positive.
    largest = vectors[np.abs(vectors).round(9).argmax(axis=0), np.arange(vectors.shape[1])]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    correlations = np.clip(covariance / np.outer(spread, spread), -1.0, 1.0)
    low, high = _correlation_intervals(released, at)
    low, high = np.minimum(low, correlations), np.maximum(high, correlations)
    correlations = np.where(high - low < 2.0 * NEARLY_ALL, correlations, np.nan)
    names, total = tuple(layout.names[k] for k in at), max(float(values.sum()), 1e-300)
    return Components(names, values / total, vectors.T, correlations, low, high, int((values > noise).sum()))


def _require_products(released: Released, chosen: Sequence[int]) -> None:
    for i in chosen:
        if not released.known.has_square(i):
            raise ReleaseError(f"components of this release are not known: it lacks the square of {released.short(i)}")
    for i, j in combinations(chosen, 2):
        if not released.known.has_products(i, j):
            raise ReleaseError(
                f"components of this release are not known: it lacks the products of {released.short(i)} and "
                f"{released.short(j)}, and nothing in it tells how they go together"
            )


def _noise_norm(released: Released, at: Sequence[int]) -> float:
    """The largest variance, per record, that noise on products, or on the counts of a column, would give a component.

    A symmetric matrix of independent noise has a spectral norm of about twice the root of its largest row's variance.
    """
    layout = released.layout
    std = np.where(np.isfinite(released.known.estimate.std[0]), released.known.estimate.std[0], 0.0)
    rows = (_product_noise(released, at) ** 2).sum(axis=1)
    counts = [((std[layout.span(i)] / released.n) ** 2).sum() for i in {int(layout.attribute_of[k]) for k in at}]
    return 2.0 * float(np.sqrt(max(rows.max(initial=0.0), *counts, 0.0)))


def _product_noise(released: Released, at: Sequence[int]) -> Floats:
    """Noise on products of two attributes as released, and on squares, per record; 0 for what is known."""
    moments, grid = released.moments, np.ix_(at, at)
    noise: Floats = np.where(np.isfinite(moments.std[grid]), moments.std[grid], 0.0) / released.n
    return noise


def _correlation_intervals(released: Released, at: Sequence[int]) -> tuple[Floats, Floats]:
    """By the products as they were released, before any shrinkage, to first order in their noise."""
    layout, moments, estimate, n = released.layout, released.moments, released.known.estimate, released.n
    means, mean_std = estimate.margin[at] / n, estimate.std[0, at] / n
    member = layout.attribute_of[list(at)]
    own = member[:, None] == member
    products = np.where(own, estimate.value[np.ix_(at, at)], moments.value[np.ix_(at, at)]) / n
    noise = np.where(own, 0.0, _product_noise(released, at))
    covariance = products - np.outer(means, means)
    spread = np.sqrt(noise**2 + np.outer(means**2, mean_std**2) + np.outer(mean_std**2, means**2))
    variance = np.maximum(np.diag(estimate.covariance)[list(at)] / n, 1e-300)
    levels = np.isin(member, released.tabular)
    square = np.where(levels, 0.0, estimate.std[at, at] / n)
    variance_std = np.hypot(square, np.abs(np.where(levels, 1.0 - 2.0 * means, 2.0 * means)) * mean_std)
    share = variance_std / variance
    found = np.clip(covariance / np.sqrt(np.outer(variance, variance)), -1.0, 1.0)
    std = np.sqrt(spread**2 / np.outer(variance, variance) + 0.25 * found**2 * (share[:, None] ** 2 + share**2))
    # Records are whole: a level with less than half of one has none.
    varies = (share * CLEAR < 1.0) & ~(levels & (n * variance < 0.5))
    half = reach_of(released) * np.where(varies[:, None] & varies, std, np.inf)
    np.fill_diagonal(half, 0.0)
    low, high = np.maximum(found - half, -1.0), np.minimum(found + half, 1.0)
    return low, high
