"""Second moments of encoded records: which coordinates a record has, and what is known of their products.

A record is a vector z with the constant 1 in front, then every attribute's coordinates. A `signed` attribute has one
coordinate in [-1, 1]. A `simplex` attribute has non-negative coordinates that sum to 1: the indicators of all levels of
a categorical, binary or binned column, or the two halves (1-y)/2, (1+y)/2 of a numeric label. An interaction is a
signed attribute whose coordinate is a product of others, which several parties may hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import ColumnRef, Coordinate, Names, Product, holders

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
    """The distribution of the noise."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"

    @classmethod
    def with_delta(cls, delta: float) -> Self:
        """Return that of a guarantee with this delta: pure ones take Laplace noise."""
        return cls("gaussian" if delta > 0 else "laplace")

    @property
    def norm(self) -> int:
        """In which norm a release's move is set against it: L1 or L2."""
        return 2 if self is Distribution.GAUSSIAN else 1

    @property
    def stable(self) -> bool:
        """Whether shares of it have the same distribution as their sum, so that those that are left still hide."""
        return self is Distribution.GAUSSIAN

    @property
    def reach(self) -> float:
        """Standard deviations that hold 95 of 100 values."""
        return 1.96 if self is Distribution.GAUSSIAN else 2.12


@dataclass(frozen=True)
class Attribute:
    """What a release has of a column, of one of its levels (the paper's features), or of a product."""

    of: ColumnRef | Coordinate | Product
    kind: Encoding
    coordinates: tuple[str, ...]
    """Texts of the encoded coordinates without the party; a signed attribute has one."""
    role: Role = Role.FEATURE
    drop: int | None = None
    """Coordinate that the model leaves out, so that indicators and intercept are not collinear."""
    ordered: bool = False
    """Whether neighbouring coordinates are alike: the bins of a number."""
    sum_only: bool = False
    """Whether it is a product whose sum is released, and no feature of a model."""

    @property
    def ref(self) -> ColumnRef | None:
        """The column that it is of; a product has none."""
        return None if isinstance(self.of, Product) else self.of.of if isinstance(self.of, Coordinate) else self.of

    @property
    def owner(self) -> str:
        """Whose column it is of; a product is nobody's, even where one party has all its factors."""
        return "" if self.ref is None else self.ref.party

    @property
    def holders(self) -> tuple[str, ...]:
        """Whoever has a factor of it."""
        return holders(self.of)

    @property
    def values(self) -> tuple[Coordinate | Product, ...]:
        """What its coordinates are."""
        if isinstance(self.of, ColumnRef):
            places = [None] if self.kind is Encoding.SIGNED else range(self.size)
            return tuple(Coordinate(self.of, place) for place in places)
        return (self.of,)

    @property
    def bare(self) -> str:
        """What it is called where no other party has a column of its name."""
        if isinstance(self.of, ColumnRef):
            return self.of.column
        return self.coordinates[0] if isinstance(self.of, Product) else f"{self.of.of.column}={self.of.place}"

    @property
    def levels(self) -> tuple[str, ...]:
        """What its coordinates are called where the column's name is known."""
        return self.coordinates if self.ref is None else tuple(map(self.ref.level, self.coordinates))

    @property
    def size(self) -> int:
        return len(self.coordinates)


Place = tuple[int, int | None]
"""An attribute, and one of its coordinates where it has levels or halves and one of them is meant."""
Family = tuple[tuple[str, ...], Encoding, Role, int]
"""Owner and holders, kind, role and class of attributes that are counted as alike; a product has no owner."""


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
        """The coordinates' texts, with their party where another has a column of this name."""
        return ("1", *(text for i, a in enumerate(self.attributes) for text in self._qualified(i, a.coordinates)))

    @cached_property
    def values(self) -> tuple[Coordinate | Product | None, ...]:
        """What each coordinate is; None: the constant."""
        return (None, *(value for a in self.attributes for value in a.values))

    @cached_property
    def index(self) -> Mapping[Coordinate | Product, int]:
        """Where each coordinate stands."""
        return {value: at for at, value in enumerate(self.values) if value is not None}

    def coordinate(self, at: int) -> Coordinate:
        """The coordinate of a column that stands here."""
        value = self.values[at]
        if not isinstance(value, Coordinate):
            raise StudyError(f"a product is of columns, and {self.names[at]} is none")
        return value

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What each attribute is called: its column, with the party where another has one of this name.

        The paper's features are levels: a column and a level's place.
        """
        return tuple(self._qualified(i, (a.bare,))[0] for i, a in enumerate(self.attributes))

    @cached_property
    def _shared(self) -> Set[str]:
        """The names of columns that several parties have."""
        named = Counter(ref.column for ref in {a.ref for a in self.attributes} if ref is not None)
        return {name for name, parties in named.items() if parties > 1}

    def text(self, place: Place) -> str:
        """What files, pages and `--json` call a column or a coordinate."""
        i, j = place
        return (
            self.columns[i]
            if j is None and not self.is_number(self.starts[i])
            else self.names[self.starts[i] + (j or 0)]
        )

    def _qualified(self, i: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        ref = self.attributes[i].ref
        return texts if ref is None or ref.column not in self._shared else tuple(map(ref.qualified, texts))

    @cached_property
    def named(self) -> Names[Place]:
        """What every text means here: columns and coordinates, each with its party and without."""
        return Names(self._spelled())

    def _spelled(self) -> Iterator[tuple[str, Place]]:
        for i, a in enumerate(self.attributes):
            if a.ref is None:
                yield a.coordinates[0], (i, None)
                continue
            # The paper's features are asked for by their level.
            texts: list[tuple[str, int | None]] = [
                (a.coordinates[0] if a.kind is Encoding.SIGNED else a.ref.column, None)
            ]
            if a.kind is Encoding.SIMPLEX:
                texts += ((text, j) for j, text in enumerate(a.coordinates))
            for text, j in texts:
                yield from ((text, (i, j)), (a.ref.qualified(text), (i, j)))

    def find(self, text: str, *, column: bool = False) -> Place | None:
        """The one thing that a text means, of columns alone or of coordinates, too; None where it means nothing."""
        return self.named.find(text, self.tell, (lambda place: place[1] is None) if column else None)

    def spelled(self, i: int) -> str:
        """The whole text that an attribute is asked for by."""
        a = self.attributes[i]
        return str(a.of) if a.kind is Encoding.SIMPLEX or a.ref is None else a.ref.qualified(a.coordinates[0])

    def tell(self, place: Place) -> str:
        """An attribute or one of its coordinates, for a person."""
        i, j = place
        a = self.attributes[i]
        if a.ref is None:
            return f"the product {a.coordinates[0]}"
        if j is None:
            return f"column {a.coordinates[0] if a.kind is Encoding.SIGNED else a.ref.column} of {a.owner}"
        return f"{a.coordinates[j]} of column {a.ref.column} of {a.owner}"

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
        return tuple(dict.fromkeys(a.owner for a in self.attributes if a.ref is not None))

    @cached_property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """For each coordinate the ones that it is a product of: none for the constant, itself but for interactions."""
        found: list[tuple[int, ...]] = [()]
        for start, attribute in zip(self.starts, self.attributes, strict=True):
            if isinstance(attribute.of, Product):
                found.append(tuple(self.index[factor] for factor in attribute.of.factors))
            else:
                found += ((start + j,) for j in range(attribute.size))
        return tuple(found)

    @cached_property
    def model(self) -> Layout:
        """The layout without products of which only the sum is released; these stand last."""
        kept = tuple(a for a in self.attributes if not a.sum_only)
        return self if len(kept) == len(self.attributes) else replace(self, attributes=kept)

    @cached_property
    def has_interactions(self) -> bool:
        """Whether terms may be products of any coordinates, so that parties make columns for them."""
        return self.any_terms or any(a.ref is None for a in self.attributes)

    @cached_property
    def families(self) -> tuple[tuple[Family, ...], NDArray[np.int64]]:
        """Alike attributes: the distinct families, and for each attribute the index of its own."""
        classes = self.classes or (0,) * len(self.attributes)
        keys = [((a.owner, *a.holders), a.kind, a.role, c) for a, c in zip(self.attributes, classes, strict=True)]
        place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        return tuple(place), np.array([place[key] for key in keys], dtype=np.int64)

    def span(self, attribute: int) -> slice:
        """The coordinates of an attribute."""
        start = self.starts[attribute]
        return slice(start, start + self.attributes[attribute].size)

    def span_of(self, ref: ColumnRef) -> slice:
        """The coordinates of a column's attribute."""
        return self.span(next(i for i, a in enumerate(self.attributes) if a.of == ref))

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
            if a.role is Role.FEATURE and not a.sum_only
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
