"""What a plan's noise will do to the model, predicted from public facts before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from colonnade.foundation.columns import Column
from colonnade.foundation.names import Name
from colonnade.foundation.shown import rounded
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.objective import Calibration, Task, monomial
from colonnade.mechanism.plan import PrivacyPlan
from colonnade.mechanism.table_error import TableForecast, forecast_distance

LABEL_SPREAD = {Task.LOGISTIC: 1.0, Task.MULTINOMIAL: 1.0, Task.LINEAR: 1 / sqrt(3)}
"""Standard deviation taken for a label in [-1, 1]: balanced classes, or uniform values.

Of k balanced classes k - 1 directions carry signal, n^2 (k - 1) / k in all, and noise (k - 1) s^2: k s^2 over n^2, as
the sum over k coordinates says.
"""


LARGEST_FLOAT = 700.0
"""An epsilon from which on e^epsilon, the factor on the odds of a guess, is larger than what a computer can write."""
MANY_LEVELS = 100
"""Levels of a column from which on a plan warns."""
NARROW = 0.1
"""The part of its bounds that a numeric feature is taken to fill: what data do is no public fact, and studies leave
room. A label's bounds are known better: adult-hours, hotel and chem fill theirs evenly, or nearly so."""
HALVED = 1.1
"""Noise against signal, at that filling and with equally common classes, at which half is left."""
SPREAD = 7 / 3
"""How much more or less noise a study may stand than that. With 1/(1 + r), for columns tell by orders
of magnitude apart, four of five releases of the development panel lie in this range, which is .4 wide at most."""
RARITY = 0.75
"""How noise against signal grows with how rare a class is: by its variance, and by what columns tell of it."""
BALANCED = (0.5, 0.5)
HOPELESS = 0.15
"""A share that is left, below which a plan warns."""


class Share(NamedTuple):
    """What noise leaves of what the columns could explain; the trivial model has 0."""

    low: float
    middle: float
    high: float


def hides_nobody(epsilon: float) -> str:
    """What an epsilon is that is for simulations alone."""
    return f"epsilon={epsilon:g} hides nobody: the odds of any guess about a record may grow beyond all numbers"


@dataclass(frozen=True)
class Forecast:
    """Noise against signal on the products with the label, and what it leaves.

    How far data fill their bounds, or are cut off by them, is no public fact: no forecast knows it.
    """

    noise_to_signal: float | None
    """If columns fill their bounds evenly: above 1 the noise on X'y is as large as the largest possible signal. None
    when n is not known, or margins alone are released."""
    rows_needed: int
    """The n at which the ratio is 1."""
    narrow: float | None = None
    """The same ratio if every numeric feature fills a tenth of its bounds."""
    classes: tuple[float, float] = BALANCED
    """Between these lies the share of one of the label's two classes."""

    @property
    def left(self) -> Share | None:
        """The range of the share that the noise leaves; a forecast, not a promise."""
        return None if self.narrow is None else share_left(self.narrow, self.classes)

    @property
    def explained(self) -> float | None:
        """The middle of it."""
        return None if (left := self.left) is None else left.middle

    def describe(self) -> dict[str, Any]:
        """For a JSON object."""
        left = self.left
        return {
            "noise_to_signal": self.noise_to_signal,
            "explained": self.explained,
            "explained_range": left and [left.low, left.high],
            "rows_needed": self.rows_needed,
            "if_a_tenth": {"noise_to_signal": self.narrow, "explained": self.explained},
        }

    @property
    def hopeless(self) -> bool:
        left = self.left
        return left is not None and left.middle < HOPELESS


def share_left(ratio: float, classes: tuple[float, float] = BALANCED) -> Share:
    """What noise leaves; `ratio` is noise against signal where numeric features fill a tenth of their bounds."""
    rarer, commoner = sorted(4 * p * (1 - p) for p in classes)
    if classes[0] < 0.5 < classes[1]:
        commoner = 1.0

    def left(noise: float, variance: float) -> float:
        return float(1 / (1 + noise / (HALVED * variance**RARITY)))

    return Share(left(ratio * SPREAD, rarer), left(ratio, sqrt(rarer * commoner)), left(ratio / SPREAD, commoner))


def best_columns(columns: int, ratio: float) -> int:
    """Of how many columns products with the label should be released in pure epsilon.

    `ratio` is noise against signal with all of them. If columns tell alike, a part f of them has noise f times as large
    and carries f of the signal, which leaves f / (1 + f^2 ratio^2): most at f = 1 / ratio. Gaussian noise grows with
    the root of f alone, and all columns are best.
    """
    part = min(1.0, max(1 / columns, 1 / ratio)) if ratio > 0 else 1.0
    return max(1, round(columns * part))


def forecast_tables(plan: PrivacyPlan, n: int) -> TableForecast | None:
    """Expected distance of tables of two columns; None where fewer than two columns have levels."""
    layout = plan.layout
    numeric = plan.task is Task.LINEAR
    tables = [
        i
        for i, a in enumerate(layout.attributes)
        if a.kind is Encoding.SIMPLEX and not (numeric and a.role is Role.LABEL)
    ]
    if len(tables) < 2 or plan.calibration is Calibration.PAPER:
        return None
    std = np.full((len(layout.attributes), len(layout.attributes)), np.inf)
    alone = np.full(len(layout.attributes), np.inf)
    for item in plan.blocks:
        if not item.block.summed:
            left, right = layout.pairs_of(item.block.factors)
            noise = plan.noise_std(item) / float(np.abs(item.block.weights).max()) / n
            std[left, right] = std[right, left] = noise
            alone[layout.alone_of(item.block.factors)] = noise
    sizes = np.array([layout.attributes[i].size for i in tables], dtype=np.int64)
    return forecast_distance(sizes, std[np.ix_(tables, tables)], alone[tables])


def forecast(
    plan: PrivacyPlan,
    n: int | None,
    filled: Mapping[Name, float] | None = None,
    classes: tuple[float, float] = BALANCED,
) -> Forecast:
    """In whitened coordinates the signal's norm is at most n sd(y); the noise's is sqrt(sum of std^2 / variance).

    Second moments are taken as 1/3 for a signed coordinate and 1/m for one of m levels. `filled` says of attributes by
    name how much wider or narrower their values are than others', beside their bounds.
    """
    if plan.task is Task.POLYNOMIAL:
        return _forecast_objective(plan, n)
    layout = plan.layout
    spread, narrow = np.ones(layout.width), np.ones(layout.width)
    for i, attribute in enumerate(layout.attributes):
        signed = attribute.kind is Encoding.SIGNED
        part = (filled or {}).get(attribute.of, 1.0)
        spread[layout.span(i)] = min(1.0, part) ** 2 / 3 if signed else 1 / attribute.size
        narrow[layout.span(i)] = min(1.0, NARROW * part) ** 2 / 3 if signed else 1 / attribute.size
    for coordinate, factors in enumerate(layout.factors):
        if len(factors) > 1:
            spread[coordinate], narrow[coordinate] = (np.prod(s[list(factors)]) for s in (spread, narrow))
    label = np.zeros(layout.width, dtype=bool)
    label[layout.span(layout.label)] = True
    variance = np.zeros(layout.width)
    for item in plan.blocks:
        if item.block.role is not Role.LABEL:
            continue
        std = plan.noise_std(item) / np.abs(item.block.weights)
        left, right = item.block.factors[:, -2], item.block.factors[:, -1]
        feature = np.where(label[right], left, right)
        # Class-split halves are two noisy numbers for one product with y in [-1, 1]: their difference.
        np.add.at(variance, feature, std**2)
    used = list(layout.features)
    if not any(layout.pairs_of(item.block.factors)[0].size for item in plan.blocks):
        return Forecast(None, 0)
    noise, louder = (sqrt(float((variance[used] / s[used]).sum())) for s in (spread, narrow))
    spread_y = LABEL_SPREAD[plan.task] if plan.calibration is Calibration.EXACT or plan.task is Task.LINEAR else 1.0
    if plan.task is Task.LINEAR:
        spread_y *= min(1.0, (filled or {}).get(layout.attributes[layout.label].of, 1.0))
    return Forecast(
        None if not n else noise / (n * spread_y),
        int(np.ceil(noise / spread_y)),
        None if not n else louder / (n * spread_y),
        classes,
    )


def mean_noise(plan: PrivacyPlan, n: int) -> float | None:
    """Standard deviation of the noise on a numeric label's mean, as a share of its bounds; None where it is not known.

    Of the halves (1-y)/2 and (1+y)/2 the second one's sum is released, and the first one's follows.
    """
    if plan.task is not Task.LINEAR:
        return None
    layout, attribute = plan.layout, plan.layout.attributes[plan.layout.label]
    at = layout.span(layout.label).stop - 1
    for item in plan.blocks:
        factors = item.block.factors
        hit = (factors[:, -2] == 0) & (factors[:, -1] == at) & (not item.block.summed)
        if hit.any():
            std = plan.noise_std(item) / abs(float(item.block.weights[hit][0]))
            return std / n if attribute.kind is Encoding.SIMPLEX else 0.5 * std / n
    return None


def mean_noise_text(share: float, name: str, column: Column) -> str:
    """The noise on a label's mean in the label's own units, for a person."""
    low, high = column.require_bounds()
    days = " days" if column.dated else ""
    return (
        f"noise alone moves the mean of {name} by about {rounded(share * (high - low))}{days} (its bounds are "
        f"{column.write(low)} to {column.write(high)}): if {name} varies less than that, it needs narrower bounds"
    )


def _forecast_objective(plan: PrivacyPlan, n: int | None) -> Forecast:
    """Noise on all terms of a declared objective together, against their own root mean square times n."""
    noise, signal, narrow = 0.0, 0.0, 0.0
    for item in plan.blocks:
        noise += item.block.size * plan.noise_std(item) ** 2
        for term, weight in zip(item.block.factors, item.block.weights, strict=True):
            factors = Counter(monomial(plan.layout, term))
            numbers = {c: k for c, k in factors.items() if plan.layout.is_number(c)}
            mean = float(weight) ** 2 * prod(1 / (2 * k + 1) for k in numbers.values())
            mean /= prod(plan.layout.attribute_at(c).size for c in factors if c not in numbers)
            signal += mean
            narrow += mean * NARROW ** (2 * sum(numbers.values()))
    loud, largest, least = sqrt(noise), sqrt(signal), sqrt(narrow)
    return Forecast(
        None if not n else loud / (n * largest), int(np.ceil(loud / largest)), None if not n else loud / (n * least)
    )


def degree_of(plan: PrivacyPlan) -> int:
    """The most coordinates that a released product has."""
    return max(len(monomial(plan.layout, term)) for item in plan.blocks for term in item.block.factors)


def objective_note(plan: PrivacyPlan, n: int) -> str:
    """What a declared objective releases, and its noise beside what is summed."""
    count, owners = sum(item.block.size for item in plan.blocks), max(len(item.block.owners) for item in plan.blocks)
    noise = _forecast_objective(plan, n).noise_to_signal
    return (
        f"the objective has {count:,} sums of products of up to {degree_of(plan)} columns and {owners} owners; noise "
        f"on all of them is {noise:.3g} times what evenly filled columns would give"
    )


def order_warning(order: int, plan: PrivacyPlan, lower: PrivacyPlan, n: int) -> list[str]:
    """What a higher order costs in coefficients and noise, and whether a lower one is expected to do better."""
    count, less = (sum(item.block.size for item in p.blocks) for p in (plan, lower))
    owners = max(len(item.block.owners) for item in plan.blocks)
    noise, lower_noise = (forecast(p, n).noise_to_signal or 0.0 for p in (plan, lower))
    told = (
        f"order {order} releases {count:,} numbers with products of up to {owners} owners, order 2 {less:,}: noise is "
        f"{noise:.3g} times the signal, with order 2 {lower_noise:.3g} times"
    )
    # The solver refits the logistic link on moments of order 2: order 4 is seldom better, docs/results/interactions.md.
    return [f"{told}; order 2 is expected to do better" if lower_noise <= noise else told]


def heavy_columns(plan: PrivacyPlan, n: int) -> list[str]:
    """A sentence for each column of so many levels that most of them have few records."""
    stds = [plan.noise_std(i) for i in plan.blocks if i.block.role is Role.LABEL and not i.block.summed]
    return [
        f"column {plan.layout.columns[i]} has {a.size} levels, about {n / a.size:.3g} records each, "
        f"under noise of standard deviation {max(stds):.3g}: rare levels cannot be told apart; group them, or "
        "declare the common ones with other = true"
        for i, a in enumerate(plan.layout.attributes)
        if a.size >= MANY_LEVELS and a.role is Role.FEATURE and stds
    ]
