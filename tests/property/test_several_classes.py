"""A label of several levels moves a release no farther than its sensitivity says: searched as for two."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.mechanism.dissection import dissect
from colonnade.mechanism.moments import Distribution, Encoding, Role
from colonnade.mechanism.objective import exact_objective
from colonnade.mechanism.sensitivity import sensitivity
from tests.helpers.adversary import Adversary, layout_from


@pytest.mark.parametrize("levels", [3, 5])
@pytest.mark.parametrize("law", list(Distribution))
def test_no_search_exceeds_the_sensitivity_of_several_classes(levels: int, law: Distribution) -> None:
    generator = np.random.default_rng(levels)
    signed, simplex = Encoding.SIGNED, Encoding.SIMPLEX
    layout = layout_from(
        [
            ("A", signed, 1, Role.FEATURE),
            ("A", simplex, levels, Role.LABEL),
            ("B", simplex, 3, Role.FEATURE),
            ("B", signed, 1, Role.FEATURE),
        ]
    )
    blocks = [(block, float(generator.choice([1.0, 0.3, 2.5]))) for block in dissect(exact_objective(layout))]
    for owner in (None, *layout.owners):
        bound = sensitivity(layout, blocks, law, owner)
        found, _, _ = Adversary(layout, blocks, law, owner, generator).climb(4)
        assert 0.85 * bound <= found <= bound * (1 + 1e-12)


@pytest.mark.parametrize("law", list(Distribution))
def test_counts_of_several_classes_beside_numbers_alone_are_covered(law: Distribution) -> None:
    signed, generator = Encoding.SIGNED, np.random.default_rng(4)
    layout = layout_from(
        [("A", signed, 1, Role.FEATURE), ("A", Encoding.SIMPLEX, 4, Role.LABEL), ("B", signed, 1, Role.FEATURE)]
    )
    objective = exact_objective(layout)
    # The constant stands at 0, the label's four levels at 2 to 5: each level's count is released, and by itself.
    assert [f for f in objective.factors.tolist() if 0 in f] == [[0, 2], [0, 3], [0, 4], [0, 5]]
    blocks = [(block, float(generator.choice([1.0, 0.3, 2.5]))) for block in dissect(objective)]
    for owner in (None, *layout.owners):
        bound = sensitivity(layout, blocks, law, owner)
        found, _, _ = Adversary(layout, blocks, law, owner, generator).climb(4)
        assert 0.8 * bound <= found <= bound * (1 + 1e-12)
