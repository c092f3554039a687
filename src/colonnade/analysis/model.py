"""Models as they are kept and applied; nothing here makes one, so that a party's job loads no solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from colonnade.mechanism.moments import Floats

Row = tuple[float, ...]


@dataclass(frozen=True)
class FitOutcome:
    """How a model came to be, and what the gate says of it."""

    estimator: str
    """Which one made it, after any fall back: a name of `fit.RULE`, or "base rate"."""
    why: str = ""
    """What a reader has to know before using it; empty where there is nothing."""
    fell_back: bool = False
    gain: float = nan
    """By how much its loss on new records is expected to be below the base rate's; nan where it is not known."""
    error: float = nan
    """The standard deviation of that expectation."""
    because: str = ""
    """Why the rule took this estimator; empty in files from before this was said, as what follows."""
    converged: bool = True
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The request, by the parameters of `Release.solve`: the same request gives the same model."""
    used: Mapping[str, float] = field(default_factory=dict)
    """What the fit took where nothing was asked for: its columns, records, effective parameters."""


@dataclass(frozen=True)
class FittedModel:
    """A fitted model in encoded units: numerics in [-1, 1], indicators 0 or 1, a linear target in [-1, 1]."""

    task: str
    label: str
    features: tuple[str, ...]
    weights: tuple[Row, ...]
    """One row of coefficients for each output."""
    constants: Row
    """One for each output."""
    method: str
    ridge: float
    """A penalty per record that was asked for, else one with as many effective parameters; infinite for the base rate.
    It describes the fit: `outcome.asked` is what makes it again."""
    freedom: float
    """Effective number of parameters that the release decided."""
    r_squared: float = nan
    """Share of the target's variance that a linear fit explains on the records, by the release; nan where unknown."""
    r_squared_interval: tuple[float, float] | None = None
    """95% interval of `r_squared`; a model without one says nothing about its R^2."""
    classes: tuple[str, ...] = ()
    """Of a model of several classes, of which the largest score wins; each is an output."""
    outcome: FitOutcome | None = field(default=None, kw_only=True)
    """What the gate says of it; none of a model in a file from before there was one."""

    @property
    def coefficients(self) -> Row:
        """Those of the one output; of several the range over them."""
        if not self.classes:
            return self.weights[0]
        return tuple(max(column) - min(column) for column in zip(*self.weights, strict=True))

    @property
    def intercept(self) -> float:
        """Of the one output; 0 for several, which have one each."""
        return 0.0 if self.classes else self.constants[0]

    def decision(self, encoded: Floats) -> Floats:
        """The score of encoded records: predicted label of a linear model, log-odds of a logistic one."""
        result: Floats = np.asarray(encoded, dtype=np.float64) @ np.array(self.coefficients) + self.intercept
        return result

    def renamed(self, at: int, name: str, factor: float, shift: float) -> FittedModel:
        """The same function with one feature under another name, which is factor * name + shift."""
        names = (*self.features[:at], name, *self.features[at + 1 :])
        rows = tuple((*row[:at], factor * row[at], *row[at + 1 :]) for row in self.weights)
        moved = tuple(b + shift * row[at] for row, b in zip(self.weights, self.constants, strict=True))
        return replace(self, features=names, weights=rows, constants=moved)

    @property
    def is_number(self) -> bool:
        """Whether it predicts the label itself, in its own units."""
        return self.task == "linear"

    @property
    def is_log_odds(self) -> bool:
        """Whether its scores are log-odds of a yes or no."""
        return self.task == "logistic"

    def with_classes(self, classes: tuple[str, ...], task: str) -> FittedModel:
        """The same log-odds of a yes or no, as scores of its two classes that sum to 0."""
        halves = tuple(tuple(sign * w for w in self.weights[0]) for sign in (-0.5, 0.5))
        constants = (-0.5 * self.constants[0], 0.5 * self.constants[0])
        asked = self.outcome and replace(self.outcome, asked={**self.outcome.asked, "task": task})
        return replace(self, task=task, weights=halves, constants=constants, classes=classes, outcome=asked)

    @property
    def is_declared(self) -> bool:
        """Whether these are the parameters of a declared objective."""
        return self.task == DECLARED


DECLARED = "polynomial"
"""The task of a declared objective."""
