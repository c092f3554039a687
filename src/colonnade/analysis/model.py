"""Models as they are kept and applied; nothing here makes one, so that a party's job loads no solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

import numpy as np
from scipy.special import expit

from colonnade.foundation.errors import StudyError
from colonnade.mechanism.moments import Floats
from colonnade.mechanism.objective import Task


@dataclass(frozen=True)
class Acceptance:
    """How a model came to be, and what the gate says of it."""

    estimator: str
    """Which one made it, after any fall back."""
    why: str = ""
    """What a reader has to know before using it; empty where there is nothing."""
    fell_back: bool = False
    gain: float = nan
    """By how much its loss on new records is expected to be below the base rate's; nan where it is not known."""
    error: float = nan
    """The standard deviation of that expectation."""


@dataclass(frozen=True)
class FittedModel:
    """A fitted model in encoded units: numerics in [-1, 1], indicators 0 or 1, a linear target in [-1, 1]."""

    task: str
    label: str
    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    intercept: float
    method: str
    ridge: float
    """Penalty per record with as many effective parameters as the fit used; infinite for the trivial model."""
    freedom: float
    """Effective number of parameters that the release decided."""
    r_squared: float
    """Share of the target's variance that a linear fit explains on the records, by the release; nan where unknown."""
    r_squared_interval: tuple[float, float] | None = None
    """95% interval of `r_squared`; a model without one says nothing about its R^2."""
    outcome: Acceptance | None = field(default=None, kw_only=True)
    """What the gate says of it; none of a model in a file from before there was one."""

    def decision(self, encoded: Floats) -> Floats:
        """Predicted label of a linear model, log-odds of a logistic one."""
        result: Floats = np.asarray(encoded, dtype=np.float64) @ np.array(self.coefficients) + self.intercept
        return result

    def predict(self, encoded: Floats) -> Floats:
        """Label clipped to its public range, or probability of the positive class."""
        if self.task == Task.POLYNOMIAL.value:
            raise StudyError("a declared objective has parameters and no scores")
        value = self.decision(encoded)
        result: Floats = np.clip(value, -1.0, 1.0) if self.task == Task.LINEAR.value else expit(value)
        return result


@dataclass(frozen=True)
class ClassModel(FittedModel):
    """A model of several classes: a score for each, of which the largest wins; `coefficients` are their ranges."""

    classes: tuple[str, ...] = ()
    by_class: tuple[tuple[float, ...], ...] = ()
    """One row of coefficients for each class."""
    intercepts: tuple[float, ...] = ()
