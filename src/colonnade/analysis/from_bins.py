"""Numbers back from what was released of them: from bins, and where there are none from means and products."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from colonnade.analysis.bins import is_whole
from colonnade.analysis.draws import uniform
from colonnade.analysis.gibbs import Levels
from colonnade.analysis.plausible import draw_signed
from colonnade.analysis.tables import Tables
from colonnade.foundation.kinds import TRUE, Missing
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Schema, Storage
from colonnade.mechanism.moments import Floats

RIDGE = 1e-6
Drawn = Sequence[str] | Floats
"""A column of drawn records, as a file has it."""


def as_written(column: Column, numbers: Floats) -> Drawn:
    """Stored numbers as a file has them: dates as texts."""
    if not column.dated:
        return numbers
    return [column.write(float(number)) if number == number else "" for number in numbers]


def encode_levels(tables: Tables, columns: Sequence[int], levels: Levels) -> Floats:
    """Full encoded records, with zeros where a number is to be drawn."""
    layout = tables.released.layout
    records = np.zeros((len(levels), layout.width))
    records[:, 0] = 1.0
    for k, i in enumerate(columns):
        records[np.arange(len(levels)), layout.starts[i] + levels[:, k]] = 1.0
    return records


def fill_numbers(tables: Tables, columns: Sequence[int], records: Floats, randomness: Randomness) -> None:
    """Draw the numbers that were not cut: linear means given all that is drawn, beta laws around them.

    Given columns alone whose products with the number were released; of one without a known spread the mean.
    """
    released, layout, estimate = tables.released, tables.released.layout, tables.estimate
    weights = np.full(len(records), 1.0 / len(records))
    drawn_before = [k for i in columns for k in range(layout.width)[layout.span(i)]]
    means, covariance = estimate.margin / estimate.n, estimate.covariance / estimate.n
    for i in released.numbers:
        span = layout.span(i)
        at = span.stop - 1
        known = [k for k in drawn_before if released.known.has_products(int(layout.attribute_of[k]), i)]
        gram = covariance[np.ix_(known, known)] + RIDGE * np.eye(len(known))
        slopes = np.linalg.solve(gram, covariance[known, at])
        # The halves of a label lie in [0, 1]: half of a number in [-1, 1], moved up.
        half = span.stop - span.start == 2
        scale, shift = (2.0, -1.0) if half else (1.0, 0.0)
        mean = scale * (means[at] + (records[:, known] - means[known]) @ slopes) + shift
        residual = scale**2 * max(float(covariance[at, at] - slopes @ covariance[known, at]), 1e-6)
        points = uniform(randomness, len(records))
        spread = released.known.has_square(i)
        drawn = draw_signed(mean, residual, weights, points) if spread else np.clip(mean, -1.0, 1.0)
        records[:, at] = (drawn - shift) / scale
        if half:
            records[:, span.start] = 1.0 - records[:, at]
        drawn_before.append(at)


def drawable(tables: Tables) -> tuple[int, ...]:
    """Numbers whose mean and spread the release tells, and its noise does not hide."""
    found = {i: tables.number(i) for i in tables.released.numbers}
    return tuple(i for i, number in found.items() if number.mean is not None and number.std is not None)


def draw_numbers(tables: Tables, columns: Sequence[int], levels: Levels, randomness: Randomness) -> dict[int, Drawn]:
    """The numbers that were not cut at bins, in their own units; none whose mean or spread is not known."""
    released = tables.released
    records = encode_levels(tables, columns, levels)
    fill_numbers(tables, columns, records, randomness)
    out: dict[int, Drawn] = {}
    for i in drawable(tables):
        span, column = released.layout.span(i), released.columns[i]
        signed = records[:, span.stop - 1]
        if span.stop - span.start == 2:
            signed = 2.0 * signed - 1.0
        value = column.unsigned(signed)
        if column.storage is Storage.LEVELS:
            out[i] = [column.all_levels[int(k)] for k in np.rint(value)]
        else:
            out[i] = as_written(column, np.rint(value) if is_whole(column) else value)
    return out


def derive_drawn(
    schema: Schema, drawn: Mapping[ColumnRef, Drawn], held: Collection[ColumnRef | None]
) -> tuple[dict[ColumnRef, Drawn], list[ColumnRef], list[ColumnRef]]:
    """Rows whose derived columns are computed from their sources: with their names, and those of columns left out.

    A number that is said to be missing has no value, and what says so is left out.

    A column that a condition holds is left out, since its sources are drawn apart from it; so is one without sources.
    """
    values, computed, left_out = dict(drawn), list[ColumnRef](), list[ColumnRef]()
    for ref in [ref for ref, column in schema.columns.items() if isinstance(column, Missing) and ref in drawn]:
        source, gone = ColumnRef(ref.party, schema.columns[ref].sources[0]), values.pop(ref)
        if source in values:
            where, own = np.array(list(gone)) == TRUE, schema.columns[source]
            values[source] = as_written(own, np.where(where, np.nan, _stored(own, values[source])))
    for ref, column in schema.columns.items():
        if column.sources and ref in values:
            of = {source: ColumnRef(ref.party, source) for source in column.sources}
            if ref in held or any(source not in drawn for source in of.values()):
                del values[ref]
                left_out.append(ref)
                continue
            sources = {name: _stored(schema.columns[source], drawn[source]) for name, source in of.items()}
            values[ref] = as_written(column, column.compute(sources, schema.parties[ref.party]))
            computed.append(ref)
    return values, computed, left_out


def _stored(column: Column, drawn: Drawn) -> Floats:
    """The numbers that a drawn column stands for."""
    return np.array([column.read_number(day) for day in drawn]) if column.dated else np.asarray(drawn, np.float64)
