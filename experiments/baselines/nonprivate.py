"""The models without privacy: ordinary least squares and logistic regression (scikit-learn).

The paper does not say whether its non-private rows have an intercept or a penalty. X is taken as given (append a
column of ones for an intercept). Logistic regression has a ridge of 1e-4 on the sum of the losses, far below any effect
on the accuracy, because dependent columns (Dutch has some) leave the unpenalised problem without a unique solution.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

Array = NDArray[np.float64]
RIDGE = 1e-4


def fit_linear(X: Array, y: Array) -> Array:
    """Least squares; the shortest solution where the columns are dependent."""
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0], dtype=np.float64)


def fit_logistic(X: Array, y: Array, iterations: int = 300) -> Array:
    """Maximum likelihood, by Newton-Cholesky steps until the gradient is below 1e-4."""
    model = LogisticRegression(C=1.0 / RIDGE, fit_intercept=False, solver="newton-cholesky", max_iter=iterations)
    with warnings.catch_warnings():
        # Rare levels can separate the classes; the accuracy is then reached long before the weights settle.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y > 0.5)
    w: Array = model.coef_[0]
    return w
