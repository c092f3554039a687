"""What is added beyond a true value, and where a search ends: each by hand, for no tolerance would notice it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, inf, log, log1p, nan, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from colonnade.foundation.errors import LedgerError, PrivacyError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism import accounting, boxbound, defects, monomials, noise, objective, sampling
from colonnade.mechanism import plan as plan_module
from colonnade.mechanism.accounting import Guarantee
from colonnade.mechanism.boxbound import _Dual
from colonnade.mechanism.composition import Cap, Charge, Rule, Spent, _pair, _rho_within, rho_of_pure, total
from colonnade.mechanism.declared import DeclaredObjective, declared_layout, declared_terms
from colonnade.mechanism.defects import epsilon_in_spite
from colonnade.mechanism.dissection import Block, _distinct, _steps
from colonnade.mechanism.moments import Distribution, Encoding, Floats, Role
from colonnade.mechanism.monomials import _Groups, _is_rounded, _largest, monomial_sensitivity
from colonnade.mechanism.noise import _above, _below
from colonnade.mechanism.objective import (
    Objective,
    Task,
    _count_products,
    _products,
    plain_layout,
    with_interactions,
)
from colonnade.mechanism.plan import (
    Offer,
    Terms,
    View,
    _coarse,
    _joint,
    _spend_rest,
    _square_slack,
    _worst,
    plan_bottom_up,
)
from colonnade.mechanism.release import ReleasedBlock, ReleaseRecord
from colonnade.mechanism.sampling import (
    Enclosure,
    Poisson,
    _bit_of_geometric,
    discrete_laplace,
    exp_bounds,
    uniform_below,
)
from colonnade.mechanism.sensitivity import sensitivity
from tests.helpers.adversary import layout_from, signed_layout

SIGNED, LABEL = (Encoding.SIGNED, 1, Role.FEATURE), (Encoding.SIGNED, 1, Role.LABEL)


@pytest.mark.parametrize("value", [3.0, -0.75, 0.0])
def test_a_float_is_raised_by_a_part_of_itself_and_a_little(value: float) -> None:
    more = Fraction(abs(value)) / 2**40 + Fraction(1, 2**60)
    assert _above(value) == Fraction(value) + more and _below(value) == Fraction(value) - more


@pytest.mark.parametrize(("deviation", "epsilon"), [(1.0, 30.0), (0.1, 1.0), (20.0, 2.0)])
def test_a_computed_delta_is_raised_by_what_floats_may_lack(deviation: float, epsilon: float) -> None:
    """By 2^-50 of the first term for each unit of near^2 + far^2 + epsilon + 8, the logarithms that it is made of."""
    near, far = 0.5 / deviation - epsilon * deviation, -0.5 / deviation - epsilon * deviation
    margin = ndtr(near) * (near**2 + far**2 + epsilon + 8) * 2.0**-50
    found = accounting._delta(deviation, epsilon) - (ndtr(near) - exp(epsilon + log_ndtr(far)))
    assert found == pytest.approx(margin, rel=1e-2, abs=0)


def test_cross_party_rates_count_once_unless_it_is_said() -> None:
    """x y of two parties moves by 2, and by 3 where part of its noise is known."""
    layout = signed_layout([1, 1], label=None)
    block = Block(("A", "B"), Role.FEATURE, np.array([[1, 2]]), np.ones(1))
    for more, known in (((), 2.0), ((None, 1.5), 3.0)):
        assert _joint(layout, [block], [1.0], Terms(Task.LINEAR), *more) == pytest.approx(known, rel=1e-6)


def test_what_accounting_found_is_raised_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "_epsilon", lambda rho, delta, order: 3.0)
    more = 1 + 2.0**-40
    assert accounting.epsilon_of_rho(Fraction(1), 1e-6) == 3.0 * more
    assert accounting.epsilon_of_rho(Fraction(1), 1e-6, Fraction(1, 8)) == 3.25 * more


def best_of(value: Callable[[Floats], Floats]) -> float:
    """The largest value at any Rényi order from 1.02 on, on a grid and a finer one about its best point."""
    orders = 1 + np.geomspace(0.02, 1e12, 100_001)
    best = int(np.argmax(value(orders)))
    near = np.linspace(orders[max(best - 1, 0)], orders[best + 1], 100_001)
    return float(value(near).max())


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (50.0, 1e-3), (1e-3, 0.01)])
def test_zcdp_is_read_at_the_best_order(epsilon: float, delta: float) -> None:
    """Canonne, Kamath, Steinke 2020, proposition 12; a rho is lowered by 2^-30 of itself and cut to some forty bits."""

    def rho_at(order: Floats) -> Floats:
        return (epsilon - np.log1p(-1 / order) + np.log(delta * order) / (order - 1)) / order

    known = best_of(rho_at)
    rho = accounting.zcdp_rho(epsilon, delta)
    assert float(rho) == pytest.approx(known * (1 - 2.0**-30), rel=1e-11)
    assert rho.numerator.bit_length() <= 41 and rho.denominator.bit_count() == 1

    def minus_epsilon(order: Floats) -> Floats:
        return -(known * order + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))

    assert accounting.epsilon_of_rho(Fraction(known), delta) == pytest.approx(-best_of(minus_epsilon), rel=1e-10)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (50.0, 1e-3)])
def test_a_gaussian_rho_is_lowered_by_twice_the_rounding(epsilon: float, delta: float) -> None:
    """Of mu by 2^-30, so of mu^2 / 2 by 2^-29; an epsilon is that of a mu which is 2^-31 wider."""

    def excess(mu: float, of: float) -> float:
        return float(ndtr(mu / 2 - of / mu) - exp(of + log_ndtr(-mu / 2 - of / mu))) / delta - 1

    mu = float(brentq(excess, 1e-3, 1e3, (epsilon,), xtol=1e-15, rtol=1e-14))
    rho = accounting.gaussian_rho(epsilon, delta, Fraction(0))
    assert 1 - float(rho) / (mu * mu / 2) == pytest.approx(2.0**-29, rel=1e-2)
    wider = mu * sqrt(1 + 2.0**-30)
    known = float(brentq(lambda of: excess(wider, of), epsilon / 2, 2 * epsilon, xtol=1e-15, rtol=1e-14))
    found = accounting.epsilon_of_gaussian(Fraction(mu * mu / 2), delta, Fraction(0))
    assert found - epsilon == pytest.approx(known - epsilon, rel=2e-2)


def test_a_delta_that_hides_the_whole_divergence_leaves_no_epsilon() -> None:
    """At order 1.02 rho 1/100 is a divergence of .0102, and 1/4 is above 1 - exp(-.0102); where both are equal, not."""
    assert accounting._epsilon(Fraction(1, 100), 0.5, 1.02) == 0.0
    least = 5e-324
    known = log1p(-1 / 1.02) - log(1.02 * sqrt(least)) / 0.02
    assert accounting._epsilon(Fraction(0), sqrt(least), 1.02) == pytest.approx(known)


def test_forty_bits_of_a_third_and_the_ends_of_epsilon() -> None:
    assert accounting._forty_bits(Fraction(1, 3)) == Fraction(2**41 // 3, 2**41)
    assert [accounting.check_epsilon(e) for e in (1e-12, 1e12)] == [1e-12, 1e12]


def test_the_bound_of_a_defective_release_is_raised_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight columns, 5 steps of 1/50 beyond those that were counted, beside noise of deviation 0.2: of 10 steps, of
    which rounding takes a variance of 4. By rho = 1/2 the Gaussian's mu is 1, raised by 2^-28."""
    factors = np.stack([np.arange(1, 9)] * 2, axis=1)
    trace = ReleasedBlock(("A",), Role.FEATURE, True, 50, factors, np.array([7]), np.array([0.2]))
    plan = {"delta": 0.0, "collusion": 1, "parties": ["A", "B"]}
    release = ReleaseRecord(100, signed_layout([9]), Distribution.LAPLACE, (trace,), plan, {})
    assert epsilon_in_spite(release, [trace], 1.0) == (1 + sqrt(2) * (5 / 50 / 0.2)) * (1 + 2.0**-40)
    monkeypatch.setattr(defects, "gaussian_rho", lambda epsilon, delta: Fraction(1, 2))
    monkeypatch.setattr(defects, "epsilon_of_gaussian", lambda rho, delta, slack: float(rho))
    gaussian = replace(release, law=Distribution.GAUSSIAN, plan=plan | {"delta": 1e-6})
    assert epsilon_in_spite(gaussian, [trace], 1.0) == pytest.approx((1 + 2.0**-28 + 5 / sqrt(96)) ** 2 / 2, rel=1e-13)


@pytest.mark.parametrize(("scale", "digits", "cells"), [("4", 6, 3), ("129/32", 7, 4), ("1/40", 0, 1), ("8", 7, 4)])
def test_how_many_digits_and_cells_a_scale_has(
    scale: str, digits: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A digit for each 2^i below 16 scales; an octave for each 2^i below the scale, and the cell beyond."""
    t, exponents, bounds = Fraction(scale), list[Fraction](), list[int]()

    def bit(exponent: Fraction) -> Enclosure:
        exponents.append(exponent)
        return _bit_of_geometric(exponent)

    def uniform(bound: int, count: int, randomness: Randomness) -> NDArray[np.uint8]:
        bounds.append(bound)
        return uniform_below(bound, count, randomness)

    monkeypatch.setattr(sampling, "_bit_of_geometric", bit)
    discrete_laplace(t, 5, Randomness(b"digits"))
    assert exponents == [2**i / t for i in range(digits)]
    monkeypatch.setattr(noise, "uniform_below", uniform)
    noise.laplace_share(t, 2, 5, Randomness(b"cells"))
    assert bounds == [cells]


def test_uniform_draws_ask_for_no_more_than_they_lack() -> None:
    """Of 65 bytes only the last is below 255, the largest multiple of 3: 7 is 1 modulo 3, and that is all."""

    class Once(Randomness):
        def bytes(self, count: int) -> bytes:
            assert count == 65 and not self.asked
            self.asked = True
            return b"\xff" * 64 + b"\x07"

        asked = False

    assert uniform_below(3, 1, Once(b"unused")).tolist() == [1]


@pytest.mark.parametrize("beside", [1, -1])
def test_enclosures_hold_just_beside_an_integer(beside: int) -> None:
    """exp(-x) 2^32 = k, and 2^-33 above or below it: what 64 bits of Taylor's series cannot tell apart."""
    with localcontext() as context:
        context.prec = 120
        for k in (*range(2, 100), *range(2_700_000_000, 4_290_000_000, 20_000_000)):
            x = -((k + beside * Decimal(2) ** -33) / 2**32).ln()
            low, high = exp_bounds(Fraction(x), 32)
            assert low <= k - (beside < 0) and high >= k + (beside > 0)


def test_a_candidate_jump_stays_with_its_probability() -> None:
    """w exp(-k / scale) / k, enclosed within two units."""
    jumps, weights = np.array([1, 5, 1000, 12345]), np.array([1.0, 4.0, 1024.0, 16384.0])
    enclosure_of = noise._thinning(Fraction(2500, 3), jumps, weights)
    with localcontext() as context:
        context.prec = 120
        for i, (jump, weight) in enumerate(zip(jumps.tolist(), weights.tolist(), strict=True)):
            known = int(weight) * (-Decimal(3 * jump) / 2500).exp() / jump
            for bits in (32, 96):
                low, high = enclosure_of(i)(bits)
                assert low <= known * 2**bits <= high <= low + 2


def test_ends_of_the_scales_that_proofs_are_for() -> None:
    source = Randomness(b"ends")
    for draw, largest in ((discrete_laplace, 2**45), (sampling.discrete_gaussian, 2**80)):
        for scale in (Fraction(1, 2**40), Fraction(largest)):
            assert draw(scale, 1, source).shape == (1,)
        for scale in (Fraction(1, 2**41), Fraction(largest + 1)):
            with pytest.raises(PrivacyError):
                draw(scale, 1, source)


@pytest.mark.parametrize("mean", [Fraction(1), Fraction(25, 3)])
@pytest.mark.parametrize("bits", [64, 128])
def test_a_table_of_poisson_probabilities(mean: Fraction, bits: int) -> None:
    """Each is enclosed as tightly as whole numbers can, up to all but 2^-(3 bits/4) of what there is."""
    lows, highs = Poisson(mean)._cumulative(bits)
    with localcontext() as context:
        context.prec = 120
        term = total = (-Decimal(mean.numerator) / Decimal(mean.denominator)).exp()
        left = []
        for n, (low, high) in enumerate(zip(lows, highs, strict=True)):
            assert low <= total * 2**bits <= high == low + 1
            left.append((1 - total) * 2**bits)
            term *= Decimal(mean.numerator) / Decimal(mean.denominator) / (n + 1)
            total += term
        assert left[-1] <= 2 ** (bits // 4) < left[-2]


def test_terms_of_a_declared_objective_weigh_by_a_power_of_their_size() -> None:
    """-2 w x y and w^2 x^2 in a ball of 1: sizes 2 and 1. Of 64ths (1/2)^(2/3) is 40.3, (1/2)^(1/2) is 45.3."""
    schema = Schema({"A": {"x": Numeric(-1, 1), "y": Numeric(-1, 1)}})
    declared = DeclaredObjective("(y - w * x)^2", ("w",), 1.0)
    layout = declared_layout(schema, "y", declared)
    assert replace(declared, ball=3.0).importances(layout) == {(1, 2): 2 * 3.0, (1, 1): 3.0**2}
    for law, least in ((Distribution.LAPLACE, 40 / 64), (Distribution.GAUSSIAN, 45 / 64), (None, 1 / 2)):
        found = declared_terms(layout, declared, law)
        assert dict(zip(map(tuple, found.factors.tolist()), found.weights.tolist(), strict=True)) == {
            (1, 1): least,
            (1, 2): 1.0,
        }


def test_deviations_that_hold_95_of_100_values() -> None:
    """Of Laplace b ln 20, where a deviation is sqrt(2) b."""
    assert Distribution.LAPLACE.reach == pytest.approx(log(20) / sqrt(2), abs=0.005)
    assert Distribution.GAUSSIAN.reach == pytest.approx(-float(ndtri(0.025)), abs=0.005)


def test_a_session_that_tells_nothing_still_costs_a_little() -> None:
    """At epsilon 0 mu is 2^-48, above what floats may lack; rho is half of its square."""
    assert rho_of_pure(0.0) == pytest.approx(2.0**-97, rel=0.1, abs=0)


def test_coefficients_of_an_objective_and_caps_have_ends() -> None:
    assert DeclaredObjective("1000000000000 * w * x", ("w",), 1.0).coefficients
    with pytest.raises(StudyError):
        DeclaredObjective("1000000000001 * w * x", ("w",), 1.0)
    for epsilon in (0.0, -1.0, inf, nan):
        with pytest.raises(PrivacyError):
            Cap(epsilon)


def test_owners_of_a_term_are_named_once() -> None:
    owners = np.array([[1, 1, -1], [2, 0, 2], [0, 0, 0], [-1, -1, -1], [-1, 0, 1]])
    assert _distinct(owners).tolist() == [[1, -1, -1], [0, 2, -1], [0, -1, -1], [-1, -1, -1], [0, 1, -1]]


def test_a_record_may_have_a_level_that_no_term_names() -> None:
    """Of levels 1 to 3 only the first is summed: from it to another the sum moves by 1, times a number by 1 + 1."""
    layout = replace(
        layout_from([("A", Encoding.SIMPLEX, 3, Role.FEATURE), ("A", *SIGNED), ("A", *LABEL)]), any_terms=True
    )
    for term, moved in (((0, 1), 1.0), ((1, 4), 2.0)):
        block = Block(("A",), Role.FEATURE, np.array([term]), np.ones(1))
        for law, known in ((Distribution.LAPLACE, moved), (Distribution.GAUSSIAN, moved)):
            assert monomial_sensitivity(layout, [(block, 1.0)], law) == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize(("levels", "moved"), [(63, 1.5), (64, 2.0)])
def test_pairs_of_levels_are_tried_as_long_as_they_are_few(levels: int, moved: float) -> None:
    """Levels that weigh 1 and 1/2: from one to another 3/2; of more than 64^2 pairs, twice the largest weight."""
    simplex = ("A", Encoding.SIMPLEX, levels, Role.FEATURE)
    layout = replace(layout_from([simplex, ("A", *LABEL)]), any_terms=True)
    terms = np.array([[0, c] for c in range(1, levels + 1)])
    block = Block(("A",), Role.FEATURE, terms, np.array([1.0] + [0.5] * (levels - 1)))
    assert monomial_sensitivity(layout, [(block, 1.0)], Distribution.LAPLACE) == pytest.approx(moved, rel=1e-6)


def test_many_products_count_at_their_largest_each() -> None:
    """Of seven numbers, for which no box is split: a square moves by 1, a product by 2, by 4 when it is squared."""
    layout = signed_layout([8], label=0)
    squares, products = (np.array([[c, d] for c in range(1, 8)]) for d in (0, 0))
    squares[:, 1], products[:, 1] = range(1, 8), [*range(2, 8), 1]
    for factors, law, known in (
        (squares, Distribution.LAPLACE, 7.0),
        (squares, Distribution.GAUSSIAN, sqrt(7)),
        (products, Distribution.LAPLACE, 14.0),
        (products, Distribution.GAUSSIAN, sqrt(28)),
    ):
        block = Block(("A",), Role.FEATURE, factors, np.ones(7))
        assert monomial_sensitivity(layout, [(block, 1.0)], law) == pytest.approx(known, rel=1e-6)


def test_what_is_rounded() -> None:
    """Numbers, and the halves of a numeric label; no level of a feature, and none of a label that is one of classes."""
    parts = [("A", Encoding.SIMPLEX, 2, Role.FEATURE), ("A", *SIGNED), ("A", Encoding.SIMPLEX, 2, Role.LABEL)]
    layout = layout_from(parts)
    for task, rounded in ((Task.LINEAR, [3, 4, 5]), (Task.LOGISTIC, [3])):
        assert [c for c in range(1, 6) if _is_rounded(layout, c, task)] == rounded


def test_an_offer_that_blocks_do_not_reach_together_is_spent() -> None:
    """Neither x^2 + y^2 nor x y can move most at once: what is left makes both scales smaller, up to the offer."""
    layout = signed_layout([3], label=0)
    squares = Block(("A",), Role.FEATURE, np.array([[1, 1], [2, 2]]), np.ones(2))
    product = Block(("A",), Role.FEATURE, np.array([[1, 2]]), np.ones(1))
    plan = plan_bottom_up(layout, (squares, product), {"A": Offer(1.0)}, Terms(Task.LINEAR, collusion=0))
    apart = sum(float(item.sensitivity / item.scale) for item in plan.blocks)
    spent = plan.parties["A"][View.OUTSIDER]
    assert spent is not None and 1 - 1e-5 < spent <= 1 < 1.01 < apart


def test_products_of_features_up_to_an_order() -> None:
    """Of numbers x, y and one of two levels, never both: of degree 3 at most 1 + 3 + 6 + 10 less what is always 0."""
    levels = ("A", Encoding.SIMPLEX, 2, Role.FEATURE)
    layout = layout_from([("A", *SIGNED), ("B", *SIGNED), levels, ("A", *LABEL)])
    x, y, *several = layout.features
    numbers = [(x,) * i + (y,) * j for i in range(4) for j in range(4 - i)]
    known = [*numbers, *((*n, level) for n in numbers for level in several if len(n) < 3)]
    assert sorted(_products(layout, 3)) == sorted(known)
    assert _count_products(layout, 3) == len(known) - 1


def test_products_of_levels_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 and 3 levels one each is left out: 4 products, and no more than 4 are made."""
    columns = {"u": Categorical(("a", "b", "c")), "v": Categorical(("a", "b", "c")), "y": Numeric(-1, 1)}
    schema = Schema({"A": columns})
    layout = plain_layout(schema, "y")
    monkeypatch.setattr(objective, "MOST_PRODUCTS", 4)
    assert len(with_interactions(layout, schema, [("u", "v")]).attributes) == len(layout.attributes) + 4
    monkeypatch.setattr(objective, "MOST_PRODUCTS", 3)
    with pytest.raises(StudyError):
        with_interactions(layout, schema, [("u", "v")])


def test_attributes_are_spelled_by_owner_and_column() -> None:
    layout = layout_from([("A", *SIGNED), ("B", Encoding.SIMPLEX, 2, Role.FEATURE), ("A", *LABEL)])
    assert [layout.spelled(i) for i in range(3)] == ["A.a0_0", "B.a1", "A.a2_0"]


def test_owners_of_different_weights_are_not_taken_for_alike() -> None:
    """Sums of -1 to 1 at weights 1 and 3 move by 2 + 6, squares by 1 + 3, products of two by 2 and 6 (not at once)."""
    layout = signed_layout([1, 1, 1], label=None)

    def moved(*terms: tuple[str, tuple[int, int], float]) -> float:
        blocks = [(Block(tuple(o), Role.FEATURE, np.array([term]), np.array([w])), 1.0) for o, term, w in terms]
        return sensitivity(layout, blocks, Distribution.LAPLACE)

    assert moved(("A", (0, 1), 1.0), ("B", (0, 2), 3.0)) == pytest.approx(8, rel=1e-6)
    assert moved(("A", (1, 1), 1.0), ("B", (2, 2), 3.0)) == pytest.approx(4, rel=1e-6)
    assert 8 * (1 - 1e-6) <= moved(("AB", (1, 2), 1.0), ("BC", (2, 3), 3.0)) <= 8 * (1 + 1e-6)


def test_a_product_that_is_released_once_stands_wherever_it_is_asked_for() -> None:
    """The sum of x z is the sum of the interaction by itself, and the product of x and z; nothing else is known."""
    schema = Schema({"A": {"x": Numeric(-1, 1)}, "B": {"z": Numeric(-1, 1), "y": Numeric(-1, 1)}})
    layout = with_interactions(plain_layout(schema, "y"), schema, [("x", "z")])
    x, z, last = (layout.span_of(ColumnRef(*ref)).start for ref in (("A", "x"), ("B", "z"), ("B", "y")))
    both = layout.width - 1
    factors = np.array([[0, both]])
    block = ReleasedBlock(("A", "B"), Role.FEATURE, False, 10, factors, np.array([300]), np.array([0.5]))
    release = ReleaseRecord(100, layout, Distribution.LAPLACE, (block,), {"task": "polynomial"}, {})
    found = release.moments()
    for a, b in ((0, both), (x, z)):
        assert found.value[a, b] == found.value[b, a] == 30 and found.std[a, b] == found.std[b, a] == 0.5
    assert found.std[x, last] == found.std[x, x] == found.std[both, both] == inf and found.value[x, last] == 0


def test_what_hardly_shrinks_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that could be divided by 1.01 are kept, by 1.02 they are divided."""
    layout, scales = signed_layout([3], label=0), [Fraction(6)]
    block = Block(("A",), Role.FEATURE, np.array([[1, 2]]), np.ones(1))
    for slack, left in ((Fraction(101, 100), 6.0), (Fraction(102, 100), 6 / 1.02**5)):
        monkeypatch.setattr(plan_module, "_slack", lambda *_, slack=slack: slack)
        found = _spend_rest(layout, (block,), list(scales), Terms(Task.LINEAR, collusion=0), {"A": Offer(1.0)})
        assert [float(scale) for scale in found] == pytest.approx([left], rel=1e-6)


def test_boxes_are_split_as_long_as_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """x and x^2 move by 1 - s and 1 - s^2, 9/4 together. Bounds: 3 on [-1, 1] and [-1, 0], 11/4 on [-1, -1/2]."""
    groups = _Groups(np.array([[1], [2]]), np.zeros(2, bool), np.ones(2))
    light = _Groups(groups.powers, groups.tabled, np.full(2, 0.1))
    assert 0.225 <= _largest(light, Distribution.LAPLACE) <= 0.225 * 1.01
    for boxes, bound in ((1, 3.0), (2, 2.75)):
        monkeypatch.setattr(monomials, "MOST_BOXES", boxes)
        assert _largest(groups, Distribution.LAPLACE) == bound


def test_steps_of_tables_of_levels() -> None:
    """The least power of four that is no less than the cells: of one level 0, of 3 one, of 3 times 2 two."""
    levels = [("A", Encoding.SIMPLEX, count, Role.FEATURE) for count in (3, 2)]
    layout = layout_from([*levels, ("A", *LABEL)])
    factors = np.array([[0, 6], [0, 1], [0, 4], [1, 4], [6, 1]])
    assert _steps(Objective(layout, factors, np.ones(5))).tolist() == [0, 1, 1, 2, 1]
    assert layout.alone_of(factors).tolist() == [0, 1, 2]
    assert layout.find("a1", column=True) == (1, None) and layout.find("a1_1") == (1, 1)


def test_a_level_times_a_square_moves_by_both() -> None:
    """From 0 to 1 in one cell and from 1 to 0 in another: 2 in L1, sqrt(2) in L2."""
    layout = layout_from([("A", Encoding.SIMPLEX, 3, Role.FEATURE), ("A", *SIGNED), ("A", *LABEL)])
    block = Block(("A",), Role.FEATURE, np.array([[1, 4, 4], [2, 4, 4], [3, 4, 4]]), np.ones(3))
    for law, known in ((Distribution.LAPLACE, 2.0), (Distribution.GAUSSIAN, sqrt(2))):
        assert monomial_sensitivity(layout, [(block, 1.0)], law) == pytest.approx(known, rel=1e-6)


def test_small_weights_move_little() -> None:
    """Of levels 1 to 3 the first is summed at a tenth, and so is a number by itself."""
    layout = layout_from([("A", Encoding.SIMPLEX, 3, Role.FEATURE), ("A", *SIGNED), ("A", *LABEL)])
    layout = replace(layout, any_terms=True)
    for term, known in (((0, 1), 0.1), ((0, 4), 0.2), ((4, 4), 0.1)):
        block = Block(("A",), Role.FEATURE, np.array([term]), np.array([0.1]))
        assert monomial_sensitivity(layout, [(block, 1.0)], Distribution.LAPLACE) == pytest.approx(known, rel=1e-6)


def test_slack_of_a_square_is_raised_by_a_part_of_itself() -> None:
    layout, terms = signed_layout([2], label=0), Terms(Task.LINEAR, collusion=0, bound=7)
    block = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    assert _square_slack(layout, [(block, 1.0)], terms) == pytest.approx(1.25 / 49 * (1 + 2.0**-40), rel=1e-14, abs=0)


def test_of_several_views_the_worst_counts() -> None:
    views = {
        View.OUTSIDER: Guarantee(2.0, 1e-6, Fraction(1, 100)),
        View.SERVER: Guarantee(1.0, 1e-6, Fraction(1, 10)),
        View.PARTY: None,
    }
    assert _worst(views) == Guarantee(2.0, 1e-6, Fraction(1, 10))
    part = Guarantee(0.5, 1e-6, Fraction(1, 1000), dominated=False)
    assert _worst({**views, View.PARTY: part}) == replace(part, epsilon=2.0)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10**9 + 1), Fraction(1), Fraction(10**20 + 1, 10**30)])
def test_scales_are_rounded_up_to_24_bits(value: Fraction) -> None:
    found = _coarse(value)
    assert value <= found <= value * (1 + Fraction(1, 2**23))
    odd = found.numerator // (found.numerator & -found.numerator)
    assert odd.bit_length() <= 24 and found.denominator.bit_count() == 1


def test_1024_sessions_share_the_slack_and_no_more() -> None:
    cap, nothing = Cap(1.0, 1e-6), Charge(0.0, 0.0, 0.0)
    assert _rho_within(cap, Rule.RHO, [nothing] * 1024, "people")
    with pytest.raises(LedgerError):
        _rho_within(cap, Rule.RHO, [nothing] * 1025, "people")
    assert total(Cap(1.0, 1e-6, Rule.ZCDP), Rule.ZCDP, [nothing] * 2) == Spent(2, 0.0, 0.0, Rule.ZCDP)
    assert _pair(1.0, 0.0) == "epsilon=1" and _pair(1.0, 0.5) == "epsilon=1 at delta=0.5"


def test_a_slack_of_half_leaves_nothing_to_read() -> None:
    for slack in (Fraction(1, 2), Fraction(3, 5)):
        with pytest.raises(PrivacyError):
            accounting.epsilon_of_rho(Fraction(1), 1e-6, slack)
    assert accounting.epsilon_of_rho(Fraction(1), 1e-6, Fraction(2, 5)) > 1


def test_a_bound_holds_whatever_a_solver_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of -s - s^2, at most 1/4: the solution is 1/2, and with any other the residual makes up for what is lacking."""
    dual = _Dual(np.ones(1), np.zeros((1, 1)), np.ones(1), np.ones(1), np.zeros(1))
    for y in (0.5, 1.5, -3.0):
        monkeypatch.setattr(boxbound.np.linalg, "solve", lambda matrix, shift, y=y: np.array([y]))
        assert dual.checked(np.zeros(1)) == pytest.approx(0.25, rel=1e-9)
