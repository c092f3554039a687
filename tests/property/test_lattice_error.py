"""The lattice error moves sealed columns; no search over records and errors may exceed the stretched sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from colonnade.crypto.lattice.parameters import TAU, Parameters, error_factor
from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import Objective, Task, exact_objective, paper_objective
from colonnade.mechanism.plan import Terms, plan_top_down
from colonnade.mechanism.sensitivity import sensitivity
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from tests.helpers.adversary import Adversary, Floats, layout_from, random_layout, signed_layout, weighted

ROUNDING = 1 + 1e-12
GAIN = 70
"""Errors of a tenth, so that a factor that is too small shows."""


class Mover(Adversary):
    """Also chooses the errors: corners of the box in which those of one record's sealed coordinates lie."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        layout, generator = self.layout, self.generator
        parties = layout.owners
        owners = np.array([-1, *(parties.index(layout.attributes[i].owner) for i in layout.attribute_of[1:])])
        rank = generator.permutation(len(parties))
        first, second = owners[self.factors[:, 0]], owners[self.factors[:, 1]]
        crossed = (first >= 0) & (second >= 0) & (first != second)
        # Of two parties the one of the lower rank seals.
        turned = rank[first] > rank[second]
        self.sealed = np.where(turned, self.factors[:, 1], self.factors[:, 0])
        self.other = np.where(turned, self.factors[:, 0], self.factors[:, 1])
        self.crossed = crossed.astype(np.float64)
        self.errors = np.zeros(layout.width)

    def change(self, z: Floats, w: Floats) -> Floats:
        terms = np.prod(z[:, self.factors], axis=2) - np.prod(w[:, self.factors], axis=2)
        terms = terms + self.crossed * self.errors[self.sealed] * (z - w)[:, self.other]
        moved = np.abs(terms @ self.collect)
        if self.law is Distribution.LAPLACE:
            return moved @ self.rate_of
        return np.sqrt((moved**2) @ self.rate_of**2)

    def look(self, error: float, starts: int) -> float:
        """The most that was found: climbs over records between which each error takes the better sign."""
        best = 0.0
        for _ in range(starts):
            self.errors = self.generator.choice([-error, error], self.layout.width)
            for _ in range(3):
                found, z, w = self.climb(1)
                best = max(best, found)
                for place in self.generator.permutation(self.layout.width):
                    tried = []
                    for sign in (-error, error):
                        self.errors[place] = sign
                        tried.append((float(self.change(z[None], w[None])[0]), sign))
                    self.errors[place] = max(tried)[1]
                    best = max(best, max(tried)[0])
        return best


def stretched(blocks: Sequence[tuple[Block, float]], factor: float) -> list[tuple[Block, float]]:
    """As a plan does: the rates of cross-party blocks alone."""
    return [(block, rate if block.single else rate * factor) for block, rate in blocks]


def planned_factor(layout: Layout) -> float:
    levels = max(a.size for a in layout.attributes)
    return float(error_factor(Parameters(40, GAIN, TAU, 1, 1.0, 128), 1, levels))


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("law", list(Distribution))
def test_no_error_moves_more_than_the_stretched_sensitivity(seed: int, law: Distribution) -> None:
    generator = np.random.default_rng(seed)
    layout = random_layout(generator)
    blocks, _ = weighted(layout, generator)
    if seed % 4 == 3:
        layout = signed_layout([2, 1, 2], label=seed % 3)
        blocks = [(b, float(generator.choice([1.0, 0.2, 3.0]))) for b in dissect(paper_objective(layout, Task.LINEAR))]
    for owner in (None, layout.owners[-1]):
        bound = sensitivity(layout, stretched(blocks, planned_factor(layout)), law, owner)
        assert Mover(layout, blocks, law, owner, generator).look(TAU / GAIN, 2) <= bound * ROUNDING


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize("label", [0, 1])
def test_sums_of_a_numeric_label_are_covered(law: Distribution, label: int) -> None:
    """A trace release holds the sum of a signed label: one party's single sum does no harm."""
    generator = np.random.default_rng(7)
    layout = signed_layout([2, 2], label=label)
    for heavy in (0.1, 1.0, 10.0):
        released = dissect(exact_objective(layout, products=False)) + traces(layout)
        assert any((b.factors == 0).any() and b.role is Role.LABEL for b in released)
        blocks = [(b, heavy if b.single else 1.0) for b in released]
        bound = sensitivity(layout, stretched(blocks, planned_factor(layout)), law)
        assert Mover(layout, blocks, law, None, generator).look(TAU / GAIN, 3) <= bound * ROUNDING


def test_half_of_the_factor_is_too_little_for_two_parties() -> None:
    """a², b² and ab at an error of a tenth: 3.1025 is found where 1 + eta would promise 3.1."""
    layout = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE), ("B", Encoding.SIGNED, 1, Role.FEATURE)])
    blocks = [(b, 1.0) for b in dissect(Objective(layout, np.array([[1, 1], [2, 2], [1, 2]]), np.ones(3)))]
    factor = planned_factor(layout)
    assert factor == pytest.approx(1 + 14 / GAIN)
    z, w = np.array([[1.0, 1.0, 1.0]]), np.array([[1.0, 0.0, -0.05]])
    mover = Mover(layout, blocks, Distribution.LAPLACE, None, np.random.default_rng(1))
    found = 0.0
    for errors in ([0.0, 0.1, 0.1], [0.0, -0.1, -0.1]):
        mover.errors = np.array(errors)
        for swap in (slice(None), [0, 2, 1]):
            found = max(found, float(mover.change(z[:, swap], w[:, swap])[0]))
    assert found == pytest.approx(3.1025)
    assert found > sensitivity(layout, stretched(blocks, 1.1), Distribution.LAPLACE)
    assert found <= sensitivity(layout, stretched(blocks, factor), Distribution.LAPLACE)


def test_single_sums_of_two_parties_are_refused() -> None:
    """The premise of the proof: sums of a and of b beside ab move more than the stretched rates cover."""
    layout = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE), ("B", Encoding.SIGNED, 1, Role.FEATURE)])
    released = dissect(Objective(layout, np.array([[0, 1], [0, 2], [1, 2]]), np.ones(3)))
    blocks = [(b, 3.0 if b.single else 1.0) for b in released]
    found = Mover(layout, blocks, Distribution.LAPLACE, None, np.random.default_rng(0)).look(TAU / GAIN, 2)
    assert found > 1.01 * sensitivity(layout, stretched(blocks, planned_factor(layout)), Distribution.LAPLACE)
    plan_top_down(layout, released, 1.0, Terms(Task.LINEAR))
    with pytest.raises(PrivacyError, match="at most one party's numbers"):
        plan_top_down(layout, released, 1.0, Terms(Task.LINEAR, error_factor=Fraction(101, 100)))


def test_every_release_keeps_the_premise() -> None:
    for seed in range(15):
        layout = random_layout(np.random.default_rng(seed))
        for products in (True, False):
            blocks = dissect(exact_objective(layout, products=products)) + (() if products else traces(layout))
            plan_top_down(layout, blocks, 1.0, Terms(Task.LINEAR, collusion=0, error_factor=Fraction(101, 100)))


def test_a_declared_norm_covers_the_errors_of_a_sealed_label_only() -> None:
    """Hence the label's side seals in a trace release (`crosses_of`), also where a party has one column."""
    norm, error = 0.1, TAU / GAIN
    layout = replace(signed_layout([1, 2], label=1), norms=(("A", norm),))
    blocks = [(b, 1.0) for b in dissect(exact_objective(layout, products=False)) if not b.single]
    bound = sensitivity(layout, stretched(blocks, planned_factor(layout)), Distribution.GAUSSIAN)
    assert (1 + error) * 2 * norm <= bound < 2 * (norm + error)
    column = Numeric(-1, 1)
    for first in ("A", "B"):
        held = {"A": {"x": column}, "B": {"z": column, "y": column}}
        schema = Schema(dict(sorted(held.items(), key=lambda item: item[0] != first)), {"A": norm})
        agreement = Agreement.from_terms("s", schema, "y", Task.LINEAR, epsilon=1.0, delta=1e-6, release="trace")
        (cross,) = plan_session(agreement, 1000, bytes(32)).spec.crosses
        assert list(schema.parties)[cross.left] == "B"
