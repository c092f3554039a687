"""A logistic model is not worse than the base rate, whatever the noise, nor worse with less noise.

The whole study is `python -m experiments.paper logloss`; here is the case that an earlier solver failed most.
"""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.analysis.model import FittedModel
from experiments.data.hard import TEST, copies
from experiments.paper.logloss import MARGIN
from experiments.paper.protocol import Encoded, Replicate, Terms

pytestmark = pytest.mark.statistical


def loss(model: FittedModel, features: np.ndarray, positive: np.ndarray) -> float:
    score = model.decision(features)
    return float(np.mean(np.logaddexp(0, score) - positive * score))


def base_rate(share: float, positive: np.ndarray) -> float:
    return float(-np.mean(np.log(np.where(positive, share, 1 - share))))


def test_copies_of_numbers_do_not_make_a_model_overconfident() -> None:
    """At these epsilons only X'y and a trace are released: how far the columns vary together is unknown."""
    r = Replicate(Encoded(copies(8_000, 6, 4)), 0)
    assert r.n > TEST
    excess, before = [], 1.0
    for epsilon in (0.3, 1.0):
        own = []
        for seed in range(3):
            model = r.fit(Terms(epsilon, 0.0, 2, 1), bytes([seed]))
            own.append(loss(model, np.column_stack([r._unseen[name] for name in model.features]), r.y_test))
        excess.append(np.mean(own) - base_rate(r.y.mean(), r.y_test > 0.5))
        assert np.mean(own) <= before + MARGIN
        before = float(np.mean(own))
    assert max(excess) <= MARGIN
