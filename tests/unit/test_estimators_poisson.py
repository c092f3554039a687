"""Counts behind the scikit-learn front door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor

from colonnade import VerticalPoissonRegressor
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Numeric

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_counts_are_those_of_scikit_learn_where_noise_is_small() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.uniform(0, 10, 3000), "b": rng.uniform(-1, 1, 3000)})
    y = np.minimum(rng.poisson(np.exp(0.5 + 0.15 * X["a"] - 0.4 * X["b"])), 40)
    ours = VerticalPoissonRegressor(
        1000.0,
        parties={"p": ["a"], "q": ["b"]},
        schema={"a": Numeric(0, 10), "b": Numeric(-1, 1)},
        label=Numeric(0, 40),
        product="plain",
        random_state=1,
    )
    known = PoissonRegressor(alpha=0.0).fit(X, y)
    found = clone(ours).fit(X, y)
    assert np.allclose(found.coef_, known.coef_, atol=0.06) and found.encoded_feature_names_.tolist() == ["a", "b"]
    assert np.mean(np.abs(found.predict(X) / known.predict(X) - 1)) < 0.06
    assert found.score(X, y) > 0.3


@pytest.mark.parametrize("wrong", [{}, {"label": Numeric(-1, 1)}, {"label": Numeric(0, 1), "fit_intercept": False}])
def test_what_a_poisson_regression_needs(wrong: dict[str, object]) -> None:
    with pytest.raises(StudyError, match="a Poisson regression"):
        VerticalPoissonRegressor(product="plain", **wrong).fit(np.zeros((9, 2)), np.zeros(9))  # type: ignore[arg-type]
