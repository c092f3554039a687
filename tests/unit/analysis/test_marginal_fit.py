"""Weights of features that stand alone: the posterior mean by definition, sparse truths, and Laplace tails."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.analysis import marginal_fit
from colonnade.analysis.marginal_fit import Separate, separate_weights
from colonnade.analysis.posterior import NoisyEquations, posterior
from colonnade.mechanism.moments import Distribution, Floats

SQUARE = 0.3


def system(right: Floats, std: float, law: Distribution | None, explainable: float = 1.0) -> NoisyEquations:
    width = len(right)
    zero, groups = np.zeros((width, width)), tuple(range(width))
    return NoisyEquations(
        SQUARE * np.eye(width), right, zero, np.full(width, std**2), 1e-8, groups, explainable=explainable, law=law
    )


def drawn(random: np.random.Generator, law: Distribution, std: float, width: int) -> Floats:
    noise = (
        random.normal(size=width) if law is Distribution.GAUSSIAN else random.laplace(scale=np.sqrt(0.5), size=width)
    )
    return np.asarray(std * noise)


@pytest.mark.parametrize("law", list(Distribution))
def test_one_spread_and_share_give_the_posterior_mean(law: Distribution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against sums over a fine grid of weights, prior times likelihood."""
    part, spread, std, sampling = 0.3, 0.8, 0.1, 0.01
    monkeypatch.setattr(marginal_fit, "PARTS", (part,))
    monkeypatch.setattr(marginal_fit, "SPREADS", np.array([spread]))
    right = np.array([0.02, -0.15, 0.4, 1.2])
    found, _, _ = separate_weights(Separate(np.full(4, SQUARE), right, np.full(4, std**2), sampling, float("inf"), law))
    errors = np.linspace(-3, 3, 12001)
    normal = np.exp(-(errors**2) / (2 * sampling * SQUARE))
    noise = (
        np.exp(-(errors**2) / (2 * std**2))
        if law is Distribution.GAUSSIAN
        else np.exp(-np.abs(errors) * np.sqrt(2) / std)
    )
    density = np.convolve(normal / normal.sum(), noise / noise.sum(), mode="same")
    grid = np.linspace(-6, 6, 6001)
    prior = np.exp(-(grid**2) / (2 * spread**2))
    expected, chances = [], []
    for c in right:
        # The share of zeros, and t = 0 beside the one spread, each with its own part of the prior.
        slab = part * prior / prior.sum() * np.interp(c - SQUARE * grid, errors, density, left=0, right=0)
        chances.append((slab.sum(), (1 - part) * np.interp(c, errors, density), part * np.interp(c, errors, density)))
        expected.append((slab @ grid) / (slab.sum() + chances[-1][1]))
    # Both cases of t share the evidence of all numbers.
    with_spread = np.prod([a + b for a, b, _ in chances])
    without = np.prod([b + c for _, b, c in chances])
    assert found == pytest.approx(np.array(expected) * with_spread / (with_spread + without), rel=2e-3)


@pytest.mark.parametrize("law", list(Distribution))
def test_sparse_weights_are_found_and_others_not_lost(law: Distribution) -> None:
    random = np.random.default_rng(3)
    width, std = 400, 0.1
    for part, most in ((0.05, 0.5), (1.0, 1.03)):
        ours, normal = 0.0, 0.0
        for _ in range(3):
            w = np.where(random.random(width) < part, random.normal(size=width) / np.sqrt(part), 0.0)
            right = SQUARE * w + drawn(random, law, std, width)
            reach = 2 * SQUARE * width
            ours += float(((posterior(system(right, std, law, reach)).weights - w) ** 2).sum())
            normal += float(((posterior(system(right, std, None, reach)).weights - w) ** 2).sum())
        assert ours < most * normal


def test_the_peak_of_laplace_noise_is_used() -> None:
    """Of weak normal weights under loud Laplace noise the law itself tells more than its variance does."""
    random = np.random.default_rng(4)
    width, std = 4000, 1.0
    w = random.normal(size=width) * 0.3 * std / SQUARE
    right = SQUARE * w + drawn(random, Distribution.LAPLACE, std, width)
    reach = 0.2 * width
    left = [
        ((posterior(system(right, std, law, reach)).weights - w) ** 2).sum() / (w @ w)
        for law in (Distribution.LAPLACE, None)
    ]
    assert 1 - left[0] > 1.3 * (1 - left[1]) > 0.05
