"""Records that a release makes plausible: a weighted sample with the released margins and pair tables.

The attributes are drawn one after the other. The mean of each given the earlier ones is linear, with the coefficients
that reproduce all second moments; a simplex attribute is drawn from that mean projected on the simplex, a signed one
from a beta law with that mean and the residual variance. What the projection distorts is repaired by proportional
fitting of the weights to every pair table (Deming & Stephan 1940). Nothing is random: a release has one model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.sobol import sobol_points
from colonnade.mechanism.moments import Encoding, Floats, Layout
from colonnade.numerics.fitting import onto_simplex, rake

Levels = NDArray[np.int64]

SWEEPS = 10
FITTING_COST = 50_000_000
"""Largest number of record-and-table visits spent on fitting the weights."""
JITTER = 1e-6
EDGE = 1e-4


def plausible_records(
    estimate: Estimate, attributes: Sequence[int], count: int, first: int | None = None
) -> tuple[Floats, Floats]:
    """A sample of the coordinates of some attributes (a row for each record, full width) and its weights, of sum 1.

    `first` is drawn before all others, so that each of them is a mixture over its levels.
    """
    layout, n = estimate.layout, estimate.n
    records = np.zeros((count, layout.width))
    records[:, 0] = 1.0
    weights = np.full(count, 1.0 / count)
    levels: dict[int, Levels] = {}
    factors = {int(layout.attribute_of[c]) for i in attributes for c in _factors(estimate, i)}
    drawn = [i for i in {*attributes, *factors} if layout.attributes[i].ref is not None]
    order = sorted(drawn, key=lambda i: (layout.attributes[i].kind is Encoding.SIGNED, -layout.attributes[i].size, i))
    if first is not None:
        order = [first, *(i for i in order if i != first)]
    uniform = even_points(count, len(order))
    free = [k for i in order for k in _free(estimate, i)]
    lower = _factor(estimate, free)
    means = estimate.margin / n
    shocks = np.zeros((count, len(free)))
    simplexes = sum(layout.attributes[i].kind is Encoding.SIMPLEX for i in order)
    visits = max(count * simplexes * (simplexes - 1) // 2, 1)
    sweeps = min(SWEEPS, FITTING_COST // visits)
    done = 0
    for column, i in enumerate(order):
        own = _free(estimate, i)
        here = slice(done, done + len(own))
        mean = means[own] + shocks[:, :done] @ lower[here, :done].T
        span = layout.span(i)
        if layout.attributes[i].kind is Encoding.SIMPLEX:
            chosen = _draw_levels(mean, uniform[:, column])
            records[np.arange(count), span.start + chosen] = 1.0
            for _ in range(sweeps):
                for j, other in levels.items():
                    weights = _fitted(weights, chosen, other, estimate.value[span, layout.span(j)] / n)
            levels[i] = chosen
        else:
            residual = float((lower[here, here] ** 2).sum())
            records[:, span.start] = draw_signed(mean[:, 0], residual, weights, uniform[:, column])
        surprise = records[:, own] - mean
        shocks[:, here] = np.linalg.solve(lower[here, here], surprise.T).T
        done += len(own)
    fill_products(layout, records)
    for _ in range(sweeps if any(layout.attributes[i].ref is None for i in attributes) else 0):
        weights = _fitted_products(estimate, attributes, records, levels, weights)
    return records, weights


def _fitted_products(
    estimate: Estimate, attributes: Sequence[int], records: Floats, levels: Mapping[int, Levels], weights: Floats
) -> Floats:
    """Weights fitted once to every table of two attributes, and of each one with the interactions of levels."""
    layout, value = estimate.layout, estimate.value / estimate.n
    drawn = [(layout.span(i), own) for i, own in levels.items()]
    for at, (rows, own) in enumerate(drawn):
        for columns, other in drawn[:at]:
            weights = _fitted(weights, own, other, value[rows, columns])
        for k in (k for i in attributes for k in range(layout.span(i).start, layout.span(i).stop)):
            factors = layout.factors[k]
            if len(factors) > 1 and not any(layout.is_number(c) for c in factors):
                both = np.maximum(np.stack([value[0, rows] - value[k, rows], value[k, rows]]), 0.0)
                weights = _fitted(weights, records[:, k].astype(np.int64), own, both)
    return weights


def fill_products(layout: Layout, records: Floats) -> None:
    """Interactions of drawn records: products of the coordinates that each record has."""
    for attribute, k in zip(layout.attributes, layout.starts, strict=True):
        if attribute.ref is None:
            records[:, k] = records[:, list(layout.factors[k])].prod(axis=1)


def _factors(estimate: Estimate, attribute: int) -> list[int]:
    """The coordinates that an interaction is a product of."""
    layout = estimate.layout
    return [] if layout.attributes[attribute].ref is not None else list(layout.factors[layout.starts[attribute]])


def with_target(estimate: Estimate, columns: Sequence[int], attribute: int, covariances: Floats) -> Estimate:
    """The estimate with the given covariances, per record, of some columns (rows) with each level of an attribute."""
    span = estimate.layout.span(attribute)
    value, at = estimate.value.copy(), list(columns)
    for level, own in zip(range(span.start, span.stop), covariances.T, strict=True):
        value[level, at] = value[at, level] = (
            estimate.margin[at] * estimate.margin[level] / estimate.n + estimate.n * own
        )
    return replace(estimate, value=value)


def _free(estimate: Estimate, attribute: int) -> list[int]:
    """Coordinates that determine the attribute: the last level of a simplex follows from the others."""
    span = estimate.layout.span(attribute)
    last = span.stop - (estimate.layout.attributes[attribute].kind is Encoding.SIMPLEX)
    return list(range(span.start, last))


def _factor(estimate: Estimate, free: list[int]) -> Floats:
    """Cholesky factor of the covariance per record: row blocks give the linear conditional means."""
    covariance = estimate.covariance[np.ix_(free, free)] / estimate.n
    jitter = JITTER
    while True:
        try:
            lower: Floats = np.linalg.cholesky(covariance + jitter * np.eye(len(free))).astype(np.float64)
            return lower
        except np.linalg.LinAlgError:
            jitter *= 10.0


def _draw_levels(mean: Floats, uniform: Floats) -> Levels:
    """One level for each record, from its linear mean projected on the simplex."""
    full = np.column_stack([mean, 1.0 - mean.sum(axis=1)])
    chance = onto_simplex(full, 1.0)
    below = (np.cumsum(chance, axis=1) < uniform[:, None]).sum(axis=1)
    level: Levels = np.minimum(below, full.shape[1] - 1)
    return level


def draw_signed(mean: Floats, residual: float, weights: Floats, uniform: Floats) -> Floats:
    """Values in [-1, 1] from beta laws with the given means and, on average, the given variance."""
    share = np.clip(0.5 * (mean + 1.0), EDGE, 1.0 - EDGE)
    precision = max(float(weights @ (share * (1.0 - share))) / max(0.25 * residual, 1e-12) - 1.0, 0.02)
    value: Floats = 2.0 * betaincinv(share * precision, (1.0 - share) * precision, uniform) - 1.0
    return np.where(np.isfinite(value), value, mean)


def _fitted(weights: Floats, rows: Levels, columns: Levels, table: Floats) -> Floats:
    """Weights scaled so that two attributes have the given joint table (up to the total)."""
    scaled = rake(weights, rows * table.shape[1] + columns, table)
    total = float(scaled.sum())
    return scaled / total if total > 0 else weights


def even_points(rows: int, columns: int) -> Floats:
    """Points in the middle of the cells that a sequence of Sobol' (1967) fills, without a random draw."""
    return np.clip(sobol_points(rows, columns) + 0.5 / rows, 0.0, 1.0 - 1e-12)
