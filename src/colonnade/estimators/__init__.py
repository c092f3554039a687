"""The scikit-learn front door: vertical regressions on one data frame whose columns belong to several parties."""

from colonnade.estimators.linear import VerticalLinearRegression
from colonnade.estimators.logistic import VerticalLogisticRegression
from colonnade.estimators.poisson import VerticalPoissonRegressor

__all__ = ["VerticalLinearRegression", "VerticalLogisticRegression", "VerticalPoissonRegressor"]
