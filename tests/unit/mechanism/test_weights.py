"""The weight rule: heavier labels under more noise, and traces where products would drown."""

from __future__ import annotations

import pytest

from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.dissection import dissect
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import by_size, exact_objective
from colonnade.mechanism.weights import (
    RATIOS,
    TableTerms,
    block_weights,
    choose_release,
    choose_tables,
    has_sizes,
    label_weight,
    size_powers,
    table_weights,
)
from tests.helpers.releases import layout_with


def signed(d: int) -> Layout:
    features = tuple(Attribute(ColumnRef("a", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(d))
    return Layout((*features, Attribute(ColumnRef("a", "y"), Encoding.SIMPLEX, ("y-", "y+"), Role.LABEL, drop=0)))


def test_label_weighs_more_when_the_noise_grows() -> None:
    for law in Distribution:
        weights = [label_weight(signed(12), law, 40_000, budget) for budget in (1e-5, 1e-3, 1e-1, 10.0)]
        assert weights == sorted(weights, reverse=True)
        assert weights[0] > weights[-1] >= RATIOS[0]


def test_label_weight_without_rows_is_that_of_small_noise() -> None:
    layout = layout_with(("no", "yes"))
    assert label_weight(layout, Distribution.LAPLACE) == label_weight(layout, Distribution.LAPLACE, 10**9, 10.0)


def test_one_feature_needs_no_weight() -> None:
    assert label_weight(signed(1), Distribution.LAPLACE, 1000, 1.0) == 1.0


def test_more_features_weigh_the_label_more() -> None:
    assert label_weight(signed(40), Distribution.LAPLACE, 10**7, 1.0) > label_weight(
        signed(4), Distribution.LAPLACE, 10**7, 1.0
    )


def test_traces_only_where_products_drown() -> None:
    assert choose_release(signed(800), 64_000, Distribution.GAUSSIAN, 1.0, 1 / 64_000) == "trace"
    assert choose_release(signed(14), 64_000, Distribution.GAUSSIAN, 1.0, 1 / 64_000) == "full"
    assert choose_release(layout_with(("no", "yes")), 100, Distribution.LAPLACE, 0.01, 0.0) == "full"


def levels(*sizes: int) -> Layout:
    parts = [(f"c{i}", m, Role.LABEL if i == len(sizes) - 1 else Role.FEATURE) for i, m in enumerate(sizes)]
    return Layout(
        tuple(
            Attribute(ColumnRef("ab"[i % 2], n), Encoding.SIMPLEX, tuple(f"{n}={k}" for k in range(m)), role)
            for i, (n, m, role) in enumerate(parts)
        )
    )


def test_tables_weigh_by_their_cells_and_the_label_as_any_other() -> None:
    layout = by_size(levels(2, 2, 8, 20, 2))
    blocks = dissect(exact_objective(layout), by_cells=True)
    for law, power in ((Distribution.GAUSSIAN, 1 / 3), (Distribution.LAPLACE, 1 / 2)):
        weights = table_weights(layout, blocks, TableTerms(law, None, 1.0))
        for block, weight in zip(blocks, weights, strict=True):
            assert block.cells is not None
            assert abs(float(weight) / block.cells**power - 1) < 0.02
        assert {b.role for b in blocks if b.cells == 4} == {Role.FEATURE, Role.LABEL}


def test_noise_that_drowns_large_tables_is_not_spent_on_them() -> None:
    layout = by_size(levels(2, 2, 8, 20, 2))
    blocks = dissect(exact_objective(layout), by_cells=True)
    quiet, loud = (table_weights(layout, blocks, TableTerms(Distribution.GAUSSIAN, n, 0.01)) for n in (10**7, 500))
    assert max(quiet) / min(quiet) > max(loud) / min(loud) >= 1


def test_all_tables_are_released_unless_they_drown_each_other() -> None:
    many, few = levels(*[12] * 40, 2), levels(4, 4, 4, 2)
    assert choose_tables(many, TableTerms(Distribution.LAPLACE, 20_000, 1.0)) == "margins"
    assert choose_tables(many, TableTerms(Distribution.LAPLACE, 20_000, 1.0), counted=False) == "label"
    assert choose_tables(many, TableTerms(Distribution.LAPLACE, 100_000, 1.0)) == "label"
    assert choose_tables(many, TableTerms(Distribution.LAPLACE, 10**8, 1.0)) == "full"
    assert choose_tables(few, TableTerms(Distribution.LAPLACE, 20_000, 1.0)) == "full"


def test_large_tables_get_more_where_noise_is_small_and_less_where_they_drown() -> None:
    layout = by_size(levels(2, 6, 14, 40, 2))
    blocks = dissect(exact_objective(layout), by_cells=True)
    ratio = 4.0
    label, pairs = size_powers(layout, blocks, Distribution.LAPLACE, ratio, 1_000_000, 1.0)
    assert label > 0 and pairs > 0
    drowned, _ = size_powers(layout, blocks, Distribution.LAPLACE, ratio, 2_000, 0.1)
    assert drowned < label
    assert size_powers(layout, dissect(exact_objective(layout)), Distribution.LAPLACE, ratio, 1_000_000, 1.0) == (
        0.0,
        0.0,
    )


def test_numbers_and_tables_of_one_size_are_left_alone() -> None:
    assert not has_sizes(signed(4)) and not has_sizes(layout_with(("no", "yes"))) and not has_sizes(levels(5, 6, 7, 2))
    assert has_sizes(levels(2, 14, 2))


def test_weights_of_blocks_follow_the_powers() -> None:
    layout = by_size(levels(2, 6, 14, 40, 2))
    blocks = dissect(exact_objective(layout), by_cells=True)
    weights = block_weights(layout, blocks, 4.0, lambda some, rates: 1.0, (1 / 3, 0.0))
    own = {b.cells: float(w) for b, w in zip(blocks, weights, strict=True) if b.role is Role.LABEL}
    assert own[64] / own[16] == pytest.approx(4 ** (1 / 3), rel=0.03)
    assert {float(w) for b, w in zip(blocks, weights, strict=True) if b.role is Role.FEATURE} == {1.0}
