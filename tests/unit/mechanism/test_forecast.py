"""What noise will do, foretold: against simulated noise, and that it warns."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.mechanism.dissection import dissect
from colonnade.mechanism.forecast import Forecast, forecast, share_left
from colonnade.mechanism.objective import Task, exact_objective
from colonnade.mechanism.plan import PrivacyPlan, Terms, plan_top_down
from tests.helpers.adversary import signed_layout


def plan_of(epsilon: float, d: int = 5) -> PrivacyPlan:
    layout = signed_layout([d + 1])
    return plan_top_down(layout, dissect(exact_objective(layout)), epsilon, Terms(Task.LINEAR))


def test_noise_to_signal_goes_with_one_over_n_and_epsilon() -> None:
    base = forecast(plan_of(1.0), 1000).noise_to_signal
    assert base is not None
    assert forecast(plan_of(1.0), 2000).noise_to_signal == pytest.approx(base / 2)
    assert forecast(plan_of(2.0), 1000).noise_to_signal == pytest.approx(base / 2, rel=1e-5)
    assert (forecast(plan_of(1.0, 10), 1000).noise_to_signal or 0) > base


def test_rows_needed_is_where_the_ratio_is_one() -> None:
    told = forecast(plan_of(0.5), None)
    assert told.noise_to_signal is None and told.explained is None and not told.hopeless
    at = forecast(plan_of(0.5), told.rows_needed).noise_to_signal
    # Rounded up to whole rows.
    assert at == pytest.approx(1.0, rel=1 / told.rows_needed) and at <= 1.0
    # Where numbers fill a tenth of their bounds, noise is ten times the signal: 1 / (1 + 10 / 1.1) is left.
    assert forecast(plan_of(0.5), told.rows_needed).hopeless
    assert not forecast(plan_of(0.5), told.rows_needed * 2).hopeless


def test_the_ratio_is_that_of_drawn_noise() -> None:
    """Uniform features and label: the norm of whitened noise on X'y against n sd(y)."""
    plan, n, d = plan_of(1.0), 500, 5
    label = next(i for i in plan.blocks if i.block.role.value == "label")
    generator = np.random.default_rng(0)
    noise = generator.laplace(0, float(label.scale), (4000, d))
    drawn = np.sqrt((noise**2 * 3).sum(axis=1).mean()) / (n / np.sqrt(3))
    assert forecast(plan, n).noise_to_signal == pytest.approx(drawn, rel=0.05)


def test_what_noise_leaves() -> None:
    """Half at a ratio of 1.1; between 1 / (1 + 7 / 3) and 1 / (1 + 3 / 7)."""
    assert share_left(1.1) == pytest.approx((0.3, 0.5, 0.7))
    assert share_left(0.0) == (1.0, 1.0, 1.0) and Forecast(1.0, 10).left is None
    assert share_left(1.1, (0.2, 0.7)) == pytest.approx((1 / (1 + 7 / 3 / 0.64**0.75), 1 / (1 + 0.64**-0.375), 0.7))


def test_the_rarer_a_class_the_less_is_left() -> None:
    for ratio in (0.1, 1.0, 10.0):
        shares = [share_left(ratio, (p, p)).middle for p in (0.5, 0.2, 0.05, 0.01)]
        assert shares == sorted(shares, reverse=True)
        assert share_left(ratio, (0.8, 0.8)).middle == pytest.approx(shares[1])


def test_columns_that_fill_a_tenth_of_their_bounds_carry_a_tenth_of_the_signal() -> None:
    told = forecast(plan_of(1.0), 1000)
    assert told.noise_to_signal is not None and told.narrow == pytest.approx(10 * told.noise_to_signal)
    assert told.explained == pytest.approx(1 / (1 + told.narrow / 1.1))
    assert forecast(plan_of(1.0), None).narrow is None
