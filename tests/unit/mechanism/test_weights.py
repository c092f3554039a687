"""The weight rule: heavier labels under more noise, and traces where products would drown."""

from __future__ import annotations

from colonnade.mechanism.moments import Attribute, Encoding, Law, Layout, Role
from colonnade.mechanism.weights import RATIOS, choose_release, label_weight
from tests.helpers.releases import layout_with


def signed(d: int) -> Layout:
    features = tuple(Attribute(f"a.x{i}", "a", Encoding.SIGNED, (f"x{i}",)) for i in range(d))
    return Layout((*features, Attribute("a.y", "a", Encoding.SIMPLEX, ("y-", "y+"), Role.LABEL, drop=0)))


def test_label_weighs_more_when_the_noise_grows() -> None:
    for law in Law:
        weights = [label_weight(signed(12), law, 40_000, budget) for budget in (1e-5, 1e-3, 1e-1, 10.0)]
        assert weights == sorted(weights, reverse=True)
        assert weights[0] > weights[-1] >= RATIOS[0]


def test_label_weight_without_rows_is_that_of_small_noise() -> None:
    layout = layout_with(("no", "yes"))
    assert label_weight(layout, Law.LAPLACE) == label_weight(layout, Law.LAPLACE, 10**9, 10.0)


def test_one_feature_needs_no_weight() -> None:
    assert label_weight(signed(1), Law.LAPLACE, 1000, 1.0) == 1.0


def test_more_features_weigh_the_label_more() -> None:
    assert label_weight(signed(40), Law.LAPLACE, 10**7, 1.0) > label_weight(signed(4), Law.LAPLACE, 10**7, 1.0)


def test_traces_only_where_products_drown() -> None:
    assert choose_release(signed(800), 64_000, Law.GAUSSIAN, 1.0, 1 / 64_000) == "trace"
    assert choose_release(signed(14), 64_000, Law.GAUSSIAN, 1.0, 1 / 64_000) == "full"
    assert choose_release(layout_with(("no", "yes")), 100, Law.LAPLACE, 0.01, 0.0) == "full"
