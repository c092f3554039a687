"""Adversaries who choose records and coins: corrected squares move the release by no more than the plan counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from colonnade.data.table import Table
from colonnade.foundation.errors import BrokenError
from colonnade.foundation.grid import Grid
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Column, Numeric
from colonnade.mechanism.blocks import exact_block
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import Task, exact_objective
from colonnade.mechanism.plan import Terms, _joint, _square_slack
from tests.helpers.polynomials import polynomial

FEATURES = 3
COLUMNS: dict[str, Column] = {f"x{i}": Numeric(-1, 1) for i in range(FEATURES)} | {"y": Numeric(-1, 1)}


def layout_of(split: bool) -> Layout:
    features = tuple(Attribute(ColumnRef("p", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(FEATURES))
    kind, names = (Encoding.SIMPLEX, ("y-", "y+")) if split else (Encoding.SIGNED, ("y",))
    return Layout((*features, Attribute(ColumnRef("p", "y"), kind, names, Role.LABEL)))


def blocks_of(layout: Layout, release: str) -> tuple[Block, ...]:
    if release == "trace":
        return dissect(exact_objective(layout, products=False)) + traces(layout)
    return dissect(exact_objective(layout, label_square=True))


def background(bound: int, split: bool, draw: np.random.Generator) -> np.ndarray:
    """Many records on the grid, and two whose excess leaves every column a little below a half: any more turns it."""
    little = 0.002
    f = 0.5 - np.sqrt(0.25 - (0.5 - little / 2) / 2)
    steps = draw.integers(-bound, bound + 1, (62, FEATURES + 1)).astype(float)
    # A label in halves has half as many steps: those of the bound's parity.
    steps[:, -1] = bound - 2 * draw.integers(0, bound + 1, 62) if split else steps[:, -1]
    steps[:2] = [*[f] * FEATURES, bound - 2 + 2 * f if split else f]
    return steps / bound


def released(layout: Layout, blocks: tuple[Block, ...], bound: int, rows: np.ndarray, coins: bytes) -> np.ndarray:
    """What these records would open without noise, in units of the moments."""
    table = Table("p", COLUMNS, {name: rows[:, i] for i, name in enumerate(COLUMNS)}, len(rows))
    columns = table.encode(layout, Grid(bound), coins)
    return np.concatenate([exact_block(block, columns.sums, 1).values for block in blocks]) / bound**2


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize(("split", "release"), [(True, "full"), (False, "trace")])
@pytest.mark.parametrize("bound", [7, 31])
def test_no_pair_of_rounded_records_moves_more_than_the_plan_counts(
    bound: int, split: bool, release: str, law: Distribution
) -> None:
    layout = layout_of(split)
    blocks = blocks_of(layout, release)
    terms = Terms(Task.LINEAR, delta=0.0 if law is Distribution.LAPLACE else 1e-6, bound=bound)
    counted = _joint(layout, blocks, [1.0] * len(blocks), terms)
    draw = np.random.default_rng(bound)
    others = background(bound, split, draw)
    best = 0.0
    for trial in range(150):
        # Near the bounds, on the grid, between its steps, and so little off it that it is rounded back.
        two = np.sign(draw.standard_normal((2, FEATURES + 1))) * draw.choice([0.0, 1 / 3, 1.0], (2, FEATURES + 1))
        two = np.clip(two + draw.choice([0.0, 0.5, 0.9]) / bound * draw.uniform(-1, 1, two.shape), -1, 1)
        if trial % 2:
            two[1] = (np.rint(two[1] * bound) + draw.choice([0.002, -0.002], FEATURES + 1)) / bound
        tables = (np.concatenate([[record], others]) for record in two)
        one, other = (released(layout, blocks, bound, rows, bytes([trial] * 32)) for rows in tables)
        change = np.abs(one - other)
        best = max(best, float(change.sum() if law is Distribution.LAPLACE else np.linalg.norm(change)))
    assert best <= counted
    assert best > 0.6 * counted


@pytest.mark.parametrize("bound", [7, 31])
def test_one_record_turns_one_rounding_of_a_trace(bound: int) -> None:
    """It turned one for each column: three steps for three columns, where the plan counts a quarter each and one."""
    layout = layout_of(False)
    trace = next(b for b in traces(layout) if b.role is Role.FEATURE)
    others = background(bound, False, np.random.default_rng(0))
    steps = []
    for off in (0.0, 0.002):
        rows = np.concatenate([np.full((1, FEATURES + 1), off / bound), others])
        steps.append(released(layout, (trace,), bound, rows, bytes(32)) * bound**2)
    assert abs(steps[0] - steps[1]) == pytest.approx(1)


def test_a_square_that_weighs_more_than_one_is_refused() -> None:
    """The slack counts each rounded square as one of weight 1; no release has a heavier one."""
    layout = layout_of(False)
    (block,) = dissect(polynomial(layout, [(1.5, ("x0", "x0"))]))
    with pytest.raises(BrokenError):
        _joint(layout, [block], [1.0], Terms(Task.LINEAR, bound=7))


def test_the_slack_counts_each_kind_of_square() -> None:
    terms = Terms(Task.LINEAR, bound=10)
    full, coarse = blocks_of(layout_of(True), "full"), blocks_of(layout_of(False), "trace")
    # Three squares of features, and of the label's halves what the objective releases of them.
    label = sum(len(b.factors) for b in full if b.role is Role.LABEL) - 2 * (FEATURES + 1)
    squares = FEATURES + max(label, 0)
    assert _square_slack(layout_of(True), [(b, 1.0) for b in full], terms) == pytest.approx(0.0125 * squares, rel=0.4)
    assert _square_slack(layout_of(False), [(b, 2.0) for b in coarse], terms) == pytest.approx(
        2 * ((FEATURES / 4 + 1) + 1.25) / 100
    )
    gaussian = Terms(Task.LINEAR, delta=1e-6, bound=10)
    assert _square_slack(layout_of(False), [(b, 1.0) for b in coarse], gaussian) == pytest.approx(
        float(np.hypot(FEATURES / 4 + 1, 1.25)) / 100
    )
    assert _square_slack(layout_of(True), [(b, 1.0) for b in full], Terms(Task.LINEAR)) == 0
    assert Fraction(_square_slack(layout_of(False), [(b, 1.0) for b in coarse], terms)) > Fraction(3, 100)
