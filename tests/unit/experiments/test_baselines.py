"""Baselines: each one's promise is checked on neighbours, and each one learns when the budget is no limit."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from colonnade.foundation.errors import PrivacyError, StudyError
from experiments.baselines import (
    accounting,
    adassp,
    block_frank_wolfe,
    diffprivlib_models,
    frank_wolfe,
    functional,
    nonprivate,
    private_sgd,
    scores,
)

ENOUGH = 1e9


def regression(n=2000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    w = rng.uniform(-0.3, 0.3, d) / d
    return X, np.clip(X @ w + 0.05 * rng.standard_normal(n), -1, 1), w


def classes(n=4000, d=5, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    w = rng.standard_normal(d)
    return X, (rng.random(n) < 1 / (1 + np.exp(-8 * X @ w))).astype(float)


def neighbours(rng, d, label):
    """Two values of the one record that differs; corners are likely, they are the worst case."""
    x, z = (np.clip(rng.normal(0, 2, d), -1, 1) for _ in range(2))
    return x, z, label(rng), label(rng)


def epsilon_of(events, delta):
    accountant = PLDAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


# Functional mechanism


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_functional_sensitivity_is_never_exceeded(task):
    rng = np.random.default_rng(0)
    d = 4
    label = (lambda g: float(g.choice([-1.0, 1.0]))) if task == "linear" else (lambda g: float(g.integers(2)))

    def coefficients(x, y):
        q = functional.objective(x[None, :], np.array([y]), task)
        upper = np.triu(q.M) + np.triu(q.M, 1)
        constant = [y * y] if task == "linear" else []
        return np.concatenate([q.a, upper[np.triu_indices(d)], constant])

    moved = 0.0
    for _ in range(3000):
        x, z, u, v = neighbours(rng, d, label)
        moved = max(moved, np.abs(coefficients(x, u) - coefficients(z, v)).sum())
    assert 0.3 * functional.sensitivity(d, task) < moved <= functional.sensitivity(d, task)


def test_functional_noise_has_the_stated_scale_on_every_distinct_monomial():
    d, scale, draws = 3, 2.0, 20_000
    rng = np.random.default_rng(5)
    zero = functional.Quadratic(np.zeros(d), np.zeros((d, d)))
    drawn = [functional.perturb(zero, scale, rng) for _ in range(draws)]
    a = np.abs([q.a for q in drawn]).mean()
    diagonal = np.abs([np.diag(q.M) for q in drawn]).mean()
    # The coefficient of w_0 w_1 is M_01 + M_10.
    cross = np.abs([q.M[0, 1] + q.M[1, 0] for q in drawn]).mean()
    for mean in (a, diagonal, cross):
        assert mean == pytest.approx(scale, rel=0.03)
    assert all(np.array_equal(q.M, q.M.T) for q in drawn[:10])


@pytest.mark.parametrize("repair", [True, False])
def test_functional_without_noise_is_least_squares(repair):
    X, y, _ = regression()
    rng = np.random.default_rng(2)
    fit = functional.fit_repaired(X, y, "linear", ENOUGH, rng)
    if not repair:
        printed = functional.fit_printed(X, y, "linear", ENOUGH, rng)
        assert printed.bounded
        fit = printed.w
    assert np.allclose(fit, nonprivate.fit_linear(X, y), atol=1e-6)


def test_printed_fit_says_when_there_is_no_minimum():
    saddle = functional.Quadratic(np.array([1.0, 1.0]), np.diag([1.0, -1.0]))
    fit = functional.stationary_point(saddle)
    assert not fit.bounded
    assert np.allclose(2 * saddle.M @ fit.w, -saddle.a)


def test_trimming_leaves_no_weight_on_a_dropped_direction():
    noisy = functional.Quadratic(np.array([1.0, 1.0]), np.diag([1.0, -5.0]))
    w = functional.regularise_and_trim(noisy, ridge=1.0)
    assert w[1] == 0
    assert w[0] == pytest.approx(-1 / (2 * 2.0))


# Accounting


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-4), (1.0, 1e-5), (10.0, 1e-5)])
def test_gaussian_mu_spends_what_was_given_and_no_more(epsilon, delta):
    mu = accounting.gaussian_mu(epsilon, delta)
    assert accounting.gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    # dp_accounting measures replacement as twice the unit of the noise.
    spent = epsilon_of([dp_accounting.GaussianDpEvent(2 / mu)], delta)
    assert spent == pytest.approx(epsilon, rel=0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-4), (1.0, 1e-5), (10.0, 1e-5)])
def test_zcdp_rho_inverts_its_conversion(epsilon, delta):
    rho = accounting.zcdp_rho(epsilon, delta)
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) == pytest.approx(epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_accounting_refuses_parameters_that_promise_nothing(epsilon, delta):
    with pytest.raises(PrivacyError, match="must"):
        accounting.zcdp_rho(epsilon, delta)
    with pytest.raises(PrivacyError, match="must"):
        accounting.gaussian_mu(epsilon, delta)


def test_an_exponential_mechanism_costs_at_most_an_eighth_of_its_square():
    rng = np.random.default_rng(7)
    e, worst = 0.8, 0.0
    for _ in range(500):
        score = rng.normal(0, 3, 6)
        moved = score + rng.choice([-1.0, 1.0], 6)
        p, q = (np.exp(v * e / 2) / np.exp(v * e / 2).sum() for v in (score, moved))
        for alpha in (1.5, 2.0, 8.0):
            worst = max(worst, np.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1) / alpha)
    assert 0.5 * e**2 / 8 < worst <= e**2 / 8


# AdaSSP


def test_adassp_noise_keeps_epsilon_on_its_three_sensitivities():
    B, epsilon, delta = 1.7, 1.0, 1e-5
    bounds = (B * B, math.sqrt(2) * B * B, 2 * B)
    rng = np.random.default_rng(3)
    G = rng.standard_normal((40, 3))
    G = G.T @ G
    moved = np.zeros(3)
    for _ in range(2000):
        x, z = (v * B / np.linalg.norm(v) for v in rng.standard_normal((2, 3)))
        change = np.outer(x, x) - np.outer(z, z)
        low = np.linalg.eigvalsh(G + np.outer(z, z))[0] - np.linalg.eigvalsh(G + np.outer(x, x))[0]
        u, v = rng.choice([-1.0, 1.0], 2)
        upper = np.linalg.norm(change[np.triu_indices(3)])
        moved = np.maximum(moved, [abs(low), upper, np.linalg.norm(x * u - z * v)])
    assert (moved <= bounds).all()
    deviations = adassp.deviations(epsilon, delta, B)
    events = [dp_accounting.GaussianDpEvent(2 * s / b) for s, b in zip(deviations, bounds, strict=True)]
    assert epsilon_of(events, delta) == pytest.approx(epsilon, rel=0.01)


def test_adassp_with_a_large_budget_is_least_squares():
    X, y, _ = regression()
    w = adassp.fit(X, y, 1e6, 1e-6, np.random.default_rng(0))
    assert np.allclose(w, nonprivate.fit_linear(X, y), atol=1e-3)


# Frank-Wolfe


def test_frank_wolfe_score_sensitivity_is_never_exceeded_and_nearly_reached():
    rng = np.random.default_rng(11)
    n, d, radius = 10, 3, 1.5
    bound = frank_wolfe.score_sensitivity(radius, n)
    moved = 0.0
    for _ in range(4000):
        w = rng.dirichlet(np.full(d, 0.3)) * radius * rng.choice([-1.0, 1.0], d)
        x, z, u, v = neighbours(rng, d, lambda g: float(g.choice([-1.0, 1.0])))
        change = ((x @ w - u) * x - (z @ w - v) * z) / n
        moved = max(moved, radius * np.abs(change).max())
    assert 0.9 * bound < moved <= bound


def test_noisy_vertex_draws_the_exponential_mechanism():
    gradient, radius, temperature = np.array([0.3, -0.1]), 2.0, 0.7
    rng = np.random.default_rng(13)
    seen: dict[tuple[int, float], int] = {}
    draws = 20_000
    for _ in range(draws):
        vertex = frank_wolfe.noisy_vertex(gradient, radius, temperature, rng)
        seen[vertex] = seen.get(vertex, 0) + 1
    weight = {(j, s * radius): math.exp(-s * radius * gradient[j] / temperature) for j in (0, 1) for s in (-1, 1)}
    for vertex, value in weight.items():
        assert seen[vertex] / draws == pytest.approx(value / sum(weight.values()), abs=0.015)


def test_frank_wolfe_stays_in_the_ball_and_converges():
    X, y, _ = regression()
    fitted = frank_wolfe.fit(X, y, 1e6, 1e-6, np.random.default_rng(0), steps=2000)
    assert np.abs(fitted).sum() <= frank_wolfe.RADIUS + 1e-12
    assert np.allclose(fitted, nonprivate.fit_linear(X, y), atol=0.01)
    private = frank_wolfe.fit(X, y, 0.1, 1e-4, np.random.default_rng(0))
    assert np.abs(private).sum() <= frank_wolfe.RADIUS + 1e-12
    assert not np.allclose(private, fitted, atol=0.01)


def test_steps_grow_with_the_budget_between_their_limits():
    steps = [frank_wolfe.steps_for(2000, epsilon) for epsilon in (1e-4, 0.1, 1.0, 100.0)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == frank_wolfe.STEPS


@pytest.mark.parametrize("K", [2, 3])
def test_block_frank_wolfe_keeps_every_party_in_its_ball_and_learns(K):
    X, y, _ = regression(n=20_000)
    parties = [list(map(int, part)) for part in np.array_split(np.arange(6), K)]
    fitted = block_frank_wolfe.fit(X, y, parties, 1e7, 1e-6, np.random.default_rng(0), steps=600)
    for part in parties:
        assert np.abs(fitted[part]).sum() <= frank_wolfe.RADIUS / K + 1e-12
    least = scores.mse(X, y, nonprivate.fit_linear(X, y))
    assert scores.mse(X, y, fitted) < least + 0.5 * (scores.trivial_mse(y) - least)


def test_shared_columns_cost_what_the_plan_says():
    rho, columns = 0.02, 7
    n, m = 300, 40
    project = block_frank_wolfe.Projection(n, m, np.random.default_rng(1))
    x = np.random.default_rng(2).uniform(-1, 1, n)
    z = x.copy()
    x[17], z[17] = 1.0, -1.0
    change = project(x) - project(z)
    assert np.count_nonzero(change) == 1
    squared = columns * float(change @ change)
    sigma = block_frank_wolfe.sharing_deviation(rho, columns)
    assert squared / (2 * sigma**2) == pytest.approx(rho)


@pytest.mark.parametrize("owns_label", [True, False])
def test_choice_sensitivity_is_never_exceeded_and_nearly_reached(owns_label):
    rng = np.random.default_rng(23)
    n, d, m, ball = 8, 2, 3, 0.5
    share = 0.0
    for s in range(1500):
        project = block_frank_wolfe.Projection(n, m, np.random.default_rng(s))
        residual = rng.normal(0, 1, m)
        w = rng.dirichlet(np.full(d, 0.3)) * ball * rng.choice([-1.0, 1.0], d)
        first = rng.choice([-1.0, 1.0], (n, d + 1))
        second = first.copy()
        second[3] = rng.choice([-1.0, 1.0], d + 1)

        def score(table, project=project, residual=residual, w=w):
            X, y = table[:, :d], table[:, d]
            own = X.T @ (X @ w - (y if owns_label else 0.0))
            return ball * (np.column_stack([project(column) for column in X.T]).T @ residual + own) / n

        bound = block_frank_wolfe.choice_sensitivity(ball, residual, owns_label, n)
        share = max(share, np.abs(score(first) - score(second)).max() / bound)
    assert 0.9 < share <= 1 + 1e-12


def test_projection_keeps_inner_products_on_average():
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0, 1, (2, 500))
    kept = [
        project(a) @ project(b)
        for project in (block_frank_wolfe.Projection(500, 60, np.random.default_rng(s)) for s in range(400))
    ]
    spread = np.linalg.norm(a) * np.linalg.norm(b) * math.sqrt(2 / 60)
    assert np.mean(kept) == pytest.approx(a @ b, abs=5 * spread / math.sqrt(400))


# DPSGD


def test_gradient_noise_has_the_stated_length_and_no_direction():
    d, epsilon = 4, 0.5
    rng = np.random.default_rng(17)
    drawn = np.array([private_sgd.gradient_noise(d, epsilon, rng) for _ in range(20_000)])
    lengths = np.linalg.norm(drawn, axis=1)
    assert lengths.mean() == pytest.approx(2 * d / epsilon, rel=0.02)
    assert lengths.var() == pytest.approx(d * (2 / epsilon) ** 2, rel=0.06)
    assert np.abs(drawn.mean(axis=0)).max() < 5 * 2 * d / epsilon / math.sqrt(20_000)


def test_private_sgd_sees_a_record_in_one_batch_only():
    X, y = classes(n=200)
    other = X.copy()
    other[11] = -other[11]
    whole = [private_sgd.fit(A, y, ENOUGH, np.random.default_rng(4), batch=200) for A in (X, other)]
    # One step of 200 records: the summed unit gradients move by at most 2, the weights by at most 2 R^2/(200 R).
    R = math.sqrt(X.shape[1])
    assert 0 < np.linalg.norm(whole[0] - whole[1]) <= 2 * R * R / (200 * R)


def test_private_sgd_learns_with_a_large_budget_and_fails_with_none():
    X, y = classes()
    rich = private_sgd.fit(X, y, ENOUGH, np.random.default_rng(0))
    assert scores.accuracy(X, y, rich) > 0.8
    poor = [scores.accuracy(X, y, private_sgd.fit(X, y, 1e-4, np.random.default_rng(s))) for s in range(10)]
    assert np.mean(poor) < 0.7


# Models without privacy, scores, diffprivlib


def test_nonprivate_models_find_the_truth():
    X, y, w = regression()
    assert np.allclose(nonprivate.fit_linear(X, y), w, atol=0.01)
    X, y = classes()
    assert scores.accuracy(X, y, nonprivate.fit_logistic(X, y)) > 0.85


def test_nonprivate_logistic_takes_dependent_columns():
    X, y = classes()
    twice = np.column_stack([X, X[:, 0]])
    assert np.isfinite(nonprivate.fit_logistic(twice, y)).all()


def test_scores_of_models_that_look_at_no_feature():
    y = np.array([0.0, 0.0, 1.0, 0.0])
    assert scores.majority_accuracy(y, y) == 0.75
    assert scores.trivial_mse(y) == 0.25
    assert scores.mean_mse(y, y) == pytest.approx(y.var())
    assert scores.with_intercept(np.zeros((2, 3))).tolist() == [[0, 0, 0, 1], [0, 0, 0, 1]]


def test_diffprivlib_runs_or_says_why_not():
    X, y = classes()
    reason = diffprivlib_models.missing()
    if reason is None:
        w = diffprivlib_models.fit_logistic(X, y, 1e6, math.sqrt(X.shape[1]), seed=0)
        assert scores.accuracy(X, y, w) > 0.8
    else:
        assert "scikit-learn" in reason
        with pytest.raises(StudyError, match=r"below 1\.8"):
            diffprivlib_models.fit_logistic(X, y, 1.0, 3.0, seed=0)
