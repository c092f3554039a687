"""The scikit-learn front door: vertical regressions on one data frame whose columns belong to several parties."""

from colonnade.estimators.poisson import VerticalPoissonRegressor
from colonnade.estimators.regression import VerticalLinearRegression, VerticalLogisticRegression

__all__ = ["VerticalLinearRegression", "VerticalLogisticRegression", "VerticalPoissonRegressor"]
