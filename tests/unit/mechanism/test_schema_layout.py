"""From declared columns to the coordinates of a record."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.objective import Calibration, Task, layout_of

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


def test_a_label_alone_is_no_regression() -> None:
    with pytest.raises(StudyError, match="a regression needs a feature besides its label y"):
        layout_of(Schema({"a": {"y": Numeric(0, 1)}}), "y", Task.LINEAR, Calibration.EXACT)


def test_spans_cover_the_record() -> None:
    layout = layout_of(SCHEMA, "y", Task.LINEAR, Calibration.EXACT)
    covered = np.concatenate([np.arange(layout.width)[layout.span(i)] for i in range(len(layout.attributes))])
    assert covered.tolist() == list(range(1, layout.width))
