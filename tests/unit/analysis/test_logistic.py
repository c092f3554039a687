"""A logistic fit from second moments, against the likelihood's own maximum on the same records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from colonnade.analysis import logistic
from colonnade.analysis.families import BERNOULLI
from colonnade.analysis.glm import FeatureLaw, Penalty, Prior, fit_moments
from colonnade.analysis.logistic import SHAPES, WIDEST, cautious, discriminant, log_odds
from colonnade.analysis.posterior import Fit, NoisyEquations, posterior

Floats = NDArray[np.float64]
N = 6000


def records_of(seed: int, *, indicators: bool = True) -> Floats:
    """Two dependent numbers, and where asked a rare level that depends on them."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(-1, 1, N)
    second = np.clip(0.5 * first + 0.5 * rng.standard_normal(N), -1, 1)
    rare = rng.random(N) < 0.06 * (1 + first)
    return np.column_stack([first, second, rare] if indicators else [first, second])


def equations_of(records: Floats, target: Floats, noise: float = 0.0) -> NoisyEquations:
    """The normal equations of these records, with as much noise as stated on every entry."""
    rng = np.random.default_rng(1)
    centred, width = records - records.mean(axis=0), records.shape[1]
    gram = centred.T @ centred / N
    right = centred.T @ target / N + noise * rng.standard_normal(width)
    spread = float(target.var())
    squares = np.full((width, width), noise**2)
    groups, added = tuple(range(width)), np.full(width, noise**2)
    return NoisyEquations(gram, right, squares, added, spread / N, groups, explainable=0.25)


def drawn(records: Floats, weights: Floats, constant: float, seed: int = 2) -> Floats:
    chance = expit(constant + records @ weights)
    return (np.random.default_rng(seed).random(N) < chance).astype(float)


def fitted(records: Floats, target: Floats, noise: float = 0.0) -> logistic.LogOdds:
    equations = equations_of(records, target, noise)
    start = posterior(equations, SHAPES)
    return log_odds(equations, start, float(target.mean()), records, np.full(N, 1 / N), N)


def test_without_noise_it_is_the_likelihoods_own_maximum() -> None:
    records = records_of(0)
    target = drawn(records, np.array([1.5, -1.0, 2.5]), -0.5)
    best = LogisticRegression(C=np.inf).fit(records, target)
    odds = fitted(records, target)
    # The prior shrinks by what sampling alone makes uncertain.
    assert odds.fit.weights == pytest.approx(best.coef_[0], abs=0.15)
    constant = odds.intercept - odds.fit.weights @ records.mean(axis=0)
    assert constant == pytest.approx(best.intercept_[0], abs=0.1)


def test_it_is_nearer_to_the_maximum_than_the_discriminant() -> None:
    """Of a rare level, Gaussian classes tell a wrong weight; that is what the features' law is for."""
    records = records_of(3)
    target = drawn(records, np.array([0.5, 0.5, 4.0]), -1.0)
    best = LogisticRegression(C=np.inf).fit(records, target).coef_[0]
    equations = equations_of(records, target)
    plain = discriminant(equations, posterior(equations), float(target.mean()), 0.0, False)
    error = np.linalg.norm(fitted(records, target).fit.weights - best)
    assert error < 0.5 * np.linalg.norm(plain.fit.weights - best)


def test_gaussian_classes_are_told_apart_by_the_discriminant() -> None:
    rng = np.random.default_rng(4)
    target = (rng.random(N) < 0.3).astype(float)
    apart = np.array([0.8, -0.4])
    records = rng.standard_normal((N, 2)) + np.outer(target, apart)
    equations = equations_of(records, target)
    weights = np.linalg.solve(equations.gram, equations.right)
    odds = discriminant(equations, Fit(weights, 1.0, 2.0), float(target.mean()), 0.0, False)
    # With unit covariance the true log-odds have the difference of the means as weights.
    assert odds.fit.weights == pytest.approx(apart, abs=0.1)
    constant = odds.intercept - odds.fit.weights @ records.mean(axis=0)
    assert constant == pytest.approx(logit(0.3) - 0.5 * apart @ apart, abs=0.15)


def test_more_noise_means_smaller_weights_down_to_the_share_alone() -> None:
    records = records_of(5)
    target = drawn(records, np.array([1.5, -1.0, 2.5]), -0.5)
    sizes = [float(np.linalg.norm(fitted(records, target, noise).fit.weights)) for noise in (0.0, 0.05, 10.0)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 0.05 * sizes[0]


def test_a_fit_of_nothing_keeps_the_share() -> None:
    records = records_of(6)
    equations = equations_of(records, np.zeros(N))
    nothing = Fit(np.zeros(3), 0.0, 0.0)
    odds = log_odds(equations, nothing, 0.2, records, np.full(N, 1 / N), N)
    assert odds.intercept == pytest.approx(logit(0.2)) and not odds.fit.weights.any()


def test_classes_that_a_line_separates_stay_finite() -> None:
    records = records_of(7, indicators=False)
    target = (records[:, 0] > 0.1).astype(float)
    odds = fitted(records, target)
    spread = float(np.std(records @ odds.fit.weights))
    assert np.isfinite(odds.fit.weights).all() and 1.0 < spread <= 1.01 * WIDEST


def test_the_mean_probability_is_the_share() -> None:
    records = records_of(8)
    target = drawn(records, np.array([1.0, 1.0, -2.0]), 0.3)
    odds = fitted(records, target)
    score = odds.intercept + (records - records.mean(axis=0)) @ odds.fit.weights
    assert expit(score).mean() == pytest.approx(target.mean(), abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_caution_is_never_worse_than_the_share(seed: int) -> None:
    """Where of C the trace alone is known: the log-loss stays below that of the share."""
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((4, 4))
    records = rng.standard_normal((N, 4)) @ mix / np.linalg.norm(mix, 2)
    target = drawn(records, rng.standard_normal(4), -0.7, seed)
    share = float(target.mean())
    equations = equations_of(records, target)
    known = np.eye(4) * float(np.trace(equations.gram)) / 4
    weights = np.linalg.solve(known, equations.right)
    odds = cautious(
        NoisyEquations(known, equations.right, equations.gram_noise, equations.right_noise, 0.0, (0, 1, 2, 3)),
        Fit(weights, 1.0, 4.0),
        share,
        0.0,
        1.0,
    )

    def loss(chance: Floats) -> float:
        return float(-np.mean(target * np.log(chance) + (1 - target) * np.log1p(-chance)))

    assert loss(expit(odds.intercept + records @ odds.fit.weights)) < loss(np.full(N, share))


def test_moved_records_have_the_covariance_that_was_released() -> None:
    rng = np.random.default_rng(9)
    records = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 3))
    records -= records.mean(axis=0)
    sample = records.T @ records / 500
    wanted = np.diag([0.5, 2.0, 1.0]) + 0.2
    moved = records @ logistic._transport(sample, wanted)
    assert moved.T @ moved / 500 == pytest.approx(wanted)
    assert logistic._transport(sample, sample) == pytest.approx(np.eye(3))


def test_log_odds_that_are_mostly_noise_are_shrunk_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that say next to nothing, and much noise on their products with the label."""
    rng = np.random.default_rng(5)
    records = rng.choice([-1.0, 1.0], (N, 40))
    target = drawn(records, 0.1 * rng.standard_normal(40), -1.4)
    share, equations = float(target.mean()), equations_of(records, target)
    right = equations.right + 0.03 * np.random.default_rng(0).standard_normal(40)
    equations = replace(equations, right=right, right_noise=np.full(40, 0.03**2))
    start, even = posterior(equations, SHAPES), np.full(N, 1 / N)
    shrunk = log_odds(equations, start, share, records, even, N).fit.weights
    monkeypatch.setattr(logistic, "_believed", lambda *_: (1.0, 0.0))
    whole = log_odds(equations, start, share, records, even, N).fit.weights
    assert np.linalg.norm(whole) > 0
    assert shrunk == pytest.approx(logistic.FAINTEST * whole, rel=1e-6)


def test_log_odds_that_are_clear_are_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    records = records_of(0)
    target = drawn(records, np.array([1.5, -1.0, 2.5]), -0.5)
    found = fitted(records, target, 0.002)
    monkeypatch.setattr(logistic, "_believed", lambda *_: (1.0, 0.0))
    assert fitted(records, target, 0.002).fit.weights == pytest.approx(found.fit.weights, rel=1e-12)


def test_a_sparse_fit_goes_on_where_the_optimiser_stops_before_its_equations_are_met() -> None:
    """Along the bound of a weight it stops at 1e-4, and calls that converged."""
    rng = np.random.default_rng(40)
    x = rng.integers(0, 2, (2000, 5)).astype(float)
    x[:, 0] = rng.uniform(-1, 1, 2000)
    x -= x.mean(axis=0)
    truth = 6.0 * rng.standard_normal((5, 1))
    chance, even = expit(x @ truth), np.full(2000, 1 / 2000)
    right = x.T @ (chance - chance.mean()) / 2000
    penalty, pull = Penalty(np.full(5, 1e-5), np.full(5, 1e-5)), Prior(np.eye(5), np.array([1e-7]), truth * 0.3)
    pull = replace(pull, centre=np.clip(pull.centre, -2, 2))
    law = FeatureLaw(x, even, np.zeros((5, 5)))
    found = fit_moments(law, right, chance.mean(axis=0), BERNOULLI, penalty, pull)
    # The conditions of the minimum, written out: the slope is the penalty's where a weight is not 0.
    fitted = expit(x @ found.weights + found.constants)
    slope = x.T @ (fitted - chance) / 2000 + 1e-5 * found.weights + 1e-7 * (found.weights - pull.centre)
    kept = found.weights != 0
    assert np.abs(slope + 1e-5 * np.sign(found.weights))[kept].max() < 1e-6
    assert np.abs(slope)[~kept].max(initial=0.0) < 1.1e-5
