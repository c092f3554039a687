"""The gate before every model: it converged, and the release says that it is better than the label's mean alone.

A model with weights w and scores s has on new records the loss E A(s) - E ys, A being its family's log-partition; the
base rate has that of a constant. E ys follows from the released covariances c. The weights have followed the noise on
them, so that w'c is too large by what noise is expected to have put into it (Stein 1981): that is taken off. The law of
the features is that of plausible records. All of it is post-processing. Losses are in nats per record: of classes the
log-loss, of counts Poisson's, of numbers half of the squared error over the variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, hypot, inf, nan, pi, sqrt

import numpy as np
from scipy.special import ndtr

from colonnade.analysis.families import FAMILIES, Family
from colonnade.analysis.glm import FeatureLaw
from colonnade.analysis.model import FitOutcome, FittedModel
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import bisect

BASE_RATE = "base rate"
"""The estimator of a model without features."""
FAINTEST = 0.05
"""Scores of which noise leaves nothing keep this standard deviation, and with it their order: it costs 0.0003 nats."""
STEPS = 30
MATCHING = 30
WORTH = 0.002
"""Nats: a cost below this is not told."""
SURE, USUAL = 0.4, 0.1
"""So many deviations an expected gain must be above 0, when gains have a normal law of the second spread beforehand:
where the error is much larger, it is the noise that makes an expected gain large."""
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
    bounds: tuple[float, float] | None = None
    """Of a number, less its mean: predictions beyond them are clipped."""

    def cost(self, part: float = 1.0) -> tuple[float, float, Floats]:
        """E A for this part of the weights, less what it is without any; its derivative; the constants."""
        scores, target = self.law.records @ self.weights, self.family.constant(self.means)
        b = target
        for _ in range(MATCHING):
            _, gradient = self.family.partition(part * scores + b)
            step = target - self.family.constant(self.law.weights @ gradient)
            b = b + step
            if np.abs(step).max() < 1e-9:
                break
        value, gradient = self.family.partition(part * scores + b)
        bent = float(self.family.variance(self.means) @ (self.weights * (self.law.gap @ self.weights)).sum(axis=0))
        none = float(self.family.partition(target[None, :])[0][0])
        cost = float(self.law.weights @ value) - none - float(self.means @ (b - target)) + 0.5 * part**2 * bent
        return cost, float(self.law.weights @ (gradient * scores).sum(axis=1)) + part * bent, b

    def clipped(self) -> tuple[float, float]:
        """What clipped predictions keep of <w, c>, and their cost; predictions are taken as normal (Stein 1981)."""
        cost = self.cost()[0]
        if self.bounds is None or not cost > 0.0:
            return 1.0, cost
        low, high = np.array(self.bounds) / sqrt(2.0 * cost)
        inside = float(ndtr(high) - ndtr(low))
        edges = float(low * _density(low) - high * _density(high) + low**2 * ndtr(low) + high**2 * ndtr(-high))
        return inside, cost * (inside + edges)

    @property
    def gain(self) -> float:
        kept, cost = self.clipped()
        return (kept * min(self.reached, self.most) - cost) / self.unit

    @property
    def error(self) -> float:
        """That of the covariance, and of what the label's means cost: half of a normal error's square, so expected."""
        return hypot(self.clipped()[0] * self.noise, sqrt(2.0) * self.blur) / self.unit

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
        low, _ = bisect(lambda part: self.cost(part)[1] < self.reached, 0.0, 1.0, STEPS)
        scores = self.law.records @ self.weights
        spread = float(np.sqrt(np.max(self.law.weights @ scores**2, initial=0.0)))
        return max(low, min(1.0, FAINTEST / max(spread, 1e-300)))


def _density(at: float) -> float:
    """Of the normal law."""
    return exp(-0.5 * at**2) / sqrt(2.0 * pi)


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
    # A share is between 0 and 1: noise beyond that says no more of it.
    known = np.minimum(std**2, 1.0 / 12.0) if family.bounded else std**2
    return 0.5 * float(np.sum(known / family.variance(means)))


@dataclass(frozen=True)
class Found:
    """What an estimator made of a release, before it is judged."""

    model: FittedModel
    evidence: Prospect | None = None
    """What the release says of it; None where it does not tell enough."""
    told: str = ""
    """What its estimator has to say of it."""
    converged: bool = True
    stopped: str = ""
    """Why a minimiser stopped, where it did not call that a success."""


def accepted(found: Found, outcome: FitOutcome) -> FittedModel:
    """The model with its outcome; in the place of one that did not converge the label's mean or shares alone."""
    model, evidence = found.model, found.evidence
    base = f"the {base_of(model.task)} of {model.label} alone"
    numbers = np.concatenate([np.ravel(model.weights), model.constants])
    if not found.converged or not np.isfinite(numbers).all():
        stopped = f" ({found.stopped})" if found.stopped else ""
        told = f"{outcome.estimator} has not converged on this release{stopped}: the model is {base}, whatever the "
        return _without_features(found, replace(outcome, why=f"{told}features are"))
    if evidence is None:
        return replace(model, outcome=replace(outcome, why=found.told))
    gain, error, why = evidence.gain, evidence.error, found.told
    if not why and not gain - evidence.blur / evidence.unit > SURE * error * hypot(1.0, error / USUAL):
        why = f"the release does not show that this model is better than {base}: {_expected(evidence)}"
    return replace(model, outcome=replace(outcome, why=why, gain=gain, error=error))


def base_of(task: str) -> str:
    """What a model of this task without features tells."""
    return FAMILIES[task].base if task in FAMILIES else "mean"


def _expected(evidence: Prospect) -> str:
    told = f"on new records it is expected to gain {evidence.gain:.2g} nats a record, give or take {evidence.error:.2g}"
    if (blur := evidence.blur / evidence.unit) > WORTH:
        told += f", and the noise on the label's own counts or mean costs about {blur:.2g}"
    if evidence.guessed:
        told += "; how much the label varies was not released: label_square = true would tell more"
    return told


def _without_features(found: Found, outcome: FitOutcome) -> FittedModel:
    model = found.model
    none = np.zeros(len(model.constants))
    constants = none if found.evidence is None else found.evidence.family.constant(found.evidence.means)
    rows = tuple((0.0,) * len(model.features) for _ in constants)
    fallen = replace(outcome, estimator=BASE_RATE, fell_back=True, gain=0.0, error=0.0, converged=False)
    return replace(
        model, weights=rows, constants=tuple(float(b) for b in constants), freedom=0.0,
        r_squared=nan, r_squared_interval=None, outcome=fallen,
    )  # fmt: skip
