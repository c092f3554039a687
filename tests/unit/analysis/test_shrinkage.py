"""Shrinkage by empirical Bayes: what few blocks tell of the distribution of dependence."""

from __future__ import annotations

import numpy as np

from colonnade.analysis.shrinkage import EVEN, Deviations, shrink


def test_few_blocks_do_not_make_their_own_dependence_the_only_one_possible() -> None:
    """Six blocks of one cell with correlations from .01 to .5: even blocks beside them lower the squared error."""
    random, plain, even = np.random.default_rng(3), 0.0, 0.0
    for _ in range(300):
        r = np.exp(random.uniform(np.log(0.01), np.log(0.5), 6))
        true = r * random.standard_normal(6)
        seen = true + 0.1 * random.standard_normal(6)
        blocks = [Deviations(np.array([[v]]), np.ones((1, 1)), np.full((1, 1), 0.01)) for v in seen]
        for extra in (0.0, EVEN):
            found = np.array([float(s.value[0, 0]) for s in shrink(blocks, extra)])
            error = float(((found - true) ** 2).sum())
            plain, even = (plain + error, even) if not extra else (plain, even + error)
    assert even < 0.99 * plain
