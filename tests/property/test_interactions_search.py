"""Sensitivities of products of any degree: searches come close to them, and never exceed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.columns import resident
from colonnade.crypto.lattice.parameters import TAU, chain_move
from colonnade.foundation.schema import Schema
from colonnade.mechanism.declared import DeclaredObjective, declared_layout, declared_terms
from colonnade.mechanism.dissection import Block, dissect
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Role
from colonnade.mechanism.monomials import monomial_sensitivity, rounded_parts
from colonnade.mechanism.objective import Calibration, Objective, Task, exact_objective, layout_of, monomial
from colonnade.mechanism.plan import Offer, Terms, View, plan_bottom_up, plan_top_down
from colonnade.mechanism.sensitivity import paper_sensitivity, sensitivity
from colonnade.planning.local_columns import LocalProducts
from tests.helpers.adversary import Adversary, Floats

NUMBER = {"kind": "numeric", "low": -1, "high": 1}
YES_NO = {"kind": "binary", "levels": ["no", "yes"]}
COLOURS = {"kind": "categorical", "levels": ["red", "green", "blue"]}
ROUNDING = 1 + 1e-9


class Multiplier(Adversary):
    """Chooses base coordinates, of which interactions are products; features with levels are indicators."""

    def change(self, z: Floats, w: Floats) -> Floats:
        return super().change(self._whole(z), self._whole(w))

    def _whole(self, rows: Floats) -> Floats:
        out = rows.copy()
        for i, attribute in enumerate(self.layout.attributes):
            span = self.layout.span(i)
            if attribute.ref is None:
                out[:, span.start] = np.prod(out[:, list(self.layout.factors[span.start])], axis=1)
            elif attribute.kind is Encoding.SIMPLEX and attribute.role is Role.FEATURE:
                out[:, span] = np.eye(attribute.size)[out[:, span].argmax(axis=1)]
        return out


def layout(columns: dict[str, dict[str, Any]], task: Task, *interactions: list[str]) -> Layout:
    return layout_of(Schema.of(columns), "y", task, Calibration.EXACT, interactions=interactions)


LAYOUTS = {
    "three owners": layout(
        {"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}, "c": {"v": NUMBER}}, Task.LINEAR, ["x", "u", "v"]
    ),
    "two owners": layout({"a": {"x": NUMBER, "y": YES_NO}, "b": {"u": NUMBER}}, Task.LOGISTIC, ["x", "u"], ["x", "x"]),
    "mixed": layout(
        {"a": {"x": NUMBER, "y": YES_NO}, "b": {"s": COLOURS, "u": NUMBER}}, Task.LOGISTIC, ["x", "s"], ["x", "u", "u"]
    ),
    "four owners": layout(
        {"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}, "c": {"v": NUMBER}, "d": {"w": NUMBER}},
        Task.LINEAR,
        ["x", "u", "v", "w"],
        ["u", "v"],
    ),
}


def rated(found: Layout) -> list[tuple[Block, float]]:
    """All blocks, at rates that differ."""
    return [(b, 1.0 + 0.5 * (i % 2)) for i, b in enumerate(dissect(exact_objective(found)))]


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize("name", LAYOUTS)
def test_search_never_exceeds_and_comes_close(name: str, law: Distribution) -> None:
    found = LAYOUTS[name]
    every = rated(found)
    widest = max(every, key=lambda item: len(item[0].owners))
    for owner, blocks in ((None, every), ("a", every), ("b", every), (None, [widest])):
        claimed = sensitivity(found, blocks, law, owner)
        mine = [(b, r) for b, r in blocks if owner is None or owner in b.owners]
        reached, *_ = Multiplier(found, mine, law, owner, np.random.default_rng(1)).climb(3)
        assert reached <= claimed * ROUNDING
        assert claimed <= 1.5 * reached, (name, owner, claimed / reached)
        assert reached <= monomial_sensitivity(found, blocks, law, owner) * ROUNDING


@pytest.mark.parametrize("law", list(Distribution))
def test_single_sums_of_any_degree(law: Distribution) -> None:
    """Sums of x^3, x^2 u, x u v and x^4: terms of a declared polynomial, each an interaction times the constant."""
    degrees = (["x", "x", "x"], ["x", "x", "u"], ["x", "u", "v"], ["x", "x", "x", "x"], ["u", "v"])
    columns = {"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}, "c": {"v": NUMBER}}
    found = layout(columns, Task.LINEAR, *map(list, degrees))
    places = [found.starts[i] for i, a in enumerate(found.attributes) if a.ref is None]
    factors = np.array([[0, p] for p in places])
    blocks = [(b, 1.0) for b in dissect(Objective(found, factors, np.array([1.0, 2.0, 0.5, 1.0, 1.0])))]
    assert {b.owners for b, _ in blocks} == {("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")}
    for owner in (None, "a", "b"):
        claimed = sensitivity(found, blocks, law, owner)
        mine = [(b, r) for b, r in blocks if owner is None or owner in b.owners]
        reached, *_ = Multiplier(found, mine, law, owner, np.random.default_rng(2)).climb(4)
        assert reached <= claimed * ROUNDING and claimed <= 1.05 * reached
        assert law is Distribution.GAUSSIAN or reached <= float(paper_sensitivity([b for b, _ in mine])) * ROUNDING


OBJECTIVES = {
    "cubes": ({"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}}, "(y - w * x^3 - v * x * u)^2 + w^4"),
    "three owners": (
        {"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}, "c": {"z": NUMBER}},
        "(y - w * x * u * z)^2 + v * x^2 * z + v^3 * u",
    ),
    "levels": (
        {"a": {"x": NUMBER, "y": YES_NO}, "b": {"s": COLOURS, "u": NUMBER}},
        "('y=yes' - w * x * 's=red' - v * 's=blue' * u^2)^2 + w * v * x + v * 's=green'",
    ),
    "sums": ({"a": {"x": NUMBER, "y": NUMBER}, "b": {"u": NUMBER}}, "w * x - v * u + w * v * x * u + w^2 * y^2"),
}


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_declared_objectives_are_searched_in_all_scopes(name: str, law: Distribution) -> None:
    columns, text = OBJECTIVES[name]
    declared = DeclaredObjective(text, ("w", "v"), 1.5)
    found = declared_layout(Schema.of(columns), "y", declared)
    every = [(b, 1.0 + 0.5 * (i % 2)) for i, b in enumerate(dissect(declared_terms(found, declared, law)))]
    widest = max(every, key=lambda item: len(item[0].owners))
    for owner, blocks in ((None, every), *((p, every) for p in found.owners), (None, [widest])):
        claimed = sensitivity(found, blocks, law, owner)
        mine = [(b, r) for b, r in blocks if owner is None or owner in b.owners]
        reached, *_ = Multiplier(found, mine, law, owner, np.random.default_rng(4)).climb(3)
        assert reached <= claimed * ROUNDING
        assert claimed <= 1.5 * reached, (name, owner, claimed / reached)
    paper = dissect(declared_terms(found, declared, None))
    reached, *_ = Multiplier(
        found, [(b, 1.0) for b in paper], Distribution.LAPLACE, None, np.random.default_rng(5)
    ).climb(2)
    assert reached <= float(paper_sensitivity(paper)) * ROUNDING


@pytest.mark.parametrize("law", list(Distribution))
def test_plans_keep_their_promise_both_ways(law: Distribution) -> None:
    found = LAYOUTS["three owners"]
    blocks = dissect(exact_objective(found))
    terms = Terms(Task.LINEAR, delta=0.0 if law is Distribution.LAPLACE else 1e-6, bound=127, errors={2: 1e-4, 3: 1e-3})
    down = plan_top_down(found, blocks, 1.0, terms)
    offers = {name: Offer(0.5 + 0.1 * i) for i, name in enumerate(found.owners)}
    up = plan_bottom_up(found, blocks, offers, terms)
    assert down.epsilon <= 1.0 and any(len(i.block.owners) == 3 for i in down.blocks)
    for party, offer in offers.items():
        assert (up.parties[party][View.COALITION] or 9.0) <= offer.total * (1 + 1e-9)
    if law is Distribution.LAPLACE:
        every = [(i.block, 1 / float(i.scale)) for i in down.blocks]
        reached, *_ = Multiplier(found, every, law, None, np.random.default_rng(3)).climb(3)
        assert 1 / 1.5 <= reached <= 1.0


def test_made_columns_move_no_more_than_the_slack() -> None:
    found, bound = LAYOUTS["three owners"], 7
    draw = np.random.default_rng(0)
    encoded = draw.integers(-bound, bound + 1, (4000, 3)).astype(np.int16)
    made = resident(encoded, bound).with_made(LocalProducts([(0, 1), (0, 0, 2)], bound, b"c" * 32).make, 2)
    rows = made.rows(0, 4000)
    assert np.array_equal(rows[1000:1500], made.rows(1000, 1500)) and np.array_equal(rows[:, :3], encoded)
    for column, part in ((3, (0, 1)), (4, (0, 0, 2))):
        exact = np.prod(encoded[:, part].astype(float), axis=1) / bound ** (len(part) - 1)
        assert np.abs(rows[:, column] - exact).max() < 1 and abs((rows[:, column] - exact).mean()) < 0.03
    terms = [t for b, _ in rated(found) for t in b.factors]
    assert {rounded_parts(found, t, Task.LINEAR) for t in terms} == {0, 1, 3}
    assert all(rounded_parts(found, t, Task.LINEAR) <= len(monomial(found, t)) - 1 for t in terms)


@pytest.mark.parametrize("owners", [2, 3, 4])
def test_errors_of_sealed_shares_move_no_more_than_stated(owners: int) -> None:
    """The worst errors of all holders, and the last owner's entry from one bound to the other."""
    bound, gain = 15, 64
    worst = (owners - 1) * TAU * (bound - -bound) / (gain * bound**owners)
    assert worst == pytest.approx(chain_move(owners, bound, gain))
