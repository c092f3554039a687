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


def test_both_equations_of_an_entry_carry_its_one_noise() -> None:
    """The covariance of E w by simulation, E a symmetric matrix of independent entries of known variances."""
    random = np.random.default_rng(5)
    variance = random.uniform(0.5, 2.0, (4, 4))
    variance = variance + variance.T
    weights = np.array([3.0, -2.0, 0.5, 0.0])
    drawn = random.standard_normal((200_000, 4, 4)) * np.sqrt(variance)
    upper = np.triu(drawn, 1)
    carried = (upper + upper.transpose(0, 2, 1)) @ weights
    np.fill_diagonal(variance, 0.0)
    system = NoisyEquations(np.eye(4), weights, variance, np.ones(4), 1e-9, (0, 1, 2, 3))
    expected = np.cov(carried.T)
    assert np.abs(system.carried(np.outer(weights, weights)) - expected).max() < 0.02 * np.abs(expected).max()


def test_columns_that_tell_little_add_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two strong columns among twenty, C seen with noise: the risk falls by a fifth; of alike ones it hardly grows."""

    def mean_loss(weights: NDArray[np.float64]) -> float:
        found = []
        for seed in range(20):
            random = np.random.default_rng(seed)
            error = np.triu(0.05 * random.standard_normal((20, 20)), 1)
            gram = np.eye(20) + error + error.T
            noise = np.full((20, 20), 0.05**2) * (1 - np.eye(20))
            right = weights + 0.1 * random.standard_normal(20)
            system = NoisyEquations(gram, right, noise, np.full(20, 0.01), 1e-9, tuple(range(20)), explainable=4.0)
            found.append(float(((posterior(system).weights - weights) ** 2).sum()))
        return float(np.mean(found))

    few, alike = np.r_[1.0, -1.0, np.zeros(18)], np.full(20, 0.3) * np.resize([1.0, -1.0], 20)
    by_scale = mean_loss(few), mean_loss(alike)
    monkeypatch.setattr("colonnade.analysis.posterior.SCALES", np.ones(1))
    together = mean_loss(few), mean_loss(alike)
    assert by_scale[0] < 0.8 * together[0]
    assert by_scale[1] < 1.1 * together[1]
