"""Second moments of encoded records: which coordinates a record has, and what is known of their products.

A record is a vector z with the constant 1 in front, then every attribute's coordinates. A `signed` attribute has one
coordinate in [-1, 1]. A `simplex` attribute has non-negative coordinates that sum to 1: the indicators of all levels of
a categorical, binary or binned column, or the two halves (1-y)/2, (1+y)/2 of a numeric label. An interaction is a
signed attribute whose coordinate is a product of others, which several parties may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import Names

Floats = NDArray[np.float64]


class Encoding(Enum):
    """The shape of an attribute's encoding."""

    SIGNED = "signed"
    SIMPLEX = "simplex"


class Role(Enum):
    """What an attribute is for."""

    FEATURE = "feature"
    LABEL = "label"


class Distribution(Enum):
    """The law of the noise."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class Attribute:
    """One raw column, as the release sees it."""

    name: str
    owner: str
    kind: Encoding
    coordinates: tuple[str, ...]
    """Names of the encoded coordinates; a signed attribute has one."""
    role: Role = Role.FEATURE
    drop: int | None = None
    """Coordinate that the model leaves out, so that indicators and intercept are not collinear."""
    ordered: bool = False
    """Whether neighbouring coordinates are alike: the bins of a number."""
    products: tuple[tuple[int, ...], ...] = ()
    """Of an interaction: the record's coordinates, in their order, that each of its own is the product of."""
    shared: tuple[str, ...] = ()
    """Of an interaction: the owners of its factors, in the order of their coordinates."""

    @property
    def column(self) -> str:
        """Its name without its party. The paper's features are levels: a column and a level's place."""
        return self.name if self.products else self.name.removeprefix(f"{self.owner}.")

    @property
    def spelled(self) -> str:
        """The whole text that it is asked for by; the paper's features are asked for by their level."""
        if self.kind is Encoding.SIMPLEX or self.products:
            return self.name
        return f"{self.owner}.{self.coordinates[0]}"

    @property
    def sum_only(self) -> bool:
        """Whether it is a product whose sum is released, and no feature of a model."""
        return bool(self.products) and self.drop == 0

    @property
    def holders(self) -> tuple[str, ...]:
        """Whoever has a factor of it."""
        return self.shared or (self.owner,)

    @property
    def size(self) -> int:
        return len(self.coordinates)


Place = tuple[int, int | None]
"""An attribute, and one of its coordinates where it has levels or halves and one of them is meant."""
Family = tuple[str, Encoding, Role, int]
"""Owner, kind, role and class of attributes that are counted as alike."""


@dataclass(frozen=True)
class Layout:
    """Where each attribute's coordinates stand in the record's vector; index 0 is the constant 1."""

    attributes: tuple[Attribute, ...]
    norms: tuple[tuple[str, float], ...] = ()
    """Parties whose signed features are clipped to a declared L2 norm in every record, with that norm."""
    classes: tuple[int, ...] = ()
    """A number for each attribute: only those with the same number count as alike. Empty: all have the same."""
    any_terms: bool = False
    """Whether what is released is a list of any products, rather than all pairs of some attributes."""

    @cached_property
    def starts(self) -> tuple[int, ...]:
        return tuple(accumulate((a.size for a in self.attributes[:-1]), initial=1))

    @cached_property
    def width(self) -> int:
        return 1 + sum(a.size for a in self.attributes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return ("1", *(c for a in self.attributes for c in a.coordinates))

    @cached_property
    def named(self) -> Names[Place]:
        """What every text means here: columns and coordinates, each with its party and without."""
        return Names(self._spelled())

    def _spelled(self) -> Iterator[tuple[str, Place]]:
        for i, a in enumerate(self.attributes):
            if a.products:
                yield a.name, (i, None)
            elif a.kind is Encoding.SIGNED:
                yield from ((a.coordinates[0], (i, None)), (a.spelled, (i, None)))
            else:
                yield from ((a.column, (i, None)), (a.name, (i, None)))
                for j, coordinate in enumerate(a.coordinates):
                    yield from ((coordinate, (i, j)), (f"{a.owner}.{coordinate}", (i, j)))

    def find(self, text: str, *, column: bool = False) -> Place | None:
        """The one thing that a text means, of columns alone or of coordinates, too; None where it means nothing."""
        found = [place for place in self.named.readings(text) if place[1] is None or not column]
        if len(found) > 1:
            told = " or ".join(self.tell(place) for place in found)
            raise StudyError(f"{text!r} may mean {told}: this release has columns whose names cannot be told apart")
        return found[0] if found else None

    def tell(self, place: Place) -> str:
        """An attribute or one of its coordinates, for a person."""
        i, j = place
        a = self.attributes[i]
        if a.products:
            return f"the product {a.name}"
        if j is None:
            return f"column {a.coordinates[0] if a.kind is Encoding.SIGNED else a.column} of {a.owner}"
        return f"{a.coordinates[j]} of column {a.column} of {a.owner}"

    @cached_property
    def attribute_of(self) -> NDArray[np.int64]:
        """For each coordinate the index of its attribute; -1 for the constant."""
        return np.concatenate([[-1], *(np.full(a.size, i) for i, a in enumerate(self.attributes))]).astype(np.int64)

    def attribute_at(self, coordinate: int) -> Attribute:
        """The attribute that a coordinate is of."""
        return self.attributes[int(self.attribute_of[coordinate])]

    def is_number(self, coordinate: int) -> bool:
        """Whether a coordinate is a number rather than the indicator of a level."""
        return self.attribute_at(coordinate).kind is Encoding.SIGNED

    def pairs_of(self, factors: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The attributes of each product of two coordinates; a sum by itself has none and is left out."""
        pair = self.attribute_of[factors[:, -2:]]
        whole = pair[(pair >= 0).all(axis=1)]
        return whole[:, 0], whole[:, 1]

    def alone_of(self, factors: NDArray[np.int64]) -> NDArray[np.int64]:
        """The attributes whose coordinates are summed by themselves."""
        pair = self.attribute_of[factors[:, -2:]]
        return np.unique(pair[(pair[:, 0] < 0) & (pair[:, 1] >= 0), 1])

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The owners, in the order of their coordinates."""
        return tuple(dict.fromkeys(a.owner for a in self.attributes if not a.products))

    @cached_property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """For each coordinate the ones that it is a product of: none for the constant, itself but for interactions."""
        found: list[tuple[int, ...]] = [()]
        for start, attribute in zip(self.starts, self.attributes, strict=True):
            found += attribute.products or ((start + j,) for j in range(attribute.size))
        return tuple(found)

    @cached_property
    def model(self) -> Layout:
        """The layout without products of which only the sum is released; these stand last."""
        kept = tuple(a for a in self.attributes if not a.sum_only)
        return self if len(kept) == len(self.attributes) else replace(self, attributes=kept)

    @cached_property
    def has_interactions(self) -> bool:
        """Whether terms may be products of any coordinates, so that parties make columns for them."""
        return self.any_terms or any(a.products for a in self.attributes)

    @cached_property
    def holders(self) -> Mapping[str, tuple[str, ...]]:
        """For each owner that an attribute names, who has a factor: several parties for an interaction."""
        return {a.owner: a.holders for a in self.attributes}

    @cached_property
    def families(self) -> tuple[tuple[Family, ...], NDArray[np.int64]]:
        """Alike attributes: the distinct (owner, kind, role, class), and for each attribute the index of its own."""
        classes = self.classes or (0,) * len(self.attributes)
        keys = [(a.owner, a.kind, a.role, c) for a, c in zip(self.attributes, classes, strict=True)]
        place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        return tuple(place), np.array([place[key] for key in keys], dtype=np.int64)

    def span(self, attribute: int) -> slice:
        """The coordinates of an attribute."""
        start = self.starts[attribute]
        return slice(start, start + self.attributes[attribute].size)

    @cached_property
    def label(self) -> int:
        """The index of the label's attribute."""
        return next(i for i, a in enumerate(self.attributes) if a.role is Role.LABEL)

    @cached_property
    def features(self) -> tuple[int, ...]:
        """Coordinates that the model has a weight for: no label, no dropped level, no constant."""
        return tuple(
            self.starts[i] + j
            for i, a in enumerate(self.attributes)
            if a.role is Role.FEATURE
            for j in range(a.size)
            if j != a.drop
        )


@dataclass(frozen=True)
class Trace:
    """A noisy sum of the squares of several coordinates, released instead of their products."""

    coordinates: tuple[int, ...]
    value: float
    std: float


@dataclass(frozen=True)
class ReleasedSum:
    """The noisy sum over records of a product of coordinates."""

    factors: tuple[int, ...]
    value: float
    std: float


@dataclass(frozen=True)
class Moments:
    """What is known of the sums over records of z_a z_b.

    `std` is the standard deviation of the noise on each entry: 0 where the entry is public or structurally known,
    infinite where nothing was released (`value` is 0 there).
    """

    n: int
    layout: Layout
    value: Floats
    std: Floats
    law: Distribution
    traces: tuple[Trace, ...] = field(default=())
    sums: tuple[ReleasedSum, ...] = field(default=())
    """Products of three and more coordinates, where the objective has a higher order."""
    interval: float | None = None
    """Of order 4: the scores on which its polynomial stands for the loss, where the study says it."""
    ball: float | None = None
    """The largest root mean square of scores of order 4, where the study says it."""
