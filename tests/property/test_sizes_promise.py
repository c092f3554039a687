"""Noise by the size of tables keeps the promise: all pairs of records of a small study are tried."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from colonnade.foundation.schema import Binary, Categorical, Schema
from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

SIZES = {"a": {"s": 2, "t": 5}, "b": {"u": 9}}


def agreement(delta: float) -> Agreement:
    columns = {
        party: {name: Categorical(tuple(f"v{k}" for k in range(m))) for name, m in own.items()}
        for party, own in SIZES.items()
    }
    columns["a"]["y"] = Binary(("no", "yes"))  # type: ignore[assignment]
    return Agreement.from_terms(
        "sizes", Schema(columns), "a.y", Task.LOGISTIC, epsilon=1.0, delta=delta, product="plain"
    )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_pair_of_records_moves_a_release_by_more_than_is_promised(delta: float) -> None:
    plan = plan_session(agreement(delta), 50_000, bytes(32)).plan
    layout = plan.layout
    assert len({item.block.cells for item in plan.blocks}) > 2
    assert len({float(item.scale) for item in plan.blocks}) > 2
    spans = [layout.span(i) for i in range(len(layout.attributes))]
    records = []
    for levels in product(*(range(s.stop - s.start) for s in spans)):
        record = np.zeros(layout.width)
        record[0] = 1.0
        record[[s.start + level for s, level in zip(spans, levels, strict=True)]] = 1.0
        records.append(record)
    z = np.array(records)
    total = np.zeros((len(z), len(z)))
    power = 2 if delta else 1
    for item in plan.blocks:
        terms = z[:, item.block.factors].prod(axis=2) * item.block.weights / float(item.scale)
        moved = np.abs(terms[:, None, :] - terms[None, :, :]) ** power
        total += moved.sum(axis=2)
    # With c = 1 of two parties the wider share alone hides a record; it has the whole scale.
    spent, allowed = (total.max() / 2, float(gaussian_rho(1.0, delta))) if delta else (total.max(), 1.0)
    assert 0.6 * allowed < spent <= allowed * (1 + 1e-9)
