"""The scikit-learn interface: vertical regressions on one data frame whose columns belong to several parties."""

from colonnade.estimators.linear import VerticalLinearRegression, VerticalPoissonRegressor
from colonnade.estimators.logistic import VerticalLogisticRegression

__all__ = ["VerticalLinearRegression", "VerticalLogisticRegression", "VerticalPoissonRegressor"]
