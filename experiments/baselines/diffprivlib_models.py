"""diffprivlib's own centralised models (Holohan et al. 2019), where the library is installed.

diffprivlib 0.6.6 asks for scikit-learn below 1.8, which this project does not; run these rows in an environment of
their own. `missing()` gives the reason why they cannot run here, or None.

Logistic regression: objective perturbation after Chaudhuri, Monteleoni and Sarwate 2011, pure epsilon, for records of
L2 norm at most B (public). Linear regression: the functional mechanism after Zhang et al. 2012, pure epsilon. Its
formulas use a lower bound in the upper one's place (issues 104 and 105 of its tracker), so that bounds (0, 1) would
release the diagonal without noise; with the symmetric bounds (-1, 1) and no intercept the promise holds, and only
that is run here. X is taken as given: append a column of ones for an intercept. The accounting is the library's own.

Left open: the penalty of its logistic regression; the default C = 1 is kept.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError

Array = NDArray[np.float64]


def missing() -> str | None:
    """Why diffprivlib cannot run in this environment, or None when it can."""
    try:
        found = version("diffprivlib")
    except PackageNotFoundError:
        return "diffprivlib is not installed: it needs scikit-learn below 1.8, so give it an environment of its own"
    learn = version("scikit-learn")
    if tuple(int(part) for part in learn.split(".")[:2]) >= (1, 8):
        return f"diffprivlib {found} needs scikit-learn below 1.8, got {learn}"
    return None


def fit_logistic(X: Array, y: Array, epsilon: float, B: float, seed: int) -> Array:
    """Logistic regression; B bounds the L2 norm of every row of X."""
    model = _models().LogisticRegression(
        epsilon=epsilon, data_norm=B, fit_intercept=False, random_state=seed, max_iter=300
    )
    w: Array = model.fit(X, y > 0.5).coef_[0]
    return w


def fit_linear(X: Array, y: Array, epsilon: float, seed: int) -> Array:
    """Linear regression with features and label in [-1, 1]."""
    model = _models().LinearRegression(
        epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=seed
    )
    w: Array = model.fit(X, y).coef_
    return w


def _models() -> Any:
    reason = missing()
    if reason is not None:
        raise StudyError(reason)
    return import_module("diffprivlib.models")
