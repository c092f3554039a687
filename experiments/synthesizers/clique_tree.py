"""Inference in a graphical model whose potentials are sums of small tables.

A clique's log potential is where it began plus one small table for each marginal it holds. All sums over cells have
one shape: split a clique's axes into those kept and the rest, and a cell's place in the clique, or in any table over
some of its axes, is a number that depends on the kept levels plus one that depends on the rest. A `Job` holds these
numbers. `NumpySums` reads them here, `cuda_sums.py` on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Attributes = tuple[str, ...]
Vector = np.ndarray[Any, np.dtype[np.float64]]
Numbers = np.ndarray[Any, np.dtype[np.int32]]
EXCLUDED = -1e6
"""Log potential of levels that a condition excludes: their probability is exactly 0, and no infinity meets another."""


@dataclass(frozen=True)
class Job:
    """One clique seen as kept levels x the rest, with the tables to add to its cells and the place of its result."""

    cells: int
    out: int
    kept: Numbers
    rest: Numbers
    addends: tuple[tuple[int, Numbers, Numbers], ...]


class CliqueTree:
    """A junction tree: where its cells, messages and tables are kept, and the jobs of one pass of messages."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        cliques: Sequence[Attributes],
        edges: Iterable[tuple[Attributes, Attributes]],
        tables: Iterable[Attributes],
    ) -> None:
        self.sizes, self.cliques = dict(sizes), list(cliques)
        self._by_size = sorted(cliques, key=self.size)
        self.tables = list(dict.fromkeys([*tables, *((name,) for name in sizes)]))
        self.cell_place, self.cell_count = self._places(self.cliques)
        self.table_place, self.table_count = self._places(self.tables)
        self._neighbours: dict[Attributes, list[Attributes]] = {clique: [] for clique in self.cliques}
        for one, other in edges:
            self._neighbours[one].append(other)
            self._neighbours[other].append(one)
        self._lay_messages()
        held: dict[Attributes, list[tuple[int, Attributes]]] = {clique: [] for clique in self.cliques}
        for table in self.tables:
            held[self.holder(table)].append((self.table_place[table], table))
        self.potentials = [self._whole(clique, held[clique]) for clique in self.cliques]
        self.marginals = [self._whole(clique, self._arriving(clique)) for clique in self.cliques]
        self.projections = self.projected(self.tables)[0]

    def size(self, attributes: Attributes) -> int:
        """Number of cells."""
        return int(np.prod([self.sizes[name] for name in attributes], dtype=object))

    def holder(self, attributes: Attributes) -> Attributes:
        """The smallest clique that holds all attributes; KeyError if none does."""
        for clique in self._by_size:
            if set(attributes) <= set(clique):
                return clique
        raise KeyError(f"no clique holds {attributes}")

    def projected(self, tables: Sequence[Attributes]) -> tuple[list[Job], int]:
        """Jobs that sum marginals onto tables one after another, and the length of the result."""
        places, count = self._places(tables)
        return [self._job(self.holder(table), table, places[table], []) for table in tables], count

    def _places(self, groups: Sequence[Attributes]) -> tuple[dict[Attributes, int], int]:
        ends = np.cumsum([0, *(self.size(group) for group in groups)])
        return dict(zip(groups, ends.tolist(), strict=False)), int(ends[-1])

    def _lay_messages(self) -> None:
        """Messages by level, to the middle of the tree and back; the last number is the log of the partition sum."""
        self.message_place: dict[tuple[Attributes, Attributes], int] = {}
        self._shared: dict[tuple[Attributes, Attributes], Attributes] = {}
        self.message_count = 0
        down = min((self._levels(clique) for clique in self.cliques), key=len)
        root = down[0][0][0] if down else self.cliques[0]
        order = [[(child, parent) for parent, child in level] for level in reversed(down)] + down
        for pair in (pair for level in order for pair in level):
            self._shared[pair] = tuple(name for name in pair[1] if name in pair[0])
            self.message_place[pair] = self.message_count
            self.message_count += self.size(self._shared[pair])
        self.messages = [[self._message(*pair) for pair in level] for level in order]
        self.messages.append([self._job(root, (), self.message_count, self._arriving(root))])
        self.message_count += 1

    def _levels(self, root: Attributes) -> list[list[tuple[Attributes, Attributes]]]:
        """The tree's edges away from a root, by distance."""
        seen, levels, reached = {root}, [], [root]
        while level := [(a, b) for a in reached for b in self._neighbours[a] if b not in seen]:
            levels.append(level)
            reached = [b for _, b in level]
            seen.update(reached)
        if len(seen) != len(self.cliques):
            raise ValueError(f"the tree must join all {len(self.cliques)} cliques, it joins {len(seen)}")
        return levels

    def _message(self, source: Attributes, target: Attributes) -> Job:
        pair = (source, target)
        return self._job(source, self._shared[pair], self.message_place[pair], self._arriving(source, target))

    def _arriving(self, clique: Attributes, but: Attributes | None = None) -> list[tuple[int, Attributes]]:
        pairs = [(other, clique) for other in self._neighbours[clique] if other != but]
        return [(self.message_place[pair], self._shared[pair]) for pair in pairs]

    def _whole(self, clique: Attributes, addends: list[tuple[int, Attributes]]) -> Job:
        """All cells of a clique in their order: the first axes are kept, the last are the rest."""
        half = next(k for k in range(len(clique) + 1) if self.size(clique[:k]) ** 2 >= self.size(clique))
        return self._job(clique, clique[:half], self.cell_place[clique], addends)

    def _job(self, clique: Attributes, kept: Attributes, out: int, addends: list[tuple[int, Attributes]]) -> Job:
        rest = tuple(name for name in clique if name not in kept)
        told = tuple((place, self._numbers(kept, table), self._numbers(rest, table)) for place, table in addends)
        return Job(self.cell_place[clique], out, self._numbers(kept, clique), self._numbers(rest, clique), told)

    def _numbers(self, axes: Attributes, table: Attributes) -> Numbers:
        """For each level of some axes, last axis fastest: what it adds to a cell's place in a table."""
        steps = {name: self.size(table[k + 1 :]) for k, name in enumerate(table)}
        found = np.zeros(1, np.int32)
        for name in axes:
            step = np.arange(self.sizes[name], dtype=np.int32) * np.int32(steps.get(name, 0))
            found = np.add.outer(found, step).ravel()
        return found


class NumpySums:
    """The sums of a tree in numpy: what the kernels must agree with."""

    def __init__(self, tree: CliqueTree, start: Vector, total: float) -> None:
        self._tree, self._start, self._total = tree, start, total
        self._potentials, self._marginals = np.zeros(tree.cell_count), np.zeros(tree.cell_count)

    def tables(self, small: Vector) -> Vector:
        """The measured marginals of the model whose log potentials are the start plus these small tables."""
        tree, messages = self._tree, np.zeros(self._tree.message_count)
        for job in tree.potentials:
            _put(self._potentials, job, _cells(job, self._start, small))
        for job in (job for level in tree.messages for job in level):
            found = _cells(job, self._potentials, messages)
            top = found.max(axis=1, keepdims=True)
            messages[job.out : job.out + len(found)] = np.log(np.exp(found - top).sum(axis=1)) + top[:, 0]
        for job in tree.marginals:
            logs = _cells(job, self._potentials, messages) + np.log(self._total) - messages[-1]
            _put(self._marginals, job, np.exp(logs))
        return self.project(tree.projections, tree.table_count)

    def project(self, jobs: Sequence[Job], count: int) -> Vector:
        """Sums of the last marginals."""
        out = np.zeros(count)
        for job in jobs:
            out[job.out : job.out + len(job.kept)] = _cells(job, self._marginals, out).sum(axis=1)
        return out

    def potentials(self) -> Vector:
        """Of the last call, all cliques one after another."""
        return self._potentials.copy()

    def marginals(self) -> Vector:
        """Of the last call, all cliques one after another."""
        return self._marginals.copy()


def _cells(job: Job, source: Vector, values: Vector) -> Vector:
    found = source[job.cells + job.kept[:, None] + job.rest]
    for place, kept, rest in job.addends:
        found = found + values[place + kept[:, None] + rest]
    return found


def _put(target: Vector, job: Job, values: Vector) -> None:
    target[job.cells + job.kept[:, None] + job.rest] = values


@dataclass(frozen=True)
class Measured:
    """Noisy tables: `weight * tables[where]` was seen as `seen`, each with noise of deviation 1."""

    where: np.ndarray[Any, np.dtype[np.int64]]
    weight: Vector
    seen: Vector

    def loss(self, tables: Vector) -> tuple[float, Vector]:
        """Half the squared misfit, and its gradient by table."""
        off = self.weight * tables[self.where] - self.seen
        return 0.5 * float(off @ off), np.bincount(self.where, self.weight * off, minlength=len(tables))


def descend(sums: Any, measured: Measured, length: int, total: float, iterations: int) -> tuple[Vector, Vector]:
    """Mirror descent with dpmm's line search, step by step; the small tables and the marginals they lead to.

    The package moves whole potentials along the gradient of its loss. That gradient is a sum of small tables, so only
    these are moved here, and its product with a change of marginals is a product of small tables.
    """
    small = np.zeros(length)
    tables = sums.tables(small)
    loss, gradient = measured.loss(tables)
    alpha = 1.0 / total**2
    for _ in range(iterations if loss else 0):
        before, tables_before, loss_before, slope = small, tables, loss, gradient
        alpha *= 2.0
        for _ in range(25):
            small = before - alpha * slope
            tables = sums.tables(small)
            loss, gradient = measured.loss(tables)
            if loss_before - loss >= 0.5 * alpha * float(slope @ (tables_before - tables)):
                break
            alpha *= 0.5
    return small, tables


def pair_tables(tree: CliqueTree, sums: Any, small: Vector, tables: Vector, total: float) -> dict[Attributes, Vector]:
    """The model's table of every pair of attributes.

    A pair inside a clique is a sum of its marginal. Any other pair is read off one pass for each level of its first
    attribute: conditioned on that level, the margins of all others.
    """
    names = list(tree.sizes)
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    inside = [pair for pair in pairs if any(set(pair) <= set(clique) for clique in tree.cliques)]
    found: dict[Attributes, Vector] = {}
    if inside:
        jobs, count = tree.projected(inside)
        found = dict(zip(inside, np.split(sums.project(jobs, count), [job.out for job in jobs[1:]]), strict=True))
    margin = {a: slice(tree.table_place[(a,)], tree.table_place[(a,)] + tree.sizes[a]) for a in names}
    for a in names:
        partners = [b for b in names[names.index(a) + 1 :] if (a, b) not in found]
        lines: dict[str, list[Vector]] = {b: [] for b in partners}
        for level in range(tree.sizes[a] if partners else 0):
            given = small.copy()
            given[margin[a]] += EXCLUDED
            given[margin[a].start + level] = small[margin[a].start + level]
            conditional = sums.tables(given) * (tables[margin[a].start + level] / total)
            for b in partners:
                lines[b].append(conditional[margin[b]])
        found |= {(a, b): np.concatenate(lines[b]) for b in partners}
    return found


def model_cells(sizes: Mapping[str, int], cliques: Iterable[Attributes]) -> int:
    """Cells of dpmm's junction tree of these cliques: its greedy order, in which the first smallest step wins."""
    around: dict[str, set[str]] = {name: {name} for name in sizes}
    for clique in cliques:
        for name in clique:
            around[name].update(clique)

    def cells(names: Iterable[str]) -> int:
        found = 1
        for name in names:
            found *= sizes[name]
        return found

    cost = {name: cells(around[name]) for name in sizes}
    made: list[set[str]] = []
    while cost:
        out = min(cost, key=cost.__getitem__)
        del cost[out]
        joined = around[out]
        made.append(joined)
        for name in joined - {out}:
            around[name] = (around[name] | joined) - {out}
            cost[name] = cells(around[name])
    maximal = [one for k, one in enumerate(made) if not any(one <= other for other in made[:k])]
    return sum(cells(one) for one in maximal)
