"""Eq. 5: every term goes to exactly one block, by the set of its owners."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.foundation.errors import PrivacyError
from colonnade.mechanism.dissection import allocate, dissect, require_pairs, traces
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.objective import Task, exact_objective, paper_objective
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.polynomials import polynomial


@pytest.mark.parametrize("counts", [(4,), (2, 3), (3, 1, 2), (2, 2, 2, 2)])
@pytest.mark.parametrize("task", list(Task))
def test_blocks_partition_the_terms_by_owners(counts: tuple[int, ...], task: Task) -> None:
    layout = signed_layout(counts)
    objective = paper_objective(layout, task)
    blocks = dissect(objective)
    assert sum(len(b.weights) for b in blocks) == len(objective)
    owner = {c: a.owner for i, a in enumerate(layout.attributes) for c in range(*layout.span(i).indices(99))}
    label = layout.starts[layout.label]
    for block in blocks:
        for factors in block.factors:
            assert {owner[int(f)] for f in factors if f > 0} == set(block.owners)
            assert (label in factors) == (block.role is Role.LABEL)
    singles = [b.single for b in blocks]
    assert singles == sorted(singles, reverse=True)


def test_blocks_by_cells_hold_every_term_once_and_whole_tables() -> None:
    sizes = (1, 1, 3, 8, 20, 2)
    kinds = [Encoding.SIGNED if m == 1 else Encoding.SIMPLEX for m in sizes]
    roles = [Role.FEATURE] * 5 + [Role.LABEL]
    layout = layout_from(list(zip("ABABAB", kinds, sizes, roles, strict=True)))
    objective = exact_objective(layout)
    plain, divided = dissect(objective), dissect(objective, by_cells=True)
    terms = [tuple(row) for b in divided for row in b.factors.tolist()]
    assert sorted(terms) == sorted(tuple(row) for row in objective.factors.tolist())
    assert len(divided) > len(plain) and all(b.cells is None for b in plain)
    place: dict[tuple[int, ...], set[int]] = {}
    for i, block in enumerate(divided):
        for row in block.factors:
            pair = tuple(int(k) for k in layout.attribute_of[row])
            place.setdefault(pair, set()).add(i)
            cells = np.prod([layout.attributes[k].size for k in pair if k >= 0])
            assert block.cells is not None and block.cells / 4 < cells <= block.cells
    assert all(len(found) == 1 for found in place.values())


def test_number_of_cross_party_products() -> None:
    """Sum over k < l of d^k d^l, plus d - d^1 for the label (docs/paper.md, k)."""
    counts = (4, 3, 2)
    blocks = dissect(exact_objective(signed_layout(counts)))
    d1, d2, d3 = 3, 3, 2
    assert sum(b.size for b in blocks if not b.single) == d1 * d2 + d1 * d3 + d2 * d3 + (d2 + d3)


def test_allocation() -> None:
    layout = signed_layout([2, 2, 2])
    blocks = dissect(exact_objective(layout))
    mine = allocate(blocks, "B")
    assert {b.owners for b in mine} == {("B",), ("A", "B"), ("B", "C")}
    assert sum(len(allocate(blocks, p)) for p in layout.owners) == sum(len(b.owners) for b in blocks)


def test_a_public_constant_belongs_to_the_other_factor() -> None:
    layout = signed_layout([2, 1])
    blocks = dissect(polynomial(layout, [(1.0, (layout.names[3],))]))
    assert [b.owners for b in blocks] == [("B",)]
    with pytest.raises(PrivacyError, match="got only constants"):
        dissect(polynomial(layout, [(1.0, ("1",))]))


def test_terms_of_a_higher_degree_dissect_and_run_as_interactions_alone() -> None:
    layout = signed_layout([2, 1, 1])
    a, _, b, c = layout.names[1:]
    blocks = dissect(polynomial(layout, [(1.0, (a, b, c)), (1.0, (a, a, b))]))
    assert [b.owners for b in blocks] == [("A", "B"), ("A", "B", "C")]
    with pytest.raises(PrivacyError, match="products of two coordinates, and interactions among these, got terms of"):
        require_pairs(blocks)


def test_traces_are_one_per_party_with_signed_features() -> None:
    layout = layout_from(
        [
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("A", Encoding.SIGNED, 1, Role.FEATURE),
            ("A", Encoding.SIGNED, 1, Role.LABEL),
            ("B", Encoding.SIMPLEX, 3, Role.FEATURE),
            ("C", Encoding.SIGNED, 1, Role.FEATURE),
        ]
    )
    blocks = traces(layout)
    assert [(b.owners, b.role) for b in blocks] == [
        (("A",), Role.FEATURE),
        (("C",), Role.FEATURE),
        (("A",), Role.LABEL),
    ]
    assert np.array_equal(blocks[2].factors, [[3, 3]])
    assert [b.owners for b in traces(layout, label_square=False)] == [("A",), ("C",)]
    assert all(b.summed and b.size == 1 for b in blocks)
    assert np.array_equal(blocks[0].factors, [[1, 1], [2, 2]])


def test_names_tell_blocks_apart() -> None:
    layout = signed_layout([3, 2])
    names = [b.name for b in dissect(exact_objective(layout)) + traces(layout)]
    assert len(set(names)) == len(names)
    assert "A x B (label)" in names and "A (trace)" in names
