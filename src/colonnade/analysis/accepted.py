"""The gate before every model: it converged, and the release says that it is better than the label's mean alone.

A model with weights w and scores s has on new records the loss E A(s) - E ys, A being its family's log-partition; the
base rate has that of a constant. E ys follows from the released covariances c. The weights have followed the noise on
them, so that w'c is too large by what noise is expected to have put into it (Stein 1981): that is taken off. The law of
the features is that of plausible records. All of it is post-processing. Losses are in nats per record: of classes the
log-loss, of counts Poisson's, of numbers half of the squared error over the variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, inf, isfinite, nan, sqrt
from typing import Any, TypeVar

import numpy as np

from colonnade.analysis.glm import GAUSSIAN, Family, FeatureLaw
from colonnade.analysis.model import Acceptance
from colonnade.mechanism.moments import Floats

M = TypeVar("M")
"""A model: `model.FittedModel`, which holds what is made here, or one of several classes."""
FAINTEST = 0.05
"""Scores of which noise leaves nothing keep this standard deviation, and with it their order: it costs 0.0003 nats."""
STEPS = 30
MATCHING = 30
WORTH = 0.002
"""Nats: a gain below this is none."""
SURE = 0.5
"""So many standard deviations of its own error an expected gain must be above that."""
NODES = np.polynomial.hermite_e.hermegauss(40)
"""Of a normal law: points and weights."""


@dataclass(frozen=True)
class Prospect:
    """A fit, and what the release says of its scores."""

    law: FeatureLaw
    family: Family
    means: Floats
    """Of the label's outputs."""
    weights: Floats
    """Features x outputs, of centred features."""
    reached: float
    """<w, c> by the released covariances, without what is expected to be noise in it."""
    noise: float
    """The standard deviation of the noise on <w, c>."""
    blur: float = 0.0
    """What the noise on the label's own means is expected to cost."""
    unit: float = 1.0
    """What losses are divided by: of a number its variance."""
    most: float = inf
    """<w, c> by covariances that are shrunk by their noise, where weights were made of these: no more is believed."""
    guessed: bool = False
    """Whether the label's variance was not released."""

    def cost(self, part: float = 1.0) -> tuple[float, float, Floats]:
        """E A for this part of the weights, less what it is without any; its derivative; the constants."""
        scores, target = self.law.records @ self.weights, self.family.constant(self.means)
        b = target
        for _ in range(MATCHING):
            _, gradient = self.family.law(part * scores + b)
            step = target - self.family.constant(self.law.weights @ gradient)
            b = b + step
            if np.abs(step).max() < 1e-9:
                break
        value, gradient = self.family.law(part * scores + b)
        bent = float(self.family.variance(self.means) @ (self.weights * (self.law.gap @ self.weights)).sum(axis=0))
        none = float(self.family.law(target[None, :])[0][0])
        cost = float(self.law.weights @ value) - none - float(self.means @ (b - target)) + 0.5 * part**2 * bent
        return cost, float(self.law.weights @ (gradient * scores).sum(axis=1)) + part * bent, b

    @property
    def gain(self) -> float:
        return (min(self.reached, self.most) - self.cost()[0]) / self.unit

    @property
    def error(self) -> float:
        """That of the covariance, and of what the label's means cost: half of a normal error's square, so expected."""
        return hypot(self.noise, sqrt(2.0) * self.blur) / self.unit

    def scaled(self, part: float) -> Prospect:
        """The same of this part of the weights."""
        reached, most, noise = part * self.reached, part * self.most, part * self.noise
        return replace(self, weights=part * self.weights, reached=reached, most=most, noise=noise)

    def believed(self) -> float:
        """The part of the weights that has the least expected loss; where that is none, so much that they keep order.

        It is 1 where more than all of them would be better: shrinking is for noise to do, not for this.
        """
        if self.cost(1.0)[1] <= self.reached:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.cost(middle)[1] < self.reached else (low, middle)
        scores = self.law.records @ self.weights
        spread = float(np.sqrt(np.max(self.law.weights @ scores**2, initial=0.0)))
        return max(low, min(1.0, FAINTEST / max(spread, 1e-300)))


def along(weights: Floats, gram: Floats) -> FeatureLaw:
    """Features whose score is normal: points on the line along which it varies."""
    points, chances = NODES
    direction = gram @ weights
    spread = max(float(weights @ direction), 1e-300)
    records = np.outer(points, direction / np.sqrt(spread))
    return FeatureLaw(records, chances / chances.sum(), np.zeros_like(gram))


def quadratic(gram: Floats) -> FeatureLaw:
    """Features of which a linear model needs the covariance alone."""
    return FeatureLaw(np.zeros((1, len(gram))), np.ones(1), gram)


def blur_of(family: Family, means: Floats, std: Floats) -> float:
    """What errors of the label's means cost, in the family's loss: half of their square over the variance."""
    if family is GAUSSIAN:
        return 0.5 * float(np.sum(std**2))
    # A share is between 0 and 1: noise beyond that says no more of it.
    known = np.minimum(std**2, 1.0 / 12.0) if family.bounded else std**2
    return 0.5 * float(np.sum(known / family.variance(means)))


BASE = {"logistic": "share", "multinomial": "shares"}


def accepted(
    model: M, estimator: str, evidence: Prospect | None = None, *, converged: bool = True, known: str = ""
) -> M:
    """The model with its outcome; in the place of one that did not converge the label's mean or shares alone.

    `known` is what its estimator has to say of it.
    """
    fields: Any = model
    base = f"the {BASE.get(fields.task, 'mean')} of {fields.label} alone"
    numbers = [*fields.coefficients, fields.intercept, *np.ravel(getattr(model, "by_class", ()))]
    if not converged or not all(isfinite(number) for number in numbers):
        told = f"{estimator} has not converged on this release: the model is {base}, whatever the features are"
        fallen: M = _without_features(fields, evidence, told)
        return fallen
    if evidence is None:
        unknown: M = replace(fields, outcome=Acceptance(estimator, known))
        return unknown
    gain, error = evidence.gain, evidence.error
    why = known
    if not why and not gain - evidence.blur / evidence.unit > WORTH + SURE * error:
        why = f"the release does not show that this model is better than {base}: {_expected(evidence)}"
    judged: M = replace(fields, outcome=Acceptance(estimator, why, False, gain, error))
    return judged


def _expected(evidence: Prospect) -> str:
    told = f"on new records it is expected to gain {evidence.gain:.2g} nats a record, give or take {evidence.error:.2g}"
    if (blur := evidence.blur / evidence.unit) > WORTH:
        told += f", and the noise on the label's own counts or mean costs about {blur:.2g}"
    if evidence.guessed:
        told += "; how much the label varies was not released: label_square = true would tell more"
    return told


def _without_features(model: Any, evidence: Prospect | None, why: str) -> Any:
    constants = np.zeros(1) if evidence is None else evidence.family.constant(evidence.means)
    outcome = Acceptance(BASE.get(model.task, "mean"), why, True, 0.0, 0.0)
    none = replace(model, coefficients=(0.0,) * len(model.features), intercept=float(constants[0]), outcome=outcome)
    none = replace(none, freedom=0.0, r_squared=nan, r_squared_interval=None)
    if not hasattr(model, "by_class"):
        return none
    rows = tuple(none.coefficients for _ in constants)
    return replace(none, intercept=0.0, by_class=rows, intercepts=tuple(float(b) for b in constants))
