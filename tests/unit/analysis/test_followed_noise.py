"""What of w'c a fit has followed of the noise, beside the mean over many draws of that noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.analysis.posterior import NoisyEquations, followed_noise, posterior


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
