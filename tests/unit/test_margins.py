"""What is added beyond a true value, and where a search ends: each by hand, for no tolerance would notice it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, e, exp, inf, log, log2, nan, pi, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr, ndtr, ndtri

from colonnade import evaluation
from colonnade.crypto.lattice.parameters import chain_gain
from colonnade.crypto.lattice.security import _reduction_bits, key_bits
from colonnade.crypto.product import ProductNeeds, ProductSizes
from colonnade.data import gate
from colonnade.data.gate import Coding, code_block
from colonnade.foundation import integers
from colonnade.foundation.errors import BrokenColumns, PrivacyError, ProductError, StudyError
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.integers import _MadeRows, _signs, verify_block
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism import accounting, defects, monomials, noise, objective, sampling
from colonnade.mechanism import plan as plan_module
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.composition import Cap, rho_of_pure
from colonnade.mechanism.declared import DeclaredObjective, declared_layout, declared_terms
from colonnade.mechanism.defects import epsilon_in_spite
from colonnade.mechanism.dissection import Block, _distinct, traces
from colonnade.mechanism.moments import Distribution, Encoding, Floats, Role
from colonnade.mechanism.monomials import _Groups, _is_rounded, _largest, monomial_sensitivity
from colonnade.mechanism.noise import _above, _below
from colonnade.mechanism.objective import (
    Calibration,
    Task,
    _count_products,
    _products,
    layout_of,
    plain_layout,
    with_interactions,
)
from colonnade.mechanism.plan import BlockPlan, Offer, Terms, View, _joint, _spend_rest, plan_bottom_up, plan_top_down
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
from colonnade.planning import session_plan
from colonnade.planning.leakage import value_bits
from colonnade.planning.precision import (
    BOUNDS,
    MADE_BOUND,
    _interaction_bound,
    check_squares,
    fit_sizes,
    grid_bound,
    require_room,
    rounding_share,
)
from colonnade.planning.session_plan import plan_session
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.sessions import agreement_of

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
    assert found == pytest.approx(margin, rel=1e-2)


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
    assert accounting._epsilon(Fraction(0), sqrt(least), 2.0) == pytest.approx(log(0.5) - log(2 * sqrt(least)))


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


def test_what_is_told_where_no_key_is_spelt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened integers within a reach of 3 are one of 7."""
    session = plan_session(agreement_of(2, product="bgn"), 50, bytes(32))
    assert session.backend.key_left is None and session.backend.private
    words: list[float] = []

    def noted(law: IntegerNoise, word: float, alone: bool) -> Floats:
        words.append(word)
        return value_bits(law, word, alone)

    monkeypatch.setattr(session_plan, "value_bits", noted)
    assert replace(session, spec=replace(session.spec, reach=3)).tellings
    assert words == [log2(7)]


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
    assert rho_of_pure(0.0) == pytest.approx(2.0**-97, rel=0.1)


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


def test_a_product_of_three_owners_fills_its_words() -> None:
    """Errors reach 2 (100 2047 7 + 2048 9 15 + 8190) = 3,435,140; gain times span stays that far below 2^41."""
    own, error = 100 * 2047**3, 3_435_140
    for gain in (1, 2, 4):
        most = (2**41 - error) // gain - own
        assert (2**41 - error) % gain == 0
        assert chain_gain(3, 100, 2047, 1e10, most - 1, 42) == gain
        assert chain_gain(3, 100, 2047, 1e10, most, 42) == (gain // 2 or None)


def test_bits_of_a_reduction() -> None:
    """2 log2 of the sum of a geometric series, log2 of the sieves, and a line; small sieves save no dimensions."""
    line, start = 0.29613500308205365, 20.387885985467914
    series = 2 * -log2(1 - 2**-line)
    assert _reduction_bits(17, 17) == pytest.approx(series + 17 * line + start, rel=1e-12)
    for block, rank in ((18, 18), (30, 31), (300, 1300)):
        kept = block - block * log(4 / 3) / log(block / (2 * pi * e))
        known = series + log2(max(rank - block, 1)) + kept * line + start
        assert _reduction_bits(block, rank) == pytest.approx(known, rel=1e-12)


def test_grids_of_products_that_parties_round_are_fine() -> None:
    agreement = agreement_of(2, product="lattice", interactions=(("p0.x0", "p0.c0", "p1.x1"),))
    plan = plan_session(agreement, 200, bytes(32)).plan
    assert _interaction_bound(plan, 3.0) >= MADE_BOUND == 127


def test_a_record_that_rounding_made_too_long_is_cut() -> None:
    """400 numbers of 1.0001 steps, all rounded up to 2: a length of 40 where 20.002 was declared.

    The plan counts with 20.002 + (6 20.002 + 100 + 30) / (2 20.002) = 26.25: each is cut to 2 26.25/40, towards 0: 1.
    """
    layout, bound = signed_layout([400], label=None), 63
    columns = {f"a{j}": Numeric(-1.0, 1.0) for j in range(400)}
    coding = Coding("A", columns, layout.attributes, Grid(bound), bytes(32), 1.0001 * 20 / bound)
    assert rounded_norm(coding.norm or 0.0, 400, bound) * bound == pytest.approx(26.25, abs=0.01)
    out = np.zeros((400, 1))
    coins = np.full((1, 400), 2**32 - 1, np.uint32)
    coding.write({name: np.full(1, 1.0001 / bound) for name in columns}, out, coins)
    assert set(out.ravel().tolist()) == {1.0}


def ways(block: int, dimension: int, modulus_bits: int, secret: float, error: float) -> float:
    """log2 of the cost of one block size: docs/secure-product.md's estimate, the projection found by trying all."""
    slope = (log(block / (2 * pi * e)) + log(pi * block) / block) / (2 * (block - 1))
    modulus, scale = modulus_bits * log(2), log(max(error / secret, 1.0))
    rank = max(block, ceil(sqrt(dimension * (modulus - scale) / slope)))
    volume = (rank - dimension) * modulus + dimension * scale
    left = np.arange(1, rank + 1)
    ball = (left + 1) / 2 * log(pi) - gammaln((left + 1) / 2 + 1)
    shortest = (left / rank * volume - (rank - left) * left * slope + log(error) - ball) / (left + 1)
    shown = left[shortest >= log(error) + np.log(left + 1) / 2]
    per_dimension, start = 0.29613500308205365, 20.387885985467914

    def sieves(size: int, count: int) -> float:
        saved = max(size * log(4 / 3) / log(size / (2 * pi * e)), 0.0) if size > 2 * pi * e else 0.0
        return -2 * log2(1 - 2**-per_dimension) + log2(max(count - size, 1)) + per_dimension * (size - saved) + start

    if not shown.size:
        return float("inf")
    return float(np.logaddexp2(sieves(block, rank), sieves(int(shown[0]) + 1, int(shown[0]) + 1)))


@pytest.mark.parametrize(
    ("dimension", "modulus_bits", "secret", "error"),
    [(2048, 40, 1.0, 3.24), (2048, 51, 0.7, 2.3), (600, 20, 1.0, 3.0), (300, 12, 2.0, 1.5)],
)
def test_bits_of_a_key_by_trying_every_block_size(
    dimension: int, modulus_bits: int, secret: float, error: float
) -> None:
    best = min(ways(block, dimension, modulus_bits, secret, error) for block in range(40, 800))
    margin = max(5.3 - 4.3 * secret, 1.0)
    assert key_bits(dimension, modulus_bits, secret, error) == pytest.approx(max(best - margin, 0.0), rel=1e-9)


def test_grids_that_are_tried_leave_more_and_more_to_the_products_error() -> None:
    """Rounding under 1/50 of the noise and the product's error under 1/100, then 1/10 and 1/10, then 1/2 and 1/4."""
    plan = plan_session(agreement_of(2, product="lattice"), 200, bytes(32)).plan
    tried: list[tuple[int, Fraction]] = []

    def refuse(needs: ProductNeeds) -> ProductSizes:
        tried.append((needs.bound, needs.share))
        raise ProductError("no")

    with pytest.raises(ProductError):
        fit_sizes(plan, 10_000_000, refuse)
    known = []
    for part, error in ((Fraction(1, 50), "1/100"), (Fraction(1, 10), "1/10"), (Fraction(1, 2), "1/4")):
        bound = grid_bound(plan, 10_000_000, part)
        if not known or rounding_share(plan, 10_000_000, bound) <= part:
            known.append((bound, Fraction(error)))
    assert tried == known and len(known) == 3 and len({bound for bound, _ in known}) > 1


def test_signs_of_columns_are_signs() -> None:
    signs = _signs(9001)
    assert set(signs.tolist()) == {-1.0, 1.0} and abs(signs.mean()) < 0.05


def test_a_trace_adds_up_2_to_the_38_squares_and_no_more() -> None:
    (trace,) = traces(signed_layout([5], label=0), label_square=False)
    assert len(trace.factors) == 4
    check_squares(2**36, (trace,))
    with pytest.raises(StudyError):
        check_squares(2**36 + 1, (trace,))


def test_integers_of_one_party_fill_their_words_to_the_last() -> None:
    """Records of 1 and noise of scale 1000: floor(1000 (ln 2 + 48 ln 2)) = 33964 stay below 2^31."""
    session = plan_session(agreement_of(1), 50, bytes(32))
    block = Block(("p0",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    plan = replace(session.plan, blocks=(BlockPlan(block, Fraction(1), Fraction(1000)),))
    spec = replace(session.spec, bound=1, modulus_bits=32, rows=2**31 - 33964 - 1)
    require_room(plan, spec, 10**9, {})
    with pytest.raises(ProductError):
        require_room(plan, replace(spec, rows=spec.rows + 1), 0, {})


def test_words_without_crosses_hold_every_records_unit() -> None:
    session = plan_session(agreement_of(1), 50, bytes(32))
    assert session.spec.reach == 50 * session.grid.bound**2


def test_each_factor_of_an_interaction_is_rounded_and_each_product_of_a_party() -> None:
    """x y of two parties by itself: two factors, a column of each party: 4 roundings of a quarter for each record."""
    columns = {"A": {"x": Numeric(-1, 1)}, "B": {"z": Numeric(-1, 1), "y": Numeric(-1, 1)}}
    schema = Schema(columns)
    layout = with_interactions(plain_layout(schema, "y"), schema, [("x", "z")])
    block = Block(("A", "B"), Role.FEATURE, np.array([[0, layout.width - 1]]), np.ones(1))
    plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LOGISTIC))
    known = sqrt(1000 * 4 / 4) / plan.noise_std(plan.blocks[0])
    assert rounding_share(plan, 1000, 31) == pytest.approx(known / 31, rel=1e-12)
    # The grid is the coarsest whose rounding stays under a fiftieth of the noise, whatever shares of noise need.
    for rows in (1000, 10_000_000):
        needed = 50 * sqrt(rows * 4 / 4) / plan.noise_std(plan.blocks[0])
        assert grid_bound(plan, rows) == next(b for b in BOUNDS if b >= needed or b == BOUNDS[-1])
    assert _interaction_bound(plan, 1e9) == BOUNDS[-1]


def test_a_block_is_made_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cache of 10 floats, for 2 columns and the constant, pieces of 3 records, and the same rows as in one."""
    columns = {"x": Numeric(-1, 1), "y": Numeric(-1, 1)}
    layout = layout_of(Schema({"p": columns}), "y", Task.LINEAR, Calibration.EXACT, split=False)
    coding = Coding("p", columns, layout.attributes, Grid(7), bytes(32))
    values = {name: np.linspace(-1.2, 0.9, 10) * sign for name, sign in (("x", 1), ("y", -1))}
    whole, pieces = code_block(coding, values, 3, 10), list[int]()
    write = Coding.write

    def noted(self: Coding, here: Mapping[str, Any], out: Floats, coins: Any) -> Floats:
        pieces.append(out.shape[1])
        return write(self, here, out, coins)

    monkeypatch.setattr(Coding, "write", noted)
    monkeypatch.setattr(gate, "_CACHED", 10)
    monkeypatch.setattr(gate, "_SHORTEST", 1)
    found = code_block(coding, values, 3, 10)
    assert pieces == [3, 3, 3, 1]
    assert found.rows.tolist() == whole.rows.tolist() and found.products.tolist() == whole.products.tolist()


def test_made_columns_are_kept_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 records of one column and one made of it are 20 bytes."""
    made: list[int] = []

    class Ones:
        shape, bound = (5, 1), 7

        def rows(self, start: int, stop: int) -> NDArray[np.int16]:
            return np.ones((stop - start, 1), np.int16)

    def make(start: int, rows: NDArray[np.int16]) -> NDArray[np.int16]:
        made.append(len(rows))
        return rows * np.int16(2)

    for kept, calls in ((20, [5]), (19, [2, 3])):
        monkeypatch.setattr(integers, "LARGEST_KEPT", kept)
        made.clear()
        store = _MadeRows(Ones(), make, 1)  # type: ignore[arg-type]
        assert store.rows(0, 2).tolist() == [[1, 2]] * 2 and store.rows(2, 5).tolist() == [[1, 2]] * 3
        assert made == calls


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


def test_pieces_hold_as_many_floats_as_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^17 floats are 65,536 records of one column and the constant."""
    columns = {"x": Numeric(-1, 1)}
    coding = Coding("p", columns, layout_from([("p", *SIGNED)]).attributes, Grid(7), bytes(32))
    coding = replace(coding, attributes=(replace(coding.attributes[0], of=ColumnRef("p", "x")),))
    pieces, write = list[int](), Coding.write

    def noted(self: Coding, here: Mapping[str, Any], out: Floats, coins: Any) -> Floats:
        pieces.append(out.shape[1])
        return write(self, here, out, coins)

    monkeypatch.setattr(Coding, "write", noted)
    block = code_block(coding, {"x": np.zeros(65_537)}, 0, 65_537)
    assert pieces == [65_536, 1]
    # An excess may reach a quarter for each record, and a billionth beside.
    for excess, fits in ((65_537 / 4 + 65_538e-9, True), (65_537 / 4 + 65_539e-9, False)):
        bent = replace(block, excess=np.array([excess]))
        if fits:
            verify_block(coding.shape, bent)
        else:
            with pytest.raises(BrokenColumns):
                verify_block(coding.shape, bent)


def test_numbers_within_their_range_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    coding = Coding("p", {"x": Numeric(-1, 1)}, layout_from([("p", *SIGNED)]).attributes, Grid(7), bytes(32))
    coding = replace(coding, attributes=(replace(coding.attributes[0], of=ColumnRef("p", "x")),))

    def clip(*given: Any, **more: Any) -> None:
        raise AssertionError("nothing lies outside")

    monkeypatch.setattr(gate.np, "clip", clip)
    out = np.array([[-7.0, 0.5, 7.0]])
    coding._project(out)
    assert out.tolist() == [[-7.0, 0.5, 7.0]]


def test_made_columns_of_more_than_256_megabytes_are_made_anew() -> None:
    class Many:
        shape, bound = (2**26 + 1, 1), 7

        def rows(self, start: int, stop: int) -> NDArray[np.int16]:
            assert stop - start == 2
            return np.ones((2, 1), np.int16)

    store = _MadeRows(Many(), lambda start, rows: rows, 1)  # type: ignore[arg-type]
    assert store.rows(3, 5).tolist() == [[1, 1]] * 2


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
    for boxes, bound in ((1, 3.0), (2, 2.75)):
        monkeypatch.setattr(monomials, "MOST_BOXES", boxes)
        assert _largest(groups, Distribution.LAPLACE) == bound


def test_noise_that_is_not_there_is_said_to_be_large() -> None:
    """Where no sum is of two parties, 2^40 stands for its noise."""
    layout = signed_layout([2, 1], label=0)
    block = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LINEAR))
    asked: list[ProductNeeds] = []
    fit_sizes(plan, 100, lambda needs: asked.append(needs) or ProductSizes())  # type: ignore[func-returns-value]
    assert [(needs.noise_std, needs.noise_reach) for needs in asked] == [(2.0**40, 0)]


def test_one_number_stands_for_an_unknown_number_of_records() -> None:
    assert session_plan.TYPICAL_ROWS == evaluation.TYPICAL_ROWS == 10_000
