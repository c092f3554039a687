"""Logistic regression behind the scikit-learn interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from colonnade.estimators.frames import classes_of
from colonnade.estimators.vertical import Floats, Vertical
from colonnade.foundation.errors import DataError, SchemaError, StudyError
from colonnade.foundation.schema import Binary, Categorical, Column, Storage
from colonnade.mechanism.objective import Task


class VerticalLogisticRegression(ClassifierMixin, Vertical):  # type: ignore[misc]
    """Differentially private logistic regression over columns that several parties hold, of two or more classes.

    Every `fit` spends `epsilon` anew, so `cross_val_score` with k folds spends k times. Several classes come from one
    release, as two do. Parameters and attributes are those of `VerticalLinearRegression`, but for these:

    label : the classes, `Binary(levels)`, `Categorical(levels)` or a declared form, or the label's name in the schema.
        None: the classes are those that occur in y, and which they are counts as public.
    ridge, method, fit_intercept : with more than two classes there is an intercept and the default method.
    classes_ : the classes, sorted; of two, `coef_` and `decision_function` speak of the second.
    coef_, intercept_ : of the log-odds, with shapes (1, features) and (1,), or of k > 2 classes with a row for each,
        which sum to 0.
    """

    _task = Task.LOGISTIC

    def _session_task(self) -> Task:
        return Task.LOGISTIC if len(self.classes_) == 2 else Task.MULTINOMIAL

    def _target(self, y: Any) -> tuple[Column, Any]:
        check_classification_targets(y)
        label = self._declared_label()
        if label is not None and (label.storage is not Storage.LEVELS or len(label.all_levels) < 2):
            raise SchemaError(f"the label of a logistic regression must have two or more levels, got {label}")
        self.classes_ = np.unique(y) if label is None else classes_of(label, y)
        # scikit-learn's contract asks for ValueError here.
        if type_of_target(y) not in ("binary", "multiclass"):
            raise ValueError(f"y must hold one class for each record. The type of the target is {type_of_target(y)}.")
        if len(self.classes_) < 2:
            raise ValueError(
                f"a logistic regression needs 2 classes in y or declared, got 1 class, {self.classes_[0]!r}"
            )
        levels = [str(value) for value in self.classes_]
        codes = np.searchsorted(self.classes_, y).clip(max=len(levels) - 1)
        if np.any(self.classes_[codes] != y):
            told = f"{', '.join(map(repr, levels[:-1]))} and {levels[-1]!r}"
            raise DataError(f"y must hold the declared classes {told} only")
        fill = None if label is None or label.fill is None else str(label.fill)
        column: Column = Categorical(tuple(levels), fill=fill)
        if len(levels) == 2:
            column = Binary((levels[0], levels[1]), fill)
        else:
            self._check_several()
        return column, np.array(levels, dtype=object)[codes]

    def _check_several(self) -> None:
        """Refuse before the spend what several classes do not have."""
        if self.method != "default" or not self.fit_intercept:
            raise StudyError("a regression of several classes has an intercept and the default method, and no other")

    def _store(self, coefficients: Floats, intercepts: Floats) -> None:
        self.coef_, self.intercept_ = coefficients, intercepts

    def decision_function(self, X: Any) -> Floats:
        """The log-odds of the second of two classes, or a score for each of several."""
        return self._score(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class."""
        decision = self.decision_function(X)
        chosen = decision.argmax(axis=1) if decision.ndim == 2 else (decision > 0).astype(np.intp)
        likeliest: NDArray[Any] = self.classes_[chosen]
        return likeliest

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        chances: Floats = np.exp(self.predict_log_proba(X))
        return chances

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of `predict_proba`."""
        decision = self.decision_function(X)
        if decision.ndim == 2:
            logs: Floats = log_softmax(decision, axis=1)
            return logs
        return -np.logaddexp(0.0, np.column_stack([decision, -decision]))
