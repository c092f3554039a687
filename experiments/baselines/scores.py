"""Scores of a weight vector, and of the models that look at no feature."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def with_intercept(X: Array) -> Array:
    """X with a last column of ones; the baselines weigh it like any other column."""
    return np.column_stack([X, np.ones(len(X))])


def accuracy(X: Array, y: Array, w: Array) -> float:
    """Share of records on the right side of x'w = 0; a tie counts as class 0."""
    return float(np.mean((X @ w > 0) == (y > 0.5)))


def mse(X: Array, y: Array, w: Array) -> float:
    """Mean squared error of x'w."""
    return float(np.mean((X @ w - y) ** 2))


def majority_accuracy(y_train: Array, y_test: Array) -> float:
    """Accuracy of always saying the training data's larger class."""
    return float(np.mean((y_test > 0.5) == (np.mean(y_train) > 0.5)))


def trivial_mse(y: Array) -> float:
    """Mean squared error of w = 0."""
    return float(np.mean(y**2))


def mean_mse(y_train: Array, y_test: Array) -> float:
    """Mean squared error of the training data's mean."""
    return float(np.mean((y_test - np.mean(y_train)) ** 2))
