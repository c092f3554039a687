"""Bins that a plan chooses for numbers, from public facts alone: bounds, n, epsilon and delta.

A number from 0 to a huge bound spans orders of magnitude, an income or a payment: nearly all records crowd at one end
of its bounds, and a model that is linear in it sees a few. Bins on a logarithmic scale are free in sensitivity, and the
noise on their cells is the whole price. A declared integer of few values loses nothing if every value has a bin, and a
model is no longer bound to a line. Other numbers stay as they are: bins of equal width lose what is finer than they
are, and no public fact says that this is little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Calibration, Task, layout_of
from colonnade.mechanism.weights import EXPLAINED, LABEL_VARIANCE, release_risks

HUGE = 1000.0
"""An upper bound from which on a number from 0 up is taken to span orders of magnitude."""
DECADES = 3  # a guess: below these a number hardly differs from 0 at its bound's scale
STEPS = (1, 2, 5)
"""Cuts in each of the uppermost decades."""
MOST_VALUES = 16
"""Of an integer whose every value may have a bin."""
SPANNED = 0.5
"""Guess: the logarithm of such a number is worth this share of what a weak model explains. Chosen on the development
panel, where Adult gains with it at every epsilon and visits would lose at pure 0.1."""


@dataclass(frozen=True)
class Binning:
    """What was decided for one number that could be cut."""

    column: ColumnRef
    bins: tuple[float, ...]
    chosen: bool
    price: float
    """Of the noise on its bins, as a share of what a weak model explains."""


def log_edges(low: float, high: float) -> tuple[float, ...]:
    """Cuts at 1, 2 and 5 in the uppermost decades of a number from 0 to a huge bound, and 0 by itself; else none."""
    if low != 0 or high < HUGE:
        return ()
    top = math.floor(math.log10(high))
    cuts = {float(step) * 10.0**decade for decade in range(top - DECADES + 1, top + 1) for step in STEPS}
    return tuple(sorted({1.0, *(cut for cut in cuts if cut < high)}))


def value_edges(column: Numeric) -> tuple[float, ...]:
    """Cuts between all values of an integer that has few; else none."""
    if not column.integer or not 2 <= column.high - column.low < MOST_VALUES:
        return ()
    return tuple(value + 0.5 for value in range(int(column.low), int(column.high)))


def choose_bins(
    schema: Schema, label: str, task: Task, n: int, epsilon: float, delta: float
) -> tuple[Schema, Sequence[Binning]]:
    """The schema with bins where their predicted price is below their guessed worth, and every decision."""
    found: list[Binning] = []
    target = schema.find(label)
    numbers = {
        ref: column
        for ref, column in schema.columns.items()
        if isinstance(column, Numeric) and not column.bins and ref != target
    }

    def price(tried: Schema, known: Schema) -> float:
        return _risk(tried, label, task, n, epsilon, delta) - _risk(known, label, task, n, epsilon, delta)

    for ref, column in numbers.items():
        if not value_edges(column) and (bins := log_edges(column.low, column.high)):
            tried = schema.changed({ref: replace(column, bins=bins)})
            cost = price(tried, schema)
            found.append(Binning(ref, bins, cost < SPANNED, cost))
            schema = tried if cost < SPANNED else schema
    # Many integers are worth no more than one, and half of them cut is worse than none: all are, or none is.
    few = {ref: edges for ref, column in numbers.items() if (edges := value_edges(column))}
    known, costs = schema, []
    for ref, bins in few.items():
        tried = schema.changed({ref: replace(numbers[ref], bins=bins)})
        costs.append(price(tried, schema))
        schema = tried
    chosen = sum(costs) < SPANNED
    found += [Binning(ref, bins, chosen, cost) for (ref, bins), cost in zip(few.items(), costs, strict=True)]
    schema = schema if chosen else known
    return schema, found


def _risk(schema: Schema, label: str, task: Task, n: int, epsilon: float, delta: float) -> float:
    """The predicted risk of the better release, as a share of what a weak model explains."""
    layout = layout_of(schema, label, task, Calibration.EXACT)
    risks = release_risks(layout, n, Distribution.with_delta(delta), epsilon, delta)
    return min(risks.values()) / (EXPLAINED * LABEL_VARIANCE)


def describe_binning(cuts: Sequence[Binning]) -> str:
    """What was chosen and why, in one line."""
    if not cuts:
        none = "no number from 0 to 1,000 or more and no integer of few values is without bins"
        return f'numeric = "auto": {none}, and others stay as they are'
    told = []
    for cut in cuts:
        how = "one for every value" if cut.bins[0] % 1 else "on a log scale"
        done = f"cut into {len(cut.bins) + 1} bins, {how}" if cut.chosen else "left a number"
        told.append(f"{cut.column} {done}")
    return f'numeric = "auto": {"; ".join(told)}'
