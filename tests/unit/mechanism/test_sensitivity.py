"""The box bound against brute force, and sensitivities of small releases by hand."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.mechanism.boxbound import SAFETY, box_bound
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Distribution, Encoding, Role
from colonnade.mechanism.objective import Task, exact_objective, paper_objective
from colonnade.mechanism.sensitivity import paper_sensitivity, sensitivity
from tests.helpers.adversary import layout_from, signed_layout


def quadratic(
    count: np.ndarray,
    pair: np.ndarray,
    square: np.ndarray,
    linear: np.ndarray,
    absolute: np.ndarray,
    points: np.ndarray,
) -> np.ndarray:
    """The function that is bounded, at points with one column for each member of each family."""
    family = np.repeat(np.arange(count.size), count.astype(int))
    weights = pair[np.ix_(family, family)] / 2
    np.fill_diagonal(weights, square[family])
    return (
        np.abs(points) @ absolute[family] - points @ linear[family] - np.einsum("ni,ij,nj->n", points, weights, points)
    )


def problem(seed: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    size = int(generator.integers(1, 4))
    count = generator.integers(1, 4, size).astype(float)
    pair = generator.random((size, size)) * (generator.random((size, size)) < 0.8)
    pair = pair + pair.T
    square, linear, absolute = (generator.random(size) * (generator.random(size) < 0.7) for _ in range(3))
    return count, pair, square, linear, absolute


@pytest.mark.parametrize("seed", range(40))
def test_box_bound_is_above_every_point(seed: int) -> None:
    parts = problem(seed)
    bound = box_bound(*parts)
    generator = np.random.default_rng(seed)
    members = int(parts[0].sum())
    points = np.concatenate(
        [
            generator.uniform(-1, 1, (4000, members)),
            generator.choice([-1.0, 0.0, 1.0], (4000, members)),
            np.zeros((1, members)),
        ]
    )
    values = quadratic(*parts, points)
    assert values.max() <= bound
    assert bound >= 0
    # Not idle: within a third of what random points reach, plus a little for tiny problems.
    assert bound <= 1.34 * values.max() + 0.35


def test_box_bound_is_tight_where_the_maximum_is_known() -> None:
    zero, one = np.zeros(1), np.ones(1)
    # -sum of s s' over pairs is at most m/2, at balanced signs.
    for m in (2, 4, 10, 800):
        assert box_bound(np.array([float(m)]), np.ones((1, 1)), zero, zero, zero) == pytest.approx(m / 2, rel=1e-6)
    # |s| - s^2 / 2 is 1/2 at s = 1; |s| - s^2 is 1/4 at s = 1/2; -2s - s^2 is 1 at s = -1.
    empty = np.zeros((1, 1))
    assert box_bound(one, empty, one / 2, zero, one) == pytest.approx(0.5, rel=1e-6)
    assert box_bound(one, empty, one, zero, one) == pytest.approx(0.25, rel=1e-6)
    assert box_bound(one, empty, one, 2 * one, zero) == pytest.approx(1.0, rel=1e-6)
    # -s alone is 1 at s = -1, to which a billionth is added for what floats lose.
    assert box_bound(one, empty, zero, one, zero) == pytest.approx(1 + 1e-9, rel=1e-12)


def test_alike_coordinates_may_share_a_family() -> None:
    """One family of three, or three families of one: the same bound."""
    together = box_bound(np.array([3.0]), np.ones((1, 1)), np.array([0.2]), np.array([0.3]), np.array([0.4]))
    apart = box_bound(np.ones(3), np.ones((3, 3)) - np.eye(3), np.full(3, 0.2), np.full(3, 0.3), np.full(3, 0.4))
    assert together == pytest.approx(apart, rel=1e-6)


def test_nothing_to_bound() -> None:
    assert box_bound(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0)) == 0.0
    assert box_bound(np.ones(1), np.zeros((1, 1)), np.ones(1), np.zeros(1), np.zeros(1)) == 0.0
    assert SAFETY >= 1e-10


def test_bounds_scale_with_their_weights() -> None:
    parts = problem(3)
    for factor in (1e-6, 1e6):
        scaled = (parts[0], *(p * factor for p in parts[1:]))
        assert box_bound(*scaled) == pytest.approx(factor * box_bound(*parts), rel=1e-6)


def release(kinds: list[tuple[str, Encoding, int, Role]], law: Distribution, owner: str | None = None) -> float:
    layout = layout_from(kinds)
    return sensitivity(layout, [(b, 1.0) for b in dissect(exact_objective(layout))], law, owner)


def test_tables_by_hand() -> None:
    signed = ("A", Encoding.SIGNED, 1, Role.FEATURE)
    levels = ("B", Encoding.SIMPLEX, 5, Role.FEATURE)
    label = ("B", Encoding.SIMPLEX, 2, Role.LABEL)
    # Label table: 2. With a second categorical: three tables of 2 each.
    assert release([levels, label], Distribution.LAPLACE) == pytest.approx(2.0)
    assert release([levels, levels, label], Distribution.LAPLACE) == pytest.approx(6.0)
    assert release([levels, levels, label], Distribution.GAUSSIAN) == pytest.approx(6**0.5)
    # One numeric: 1 + |s| for its split sums, 1 - s^2 for its square, 1 for the label's own sum.
    assert release([signed, label], Distribution.LAPLACE) == pytest.approx(3.25, rel=1e-6)
    # A's part alone: the label does not move, so 1 - s and 1 - s^2.
    assert release([signed, label], Distribution.LAPLACE, "A") == pytest.approx(2.25, rel=1e-6)


def test_a_party_without_a_block_is_not_touched() -> None:
    layout = signed_layout([2, 2])
    blocks = [(b, 1.0) for b in dissect(exact_objective(layout)) if b.owners == ("A",)]
    assert sensitivity(layout, blocks, Distribution.LAPLACE, "B") == 0.0
    assert sensitivity(layout, blocks, Distribution.GAUSSIAN, "B") == 0.0
    assert paper_sensitivity([b for b, _ in blocks], "B") == 0


def test_owners_do_not_matter_for_the_record() -> None:
    values = set()
    for counts in ([8], [4, 4], [2, 2, 2, 2], [5, 1, 2]):
        layout = signed_layout(counts)
        blocks = [(b, 1.0) for b in dissect(paper_objective(layout, Task.LINEAR))]
        values.add(round(sensitivity(layout, blocks, Distribution.LAPLACE), 4))
    assert values == {64.0}


def test_trace_is_one_number_for_many_squares() -> None:
    layout = signed_layout([7])
    trace, square = traces(layout)
    assert trace.size == 1 and len(trace.weights) == 6
    assert sensitivity(layout, [(square, 1.0)], Distribution.LAPLACE) == pytest.approx(1.0)
    assert sensitivity(layout, [(square, 1.0)], Distribution.GAUSSIAN) == pytest.approx(1.0)
    assert sensitivity(layout, [(trace, 1.0)], Distribution.LAPLACE) == pytest.approx(6.0)
    assert sensitivity(layout, [(trace, 1.0)], Distribution.GAUSSIAN) == pytest.approx(6.0)


def test_a_summed_block_of_other_products_is_bounded_too() -> None:
    layout = signed_layout([4])
    factors = np.array([[1, 2], [3, 4]])
    block = Block(("A",), Role.FEATURE, factors, np.ones(2), summed=True)
    assert sensitivity(layout, [(block, 1.0)], Distribution.LAPLACE) >= 4.0
    assert sensitivity(layout, [(block, 1.0)], Distribution.GAUSSIAN) >= 4.0
