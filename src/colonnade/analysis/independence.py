"""Which columns depend on each other: a test that knows the noise, mutual information, and the dependence tree.

A chi-square test on denoised tables has no valid level. Here the statistic is compared with what it would be if the
columns were independent: counts are drawn under independence, noise is drawn by the release's own law, and the same
steps are taken as with the release (parametric Monte-Carlo: Gaboardi, Lim, Rogers & Vadhan 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chndtrinc, gammaincc

from colonnade.analysis.draws import counts, noise, normal, seeded
from colonnade.analysis.mediators import FITTING_STEPS
from colonnade.analysis.tables import NEARLY_ALL, Tables, margin_variance, reach_of, unshrunk_table
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import fit_margins, interaction, onto_simplex

DRAWS = 399
"""Tables drawn under independence: the smallest p-value is 1/400."""
PLAUSIBLE = 100
STRENGTHS = np.linspace(0.0, 4.0, 161)
HIDDEN_STEPS = 10
"""Of proportional fitting, where many tables are fitted, of which a quantile is taken."""
CHANCE = 0.025
"""Where noise alone is likelier than this to look so dependent, the rows may be independent."""
REACH = 2.5
"""Standard deviations around the nearest possible table: more than hold 95 of 100 values, as counts end at 0."""
CLIMBS, STARTS = 12, 12
ALLOWED = 0.02
"""Chance of so small a deviation, where the true one is the largest that is allowed for."""


@dataclass(frozen=True)
class Dependence:
    """How two columns depend: mutual information in nats with a 95% interval, and the p-value of independence."""

    names: tuple[str, str]
    information: float
    low: float
    high: float
    p_value: float
    """Corrected for the number of pairs that were looked at together."""
    top: float
    """The largest mutual information that columns of so many levels can have."""
    pairs: int = 1

    @property
    def known(self) -> bool:
        """Whether the interval leaves out anything: noise beyond the signal allows for all that there can be."""
        return self.low > 0.0 or self.high < NEARLY_ALL * self.top


def mutual_information(table: Floats) -> float:
    """The mutual information of a table of counts or shares, in nats."""
    total = float(table.sum())
    if total <= 0:
        return 0.0
    shares = table / total
    apart = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    inside = (shares > 0) & (apart > 0)
    return max(float((shares[inside] * np.log(shares[inside] / apart[inside])).sum()), 0.0)


def dependence(tables: Tables, i: int, j: int, seed: int = 0, draws: int = DRAWS) -> Dependence:
    """Test two columns and measure how far they depend."""
    return _tested(tables, i, j, seed, draws)[0]


def _tested(tables: Tables, i: int, j: int, seed: int, draws: int) -> tuple[Dependence, Floats]:
    """The same, with how surprising the statistic is and those of tables drawn under independence, in that order."""
    released = tables.released
    cross = tables.cross(i, j)
    randomness = seeded(seed, f"dependence {released.layout.attributes[i].of} {released.layout.attributes[j].of}")
    case = _Case.of(tables, i, j)
    drawn = case.under_independence(randomness, draws)
    seen = float(case.statistic(case.seen, case.down, case.across))
    p_value = (1 + int((drawn >= seen).sum())) / (draws + 1)
    information = mutual_information(cross.count)
    low, high = _strength_interval(case, cross.count, randomness, draws)
    hidden = float(np.quantile(_informations(tables, i, j, randomness, PLAUSIBLE), 0.975))
    local = reach_of(released) * _delta_method(case, cross.count)
    below = max(information - local, 0.0)
    low = min(low, below) if case.noise_alone(randomness, draws) <= CHANCE else 0.0
    above = max(information, _emptied_information(case, cross.count)) + local
    high = max(high, hidden, above, largest_information(case, cross.count, randomness))
    top = float(np.log(min(cross.count.shape)))
    found = Dependence(cross.names, information, low, min(high, top), p_value, top)
    return found, _surprise(np.append(seen, drawn), drawn)


def _surprise(values: Floats, drawn: Floats) -> Floats:
    """How small a chance values have by a gamma law of the drawn ones' mean and variance: minus its logarithm.

    Sums of squares nearly have such a law. It puts the statistics of tables of all sizes on one scale.
    """
    mean, variance = float(drawn.mean()), max(float(drawn.var()), 1e-300)
    chance = gammaincc(mean**2 / variance, values * mean / variance)
    # Beyond what a floating-point number can tell, the larger value is the more surprising one.
    result: Floats = -np.log(np.maximum(chance, 1e-300)) + 1e-9 * values / max(mean, 1e-300)
    return result


def every_dependence(tables: Tables, seed: int = 0, draws: int = DRAWS) -> list[Dependence]:
    """All pairs of columns whose table was released, their p-values corrected for how many these are.

    A pair is compared with the most surprising of all pairs if no two columns depended on each other, draw by draw
    (Westfall & Young 1993): independent columns show one finding at 5% in at most one of twenty releases.
    """
    found = [_tested(tables, i, j, seed, draws) for i, j in tables.released.tables]
    if not found:
        return []
    most = np.max([surprise[1:] for _, surprise in found], axis=0)
    return [
        replace(one, p_value=(1 + int((most >= surprise[0]).sum())) / (draws + 1), pairs=len(found))
        for one, surprise in found
    ]


def dependence_tree(found: Sequence[Dependence]) -> list[Dependence]:
    """The tree of largest total mutual information over all columns (Chow & Liu 1968), strongest edge first."""
    part: dict[str, str] = {}

    def root(name: str) -> str:
        while part.setdefault(name, name) != name:
            name = part[name]
        return name

    edges = []
    for edge in sorted(found, key=lambda d: (-d.information, d.names)):
        first, second = root(edge.names[0]), root(edge.names[1])
        if first != second:
            part[first] = second
            edges.append(edge)
    return edges


@dataclass(frozen=True)
class _Case:
    """One table as released over its combined margins, with all that is known of its noise."""

    n: int
    seen: Floats
    down: Floats
    across: Floats
    std: float
    cell_std: float
    """Of a cell over the combined margins."""
    shape: float
    rest: tuple[float, float]
    """Standard deviations of what other tables say of the two margins."""
    shares: tuple[float, float]
    """Weights of this table in the two combined margins."""

    @classmethod
    def of(cls, tables: Tables, i: int, j: int) -> _Case:
        released, layout = tables.released, tables.released.layout
        rows, columns = layout.span(i), layout.span(j)
        std = float(np.sqrt((released.moments.std[rows, columns] ** 2).mean()))
        seen, spread, _ = unshrunk_table(tables, i, j)
        rest, shares = [], []
        for k, size in ((i, seen.shape[1]), (j, seen.shape[0])):
            whole = float(margin_variance(tables, k).mean()) / (1 - 1 / layout.attributes[k].size)
            share = min(whole / (size * std**2), 1.0)
            shares.append(share)
            rest.append(np.sqrt(whole / max(1.0 - share, 1e-12)) if share < 1.0 - 1e-9 else 0.0)
        margins = tables.estimate.value[0, rows], tables.estimate.value[0, columns]
        cell_std, shape = float(np.sqrt((spread**2).mean())), released.shape(i, j)
        return cls(released.n, seen, *margins, std, cell_std, shape, (rest[0], rest[1]), (shares[0], shares[1]))

    def noisy(self, exact: Floats, randomness: Randomness) -> tuple[Floats, Floats, Floats]:
        """Exact tables (draws x R x C) as a release would show them: over margins combined with other tables'."""
        draws, R, C = exact.shape
        table = exact + self.std * noise(randomness, self.shape, draws, R, C)
        margins = []
        for axis, size, k in ((2, R, 0), (1, C, 1)):
            other = exact.sum(axis=axis) + self.rest[k] * normal(randomness, draws, size)
            margin = self.shares[k] * table.sum(axis=axis) + (1 - self.shares[k]) * other
            margins.append(margin + (self.n - margin.sum(axis=1, keepdims=True)) / size)
        down, across = margins
        whole = interaction(table) + down[:, :, None] / C + across[:, None, :] / R - self.n / (R * C)
        return whole, down, across

    def statistic(self, table: Floats, down: Floats, across: Floats) -> Floats:
        """Squared deviations from independence, each over the variance that counts and noise give it."""
        expected = down[..., :, None] * across[..., None, :] / self.n
        scale = np.maximum(self.down[:, None] * self.across / self.n, 0.0) + self.std**2
        result: Floats = ((table - expected) ** 2 / scale).sum(axis=(-2, -1))
        return result

    def under_independence(self, randomness: Randomness, draws: int) -> Floats:
        """The statistic of tables whose columns are independent."""
        R, C = self.seen.shape
        expected = np.maximum(self.down[:, None] * self.across / self.n, 0.0)
        exact = counts(randomness, expected.ravel(), draws).reshape(draws, R, C)
        return self.statistic(*self.noisy(exact, randomness))

    def noise_alone(self, randomness: Randomness, draws: int) -> float:
        """How often noise makes exactly independent counts look as dependent as the release."""
        exact = np.repeat(np.maximum(self.down[:, None] * self.across / self.n, 0.0)[None], draws, axis=0)
        drawn = self.statistic(*self.noisy(exact, randomness))
        return float((drawn >= self.statistic(self.seen, self.down, self.across)).mean())


def _informations(tables: Tables, i: int, j: int, randomness: Randomness, draws: int) -> Floats:
    """Mutual information of tables that the release leaves plausible.

    The denoised table is the mean of them, and depends less than they do: deviations that noise hides are drawn back.
    """
    layout, value = tables.released.layout, tables.estimate.value
    rows, columns = layout.span(i), layout.span(j)
    spread = tables.estimate.std[rows, columns]
    R, C = spread.shape
    drawn = interaction(spread * normal(randomness, draws, R, C))
    plausible = fit_margins(value[rows, columns] + drawn, value[0, rows], value[0, columns], HIDDEN_STEPS)
    return np.array([mutual_information(table) for table in plausible])


def _strength_interval(case: _Case, count: Floats, randomness: Randomness, draws: int) -> tuple[float, float]:
    """Mutual information where the dependence found is made weaker or stronger, as far as the release is no surprise.

    The rows' own table is taken as independence plus a multiple, from 0 to 4, of the deviation that was found; of the
    deviation as it was seen where the noise left nothing.
    """
    base = np.outer(case.down, case.across) / case.n
    direction = count - base
    if float(np.abs(direction).sum()) < 1e-3 * case.n:
        direction = case.seen - base
    scale = np.maximum(base, 0.0) + case.std**2
    free = interaction(case.std * noise(randomness, case.shape, draws, *base.shape))
    squares = float((direction**2 / scale).sum())
    mixed = (direction * free / scale).sum(axis=(1, 2))
    drawn = STRENGTHS[:, None] ** 2 * squares + 2 * STRENGTHS[:, None] * mixed + (free**2 / scale).sum(axis=(1, 2))
    below = (drawn <= float(((case.seen - base) ** 2 / scale).sum())).mean(axis=1)
    plausible = np.flatnonzero((below >= 0.025) & (below <= 0.975))
    if len(plausible) == 0:
        plausible = np.array([0 if below[0] < 0.025 else int(np.argmin(np.abs(below - 0.5)))])
    directions = STRENGTHS[plausible[[0, -1]], None, None] * direction
    ends = fit_margins(base + directions, case.down, case.across, FITTING_STEPS)
    return mutual_information(ends[0]), mutual_information(ends[1])


def largest_information(case: _Case, count: Floats, randomness: Randomness) -> float:
    """The largest mutual information of tables that the noise could have turned into the one seen.

    Tables within `REACH` standard deviations of the nearest possible one are climbed from several sides (each step goes
    as far as it may along the slope: mutual information is convex for fixed margins). None departs from independence
    by more than the size of the deviation seen allows: many cells of noise look like dependence.
    """
    n, seen = case.n, case.seen.ravel()
    nearest = onto_simplex(seen[None, :], n)[0]
    reach, (R, C) = REACH * case.cell_std, case.seen.shape
    if reach >= np.sqrt(2.0) * n:
        return float(np.log(min(R, C)))
    sides = normal(randomness, STARTS, seen.size)
    sides = reach * sides / np.linalg.norm(sides, axis=1, keepdims=True)
    tables = np.concatenate([nearest[None, :], count.reshape(1, -1), onto_simplex(nearest + sides, n)])
    # A shorter step stays within reach too, and does not end in a corner.
    steps = reach * np.resize([1.0, 0.5, 0.25], (len(tables), 1))
    allowed = _allowed_deviation(case)
    best = [_within_deviation(tables.reshape(-1, R, C), n, allowed)]
    for _ in range(CLIMBS):
        slopes = _slopes(tables.reshape(-1, R, C), n).reshape(tables.shape)
        slopes -= slopes.mean(axis=1, keepdims=True)
        size = np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-12)
        tables = onto_simplex(nearest + steps * slopes / size, n)
        best.append(_within_deviation(tables.reshape(-1, R, C), n, allowed))
    return max(mutual_information(table) for table in np.concatenate(best))


def _emptied_information(case: _Case, count: Floats) -> float:
    """Mutual information if all cells are empty that may well be: together they lie farther out than any one."""
    emptied = np.where(count < 2.0 * REACH * case.cell_std, 0.0, count)
    scaled = emptied[None] * case.n / max(float(emptied.sum()), 1e-12)
    return mutual_information(_within_deviation(scaled, case.n, _allowed_deviation(case))[0])


def _slopes(tables: Floats, n: int) -> Floats:
    """How mutual information rises with each cell; an empty cell counts as half a row."""
    filled = np.maximum(tables, 0.5)
    base = filled.sum(axis=2, keepdims=True) * filled.sum(axis=1, keepdims=True) / n
    slopes: Floats = np.log(filled / np.maximum(base, 1e-12))
    return slopes


def _allowed_deviation(case: _Case) -> float:
    """How large a deviation from independence the release allows for, by the size of the one seen."""
    R, C = case.seen.shape
    seen = case.seen - np.outer(case.down, case.across) / case.n
    squares = float((seen**2).sum()) / case.std**2
    most = float(np.nan_to_num(chndtrinc(squares, (R - 1) * (C - 1), ALLOWED)))
    return case.std * float(np.sqrt(max(most, REACH**2)))


def _within_deviation(tables: Floats, n: int, allowed: float) -> Floats:
    """Tables made more independent where they deviate further than the release allows."""
    base = tables.sum(axis=2, keepdims=True) * tables.sum(axis=1, keepdims=True) / n
    away = tables - base
    size = np.sqrt((away**2).sum(axis=(1, 2), keepdims=True))
    scaled: Floats = base + away * np.minimum(1.0, allowed / np.maximum(size, 1e-12))
    return scaled


def _delta_method(case: _Case, count: Floats) -> float:
    """The standard deviation of the mutual information to first order in the noise of the unshrunk table.

    Of its cells over the combined margins, so that the noise of these counts, too; an empty cell is as large as it.
    """
    base = np.outer(case.down, case.across) / case.n
    slopes = np.log(np.maximum(count, case.cell_std) / np.maximum(base, case.cell_std))
    return float(np.sqrt((slopes**2).sum())) * case.cell_std / case.n
