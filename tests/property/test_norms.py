"""A declared L2 norm: what a record of clipped features can move, and that the clipping is done on the grid."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.data.table import Table
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.schema import Column, Numeric, Schema
from colonnade.mechanism.dissection import dissect, traces
from colonnade.mechanism.moments import Distribution, Layout, Role
from colonnade.mechanism.objective import Calibration, Task, exact_objective, layout_of
from colonnade.mechanism.sensitivity import sensitivity
from colonnade.planning.agreement import Agreement
from colonnade.planning.precision import REPLANNED
from colonnade.planning.session_plan import draft_plan, plan_session

NORMS = {"a": 1.5, "b": 0.8}
WIDTHS = {"a": 6, "b": 4}


def _layout(norms: dict[str, float]) -> Layout:
    parties: dict[str, dict[str, Numeric]] = {
        party: {f"{party}{i}": Numeric(-1, 1) for i in range(width)} for party, width in WIDTHS.items()
    }
    parties["a"]["y"] = Numeric(-1, 1)
    return layout_of(Schema(parties, norms), "y", Task.LINEAR, Calibration.EXACT, split=False)


def _released(layout: Layout, record: np.ndarray, weight: dict[str, float]) -> np.ndarray:
    """Every released number of one record, weighted: products with the label, its sum and square, the traces."""
    spans = {p: [i for i, a in enumerate(layout.attributes) if a.owner == p and str(a.of) != "a.y"] for p in WIDTHS}
    y = record[layout.label]
    parts = [weight["label"] * record[spans[p]] * y for p in WIDTHS]
    parts.append(np.array([weight["label"] * y, weight["square"] * y * y]))
    parts += [np.array([weight["trace"] * np.square(record[spans[p]]).sum()]) for p in WIDTHS]
    return np.concatenate(parts)


def _moved(difference: np.ndarray, law: Distribution) -> float:
    return float(np.linalg.norm(difference, 1 if law is Distribution.LAPLACE else 2))


def _bound(layout: Layout, weight: dict[str, float], owner: str | None, law: Distribution) -> float:
    products = dissect(exact_objective(layout, products=False))
    weighted = [(b, weight["label"]) for b in products]
    weighted += [(b, weight["square" if b.role is Role.LABEL else "trace"]) for b in traces(layout)]
    return sensitivity(layout, weighted, law, owner)


def _draw(layout: Layout, generator: np.random.Generator) -> np.ndarray:
    record = generator.uniform(-1, 1, len(layout.attributes))
    if generator.random() < 0.5:
        record = np.sign(record)
    for party, norm in NORMS.items():
        own = [i for i, a in enumerate(layout.attributes) if a.owner == party and str(a.of) != "a.y"]
        length = np.linalg.norm(record[own])
        record[own] *= min(1.0, norm / length) if generator.random() < 0.5 else norm / length
    return record


@pytest.mark.slow
@pytest.mark.parametrize(
    "weight",
    [
        {"label": 1.0, "trace": 0.1, "square": 0.1},
        {"label": 2.0, "trace": 1.0, "square": 1.0},
        {"label": 0.2, "trace": 0.01, "square": 3.0},
        {"label": 1.0, "trace": 0.01, "square": 4.0},
    ],
)
@pytest.mark.parametrize("owner", [None, "a", "b"])
@pytest.mark.parametrize("law", list(Distribution))
def test_no_pair_of_records_moves_more_than_the_bound(
    weight: dict[str, float], owner: str | None, law: Distribution
) -> None:
    layout = _layout(NORMS)
    bound = _bound(layout, weight, owner, law)
    generator = np.random.default_rng(3)
    most = 0.0
    for _ in range(2500):
        first, second = _draw(layout, generator), _draw(layout, generator)
        if generator.random() < 0.5:
            second = first * np.where(generator.random(first.size) < 0.5, 1, 1)
            second = -first if generator.random() < 0.5 else second
            second[layout.label] = first[layout.label] = np.sign(first[layout.label])
        if generator.random() < 0.3:
            # A square moves most between 0 and an end, where products with the label move less.
            first[layout.label], second[layout.label] = np.sign(first[layout.label]), 0.3 * generator.uniform(-1, 1)
        if owner is not None:
            fixed = np.array([a.owner != owner for a in layout.attributes])
            second = np.where(fixed, first, second)
        most = max(most, _moved(_released(layout, first, weight) - _released(layout, second, weight), law))
    assert most <= bound
    assert most >= 0.6 * bound


@pytest.mark.parametrize("law", list(Distribution))
def test_the_label_products_alone_reach_the_bound(law: Distribution) -> None:
    layout = _layout(NORMS)
    products = [(b, 1.0) for b in dissect(exact_objective(layout, products=False))]
    bound = sensitivity(layout, products, law)
    record = np.zeros(len(layout.attributes))
    for party, norm in NORMS.items():
        own = [i for i, a in enumerate(layout.attributes) if a.owner == party and str(a.of) != "a.y"]
        record[own] = norm / np.sqrt(len(own))
    record[layout.label] = 1.0
    other = record.copy()
    other[layout.label] = -1.0
    weight = {"label": 1.0, "trace": 0.0, "square": 0.0}
    moved = _moved(_released(layout, record, weight) - _released(layout, other, weight), law)
    assert moved == pytest.approx(bound, rel=1e-6)
    assert bound < sensitivity(_layout({}), products, law)


def test_a_norm_changes_nothing_where_feature_pairs_are_released() -> None:
    layout = _layout(NORMS)
    blocks = [(b, 1.0) for b in dissect(exact_objective(layout))]
    assert sensitivity(layout, blocks, Distribution.GAUSSIAN) == sensitivity(_layout({}), blocks, Distribution.GAUSSIAN)


def test_encoded_records_are_within_the_norm_on_the_grid() -> None:
    layout = _layout(NORMS)
    generator = np.random.default_rng(5)
    columns = {f"b{i}": Numeric(-1, 1) for i in range(WIDTHS["b"])}
    table = Table("b", columns, {name: generator.uniform(-1, 1, 500) for name in columns}, 500)
    grid = Grid(63)
    rows = table.encode(layout, grid, bytes(32)).rows(0, 500).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    assert lengths.max() <= rounded_norm(NORMS["b"], WIDTHS["b"], grid.bound) * grid.bound
    assert (lengths > 0.9 * NORMS["b"] * grid.bound).mean() > 0.2


@pytest.mark.parametrize(("features", "norm"), [(1000, 0.03), (400, 0.05), (40, 0.02), (6, 1.5)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_draft_counts_what_rounding_adds_to_a_norm(features: int, norm: float, delta: float) -> None:
    """Words are sized by the draft: it left out a sixth of the noise that a small norm has in the end."""
    b: dict[str, Column] = {f"x{i}": Numeric(-1, 1) for i in range(features)}
    schema = Schema({"a": {"y": Numeric(-1, 1)}, "b": b}, {"b": norm})
    agreement = Agreement.from_terms("norms", schema, "a.y", Task.LINEAR, epsilon=1.0, delta=delta, release="trace")
    rough, final = draft_plan(agreement, 30)[1], plan_session(agreement, 30, bytes(32)).plan
    for before, after in zip(rough.blocks, final.blocks, strict=True):
        assert after.scale <= REPLANNED * before.scale, before.block.name
