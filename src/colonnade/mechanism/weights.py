"""Which blocks deserve less noise, from public facts: chosen to minimise the predicted risk of the model.

The noise that reaches the weights is that of X'y plus that of X'X times w. What the solver does not believe it shrinks,
so an error of X'X is never larger than what the features' dependence could be. With unknown correlations r and a weak
model, per record and attribute pair:

    risk = s_y^2 / 2 + sum_j w_j^2 E_r[ s_x^2 D / (s_x^2 + D) ],   D = r^2 v_i v_j,   w_j^2 = R^2 v_y / (d v_j)

The same risk, with all of D where a pair is not released, says which release pays. The guesses below are the only
constants. That of r was made on the development panel (docs/results/panel.md): the root mean square correlation of two
columns' levels has there a median of .04 and lies between .004 and .4 in four of five pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Distribution, Encoding, Floats, Layout, Role
from colonnade.mechanism.table_error import TableForecast, forecast_distance

Mask = NDArray[np.bool_]

EXPLAINED = 0.1
"""Guess of R^2: a weak model, since errors of X'X matter only as far as it is strong."""
CORRELATIONS = np.geomspace(0.003, 0.5, 21)
"""Guess of r: every order of magnitude is equally likely."""
LABEL_VARIANCE = 0.25
"""Variance of a balanced label in [0, 1]."""
RATIOS = np.geomspace(1.0, 32.0, 41)  # weights tried, 9% apart: the risk is flat near its least
SIGNED_VARIANCE = 1 / 3  # of a number that fills its bounds evenly
NARROW_VARIANCE = SIGNED_VARIANCE / 10
"""Guess for a number whose square is wanted: in the middle, on the log scale, of one that fills its bounds evenly and
one that fills a tenth of them."""


def label_weight(
    layout: Layout,
    law: Distribution,
    rows: int | None = None,
    budget: Fraction | float | None = None,
    pairs: int | None = None,
) -> float:
    """Weight (inverse noise scale) of label blocks relative to feature blocks, of least predicted risk.

    `budget` is epsilon for Laplace and rho for Gaussian; without it or `rows` the noise is taken as small. `pairs` says
    how many pairs of feature attributes are released; without it all are.
    """
    if layout.any_terms:
        # Each term of a declared objective has a weight of its own.
        return 1.0
    variances, members = _typical(layout)
    if members.size == 0 or len(np.unique(members)) < 2:
        return 1.0
    return _least_risk(variances.tobytes(), members.tobytes(), law, _scale(law, rows, budget), pairs)


def _scale(law: Distribution, rows: int | None, budget: Fraction | float | None) -> float:
    """Of the noise of what moves by 1, per record; small where n or the budget is not known."""
    return 1e-6 if rows is None or budget is None else 1.0 / (rows * float(budget) ** (1 / law.norm))


def _budget(law: Distribution, epsilon: float, delta: float) -> float:
    """Epsilon for Laplace, rho for Gaussian."""
    return epsilon if law is Distribution.LAPLACE else float(gaussian_rho(epsilon, delta))


def _std(law: Distribution, scale: float, moved: float) -> float:
    """Of the noise on a table of weight 1; `moved` adds up the weights of all, to the power of the norm.

    Each table moves by 2 in L1 and by sqrt 2 in L2, those of two features count twice.
    """
    return float(np.sqrt(2.0) * scale * moved if law is Distribution.LAPLACE else scale * np.sqrt(0.5 * moved))


@lru_cache(maxsize=64)
def _least_risk(variances_: bytes, members_: bytes, law: Distribution, scale: float, pairs: int | None) -> float:
    """The ratio of least risk; a draft and its plan ask for the same."""
    variances, members = np.frombuffer(variances_), np.frombuffer(members_)
    risks = [_risk(variances, members, law, float(ratio), scale, pairs) for ratio in RATIOS]
    return float(RATIOS[int(np.argmin(risks))])


def _typical(layout: Layout) -> tuple[Floats, Floats]:
    """Variances of all feature coordinates if levels were equally common and numbers uniform; their attributes."""
    variances: list[float] = []
    members: list[float] = []
    for i, attribute in enumerate(layout.attributes):
        if attribute.role is Role.FEATURE and not attribute.sum_only:
            share = 1.0 / attribute.size
            own = share * (1.0 - share) if attribute.kind is Encoding.SIMPLEX else SIGNED_VARIANCE
            variances += [own] * attribute.size
            members += [float(i)] * attribute.size
    return np.array(variances), np.array(members)


def pair_count(layout: Layout, blocks: Sequence[Block]) -> int | None:
    """How many pairs of feature attributes are released; None where it is all of them or none, as in a trace."""
    if not any(b.squares for b in blocks) and not layout.classes:
        return None
    found: set[int] = set()
    for block in blocks:
        if block.role is Role.FEATURE and not block.squares:
            pair = layout.attribute_of[block.factors[:, -2:]]
            found.update(np.unique(pair.min(axis=1) * len(layout.attributes) + pair.max(axis=1)).tolist())
    return len(found)


def has_sizes(layout: Layout) -> bool:
    """Whether all features have levels, and tables of so different sizes that their noise should differ.

    A number has no size: it may tell as much as a column of many levels.
    """
    features = [a for a in layout.attributes if a.role is Role.FEATURE]
    if layout.any_terms or any(a.kind is not Encoding.SIMPLEX for a in features):
        return False
    return len(np.unique(table_weight(np.array([2 * a.size for a in features]), 1.0))) > 1


def size_powers(
    layout: Layout,
    blocks: Sequence[Block],
    law: Distribution,
    ratio: float,
    rows: int | None,
    budget: Fraction | float | None,
) -> tuple[float, float]:
    """The powers of its cells that the weight of a label table and of a pair's table go with, of least predicted risk.

    A table of many levels has many weights of the model to tell, each from few records. `ratio` is the weight of label
    tables relative to pairs where both are of middle size.
    """
    if not any(b.cells for b in blocks) or not has_sizes(layout):
        return 0.0, 0.0
    paired = any(b.role is Role.FEATURE and not b.squares and not b.summed for b in blocks)
    kinds = _Kinds.of(layout) if paired else replace(_Kinds.of(layout), paired=False)
    scale = _scale(law, rows, budget)
    return min(product(POWERS, POWERS), key=lambda powers: kinds.risk(law, ratio, scale, powers))


@dataclass(frozen=True)
class _Kinds:
    """Features by their size: how many there are of each, and what their tables look like."""

    sizes: Floats
    counts: Floats
    variances: Floats
    classes: int
    paired: bool = True
    """Whether tables of two features are released."""

    @classmethod
    def of(cls, layout: Layout) -> _Kinds:
        features = [a for a in layout.attributes if a.role is Role.FEATURE]
        sizes, counts = np.unique(np.array([a.size for a in features], dtype=np.float64), return_counts=True)
        variances = (1.0 - 1.0 / sizes) / sizes
        return cls(sizes, counts.astype(np.float64), variances, layout.attributes[layout.label].size)

    @property
    def label_cells(self) -> Floats:
        return table_weight((self.classes * self.sizes).astype(np.int64), 1.0)

    @property
    def pair_cells(self) -> Floats:
        return table_weight(np.outer(self.sizes, self.sizes).astype(np.int64), 1.0)

    @property
    def pairs(self) -> Floats:
        """Ordered pairs of two features, by their kinds."""
        result: Floats = np.outer(self.counts, self.counts) - np.diag(self.counts)
        return result * self.paired

    @property
    def middle(self) -> tuple[float, float]:
        """Cells, on the scale of powers of four, of a middle label table and of a middle table of two features."""
        label = float(np.average(np.log(self.label_cells), weights=self.counts))
        pair = float((np.log(self.pair_cells) * self.pairs).sum()) / max(float(self.pairs.sum()), 1.0)
        return float(np.exp(label)), float(np.exp(pair))

    def risk(self, law: Distribution, ratio: float, scale: float, powers: tuple[float, float]) -> float:
        """Predicted risk, in units of explained variance, with tables weighted by powers of their cells."""
        middle = self.middle
        label, pair = ratio * (self.label_cells / middle[0]) ** powers[0], (self.pair_cells / middle[1]) ** powers[1]
        labelled, paired = float(self.counts @ label**law.norm), float((self.pairs * pair**law.norm).sum())
        std = _std(law, scale, 2.0 * labelled + paired)
        # Every feature explains as much, whatever its size.
        coordinates = float(self.counts.sum()) * self.sizes
        noise = (std / pair) ** 2
        dependence = CORRELATIONS[:, None, None] ** 2 * np.outer(self.variances, self.variances)
        left = (noise * dependence / (noise + dependence)).mean(axis=0)
        squares = EXPLAINED * LABEL_VARIANCE / (self.variances * coordinates)
        others = (self.pairs * left) @ (self.sizes * squares) / self.counts
        # What one level of a weak model can lose is no more than it explains.
        worth = EXPLAINED * LABEL_VARIANCE * self.variances / coordinates
        lost = 0.5 * (std / label) ** 2
        own = lost * worth / (lost + worth)
        return float((self.counts * self.sizes * (own + others) / self.variances).sum())


def block_weights(
    layout: Layout,
    blocks: Sequence[Block],
    label: float,
    moved: Callable[[Sequence[Block], Sequence[float]], float],
    powers: tuple[float, float] = (0.0, 0.0),
) -> list[Fraction]:
    """How much less noise each block gets where a label is modelled and its own get `label`.

    Those of blocks by the size of tables go with `powers` of it (label, pairs). Sums of squares: each kind of them
    moves by 1/16 of the label blocks.
    """
    rates = _rates(layout, blocks, label, powers)
    labels = [b for b in blocks if b.role is Role.LABEL and not b.summed]
    if not labels:
        return [Fraction(1)] * len(blocks)
    coarse: dict[Role, Fraction] = {}
    for role in Role:
        alike = [b for b in blocks if b.summed and b.role is role]
        if alike:
            whole = moved(labels, [float(rates[id(b)]) for b in labels])
            summed = moved(alike, [1.0] * len(alike))
            coarse[role] = Fraction(whole / (16 * summed)).limit_denominator(2**16)
    heavier = Fraction(label).limit_denominator(64)
    square = Fraction(square_weight(layout)).limit_denominator(64) * heavier
    return [coarse[b.role] if b.summed else square if b.squares else rates[id(b)] for b in blocks]


def _rates(layout: Layout, blocks: Sequence[Block], label: float, powers: tuple[float, float]) -> dict[int, Fraction]:
    """The weight of every block of products, by its role and the size of its tables."""
    middle = _Kinds.of(layout).middle if any(powers) else (1.0, 1.0)
    rates = {}
    for block in blocks:
        labelled = block.role is Role.LABEL
        size = (block.cells or 1) / middle[0 if labelled else 1]
        by_size = size ** powers[0 if labelled else 1] if block.cells else 1.0
        rates[id(block)] = Fraction((label if labelled else 1.0) * by_size).limit_denominator(64)
    return rates


def square_weight(layout: Layout) -> float:
    """Weight of squares of numbers that stand in a block of their own, relative to label blocks.

    A square that is wrong by e makes the loss larger by w_j^2 e^2, noise s on a label-split sum by s^2 / 2. With x the
    weight of q squares beside p label tables the risk is (2p + qx)^2 (p/2 + q w^2 / x^2), least near x = (4 w^2)^(1/3).
    """
    features = sum(a.size for a in layout.attributes if a.role is Role.FEATURE)
    square = EXPLAINED * LABEL_VARIANCE / (features * NARROW_VARIANCE)
    return float(min(1.0, (4.0 * square) ** (1 / 3)))


def _risk(
    variances: Floats, members: Floats, law: Distribution, ratio: float, scale: float, pairs: int | None = None
) -> float:
    """Predicted risk, in units of explained variance, where every attribute pair moves by at most 2 (L1) or sqrt 2."""
    p = len(np.unique(members))
    tables = p * (p - 1.0) if pairs is None else 2.0 * pairs
    std = _std(law, scale, 2.0 * p * ratio**law.norm + tables)
    risks = _label_risk(variances, std / ratio) + _pair_risk(variances, members, std)
    return float((risks / variances).sum())


def _label_risk(variances: Floats, std: float) -> Floats:
    label = 0.5 * std**2
    ceiling = LABEL_VARIANCE * variances
    shrunk: Floats = label * ceiling / (label + ceiling)
    return shrunk


def _pair_risk(variances: Floats, members: Floats, std: float) -> Floats:
    """That of errors of X'X; an infinite `std` stands for pairs that are not released."""
    dependence, weight, others = _pairs_alike(variances.tobytes(), members.tobytes())
    left = dependence if np.isinf(std) else std**2 * dependence / (std**2 + dependence)
    risk: Floats = left.mean(axis=0) @ weight * others
    return risk


@lru_cache(maxsize=8)
def _pairs_alike(variances_: bytes, members_: bytes) -> tuple[Floats, Floats, Floats]:
    """What products of two coordinates may tell by dependence, what errors of them weigh, and the part across pairs."""
    variances, members = np.frombuffer(variances_), np.frombuffer(members_)
    squares = EXPLAINED * LABEL_VARIANCE / (variances * variances.size)
    # Coordinates with the same variance are alike: average over the distinct ones, weighted by their number.
    kinds, counts = np.unique(variances, return_counts=True)
    weight = EXPLAINED * LABEL_VARIANCE / (kinds * variances.size) * counts
    dependence = CORRELATIONS[:, None, None] ** 2 * variances[None, :, None] * kinds[None, None, :]
    # An attribute has no unknown products with itself.
    _, place = np.unique(members, return_inverse=True)
    own = np.bincount(place, squares)[place]
    return dependence, weight, 1.0 - own / squares.sum()


def release_risks(layout: Layout, n: int, law: Distribution, epsilon: float, delta: float) -> dict[str, float]:
    """The predicted risk of a "full" release, and of one of the "label" tables and squares alone."""
    variances, members = _typical(layout)
    scale = _scale(law, n, _budget(law, epsilon, delta))
    full = min(_risk(variances, members, law, float(ratio), scale) for ratio in RATIOS)
    std = _label_std(layout, law, scale)
    label = _label_risk(variances, std) + _pair_risk(variances, members, np.inf)
    return {"full": full, "label": float((label / variances).sum())}


def _label_std(layout: Layout, law: Distribution, scale: float) -> float:
    """Standard deviation, per record, of label-split sums that are released with nothing but squares beside them."""
    features = [a for a in layout.attributes if a.role is Role.FEATURE]
    square = square_weight(layout)
    squares = square * sum(a.kind is Encoding.SIGNED for a in features)
    return _std(law, scale, 2.0 * len(features) + square ** (law.norm - 1) * squares)


POWERS = (-1 / 6, 0.0, 1 / 6, 1 / 3)
"""The same where a label is modelled: where noise drowns large tables, small ones deserve the budget."""
EXPONENTS = (0.0, 1 / 6, 1 / 3, 1 / 2)
"""Powers of a table's cells that its weight may go with; small noise calls for 1/3 (Gaussian) or 1/2 (Laplace)."""


@dataclass(frozen=True)
class TableTerms:
    """What the noise of tables follows from, besides which of them are released."""

    law: Distribution
    rows: int | None
    budget: float
    """Epsilon for Laplace, rho for Gaussian."""
    collusion: int = 1

    def std(self, weight: Floats, released: Floats) -> Floats:
        """Of the noise on tables of these weights, per record, where those that are released have the second ones."""
        # Every table moves by 2 in L1 and by sqrt 2 in L2.
        if self.law is Distribution.LAPLACE:
            found: Floats = np.sqrt(2.0) * 2.0 * released.sum() / (self.budget * weight)
        else:
            found = np.sqrt((released**2).sum() / self.budget) / weight
        return found

    def crossed(self, parties: int) -> float:
        """How much larger the noise is on tables across parties, whose shares are more than needed."""
        return float(np.sqrt(parties / max(1, parties - self.collusion)))

    @property
    def records(self) -> float:
        """Without n the noise is taken as small."""
        return float(self.rows or 10**12)


def table_weights(layout: Layout, blocks: Sequence[Block], terms: TableTerms) -> list[Fraction]:
    """How much less noise each block gets where all columns matter alike: the larger its tables, the less.

    Tables with the label are tables like all others.
    """
    released = np.zeros((len(layout.attributes), len(layout.attributes)), dtype=bool)
    for block in blocks:
        left, right = layout.pairs_of(block.factors)
        released[left, right] = released[right, left] = True
    np.fill_diagonal(released, val=False)
    power = table_exponent(layout, released, terms) if released.any() else margins_exponent(terms)
    cells = np.array([b.cells or 1 for b in blocks])
    return [Fraction(float(w)).limit_denominator(64) for w in table_weight(cells, power)]


def has_tables(layout: Layout) -> bool:
    """Whether two columns or more have levels."""
    return sum(a.kind is Encoding.SIMPLEX for a in layout.attributes) >= 2


def table_exponent(layout: Layout, released: Mask, terms: TableTerms) -> float:
    """The power of a table's cells that its weight goes with, of least expected distance over all tables."""
    if not has_tables(layout):
        return EXPONENTS[0]
    return min(EXPONENTS, key=lambda power: forecast_released(layout, released, terms, power).expected)


def forecast_released(layout: Layout, released: Mask, terms: TableTerms, power: float) -> TableForecast:
    """What tables come to where those of `released` pairs of attributes are released, weighted by that power."""
    sizes = np.array([a.size for a in layout.attributes], dtype=np.int64)
    owners = np.array([layout.owners.index(a.owner) for a in layout.attributes])
    weight = table_weight(np.outer(sizes, sizes), power)
    std = terms.std(weight, weight[np.triu(released, 1)])
    std = np.where(owners[:, None] == owners, 1.0, terms.crossed(len(layout.owners))) * std / terms.records
    tables = np.array([a.kind is Encoding.SIMPLEX for a in layout.attributes])
    return forecast_distance(sizes[tables], np.where(released, std, np.inf)[np.ix_(tables, tables)])


def margins_exponent(terms: TableTerms) -> float:
    """The same for margins by themselves: a sum of levels times noise is least there, whatever the noise."""
    return 1 / 2 if terms.law is Distribution.LAPLACE else 1 / 3


def forecast_margins(layout: Layout, terms: TableTerms) -> TableForecast:
    """What tables come to where margins alone are released, and columns are taken as independent."""
    sizes = np.array([a.size for a in layout.attributes], dtype=np.int64)
    weight = table_weight(sizes, margins_exponent(terms))
    alone = terms.std(weight, weight) / terms.records
    return forecast_distance(sizes, np.full((len(sizes), len(sizes)), np.inf), alone)


def table_weight(cells: NDArray[np.int64], power: float) -> Floats:
    """The weight of tables: a power of the least power of four that is no less than their cells."""
    powers = 4 ** np.arange(31)
    result: Floats = powers[np.searchsorted(powers, cells)].astype(np.float64) ** power
    return result


def choose_tables(layout: Layout, terms: TableTerms, *, counted: bool = True) -> str:
    """Which release serves all columns best.

    "full"; "label" where tables of all pairs would drown each other; "margins" where those with the label would, too,
    if the label is `counted`, by levels.
    """
    size = len(layout.attributes)
    every = ~np.eye(size, dtype=bool)
    star = np.zeros((size, size), dtype=bool)
    star[layout.label] = star[:, layout.label] = True
    star[layout.label, layout.label] = False
    if not has_tables(layout):
        return "full"
    found = {}
    if counted and all(a.kind is Encoding.SIMPLEX for a in layout.attributes):
        found["margins"] = forecast_margins(layout, terms).expected
    for name, released in (("full", every), ("label", star)):
        power = table_exponent(layout, released, terms)
        found[name] = forecast_released(layout, released, terms, power).expected
    return min(found, key=lambda name: found[name])


DROWNED = 10.0  # of noise on the label's tables beside its variance; up to 8, models were better without pairs


def choose_release(layout: Layout, n: int, law: Distribution, epsilon: float, delta: float) -> str:
    """Which release pays: "full" products, the "label" tables alone, or "trace" (X'y and a sum of squares).

    The noise of a full release has spectral norm about 2 std sqrt(d); where that is above the variance of a typical
    coordinate, n/3, the solver could not tell X'X from a multiple of the identity, and not releasing it leaves the
    whole budget to X'y. Only numeric features have a trace; others are left out where their predicted risk says so.
    Where label tables would tell nothing at all, all products are released: they cost nothing that was there.
    """
    features = [a for a in layout.attributes if a.role is Role.FEATURE]
    if len(features) < 2:
        return "full"
    if any(a.kind is Encoding.SIMPLEX for a in features):
        variances, _ = _typical(layout)
        std = _label_std(layout, law, _scale(law, n, _budget(law, epsilon, delta)))
        if float((0.5 * std**2 / variances).sum()) >= DROWNED * LABEL_VARIANCE:
            return "full"
        risks = release_risks(layout, n, law, epsilon, delta)
        return "label" if risks["label"] < risks["full"] else "full"
    d = len(features)
    pairs = d * (d + 1) / 2
    budget = _budget(law, epsilon, delta)
    std = np.sqrt(2.0) * pairs / budget if law is Distribution.LAPLACE else np.sqrt(pairs / budget)
    return "trace" if 2.0 * std * np.sqrt(d) > SIGNED_VARIANCE * n else "full"
