"""From declared columns to the coordinates of a record."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.objective import Calibration, Task, layout_of, reduced, with_products
from tests.helpers.adversary import layout_from, signed_layout

SCHEMA = Schema(
    {
        "bank": {
            "age": Numeric(0, 100),
            "job": Categorical(("a", "b", "c"), drop="b"),
            "income": Numeric(0, 10, bins=(2.0, 5.0)),
            "y": Numeric(0, 1),
        },
        "shop": {"card": Binary(("no", "yes")), "spend": Numeric(0, 5)},
    }
)


def test_exact_layout_counts_attributes() -> None:
    layout = layout_of(SCHEMA, "bank.y", Task.LINEAR, Calibration.EXACT)
    assert [(str(a.of), a.kind, a.size, a.role) for a in layout.attributes] == [
        ("bank.age", Encoding.SIGNED, 1, Role.FEATURE),
        ("bank.job", Encoding.SIMPLEX, 3, Role.FEATURE),
        ("bank.income", Encoding.SIMPLEX, 3, Role.FEATURE),
        ("bank.y", Encoding.SIMPLEX, 2, Role.LABEL),
        ("shop.card", Encoding.SIMPLEX, 2, Role.FEATURE),
        ("shop.spend", Encoding.SIGNED, 1, Role.FEATURE),
    ]
    assert layout.width == 1 + 1 + 3 + 3 + 2 + 2 + 1
    assert layout.starts == (1, 2, 5, 8, 10, 12)
    assert layout.attribute_of.tolist() == [-1, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]
    # The model has no weight for the constant, the label and each dropped level.
    assert layout.features == (1, 2, 4, 6, 7, 11, 12)
    assert [layout.names[c] for c in layout.features][1:3] == ["job=a", "job=c"]
    assert layout.attributes[layout.label].owner == "bank"


def test_paper_layout_counts_features() -> None:
    layout = layout_of(SCHEMA, "y", Task.LINEAR, Calibration.PAPER)
    assert all(a.kind is Encoding.SIGNED and a.size == 1 for a in layout.attributes)
    assert layout.width == 1 + (1 + 2 + 2 + 1) + (1 + 1)
    assert len(layout.features) == layout.width - 2


def test_a_signed_label_where_no_split_is_wanted() -> None:
    layout = layout_of(SCHEMA, "y", Task.LINEAR, Calibration.EXACT, split=False)
    assert layout.attributes[layout.label].kind is Encoding.SIGNED


def test_labels_must_fit_the_task() -> None:
    for label in ("income", "job", "card"):
        with pytest.raises(StudyError, match="the label of a linear regression must be numeric without bins"):
            layout_of(SCHEMA, label, Task.LINEAR, Calibration.EXACT)
    with pytest.raises(StudyError, match="the label of a logistic regression must be binary, got column y"):
        layout_of(SCHEMA, "y", Task.LOGISTIC, Calibration.EXACT)
    layout = layout_of(SCHEMA, "card", Task.LOGISTIC, Calibration.EXACT)
    assert layout.attributes[layout.label].coordinates == ("card=no", "card=yes")


@pytest.mark.parametrize(("calibration", "split"), [(Calibration.EXACT, False), (Calibration.PAPER, True)])
def test_several_classes_need_both_split_sums_and_the_exact_calibration(calibration: Calibration, split: bool) -> None:
    with pytest.raises(StudyError, match='needs release = "full" and calibration = "exact"'):
        layout_of(SCHEMA, "job", Task.MULTINOMIAL, calibration, split=split)
    layout = layout_of(SCHEMA, "job", Task.MULTINOMIAL, Calibration.EXACT)
    assert layout.attributes[layout.label].size == 3


def test_a_label_alone_is_no_regression() -> None:
    with pytest.raises(StudyError, match="a regression needs a feature besides its label y"):
        layout_of(Schema({"a": {"y": Numeric(0, 1)}}), "y", Task.LINEAR, Calibration.EXACT)


def test_spans_cover_the_record() -> None:
    layout = layout_of(SCHEMA, "y", Task.LINEAR, Calibration.EXACT)
    covered = np.concatenate([np.arange(layout.width)[layout.span(i)] for i in range(len(layout.attributes))])
    assert covered.tolist() == list(range(1, layout.width))


def test_attributes_of_products() -> None:
    """Coordinate 1 is a number, 2 to 4 the levels of one column, 5 the label; 0 is the constant."""
    layout = layout_from(
        [
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("A", Encoding.SIMPLEX, 3, Role.FEATURE),
            ("B", Encoding.SIGNED, 1, Role.LABEL),
        ]
    )
    for more in ([], [0]):
        factors = np.array([[*more, *pair] for pair in ([1, 1], [1, 3], [0, 1], [0, 5], [2, 5], [0, 0])])
        first, second = layout.pairs_of(factors)
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2)]
        assert layout.alone_of(factors).tolist() == [0, 2]


def test_products_that_are_only_summed_are_no_part_of_the_model() -> None:
    layout = signed_layout([2, 1])
    assert layout.model is layout
    longer = with_products(layout, [(1, 3), (1, 1, 3)])
    assert [a.sum_only for a in longer.attributes] == [False] * 3 + [True] * 2
    assert longer.model == layout


def test_a_product_names_every_level_once_and_is_0_where_two_levels_exclude_each_other() -> None:
    """Coordinate 1 is a number, 2 and 3 are levels of one column, 4 to 6 of another."""
    layout = layout_from(
        [
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("A", Encoding.SIMPLEX, 2, Role.FEATURE),
            ("B", Encoding.SIMPLEX, 3, Role.FEATURE),
            ("B", Encoding.SIGNED, 1, Role.LABEL),
        ]
    )
    assert reduced(layout, [4, 1, 2, 1]) == (1, 1, 2, 4)
    assert reduced(layout, [2, 2, 5, 2]) == (2, 5) and reduced(layout, [6]) == (6,)
    assert reduced(layout, [2, 3]) is None and reduced(layout, [1, 4, 4, 5]) is None
    assert reduced(layout, []) == ()
