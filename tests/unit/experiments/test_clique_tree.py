"""Inference by small tables against the whole joint table: what AIM's inference is replaced by on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.synthesizers.clique_tree import (
    Attributes,
    CliqueTree,
    Measured,
    NumpySums,
    Vector,
    descend,
    model_cells,
    pair_tables,
)

SIZES = dict(zip("abcdef", (3, 2, 4, 2, 3, 2), strict=True))
CLIQUES = [tuple("abc"), tuple("bcd"), tuple("de"), tuple("f")]
EDGES = [(CLIQUES[0], CLIQUES[1]), (CLIQUES[1], CLIQUES[2]), (CLIQUES[2], CLIQUES[3])]
TABLES = [tuple("ab"), tuple("bd"), tuple("de"), tuple("cb")]
TOTAL = 1000.0


def _tree() -> CliqueTree:
    return CliqueTree(SIZES, CLIQUES, EDGES, TABLES)


def _expanded(values: Vector, attributes: Attributes) -> Vector:
    """A table as a part of the joint one."""
    axes = "".join(attributes)
    ones = [np.ones(size) for size in SIZES.values()]
    return np.einsum(f"{axes},{','.join(SIZES)}->{''.join(SIZES)}", values.reshape([SIZES[a] for a in axes]), *ones)


def _summed(joint: Vector, attributes: Attributes) -> Vector:
    return np.einsum(f"{''.join(SIZES)}->{''.join(attributes)}", joint).ravel()


def _joint(tree: CliqueTree, start: Vector, small: Vector) -> Vector:
    places = [(tree.cell_place[clique], clique, start) for clique in tree.cliques]
    places += [(tree.table_place[table], table, small) for table in tree.tables]
    logs = sum(_expanded(values[at : at + tree.size(names)], names) for at, names, values in places)
    joint = np.exp(logs - np.max(logs))
    return np.asarray(joint * TOTAL / joint.sum())


@pytest.fixture
def drawn() -> tuple[CliqueTree, Vector, Vector]:
    tree, random = _tree(), np.random.default_rng(4)
    return tree, random.normal(size=tree.cell_count), random.normal(size=tree.table_count)


def test_tables_and_marginals_are_those_of_the_joint_table(drawn: tuple[CliqueTree, Vector, Vector]) -> None:
    tree, start, small = drawn
    sums, joint = NumpySums(tree, start, TOTAL), _joint(*drawn)
    expected = np.concatenate([_summed(joint, table) for table in tree.tables])
    np.testing.assert_allclose(sums.tables(small), expected, rtol=1e-12)
    expected = np.concatenate([_summed(joint, clique) for clique in tree.cliques])
    np.testing.assert_allclose(sums.marginals(), expected, rtol=1e-12)


def test_tables_of_any_two_columns_are_those_of_the_joint_table(drawn: tuple[CliqueTree, Vector, Vector]) -> None:
    tree, start, small = drawn
    sums, joint = NumpySums(tree, start, TOTAL), _joint(*drawn)
    found = pair_tables(tree, sums, small, sums.tables(small), TOTAL)
    assert len(found) == 15
    for pair, table in found.items():
        np.testing.assert_allclose(table, _summed(joint, pair), rtol=1e-11)


def test_small_tables_move_as_whole_potentials_do(drawn: tuple[CliqueTree, Vector, Vector]) -> None:
    tree, start, _ = drawn
    random = np.random.default_rng(9)
    seen = [table for table in (*tree.tables, TABLES[0]) if table in TABLES]
    where = np.concatenate([tree.table_place[table] + np.arange(tree.size(table)) for table in seen])
    measured = Measured(where, random.uniform(0.05, 0.1, len(where)), random.uniform(0, 20, len(where)))
    small, tables = descend(NumpySums(tree, start, TOTAL), measured, tree.table_count, TOTAL, 50)
    begun = np.log(_joint(tree, start, np.zeros(tree.table_count)))
    expected = _descended(tree, begun, measured, 50)
    np.testing.assert_allclose(tables, np.concatenate([_summed(expected, table) for table in tree.tables]), rtol=1e-9)
    np.testing.assert_allclose(_joint(tree, start, small), expected, rtol=1e-9)


def _descended(tree: CliqueTree, logs: Vector, measured: Measured, iterations: int) -> Vector:
    """Mirror descent on the joint table: the same rule, every gradient and product over all cells."""

    def at(logs: Vector) -> tuple[Vector, float, Vector]:
        joint = np.exp(logs - logs.max())
        joint *= TOTAL / joint.sum()
        loss, slope = measured.loss(np.concatenate([_summed(joint, table) for table in tree.tables]))
        parts = [_expanded(slope[p : p + tree.size(t)], t) for t, p in tree.table_place.items()]
        return joint, loss, np.sum(parts, axis=0)

    joint, loss, slope = at(logs)
    step = 1 / TOTAL**2
    for _ in range(iterations):
        step *= 2
        for _ in range(25):
            moved = at(logs - step * slope)
            if loss - moved[1] >= 0.5 * step * float((slope * (joint - moved[0])).sum()):
                break
            step /= 2
        else:
            raise AssertionError("the line search must end")
        logs = logs - step * slope
        joint, loss, slope = moved
    return joint


def test_cells_of_a_model_are_counted_without_building_it() -> None:
    sizes = dict(zip("abcde", (2, 3, 4, 5, 7), strict=True))
    ring = [("e",), tuple("ab"), tuple("bc"), tuple("cd"), tuple("da")]
    assert model_cells(sizes, ring[:-1]) == 7 + 2 * 3 + 3 * 4 + 4 * 5
    assert model_cells(sizes, ring) == 7 + 2 * 3 * 4 + 2 * 4 * 5  # b goes first, which joins a and c
    assert model_cells(sizes, [tuple("abcd"), tuple("de")]) == 2 * 3 * 4 * 5 + 5 * 7


def test_a_tree_in_two_parts_and_a_table_in_no_clique_are_refused() -> None:
    with pytest.raises(ValueError, match="must join all 4 cliques, it joins 3"):
        CliqueTree(SIZES, CLIQUES, EDGES[:2], TABLES)
    with pytest.raises(KeyError, match="no clique holds"):
        CliqueTree(SIZES, CLIQUES, EDGES, [tuple("ae")])
