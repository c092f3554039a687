"""Laws of a label. A new one is a class here, and its name in `FAMILIES`: nothing else knows which there are.

A family has a log-partition A of its natural parameters, the scores: its mean is A', and its loss A(score) - y score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Floats

STEEPEST = 30.0
"""Beyond this score the log-partition of counts goes on in a straight line."""
HIGHEST = 700.0
"""The largest score whose exponential is a number."""
MOST_CLASSES = 1000
"""Levels of a multinomial model's label: 400 take about 20 CPU seconds, and time grows with their number."""


@dataclass(frozen=True)
class LabelPlace:
    """A released column, or one of its levels, that shall be a label."""

    text: str
    column: Column
    levels: tuple[str, ...]
    """Of a column that was released by its levels or bins; empty for a number."""
    level: int | None
    """The one that the text names."""
    number: Callable[[], tuple[Floats, float]]
    """How the coordinates become the column's number in its own units."""

    def require_number(self, task: str) -> tuple[float, float]:
        """The bounds of a number."""
        if self.column.bounds is None:
            raise StudyError(f"a {task} model needs a numeric column as label, got {self.text}")
        return self.column.bounds


@dataclass(frozen=True)
class Outputs:
    """What is predicted: the label's coordinates times a matrix, plus a constant."""

    matrix: Floats
    shift: float = 0.0
    classes: tuple[str, ...] = ()


class Family(ABC):
    """A law of the label."""

    task: str
    told: str = ""
    """What scores say of the label, for a person."""
    base: str = "mean"
    """What a model without features tells."""
    bounded: bool = False
    """Whether its means are shares."""
    from_moments: bool = False
    """Whether second moments alone can give a model (`from_moments`); else plausible records do (`penalised`)."""
    identity: bool = False
    """Whether scores are the label itself: then losses are counted in units of its variance."""

    @abstractmethod
    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        """From natural parameters (records x outputs) to A of each record and its gradient."""

    @abstractmethod
    def constant(self, means: Floats) -> Floats:
        """The scores of a model without features that has these means."""

    @abstractmethod
    def variance(self, means: Floats) -> Floats:
        """The variance of outputs with these means."""

    @abstractmethod
    def outputs(self, place: LabelPlace) -> Outputs:
        """How a released column is read as a label; refuses one that cannot be."""

    @abstractmethod
    def predicted(self, scores: Floats, column: Column) -> Floats:
        """From scores to chances, or to the label in its own units."""


class Gaussian(Family):
    """A linear model of the label itself, which counts from -1 to 1."""

    task, from_moments, identity = "linear", True, True

    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        return 0.5 * (scores**2).sum(axis=1), scores

    def constant(self, means: Floats) -> Floats:
        return means

    def variance(self, means: Floats) -> Floats:
        return np.ones_like(means)

    def outputs(self, place: LabelPlace) -> Outputs:
        low, high = place.require_number(self.task)
        matrix, shift = place.number()
        half = 0.5 * (high - low)
        return Outputs(matrix / half, (shift - 0.5 * (low + high)) / half)

    def predicted(self, scores: Floats, column: Column) -> Floats:
        return column.unsigned(np.clip(scores, -1.0, 1.0))


class Bernoulli(Family):
    """One yes or no."""

    task, told, base, bounded, from_moments = "logistic", "log-odds", "share", True, True

    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        return np.logaddexp(0.0, scores).sum(axis=1), expit(scores)

    def constant(self, means: Floats) -> Floats:
        return np.log(means) - np.log1p(-means)

    def variance(self, means: Floats) -> Floats:
        return means * (1.0 - means)

    def outputs(self, place: LabelPlace) -> Outputs:
        size = len(place.levels)
        if not size or (place.level is None and size != 2):
            raise StudyError(f"the label of a logistic regression must be binary or a level, got column {place.text}")
        return Outputs(np.eye(size)[:, [1 if place.level is None else place.level]])

    def predicted(self, scores: Floats, column: Column) -> Floats:
        result: Floats = expit(scores)
        return result


class Categories(Family):
    """One of several classes."""

    task, told, base, bounded = "multinomial", "chances of the levels", "shares", True

    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        top = scores.max(axis=1, keepdims=True)
        odds = np.exp(scores - top)
        total = odds.sum(axis=1, keepdims=True)
        odds /= total
        return (top + np.log(total))[:, 0], odds

    def constant(self, means: Floats) -> Floats:
        return np.log(means)

    def variance(self, means: Floats) -> Floats:
        return means * (1.0 - means)

    def outputs(self, place: LabelPlace) -> Outputs:
        if place.level is not None or not place.levels:
            raise StudyError(f"a multinomial model needs a column with levels or bins as label, got {place.text}")
        if len(place.levels) > MOST_CLASSES:
            raise StudyError(
                f"a multinomial model takes a label of at most {MOST_CLASSES:,} levels, got {place.text} with "
                f"{len(place.levels):,}"
            )
        return Outputs(np.eye(len(place.levels)), classes=place.levels)

    def predicted(self, scores: Floats, column: Column) -> Floats:
        result: Floats = softmax(scores, axis=1)
        return result


class Counts(Family):
    """A count with a log-linear mean."""

    task, told = "poisson", "logarithm of the mean"

    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        inside = np.minimum(scores, STEEPEST)
        rate = np.exp(inside)
        return (rate * (1.0 + scores - inside)).sum(axis=1), rate

    def constant(self, means: Floats) -> Floats:
        return np.log(means)

    def variance(self, means: Floats) -> Floats:
        return means

    def outputs(self, place: LabelPlace) -> Outputs:
        low, _ = place.require_number(self.task)
        if low < 0:
            raise StudyError(f"a Poisson model needs counts from 0 up, got column {place.text} with low={low:g}")
        return Outputs(*place.number())

    def predicted(self, scores: Floats, column: Column) -> Floats:
        result: Floats = np.clip(np.exp(np.minimum(scores, HIGHEST)), *column.require_bounds())
        return result


GAUSSIAN, BERNOULLI, CATEGORIES, POISSON = Gaussian(), Bernoulli(), Categories(), Counts()
FAMILIES: dict[str, Family] = {family.task: family for family in (GAUSSIAN, BERNOULLI, CATEGORIES, POISSON)}
"""By the task that asks for each."""


def family_of(task: str) -> Family:
    """The family that a task asks for."""
    if task not in FAMILIES:
        raise StudyError(f"task must be one of {', '.join(FAMILIES)}, got task={task!r}")
    return FAMILIES[task]
