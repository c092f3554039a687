"""A hill climber over pairs of neighbouring records, for tests of sensitivities; it knows nothing of their proofs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.foundation.grid import Grid
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Categorical, Column, Numeric
from colonnade.mechanism.blocks import exact_block
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import exact_objective

Floats = NDArray[np.float64]


def layout_from(parts: Sequence[tuple[str, Encoding, int, Role]]) -> Layout:
    """(owner, kind, size, role) for each attribute."""
    return Layout(
        tuple(
            Attribute(ColumnRef(owner, f"a{i}"), kind, tuple(f"a{i}_{j}" for j in range(size)), role, None)
            for i, (owner, kind, size, role) in enumerate(parts)
        )
    )


def signed_layout(counts: Sequence[int], label: int | None = 0) -> Layout:
    """Parties A, B, ... with so many signed coordinates each; `label` is the party whose last one is the label."""
    parts = []
    for k, count in enumerate(counts):
        for i in range(count):
            role = Role.LABEL if k == label and i == count - 1 else Role.FEATURE
            parts.append((chr(65 + k), Encoding.SIGNED, 1, role))
    return layout_from(parts)


class Adversary:
    """Looks for the pair of records that moves the weighted blocks most, by definition and not by any bound."""

    def __init__(
        self,
        layout: Layout,
        blocks: Sequence[tuple[Block, float]],
        law: Distribution,
        owner: str | None,
        generator: np.random.Generator,
    ) -> None:
        self.layout, self.law, self.generator = layout, law, generator
        self.blocks = [block for block, _ in blocks]
        self.moves = [owner is None or a.owner == owner for a in layout.attributes]
        self.factors = np.concatenate([b.factors for b, _ in blocks])
        self.weights = np.concatenate([b.weights for b, _ in blocks])
        self.rates = np.array([float(rate) for _, rate in blocks])
        # A summed block releases one number, any other block one for each term.
        places, at = [], 0
        block_of = []
        for i, (block, _) in enumerate(blocks):
            size = len(block.weights)
            places.append(np.full(size, at) if block.summed else np.arange(at, at + size))
            block_of += [i] * block.size
            at += block.size
        self.places, self.block_of, self.size = np.concatenate(places), np.array(block_of), at
        self.collect = np.zeros((len(self.weights), at))
        self.collect[np.arange(len(self.weights)), self.places] = self.weights
        self.rate_of = self.rates[self.block_of]

    def change(self, z: Floats, w: Floats) -> Floats:
        """How far the release moves between the records in the rows of z and of w."""
        terms = np.prod(z[:, self.factors], axis=2) - np.prod(w[:, self.factors], axis=2)
        moved = np.abs(terms @ self.collect)
        if self.law is Distribution.LAPLACE:
            return moved @ self.rate_of
        return np.sqrt((moved**2) @ self.rate_of**2)

    def candidates(self, attribute: int, near: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Pairs of values of one attribute: corners, a grid, random ones and small steps from where we are."""
        kind, size = self.layout.attributes[attribute].kind, self.layout.attributes[attribute].size
        draw = self.generator
        if kind is Encoding.SIGNED:
            grid = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
            one, two = (v.ravel() for v in np.meshgrid(grid, grid))
            step = 10.0 ** draw.uniform(-4, 0, 12)
            one = np.concatenate([one, draw.uniform(-1, 1, 8), near[0][0] + step * draw.normal(size=12)])
            two = np.concatenate([two, draw.uniform(-1, 1, 8), near[1][0] + step * draw.normal(size=12)])
            z, w = np.clip(one, -1, 1)[:, None], np.clip(two, -1, 1)[:, None]
        else:
            corners = np.eye(size)
            i, j = (v.ravel() for v in np.meshgrid(np.arange(size), np.arange(size)))
            loose = draw.dirichlet(np.ones(size), size=(2, 8))
            z, w = np.concatenate([corners[i], loose[0]]), np.concatenate([corners[j], loose[1]])
        return (z, w) if self.moves[attribute] else (z, z)

    def climb(self, starts: int) -> tuple[float, Floats, Floats]:
        """The best of several climbs: its change, and the two records."""
        best = (0.0, np.zeros(0), np.zeros(0))
        for start in range(starts):
            z, w = np.ones(self.layout.width), np.ones(self.layout.width)
            for a in range(len(self.layout.attributes)):
                one, two = self.candidates(a, (z[self.layout.span(a)], w[self.layout.span(a)]))
                pick = int(self.generator.integers(len(one)))
                # Every second climb starts from mirrored signs and equal levels, far from the random ones.
                opposite = -one[pick] if self.layout.attributes[a].kind is Encoding.SIGNED else one[pick]
                mirrored = opposite if self.moves[a] else one[pick]
                z[self.layout.span(a)], w[self.layout.span(a)] = one[pick], mirrored if start % 2 else two[pick]
            value, stale = float(self.change(z[None], w[None])[0]), 0
            while stale < 3:
                before = value
                for a in self.generator.permutation(len(self.layout.attributes)):
                    span = self.layout.span(int(a))
                    one, two = self.candidates(int(a), (z[span], w[span]))
                    zs, ws = np.repeat(z[None], len(one), 0), np.repeat(w[None], len(two), 0)
                    zs[:, span], ws[:, span] = one, two
                    values = self.change(zs, ws)
                    top = int(np.argmax(values))
                    if values[top] > value:
                        value, z, w = float(values[top]), zs[top], ws[top]
                stale = 0 if value > before * (1 + 1e-6) else stale + 1
            if value > best[0]:
                best = (value, z, w)
        return best


class Rows:
    """The same blocks released without noise from raw rows: a party's columns are read, rounded and added up.

    Beside the record that is replaced stands a table that is chosen, too: most of its numbers lie on the grid, and the
    excess of the others leaves every sum of squares just below a half, so that a record turns what is rounded.
    """

    LITTLE, OTHERS = 0.002, 40

    def __init__(self, adversary: Adversary, bound: int) -> None:
        self.adversary, self.grid, self.layout = adversary, Grid(bound), adversary.layout
        draw = np.random.default_rng(bound)
        self.others = []
        for attribute in self.layout.attributes:
            steps = draw.integers(-bound, bound + 1, self.OTHERS).astype(float)
            if attribute.kind is Encoding.SIMPLEX and attribute.role is Role.FEATURE:
                self.others.append(draw.integers(attribute.size, size=self.OTHERS).astype(float))
                continue
            # Of a label in halves every second step lies on their grid.
            halves = 1 + (attribute.kind is Encoding.SIMPLEX)
            steps = bound - halves * np.floor((bound - steps) / halves)
            steps[:2] = halves * (0.5 - np.sqrt(0.25 - (0.5 - self.LITTLE / 2) / 2)) - (bound if halves == 2 else 0)
            self.others.append(steps / bound)

    def moved(self, z: Floats, w: Floats) -> float:
        """How far the release moves between two records: as they are, on the grid, or a little off it."""
        one, two = (np.rint(record * self.grid.bound) / self.grid.bound for record in (z, w))
        # What others hold of the record stays where it is.
        places = [i for a, own in enumerate(self.adversary.moves) if own for i in range(z.size)[self.layout.span(a)]]
        off = np.zeros(z.size)
        off[places] = self.LITTLE / self.grid.bound
        pairs = [(z, w), (one, two), (one, two + off), (one - off, two)]
        return max(self._moved(*pair) for pair in pairs)

    def _moved(self, z: Floats, w: Floats) -> float:
        change = np.abs(self._released(z) - self._released(w)) / self.grid.unit * self.adversary.rate_of
        return float(change.sum() if self.adversary.law is Distribution.LAPLACE else np.linalg.norm(change))

    def _released(self, record: Floats) -> Floats:
        parts, ints = {}, np.zeros((self.OTHERS + 1, self.layout.width))
        for owner in self.layout.owners:
            own = [i for i, a in enumerate(self.layout.attributes) if a.owner == owner]
            columns: dict[str, Column] = {}
            values: dict[str, NDArray[Any]] = {}
            for i in own:
                attribute, at = self.layout.attributes[i], record[self.layout.span(i)]
                name = attribute.ref.column
                if attribute.kind is Encoding.SIMPLEX and attribute.role is Role.FEATURE:
                    columns[name] = Categorical(tuple(f"l{j}" for j in range(attribute.size)))
                    values[name] = np.concatenate([[np.argmax(at)], self.others[i]]).astype(np.int32)
                else:
                    columns[name] = Numeric(-1, 1)
                    first = at[-1] - at[0] if attribute.kind is Encoding.SIMPLEX else at[0]
                    values[name] = np.concatenate([[first], self.others[i]])
            encoded = Table(owner, columns, values, self.OTHERS + 1).encode(self.layout, self.grid, bytes(32))
            start = self.layout.starts[own[0]]
            parts[owner] = (encoded.sums, start)
            ints[:, start : start + encoded.shape[1]] = encoded.rows(0, self.OTHERS + 1)
        ints[:, 0] = self.grid.bound
        products = ints.T @ ints
        out = []
        for block in self.adversary.blocks:
            if block.single:
                values_ = exact_block(block, *parts[block.owners[0]]).values.astype(float)
            else:
                values_ = products[block.factors[:, 0], block.factors[:, 1]]
            out.append(values_ if block.summed else values_ * np.abs(block.weights))
        return np.concatenate(out)


def random_layout(generator: np.random.Generator) -> Layout:
    """One to four parties with signed and simplex attributes; the label is either kind."""
    count = int(generator.integers(1, 5))
    owner = int(generator.integers(count))
    parts = []
    for k in range(count):
        name = chr(65 + k)
        for _ in range(int(generator.integers(0, 3)) + (k != owner or count == 1)):
            levels = 1 if generator.random() < 0.5 else int(generator.integers(2, 4))
            parts.append((name, Encoding.SIGNED if levels == 1 else Encoding.SIMPLEX, levels, Role.FEATURE))
        if k == owner:
            simplex = generator.random() < 0.7
            parts.append((name, Encoding.SIMPLEX if simplex else Encoding.SIGNED, 1 + simplex, Role.LABEL))
    return layout_from(parts)


def weighted(layout: Layout, generator: np.random.Generator) -> tuple[list[tuple[Block, float]], float]:
    """Blocks of a random release at random rates, and the rate of products inside the label."""
    full, square = generator.random() < 0.7, generator.random() < 0.3
    blocks = dissect(exact_objective(layout, products=full, label_square=square))
    if not full:
        blocks += traces(layout)
    out = [(block, float(generator.choice([1.0, 1.0, 0.3, 2.5, 0.05 + generator.random()]))) for block in blocks]
    inner = layout.attributes[layout.label].kind is Encoding.SIMPLEX and square
    rate = max((r for b, r in out if inner and b.owners == (layout.attributes[layout.label].owner,)), default=0.0)
    return out, rate
