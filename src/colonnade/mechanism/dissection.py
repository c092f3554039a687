"""Eq. 5: terms grouped by the parties that own their factors, g (one owner) and h (two), and allocated to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.proven import proven
from colonnade.mechanism.moments import Encoding, Layout, Role
from colonnade.mechanism.objective import Floats, Indices, Objective


@dataclass(frozen=True, eq=False)
class Block:
    """Terms with the same owners that get noise of the same scale.

    Products with the label form blocks of their own, so that they can be weighted apart; so do `squares` where not all
    pairs are released, and tables of about so many `cells` where noise is spread by their size. A `summed` block
    releases only the sum of its terms.
    """

    owners: tuple[str, ...]
    role: Role
    factors: Indices
    weights: Floats
    summed: bool = False
    squares: bool = False
    cells: int | None = None

    @property
    def single(self) -> bool:
        """Whether one party can compute it: the paper's g rather than h."""
        return len(self.owners) == 1

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return 1 if self.summed else len(self.weights)

    @property
    def name(self) -> str:
        return (
            " x ".join(self.owners)
            + (" (label)" if self.role is Role.LABEL else "")
            + ((" (trace)" if self.single else " (sum)") if self.summed else " (squares)" if self.squares else "")
            + (f" (up to {self.cells} cells)" if self.cells is not None else "")
        )

    @property
    def products(self) -> Indices:
        """The factors that a secure product multiplies: in a sum of two owners' terms the squares are added apart."""
        if self.single or not self.summed:
            return self.factors
        crossed: Indices = self.factors[self.factors[:, -2] != self.factors[:, -1]]
        return crossed

    @property
    def most(self) -> float:
        """No record adds more than this to a released number, in absolute value."""
        weights = np.abs(self.weights)
        return float(weights.sum() if self.summed else weights.max())


def dissect(objective: Objective, *, by_cells: bool = False) -> tuple[Block, ...]:  # Alg. 1, line 1
    """All blocks of an objective, single-party ones first. A public constant belongs to the other factor's owner.

    `by_cells` gives tables of 4, 16, 64, ... cells blocks of their own.
    """
    layout = objective.layout
    parties = layout.owners
    owner_of = _owners_of(layout)
    label = np.zeros(layout.width, dtype=bool)
    if any(a.role is Role.LABEL for a in layout.attributes):
        label[layout.span(layout.label)] = True
    owners = _distinct(owner_of[objective.factors].reshape(len(objective), -1))
    with_label = label[objective.factors].any(axis=1)
    step = _steps(objective) if by_cells else np.zeros(len(owners), dtype=np.int64)
    keys, inverse = np.unique(np.column_stack([step, with_label, owners]), axis=0, return_inverse=True)
    blocks = []
    order = np.argsort(inverse.ravel(), kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(inverse.ravel(), minlength=len(keys)))])
    for key, start, stop in zip(keys, bounds[:-1], bounds[1:], strict=True):
        held = tuple(parties[k] for k in key[2:] if k >= 0)
        if not held:
            raise PrivacyError("a term must have a factor that some party holds, got only constants")
        rows = order[start:stop]
        role, cells = Role.LABEL if key[1] else Role.FEATURE, 4 ** int(key[0]) if by_cells else None
        blocks.append(Block(held, role, objective.factors[rows], objective.weights[rows], cells=cells))
    return tuple(
        sorted(
            blocks,
            key=lambda b: (len(b.owners), [parties.index(o) for o in b.owners], b.role.value, b.cells or 0),
        )
    )


def _steps(objective: Objective) -> NDArray[np.int64]:
    """For each term the least power of four that is no less than the cells of its attributes' table."""
    layout = objective.layout
    sizes = np.array([1, *(layout.attributes[i].size for i in layout.attribute_of[1:])])
    cells = np.prod(sizes[objective.factors], axis=1)
    powers = 4 ** np.arange(31)
    steps: NDArray[np.int64] = np.searchsorted(powers, cells)
    return steps


def _owners_of(layout: Layout) -> NDArray[np.int64]:
    """For each coordinate the places of its owners, of an interaction several, filled up with -1."""
    held = [(), *(layout.attributes[i].holders for i in layout.attribute_of[1:])]
    places = {party: i for i, party in enumerate(layout.owners)}
    out = np.full((layout.width, max(len(h) for h in held)), -1)
    for row, owners in zip(out, held, strict=True):
        row[: len(owners)] = [places[o] for o in owners]
    return out


def _distinct(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each row's owners once, in order, the free places filled with -1 at the end."""
    ordered = np.sort(owners, axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = -1
    last = np.iinfo(np.int64).max
    ordered = np.sort(np.where(ordered < 0, last, ordered), axis=1)
    return np.where(ordered == last, -1, ordered)


def allocate(blocks: tuple[Block, ...], party: str) -> tuple[Block, ...]:  # Alg. 1, line 2
    """The blocks that party k computes or helps to compute: lambda^k and lambda^{k*}."""
    return tuple(b for b in blocks if party in b.owners)


def traces(layout: Layout, *, label_square: bool = True) -> tuple[Block, ...]:
    """For each party the sum of squares of its signed features: one number instead of all products.

    The square of a numeric label comes with them: it bounds what the features can explain.
    """
    out = [Block((p,), Role.FEATURE, f, np.ones(len(f)), summed=True) for p, f in _own_squares(layout)]
    label = layout.attributes[layout.label]
    if label_square and label.kind is Encoding.SIGNED:
        square = np.full((1, 2), layout.starts[layout.label], dtype=np.int64)
        out.append(Block((label.owner,), Role.LABEL, square, np.ones(1), summed=True))
    return tuple(out)


@proven("squared_sum")
def squared_sum(layout: Layout, places: Mapping[str, tuple[int, float]]) -> tuple[Block, ...]:
    """What the square of a sum over parties of reach_k z_k is made of: one number for each pair of them.

    For parties k and l with places z_k, z_l of the layout: z_k z_l and as much of both squares as makes the numbers,
    each times 2 reach_k reach_l, add up to the whole. Nobody can tell the terms of such a number apart.

    Domain: reaches positive; places of one signed coordinate a party.
    Unit: weights of moments.
    Guarantee: the numbers add up to the square, and their sensitivity is that of their terms. Proof: squared_sum.
    """
    parties = [party for party in layout.owners if party in places]
    if len(parties) == 1:
        place, _ = places[parties[0]]
        return (Block((parties[0],), Role.LABEL, np.array([[place, place]]), np.ones(1), summed=True),)
    out = []
    for first, second in combinations(parties, 2):
        (a, reach), (b, other) = places[first], places[second]
        share = 1 / (2 * (len(parties) - 1))
        weights = np.array([share * reach / other, 1.0, share * other / reach])
        out.append(Block((first, second), Role.LABEL, np.array([[a, a], [a, b], [b, b]]), weights, summed=True))
    return tuple(out)


def squares(layout: Layout) -> tuple[Block, ...]:
    """For each party the square of each of its signed features."""
    return tuple(Block((p,), Role.FEATURE, f, np.ones(len(f)), squares=True) for p, f in _own_squares(layout))


def _own_squares(layout: Layout) -> Iterator[tuple[str, Indices]]:
    """Each party that has signed features, with the factors of their squares."""
    for party in layout.owners:
        own = [
            layout.starts[i]
            for i, a in enumerate(layout.attributes)
            if a.owner == party and a.role is Role.FEATURE and a.kind is Encoding.SIGNED
        ]
        if own:
            yield party, np.array([[c, c] for c in own], dtype=np.int64)


def require_pairs(blocks: tuple[Block, ...]) -> None:
    """Terms are products of two coordinates; one of a higher degree has an interaction as its coordinate."""
    for block in blocks:
        if block.factors.shape[1] > 2:
            held = ", ".join(block.owners)
            raise PrivacyError(
                f"a release has products of two coordinates, and interactions among these, got terms of degree "
                f"{block.factors.shape[1]} held by {held}"
            )


def require_one_owner_of_sums(layout: Layout, blocks: tuple[Block, ...]) -> None:
    """Numbers summed by themselves must be one party's, for the error factor covers no more (proofs/lattice_error.md).

    The label's is the only such sum that a release holds.
    """
    signed = np.array([False, *(layout.attributes[i].kind is Encoding.SIGNED for i in layout.attribute_of[1:])])
    held = {b.owners for b in blocks if b.single and signed[b.factors[(b.factors == 0).any(axis=1)].max(axis=1)].any()}
    if len(held) > 1:
        raise PrivacyError(
            f"with a product that has an error of its own at most one party's numbers may be summed by themselves, got "
            f"{', '.join(sorted(o for owners in held for o in owners))}"
        )
