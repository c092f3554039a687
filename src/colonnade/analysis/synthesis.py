"""Rows that have the released tables: drawn from the maximum-entropy model, and weighted to meet its target exactly.

Rows are a way to look at a release. They hold no more than its tables, and nothing computed from them knows how much
noise those have: standard errors belong to the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.special import expit

from colonnade.analysis.bins import NARROWEST, is_whole, says_whole, within_bins
from colonnade.analysis.draws import seeded, uniform
from colonnade.analysis.from_bins import Drawn, as_written, derive_drawn, draw_numbers
from colonnade.analysis.gibbs import Levels, Walk
from colonnade.analysis.label_distribution import LabelDistribution, label_distribution, with_label
from colonnade.analysis.maxent import PairModel, TargetTables, fit_maxent
from colonnade.analysis.mediators import FITTING_STEPS
from colonnade.analysis.released import Cell, Released
from colonnade.analysis.tables import Tables, margin_variance
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.threads import one_thread
from colonnade.mechanism.moments import Floats
from colonnade.mechanism.table_error import TableForecast, forecast_distance
from colonnade.numerics.fitting import fit_margins, rake, resample

WARNING = (
    "Do not compute standard errors, tests or intervals from these rows: they know nothing of the release's noise."
)
BURN_IN = 40
POOL = 32768
RAKING_SWEEPS = 4
HEAVIEST = 4.0
"""No row of the pool weighs more than this many times another's, on average."""
CLOSE = 0.015
"""A distance that 10,000 to 20,000 real rows drawn anew have from the rows they are drawn from."""
LARGEST_MISFIT = 1.1


@dataclass(frozen=True)
class Certificate:
    """How near the fitted model is to what was released."""

    distance: float
    """Mean total variation between the model's tables of two columns and the denoised ones."""
    misfit: float
    """Root mean square of model minus released count, in standard deviations of the noise: 1 is what the truth has."""

    @property
    def converged(self) -> bool:
        return self.distance <= CLOSE or self.misfit <= LARGEST_MISFIT


@dataclass(frozen=True)
class FittedRelease:
    """The maximum-entropy model of a release's columns with levels."""

    tables: Tables
    target: TargetTables
    model: PairModel
    certificate: Certificate
    columns: tuple[int, ...]
    """The attribute that each column of the model stands for."""
    label: LabelDistribution | None = None
    """By which rows get their label, where the release has a model of it."""

    @property
    def released(self) -> Released:
        return self.tables.released


@dataclass(frozen=True)
class Synthetic:
    """Rows, with what is known of their quality."""

    values: Mapping[str, Sequence[str] | Floats]
    expected: float
    """Expected total variation of a table of two columns from that of the real rows, on average over pairs."""
    independent: float
    """The same for rows whose columns are independent and have exact margins."""
    certificate: Certificate
    unbinned: tuple[str, ...]
    rows: int
    at_best: float
    """The expected total variation of as many rows as one likes: what the noise alone makes of it."""
    whole: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Numbers without a column, as their mean or spread is not known."""
    apart: bool = False
    """Whether some products of the numbers were not released."""

    def notes(self) -> list[str]:
        """What a reader of the rows has to know."""
        fit, out = self.certificate, [WARNING]
        out.append(
            f"Expected total variation of a table of two columns: {distance_text(self.expected)} "
            f"(independent columns with exact margins: {distance_text(self.independent)})."
        )
        told = "has converged" if fit.converged else "has NOT converged"
        out.append(
            f"The model {told}: its tables are {fit.distance:.4f} from the denoised ones on average, and "
            f"{fit.misfit:.2f} noise standard deviations (root mean square) from the released ones."
        )
        if self.unbinned:
            out.append(
                f"{', '.join(self.unbinned)}: released without bins, so these numbers have the released means, "
                "variances and correlations, and an assumed shape."
                + " Where two were not released together, they depend through the columns that both were released with."
                * self.apart
            )
        if self.unknown:
            out.append(
                f"{', '.join(self.unknown)}: left out, since mean or variance was not released or is not estimable "
                "(that of a numeric label is released by label_square = true)."
            )
        if self.whole:
            out.append(
                f"{', '.join(self.whole)}: drawn as whole numbers, since bounds and cuts are whole and at least "
                f"{NARROWEST:g} apart; values that are not whole would be half a unit lower on average."
            )
        if self.derived:
            out.append(f"{', '.join(self.derived)}: computed in each row from the columns that it is derived from.")
        if self.left_out:
            out.append(f"{', '.join(self.left_out)}: left out, since rows would contradict what it is derived from.")
        return [*out, *self._worse()]

    def _worse(self) -> list[str]:
        """Why independent columns would be no worse, where that is so: the noise, or too few rows."""
        if self.at_best >= self.independent:
            return ["These rows are expected to be WORSE than independent columns would be: the noise is too large."]
        if self.expected >= self.independent:
            return [
                f"{self.rows:,} rows are too few to show how columns depend: chance alone moves their tables more than "
                f"independence would. Many rows of this release are expected to be {distance_text(self.at_best)} away."
            ]
        return []


def fit_release(tables: Tables, seed: int = 0, impossible: Sequence[tuple[Cell, Cell]] = ()) -> FittedRelease:
    """Fit the maximum-entropy model of a release; the same release and seed give the same model."""
    released = tables.released
    if len(released.tabular) < 2:
        raise ReleaseError("rows need two columns with levels or bins: this release has fewer, and numbers alone")
    released.require_pairs("rows of it would have independent columns")
    target = _target(tables, impossible)
    model = fit_maxent(target, seeded(seed, "maxent"))
    law = label_distribution(released, target, model)
    model = model if law is None else with_label(model, law)
    return FittedRelease(tables, target, model, _certificate(tables, target, model), released.tabular, law)


def require_dependence(tables: Tables) -> None:
    """Refuse rows that are not expected to be better than independent columns with exact margins.

    What the plan predicted decides, from the same noise: such rows are drawn, and say what the release knows
    of them. Where it had warned, the release may still show that columns depend more than was predicted.
    """
    tables.released.require_pairs("rows of it would have independent columns")
    if not tables.released.tables:
        raise ReleaseError("this release holds no table of two columns: rows of it would have independent levels")
    expected, independent = expected_distance(tables)
    if foretold(tables.released).worse and TableForecast(expected, independent).worse:
        raise ReleaseError(
            f"rows of this release would be no better than independent columns: its tables of two columns are expected "
            f"to be {distance_text(expected)} from those of the records (total variation), and "
            f"{distance_text(independent)} if columns were taken as independent"
        )


def foretold(released: Released) -> TableForecast:
    """What the plan said of tables of two columns before anything was spent: by their sizes, the noise and n alone."""
    tabular, layout, noise = released.tabular, released.layout, released.moments.std / released.n
    std = np.full((len(tabular), len(tabular)), np.inf)
    for (x, i), (y, j) in combinations(enumerate(tabular), 2):
        std[x, y] = std[y, x] = float(noise[layout.span(i), layout.span(j)].max())
    sizes = np.array([layout.attributes[i].size for i in tabular], dtype=np.int64)
    alone = np.array([float(noise[0, layout.span(i)].max()) for i in tabular])
    return forecast_distance(sizes, std, alone)


def draw_rows(
    tables: Tables,
    fit: Callable[[], FittedRelease],
    rows: int,
    given: Mapping[int, int] | None = None,
    seed: int = 0,
    anyway: bool = False,
) -> Synthetic:
    """Rows of a release that are worth having, or any rows; refuses before the model is fitted."""
    if not anyway:
        require_dependence(tables)
    return synthesize(fit(), rows, given, seed)


def distance_text(distance: float) -> str:
    """A total variation to three places; one that says nothing in words."""
    return f"{distance:.3f}" if distance < 1.0 else "no better than 1"


def draw_levels(
    fitted: FittedRelease, rows: int, randomness: Randomness, given: Mapping[int, int] | None = None
) -> Levels:
    """Levels of `rows` records, under conditions where they are given (attribute: level)."""
    with one_thread(always=True):
        return _draw(fitted, rows, randomness, given or {})


def _draw(fitted: FittedRelease, rows: int, randomness: Randomness, given: Mapping[int, int]) -> Levels:
    model, place = fitted.model, {i: k for k, i in enumerate(fitted.columns)}
    fixed = {place[i]: level for i, level in given.items()}
    _require_possible(fitted, fixed)
    walk = Walk(
        model.spans,
        model.units,
        model.chains[resample(model.weights, len(model.chains), float(uniform(randomness, 1)[0]))],
        model.field,
        model.coupling,
    )
    if fixed:
        walk.hold(fixed)
        for _ in range(BURN_IN):
            walk.sweep(randomness, fixed, tables=False)
    pool = [walk.levels.copy()]
    while len(pool) * len(model.chains) < max(rows, POOL):
        for _ in range(2):
            walk.sweep(randomness, fixed, tables=False)
        pool.append(walk.levels.copy())
    levels, law = np.concatenate(pool), fitted.label
    if law is not None and law.column not in fixed:
        levels = law.draw(levels, randomness)
    if fixed:
        weights = np.ones(len(levels)) if law is None else _relative(law, model, levels, fixed)
    else:
        weights = _raked(fitted.target, levels, law)
    chosen = levels[resample(weights, rows, float(uniform(randomness, 1)[0]))]
    return chosen[np.argsort(uniform(randomness, rows), kind="stable")]


def synthesize(fitted: FittedRelease, rows: int, given: Mapping[int, int] | None = None, seed: int = 0) -> Synthetic:
    """Rows in the columns' own units: levels by name, bins turned back into numbers inside them."""
    released, randomness = fitted.released, seeded(seed, "rows")
    levels = draw_levels(fitted, rows, randomness, given)
    drawn: dict[int, Drawn] = {}
    for k, i in enumerate(fitted.columns):
        column = released.columns[i]
        if column.edges is not None:
            shares = fitted.target.margin[fitted.target.spans[k]]
            drawn[i] = as_written(column, within_bins(column, shares, levels[:, k], uniform(randomness, rows)))
        else:
            drawn[i] = np.array(released.levels(i), dtype=object)[levels[:, k]].tolist()
    drawn |= draw_numbers(fitted.tables, fitted.columns, levels, randomness)
    attributes, names = released.layout.attributes, dict(enumerate(released.layout.columns))
    index = {a.ref: i for i, a in enumerate(attributes)}
    written = {ref: drawn[index[ref]] for ref in released.release.schema.columns if index.get(ref) in drawn}
    found, *made = derive_drawn(released.release.schema, written, {attributes[i].ref for i in given or ()})
    derived, left_out = (tuple(names[index[ref]] for ref in refs) for refs in made)
    values = {names[index[ref]]: value for ref, value in found.items()}
    apart = {*derived, *left_out}
    numbers = [i for i in released.numbers if attributes[i].ref is not None]
    unbinned = tuple(names[i] for i in numbers if i in drawn and names[i] not in apart)
    unreleased = any(not released.has_table(i, j) for i in numbers if i in drawn for j in drawn if j != i)
    columns = released.columns
    whole = [i for i in fitted.columns if columns[i].edges and not says_whole(columns[i]) and is_whole(columns[i])]
    expected, independent = expected_distance(fitted.tables, rows)
    return Synthetic(
        values,
        expected,
        independent,
        fitted.certificate,
        unbinned,
        rows,
        expected_distance(fitted.tables)[0],
        tuple(names[i] for i in whole if names[i] not in apart),
        derived,
        left_out,
        tuple(names[i] for i in numbers if i not in drawn),
        unreleased,
    )


def expected_distance(tables: Tables, rows: int | None = None) -> tuple[float, float]:
    """Expected total variation of the denoised tables (and of rows drawn from them); that of independent columns.

    Both are means over all pairs of columns, each at most 1. Of a pair whose table was not released nothing is known
    but the margins: its dependence is taken as that of the others.
    """
    released, layout, n = tables.released, tables.released.layout, tables.released.n
    shares = tables.estimate.value / n
    found, apart, unknown = [], [], []
    for i, j in combinations(released.tabular, 2):
        at = np.ix_(range(layout.width)[layout.span(i)], range(layout.width)[layout.span(j)])
        down, across = shares[0, layout.span(i)], shares[0, layout.span(j)]
        margins = np.outer(margin_variance(tables, i) / n**2, across**2)
        margins += np.outer(down**2, margin_variance(tables, j) / n**2)
        known = released.has_table(i, j)
        cell = shares[at] if known else np.outer(down, across)
        drawn = cell * (1.0 - cell) / rows if rows else 0.0
        if not known:
            unknown.append(_distance(margins + drawn))
            continue
        left = np.minimum(tables.estimate.std[at] / n, np.sqrt(np.maximum(cell, 1.0 / n)))
        found.append(_distance(left**2 + margins + drawn))
        away = cell - np.outer(down, across)
        apart.append(min(0.5 * float(np.sqrt(away**2 + (2 / np.pi) * left**2).sum()), 1.0))
    dependence = float(np.mean(apart)) if apart else 0.0
    found += [min(float(np.hypot(dependence, error)), 1.0) for error in unknown]
    return float(np.mean(found)), dependence


def _distance(variance: Floats) -> float:
    """Expected total variation, at most 1, of a table whose cells have Gaussian errors of these variances."""
    return min(float(0.5 * np.sqrt(2 / np.pi) * np.sqrt(variance).sum()), 1.0)


def _target(tables: Tables, impossible: Sequence[tuple[Cell, Cell]]) -> TargetTables:
    released, layout, n = tables.released, tables.released.layout, tables.released.n
    at = [k for i in released.tabular for k in range(layout.width)[layout.span(i)]]
    place = {i: k for k, i in enumerate(released.tabular)}
    sizes = [layout.attributes[i].size for i in released.tabular]
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    spans = tuple(slice(a, b) for a, b in pairwise(starts))
    pairs = tables.estimate.value[np.ix_(at, at)] / n
    wanted, forbidden = np.zeros(pairs.shape, dtype=bool), np.zeros(pairs.shape, dtype=bool)
    for (i, a), (j, b) in impossible:
        first, second = spans[place[i]].start + a, spans[place[j]].start + b
        forbidden[first, second] = forbidden[second, first] = True
    margin = tables.estimate.value[0, at] / n
    for x, i in enumerate(released.tabular):
        np.fill_diagonal(pairs[spans[x], spans[x]], margin[spans[x]])
        for y, j in enumerate(released.tabular):
            if x < y and released.has_table(i, j):
                first, second = spans[x], spans[y]
                possible, known = ~forbidden[first, second], pairs[first, second]
                table = fit_margins(known, margin[first], margin[second], FITTING_STEPS, possible.astype(np.float64))
                pairs[first, second], pairs[second, first] = table, table.T
                wanted[first, second], wanted[second, first] = possible, possible.T
    return TargetTables(spans, pairs, wanted, forbidden)


def _certificate(tables: Tables, target: TargetTables, model: PairModel) -> Certificate:
    released, layout, n = tables.released, tables.released.layout, tables.released.n
    distances, squares, cells = [], 0.0, 0
    place = dict(zip(released.tabular, target.spans, strict=True))
    for i, j in released.tables:
        own = model.tables[place[i], place[j]]
        distances.append(0.5 * float(np.abs(own - target.pairs[place[i], place[j]]).sum()))
        rows, columns = layout.span(i), layout.span(j)
        gap = (own * n - released.moments.value[rows, columns]) / released.moments.std[rows, columns]
        squares, cells = squares + float((gap**2).sum()), cells + gap.size
    # Without a table of two columns the margins are met, and nothing else is asked for.
    return Certificate(float(np.mean(distances)), float(np.sqrt(squares / cells))) if cells else Certificate(0.0, 0.0)


def _require_possible(fitted: FittedRelease, fixed: Mapping[int, int]) -> None:
    target, released = fitted.target, fitted.released
    for k, level in fixed.items():
        for other, at in fixed.items():
            row, column = target.spans[k].start + level, target.spans[other].start + at
            if target.impossible[row, column] or target.pairs[row, column] * released.n < 1e-3:
                spans = (released.layout.span(fitted.columns[c]).start + v for c, v in ((k, level), (other, at)))
                names = [released.layout.names[at] for at in spans]
                both = names[0] if k == other else " and ".join(names)
                raise ReleaseError(f"no record has {both}, by this release: the condition has probability 0")


def _relative(law: LabelDistribution, model: PairModel, levels: Levels, fixed: Mapping[int, int]) -> Floats:
    """Weights of records drawn with a given label by the model, where the label has a law of its own."""
    if law.column not in fixed:
        return np.ones(len(levels))
    own = model.conditional(law.column, levels)[:, fixed[law.column]]
    wanted = expit(law.odds(levels) * (1.0 if fixed[law.column] == 1 else -1.0))
    ratio = wanted / np.maximum(own, 1e-12)
    result: Floats = np.clip(ratio / ratio.mean(), 1.0 / HEAVIEST, HEAVIEST)
    return result


def _raked(target: TargetTables, levels: Levels, law: LabelDistribution | None) -> Floats:
    """Weights of drawn records under which they have the target's tables, as far as moderate weights can.

    A label that has a law of its own keeps it: of its tables the margins alone are met.
    """
    weights = np.full(len(levels), 1.0 / len(levels))
    small = 1.0 / len(levels)
    for _ in range(RAKING_SWEEPS):
        for x, first in enumerate(target.spans):
            for y in range(x + 1, len(target.spans)):
                second = target.spans[y]
                if target.wanted[first, second].any() and (law is None or law.column not in (x, y)):
                    size = second.stop - second.start
                    cells = levels[:, x] * size + levels[:, y]
                    # Half a step: tables that disagree would swing the weights.
                    weights = rake(weights, cells, target.pairs[first, second], 0.5, small)
        weights = np.clip(weights / weights.sum(), 1 / (HEAVIEST * len(levels)), HEAVIEST / len(levels))
    for _ in range(RAKING_SWEEPS):
        for x, span in enumerate(target.spans):
            weights = rake(weights, levels[:, x], target.margin[span])
    result: Floats = weights / weights.sum()
    return result
