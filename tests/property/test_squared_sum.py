"""A sum of products and squares of two owners, opened as one number: no search may move it farther than is claimed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from colonnade.crypto.lattice.parameters import TAU
from colonnade.data.table import table_from
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.dissection import Block, squared_sum, traces
from colonnade.mechanism.moments import Distribution, Layout
from colonnade.mechanism.objective import Task
from colonnade.mechanism.sensitivity import sensitivity
from colonnade.planning.agreement import Agreement
from colonnade.planning.query import Evaluated
from colonnade.simulation import run_unguarded
from tests.helpers.adversary import Adversary, signed_layout
from tests.property.test_lattice_error import GAIN, ROUNDING, Mover, planned_factor, stretched


def places(layout: Layout, reaches: list[float]) -> dict[str, tuple[int, float]]:
    """Each party's last coordinate, as the label's holder has its part of the error."""
    last = {a.owner: layout.starts[i] for i, a in enumerate(layout.attributes)}
    return {party: (last[party], reach) for party, reach in zip(layout.owners, reaches, strict=True)}


def release(layout: Layout, reaches: list[float]) -> tuple[Block, ...]:
    about = [b for b in traces(layout, label_square=False) if b.owners == (layout.owners[0],)]
    return squared_sum(layout, places(layout, reaches)) + tuple(about)


@pytest.mark.parametrize("reaches", [[1.0, 1.0], [1.0, 0.25], [2.0, 0.7, 1.1], [1.0, 1.0, 0.5, 0.3]])
@pytest.mark.parametrize("law", list(Distribution))
def test_no_pair_of_records_moves_it_farther(reaches: list[float], law: Distribution) -> None:
    generator = np.random.default_rng(len(reaches))
    layout = signed_layout([2, *[1] * (len(reaches) - 1)])
    blocks = [(block, float(generator.choice([1.0, 0.3, 2.0]))) for block in release(layout, reaches)]
    for owner in (None, *layout.owners[:2]):
        found, _, _ = Adversary(layout, blocks, law, owner, generator).climb(4)
        assert 0 < found <= sensitivity(layout, blocks, law, owner) * ROUNDING


def test_the_bound_is_reached() -> None:
    """Two parties: the claim is the range of half a square, (sqrt a + sqrt b)^2 / 2."""
    layout = signed_layout([1, 1])
    for reach in (1.0, 0.25):
        blocks = [(block, 1.0) for block in squared_sum(layout, places(layout, [1.0, reach]))]
        claimed = sensitivity(layout, blocks, Distribution.LAPLACE)
        assert claimed == pytest.approx((1 + reach) ** 2 / (2 * reach), rel=1e-6)
        found, _, _ = Adversary(layout, blocks, Distribution.LAPLACE, None, np.random.default_rng(0)).climb(3)
        assert found == pytest.approx(claimed, rel=1e-6)
        assert sensitivity(layout, blocks, Distribution.GAUSSIAN) < 1.5 * claimed


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize("reaches", [[1.0, 0.5], [1.0, 0.8, 0.3]])
def test_no_error_of_the_product_moves_it_farther(law: Distribution, reaches: list[float]) -> None:
    generator = np.random.default_rng(5)
    layout = signed_layout([2, *[1] * (len(reaches) - 1)])
    blocks = [(block, 1.0) for block in release(layout, reaches)]
    bound = sensitivity(layout, stretched(blocks, planned_factor(layout)), law)
    assert Mover(layout, blocks, law, None, generator).look(TAU / GAIN, 3) <= bound * ROUNDING


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_numbers_add_up_to_the_square(count: int) -> None:
    generator = np.random.default_rng(count)
    reaches = generator.uniform(0.3, 2.0, count).tolist()
    layout = signed_layout([1] * count)
    records = np.column_stack([np.ones(50), generator.uniform(-1, 1, (50, count))])
    total = 0.0
    reach = dict(zip(layout.owners, reaches, strict=True))
    for block in squared_sum(layout, places(layout, reaches)):
        value = float((np.prod(records[:, block.factors], axis=2) @ block.weights).sum())
        weight = [reach[party] for party in block.owners]
        total += value * (weight[0] ** 2 if count == 1 else 2 * weight[0] * weight[1])
    assert total == pytest.approx(float(((records[:, 1:] @ np.array(reaches)) ** 2).sum()))


def agreement(reaches: dict[str, float], product: str, epsilon: float = 50.0) -> Agreement:
    columns = {party: {f"part {party}": Numeric(-reach, reach)} for party, reach in reaches.items()}
    first = next(iter(columns))
    columns[first] = {"about": Numeric(-1, 1), **columns[first]}
    evaluated = Evaluated("00" * 32, f"{first}.y", Task.LINEAR, dict.fromkeys(columns, ()))
    terms = {"epsilon": epsilon, "product": product, "release": "full", "evaluates": evaluated}
    return Agreement.from_terms("s", Schema(columns), f"part {first}", Task.LINEAR, **terms)


@pytest.mark.parametrize("product", ["plain", "lattice"])
@pytest.mark.parametrize("reaches", [{"a": 1.0, "b": 0.4}, {"a": 0.5, "b": 1.0, "c": 0.8}])
def test_opened_sums_are_the_sums_of_the_records(product: str, reaches: dict[str, float]) -> None:
    generator, n = np.random.default_rng(3), 3000
    values = {party: generator.uniform(-reach, reach, n) for party, reach in reaches.items()}
    terms = agreement(reaches, product)
    frames = {party: pl.DataFrame({f"part {party}": values[party]}) for party in reaches}
    frames["a"] = frames["a"].with_columns(about=pl.Series(generator.uniform(-1, 1, n)))
    tables = {party: table_from(party, frame, terms.schema.parties[party]) for party, frame in frames.items()}
    opened = run_unguarded(terms, tables, "none", Randomness(seed=b"sums")).release
    total, noise = 0.0, 0.0
    for block in opened.blocks:
        if len(block.owners) == 2:
            weight = 2 * reaches[block.owners[0]] * reaches[block.owners[1]]
            total += weight * block.values[0] / block.unit
            noise += (weight * block.std[0]) ** 2
    exact = float((sum(values.values()) ** 2).sum())
    # Rounding to the grid is a fiftieth of the noise for each number.
    assert abs(total - exact) < 6 * np.sqrt(noise)
    assert exact > 20 * np.sqrt(noise)


def test_a_product_that_opens_ciphertexts_is_refused() -> None:
    from colonnade.planning.session_plan import plan_session

    with pytest.raises(StudyError, match='summed by product = "lattice", got product = "bgn"'):
        plan_session(agreement({"a": 1.0, "b": 1.0}, "bgn"), 1000, bytes(32))
