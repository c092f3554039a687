"""Numbers in a model of a release that has their bins: the line through what the bins tell.

Tables over bins tell the law of a number far better than its mean and products do, and cost no more: a record is in one
cell, however fine the bins. The model of the bins is solved first. A model that has one weight for the number is then
the nearest to it on the records that the release makes plausible: of least Kullback-Leibler distance where it gives
chances, of least squares where it gives numbers. In a bin the number counts as the bin's mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from colonnade.analysis.bins import bin_means
from colonnade.analysis.denoise import Estimate
from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import Name
from colonnade.foundation.schema import Column, Schema
from colonnade.mechanism.moments import Attribute, Encoding, Floats, Layout
from colonnade.numerics.spectra import solve_usable

Sample = tuple[Floats, Floats]
"""Records of full width, and their weights, of sum 1."""
STEPS = 60
SETTLED = 1e-12
SHORTEST = 1e-6
NEGLIGIBLE = 1e-9


def bin_numeric_columns(layout: Layout, schema: Schema, names: Sequence[str] | None = None) -> dict[int, Column]:
    """Attributes that a model shall take as numbers, with their columns; None: those that the schema says so of."""
    columns: dict[Name, Column] = dict(schema.columns.items())
    if names is not None:
        return {i: columns[layout.attributes[i].of] for i in (_find(layout, columns, name) for name in names)}
    places = ((i, columns.get(a.of)) for i, a in enumerate(layout.attributes))
    return {i: c for i, c in places if c is not None and c.has_levels != c.in_model.has_levels}


def _find(layout: Layout, columns: Mapping[Name, Column], name: str) -> int:
    found = layout.find(name, column=True)
    column = None if found is None else columns.get(layout.attributes[found[0]].of)
    if found is None or column is None:
        raise StudyError(f"a number in the place of its bins must be a released column, got {name!r}")
    if column.edges is None or not column.has_levels:
        raise StudyError(f"a number in the place of its bins needs bins, and column {name} has none")
    return found[0]


def line_through(
    estimate: Estimate, full: Floats, attributes: Sequence[int], numbers: Mapping[int, Column], sample: Sample | None
) -> tuple[Layout, Floats, float]:
    """The nearest function that takes `numbers` as such: its layout, weights with the constant first, and its distance.

    `full` has a weight for each coordinate of the estimate's layout, used those of `attributes`. With a `sample` the
    functions are log-odds; the other weights then stay as they are, for so few records could not tell them apart.
    """
    layout, at = _uncut(estimate.layout, numbers), [0]
    means = _bin_map(estimate, layout, numbers)
    for i in attributes:
        at += range(layout.span(i).start, layout.span(i).stop)
    found = np.zeros(layout.width)
    if sample is None:
        found[at] = _least_squares(estimate, full, means[:, at])
        apart = full - means @ found
        return layout, found, 0.5 * max(float(apart @ estimate.value @ apart), 0.0) / estimate.n
    records, weights = sample
    trusted = weights * np.prod([_trust(estimate, i)[_codes(estimate, i, records)] for i in numbers], axis=0)
    free = [0, *(layout.starts[i] for i in numbers)]
    kept = [k for k in at if k not in free]
    found[kept] = means[:, kept].T @ full
    others = records @ (means[:, kept] @ found[kept])
    found[free] = _nearest(records @ means[:, free], trusted / trusted.sum(), expit(records @ full), others)
    score, line = records @ full, records @ (means @ found)
    apart = np.logaddexp(0.0, line) - np.logaddexp(0.0, score) - expit(score) * (line - score)
    return layout, found, float(weights @ apart)


def _codes(estimate: Estimate, attribute: int, records: Floats) -> NDArray[np.intp]:
    """The bin of each record."""
    codes: NDArray[np.intp] = records[:, estimate.layout.span(attribute)].argmax(axis=1)
    return codes


def _trust(estimate: Estimate, attribute: int) -> Floats:
    """For each bin the share of its released count that is not noise: few records far out must not turn the line."""
    span = estimate.layout.span(attribute)
    square, noise = np.maximum(estimate.margin[span], 0.0) ** 2, estimate.std[0, span] ** 2
    trust: Floats = np.maximum(square / np.maximum(square + noise, 1e-300), NEGLIGIBLE)
    return trust


def _uncut(layout: Layout, numbers: Mapping[int, Column]) -> Layout:
    """The layout with one signed coordinate for each of these attributes."""

    def signed(attribute: Attribute) -> Attribute:
        return replace(attribute, kind=Encoding.SIGNED, coordinates=(attribute.bare,), drop=None, ordered=False)

    return replace(
        layout, attributes=tuple(signed(a) if i in numbers else a for i, a in enumerate(layout.attributes)), classes=()
    )


def _bin_map(estimate: Estimate, layout: Layout, numbers: Mapping[int, Column]) -> Floats:
    """From coordinates with bins to those without: a bin's mean stands for its number."""
    out = np.zeros((estimate.layout.width, layout.width))
    out[0, 0] = 1.0
    for i in range(len(layout.attributes)):
        old, new = estimate.layout.span(i), layout.span(i)
        if i in numbers:
            shares = np.maximum(estimate.margin[old], 0.0)
            shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(shares), 1.0 / len(shares))
            low, high = numbers[i].require_bounds()
            out[old, new.start] = (2.0 * bin_means(numbers[i], shares) - low - high) / (high - low)
        else:
            out[old, new] = np.eye(new.stop - new.start)
    return out


def _least_squares(estimate: Estimate, full: Floats, used: Floats) -> Floats:
    """By the estimated second moments, the constant's among them."""
    second = estimate.value / estimate.n
    gram = used.T @ second @ used
    right = used.T @ second @ full
    return solve_usable(0.5 * (gram + gram.T), right, lambda v: v > NEGLIGIBLE * max(float(v[-1]), 1e-300))


def _nearest(records: Floats, weights: Floats, chance: Floats, others: Floats) -> Floats:
    """Weights whose log-odds, added to `others`, are of least Kullback-Leibler distance from given chances.

    Newton steps that never raise it.
    """
    b = np.zeros(records.shape[1])
    b[0] = float(logit(np.clip(weights @ chance, 1e-6, 1.0 - 1e-6)) - weights @ others)

    def distance(b: Floats) -> float:
        score = others + records @ b
        return float(weights @ (np.logaddexp(0.0, score) - chance * score))

    value = distance(b)
    for _ in range(STEPS):
        own = expit(others + records @ b)
        curved = (records * (weights * own * (1.0 - own))[:, None]).T @ records
        # A number whose bins are all empty but one has no slope.
        step = np.linalg.solve(curved + NEGLIGIBLE * np.eye(len(b)), records.T @ (weights * (chance - own)))
        part = 1.0
        while (tried := distance(b + part * step)) > value and part > SHORTEST:
            part *= 0.5
        if part <= SHORTEST or value - tried < SETTLED:
            break
        b, value = b + part * step, tried
    return b
