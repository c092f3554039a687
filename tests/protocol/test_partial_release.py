"""Releases of a part of the products: nothing else is opened, and every secure product serves them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from colonnade.crypto.product import Cross
from colonnade.foundation.errors import PrivacyError, SchemaError, StudyError
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Role
from colonnade.planning.agreement import Agreement
from colonnade.planning.crosses import crosses_of
from colonnade.planning.session_plan import SessionPlan, plan_session
from tests.helpers.sessions import agreement_of, exact_moments, tables_of, tapped_session

IDENTITY = bytes(range(32))
PAIRS = (("x0", "x2"), ("c0", "b1"), ("p0.x0", "c0"))


def session_of(agreement: Agreement, rows: int = 60) -> SessionPlan:
    return plan_session(agreement, rows, IDENTITY)


def opened(session: SessionPlan) -> set[tuple[int, int]]:
    """Every product of two coordinates that a session opens, by its crosses alone."""
    out = set()
    for c in session.spec.crosses:
        left, right = (session.columns_of(session.parties[k]).start for k in (c.left, c.right))
        for i in range(c.left_start, c.left_stop):
            out |= {tuple(sorted((left + i, right + j))) for j in range(c.right_start, c.right_stop)}
    return out


@pytest.mark.parametrize("changes", [{"release": "label"}, {"release": "pairs", "pairs": PAIRS}, {"release": "full"}])
@pytest.mark.parametrize("parties", [1, 3, 4])
def test_just_the_released_products_are_opened(parties: int, changes: dict[str, object]) -> None:
    if parties == 1 and "pairs" in changes:
        changes = changes | {"pairs": PAIRS[-1:]}
    session = session_of(agreement_of(parties, **changes))
    crossed = [i.block for i in session.plan.blocks if not i.block.single]
    terms = {tuple(sorted(row)) for b in crossed for row in b.factors.tolist()}
    assert opened(session) == terms
    places = np.concatenate([session.positions[i] for i in range(len(session.plan.blocks))])
    assert sorted(places.tolist()) == list(range(session.length))
    noisy = np.concatenate([w for _, w in session.cross_noise(Fraction(1)).spreads]) if crossed else np.zeros(0)
    assert sorted(noisy.tolist()) == list(range(session.length - session.cross_start))


def test_pairs_name_what_is_released() -> None:
    session = session_of(agreement_of(3, release="pairs", pairs=PAIRS))
    names = session.plan.layout.attributes
    found = set()
    for item in session.plan.blocks:
        if item.block.role is Role.FEATURE:
            owners = session.plan.layout.attribute_of[item.block.factors]
            found |= {tuple(sorted((str(names[i].of), str(names[j].of)))) for i, j in owners.tolist()}
    squares = {(f"p{k}.x{k}",) * 2 for k in range(3)}
    assert found == squares | {("p0.x0", "p2.x2"), ("p0.c0", "p1.b1"), ("p0.c0", "p0.x0")}


@pytest.mark.parametrize("product", ["plain", "lattice", "bgn"])
@pytest.mark.parametrize("changes", [{"release": "label"}, {"release": "pairs", "pairs": PAIRS}])
def test_every_product_opens_them_right(product: str, changes: dict[str, object]) -> None:
    """At a huge epsilon the noise is nothing, and what is opened is what a look at all tables gives."""
    agreement = agreement_of(3, product=product, epsilon=1e6, **changes)
    tables = tables_of(agreement, 12)
    tapped = tapped_session(agreement, tables=tables)
    tapped.run()
    assert tapped.release is not None
    moments, exact = tapped.release.moments(), exact_moments(tapped.session, tables)
    known = np.isfinite(moments.std) & (moments.std > 0)
    assert known.sum() > 20
    assert np.abs(moments.value - exact)[known].max() < 0.05


def test_a_product_without_noise_is_never_planned() -> None:
    """A block that holds a part of a table cannot be multiplied in whole columns: it is refused."""
    session = session_of(agreement_of(2))
    layout = session.plan.layout
    block = next(i.block for i in session.plan.blocks if not i.block.single and i.block.size > 4)
    part = Block(block.owners, block.role, block.factors[:-1], block.weights[:-1])
    with pytest.raises(PrivacyError, match="no noise"):
        crosses_of(layout, [part])


def test_crosses_of_the_same_two_parties_tell_of_one_key() -> None:
    """A column that stands in several rectangles is told of by all of them together."""
    whole = session_of(agreement_of(3, product="lattice"), 5000)
    both = whole.agreement.with_terms(release="pairs", pairs=(("x0", "x1"), ("c0", "b1"), ("x0", "x2"), ("c0", "x2")))
    session = session_of(both, 5000)
    shared = [c for c in session.spec.crosses if {c.left, c.right} == {0, 1}]
    assert len(shared) > 2
    for sealed in (True, False):
        for partner in ("p0", "p1"):
            alone = [e for e in session.exposures if "p2" not in e.cheaters]
            found = [e for e in alone if e.partner == partner and e.sealed == sealed]
            assert len(found) <= 1
            counts = _values(shared, session, partner, sealed)
            assert [e.values for e in found] == ([max(counts)] if counts else [])


def _values(crosses: list[Cross], session: SessionPlan, partner: str, sealed: bool) -> list[int]:
    """Opened values of each column of one side, counted cell by cell."""
    counts: dict[int, int] = {}
    for c in crosses:
        if session.parties[c.left if sealed else c.right] == partner:
            start, stop = (c.left_start, c.left_stop) if sealed else (c.right_start, c.right_stop)
            for column in range(start, stop):
                counts[column] = counts.get(column, 0) + c.shape[1 if sealed else 0]
    return list(counts.values())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"release": "pairs"}, "lists no pairs"),
        ({"pairs": (("x0", "x1"),)}, "lists pairs"),
        ({"release": "pairs", "pairs": (("x0", "y"),)}, "other than the label"),
        ({"release": "pairs", "pairs": (("x0", "p0.x0"),)}, "two different columns"),
        ({"release": "pairs", "pairs": (("x0", "x1"), ("x1", "x0"))}, "listed once"),
        ({"release": "pairs", "pairs": (("x0", "z"),)}, "declared by no party"),
        ({"release": "some"}, "release must be one of"),
    ],
)
def test_pairs_are_checked(changes: dict[str, object], told: str) -> None:
    with pytest.raises((StudyError, SchemaError), match=told):
        agreement_of(2, **changes)


def test_pairs_travel_with_the_agreement() -> None:
    agreement = agreement_of(3, release="pairs", pairs=PAIRS)
    assert Agreement.of(agreement.to()) == agreement
    assert "pairs" not in agreement_of(3).to()
