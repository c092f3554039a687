"""Exact blocks, their noise in integers, and the step from one to the other."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from colonnade.foundation.randomness import Randomness
from colonnade.foundation.sums import Sums
from colonnade.mechanism.blocks import ExactBlock, IntegerNoise, exact_block, perturb
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Distribution, Role
from colonnade.mechanism.objective import Task, exact_objective, paper_objective
from tests.helpers.adversary import signed_layout


def test_exact_block_picks_the_owners_sums() -> None:
    layout = signed_layout([3, 3])
    generator = np.random.default_rng(0)
    data = generator.integers(-7, 8, (50, 6)).astype(np.float64)
    for party, columns in (("A", slice(0, 3)), ("B", slice(3, 6))):
        own = np.concatenate([np.full((50, 1), 7.0), data[:, columns]], axis=1)
        offset = 1 + columns.start
        record = np.concatenate([np.full((50, 1), 7.0), data], axis=1)
        for block in (b for b in dissect(exact_objective(layout)) + traces(layout) if b.owners == (party,)):
            values = exact_block(block, Sums.of(own.T @ own), offset).values
            truth = (record.T @ record)[block.factors[:, 0], block.factors[:, 1]]
            assert values.tolist() == ([truth.sum()] if block.summed else truth.tolist())


def test_noise_scales_with_unit_and_weight() -> None:
    layout = signed_layout([3])
    blocks = dissect(paper_objective(layout, Task.LINEAR))
    block = next(b for b in blocks if set(np.abs(b.weights)) >= {1.0, 2.0})
    noise = IntegerNoise.of(block, Fraction(5), Distribution.LAPLACE, 49)
    spread = dict.fromkeys(range(block.size), Fraction(0))
    for value, where in noise.spreads:
        for i in where:
            spread[int(i)] = value
    assert all(spread[i] == Fraction(5 * 49) / Fraction(abs(float(w))) for i, w in enumerate(block.weights))
    assert noise.stds() == pytest.approx(sqrt(2) * 245 / np.abs(block.weights))


def test_gaussian_noise_leaves_room_for_rounding() -> None:
    block = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    noise = IntegerNoise.of(block, Fraction(3), Distribution.GAUSSIAN, 10)
    assert noise.spreads[0][0] > 900
    assert noise.stds()[0] == pytest.approx(30, rel=0.01)


def test_a_summed_block_gets_one_draw() -> None:
    trace, _ = traces(signed_layout([5]))
    noise = IntegerNoise.of(trace, Fraction(7), Distribution.LAPLACE, 9)
    assert noise.size == 1 and noise.draw(1, Randomness(b"x")).shape == (1,)


@pytest.mark.parametrize(
    ("law", "std", "reach"), [(Distribution.LAPLACE, 452.548, 13_522), (Distribution.GAUSSIAN, 320.006, 2941)]
)
def test_shares_add_up_to_the_stated_spread(law: Distribution, std: float, reach: int) -> None:
    """b = 20 16 has the standard deviation sqrt(2) b, sigma^2 = b^2 + 4; with L = ln 8000 + 48 ln 2 noise stays within
    b L, and the root of 2 sigma^2 L."""
    block = Block(("A", "B"), Role.FEATURE, np.ones((4000, 2), dtype=np.int64), np.ones(4000))
    noise = IntegerNoise.of(block, Fraction(20), law, 16)
    total = sum(noise.draw(3, Randomness(b"share %d" % k)).astype(np.float64) for k in range(3))
    assert noise.stds() == pytest.approx(np.full(4000, std), rel=1e-5)
    assert np.std(total) == pytest.approx(std, rel=0.06)
    assert noise.reach(3, 3) == reach and np.abs(total).max() <= reach


def test_perturb_adds() -> None:
    exact = ExactBlock(np.array([10, -3]))
    assert perturb(exact, np.array([1, 2])).values.tolist() == [11, -1]
    assert exact.values.tolist() == [10, -3]
    assert "10, -3" not in repr(exact) and "[" not in repr(exact)


def test_a_part_of_noise_has_the_spreads_of_its_places() -> None:
    noise = IntegerNoise(Distribution.LAPLACE, ((Fraction(2), np.array([0, 3])), (Fraction(5), np.array([1, 2]))), 4)

    def told(start: int, stop: int | None) -> list[tuple[int, list[int]]]:
        part = noise.part(start, stop)
        assert part.size == (4 if stop is None else stop) - start
        return [(int(spread), where.tolist()) for spread, where in part.spreads]

    assert told(0, 3) == [(2, [0]), (5, [1, 2])]
    assert told(1, 2) == [(5, [0])]
    assert told(3, None) == [(2, [0])]
