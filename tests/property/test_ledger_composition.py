"""What a cap admits is private as promised, by dp-accounting's numerical composition and by exact adaptive games."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import cache
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, RandomizedResponseDpEvent, ZCDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from colonnade.consent.entries import Booking, DataSet, EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.foundation.errors import LedgerError, PrivacyError
from colonnade.foundation.schema import Schema
from colonnade.mechanism.accounting import gaussian_rho, zcdp_rho
from colonnade.mechanism.composition import (
    ALL_SLACK,
    MOST_SESSIONS,
    Cap,
    Charge,
    Rule,
    charge_of,
    require_room,
    rho_of_pure,
    total,
)
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

INTERVAL = 1e-4
TAIL = 1e-13
"""More than the mass that dp-accounting cuts off a composed loss."""
DELTAS = st.sampled_from([1e-8, 1e-6, 1e-4])


def gaussian(epsilon: float, delta: float) -> Charge:
    return Charge(epsilon, delta, float(gaussian_rho(epsilon, delta)))


def pure(epsilon: float) -> Charge:
    return Charge(epsilon, 0.0, rho_of_pure(epsilon))


def partly_known(epsilon: float, delta: float) -> Charge:
    """A Gaussian session in which a party knows a share of the noise, accounted by zCDP alone."""
    return Charge(epsilon, delta, None, float(zcdp_rho(epsilon, delta)))


def composed_delta(charges: list[Charge], epsilon: float) -> float:
    """The exact delta at epsilon of the worst mechanisms that make these charges: Gaussians and randomised responses.

    Gaussians join into one by rotation, whose curve is dp-accounting's; the responses' losses are enumerated.
    """
    rho = sum(c.rho or c.zcdp or 0.0 for c in charges if c.delta > 0)
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
    st.sampled_from([None, *Rule]),
    st.lists(st.tuples(st.booleans(), st.floats(0.02, 0.6)), min_size=2, max_size=7),
)
def test_what_is_admitted_is_private_by_numerical_composition(
    delta: float, epsilon: float, rule: Rule | None, asked: list[tuple[bool, float]]
) -> None:
    cap = Cap(epsilon, delta, rule)
    admitted: list[Charge] = []
    for noisy, part in asked:
        charge = gaussian(part, delta / 4) if noisy else pure(part)
        kept = cap.rule_for(admitted[0] if admitted else charge)
        try:
            require_room(cap, kept, admitted, charge, "data")
        except LedgerError:
            continue
        admitted.append(charge)
    if not admitted:
        return
    spent = total(cap, cap.rule_for(admitted[0]), admitted)
    assert spent.sessions == len(admitted)
    assert spent.epsilon <= epsilon * (1 + 1e-9) and spent.delta <= delta
    assert composed_delta(admitted, epsilon) <= delta + 1e-15


def test_dp_accounting_composes_to_the_same_curve() -> None:
    cap = Cap(1.5, 1e-5)
    charges = [gaussian(0.4, 1e-6), gaussian(0.5, 1e-7), pure(0.1), pure(0.05)]
    for i, charge in enumerate(charges):
        require_room(cap, Rule.RHO, charges[:i], charge, "data")
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
    assert accountant.get_epsilon(1e-5) <= total(cap, Rule.RHO, charges).epsilon
    assert accountant.get_epsilon(1e-5) <= total(cap, Rule.ZCDP, charges).epsilon


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


@pytest.mark.parametrize("collusion", [0, 1])
@pytest.mark.parametrize("delta", [1e-8, 1e-5])
def test_a_charge_has_the_rho_that_its_plan_computed(collusion: int, delta: float) -> None:
    """By a formula of the accountant's own: the stated epsilon is that of the rho, no more and hardly less."""
    number = {"kind": "numeric", "low": 0, "high": 1}
    schema = Schema.of({"a": {"y": number, "x": number}, "b": {"z": number}})
    agreement = Agreement.from_terms("rho", schema, "a.y", Task.LINEAR, 0.7, delta=delta, collusion=collusion)
    plan = plan_session(agreement, 1000, bytes(32)).plan
    charge = charge_of(plan, "b")
    if collusion:
        assert charge.zcdp is None and charge.rho is not None
        found = float(GaussianPrivacyLoss((2 * charge.rho) ** -0.5).get_delta_for_epsilon(charge.epsilon))
        assert 0.999 * delta < found < delta * (1 + 1e-6)
    else:
        assert charge.rho is None and charge.zcdp is not None
        accountant = RdpAccountant([1 + 0.05 * i for i in range(1, 4000)], NeighboringRelation.REPLACE_ONE)
        accountant.compose(ZCDpEvent(charge.zcdp))
        assert charge.epsilon == pytest.approx(accountant.get_epsilon(delta), rel=1e-3)
    assert charge.concentrated == Fraction(charge.rho or charge.zcdp or 0)


def test_a_session_of_which_a_party_knows_noise_joins_sum_and_zcdp() -> None:
    known = partly_known(0.3, 1e-6)
    cap = Cap(1.0, 1e-5)
    assert cap.rule_for(known) is Rule.SUM
    require_room(cap, Rule.SUM, [known], gaussian(0.3, 1e-6), "data")
    require_room(cap, Rule.ZCDP, [known, gaussian(0.2, 1e-6)], known, "data")
    with pytest.raises(LedgerError, match='data set data is accounted by rule "rho"'):
        require_room(cap, Rule.RHO, [gaussian(0.3, 1e-6)], known, "data")
    require_room(cap, Rule.RHO, [], known, "data")
    with pytest.raises(LedgerError, match='data set data is accounted by rule "rho"'):
        require_room(cap, Rule.RHO, [known], gaussian(0.1, 1e-6), "data")
    # An entry of 0.1.0 has no rho of any kind.
    with pytest.raises(LedgerError, match='data set data is accounted by rule "zcdp"'):
        require_room(cap, Rule.ZCDP, [Charge(0.3, 1e-6, None)], known, "data")


def test_the_first_session_is_judged_by_its_own_statement() -> None:
    cap = Cap(1.0, 1e-6)
    for rule in Rule:
        require_room(cap, rule, [], gaussian(1.0, 1e-6), "data")
        require_room(cap, rule, [], pure(1.0), "data")
        with pytest.raises(LedgerError, match="this session alone asks"):
            require_room(cap, rule, [], gaussian(1.0, 1.1e-6), "data")
    # By rho alone a pure session of epsilon 1 would not fit: the distribution of the first session decides the rule.
    assert rho_of_pure(1.0) > gaussian_rho(1.0, 1e-6)
    require_room(cap, Rule.SUM, [pure(0.5)], pure(0.5), "data")
    with pytest.raises(LedgerError, match='by rule "rho"'):
        require_room(cap, Rule.RHO, [gaussian(0.1, 1e-7)], pure(0.5), "data")


@pytest.mark.parametrize("rule", [Rule.RHO, Rule.ZCDP])
def test_the_number_of_sessions_that_share_the_slack_is_limited(rule: Rule) -> None:
    many = [Charge(1e-3, 1e-6, 1e-12)] * MOST_SESSIONS
    require_room(Cap(1.0, 1e-6, rule), rule, many[1:], many[0], "data")
    with pytest.raises(LedgerError, match=f"at most {MOST_SESSIONS} sessions"):
        require_room(Cap(1.0, 1e-6, rule), rule, many, many[0], "data")


def test_a_rule_of_rho_has_no_room_without_a_delta() -> None:
    for rule in (Rule.RHO, Rule.ZCDP):
        with pytest.raises(PrivacyError, match=f'rule "{rule.value}" needs a positive delta'):
            Cap(1.0, 0.0, rule)
        with pytest.raises(LedgerError, match=r"needs a total\.delta above 0"):
            require_room(Cap(1.0), rule, [gaussian(0.1, 1e-7)], gaussian(0.1, 1e-7), "data")
        # What was spent can be stated all the same.
        assert total(Cap(1.0), rule, [gaussian(0.1, 1e-7)] * 2).epsilon == 0.2


# 100 sessions of 0.1, delta 1e-6: the sum, the Gaussian pair of mu = 100 (2 Phi^-1(e^.1/(1+e^.1)))^2 by Balle and Wang,
# and zCDP of 100 * .005 by proposition 12 of Canonne, Kamath and Steinke; both by scipy's minimize_scalar and brentq.
@pytest.mark.parametrize(("rule", "expected"), [(Rule.SUM, 10.0), (Rule.RHO, 6.330118), (Rule.ZCDP, 5.221536)])
def test_a_hundred_pure_sessions_of_a_tenth(rule: Rule, expected: float) -> None:
    spent = total(Cap(20.0, 1e-6), rule, [pure(0.1)] * 100)
    assert spent.epsilon == pytest.approx(expected, abs=2e-6)


def test_zcdp_is_never_worse_than_the_sum_for_pure_sessions() -> None:
    cap = Cap(1.0, 1e-6, Rule.ZCDP)
    for i in range(10):
        require_room(cap, Rule.ZCDP, [pure(0.1)] * i, pure(0.1), "data")
    assert total(cap, Rule.ZCDP, [pure(0.1)] * 10).epsilon == 1.0
    assert total(cap, Rule.ZCDP, [pure(0.1)] * 10).delta == 0.0
    with pytest.raises(LedgerError, match='by rule "zcdp"'):
        require_room(cap, Rule.ZCDP, [pure(0.1)] * 10, pure(1e-3), "data")
    # A loss is bounded by the sum only if all sessions are pure: one Gaussian among them takes that away.
    with pytest.raises(LedgerError, match='by rule "zcdp"'):
        require_room(cap, Rule.ZCDP, [pure(0.3)] * 3, gaussian(0.01, 1e-9), "data")


NORMAL = np.linspace(-6, 6, 121)
BELL = np.exp(-(NORMAL**2) / 2) / np.exp(-(NORMAL**2) / 2).sum()
Room = Callable[[list[Charge]], bool]


def losses_of(charge: Charge) -> tuple[np.ndarray, np.ndarray]:
    """The losses of the worst session that makes this charge, and how likely they are: a randomised response, which
    every pure mechanism is made of, or a Gaussian pair.
    """
    if charge.delta == 0:
        truth = 1 / (1 + exp(-charge.epsilon))
        return np.array([charge.epsilon, -charge.epsilon]), np.array([truth, 1 - truth])
    rho = float(charge.concentrated or 0)
    return rho + (2 * rho) ** 0.5 * NORMAL, BELL


def best_response(cap: Cap, offered: list[Charge], room: Room, steps: int) -> float:
    """The largest delta at the cap's epsilon of an adversary who picks each session by the loss of those before.

    Exact for pure sessions of multiples of a 64th of epsilon; a Gaussian's losses fall between, where a value that is
    convex in the loss is taken too large rather than too small.
    """
    losses = cap.epsilon / 64 * np.arange(-512, 513)
    drawn = [losses_of(charge) for charge in offered]

    @cache
    def value(used: tuple[int, ...]) -> np.ndarray:
        out = np.maximum(0.0, 1 - np.exp(cap.epsilon - losses))
        for i, (loss, likely) in enumerate(drawn) if len(used) < steps else ():
            after = tuple(sorted((*used, i)))
            if room([offered[k] for k in after]):
                out = np.maximum(out, likely @ np.interp(losses + loss[:, None], losses, value(after)))
        return out

    return float(value(())[512])


def admitted_by(cap: Cap, rule: Rule) -> Room:
    def room(charges: list[Charge]) -> bool:
        try:
            require_room(cap, rule, charges[:-1], charges[-1], "data")
        except LedgerError:
            return False
        return True

    return room


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize(("epsilon", "delta", "seed"), [(0.6, 0.05, 0), (1.0, 1e-4, 1), (1.5, 0.01, 2)])
def test_who_chooses_sessions_and_epsilons_by_releases_gains_nothing(
    rule: Rule, epsilon: float, delta: float, seed: int
) -> None:
    """Pure and Gaussian sessions in any order, each admitted by the account itself."""
    cap, draw = Cap(epsilon, delta, rule), np.random.default_rng(seed)
    small, large = (epsilon * int(draw.integers(*ends)) / 64 for ends in ((8, 12), (24, 33)))
    offered = [pure(small), pure(large), *(gaussian(part * epsilon, delta / 10) for part in (0.2, 0.6))]
    found = best_response(cap, offered, admitted_by(cap, rule), 7)
    # Rule "rho" is tight: a session whose rho is all that is left has the cap's own curve.
    assert 0 < found <= delta * (1.02 if rule is Rule.RHO else 1)


def test_the_game_can_tell_bounds_that_do_not_hold_together() -> None:
    """Each kind of sessions within the cap by itself, and more rho."""
    epsilon, delta = 1.0, 0.02
    cap, rho = Cap(epsilon, delta, Rule.ZCDP), float(zcdp_rho(epsilon, delta, ALL_SLACK))
    offered = [pure(epsilon / 8), pure(epsilon / 2), gaussian(0.2, delta / 10), gaussian(0.6, delta / 10)]

    def summed(charges: list[Charge]) -> float:
        return sum(float(c.concentrated or 0) for c in charges)

    def apart(charges: list[Charge]) -> bool:
        own = [c for c in charges if c.delta == 0]
        return sum(c.epsilon for c in own) <= epsilon and summed([c for c in charges if c.delta > 0]) <= rho

    assert best_response(cap, offered, apart, 6) > delta
    assert best_response(cap, offered, admitted_by(cap, Rule.ZCDP), 6) < delta
    assert best_response(cap, offered, lambda charges: summed(charges) <= 6 * rho, 6) > delta


Steps = st.lists(
    st.tuples(st.sampled_from(["pure", "gaussian", "known", "void", "release"]), st.floats(0.05, 0.9), st.integers(0)),
    min_size=3,
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.5, 3.0), DELTAS, st.sampled_from([None, *Rule]), Steps)
def test_no_order_of_charges_voids_and_rules_passes_the_cap(
    epsilon: float, delta: float, rule: Rule | None, steps: list[tuple[str, float, int]]
) -> None:
    """A ledger on disk: whoever proposes and voids sessions does so knowing all that was released."""
    cap, data = Cap(epsilon, delta, rule), DataSet("bank.csv", "d" * 64)
    kept, counted, closed = "", dict[str, Charge](), set[str]()
    with TemporaryDirectory() as folder:
        book = Ledger(Path(folder) / "ledger.sqlite")
        for i, (what, size, which) in enumerate(steps):
            open_ones = [name for name in counted if name not in closed]
            if what in ("void", "release"):
                if open_ones:
                    name = open_ones[which % len(open_ones)]
                    book.settle(name, "bank", EntryKind.VOID if what == "void" else EntryKind.RELEASED, "tried")
                    closed.add(name)
                    if what == "void":
                        del counted[name]
            else:
                charge = (
                    pure(size)
                    if what == "pure"
                    else (gaussian if what == "gaussian" else partly_known)(size, delta / 4)
                )
                with suppress(LedgerError):
                    book.book(Booking(f"s{i}", "bank", "income", "p" * 64, data, charge, 1.0), cap)
                    counted[f"s{i}"] = charge
            spent = book.spent(data, cap)
            kept = kept or (spent.rule.value if book.entries() else "")
            assert spent.sessions == len(counted) and spent.rule.value == (kept or spent.rule.value)
            assert spent.epsilon <= epsilon * (1 + 1e-9) and spent.delta <= delta * (1 + 1e-12)
            assert composed_delta(list(counted.values()), epsilon) <= delta + 1e-15
