"""A declared objective: any polynomial in parameters whose coefficients are sums over records of products of columns.

A text such as (y - w0 - w1 * x^3)^2 is written out; each product of columns in it is a term (the paper's Eq. 1), and
its owners decide its block (Eq. 5). A number counts from -1 to 1 over its range; 's=yes' is the indicator of a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from colonnade.foundation.errors import SchemaError, StudyError
from colonnade.foundation.expressions import Names, parse_expression
from colonnade.foundation.names import require_name
from colonnade.foundation.schema import Schema
from colonnade.foundation.shown import shown
from colonnade.mechanism.moments import Distribution, Encoding, Layout
from colonnade.mechanism.objective import MOST_SUMS, Objective, plain_layout, reduced, with_products

Product = tuple[int, ...]
"""Coordinates of a record, in their order, each as often as it is a factor."""
LONGEST_OBJECTIVE = 10_000  # characters: ten times a derived column's
MOST_PARAMETERS = 64  # far above use; larger objectives were not tried
LARGEST_BALL = 1e6  # far beyond weights of columns within [-1, 1]
LARGEST_COEFFICIENT = 1e12  # far above use, and far from where floats overflow
FINEST = 64
"""Terms get noise in proportion of weights that are multiples of one over this."""


@dataclass(frozen=True)
class DeclaredObjective:
    """The polynomial as its text says it, the names of its parameters, and the ball in which it is minimised."""

    text: str
    parameters: tuple[str, ...]
    ball: float

    def __post_init__(self) -> None:
        names = self.parameters
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
            raise StudyError(f'parameters must be a list of names such as ["w0", "w1"], got {shown(names)}')
        for name in names:
            require_name("a parameter's name", name, StudyError)
        if not 0 < len(set(names)) == len(names) <= MOST_PARAMETERS:
            raise StudyError(f"an objective has 1 to {MOST_PARAMETERS} parameters, each once, got {shown(list(names))}")
        number = isinstance(self.ball, (int, float)) and not isinstance(self.ball, bool)
        if not number or not 0 < self.ball <= LARGEST_BALL:
            raise StudyError(f"ball must be a radius above 0 and up to {LARGEST_BALL:g}, got ball={shown(self.ball)}")
        if not self.coefficients.keys() - {()}:
            raise StudyError(f"an objective must have a term with a parameter, got {shown(self.text)}")

    @cached_property
    def coefficients(self) -> Mapping[Names, Mapping[Names, Fraction]]:
        """For each product of parameters the products of columns that its coefficient sums, with their weights."""
        try:
            written = parse_expression(self.text, LONGEST_OBJECTIVE).expand()
        except SchemaError as error:
            raise StudyError(f"objective: {error}") from None
        out: dict[Names, dict[Names, Fraction]] = {}
        for names, weight in written.items():
            if abs(weight) > LARGEST_COEFFICIENT:
                raise StudyError(f"an objective's coefficients are at most {LARGEST_COEFFICIENT:g}, got more")
            held = tuple(name for name in names if name in self.parameters)
            columns = tuple(name for name in names if name not in self.parameters)
            out.setdefault(held, {})[columns] = weight
        return out

    def columns(self) -> Iterator[tuple[str, ...]]:
        """The products of columns that are summed, as their names stand in the text."""
        held = (columns for parameters, columns in self.coefficients.items() if parameters)
        yield from dict.fromkeys(names for columns in held for names in columns if names)

    def written(self, layout: Layout) -> dict[Names, dict[Product, float]]:
        """The coefficients with coordinates in the place of names; what is 0 in every record is left out."""
        out: dict[Names, dict[Product, float]] = {}
        for held, columns in self.coefficients.items():
            if not held:
                # What no parameter multiplies moves no minimum.
                continue
            for names, weight in columns.items():
                found = reduced(layout, (_place(name, layout) for name in names))
                if found is not None:
                    own = out.setdefault(held, {})
                    own[found] = own.get(found, 0.0) + float(weight)
        return out

    def importances(self, layout: Layout) -> dict[Product, float]:
        """For each product of coordinates the most that its sum over one record moves the objective in the ball."""
        out: dict[Product, float] = {}
        for held, columns in self.written(layout).items():
            for term, weight in columns.items():
                if term:
                    out[term] = out.get(term, 0.0) + abs(weight) * self.ball ** len(held)
        kept = {term: weight for term, weight in out.items() if weight > 0}
        if not kept:
            raise StudyError(f"an objective must have a product of a parameter and a column, got {shown(self.text)}")
        return kept


def _place(name: str, layout: Layout) -> int:
    """Where the number or the level stands that the objective names."""
    i, j = layout.find(name) or (None, None)
    if i is not None and (j is not None or layout.attributes[i].kind is Encoding.SIGNED):
        return layout.starts[i] + (j or 0)
    if i is not None:
        level = layout.names[layout.span(i).stop - 1]
        raise StudyError(f"column {name} has levels: an objective names one of them in quotes, such as '{level}'")
    raise StudyError(f"an objective names parameters and columns of the study, got {shown(name)}, which is neither")


def declared_layout(schema: Schema, label: str, declared: DeclaredObjective) -> Layout:
    """All columns, and a coordinate for each product of more than two of them that the objective sums."""
    known = {name for columns in schema.parties.values() for name in columns}
    for name in declared.parameters:
        if name in known:
            raise StudyError(f"a parameter must have another name than the columns, got {shown(name)}")
    layout = replace(plain_layout(schema, label), any_terms=True)
    terms = sorted(declared.importances(layout))
    if len(terms) > MOST_SUMS:
        raise StudyError(f"an objective sums at most {MOST_SUMS} products of columns, got {len(terms)}")
    return with_products(layout, [term for term in terms if len(term) > 2])


def declared_terms(layout: Layout, declared: DeclaredObjective, law: Distribution | None) -> Objective:
    """Each product of columns that the objective sums, once; `law` None is the paper's calibration.

    The paper gives all coefficients noise of one scale: a term's weight is its coefficient's size. Noise of scale s on
    the sums that matters by a, in total least for the same epsilon, goes with a^(2/3) under Laplace, a^(1/2) under
    Gaussian.
    """
    importances = declared.importances(layout)
    sums = zip(layout.attributes, layout.starts, strict=True)
    made = {layout.factors[start]: start for attribute, start in sums if attribute.sum_only}
    top = max(importances.values())
    rows, weights = [], []
    for term, size in sorted(importances.items()):
        rows.append((0, made[term]) if term in made else (0, *term) if len(term) == 1 else term)
        share = size / top
        if law is not None:
            share = max(1, round(FINEST * share ** (2 / (2 + law.norm)))) / FINEST
        weights.append(share)
    return Objective(layout, np.array(rows, dtype=np.int64), np.array(weights))
