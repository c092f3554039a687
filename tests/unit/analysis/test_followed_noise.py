"""What of w'c a fit has followed of the noise, beside the mean over many draws of that noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.analysis.posterior import (
    NoisyEquations,
    followed_by_ridge,
    followed_noise,
    posterior,
    ridge_weights,
)


def test_a_ridge_follows_no_noise_along_the_sum_of_levels() -> None:
    """Levels of 2/10, 3/10 and 5/10 and a number: products with the levels sum to 0, with their noise."""
    shares, ridge = np.array([0.2, 0.3, 0.5]), 0.01
    gram = np.zeros((4, 4))
    gram[:3, :3] = np.diag(shares) - np.outer(shares, shares)
    gram[3, 3] = 0.25
    noise = np.full(4, 1e-4)
    system = NoisyEquations(gram, np.array([0.02, 0.01, -0.03, 0.05]), np.zeros((4, 4)), noise, 1e-12, (0, 0, 0, 1))
    rng = np.random.default_rng(1)
    drawn = rng.normal(0, 0.01, (20_000, 4))
    drawn[:, :3] -= drawn[:, :3].mean(axis=1, keepdims=True)
    weights = (system.right + drawn) @ np.linalg.inv(gram + ridge * np.eye(4))
    expected = float((weights * drawn).sum(axis=1).mean())
    told = followed_by_ridge(system, ridge_weights(gram, system.right, ridge), ridge)
    assert told == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("signal", [0.0, 0.02])
def test_noise_that_chose_the_spread_counts(signal: float) -> None:
    """Five numbers of variance 1 and noise of .01: the mean over draws of w'(c - its truth)."""
    gram, noise = np.eye(5), np.full(5, 1e-4)
    truth = np.full(5, signal)
    system = NoisyEquations(gram, truth, np.zeros((5, 5)), noise, 1e-12, tuple(range(5)), explainable=1.0)
    rng = np.random.default_rng(2)
    followed, told = [], []
    for e in rng.normal(0, 0.01, (300, 5)):
        seen = replace(system, right=truth + e)
        fit = posterior(seen)
        followed.append(float(fit.weights @ e))
        told.append(followed_noise(seen, fit))
    assert np.mean(told) == pytest.approx(np.mean(followed), rel=0.15)
