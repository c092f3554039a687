"""Numbers of a plan that a promise or a key rests on, each by hand; the derivations stand with the tests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import e, floor, log, pi, sqrt

import numpy as np
import pytest

from colonnade.consent.policy import Policy
from colonnade.crypto.lattice.parameters import proved_security
from colonnade.crypto.lattice.security import key_bits
from colonnade.crypto.product import ProductNeeds, ProductSizes
from colonnade.foundation.errors import PolicyError, PrivacyError, ProductError, StudyError
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.declared import DeclaredObjective, declared_layout
from colonnade.mechanism.dissection import Block, squared_sum
from colonnade.mechanism.moments import Distribution, Encoding, Role
from colonnade.mechanism.monomials import monomial_sensitivity
from colonnade.mechanism.objective import Calibration, Task, with_products
from colonnade.mechanism.plan import BlockPlan, Offer, Terms, _counted, _slack, _Split, _square_slack, plan_top_down
from colonnade.planning.agreement import Agreement
from colonnade.planning.precision import (
    BOUNDS,
    _coalition_columns,
    farthest,
    fit_sizes,
    grid_bound,
    require_room,
    rounding_share,
)
from colonnade.planning.session_plan import SessionPlan, foretold, plan_session
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.sessions import agreement_of

PRODUCT = Block(("A",), Role.FEATURE, np.array([[1, 2]]), np.ones(1))
"""x1 x2 of one party: from 1 to -1 it moves by 2."""
PRODUCT_AB = Block(("A", "B"), Role.FEATURE, np.array([[1, 2]]), np.ones(1))


def alone(rows: int = 1000, **changes: object) -> SessionPlan:
    agreement = Agreement.from_terms(
        "alone", Schema({"A": {"x": Numeric(-1, 1), "y": Numeric(-1, 1)}}), "y", Task.LINEAR, epsilon=1.0, collusion=0
    )
    return plan_session(agreement.with_terms(**changes), rows, bytes(32))


def test_grids_are_odd_numbers_of_steps() -> None:
    """Of b bits with a sign: 2^(b-1) - 1 for 4 to 12 bits."""
    assert BOUNDS == (7, 15, 31, 63, 127, 255, 511, 1023, 2047)


@pytest.mark.parametrize(("delta", "own"), [(0.0, "l1"), (1e-6, "l2")])
def test_slack_of_squares_in_both_norms(delta: float, own: str) -> None:
    """At rate 3 on a grid of 7, in steps of 1/49.

    Four squares by themselves move by 5/4 each: 5 in L1, 5/4 sqrt(4) = 5/2 in L2. A trace of them is one number, that
    moves by 4/4 + 1 = 2. (x + 2 y)^2 of two parties, over 4: x y + x^2/4 + y^2 moves by 5/4 (1/4 + 1) + 2 = 57/16.
    """
    layout, rate = signed_layout([5, 1], label=1), 3.0
    squares = np.array([[c, c] for c in range(1, 5)])
    terms = Terms(Task.LINEAR, delta=delta, bound=7)
    (shared,) = squared_sum(layout, {"A": (1, 1.0), "B": (6, 2.0)})
    assert sorted(shared.weights.tolist()) == [0.25, 1.0, 1.0]
    every = {
        Block(("A",), Role.FEATURE, squares, np.ones(4)): {"l1": 5.0, "l2": 2.5}[own],
        Block(("A",), Role.FEATURE, squares, np.ones(4), summed=True): 2.0,
        shared: 57 / 16,
    }
    for block, steps in every.items():
        assert _square_slack(layout, [(block, rate)], terms) == pytest.approx(rate * steps / 49, rel=1e-9)
    together = sum(every.values()) if own == "l1" else sqrt(sum(steps**2 for steps in every.values()))
    found = _square_slack(layout, [(block, rate) for block in every], terms)
    assert found == pytest.approx(rate * together / 49, rel=1e-9)


def test_laplace_noise_is_set_against_l1_and_gaussian_against_l2() -> None:
    assert (Distribution.LAPLACE.norm, Distribution.GAUSSIAN.norm) == (1, 2)


def test_every_released_number_is_submitted_and_no_other() -> None:
    """Of one party: x^2, both halves of the label times x, and one half alone."""
    session = alone()
    assert session.length == 4 == sum(item.block.size for item in session.plan.blocks) and session.adds_up


def test_terms_without_a_parameter_are_not_summed() -> None:
    """Of (y - w x)^2 = y^2 - 2 w x y + w^2 x^2 what no parameter multiplies moves no minimum."""
    schema = Schema({"A": {"x": Numeric(-1, 1), "y": Numeric(-1, 1)}})
    declared = DeclaredObjective("(y - w * x)^2", ("w",), 1.0)
    layout = declared_layout(schema, "y", declared)
    assert declared.written(layout) == {("w",): {(1, 2): -2.0}, ("w", "w"): {(1, 1): 1.0}}


def test_a_session_pays_for_its_rounded_squares() -> None:
    """x^2 moves by 1, and by 5/4 of a step of 1/B^2; scales are rounded up to 24 bits."""
    session = alone()
    (item,) = [i for i in session.plan.blocks if i.block.factors.tolist() == [[1, 1]]]
    known = 1 + 1.25 / session.grid.bound**2
    assert session.plan.bound == session.grid.bound
    assert known <= float(item.sensitivity) <= known * (1 + 2.0**-22)


def test_norms_are_counted_as_they_are_after_rounding_on_the_sessions_grid() -> None:
    """Norm 1/2 of 4 numbers on a grid of 7: beside it (6 · 3.5 + 4/4 + 1.5 · 2) / (2 · 3.5 · 7) = 25/49."""
    parts = [*[("A", Encoding.SIGNED, 1, Role.FEATURE)] * 4, ("A", Encoding.SIMPLEX, 3, Role.FEATURE)]
    layout = replace(layout_from([*parts, ("A", Encoding.SIGNED, 1, Role.LABEL)]), norms=(("A", 0.5),))
    terms = Terms(Task.LINEAR, bound=7, collusion=0).check(layout, ())
    assert terms.bound == 7
    ((owner, norm),) = _counted(layout, terms).norms
    assert owner == "A" and norm == pytest.approx(0.5 + 25 / 49, rel=1e-12)


def test_single_sums_of_two_parties_need_a_product_without_errors() -> None:
    layout = signed_layout([1, 1])
    blocks = tuple(Block((p,), Role.FEATURE, np.array([[0, c]]), np.ones(1)) for c, p in ((1, "A"), (2, "B")))
    assert Terms(Task.LINEAR).check(layout, blocks).collusion == 1


def test_what_is_left_of_an_offer_is_lowered_by_a_2_to_the_40th() -> None:
    """x1 x2 moves by 2, half of it by `box_bound`, which adds a billionth: scale 6 may shrink to 1/3."""
    layout = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE)] * 2)
    found = _slack(layout, (PRODUCT,), [Fraction(6)], Terms(Task.LINEAR, collusion=0), "A", Offer(1.0))
    assert float(found) == pytest.approx(6 / (2 + 1e-9) * (1 - 2.0**-40), rel=1e-13)


@pytest.mark.parametrize(("delta", "moved"), [(0.0, 2.0), (1e-6, sqrt(2))])
def test_an_offer_is_split_by_the_cost_of_its_blocks(delta: float, moved: float) -> None:
    """A product moves by 2, a table of 2 x 4 cells by 2, in L2 by sqrt(2): budgets go with the cube root of moved^2
    size, (4 8 / 4)^(1/3) = 2, and under Gaussian noise with the square root, (2 8 / 4)^(1/2) = 2."""
    signed, levels = [("A", Encoding.SIGNED, 1, Role.FEATURE)] * 2, ("A", Encoding.SIMPLEX, 2, Role.FEATURE)
    layout = layout_from([*signed, levels, ("A", Encoding.SIMPLEX, 4, Role.LABEL)])
    table = Block(("A",), Role.FEATURE, np.array([[a, b] for a in (3, 4) for b in (5, 6, 7, 8)]), np.ones(8))
    terms = Terms(Task.MULTINOMIAL, delta=delta, collusion=0)
    one, more = _Split(layout, (PRODUCT, table), "A", Offer(1.0), terms).budgets
    assert one is not None and more is not None
    assert float(more / one) == pytest.approx((moved**2 * 8 / 4) ** (1 / 3 if delta == 0 else 1 / 2), rel=1e-6)
    assert float(more / one) == pytest.approx(2, rel=1e-6)


def test_integers_of_one_party_fill_the_words_up_to_their_end() -> None:
    """n records of B^2 each, and noise b (ln 2m + 48 ln 2): the last n that fits is accepted, the next one refused."""
    session = alone()
    item = max((i for i in session.plan.blocks), key=lambda i: i.scale)
    unit = session.grid.unit
    reach = float(item.scale) * unit * (log(2 * item.block.size) + 48 * log(2))
    plan = replace(session.plan, blocks=(item,))
    bits = 40
    fits = int((2.0 ** (bits - 1) - reach) // unit)
    spec = replace(session.spec, modulus_bits=bits)
    require_room(plan, replace(spec, rows=fits), 10**9, {})
    with pytest.raises(ProductError):
        require_room(plan, replace(spec, rows=fits + 1), 0, {})


def test_a_summed_block_reaches_the_sum_of_its_weights() -> None:
    """x y + x^2/4 + y^2/4 is at most 3/2: of one record 2 whole units, of two 3, and hardly any noise."""
    layout = signed_layout([1, 1, 1])
    shared = squared_sum(layout, {"A": (1, 1.0), "B": (2, 1.0), "C": (3, 1.0)})[0]
    assert sorted(shared.weights.tolist()) == [0.25, 0.25, 1.0]
    plan = plan_top_down(layout, (PRODUCT_AB,), 1.0, Terms(Task.LINEAR))
    item = BlockPlan(shared, Fraction(1), Fraction(1, 1 << 20))
    assert [farthest(plan, item, rows, 49) for rows in (1, 2)] == [2 * 49, 3 * 49]


def test_columns_of_those_who_may_collude() -> None:
    """Parties of 5, 3 and 2 columns: one looks alone where nobody colludes, two of them have 8, with made ones 9."""
    plan = plan_top_down(signed_layout([5, 3, 2]), (PRODUCT,), 1.0, Terms(Task.LINEAR, collusion=0, delta=1e-6))
    told = {c: _coalition_columns(replace(plan, collusion=c), {}) for c in (0, 1, 2)}
    assert told == {0: 5, 1: 5, 2: 8}
    assert _coalition_columns(replace(plan, collusion=2), {"C": 2}) == 9


def test_rounding_beside_the_noise() -> None:
    """1000 records: of a product the variance is 1/2 each, of a square 1, of a trace of 4 it is 4; of noise 2 b^2."""
    layout = signed_layout([4, 1])
    squares = np.array([[c, c] for c in range(1, 5)])
    blocks = {
        PRODUCT: 0.5,
        Block(("A",), Role.FEATURE, squares, np.ones(4)): 1.0,
        Block(("A",), Role.FEATURE, squares, np.ones(4), summed=True): 4.0,
    }
    for block, variance in blocks.items():
        plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LINEAR, collusion=0))
        (item,) = plan.blocks
        known = sqrt(1000 * variance) / (sqrt(2) * float(item.scale)) / 31
        assert rounding_share(plan, 1000, 31) == pytest.approx(known, rel=1e-12)


def test_the_grid_is_as_fine_as_gaussian_shares_need() -> None:
    """Indicators are not rounded. Each of two shares has variance 10 on the product's grid where B^2 s >= sqrt(20)."""
    layout = layout_from([("A", Encoding.SIMPLEX, 2, Role.FEATURE), ("B", Encoding.SIMPLEX, 2, Role.LABEL)])
    block = Block(("A", "B"), Role.LABEL, np.array([[1, 3]]), np.ones(1))
    plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LOGISTIC, delta=1e-6, collusion=0))
    (item,) = plan.blocks
    for bound, finer in ((1, 3), (3, 7), (7, 2047)):
        least = sqrt(20) / bound**2
        for scale, found in ((least * 1.01, bound), (least / 1.01, finer)):
            there = replace(plan, blocks=(replace(item, scale=Fraction(scale)),))
            assert grid_bound(there, 1000) == found


def test_bits_told_are_of_the_narrowest_share() -> None:
    """Each sees its own share of Gaussian noise: a value tells the word's bits less the other's entropy."""
    session = plan_session(agreement_of(2, product="lattice", delta=1e-6, collusion=1), 5000, bytes(32))
    plan, word = session.plan, session.spec.modulus_bits
    narrow = float(min(plan.narrowed.values()))
    assert 0.25 <= narrow < 1 and len(session.spec.crosses) == 1
    (cross,) = session.spec.crosses
    bits = np.zeros(cross.shape)
    unit = session.spec.gain * session.grid.bound**2
    for i, item in enumerate(plan.blocks):
        if not item.block.single:
            spread = (narrow * float(item.scale) * unit / np.abs(item.block.weights)) ** 2 + 4
            place = session.positions[i] - session.cross_start
            bits.ravel()[place] = word - np.log2(2 * pi * e * spread) / 2
    left, right = session.parties[cross.left], session.parties[cross.right]
    told = {one.partner: one.bits for one in session.tellings}
    assert told == pytest.approx({left: bits.sum(axis=1).max(), right: bits.sum(axis=0).max()}, rel=1e-9)
    assert not alone().tellings and not plan_session(agreement_of(2), 5000, bytes(32)).tellings


def test_where_everything_is_proved_nothing_is_told() -> None:
    agreement = agreement_of(2, product="lattice", proofs="required")
    session = plan_session(agreement, 200, bytes(32))
    assert session.proved and not session.tellings and not session.exposures
    # One party has nobody to prove anything to.
    assert not alone(product="plain", proofs="required").proved


def test_noise_of_a_released_moment() -> None:
    """Scale b of Laplace is a deviation of sqrt(2) b on the moment, of Gaussian s itself and what rounding takes."""
    for session in (alone(), alone(delta=1e-6)):
        for i, item in enumerate(session.plan.blocks):
            scale = float(item.scale)
            known = sqrt(2) * scale if session.plan.delta == 0 else sqrt(scale**2 + 4 / session.grid.unit**2)
            weights = np.ones(1) if item.block.summed else np.abs(item.block.weights)
            if set(weights.tolist()) == {1.0}:
                assert session.released_std(i) == pytest.approx(np.full(weights.size, known), rel=1e-9)


def test_bytes_that_are_expected_hold_the_submission_and_sealed_words() -> None:
    """A sealed column is a word of 4 bytes or more for each of 1000 records, and 2048 for its key; who multiplies
    sends 2048 of each column."""
    session = plan_session(agreement_of(2, product="lattice"), 1000, bytes(32))
    (cross,) = session.spec.crosses
    for party, words in ((cross.left, cross.shape[0] * 3048), (cross.right, cross.shape[1] * 2048)):
        least = 8 * session.length + words * 4
        assert least < session.sent[session.parties[party]] < 2 * least


def test_a_forecast_of_the_papers_calibration_has_its_own_epsilon() -> None:
    paper = agreement_of(2, calibration=Calibration.PAPER)
    offered = agreement_of(2, epsilon=None, offers={"p0": Offer(1.0), "p1": Offer(0.5)})
    for terms in (paper, offered):
        assert foretold(terms, 1000)[0] == plan_session(terms, 1000, bytes(32)).plan.epsilon


def test_needs_of_products_of_three_owners() -> None:
    """Noise on integers of weight w is scale B^3/w: the least of a chain's sums is where w is largest."""
    columns = {p: {f"{p}x": Numeric(-1, 1)} for p in "ab"} | {"c": {"cx": Numeric(-1, 1), "cy": Numeric(-1, 1)}}
    text = "(w0 * ax * bx * cx + 10 * w1 * ax * bx * cy)"
    agreement = Agreement.from_terms(
        "three", Schema(columns), "cy", Task.POLYNOMIAL, epsilon=1.0, objective=text, parameters=("w0", "w1"), ball=1.0
    )
    session = plan_session(agreement, 500, bytes(32))
    assert session.local is not None
    taken: list[ProductNeeds] = []

    def stop(needs: ProductNeeds) -> ProductSizes:
        taken.append(needs)
        return ProductSizes()

    grid, _ = fit_sizes(session.plan, 500, stop, session.local)
    (needs,) = taken
    (chain,) = needs.chains
    (item,) = session.plan.blocks
    weights = np.abs(item.block.weights)
    assert weights.max() > 2 * weights.min()
    known = sqrt(2) * float(item.scale) * grid.bound**3 / weights.max()
    assert chain.owners == 3 and chain.noise_std == pytest.approx(known, rel=1e-9)
    Policy("a", ("b", "c"), 9.0, Cap(9.0), largest_owners=3, largest_degree=3).check(session)
    for key, limit in (("largest_owners", 2), ("largest_degree", 2)):
        with pytest.raises(PolicyError, match=f"{key} is {limit}"):
            Policy("a", ("b", "c"), 9.0, Cap(9.0), **{key: limit}).check(session)
    # In the last step each sends 2048 words of a key, or of a sum, at least.
    assert all(sent > 8 * session.length + 2048 * 4 for sent in session.sent.values())


def near(found: float, known: float) -> bool:
    """Never below, and above by the hundredth at most that a search over boxes may leave."""
    return known <= found <= known * 1.011


def test_products_that_hold_each_other_back() -> None:
    """With s of the number that changes: x^2 moves by 1 - s^2, the table x times levels by 1 + |s|, at s = 1/2 by 9/4
    together. In L2 the squares are (1 - s^2)^2 and at most 4, at s = -1. The label's levels are levels like others."""
    for role, other in ((Role.FEATURE, Role.LABEL), (Role.LABEL, Role.FEATURE)):
        parts = [("A", Encoding.SIGNED, 1, Role.FEATURE), ("A", Encoding.SIMPLEX, 2, role)]
        layout = layout_from([*parts, ("B", Encoding.SIGNED, 1, other)])
        block = Block(("A",), Role.FEATURE, np.array([[1, 1], [1, 2], [1, 3]]), np.ones(3))
        assert near(monomial_sensitivity(layout, [(block, 1.0)], Distribution.LAPLACE), 9 / 4)
        assert near(monomial_sensitivity(layout, [(block, 3.0)], Distribution.GAUSSIAN), 3 * 2)


def test_products_with_one_level_of_a_column() -> None:
    """Of two records with the level x^2 and x move by 1 - s^2 and 1 - s, at s = -1/2 by 9/4; where one has it, by 2.

    As tables they would count 4.
    """
    parts = [("A", Encoding.SIGNED, 1, Role.FEATURE), ("A", Encoding.SIMPLEX, 2, Role.FEATURE)]
    layout = replace(layout_from([*parts, ("B", Encoding.SIGNED, 1, Role.LABEL)]), any_terms=True)
    longer = with_products(layout, [(1, 1, 3)])
    block = Block(("A",), Role.FEATURE, np.array([[0, layout.width], [1, 3]]), np.ones(2))
    assert near(monomial_sensitivity(longer, [(block, 1.0)], Distribution.LAPLACE), 9 / 4)
    # B has no factor of them.
    assert monomial_sensitivity(longer, [(block, 1.0)], Distribution.LAPLACE, "B") == 0


@pytest.mark.parametrize("names", [("w", ""), ("w", 5), ["w"], "w"])
def test_parameters_of_an_objective_are_names(names: object) -> None:
    with pytest.raises(StudyError, match="parameters must be a list of names"):
        DeclaredObjective("w * x", names, 1.0)  # type: ignore[arg-type]


def test_the_largest_and_the_smallest_epsilon_are_accepted() -> None:
    assert [check_epsilon(epsilon) for epsilon in (1e12, 1e-12)] == [1e12, 1e-12]
    for epsilon in (1e12 * (1 + 1e-15), 1e-12 * (1 - 1e-15)):
        with pytest.raises(PrivacyError, match="epsilon"):
            check_epsilon(epsilon)


def test_keys_of_who_is_only_proved_to_send_short_numbers() -> None:
    """300 records: tau = 2 · 1079, own sums 2 · 2037. A hint's part of the noise is r = sqrt(2048 (tau^2 + 2^2) 42.5)
    for rho, and for s sqrt(300 7^2 10.5 + 2048 (15^2 10.5 + 4074^2)); ten shrink widths by sqrt(2 (1 + 10 r^2)).
    """
    noise = 3e6
    of_rho = sqrt(2048 * (2158**2 + 4) * 42.5) / noise
    of_s = sqrt(300 * 49 * 10.5 + 2048 * (225 * 10.5 + 4074**2)) / noise
    wide, narrow = sqrt(42.5 / (2 + 20 * of_rho**2)), 1 / sqrt(2 + 20 * of_s**2)
    known = min(key_bits(2048, 40, wide, wide), key_bits(2048, 40, narrow, sqrt(10.5) * narrow))
    assert proved_security(40, 300, 7, 10, noise) == floor(known)
    # Of rho's width 3.2 must be left: sqrt(42.5 / (2 + 20 r^2)) is 3.2 at r^2 = .1075.
    edge = sqrt(2048 * (2158**2 + 4) * 42.5 / ((42.5 / 3.2**2 - 2) / 20))
    assert proved_security(40, 300, 7, 10, edge * 1.001) > 0 == proved_security(40, 300, 7, 10, edge / 1.001)
