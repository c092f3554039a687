"""Logistic regression behind the scikit-learn front door."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from colonnade.estimators.frames import classes_of
from colonnade.estimators.vertical import Floats, Vertical
from colonnade.foundation.errors import DataError, SchemaError
from colonnade.foundation.schema import Binary, Column
from colonnade.mechanism.objective import Task


class VerticalLogisticRegression(ClassifierMixin, Vertical):  # type: ignore[misc]
    """Differentially private logistic regression (two classes) over columns that several parties hold.

    Every `fit` spends `epsilon` anew, so `cross_val_score` with k folds spends k times. Parameters and attributes are
    those of `VerticalLinearRegression`, but for these:

    label : the two classes, `Binary(levels)` or its declared form, or the label's name in the schema. None: the classes
        are those that occur in y, and which they are counts as public.
    classes_ : the two classes, sorted; `coef_` and `decision_function` speak of the second.
    coef_, intercept_ : of the log-odds, with shapes (1, features) and (1,).
    """

    _task = Task.LOGISTIC

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _target(self, y: Any) -> tuple[Column, Any]:
        check_classification_targets(y)
        label = self._declared_label()
        if label is not None and label.positive is None:
            raise SchemaError(f"the label of a logistic regression must be binary, got {label}")
        self.classes_ = np.unique(y) if label is None else classes_of(label, y)
        # scikit-learn's contract asks for ValueError here.
        if label is None and type_of_target(y) != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        if len(self.classes_) != 2:
            raise ValueError(
                f"a logistic regression needs 2 classes in y or declared, got 1 class, {self.classes_[0]!r}"
            )
        low, high = (str(value) for value in self.classes_)
        codes = np.searchsorted(self.classes_, y).clip(max=1)
        if np.any(self.classes_[codes] != y):
            raise DataError(f"y must hold the declared classes {low!r} and {high!r} only")
        fill = None if label is None or label.fill is None else str(label.fill)
        return Binary((low, high), fill), np.array([low, high], dtype=object)[codes]

    def _store(self, coefficients: Floats, intercept: float) -> None:
        self.coef_, self.intercept_ = coefficients[None, :], np.array([intercept])

    def decision_function(self, X: Any) -> Floats:
        """The log-odds of the second class."""
        return self._score(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class."""
        positive = self.decision_function(X) > 0
        likelier: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return likelier

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        decision = self.decision_function(X)
        return np.column_stack([expit(-decision), expit(decision)])

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of `predict_proba`."""
        decision = self.decision_function(X)
        return -np.logaddexp(0.0, np.column_stack([decision, -decision]))
