"""Plans top-down and bottom-up on small schemas: numbers, views, refusals."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest

from colonnade.foundation.errors import LedgerError, PrivacyError
from colonnade.foundation.schema import Schema
from colonnade.mechanism.composition import Cap, Rule, charge_of, require_room
from colonnade.mechanism.dissection import dissect, traces
from colonnade.mechanism.moments import Distribution, Encoding, Role
from colonnade.mechanism.objective import Calibration, Task, exact_objective, paper_objective
from colonnade.mechanism.plan import (
    Neighbours,
    Offer,
    PrivacyPlan,
    Terms,
    View,
    check_epsilon,
    plan_bottom_up,
    plan_top_down,
)
from colonnade.mechanism.sensitivity import paper_sensitivity
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.polynomials import polynomial

LAYOUT = signed_layout([3, 2, 2])
BLOCKS = dissect(exact_objective(LAYOUT))
PAPER_BLOCKS = dissect(paper_objective(LAYOUT, Task.LINEAR))
PAPER = Terms(Task.LINEAR, Calibration.PAPER)


def epsilon_of(plan: PrivacyPlan, *owners: str) -> float:
    """What a block costs alone."""
    item = next(i for i in plan.blocks if i.block.owners == owners and i.block.role is Role.FEATURE)
    return float(item.sensitivity / item.scale)


def test_top_down_gives_the_record_its_epsilon() -> None:
    plan = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR))
    assert 0.999999 < plan.epsilon <= 1.0
    assert plan.neighbours is Neighbours.REPLACE_ONE
    assert all((plan.parties[p][View.OUTSIDER] or 9) <= plan.epsilon for p in plan.names)
    # A party with fewer coordinates than half gets a discount.
    assert (plan.parties["B"][View.OUTSIDER] or 9) < 0.95


def test_label_blocks_get_less_noise() -> None:
    plan = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR))
    label = {i.scale for i in plan.blocks if i.block.role is Role.LABEL}
    other = {i.scale for i in plan.blocks if i.block.role is Role.FEATURE}
    assert max(label) < min(other)


def test_paper_top_down_is_the_papers_noise() -> None:
    plan = plan_top_down(LAYOUT, PAPER_BLOCKS, 0.5, PAPER)
    d = 6
    assert {i.scale for i in plan.blocks} == {Fraction(2 * (1 + 2 * d + d * d)) * 2}
    assert plan.epsilon == 0.5
    for party, own in (("A", 2), ("B", 2), ("C", 2)):
        moved = (1 + 2 * d if party == "A" else 2 * own) + own * (2 * d - own)
        assert plan.parties[party][View.OUTSIDER] == pytest.approx(0.5 * moved / (1 + d) ** 2)


@pytest.mark.parametrize("product", ["plain", "lattice"])
def test_paper_blocks_count_the_products_error(product: str) -> None:
    """A record moves one cross-party block by the paper's 2 sum |weight| itself, and the lattice error comes on top."""
    number = {"kind": "numeric", "low": 0, "high": 1}
    schema = Schema.of({"a": {"x": number}, "b": {**{f"z{i}": number for i in range(12)}, "y": number}})
    offers = {"a": Offer(1.0, own=0.001), "b": Offer(100.0)}
    agreement = Agreement.from_terms(
        "s", schema, "b.y", Task.LINEAR, offers=offers, calibration=Calibration.PAPER, product=product
    )
    plan = plan_session(agreement, 20_000, bytes(32)).plan
    factor = plan.error_factor
    assert (factor > 1) == (product == "lattice")
    for item in plan.blocks:
        assert item.sensitivity == paper_sensitivity([item.block]) * (1 if item.block.single else factor)
    for name, offer in offers.items():
        assert plan.parties[name][View.SERVER] <= offer.total * (1 + 1e-12), "no party gives more than it offered"


def test_paper_calibration_absorbs_the_products_error() -> None:
    """2 max counts twice what can happen: an error of a few percent changes no printed epsilon of the record."""
    terms = Terms(Task.LINEAR, Calibration.PAPER, error_factor=Fraction(103, 100))
    assert plan_top_down(LAYOUT, PAPER_BLOCKS, 0.5, terms).epsilon == 0.5
    wide = Terms(Task.LINEAR, Calibration.PAPER, error_factor=Fraction(4))
    assert plan_top_down(LAYOUT, PAPER_BLOCKS, 0.5, wide).epsilon > 0.5


def test_error_factor_raises_the_noise_and_keeps_the_promise() -> None:
    plain = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR))
    stretched = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR, error_factor=Fraction(101, 100)))
    assert 0.999999 < stretched.epsilon <= 1.0
    for one, two in zip(plain.blocks, stretched.blocks, strict=True):
        assert one.scale < two.scale <= one.scale * Fraction(102, 100)


def test_bottom_up_pair_takes_the_smaller_offer() -> None:
    offers = {
        "A": Offer(3.0, own=1.0, pairs={"B": 0.9, "C": 0.6}),
        "B": Offer(2.0, own=1.0, pairs={"A": 0.3, "C": 0.6}),
        "C": Offer(2.0, own=1.0, pairs={"A": 0.8, "B": 0.2}),
    }
    plan = plan_bottom_up(LAYOUT, PAPER_BLOCKS, offers, PAPER)
    pair = dict.fromkeys((("A", "B"), ("A", "C"), ("B", "C")), 0.0)
    for item in plan.blocks:
        if not item.block.single:
            pair[item.block.owners] += float(item.sensitivity / item.scale)
    assert pair[("A", "B")] == pytest.approx(0.3, rel=1e-6)
    assert pair[("A", "C")] == pytest.approx(0.6, rel=1e-6)
    assert pair[("B", "C")] == pytest.approx(0.2, rel=1e-6)
    # Sequential composition, not the paper's product with Delta_f / Delta_block.
    assert plan.epsilon == pytest.approx(1.0 * 3 + 0.3 + 0.6 + 0.2, rel=1e-6)
    delta_f = paper_sensitivity(PAPER_BLOCKS)
    corollary = sum(float(delta_f / i.sensitivity * (i.sensitivity / i.scale)) for i in plan.blocks)
    assert corollary > 3 * plan.epsilon


def test_named_split_is_respected_and_a_missing_one_is_proposed() -> None:
    offers = {"A": Offer(2.0, own=0.5), "B": Offer(2.0), "C": Offer(2.0, pairs={"B": 0.25})}
    plan = plan_bottom_up(LAYOUT, BLOCKS, offers, Terms(Task.LINEAR))
    own = sum(float(i.sensitivity / i.scale) for i in plan.blocks if i.block.owners == ("A",))
    assert own == pytest.approx(0.5, rel=1e-5)
    assert epsilon_of(plan, "B", "C") == pytest.approx(0.25, rel=1e-5)
    # What C left open goes to its other blocks; nothing is lost but what a partner offers less of.
    spent = sum(float(i.sensitivity / i.scale) for i in plan.blocks if "B" in i.block.owners)
    assert 0.25 < spent <= 2.0 * (1 + 1e-6)


def test_the_proposed_split_beats_an_even_one() -> None:
    """The noise that matters, sum of scale^2 over released numbers, is smaller than with equal parts."""
    layout = signed_layout([5, 1])
    blocks = dissect(exact_objective(layout))
    proposed = plan_bottom_up(layout, blocks, {"A": Offer(1.0), "B": Offer(1.0)}, Terms(Task.LINEAR))
    even = plan_bottom_up(layout, blocks, {"A": Offer(1.0, own=0.5), "B": Offer(1.0, own=0.5)}, Terms(Task.LINEAR))

    def cost(plan: PrivacyPlan) -> float:
        return sum(float(i.scale) ** 2 * i.block.size for i in plan.blocks if "A" in i.block.owners)

    assert cost(proposed) < cost(even)


def test_views_with_collusion() -> None:
    plan = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR, collusion=1))
    assert plan.shares == 2
    assert plan.record[View.PARTY] == plan.record[View.COALITION] == plan.record[View.SERVER] == plan.epsilon
    cross = next(i for i in plan.blocks if not i.block.single)
    own = next(i for i in plan.blocks if i.block.single)
    assert plan.noise_std(cross) == pytest.approx(float(cross.scale) * sqrt(2) * sqrt(3 / 2))
    assert plan.noise_std(own) == pytest.approx(float(own.scale) * sqrt(2))


def test_views_without_collusion_laplace_promise_nothing_against_a_party() -> None:
    plan = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR, collusion=0))
    assert plan.shares == 3
    assert plan.record[View.PARTY] is None
    assert all(plan.parties[p][View.PARTY] is None for p in plan.names)
    assert plan.record[View.SERVER] == plan.record[View.COALITION] == plan.epsilon


def test_views_without_collusion_gaussian_promise_more_epsilon() -> None:
    plan = plan_top_down(LAYOUT, BLOCKS, 1.0, Terms(Task.LINEAR, delta=1e-6, collusion=0))
    party = plan.record[View.PARTY]
    assert plan.law is Distribution.GAUSSIAN
    assert party is not None and 1.1 < party < 2.0
    single = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE), ("A", Encoding.SIGNED, 1, Role.LABEL)])
    alone = plan_top_down(single, dissect(exact_objective(single)), 1.0, Terms(Task.LINEAR, collusion=0))
    assert alone.record[View.OUTSIDER] == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.05, 0.1), (1e-3, 1e-2), (1e-8, 1e-6)])
def test_a_session_of_which_a_party_knows_noise_is_charged_by_zcdp_alone(epsilon: float, delta: float) -> None:
    """Where delta alone covers a party's part, both views have next to no epsilon, and rho must tell them apart.

    By hand: A has 20 numbers, B one, all at 1, and B's becomes -1: each product x y moves by 2. A knows half of the
    variance v of its noise, so that B's part is hidden from it by v/2: rho is at least the sum of 2^2 / (2 v/2) = 4/v.
    """
    layout = signed_layout([20, 1])
    plan = plan_top_down(
        layout, dissect(exact_objective(layout)), epsilon, Terms(Task.LINEAR, delta=delta, collusion=0)
    )
    least = sum(4 * item.block.size / float(item.scale) ** 2 for item in plan.blocks if not item.block.single)
    for party in plan.names:
        charge = charge_of(plan, party)
        assert charge.rho is None and charge.zcdp is not None
        assert charge.zcdp >= least
        stated = [e for e in plan.parties[party].values() if e is not None]
        assert charge.epsilon == max(stated) and len(stated) == 4
        with pytest.raises(LedgerError, match="without collusion"):
            require_room(Cap(9.0, 0.5, Rule.RHO), Rule.RHO, [charge], charge, "people")


def test_one_party() -> None:
    layout = signed_layout([4])
    plan = plan_top_down(layout, dissect(exact_objective(layout)), 1.0, Terms(Task.LINEAR, collusion=1))
    assert plan.collusion == 0 and plan.shares == 1
    assert plan.record[View.PARTY] is None and plan.record[View.COALITION] is None
    assert plan.parties["A"][View.SERVER] == plan.epsilon


def test_traces_cost_nothing_beside_a_heavier_label() -> None:
    """At the signs that move the label's products most, no square moves."""
    layout = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE)] * 6 + [("A", Encoding.SIMPLEX, 2, Role.LABEL)])
    label_only = dissect(exact_objective(layout, products=False))
    with_trace = label_only + traces(layout)
    one = plan_top_down(layout, label_only, 1.0, Terms(Task.LINEAR))
    two = plan_top_down(layout, with_trace, 1.0, Terms(Task.LINEAR))
    assert two.blocks[0].scale == pytest.approx(one.blocks[0].scale, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, "1", None])
def test_epsilon_must_be_a_positive_number(epsilon: object) -> None:
    with pytest.raises(PrivacyError, match="epsilon must be a positive number, got epsilon="):
        check_epsilon(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        (Terms(Task.LINEAR, delta=1.0), r"delta must lie in \[0, 1\), got delta=1.0"),
        (Terms(Task.LINEAR, delta=float("nan")), "delta must lie in"),
        (Terms(Task.LINEAR, delta=-1e-6), "delta must lie in"),
        (Terms(Task.LINEAR, collusion=3), "collusion must lie between 0 and K-1=2, got collusion=3"),
        (Terms(Task.LINEAR, collusion=-1), "collusion must lie between"),
        (Terms(Task.LINEAR, Calibration.PAPER, delta=1e-6), "the paper's calibration is for pure epsilon"),
    ],
)
def test_terms_that_cannot_be_promised(terms: Terms, sentence: str) -> None:
    with pytest.raises(PrivacyError, match=sentence):
        plan_top_down(LAYOUT, BLOCKS, 1.0, terms)


@pytest.mark.parametrize(
    ("offers", "sentence"),
    [
        ({"A": Offer(1.0), "B": Offer(1.0)}, "party C must offer an epsilon"),
        ({"A": Offer(1.0), "B": Offer(-1.0), "C": Offer(1.0)}, "party B: epsilon must be a positive number"),
        ({"A": Offer(1.0, own=0.9, pairs={"B": 0.2, "C": 0.2}), "B": Offer(1.0), "C": Offer(1.0)}, "must add up to"),
        ({"A": Offer(1.0, own=1.0), "B": Offer(1.0), "C": Offer(1.0)}, "nothing is left of epsilon=1.0"),
        ({"A": Offer(1.0, own=-0.5), "B": Offer(1.0), "C": Offer(1.0)}, "must be a positive number"),
        ({"A": Offer(1.0, pairs={"Z": 0.1}), "B": Offer(1.0), "C": Offer(1.0)}, "must name another party .*'Z'"),
    ],
)
def test_offers_that_cannot_be_kept(offers: dict[str, Offer], sentence: str) -> None:
    with pytest.raises(PrivacyError, match=sentence):
        plan_bottom_up(LAYOUT, BLOCKS, offers, Terms(Task.LINEAR))


def test_degree_three_dissects_but_does_not_run() -> None:
    names = LAYOUT.names[1:]
    blocks = dissect(polynomial(LAYOUT, [(1.0, (names[0], names[3], names[5])), (2.0, (names[0], names[1]))]))
    assert {b.owners for b in blocks} == {("A",), ("A", "B", "C")}
    with pytest.raises(PrivacyError, match="got terms of degree 3 held by"):
        plan_top_down(LAYOUT, blocks, 1.0, Terms(Task.LINEAR))
