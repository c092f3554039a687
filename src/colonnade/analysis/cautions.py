"""What to know of a model's columns: which would tell the label by themselves, which are lost in noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.families import GAUSSIAN
from colonnade.analysis.released import Known
from colonnade.foundation.names import ColumnRef, Product
from colonnade.foundation.schema import Column, Schema
from colonnade.foundation.shown import rounded
from colonnade.mechanism.moments import Encoding, Layout
from colonnade.mechanism.release import ReleaseRecord

FAINT = 2.0
"""A mean that lies within this many standard deviations of its noise of a bound is not told from that bound."""

MOSTLY = 0.1
"""Of a release whose noise could hide more than this share of the largest variance it is not said that a column is
constant: nothing is known of it."""


def tied_attributes(release: ReleaseRecord, label: str | None) -> dict[int, str]:
    """Attributes that have a column in common with the label, by how either is computed, each with the reason."""
    layout = release.layout.model
    at = attribute_of(layout, label)
    if at is None:
        return {}
    schema = release.schema
    made = [_made_of(layout, schema, i) for i in range(len(layout.attributes))]
    name, out = label or layout.columns[layout.label], {}
    for i, attribute in enumerate(layout.attributes):
        if common := sorted(made[i] & made[at]) if i != at else []:
            if attribute.ref is None:
                out[i] = f"a product with {common[0].column}"
            elif attribute.ref == layout.attributes[at].ref:
                out[i] = f"another level of {common[0].column}"
            elif attribute.ref in common:
                out[i] = f"{name} is computed from it"
            else:
                out[i] = f"computed from {common[0].column}"
    return out


def attribute_of(layout: Layout, label: str | None) -> int | None:
    """The attribute that a label means; None where there is none, which the fit then says."""
    if label is None:
        return layout.label
    found = layout.find(label)
    return None if found is None else found[0]


def _made_of(layout: Layout, schema: Schema, i: int) -> frozenset[ColumnRef]:
    """Every column that an attribute is computed from, itself one of them."""
    of, ref = layout.attributes[i].of, layout.attributes[i].ref
    refs = {ref} if ref else {factor.of for factor in of.factors} if isinstance(of, Product) else set()
    sources = (ColumnRef(ref.party, name) for ref in refs for name in schema.columns[ref].sources)
    return frozenset({*refs, *sources})


def faint_means(release: ReleaseRecord, label: str | None = None, features: Sequence[str] | None = None) -> list[str]:
    """Sentences about numbers that vary less, by their released means, than noise moves these: bounds too wide."""
    known, schema = Known.of(release).raw, release.schema
    layout = known.layout
    at, faint = attribute_of(layout, label), []
    wanted = None if features is None else {attribute_of(layout, name) for name in features}
    for i in range(len(layout.attributes)):
        column = _numeric(release, schema, layout, i)
        if column is None or (noise := _faint(known, i)) is None:
            continue
        name = layout.columns[i]
        if i == at:
            low, high = column.require_bounds()
            return [
                f"the released mean of {name} cannot be told from one of its bounds, which are {column.write(low)} to "
                f"{column.write(high)}: noise alone moves it by about {rounded(noise * (high - low))}; a model of "
                f"{name} needs narrower bounds or more records"
            ]
        if i != layout.label and (wanted is None or i in wanted):
            faint.append(name)
    several = f"the released means of {', '.join(faint)} cannot be told from a bound of theirs"
    return [f"{several}: where values vary little within their bounds, narrower ones would help"] if faint else []


def constant_columns(
    release: ReleaseRecord, label: str | None = None, features: Sequence[str] | None = None
) -> list[str]:
    """A sentence about features that cannot be told from constants, though noise would let one see that they vary."""
    known, step = Known.of(release).raw, 1.0 / float(release.plan["grid"]["bound"])
    layout, at = known.layout, attribute_of(known.layout, label)
    wanted = None if features is None else {attribute_of(layout, name) for name in features}
    chosen = [i for i in range(len(layout.attributes)) if i not in (at, layout.label) or i in (wanted or ())]
    constant = [i for i in chosen if (wanted is None or i in wanted) and i != at and _constant(known, i, step)]
    if not constant:
        return []
    names = ", ".join(layout.columns[i] for i in constant)
    return [f"by this release these cannot be told from constants, and their coefficients mean nothing: {names}"]


def _constant(known: Estimate, i: int, step: float) -> bool:
    """Whether a column hardly varies, by a release whose noise is far less than what it could."""
    span, n = known.layout.span(i), known.n
    if known.layout.attributes[i].kind is Encoding.SIMPLEX:
        top = span.start + int(np.argmax(known.value[0, span]))
        left, noise, most = 1.0 - float(known.value[0, top]) / n, float(known.std[0, top]) / n, 1.0
    else:
        at, mean = span.start, float(known.value[0, span.start]) / n
        left, most = float(known.value[at, at]) / n - mean**2, max(1.0 - mean**2, 0.0)
        if not np.isfinite(known.std[[0, at], at]).all():
            return False
        noise = float(np.hypot(known.std[at, at], 2.0 * mean * known.std[0, at])) / n
        # Rounding a value to the grid adds up to a quarter of the square of its step on average, and a sum swings.
        left -= 0.5 * step**2
    return bool(np.isfinite(noise)) and left <= FAINT * noise < MOSTLY * most


def _numeric(release: ReleaseRecord, schema: Schema, layout: Layout, i: int) -> Column | None:
    """The declared column of an attribute that stands for one number; None for levels, bins and products."""
    attribute = layout.attributes[i]
    halves = i == layout.label and release.plan["task"] == GAUSSIAN.task
    if attribute.ref is None or not (attribute.kind is Encoding.SIGNED or halves):
        return None
    declared = schema.columns[attribute.ref]
    return declared if declared.bounds is not None and not declared.has_levels else None


def _faint(known: Estimate, i: int) -> float | None:
    """The noise on a number's mean, as a share of its bounds, where the number varies less than that; else None."""
    layout, n = known.layout, known.n
    at, halves = layout.span(i).stop - 1, layout.attributes[i].kind is Encoding.SIMPLEX
    # A share of the bounds: a half of the label is one, and a number from -1 to 1 is twice one, less 1.
    scale, shift = (1.0, 0.0) if halves else (0.5, 0.5)
    noise = scale * float(known.std[0, at]) / n
    if not np.isfinite(noise):
        return None
    mean = scale * float(known.value[0, at]) / n + shift
    # Of a label whose square was released the variance is known, as far as its own noise goes.
    square = float(known.value[at, at] + FAINT * known.std[at, at]) / n
    variance = scale**2 * (square - (float(known.value[0, at]) / n) ** 2)
    return noise if min(mean, 1.0 - mean) < FAINT * noise or variance < noise**2 else None
