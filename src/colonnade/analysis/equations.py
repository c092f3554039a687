"""Which target on which columns: the normal equations of a release, per record, with the noise on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.families import Family
from colonnade.analysis.posterior import NoisyEquations, ridge_weights
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.mechanism.moments import Encoding, Floats, Layout, Moments, Role

LIKELY = 2.0
"""Standard deviations of its noise by which a level's count could well be larger than estimated."""


WIDE = 3.0
"""Deviations from a label's mean to its bounds, as people declare them; with mass at both bounds it is 1."""


@dataclass(frozen=True)
class Target:
    """What is predicted, as a linear map of one coordinate: label = scale * coordinate + shift."""

    name: str
    attribute: int
    coordinate: int
    scale: float
    shift: float


def target_of(layout: Layout, family: Family, label: str | None) -> Target:
    """The declared label, or another attribute (or one of its levels) that the release has the products of."""
    place = (layout.label, None) if label is None else layout.find(label)
    if place == (layout.label, None):
        at, attribute = layout.label, layout.attributes[layout.label]
        last = layout.span(at).stop - 1
        if attribute.kind is Encoding.SIGNED:
            # The paper's logistic label stands as 1 - 2y.
            scale, shift = (1.0, 0.0) if family.identity else (-0.5, 0.5)
            return Target(str(attribute.of), at, last, scale, shift)
        scale, shift = (2.0, -1.0) if family.identity else (1.0, 0.0)
        return Target(str(attribute.of), at, last, scale, shift)
    if label is not None and place is not None:
        at, level = place
        attribute, span = layout.attributes[at], layout.span(at)
        if level is not None or attribute.kind is Encoding.SIGNED or attribute.size == 2:
            if attribute.kind is Encoding.SIGNED and not family.identity:
                raise StudyError(f"the label of a logistic regression must be a level, got numeric column {label}")
            return Target(label, at, span.stop - 1 if level is None else span.start + level, 1.0, 0.0)
        if not family.identity:
            raise StudyError(f"the label of a logistic regression must be binary or a level, got column {label}")
    raise StudyError(f"the label must be a numeric column or a level that was released, got label={label!r}")


def chosen_attributes(layout: Layout, target: Target, features: Sequence[str] | None) -> tuple[int, ...]:
    """Attributes that the model may use; by default every feature but the target."""
    if features is None:
        own = tuple(i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE and i != target.attribute)
        if not own and target.attribute != layout.label:
            label = layout.attributes[layout.label].of
            raise StudyError(f"a model of {target.name} has no feature left: name the study's label {label} as one")
        return own
    chosen: list[int] = []
    for name in features:
        found = layout.find(name, column=True)
        if found is None or found[0] == target.attribute:
            raise StudyError(f"a feature must be a released column other than the label, got {name!r}")
        chosen.append(found[0])
    return tuple(sorted(set(chosen)))


def coordinates_of(layout: Layout, attributes: Sequence[int], *, dropped: bool = False) -> list[int]:
    """Every coordinate of some attributes; with `dropped` without the level that the model leaves out."""
    return [
        layout.starts[i] + j
        for i in attributes
        for j in range(layout.attributes[i].size)
        if not dropped or j != layout.attributes[i].drop
    ]


def known_means(estimate: Estimate, columns: Sequence[int]) -> bool:
    """Whether the release tells the sum of each column, so that an intercept can be fitted."""
    return bool(np.all(np.isfinite(estimate.std[0, list(columns)])))


def raw_gram(moments: Moments, estimate: Estimate, columns: Sequence[int], centred: bool) -> tuple[Floats, Floats]:
    """The covariance of some columns as released, and its noise variance: unbiased, where the denoised one is not."""
    grid, n = np.ix_(columns, columns), moments.n
    clean = (estimate.covariance if centred else estimate.value)[grid]
    inside = moments.layout.attribute_of[list(columns)]
    own = (inside[:, None] == inside[None, :]) | ~np.isfinite(moments.std[grid])
    means = estimate.margin[list(columns)]
    noisy = moments.value[grid] - (np.outer(means, means) / n if centred else 0.0)
    std = np.where(own, 0.0, moments.std[grid])
    return np.where(own, clean, noisy) / n, (std / n) ** 2


def equations(
    moments: Moments, estimate: Estimate, columns: Sequence[int], target: Target, centred: bool
) -> NoisyEquations:
    """The normal equations of the target's coordinate on some columns, per record."""
    n, at = moments.n, target.coordinate
    second = estimate.covariance if centred else estimate.value
    right_std = estimate.std[list(columns), at]
    if not np.all(np.isfinite(right_std)):
        missing = estimate.layout.names[columns[int(np.argmax(~np.isfinite(right_std)))]]
        raise ReleaseError(f"a label needs its products with every feature, which the release lacks for {missing}")
    mean = float(np.clip(estimate.margin[at] / n, 0.0, 1.0))
    # Split sums: a covariance with one half weighs both noisy halves, by 1-mean and by mean.
    split = moments.layout.attributes[target.attribute].kind is Encoding.SIMPLEX and centred
    factor = mean**2 + (1 - mean) ** 2 if split else 1.0
    right = second[list(columns), at]
    layout = moments.layout
    if not centred and target.attribute == layout.label and layout.attributes[layout.label].size == 2:
        # Without an intercept the target is the label's distance from its middle: half of upper minus lower half.
        right, factor = 0.5 * (right - second[list(columns), at - 1]), 0.5
    grid = np.ix_(columns, columns)
    noise = np.where(np.isfinite(estimate.std[grid]), estimate.std[grid], 0.0) ** 2
    inside = moments.layout.attribute_of[list(columns)]
    noise[inside[:, None] == inside[None, :]] = 0.0
    largest = variance = max(float(second[at, at]) / n, 0.0)
    plausible = 0.0
    if not np.isfinite(estimate.std[at, at]):
        # The label's square was not released: its variance is at least what the features explain, and at most what its
        # bounds allow. A fit takes the least, and is judged by what it explains itself and what bounds leave that are
        # WIDE deviations away: else what few records have by chance would pass for what the features tell.
        largest = mean * (1 - mean) if split else 1.0
        variance = min(largest, max(float(right @ ridge_weights(second[grid], right, 0.0)) / n, 0.0))
        plausible = largest / WIDE**2 / n
    right_noise = factor * right_std**2 / n**2
    # Denoising keeps sums in their range, so the noise that is left in them is bounded, too. A small variance of the
    # target bounds no noise: what it makes implausible is left to the prior.
    largest_square = mean * (1 - mean) if split else 1.0
    ceiling = np.maximum(_ceilings(estimate, columns, largest_square, split, bool(noise.any())), 1e-300)
    right_noise = right_noise * ceiling / (right_noise + ceiling)
    return NoisyEquations(
        second[grid] / n,
        right / n,
        noise / n**2,
        right_noise,
        variance / n,
        tuple(int(i) for i in inside),
        # Bins of a number are levels with an order; a layout that does not say so has none.
        frozenset(i for i, a in enumerate(layout.attributes) if getattr(a, "ordered", False)),
        largest,
        moments.law,
        _unsure(estimate, columns),
        plausible,
    )


def _unsure(estimate: Estimate, columns: Sequence[int]) -> Floats:
    """Standard deviations of the noise on levels' counts, per record: 0 for numbers and for what is not released."""
    layout, std = estimate.layout, estimate.std[0, list(columns)]
    counted = np.array([layout.attributes[i].kind is Encoding.SIMPLEX for i in layout.attribute_of[list(columns)]])
    result: Floats = np.where(np.isfinite(std) & counted, std, 0.0) / estimate.n
    return result


def possible(system: NoisyEquations, variance: float) -> NoisyEquations:
    """The same with every covariance within reach of a target of the given variance: a constant column has none."""
    reach = np.sqrt(np.maximum(np.diag(system.gram), 0.0) * variance)
    return replace(system, right=np.clip(system.right, -reach, reach))


def _ceilings(estimate: Estimate, columns: Sequence[int], variance: float, split: bool, paired: bool) -> Floats:
    """Largest variance of the noise left in each sum with the target, per record.

    By Cauchy-Schwarz, or for a sum between 0 and a level's count, at its mean (Bhatia & Davis 2000).

    Where products of two features were released (`paired`), a level has a count that could well be: of one estimated
    at 0 the equation would else have no noise, and bind the weights of all columns that its row has products with.
    """
    layout, at = estimate.layout, list(columns)
    margins = estimate.margin[at] / estimate.n
    squares = np.maximum(np.diag(estimate.value)[at] / estimate.n - margins**2, 0.0)
    simplex = np.array([layout.attributes[i].kind is Encoding.SIMPLEX for i in layout.attribute_of[at]])
    if paired:
        std = estimate.std[0, at]
        margins = np.where(simplex, np.minimum(margins + LIKELY * std / estimate.n, 1.0), margins)
        squares = np.where(simplex, np.where(margins < 0.5, margins * (1.0 - margins), 0.25), squares)
    result: Floats = variance * np.where(simplex & split, np.minimum(margins**2, squares), squares)
    return result
