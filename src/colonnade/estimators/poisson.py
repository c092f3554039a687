"""Poisson regression behind the scikit-learn front door: a session as for a linear model, solved for counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.analysis.model import FittedModel
from colonnade.analysis.models import Question, answer
from colonnade.analysis.released import Released
from colonnade.estimators.linear import VerticalLinearRegression
from colonnade.estimators.vertical import Floats
from colonnade.foundation.errors import StudyError


class VerticalPoissonRegressor(VerticalLinearRegression):
    """Differentially private regression of counts, with a log-linear mean, over columns that several parties hold.

    Parameters and attributes are those of `VerticalLinearRegression`, but for these: `label` must be declared with
    bounds from 0 up; `method` and `fit_intercept` keep their defaults; `ridge` is the penalty per record;
    `coef_` and `intercept_` are those of the mean's logarithm.
    """

    def _check_solver(self) -> None:
        super()._check_solver()
        if self.method != "default" or not self.fit_intercept:
            raise StudyError("a Poisson regression has an intercept and the default method, and takes no other")
        label = self._declared_label()
        if label is None or label.bounds is None or label.bounds[0] < 0:
            raise StudyError(
                f"a Poisson regression needs declared bounds of its label from 0 up, got label={self.label!r}"
            )

    def _solve(self) -> FittedModel:
        question = Question(self._label_name, "poisson", strength=self.ridge)
        return answer(Released(self.release_), question)

    def _units(self) -> tuple[float, float]:
        return 1.0, 0.0

    def predict(self, X: Any) -> Floats:
        """The mean count, within the label's declared range."""
        column = self.schema_.columns[self.schema_.find(self._label_name)]
        mean: Floats = np.clip(np.exp(np.minimum(self._score(X), 700.0)), *column.require_bounds())
        return mean
