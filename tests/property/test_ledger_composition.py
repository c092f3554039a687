"""What a cap admits is private as promised, by dp-accounting's numerical composition and by exact adaptive games."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, log

import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, RandomizedResponseDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from colonnade.foundation.errors import LedgerError, PrivacyError
from colonnade.mechanism.accounting import epsilon_of_gaussian, gaussian_rho
from colonnade.mechanism.composition import (
    MOST_SESSIONS,
    Cap,
    Charge,
    Rule,
    require_room,
    rho_of_pure,
    rho_of_stated,
    total,
)

INTERVAL = 1e-4
TAIL = 1e-13
"""More than the mass that dp-accounting cuts off a composed loss."""
DELTAS = st.sampled_from([1e-8, 1e-6, 1e-4])


def gaussian(epsilon: float, delta: float) -> Charge:
    return Charge(epsilon, delta, rho_of_stated(epsilon, delta))


def pure(epsilon: float) -> Charge:
    return Charge(epsilon, 0.0, rho_of_pure(epsilon))


def composed_delta(charges: list[Charge], epsilon: float) -> float:
    """The exact delta at epsilon of the worst mechanisms that make these charges: Gaussians and randomised responses.

    Gaussians join into one by rotation, whose curve is dp-accounting's; the responses' losses are enumerated.
    """
    rho = sum(c.rho for c in charges if c.delta > 0 and c.rho is not None)
    losses = [(1.0, 0.0)]
    for charge in charges:
        if charge.delta == 0:
            truth = 1 / (1 + exp(-charge.epsilon))
            losses = [
                (p * q, loss + s)
                for p, loss in losses
                for q, s in ((truth, charge.epsilon), (1 - truth, -charge.epsilon))
            ]
    if rho == 0:
        return sum(p * max(0.0, 1 - exp(epsilon - loss)) for p, loss in losses)
    curve = GaussianPrivacyLoss((2 * rho) ** -0.5)
    return sum(p * float(curve.get_delta_for_epsilon(epsilon - loss)) for p, loss in losses)


@settings(max_examples=30, deadline=None)
@given(
    DELTAS,
    st.floats(0.5, 4.0),
    st.sampled_from([None, Rule.SUM, Rule.RHO]),
    st.lists(st.tuples(st.booleans(), st.floats(0.02, 0.6)), min_size=2, max_size=7),
)
def test_what_is_admitted_is_private_by_numerical_composition(
    delta: float, epsilon: float, rule: Rule | None, asked: list[tuple[bool, float]]
) -> None:
    cap = Cap(epsilon, delta, rule)
    admitted: list[Charge] = []
    for noisy, part in asked:
        charge = gaussian(part, delta / 4) if noisy else pure(part)
        try:
            require_room(cap, admitted, charge, "data")
        except LedgerError:
            continue
        admitted.append(charge)
    spent = total(cap, admitted)
    assert spent.sessions == len(admitted)
    assert spent.epsilon <= epsilon * (1 + 1e-9) and spent.delta <= delta
    assert composed_delta(admitted, epsilon) <= delta + 1e-15


def test_dp_accounting_composes_to_the_same_curve() -> None:
    cap = Cap(1.5, 1e-5)
    charges = [gaussian(0.4, 1e-6), gaussian(0.5, 1e-7), pure(0.1), pure(0.05)]
    for i, charge in enumerate(charges):
        require_room(cap, charges[:i], charge, "data")
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, INTERVAL)
    for charge in charges:
        if charge.delta > 0:
            # dp-accounting states the multiplier for adding a record, and counts a replacement as two.
            accountant.compose(GaussianDpEvent(2 * (2 * float(charge.rho or 0)) ** -0.5))
        else:
            # Two buckets: the truth is kept with probability 1 - p / 2.
            accountant.compose(RandomizedResponseDpEvent(2 / (1 + exp(charge.epsilon)), 2))
    for epsilon in (0.25, 0.5, 0.75):
        # It rounds each session's loss up, by less than one interval of its grid.
        farthest = composed_delta(charges, epsilon - INTERVAL * len(charges))
        assert composed_delta(charges, epsilon) - TAIL <= accountant.get_delta(epsilon) <= farthest + TAIL
    assert accountant.get_epsilon(1e-5) <= total(cap, charges).epsilon


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 8.0), st.floats(-12, 12))
def test_a_gaussian_pair_of_rho_of_pure_dominates_randomised_response(epsilon: float, level: float) -> None:
    mu = (2 * rho_of_pure(epsilon)) ** 0.5
    response = max(0.0, (exp(epsilon) - exp(level)) / (1 + exp(epsilon))) if level > -epsilon else 1 - exp(level)
    curve = float(ndtr(mu / 2 - level / mu) - exp(level) * ndtr(-mu / 2 - level / mu))
    assert curve >= response - 1e-12
    # Five per cent less would not dominate at the vertex, level 0.
    less = 0.95 * mu
    assert 2 * float(ndtr(less / 2)) - 1 < (exp(epsilon) - 1) / (1 + exp(epsilon))


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-4, 5.0), DELTAS)
def test_rho_is_read_back_from_a_stated_epsilon(rho: float, delta: float) -> None:
    read = rho_of_stated(epsilon_of_gaussian(Fraction(rho), delta), delta)
    assert rho <= read <= rho * (1 + 2**-24)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 20.0), DELTAS)
def test_rho_covers_what_a_plan_may_use_for_the_epsilon_it_was_asked_for(epsilon: float, delta: float) -> None:
    allowed = float(gaussian_rho(epsilon, delta))
    assert allowed <= rho_of_stated(epsilon, delta) <= allowed * (1 + 2**-24)


def test_a_session_without_rho_joins_a_sum_only() -> None:
    known = Charge(0.3, 1e-6, None)
    cap = Cap(1.0, 1e-5)
    require_room(cap, [known], gaussian(0.3, 1e-6), "data")
    assert total(cap, [known, gaussian(0.3, 1e-6)]).rule is Rule.SUM
    with pytest.raises(LedgerError, match='data set data is accounted by rule "rho"'):
        require_room(cap, [gaussian(0.3, 1e-6)], known, "data")
    require_room(replace(cap, rule=Rule.RHO), [], known, "data")
    with pytest.raises(LedgerError, match='data set data is accounted by rule "rho"'):
        require_room(replace(cap, rule=Rule.RHO), [known], gaussian(0.1, 1e-6), "data")


def test_an_epsilon_that_no_noise_states_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"no Gaussian noise gives epsilon=1e-12"):
        rho_of_stated(1e-12, 1e-6)


def test_the_first_session_is_judged_by_its_own_statement() -> None:
    cap = Cap(1.0, 1e-6)
    require_room(cap, [], gaussian(1.0, 1e-6), "data")
    require_room(cap, [], pure(1.0), "data")
    with pytest.raises(LedgerError, match="this session alone asks"):
        require_room(cap, [], gaussian(1.0, 1.1e-6), "data")
    # By rho alone a pure session of epsilon 1 would not fit: the law of the first session decides the rule.
    assert rho_of_pure(1.0) > gaussian_rho(1.0, 1e-6)
    require_room(cap, [pure(0.5)], pure(0.5), "data")
    with pytest.raises(LedgerError, match='by rule "rho"'):
        require_room(cap, [gaussian(0.1, 1e-7)], pure(0.5), "data")


def test_the_number_of_sessions_that_share_the_slack_is_limited() -> None:
    many = [Charge(1e-3, 1e-6, 1e-12)] * MOST_SESSIONS
    require_room(Cap(1.0, 1e-6, Rule.RHO), many[1:], many[0], "data")
    with pytest.raises(LedgerError, match=f"at most {MOST_SESSIONS} sessions"):
        require_room(Cap(1.0, 1e-6, Rule.RHO), many, many[0], "data")


def _best_response(rho_cap: float, epsilon: float, steps: int, choices: list[float]) -> float:
    """The largest delta at epsilon of an adversary who picks each session's rho after seeing the loss so far.

    Each session is the two-point pair of total variation equal to its Gaussian's, which the Gaussian dominates.
    """

    def value(loss: float, left: float, step: int) -> float:
        best = max(0.0, 1 - exp(min(epsilon - loss, 50.0)))
        if step == 0:
            return best
        for rho in choices:
            if rho <= left + 1e-12:
                mu = (2 * rho) ** 0.5
                up = float(ndtr(mu / 2))
                jump = log(up / (1 - up))
                here = up * value(loss + jump, left - rho, step - 1) + (1 - up) * value(
                    loss - jump, left - rho, step - 1
                )
                best = max(best, here)
        return best

    return value(0.0, rho_cap, steps)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_choosing_later_sessions_by_earlier_releases_gains_nothing(epsilon: float) -> None:
    delta = 0.02
    cap = float(gaussian_rho(epsilon, delta))
    choices = [cap / 6, cap / 3, cap / 2, cap]
    assert _best_response(cap, epsilon, 6, choices) <= delta
    # The game can tell: twice the budget breaks the promise.
    assert _best_response(2 * cap, epsilon, 6, [2 * c for c in choices]) > delta
