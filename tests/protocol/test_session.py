"""A session is a pure function of agreement, n and identity, and its integers fit together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.foundation.errors import ColonnadeError, PrivacyError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.moments import Distribution, Encoding
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import Offer, View
from colonnade.planning.session_plan import plan_session
from tests.helpers.polynomials import polynomial
from tests.helpers.sessions import agreement_of, tapped_session

IDENTITY = bytes(range(32))


@pytest.mark.parametrize("parties", [1, 2, 3, 5])
@pytest.mark.parametrize("calibration", list(Calibration))
def test_positions_are_a_partition(parties: int, calibration: Calibration) -> None:
    session = plan_session(agreement_of(parties, calibration=calibration), 100, IDENTITY)
    places = np.concatenate([session.positions[i] for i in range(len(session.plan.blocks))])
    assert len(set(places.tolist())) == places.size == sum(i.block.size for i in session.plan.blocks)
    assert places.min() == 0 and places.max() < session.length
    assert session.cross_start == sum(session.plan.blocks[i].block.size for i in session.single)


def test_every_cross_party_product_is_released_once() -> None:
    """Nothing is opened that the plan has no noise for: crosses hold exactly the terms of cross-party blocks."""
    for changes in ({}, {"calibration": Calibration.PAPER}, {"task": Task.LOGISTIC}):
        agreement = agreement_of(3)
        if changes.get("task") is Task.LOGISTIC:
            columns = {p: dict(c) for p, c in agreement.schema.parties.items()}
            columns["p0"]["y"] = Binary(("no", "yes"))
            agreement = replace(agreement, schema=Schema(columns))
        session = plan_session(agreement.with_terms(**changes), 100, IDENTITY)
        crossed = sum(c.shape[0] * c.shape[1] for c in session.spec.crosses)
        terms = sum(i.block.size for i in session.plan.blocks if not i.block.single)
        assert crossed == terms, changes


def test_digest_changes_with_everything_that_matters() -> None:
    agreement = agreement_of(2)
    base = plan_session(agreement, 100, IDENTITY).digest
    assert base == plan_session(agreement, 100, IDENTITY).digest
    others = [
        plan_session(agreement.with_terms(epsilon=1.0001), 100, IDENTITY),
        plan_session(replace(agreement, collusion=0), 100, IDENTITY),
        plan_session(replace(agreement, calibration=Calibration.PAPER), 100, IDENTITY),
        plan_session(replace(agreement, delta=1e-6), 100, IDENTITY),
        plan_session(agreement, 101, IDENTITY),
        plan_session(agreement, 100, bytes(32)),
    ]
    assert len({base, *(s.digest for s in others)}) == 7


@pytest.mark.parametrize("product", ["plain", "lattice"])
@pytest.mark.parametrize("calibration", list(Calibration))
def test_the_product_never_costs_more_epsilon_than_asked(product: str, calibration: Calibration) -> None:
    session = plan_session(agreement_of(3, product=product, calibration=calibration), 5000, IDENTITY)
    assert 0.99 < session.plan.epsilon <= 1.0
    assert (session.plan.error_factor > 1) == (product == "lattice")
    assert all((session.plan.parties[p][View.OUTSIDER] or 9) <= 1.0 for p in session.parties)


def test_indicators_alone_need_no_rounding() -> None:
    schema = Schema({"a": {"c": Categorical(("u", "v", "w")), "y": Binary(("n", "p"))}, "b": {"d": Binary(("n", "p"))}})
    agreement = agreement_of(2, schema=schema, label="y", task=Task.LOGISTIC)
    session = plan_session(agreement, 100, IDENTITY)
    assert session.grid.bound == 1
    assert all(a.kind is Encoding.SIMPLEX for a in session.plan.layout.attributes)


@pytest.mark.parametrize("collusion", [0, 1, 6])
def test_little_gaussian_noise_in_many_shares_takes_a_finer_grid(collusion: int) -> None:
    """Eight shares of a narrow Gaussian would not add up to one on a grid of whole records."""
    schema = Schema({f"P{k}": {f"c{k}": Binary(("a", "b"))} for k in range(8)})
    terms = agreement_of(2)
    few = terms.with_terms(
        schema=schema, label="P0.c0", task=Task.LOGISTIC, epsilon=30.0, delta=1e-4, collusion=collusion
    )
    session = plan_session(few, 5000, b"x" * 16)
    assert session.grid.bound > 1
    for i, item in enumerate(session.plan.blocks):
        if not item.block.single:
            drawn = session.noise(i).draw(session.plan.shares, Randomness(b"%d" % i))
            assert drawn.shape == (item.block.size,)


def test_grid_is_finer_where_noise_is_smaller() -> None:
    coarse, fine = (plan_session(agreement_of(2, epsilon=e), 2000, IDENTITY).grid.bound for e in (0.1, 50.0))
    assert coarse < fine


def test_describe_names_every_view_and_block() -> None:
    session = plan_session(agreement_of(2, collusion=0), 100, IDENTITY)
    told = session.describe()
    assert set(told["record"]) == {v.value for v in View}
    assert told["record"]["party"] is None
    assert len(told["blocks"]) == len(session.plan.blocks)
    assert any("no guarantee against a party" in w for w in session.warnings())
    assert any('"plain"' in w for w in session.warnings())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_columns_in_the_clear_leave_a_promise_to_outsiders_alone(delta: float) -> None:
    clear, sealed = (plan_session(agreement_of(2, product=p, delta=delta), 100, IDENTITY) for p in ("plain", "lattice"))
    for party in (None, *clear.parties):
        views = clear.views(party)
        assert views.pop(View.OUTSIDER) is not None
        assert set(views.values()) == {None}
        assert None not in sealed.views(party).values()
    assert clear.describe()["parties"]["p0"]["epsilon"]["server"] is None
    assert clear.describe()["record"]["coalition"] is None
    # A party that is alone shows its columns to nobody, whatever the product.
    alone = plan_session(agreement_of(1, product="plain", collusion=0), 100, IDENTITY)
    assert alone.views()[View.SERVER] == alone.views()[View.OUTSIDER] == alone.plan.epsilon


def test_terms_are_the_same_in_every_session() -> None:
    one, other, longer = (
        plan_session(agreement_of(2), rows, identity)
        for rows, identity in ((100, IDENTITY), (100, b"\1" * 32), (101, IDENTITY))
    )
    assert one.digest != other.digest
    assert one.terms == other.terms == plan_session(agreement_of(2), 100, bytes(32)).digest
    assert one.terms != longer.terms


def test_hopeless_plans_warn_before_anything_is_spent() -> None:
    poor = plan_session(agreement_of(2, epsilon=0.01), 50, IDENTITY)
    rich = plan_session(agreement_of(2, epsilon=5.0), 100_000, IDENTITY)
    assert poor.forecast.hopeless and not rich.forecast.hopeless
    assert any("trivial" in w for w in poor.warnings())
    assert not any("trivial" in w for w in rich.warnings())


def test_bottom_up_session() -> None:
    offers = {"p0": Offer(0.5), "p1": Offer(1.0)}
    session = plan_session(agreement_of(2, epsilon=None, offers=offers), 100, IDENTITY)
    for party, offer in offers.items():
        assert (session.plan.parties[party][View.SERVER] or 9) <= offer.total
    gaussian = plan_session(agreement_of(2, epsilon=None, offers=offers, delta=1e-6), 100, IDENTITY)
    assert gaussian.plan.law is Distribution.GAUSSIAN


@pytest.mark.parametrize(
    ("changes", "rows", "sentence"),
    [
        ({}, 1, "at least 2 common records, got n=1"),
        ({"epsilon": 0.0}, 100, "epsilon must be a positive number"),
        ({"epsilon": float("nan")}, 100, "epsilon must be a positive number"),
        ({"delta": 1.0}, 100, "delta must lie in"),
        ({"collusion": 2}, 100, "collusion must lie between 0 and K-1=1"),
        ({"task": Task.LOGISTIC}, 100, "the label of a logistic regression must be binary"),
        ({"label": "c0"}, 100, "the label of a linear regression must be numeric"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes: dict[str, object], rows: int, sentence: str) -> None:
    with pytest.raises(ColonnadeError, match=sentence):
        plan_session(agreement_of(2, **changes), rows, IDENTITY)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"product": "magic"}, "product must be one of lattice, bgn, plain, got product='magic'"),
        ({"release": "all"}, "release must be one of"),
        ({"epsilon": None}, "got neither"),
        ({"offers": {"p0": Offer(1.0)}}, "got both"),
        ({"epsilon": None, "offers": {"zz": Offer(1.0)}}, "an offer must come from a party of the study, got 'zz'"),
        ({"delta": "x"}, "delta must be a number"),
        ({"collusion": 0.5}, "collusion must be a number"),
        ({"label": "nobody"}, "column nobody is declared by no party"),
    ],
)
def test_agreements_that_say_nonsense(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ColonnadeError, match=sentence):
        agreement_of(2, **changes)


def test_a_regression_needs_a_feature() -> None:
    schema = Schema({"a": {"y": Numeric(0, 1)}})
    with pytest.raises(StudyError, match="a regression needs a feature besides its label"):
        plan_session(agreement_of(1, schema=schema, label="y"), 100, IDENTITY)


def test_a_degree_three_agreement_cannot_be_written() -> None:
    """Only declared tasks travel; a polynomial of higher degree is refused where a plan is made."""
    from colonnade.mechanism.dissection import dissect
    from colonnade.mechanism.plan import Terms, plan_top_down
    from tests.helpers.adversary import signed_layout

    layout = signed_layout([2, 2])
    blocks = dissect(polynomial(layout, [(1.0, layout.names[1:4])]))
    with pytest.raises(PrivacyError, match="terms of degree 3"):
        plan_top_down(layout, blocks, 1.0, Terms(Task.LINEAR))


@pytest.mark.parametrize(("delta", "warned"), [(0.0, False), (1e-6, False), (1 / 49, True), (0.3, True)])
def test_a_delta_of_one_in_n_is_warned_of(delta: float, warned: bool) -> None:
    session = plan_session(replace(agreement_of(2), delta=delta), 49, IDENTITY)
    assert any("drawn at random" in w for w in session.warnings()) is warned


def test_noise_below_a_unit_has_room_too() -> None:
    """Tables have units of whole records: with a large epsilon their noise is less, until the gain makes it many."""
    levels = Schema({"p0": {"y": Binary(("no", "yes"))}, "p1": {"c": Categorical(tuple("abcdefgh"))}})
    agreement = replace(agreement_of(2, task=Task.LOGISTIC), schema=levels, label="p0.y", product="lattice")
    for epsilon in (30.0, 100.0, 300.0):
        session = plan_session(agreement.with_terms(epsilon=epsilon), 31_250, IDENTITY)
        assert session.plan.epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize("interactions", [(), (("p0.x0", "p1.x1", "p2.x2"),)])
def test_parties_send_what_the_plan_expects_of_them(interactions: tuple[tuple[str, ...], ...]) -> None:
    """Beside it there are the heads of some dozens of messages, of less than 4,000 bytes in all."""
    wire = tapped_session(agreement_of(3, product="lattice", epsilon=20.0, interactions=interactions))
    wire.run()
    for party, expected in wire.session.sent.items():
        assert expected < wire.traffic.sent[party] < expected + 4_000
    assert (wire.session.chains is not None) is bool(interactions)
