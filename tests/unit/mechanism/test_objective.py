"""Objectives as polynomials: the paper's coefficients, and each distinct moment once."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.mechanism.moments import Encoding, Layout, Role
from colonnade.mechanism.objective import Objective, Task, exact_objective, paper_objective
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.polynomials import polynomial


def value(objective: Objective, records: np.ndarray, weights: np.ndarray) -> float:
    """f_D(w): each term's monomial of w is the product over its feature factors."""
    layout = objective.layout
    place = {c: j for j, c in enumerate(layout.features)}
    total = 0.0
    for factors, weight in zip(objective.factors, objective.weights, strict=True):
        monomial = np.prod([weights[place[int(f)]] for f in factors if int(f) in place])
        total += weight * np.prod(records[:, factors], axis=1).sum() * monomial
    return total


def records_of(layout: Layout, rows: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([np.ones((rows, 1)), generator.uniform(-1, 1, (rows, layout.width - 1))], axis=1)


def test_linear_objective_is_eq_2() -> None:
    layout = signed_layout([3, 2])
    records, w = records_of(layout, 20), np.array([0.3, -1.2, 0.5, 2.0])
    x, y = records[:, layout.features], records[:, layout.starts[layout.label]]
    assert value(paper_objective(layout, Task.LINEAR), records, w) == pytest.approx(float(((y - x @ w) ** 2).sum()))


def test_logistic_objective_is_eq_4_up_to_its_constant() -> None:
    layout = signed_layout([3, 2])
    records, w = records_of(layout, 20), np.array([0.3, -1.2, 0.5, 2.0])
    y = (records[:, 3] > 0).astype(float)
    records[:, 3] = 1 - 2 * y
    x = records[:, layout.features]
    expected = (0.5 * (x @ w) + (x @ w) ** 2 / 8 - y * (x @ w)).sum()
    assert value(paper_objective(layout, Task.LOGISTIC), records, w) == pytest.approx(float(expected))


def test_counts_of_the_papers_coefficients() -> None:
    d = 6
    linear = paper_objective(signed_layout([d + 1]), Task.LINEAR)
    assert len(linear) == 1 + d + d * (d + 1) // 2
    assert np.abs(linear.weights).sum() == 1 + 2 * d + d * d
    assert linear.factors.shape[1] == 2


def test_exact_objective_releases_each_product_once_and_nothing_known() -> None:
    layout = layout_from(
        [
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("A", Encoding.SIMPLEX, 3, Role.FEATURE),
            ("B", Encoding.SIMPLEX, 2, Role.FEATURE),
            ("B", Encoding.SIMPLEX, 2, Role.LABEL),
        ]
    )
    objective = exact_objective(layout)
    pairs = {tuple(sorted(f)) for f in objective.factors.tolist()}
    assert len(pairs) == len(objective)
    attribute = layout.attribute_of
    signed = {1}
    for a, b in pairs:
        assert attribute[a] != attribute[b] or (a == b and a in signed)
    features, label = 6, 2
    # Label table, one square, and all pairs of different feature attributes.
    assert len(pairs) == features * label + 1 + (3 + 2 + 6)


def test_exact_objective_without_products() -> None:
    layout = signed_layout([4, 3])
    objective = exact_objective(layout, products=False)
    label = layout.starts[layout.label]
    assert all(label in f for f in objective.factors.tolist())
    with_square = exact_objective(layout, products=False, label_square=True)
    assert len(with_square) == len(objective) + 1


def test_polynomials_of_any_degree() -> None:
    layout = signed_layout([3])
    a, b, y = layout.names[1:]
    objective = polynomial(layout, [(2.0, (a, b, y)), (1.0, (a,)), (-1.0, (a, a, a, y))])
    assert objective.factors.shape == (3, 4)
