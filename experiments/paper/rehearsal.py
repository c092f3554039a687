"""A rehearsal against the real fit: `python -m experiments.paper rehearsal`.

Half of a data set is taken as public rows, the other half is the study: 80% of it is fitted through the real protocol
(product "plain": the same roles, messages, noise shares and masks as "lattice"), 20% tests the model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from colonnade.analysis.solve import solve
from colonnade.data.table import Table, table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema, column_from
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.rehearsal import Expectation, Range, foretell, measure, rehearse
from colonnade.simulation import run_unguarded
from experiments.data import Dataset, adult_41, adult_77, adult_hours, cps_wages, partition
from experiments.data.acs import nist_acs
from experiments.data.hard import copies, nested, rare

EPSILONS = (0.1, 1.0, 10.0)
RANGED = 1.0
"""The epsilon at which the schema's ranges are tried."""
RUNS = 10
RELEASES, SPLITS = 4, 4
PARTIES = 2
LIMIT = 0.01
MOST_ROWS = 40_000


def _sex() -> Dataset:
    return replace(nist_acs(), name="NIST ACS, sex", label="SEX")


PUBLIC: dict[str, Callable[[], Dataset]] = {
    "adult-41": adult_41,
    "nested": nested,
    "copies": copies,
}
"""Rehearsed on public rows."""
SCHEMA: dict[str, Callable[[], Dataset]] = {
    **PUBLIC,
    "nist-sex": _sex,
    "adult-77": adult_77,
    "adult-hours": adult_hours,
    "cps-wages": cps_wages,
    "nist-hearing": nist_acs,
    "rare-10%": lambda: rare(share=0.1),
    "rare-1%": rare,
}
"""Foretold from the schema alone."""


@dataclass(frozen=True)
class Line:
    """One data set at one epsilon: what was rehearsed, and what the real fits achieved."""

    data: str
    measure: str
    epsilon: float
    n: int
    rehearsed: float
    spread: float
    real: float
    real_spread: float
    farthest: float
    """Of one rehearsal from the mean of the real fits."""
    trivial: float
    inside: int
    """Real fits within two predicted standard deviations of the predicted mean."""
    runs: int


@dataclass(frozen=True)
class Ranged:
    """One data set at one epsilon: the schema's range, and what the real fits achieved."""

    data: str
    measure: str
    epsilon: float
    low: float
    high: float
    low_share: float
    high_share: float
    """The same where the public share of positive records is stated."""
    real: float
    trivial: float

    @property
    def holds(self) -> bool:
        return self.low <= self.real <= self.high

    @property
    def holds_share(self) -> bool:
        return self.low_share <= self.real <= self.high_share


class Study:
    """A data set as a study of two parties."""

    def __init__(self, dataset: Dataset) -> None:
        features = partition(dataset.features, PARTIES)
        deal = {f"p{k}": [*part, *([dataset.label] if k == 0 else [])] for k, part in enumerate(features)}
        schema = Schema({p: {c: column_from(c, dataset.columns[c]) for c in own} for p, own in deal.items()})
        task = Task(dataset.task)
        self.agreement = Agreement.from_terms(
            dataset.name, schema, dataset.label, task, epsilon=1.0, collusion=1, product="plain"
        )
        frame = dataset.frame.head(MOST_ROWS) if dataset.frame.height > MOST_ROWS else dataset.frame
        self.rows = frame.height
        self.tables = {p: table_from(p, frame.select(own), schema.parties[p]) for p, own in deal.items()}

    def part(self, rows: np.ndarray) -> dict[str, Table]:  # type: ignore[type-arg]
        return {party: table.take(rows) for party, table in self.tables.items()}

    def terms(self, epsilon: float) -> Agreement:
        return self.agreement.with_terms(epsilon=epsilon)


def real_fit(agreement: Agreement, train: dict[str, Table], test: dict[str, Table], seed: bytes) -> dict[str, float]:
    """One fit through the protocol, and its measures on the test rows."""
    outcome = run_unguarded(agreement, train, "none", Randomness(seed))
    return measure(agreement, solve(outcome.release.moments(), agreement.task), test)


def halves(rows: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Public rows, training rows and test rows of one replicate."""
    order = np.random.default_rng([21, number]).permutation(rows)
    public, private = order[: rows // 2], order[rows // 2 :]
    cut = len(private) // 5
    return public, private[cut:], private[:cut]


def public_line(data: str, study: Study, epsilon: float, runs: int) -> Line:
    """Rehearsals on one half against fits on the other, `runs` of each."""
    expected: list[Expectation] = []
    real: list[float] = []
    name = "accuracy" if study.agreement.task is Task.LOGISTIC else "r2"
    for number in range(runs):
        public, train, test = halves(study.rows, number)
        agreement = study.terms(epsilon)
        terms = {"releases": RELEASES, "splits": SPLITS, "clear_splits": 0, "seed": number}
        expected.append(rehearse(agreement, study.part(public), len(train), **terms))
        seed = f"rehearsal {data} {epsilon} {number}".encode()
        real.append(real_fit(agreement, study.part(train), study.part(test), seed)[name])
    means = [e.measures[name].mean for e in expected]
    foretold = [e.measures[name] for e in expected]
    inside = sum(abs(r - q.mean) <= 2 * q.std for q, r in zip(foretold, real, strict=True))
    return Line(
        data,
        name,
        epsilon,
        expected[0].n,
        float(np.mean(means)),
        float(np.mean([e.measures[name].std for e in expected])),
        float(np.mean(real)),
        float(np.std(real)),
        float(max(abs(m - np.mean(real)) for m in means)),
        float(np.mean([e.measures[name].trivial for e in expected])),
        inside,
        runs,
    )


def ranged(data: str, study: Study, epsilon: float, runs: int) -> Ranged:
    """The schema's range against the mean of real fits."""
    agreement = study.terms(epsilon)
    name = "accuracy" if study.agreement.task is Task.LOGISTIC else "r2"
    real, trivial, n = [], [], 0
    for number in range(runs):
        _, train, test = halves(study.rows, number)
        n = len(train)
        unseen = study.part(test)
        real.append(real_fit(agreement, study.part(train), unseen, f"range {data} {epsilon} {number}".encode())[name])
        trivial.append(_trivial(agreement, unseen))
    blind = foretell(agreement, n, releases=1)
    known: Range = blind
    if name == "accuracy":
        known = foretell(agreement, n, share=min(max(_share(agreement, study.tables), 0.001), 0.999), releases=1)
    larger = _trivial(agreement, study.tables)
    # As in the range: the gain over the larger class on the test rows, whose own share is chance.
    achieved = larger + float(np.mean(real)) - float(np.mean(trivial))
    return Ranged(data, name, epsilon, *blind.whole(name), *known.whole(name), achieved, larger)


def _share(agreement: Agreement, tables: dict[str, Table]) -> float:
    party, name = agreement.schema.find(agreement.label)
    return float(np.mean(np.asarray(tables[party].values[name])))


def _trivial(agreement: Agreement, test: dict[str, Table]) -> float:
    if agreement.task is Task.LINEAR:
        return 0.0
    share = _share(agreement, test)
    return max(share, 1 - share)


Keep = Callable[[list[Line], list[Ranged]], None]


def run(data: Sequence[str], epsilons: Sequence[float], runs: int, keep: Keep) -> None:
    """All lines; what is there already is kept after each of them."""
    lines: list[Line] = []
    ranges: list[Ranged] = []
    start = time.monotonic()
    for key in data:
        study = Study(SCHEMA[key]())
        for epsilon in epsilons if key in PUBLIC else (RANGED,):
            if key in PUBLIC:
                lines.append(public_line(key, study, epsilon, runs))
            if epsilon == RANGED:
                ranges.append(ranged(key, study, epsilon, max(1, runs // 3)))
            keep(lines, ranges)
            sys.stderr.write(f"{key} {epsilon}: {time.monotonic() - start:.0f} s\n")


def markdown(lines: Sequence[Line], ranges: Sequence[Ranged], command: str) -> str:
    """The page of results."""
    runs = lines[0].runs if lines else 0
    out = [
        "# Rehearsals against real fits",
        "",
        f"Written by `{command}`. Two parties, collusion 1, pure epsilon;",
        "product `plain`, which has the same noise as `lattice`.",
        "",
        "## On public rows",
        "",
        "Half of the rows are taken as public and rehearsed on; of the other half 80% are fitted through the protocol",
        f"and 20% test the model. Means over {runs} replicates, each with halves of its own and {RELEASES} simulated",
        'releases. "Farthest" is the largest distance of one rehearsal from the mean of the real fits; the goal for',
        f'the means is {LIMIT:g}. "Inside" counts real fits within two predicted standard',
        "deviations of the predicted mean.",
        "",
        "| data | measure | epsilon | n | rehearsed | real | difference | farthest | spread predicted | spread "
        "| inside | trivial |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for x in lines:
        met = "" if abs(x.rehearsed - x.real) <= LIMIT else " (missed)"
        out.append(
            f"| {x.data} | {x.measure} | {x.epsilon:g} | {x.n:,} | {x.rehearsed:.4f} | {x.real:.4f} | "
            f"{x.rehearsed - x.real:+.4f}{met} | {x.farthest:.4f} | {x.spread:.4f} | {x.real_spread:.4f} | "
            f"{x.inside} of {x.runs} | {x.trivial:.4f} |"
        )
    if not ranges:
        return "\n".join(out) + "\n"
    wide = np.mean([r.high - r.low for r in ranges])
    narrow = np.mean([r.high_share - r.low_share for r in ranges])
    held, known = sum(r.holds for r in ranges), sum(r.holds_share for r in ranges)
    out += [
        "",
        "## From the schema alone",
        "",
        f"The range over strengths of signal holds the mean real measure in {held} of {len(ranges)} cases; where the",
        f"share of positive records is stated as a public fact, a narrower range does in {known} of {len(ranges)}.",
        f"Widths are {wide:.3f} and {narrow:.3f} on average: a range, not a forecast. Real accuracies are the",
        f"larger class's share plus the mean gain over it of {max(1, runs // 3)} fits on their test rows.",
        "",
        "| data | measure | epsilon | range | with the share stated | real | trivial |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in ranges:
        out.append(
            f"| {r.data} | {r.measure} | {r.epsilon:g} | {r.low:.3f} to {r.high:.3f}{'' if r.holds else ' (missed)'} | "
            f"{r.low_share:.3f} to {r.high_share:.3f}{'' if r.holds_share else ' (missed)'} | {r.real:.4f} | "
            f"{r.trivial:.4f} |"
        )
    return "\n".join(out) + "\n"
