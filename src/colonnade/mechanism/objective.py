"""f_D(w) as a polynomial in w whose coefficients are sums over records of products of coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import ColumnRef, Coordinate, Product
from colonnade.foundation.schema import MOST_COORDINATES, Column, Schema
from colonnade.foundation.shown import shown
from colonnade.mechanism.moments import Attribute, Encoding, Layout, Role

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Pairs = frozenset[tuple[int, int]]
"""Pairs of attributes, by their places in the layout."""


MOST_PRODUCTS = 256
"""Of levels, in one interaction."""
MOST_SUMS = 1000
"""Coefficients of an objective of a higher order, or a declared one."""
MOST_TRIED = 20_000
"""Products of features that are written out to find which of them are the same."""


class Task(Enum):
    """Which regression, or a declared polynomial."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MULTINOMIAL = "multinomial"
    POLYNOMIAL = "polynomial"

    @property
    def of_number(self) -> bool:
        """Whether the label is a number that is modelled itself."""
        return self is Task.LINEAR

    @property
    def of_yes_or_no(self) -> bool:
        return self is Task.LOGISTIC


class Purpose(Enum):
    """What a release is for: a model of the label, or tables, rows and models of all columns alike."""

    LABEL = "label"
    ALL = "all"


class Calibration(Enum):
    """What is counted: the paper's features and its 2 max ||lambda||, or attributes and the exact maximum."""

    PAPER = "paper"
    EXACT = "exact"


@dataclass(frozen=True)
class Objective:
    """Terms weight * sum_i prod_j z_ij: one row of `factors` for each term, padded with 0 (the constant 1)."""

    layout: Layout
    factors: Indices
    weights: Floats

    def __len__(self) -> int:
        return len(self.weights)


def layout_of(
    schema: Schema,
    label: str,
    task: Task,
    calibration: Calibration,
    *,
    split: bool = True,
    counted: bool = False,
    interactions: Sequence[Sequence[str]] = (),
    order: int = 2,
) -> Layout:
    """The coordinates of a record; the label stands last among its owner's, interactions after all others.

    `split` gives the exact calibration's label two coordinates, so that products with it are class-split sums. Where
    records are only counted the label may have any number of levels.
    """
    ref = schema.find(label)
    name, column = ref.column, schema.columns[ref]
    if task is Task.LOGISTIC and column.positive is None and not (counted and column.has_levels):
        raise StudyError(f"the label of a logistic regression must be binary, got column {name}")
    if task is Task.MULTINOMIAL and not column.has_levels:
        raise StudyError(f"the label of a multinomial regression must have levels or bins, got column {name}")
    if task is Task.MULTINOMIAL and not (split and calibration is Calibration.EXACT):
        raise StudyError('a multinomial regression needs release = "full" and calibration = "exact"')
    if task is Task.LINEAR and column.has_levels:
        raise StudyError(f"the label of a linear regression must be numeric without bins, got column {name}")
    halves = split and calibration is Calibration.EXACT
    attributes = _attributes(schema, calibration, _label(ref, column, halves))
    # Norms serve releases of products with an unsplit label alone.
    norms = () if split or interactions else tuple(sorted(schema.norms.items()))
    layout = with_interactions(Layout(attributes, norms), schema, interactions)
    if order > 2:
        layout = with_sums(layout, order)
    if not layout.features:
        raise StudyError(f"a regression needs a feature besides its label {label}")
    return layout


def plain_layout(schema: Schema, label: str) -> Layout:
    """All columns alike, one coordinate for a number and one for each level, the label last among its owner's."""
    ref = schema.find(label)
    column = schema.columns[ref]
    return Layout(_attributes(schema, Calibration.EXACT, _label(ref, column, column.has_levels)))


def _attributes(schema: Schema, calibration: Calibration, label: Attribute) -> tuple[Attribute, ...]:
    found: list[Attribute] = []
    for party, columns in schema.parties.items():
        for ref in (ColumnRef(party, name) for name in columns):
            if ref != label.of:
                found += _feature(ref, schema.columns[ref], calibration)
        if party == label.owner:
            found.append(label)
    return tuple(found)


def _feature(ref: ColumnRef, column: Column, calibration: Calibration) -> list[Attribute]:
    names, drop = column.coordinates(ref.column), column.dropped
    if not column.has_levels:
        return [Attribute(ref, Encoding.SIGNED, names)]
    if calibration is Calibration.EXACT:
        return [Attribute(ref, Encoding.SIMPLEX, names, drop=drop, ordered=column.ordered)]
    return [Attribute(Coordinate(ref, i), Encoding.SIGNED, (level,)) for i, level in enumerate(names) if i != drop]


def _label(ref: ColumnRef, column: Column, split: bool) -> Attribute:
    if not split:
        return Attribute(ref, Encoding.SIGNED, (ref.column,), Role.LABEL)
    halves = (f"{ref.column}-", f"{ref.column}+")
    names = column.coordinates(ref.column) if column.has_levels else halves
    return Attribute(ref, Encoding.SIMPLEX, names, Role.LABEL, drop=0)


def with_interactions(layout: Layout, schema: Schema, interactions: Sequence[Sequence[str]]) -> Layout:
    """The layout with a signed attribute for each product of columns; of a column with levels, of each but one."""
    found: list[Attribute] = []
    known: set[tuple[int, ...]] = set()
    for columns in interactions:
        choices = [_coordinates_of(layout, schema, reference) for reference in columns]
        levels = [ref for ref in map(schema.find, columns) if schema.columns[ref].has_levels]
        if len(set(levels)) < len(levels):
            raise StudyError(f"an interaction takes a column with levels once, got {shown(list(columns))}")
        if prod(len(choice) for choice in choices) > MOST_PRODUCTS:
            raise StudyError(
                f"an interaction makes at most {MOST_PRODUCTS} products of levels, got more of {shown(list(columns))}"
            )
        for chosen in product(*choices):
            factors = tuple(sorted(chosen))
            if factors in known:
                raise StudyError(f"an interaction is listed once, got {shown(list(columns))} twice")
            known.add(factors)
            found.append(_interaction(layout, factors, chosen))
    if len(found) + layout.width > MOST_COORDINATES:
        raise StudyError(f"a record has at most {MOST_COORDINATES} coordinates, got {len(found)} interactions")
    return replace(layout, attributes=(*layout.attributes, *found))


def with_sums(layout: Layout, order: int) -> Layout:
    """The layout with the sums that a logistic objective of this order needs: products of 3 to `order` features."""
    count, found = _count_products(layout, order), dict[tuple[int, ...], None]()
    if count <= MOST_TRIED:
        known = {reduced(layout, monomial(layout, chosen)) for chosen in _products(layout, 2)}
        for chosen in _products(layout, order):
            term = reduced(layout, monomial(layout, chosen))
            if term is not None and term not in known:
                found.setdefault(term)
        count = len(found) + len(known - {None, ()})
    if count > MOST_SUMS:
        features = len(layout.features)
        raise StudyError(f"order = {order} of {features} features has {count} coefficients, more than {MOST_SUMS}")
    return with_products(layout, sorted(found, key=lambda term: (len(term), term)))


def _choices(layout: Layout, order: int) -> list[list[tuple[int, ...]]]:
    """Of each attribute the products of its features that are not always 0: powers of a number, or one level."""
    own: dict[int, list[int]] = {}
    for c in layout.features:
        own.setdefault(int(layout.attribute_of[c]), []).append(c)
    powers = range(1, order + 1)
    numbers = (layout.attributes[i].kind is Encoding.SIGNED for i in own)
    return [
        [(), *(((features[0],) * k for k in powers) if number else ((c,) for c in features))]
        for features, number in zip(own.values(), numbers, strict=True)
    ]


def _products(layout: Layout, order: int) -> list[tuple[int, ...]]:
    """All products of up to `order` features that are not always 0."""
    out: list[tuple[int, ...]] = [()]
    for choices in _choices(layout, order):
        out = [done + more for done in out for more in choices if len(done) + len(more) <= order]
    return out


def _count_products(layout: Layout, order: int) -> int:
    """How many these are, without the empty one."""
    ways = [1] + [0] * order
    for choices in _choices(layout, order):
        own = Counter(map(len, choices))
        ways = [sum(ways[j] * own[k - j] for j in range(k + 1)) for k in range(order + 1)]
    return sum(ways[1:])


def with_products(layout: Layout, terms: Sequence[tuple[int, ...]]) -> Layout:
    """The layout with a coordinate behind all others for each of these products, of which only the sum is released."""
    found = (replace(_interaction(layout, term, term), sum_only=True) for term in terms)
    return replace(layout, attributes=(*layout.attributes, *found))


def reduced(layout: Layout, factors: Iterable[int]) -> tuple[int, ...] | None:
    """The same product with every level once, for an indicator is its own square; None where it is always 0."""
    ordered = sorted(factors)
    kept = [c for i, c in enumerate(ordered) if layout.is_number(c) or i == 0 or ordered[i - 1] != c]
    levels = [int(layout.attribute_of[c]) for c in kept if not layout.is_number(c)]
    return tuple(kept) if len(set(levels)) == len(levels) else None


def _interaction(layout: Layout, factors: tuple[int, ...], order: Sequence[int]) -> Attribute:
    held = Product(tuple(map(layout.coordinate, factors)))
    return Attribute(held, Encoding.SIGNED, (":".join(layout.names[c] for c in order),))


def _coordinates_of(layout: Layout, schema: Schema, reference: str) -> list[int]:
    """The coordinates that the model has a weight for of a feature's column."""
    ref = schema.find(reference)
    own = [i for i, a in enumerate(layout.attributes) if a.ref == ref]
    if any(layout.attributes[i].role is Role.LABEL for i in own):
        raise StudyError(f"an interaction is a product of features, got the label {reference}")
    features = set(layout.features)
    return [c for i in own for c in range(layout.span(i).start, layout.span(i).stop) if c in features]


def distinct_terms(layout: Layout, factors: Indices) -> Indices:
    """The places of terms that are no product of the same coordinates as an earlier one."""
    if not layout.has_interactions:
        return np.arange(len(factors))
    first: dict[tuple[int, ...], int] = {}
    for i, term in enumerate(factors):
        first.setdefault(monomial(layout, term), i)
    return np.array(sorted(first.values()), dtype=np.int64)


def monomial(layout: Layout, term: Iterable[int]) -> tuple[int, ...]:
    """The coordinates whose product a term is, without interactions and constants."""
    return tuple(sorted(c for factor in term for c in layout.factors[int(factor)]))


def paper_objective(layout: Layout, task: Task) -> Objective:
    """Eq. 2 and Eq. 4 as printed: one coefficient for each monomial of w.

    For the logistic task the label's coordinate is 1 - 2y, so that (1/2 - y) x_a is half a product of coordinates.
    """
    features = np.asarray(layout.features, dtype=np.int64)
    label = layout.starts[layout.label]
    upper, lower = np.triu_indices(features.size)
    pairs = np.stack([features[upper], features[lower]], axis=1)
    with_label = np.stack([features, np.full_like(features, label)], axis=1)
    square = np.where(upper == lower, 1.0, 2.0)
    if task is Task.LOGISTIC:
        # f_1'(0) - y = (1 - 2y)/2 and f_1''(0)/2! = 1/8.
        return Objective(
            layout, np.concatenate([with_label, pairs]), np.concatenate([np.full(features.size, 0.5), square / 8])
        )
    return Objective(
        layout,
        np.concatenate([[[label, label]], with_label, pairs]),
        np.concatenate([[1.0], np.full(features.size, -2.0), square]),
    )


def exact_objective(
    layout: Layout, *, products: bool = True, label_square: bool = False, pairs: Pairs | None = None
) -> Objective:
    """Each distinct second moment that the solver needs, once: pair tables, label-split sums, squares of numerics.

    Alg. 1, line 1.
    Left out because they are known: products within one simplex attribute, and sums of single coordinates, which are
    sums of the label-split tables. Where no feature has levels nothing sums to the label's own counts: these are
    released, of two halves or levels one, since it gives the other. `products=False` leaves out the feature pairs and
    squares (high dimension); of `pairs` only those of the named attributes are kept, and no squares.
    """
    parts = [_label_pairs(layout)]
    label = layout.span(layout.label)
    if all(a.kind is Encoding.SIGNED or a.role is Role.LABEL for a in layout.attributes):
        size = label.stop - label.start
        parts.append(np.array([[0, c] for c in range(label.start if size > 2 else label.stop - 1, label.stop)]))
    if label_square:
        parts.append(np.array([[label.start, label.stop - 1]]))
    if products:
        parts.append(_feature_pairs(layout, pairs))
    sums = [start for a, start in zip(layout.attributes, layout.starts, strict=True) if a.sum_only]
    parts.append(np.array([[0, c] for c in sums], dtype=np.int64).reshape(-1, 2))
    factors = np.concatenate(parts)
    factors = factors[distinct_terms(layout, factors)]
    return Objective(layout, factors, np.ones(len(factors)))


def margins_objective(layout: Layout) -> Objective:
    """The sum of every coordinate by itself: how many records have each level."""
    factors = np.array([[0, c] for c in range(1, layout.width)], dtype=np.int64)
    return Objective(layout, factors, np.ones(len(factors)))


def divided(layout: Layout, pairs: Pairs) -> Layout:
    """The layout with attributes counted as alike only where they stand in pairs with the same others.

    Any classes give a valid sensitivity; these lose nothing to counting a pair of families whole.
    """
    beside = np.zeros((len(layout.attributes), len(layout.attributes)), dtype=bool)
    for i, j in pairs:
        beside[i, j] = beside[j, i] = True
    # Twins have the same neighbours, themselves counted or not; the first of them names their class.
    open_, closed = (
        [row.tobytes() for row in beside | own] for own in (np.zeros_like(beside), np.eye(len(beside), dtype=bool))
    )
    first: dict[bytes, int] = {}
    classes: list[int] = []
    for i, (without, within) in enumerate(zip(open_, closed, strict=True)):
        found = first.get(b"o" + without, first.get(b"c" + within, i))
        first.setdefault(b"o" + without, found)
        first.setdefault(b"c" + within, found)
        classes.append(found)
    return replace(layout, classes=() if len(set(classes)) == 1 else tuple(classes))


def by_size(layout: Layout) -> Layout:
    """The layout with attributes counted as alike only where they have equally many coordinates, too.

    Then the tables of a pair of families are of one size and can have a weight of their own.
    """
    keys = list(zip(layout.classes or (0,) * len(layout.attributes), (a.size for a in layout.attributes), strict=True))
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return replace(layout, classes=() if len(place) == 1 else tuple(place[key] for key in keys))


def _label_pairs(layout: Layout) -> Indices:
    label = np.arange(layout.width)[layout.span(layout.label)]
    others = np.flatnonzero(_is_feature(layout))
    return np.stack([np.repeat(others, label.size), np.tile(label, others.size)], axis=1)


def _feature_pairs(layout: Layout, chosen: Pairs | None = None) -> Indices:
    others = np.flatnonzero(_is_feature(layout))
    upper, lower = np.triu_indices(others.size)
    pairs = np.stack([others[upper], others[lower]], axis=1)
    attribute = layout.attribute_of
    signed = np.array([a.kind is Encoding.SIGNED for a in layout.attributes])
    same = attribute[pairs[:, 0]] == attribute[pairs[:, 1]]
    if chosen is None:
        kept: Indices = pairs[~same | signed[attribute[pairs[:, 0]]]]
        return kept
    wanted = np.zeros((len(layout.attributes), len(layout.attributes)), dtype=bool)
    for i, j in chosen:
        wanted[i, j] = wanted[j, i] = True
    few: Indices = pairs[~same & wanted[attribute[pairs[:, 0]], attribute[pairs[:, 1]]]]
    return few


def _is_feature(layout: Layout) -> NDArray[np.bool_]:
    feature = np.array([a.role is Role.FEATURE and not a.sum_only for a in layout.attributes])
    return np.concatenate([[False], feature[layout.attribute_of[1:]]])
