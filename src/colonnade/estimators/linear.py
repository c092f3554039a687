"""Linear regression behind the scikit-learn interface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from colonnade.analysis.families import POISSON
from colonnade.analysis.question import Question
from colonnade.estimators.vertical import ASSUMED, Floats, Vertical
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.objective import Task


class VerticalLinearRegression(RegressorMixin, Vertical):  # type: ignore[misc]
    """Differentially private least squares over columns that several parties hold.

    Every `fit` spends `epsilon` anew, so `cross_val_score` with k folds spends k times.

    Parameters
    ----------
    epsilon : the record's epsilon (top-down), or {party: epsilon} (bottom-up).
    delta : 0 for discrete Laplace noise, above 0 for discrete Gaussian.
    split : bottom-up: {party: {"own": epsilon, other party: epsilon}}, how a party spreads what it allows. What is not
        named is proposed so that the noise that matters is least.
    parties : {party: columns of X, by name or position}; None: those of a `Schema`, else one party holds everything.
    schema : {column, by name or position: Numeric | Categorical | Binary | Boolean | Date or its declared form}, a
        `Schema`, or one `Numeric` for every column. None: every feature is taken to lie in [-1, 1], with a warning;
        bounds are never computed from data. It declares the columns of X and the label, and nothing else. Where X is an
        array without names, as many of a pipeline's steps give it, its columns are those of the schema in order, with a
        warning; a step's `set_output(transform="pandas")` keeps names.
    norms : {party: public bound on the length of its numeric features, each scaled to [-1, 1]}; None: those of a
        `Schema`, if any. They lower the noise of a trace release with delta above 0.
    label : the label's public bounds, `Numeric(low, high)` or its declared form, or its name in the schema.
        None: [-1, 1], with a warning.
    label_party : who holds the label; None: the first party.
    collusion : how many parties may pool what they see with the server; None: 1, or 0 for a single party.
    product : "lattice", "bgn", or "plain" (simulation).
    calibration : "exact" or "paper".
    release : "full": all second moments. "label": products with the label, margins and squares. "trace": products
        with the label, and one sum of squares for each party. "auto": the one of least predicted risk.
    label_square : also release the square of a numeric label, for R².
    method : "default", "zhang" or "raw": how the noisy moments are solved.
    fit_intercept : without one the model passes through the middle of all declared ranges.
    ridge : penalty per record in encoded units; None: chosen from the noise.
    random_state : None: the operating system's randomness. Anything else seeds the noise: a simulation without
        privacy, and the release says so.
    consent : {party: {"policy": file, "ledger": file, "dataset": name}}: the party's policy is asked before anything is
        spent, and its ledger books the spend. A party that is not named agrees to whatever is asked of it.

    Attributes
    ----------
    coef_, intercept_ : in the units of X and y, for the columns `encoded_feature_names_`: a numeric column is one of
        them, a categorical one has an indicator for each level but a dropped one.
    spent_ : {"fits", "epsilon", "delta"} of all fits of this object so far; on the same records epsilons add up. The
        second fit warns once, unless `consent` names a ledger, which counts by itself.
    clipped_ : {party: {column: how many of its values lay outside its bounds}}, for the party's own eyes.
    plan_ : what was promised, as `colonnade plan --json` prints it.
    release_ : the noisy moments; everything else was computed from them.
    model_ : the model in encoded units.
    intervals_ : 95% intervals in the units of X and y, of the full model or a reduced one (docs/uncertainty.md);
        they are computed when asked for.
    schema_ : every party's public columns, label included.
    """

    _task = Task.LINEAR

    def _target(self, y: Any) -> tuple[Column, Any]:
        return self._declared_label() or ASSUMED, np.asarray(y, dtype=np.float64)

    def _units(self) -> tuple[float, float]:
        column = self.schema_.columns[self.schema_.find(self._label_name)]
        low, high = column.require_bounds()
        return (high - low) / 2, (high + low) / 2

    def _store(self, coefficients: Floats, intercepts: Floats) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])

    def predict(self, X: Any) -> Floats:
        """The label in its own units, clipped to its declared range."""
        score = np.clip(self._score(X), -1.0, 1.0)
        half, middle = self._units()
        result: Floats = middle + half * score
        return result


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

    def _question(self) -> Question:
        return replace(super()._question(), task=POISSON.task)

    def _units(self) -> tuple[float, float]:
        return 1.0, 0.0

    def predict(self, X: Any) -> Floats:
        """The mean count, within the label's declared range."""
        column = self.schema_.columns[self.schema_.find(self._label_name)]
        return POISSON.predicted(self._score(X), column)
