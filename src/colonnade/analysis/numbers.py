"""Numbers back from what was released of them: from bins, and where there are none from means and products."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from colonnade.analysis.draws import uniform
from colonnade.analysis.plausible import draw_signed
from colonnade.analysis.tables import Tables
from colonnade.analysis.walk import Levels
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Schema, Storage
from colonnade.mechanism.moments import Floats

RIDGE = 1e-6
PIECES = 64
NARROWEST = 5.0
"""Of the bins of a number that is drawn as a whole one."""
Drawn = Sequence[str] | Floats
"""A column of drawn records, as a file has it."""


def is_whole(column: Column) -> bool:
    """Whether drawn numbers are whole: days are, and numbers whose bounds and cuts are whole and far apart.

    Nothing else says that values are whole. Where they are not, whole ones are at most half a unit off on average, a
    tenth of the narrowest bin. A number without bins is never rounded: a share has whole bounds too.
    """
    if column.dated:
        return True
    edges = column.edges or ()
    return len(edges) > 2 and bool(np.all(np.diff(edges) >= NARROWEST)) and all(float(v).is_integer() for v in edges)


def as_written(column: Column, numbers: Floats) -> Drawn:
    """Stored numbers as a file has them: dates as texts."""
    return [column.write(float(number)) for number in numbers] if column.dated else numbers


def within_bins(column: Column, shares: Floats, codes: Levels, draws: Floats) -> Floats:
    """A number inside each record's bin, by a density that rises or falls towards the neighbouring bins."""
    edges = np.array(column.edges, dtype=np.float64)
    whole = is_whole(column)
    if whole:
        # The last bin holds its upper end, the others do not.
        edges[-1] += 1.0
    width = np.diff(edges)
    height = shares / width
    out = np.zeros(len(codes))
    for k in range(len(width)):
        at = codes == k
        out[at] = edges[k] + width[k] * _tilted(draws[at], _tilt(height, width, k))
    if whole:
        out = np.floor(np.minimum(out, np.nextafter(edges[codes + 1], -np.inf)))
    numbers: Floats = np.clip(out, *column.require_bounds())
    return numbers


def bin_means(column: Column, shares: Floats) -> Floats:
    """The mean number in each bin, under the same density."""
    points = (np.arange(PIECES) + 0.5) / PIECES
    return np.array([within_bins(column, shares, np.full(PIECES, k), points).mean() for k in range(len(shares))])


def _tilt(height: Floats, width: Floats, k: int) -> float:
    """Slope of the density over its height in bin k, in [-2, 2]: the smaller of those towards both neighbours."""
    if height[k] <= 0 or k in (0, len(height) - 1):
        return 0.0
    left = (height[k] - height[k - 1]) / (0.5 * (width[k] + width[k - 1]))
    right = (height[k + 1] - height[k]) / (0.5 * (width[k] + width[k + 1]))
    if left * right <= 0:
        return 0.0
    slope = min(left, right, key=abs) * width[k] / height[k]
    return float(np.clip(slope, -2.0, 2.0))


def _tilted(draws: Floats, tilt: float) -> Floats:
    """Quantiles of the density 1 + tilt (x - 1/2) on the unit interval."""
    if abs(tilt) < 1e-9:
        return draws
    lead = 1.0 - 0.5 * tilt
    quantiles: Floats = (np.sqrt(lead**2 + 2.0 * tilt * draws) - lead) / tilt
    return quantiles


def encode_levels(tables: Tables, columns: Sequence[int], levels: Levels) -> Floats:
    """Full encoded records, with zeros where a number is to be drawn."""
    layout = tables.released.layout
    records = np.zeros((len(levels), layout.width))
    records[:, 0] = 1.0
    for k, i in enumerate(columns):
        records[np.arange(len(levels)), layout.starts[i] + levels[:, k]] = 1.0
    return records


def fill_numbers(tables: Tables, columns: Sequence[int], records: Floats, randomness: Randomness) -> None:
    """Draw the numbers that were not cut: linear means given all that is drawn, beta laws around them."""
    released, layout, estimate = tables.released, tables.released.layout, tables.estimate
    weights = np.full(len(records), 1.0 / len(records))
    known = [k for i in columns for k in range(layout.width)[layout.span(i)]]
    means, covariance = estimate.margin / estimate.n, estimate.covariance / estimate.n
    for i in released.numbers:
        span = layout.span(i)
        at = span.stop - 1
        gram = covariance[np.ix_(known, known)] + RIDGE * np.eye(len(known))
        slopes = np.linalg.solve(gram, covariance[known, at])
        # The halves of a label lie in [0, 1]: half of a number in [-1, 1], moved up.
        half = span.stop - span.start == 2
        scale, shift = (2.0, -1.0) if half else (1.0, 0.0)
        mean = scale * (means[at] + (records[:, known] - means[known]) @ slopes) + shift
        residual = scale**2 * max(float(covariance[at, at] - slopes @ covariance[known, at]), 1e-6)
        drawn = draw_signed(mean, residual, weights, uniform(randomness, len(records)))
        records[:, at] = (drawn - shift) / scale
        if half:
            records[:, span.start] = 1.0 - records[:, at]
        known.append(at)


def draw_numbers(tables: Tables, columns: Sequence[int], levels: Levels, randomness: Randomness) -> dict[int, Drawn]:
    """The numbers that were not cut at bins, in their own units."""
    released = tables.released
    records = encode_levels(tables, columns, levels)
    fill_numbers(tables, columns, records, randomness)
    out: dict[int, Drawn] = {}
    for i in released.numbers:
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
    schema: Schema, drawn: Mapping[str, Drawn], held: Collection[str]
) -> tuple[dict[str, Drawn], tuple[str, ...], tuple[str, ...]]:
    """Rows whose derived columns are computed from their sources: with their names, and those of columns left out.

    A column that a condition holds is left out, since its sources are drawn apart from it; so is one without sources.
    """
    values, computed, left_out = dict(drawn), [], []
    for columns in schema.parties.values():
        for name in [name for name, column in columns.items() if column.sources and name in values]:
            if name in held or any(source not in drawn for source in columns[name].sources):
                del values[name]
                left_out.append(name)
                continue
            sources = {source: _stored(columns[source], drawn[source]) for source in columns[name].sources}
            values[name] = as_written(columns[name], columns[name].compute(sources, columns))
            computed.append(name)
    return values, tuple(computed), tuple(left_out)


def _stored(column: Column, drawn: Drawn) -> Floats:
    """The numbers that a drawn column stands for."""
    return np.array([column.read_number(day) for day in drawn]) if column.dated else np.asarray(drawn, np.float64)
