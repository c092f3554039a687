"""No search may exceed a sensitivity, and one must come within its stated slack: random schemas, all scopes, L1 and L2.

A search climbs over real vectors, and what it finds is then raw rows beside a chosen table of many records (`Rows`),
read, rounded and added up: that may move by no more than a plan counts on this grid, and by two thirds of it at least.
Plans themselves are searched from raw rows by `audit.search`, here for one to four parties and every release.

Stated slack. L1: the bound is reached within 3%, besides the products inside a simplex (label squares), which are
counted apart. L2: within 15%, since a handful of signs cannot balance as the relaxation does. Closed forms: exact.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from audit.search import ratios
from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.dissection import Block, dissect, squares
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import (
    Objective,
    Purpose,
    Task,
    by_size,
    divided,
    exact_objective,
    paper_objective,
)
from colonnade.mechanism.plan import Offer, Terms, _joint
from colonnade.mechanism.sensitivity import paper_sensitivity, sensitivity
from colonnade.planning.agreement import Agreement
from tests.helpers.adversary import Adversary, Rows, layout_from, random_layout, signed_layout, weighted
from tests.helpers.polynomials import polynomial

ROUNDING = 1 + 1e-12
CLOSE = 1e-7
GRID = 31
TIGHT = 1 / 1.5
SLACK = {Distribution.LAPLACE: 0.97, Distribution.GAUSSIAN: 0.85}


def searched(
    layout: Layout,
    blocks: list[tuple[Block, float]],
    law: Distribution,
    owner: str | None,
    generator: np.random.Generator,
    *,
    starts: int = 3,
    tight: float = TIGHT,
) -> tuple[float, float]:
    """The bound, and the most that a climb found; from raw rows it is no more than a plan counts, nor much less."""
    bound = sensitivity(layout, blocks, law, owner)
    adversary = Adversary(layout, blocks, law, owner, generator)
    found, z, w = adversary.climb(starts)
    assert found <= bound * ROUNDING, (law, owner, z, w)
    terms = Terms(Task.LINEAR, delta=0.0 if law is Distribution.LAPLACE else 1e-6, bound=GRID)
    counted = _joint(layout, [b for b, _ in blocks], [rate for _, rate in blocks], terms, owner)
    if found > 0:
        assert tight * counted <= Rows(adversary, GRID).moved(z, w) <= counted * ROUNDING, (law, owner, z, w)
    return bound, found


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("law", list(Distribution))
def test_search_never_exceeds_and_comes_close(seed: int, law: Distribution) -> None:
    generator = np.random.default_rng(seed)
    layout = random_layout(generator)
    blocks, inner = weighted(layout, generator)
    for owner in (None, *layout.owners):
        bound, found = searched(layout, blocks, law, owner, generator)
        if law is Distribution.LAPLACE:
            assert found >= SLACK[law] * (bound - inner / 4)
        else:
            assert found >= SLACK[law] * np.sqrt(max(0.0, bound**2 - inner**2 / 16))


def some_pairs(layout: Layout, generator: np.random.Generator) -> frozenset[tuple[int, int]]:
    """Each pair of features with probability one half."""
    features = [i for i, a in enumerate(layout.attributes) if a.role is Role.FEATURE]
    return frozenset((i, j) for i in features for j in features if i < j and generator.random() < 0.5)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("law", list(Distribution))
def test_a_part_of_the_pairs_is_counted_and_no_more(seed: int, law: Distribution) -> None:
    """Pairs that are left out move nothing: the bound of the rest is never exceeded, and nearly reached."""
    generator = np.random.default_rng(3000 + seed)
    layout = random_layout(generator)
    pairs = some_pairs(layout, generator)
    layout = divided(layout, pairs)
    drawn = dissect(exact_objective(layout, pairs=pairs)) + squares(layout)
    blocks = [(b, float(generator.choice([0.25, 1.0]))) for b in drawn]
    for owner in (None, *layout.owners):
        bound, found = searched(layout, blocks, law, owner, generator)
        assert found >= (SLACK[law] - 0.05) * bound
        undivided = sensitivity(replace(layout, classes=()), blocks, law, owner)
        assert bound <= undivided * (1 + 1e-6)


@pytest.mark.parametrize("law", list(Distribution))
def test_any_classes_give_a_bound(law: Distribution) -> None:
    """Which attributes count as alike decides how tight the bound is, and never whether it holds."""
    generator = np.random.default_rng(7)
    for _ in range(10):
        layout = random_layout(generator)
        pairs = some_pairs(layout, generator)
        drawn = dissect(exact_objective(layout, pairs=pairs)) + squares(layout)
        blocks = [(b, float(generator.random() + 0.1)) for b in drawn]
        classes = tuple(int(c) for c in generator.integers(0, 3, len(layout.attributes)))
        bound = sensitivity(replace(layout, classes=classes), blocks, law)
        assert Adversary(layout, blocks, law, None, generator).climb(2)[0] <= bound * ROUNDING


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("law", list(Distribution))
def test_tables_may_be_weighted_by_their_size(seed: int, law: Distribution) -> None:
    """Blocks by cells at any rates: never exceeded, nearly reached, and no looser than blocks that are not divided."""
    generator = np.random.default_rng(4000 + seed)
    layout = by_size(random_layout(generator))
    blocks = [(b, float(generator.choice([0.2, 1.0, 3.0]))) for b in dissect(exact_objective(layout), by_cells=True)]
    for owner in (None, *layout.owners):
        bound, found = searched(layout, blocks, law, owner, generator)
        assert found >= (SLACK[law] - 0.1) * bound
        undivided = sensitivity(replace(layout, classes=()), blocks, law, owner)
        assert bound <= undivided * (1 + 1e-6)


def test_weighted_tables_of_many_sizes_move_as_their_weights_say() -> None:
    """Every table moves by 2 (L1) or sqrt 2 (L2) however many cells it has: weights add up, or their squares do."""
    sizes = (2, 3, 5, 9, 2)
    parts = [("AB"[i % 2], Encoding.SIMPLEX, m, Role.LABEL if i == 4 else Role.FEATURE) for i, m in enumerate(sizes)]
    layout = by_size(layout_from(parts))
    blocks = [(b, float(b.cells or 0)) for b in dissect(exact_objective(layout), by_cells=True)]
    cells = [a * b for i, a in enumerate(sizes) for b in sizes[i + 1 :]]
    weights = np.array([4.0 ** np.ceil(np.log(c) / np.log(4) - 1e-9) for c in cells])
    assert sensitivity(layout, blocks, Distribution.LAPLACE) == pytest.approx(2 * weights.sum(), rel=CLOSE)
    assert sensitivity(layout, blocks, Distribution.GAUSSIAN) ** 2 == pytest.approx(2 * (weights**2).sum(), rel=CLOSE)


def test_one_pair_of_many_columns_costs_one_pair() -> None:
    layout = layout_from([("A", Encoding.SIMPLEX, 3, Role.FEATURE)] * 6 + [("B", Encoding.SIMPLEX, 2, Role.LABEL)])
    pairs = frozenset({(1, 4)})
    blocks = [(b, 1.0) for b in dissect(exact_objective(layout, pairs=pairs))]
    assert sensitivity(divided(layout, pairs), blocks, Distribution.LAPLACE) == pytest.approx(2.0 * 7, rel=CLOSE)
    assert sensitivity(divided(layout, pairs), blocks, Distribution.GAUSSIAN) ** 2 == pytest.approx(2.0 * 7, rel=CLOSE)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("law", list(Distribution))
def test_block_scope(seed: int, law: Distribution) -> None:
    generator = np.random.default_rng(1000 + seed)
    layout = random_layout(generator)
    for block in dissect(exact_objective(layout)):
        bound, found = searched(layout, [(block, 1.0)], law, None, generator, starts=5)
        assert found >= SLACK[law] * bound


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("law", list(Distribution))
def test_any_polynomial_of_degree_two(seed: int, law: Distribution) -> None:
    """Terms in any order, named twice, with the constant on either side, squares of indicators: never exceeded."""
    generator = np.random.default_rng(2000 + seed)
    layout = random_layout(generator)
    names = layout.names
    terms = []
    for _ in range(int(generator.integers(2, 9))):
        one, two = generator.integers(0, layout.width), generator.integers(1, layout.width)
        factors = [names[one], names[two]]
        generator.shuffle(factors)
        terms.append((float(generator.uniform(-0.5, 0.5)), factors))
    terms += terms[:2]
    blocks = [(b, float(generator.random() + 0.1)) for b in dissect(polynomial(layout, terms))]
    for owner in (None, *layout.owners):
        searched(layout, blocks, law, owner, generator, starts=2, tight=0.0)


def test_a_product_named_twice_counts_twice() -> None:
    layout = signed_layout([3])
    a, b, _ = layout.names[1:]
    once = dissect(polynomial(layout, [(1.0, (a, b))]))
    twice = dissect(polynomial(layout, [(1.0, (a, b)), (1.0, (b, a))]))
    assert sensitivity(layout, [(twice[0], 1.0)], Distribution.LAPLACE) == pytest.approx(
        2 * sensitivity(layout, [(once[0], 1.0)], Distribution.LAPLACE), rel=CLOSE
    )


def test_a_constant_may_stand_on_either_side() -> None:
    layout = signed_layout([2])
    y = layout.names[-1]
    left, right = (dissect(polynomial(layout, [(1.0, factors)])) for factors in (("1", y), (y, "1")))
    assert sensitivity(layout, [(left[0], 1.0)], Distribution.LAPLACE) == pytest.approx(2.0, rel=CLOSE)
    assert sensitivity(layout, [(right[0], 1.0)], Distribution.LAPLACE) == pytest.approx(2.0, rel=CLOSE)


def test_degree_three_has_no_sensitivity_here() -> None:
    layout = signed_layout([3])
    blocks = dissect(polynomial(layout, [(1.0, layout.names[1:])]))
    with pytest.raises(PrivacyError, match="degree 3"):
        sensitivity(layout, [(b, 1.0) for b in blocks], Distribution.LAPLACE)


def distinct(layout: Layout, *, label_square: bool) -> list[tuple[Block, float]]:
    """Every product of two signed coordinates once."""
    upper, lower = np.triu_indices(layout.width - 1)
    label = layout.starts[layout.label] - 1
    keep = label_square | ~((upper == label) & (lower == label))
    factors = np.stack([upper, lower], axis=1)[keep] + 1
    return [(b, 1.0) for b in dissect(Objective(layout, factors, np.ones(len(factors))))]


def paper(layout: Layout, task: Task) -> list[tuple[Block, float]]:
    return [(b, 1.0) for b in dissect(paper_objective(layout, task))]


def attains(layout: Layout, blocks: list[tuple[Block, float]], owner: str | None, value: float) -> None:
    """The bound is this value, and some pair of records reaches it."""
    assert sensitivity(layout, blocks, Distribution.LAPLACE, owner) == pytest.approx(value, rel=CLOSE)
    found, _, _ = Adversary(layout, blocks, Distribution.LAPLACE, owner, np.random.default_rng(5)).climb(6)
    assert found == pytest.approx(value, rel=2e-3)
    assert found <= value * (1 + 1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6])
def test_closed_forms_of_the_record(d: int) -> None:
    m = d + 1
    layout = signed_layout([m])
    attains(layout, paper(layout, Task.LINEAR), None, m**2)
    attains(layout, distinct(layout, label_square=True), None, m * (m + 1) / 2)
    attains(layout, distinct(layout, label_square=False), None, d * (d + 2) ** 2 / (2 * (d + 1)))
    if d >= 2:
        attains(layout, paper(layout, Task.LOGISTIC), None, (d + 2) ** 2 / 8)


@pytest.mark.parametrize("d", [14, 41, 104, 800])
def test_closed_forms_of_large_records(d: int) -> None:
    m = d + 1
    layout = signed_layout([m])
    for blocks, value in (
        (paper(layout, Task.LINEAR), m**2),
        (distinct(layout, label_square=True), m * (m + 1) / 2),
        (distinct(layout, label_square=False), d * (d + 2) ** 2 / (2 * (d + 1))),
        (paper(layout, Task.LOGISTIC), (d + 2) ** 2 / 8),
    ):
        assert sensitivity(layout, blocks, Distribution.LAPLACE) == pytest.approx(value, rel=CLOSE)


@pytest.mark.parametrize("counts", [(1, 3), (2, 2), (3, 2, 2), (4, 1, 1), (2, 3, 2, 1)])
def test_closed_form_of_a_party(counts: tuple[int, ...]) -> None:
    """Ordered pairs: 4q(m - q) with q = min(m_k, m/2), the label counted for its owner."""
    layout, m = signed_layout(counts), sum(counts)
    for k, mine in enumerate(counts):
        q = min(mine, m / 2)
        attains(layout, paper(layout, Task.LINEAR), chr(65 + k), 4 * q * (m - q))


@pytest.mark.parametrize("m", [2, 4, 6, 14])
def test_l2_of_ordered_and_distinct_pairs(m: int) -> None:
    """||zz' - ww'||_F^2 <= 2 m^2, reached at orthogonal sign vectors; half of it for distinct pairs."""
    layout = signed_layout([m])
    assert sensitivity(layout, distinct(layout, label_square=True), Distribution.GAUSSIAN) == pytest.approx(
        m, rel=CLOSE
    )
    z, w = np.ones((1, m + 1)), np.ones((1, m + 1))
    w[0, 1 : 1 + m // 2] = -1
    adversary = Adversary(
        layout, distinct(layout, label_square=True), Distribution.GAUSSIAN, None, np.random.default_rng(1)
    )
    assert adversary.change(z, w)[0] == pytest.approx(m)


def test_contingency_tables_move_two_however_many_cells() -> None:
    for levels in (2, 5, 40):
        layout = layout_from(
            [("A", Encoding.SIMPLEX, levels, Role.FEATURE), ("B", Encoding.SIMPLEX, levels, Role.LABEL)],
        )
        table = [(b, 1.0) for b in dissect(exact_objective(layout)) if not b.single]
        assert sensitivity(layout, table, Distribution.LAPLACE) == pytest.approx(2.0, rel=CLOSE)
        assert sensitivity(layout, table, Distribution.GAUSSIAN) == pytest.approx(np.sqrt(2.0), rel=CLOSE)


def test_the_trap_between_the_corners() -> None:
    """Three numerics with label-split sums: corners {-1, 0, 1} give 10, the truth is 31/3, the bound 10.5."""
    layout = layout_from([("A", Encoding.SIGNED, 1, Role.FEATURE)] * 3 + [("A", Encoding.SIMPLEX, 2, Role.LABEL)])
    objective = exact_objective(layout)
    keep = objective.factors[:, 0] > 0
    blocks = [(b, 1.0) for b in dissect(Objective(layout, objective.factors[keep], objective.weights[keep]))]
    adversary = Adversary(layout, blocks, Distribution.LAPLACE, None, np.random.default_rng(0))
    corners = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 6)).reshape(6, -1).T
    ones, zeros = np.ones((len(corners), 1)), np.zeros((len(corners), 1))
    z = np.concatenate([ones, corners[:, :3], ones, zeros], axis=1)
    w = np.concatenate([ones, corners[:, 3:], zeros, ones], axis=1)
    assert adversary.change(z, w).max() == pytest.approx(10.0)
    told = adversary.change(np.array([[1, 1, 1, -1, 1, 0.0]]), np.array([[1, 0.65, -1, -0.65, 0, 1.0]]))[0]
    assert told >= 10.33
    found, _, _ = adversary.climb(6)
    bound = sensitivity(layout, blocks, Distribution.LAPLACE)
    assert 10.33 <= found <= bound <= 10.5 * (1 + CLOSE)


@pytest.mark.parametrize("counts", [(15,), (3, 5, 7), (5, 5, 5)])
def test_paper_calibration(counts: tuple[int, ...]) -> None:
    layout, d = signed_layout(counts), sum(counts) - 1
    linear, logistic = (dissect(paper_objective(layout, task)) for task in (Task.LINEAR, Task.LOGISTIC))
    assert paper_sensitivity(linear) == 2 * (1 + 2 * d + d * d)
    assert paper_sensitivity(logistic) * 4 == d * d + 4 * d
    for k, count in enumerate(counts):
        own = count - (k == 0)
        party = chr(65 + k)
        pairs = own * (2 * d - own)
        assert paper_sensitivity(linear, party) == 2 * ((1 + 2 * d if k == 0 else 2 * own) + pairs)
        assert paper_sensitivity(logistic, party) * 4 == 4 * (d if k == 0 else own) + pairs


@pytest.mark.parametrize("seed", range(8))
def test_paper_sensitivity_is_never_exceeded(seed: int) -> None:
    """2 max ||lambda_t|| is an upper bound in every scope; the search reaches half of it for the record."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 4, size=int(generator.integers(1, 4)))
    counts[0] += 1
    layout = signed_layout([int(c) for c in counts])
    for task in Task:
        blocks = paper(layout, task)
        for owner in (None, *layout.owners):
            whole = float(paper_sensitivity([b for b, _ in blocks], owner))
            found, _, _ = Adversary(layout, blocks, Distribution.LAPLACE, owner, generator).climb(2)
            assert found <= sensitivity(layout, blocks, Distribution.LAPLACE, owner) * ROUNDING <= whole * (1 + 1e-9)


def test_a_bound_that_is_too_small_would_be_caught() -> None:
    """The search is strong enough to notice a sensitivity that is 3% too small."""
    caught = 0
    for seed in range(8):
        generator = np.random.default_rng(seed)
        layout = signed_layout([int(c) for c in generator.integers(2, 4, size=2)])
        blocks = distinct(layout, label_square=bool(seed % 2))
        found, _, _ = Adversary(layout, blocks, Distribution.LAPLACE, None, generator).climb(4)
        caught += found > 0.97 * sensitivity(layout, blocks, Distribution.LAPLACE)
    assert caught == 8


def test_rates_scale_the_bound() -> None:
    layout = signed_layout([2, 2])
    blocks = dissect(exact_objective(layout))
    values = [sensitivity(layout, [(b, rate) for b in blocks], Distribution.LAPLACE) for rate in (0.5, 1.0, 2.0)]
    assert all(b == pytest.approx(2 * a, rel=CLOSE) for a, b in pairwise(values))


RELEASES = ("trace", "norm", "full", "label", "pairs", "margins")
CASES = [
    (parties, law, bottom_up, RELEASES[(5 * parties + 3 * i + j) % len(RELEASES)])
    for parties in (1, 2, 3, 4)
    for i, law in enumerate(Distribution)
    for j, bottom_up in enumerate((False, True))
]


def small_study(parties: int, law: Distribution, bottom_up: bool, release: str) -> Agreement:
    """Two columns a party, numbers or levels as the release has them."""
    levels, one = release == "margins", Numeric(-3, 5)
    two: Column = one if release in ("trace", "norm") else Categorical(("a", "b", "c"))
    columns = {f"p{k}": {f"x{k}": Binary(("no", "yes")) if levels else one, f"z{k}": two} for k in range(parties)}
    columns["p0"]["y"] = Binary(("no", "yes")) if levels else Numeric(-1, 1)
    terms: dict[str, Any] = {"epsilon": 0.5}
    if bottom_up:
        terms = {"offers": {party: Offer(0.5, 0.4 if parties > 1 else None) for party in columns}}
    if release == "pairs":
        terms["pairs"] = ((f"p{parties - 1}.x{parties - 1}", "p0.z0"),)
    return Agreement.from_terms(
        "small",
        Schema(columns, {f"p{parties - 1}": 0.3} if release == "norm" else {}),
        "p0.y",
        Task.LOGISTIC if levels else Task.LINEAR,
        delta=0.0 if law is Distribution.LAPLACE else 1e-6,
        collusion=min(1, parties - 1),
        release="trace" if release == "norm" else release,
        purpose=Purpose.ALL if levels else Purpose.LABEL,
        **terms,
    )


def test_every_release_and_way_is_among_the_cases() -> None:
    assert {case[3] for case in CASES} == set(RELEASES)


@pytest.mark.parametrize(("parties", "law", "bottom_up", "release"), CASES)
def test_no_plan_is_exceeded_by_raw_rows(parties: int, law: Distribution, bottom_up: bool, release: str) -> None:
    """By view, what the hardest neighbours beside a chosen table move, over the epsilon that is promised."""
    found = ratios(small_study(parties, law, bottom_up, release), 12, np.random.default_rng(parties))
    assert TIGHT <= max(found.values()) <= 1 + 1e-9, found
