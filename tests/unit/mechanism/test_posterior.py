"""The posterior of the weights: shapes of the prior are weighed by the data, and the noise bounds the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.analysis.posterior import POWERS, NoisyEquations, posterior, prior_shapes

VARIANCES = np.concatenate([np.full(12, 0.25), np.full(12, 0.0025)])


def equations_of(weights: NDArray[np.float64], noise: float, seed: int) -> NoisyEquations:
    """Independent columns, half of them common and half of them rare, seen with noise on the right-hand side."""
    gram = np.diag(VARIANCES)
    right = gram @ weights + noise * np.random.default_rng(seed).standard_normal(24)
    return NoisyEquations(gram, right, np.zeros((24, 24)), np.full(24, noise**2), 1e-9, tuple(range(24)))


def risk(weights: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
    return float((weights - fitted) ** 2 @ VARIANCES)


def mean_risk(power: float, powers: tuple[float, ...]) -> float:
    """Over draws of weights whose variance is that power of the columns' variance."""
    found = []
    for seed in range(40):
        weights = np.random.default_rng(1000 + seed).standard_normal(24) * VARIANCES ** (-0.5 * power)
        found.append(risk(weights, posterior(equations_of(weights, 0.05, seed), powers).weights))
    return float(np.mean(found))


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_shapes_are_weighed_by_the_data(power: float) -> None:
    """Averaging over both shapes is near the right one, whichever that is, and the wrong one is worse."""
    right, wrong = (mean_risk(power, (p,)) for p in (power, 0.5 - power))
    both = mean_risk(power, POWERS)
    assert both < 1.1 * right
    assert both < wrong


def test_alike_columns_have_one_shape() -> None:
    assert len(prior_shapes(0.3 * np.eye(5), range(5))) == 1
    assert len(prior_shapes(np.diag([0.3, 0.1]), range(2))) == 2


def test_weights_stay_within_what_can_be_explained() -> None:
    """Noise of any size, pure noise: what the fit claims to explain stays below the target's variance."""
    for seed in range(20):
        for noise in (0.01, 1.0, 100.0):
            bounded = replace(equations_of(np.zeros(24), noise, seed), explainable=0.1)
            weights = posterior(bounded).weights
            assert weights**2 @ VARIANCES < 0.2


def test_a_level_whose_count_noise_hides_is_not_taken_for_a_rare_one() -> None:
    shares = np.array([0.6, 0.4 - 1e-7, 1e-7])
    gram = np.diag(shares) - np.outer(shares, shares)
    sure = NoisyEquations(gram, np.zeros(3), np.zeros((3, 3)), np.zeros(3), 1e-9, (0, 0, 0))
    unsure = replace(sure, unsure=np.full(3, 0.002))
    (alone,), (wary,) = (prior_shapes(e.possible_gram, e.groups, powers=(0.5,)) for e in (sure, unsure))
    assert alone[2, 2] > 50 * wary[2, 2]
    for e in (sure, unsure):
        assert np.abs(e.possible_gram.sum(axis=0)).max() < 1e-12
