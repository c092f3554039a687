"""How often the intervals of tables, mutual information, correlations and numbers hold what the records have.

`python -m experiments coverage-answers --releases 100`. Records are made up, drawn anew for every release:
two columns with levels of which one follows the other by a given strength, a label, and two numbers. The truth is
counted on the records themselves. What is said not to be known is left out of the shares, and counted apart.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl

from colonnade.analysis.components import components
from colonnade.analysis.independence import every_dependence, mutual_information
from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.data.table import table_from
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded
from docs.sections import publish

LEAST, POOLED = 0.89, 0.93


@dataclass(frozen=True)
class Case:
    """Records and their privacy."""

    levels: tuple[int, int]
    strength: float
    """The share of records whose second column is that of the first."""
    n: int
    epsilon: float
    delta: float = 0.0

    @property
    def name(self) -> str:
        law = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"pure {self.epsilon:g}"
        return f"{self.levels[0]}x{self.levels[1]}, {self.strength:g}, n={self.n:,}, {law}"


CASES = tuple(
    Case(levels, strength, n, epsilon, delta)
    for levels, strength, (n, epsilon, delta) in product(
        ((2, 3), (5, 4), (10, 12)),
        (0.0, 0.05, 0.4),
        ((2000, 1.0, 0.0), (20_000, 0.3, 0.0), (20_000, 3.0, 0.0), (5000, 1.0, 1e-6)),
    )
)


def records(case: Case, rng: np.random.Generator) -> pl.DataFrame:
    """Levels as unequal as 1, 1/2, 1/3, ..., and numbers that fill their bounds unevenly."""
    first, second = (1.0 / np.arange(1, k + 1) for k in case.levels)
    a = rng.choice(case.levels[0], case.n, p=first / first.sum())
    b = np.where(
        rng.random(case.n) < case.strength,
        a % case.levels[1],
        rng.choice(case.levels[1], case.n, p=second / second.sum()),
    )
    y = rng.random(case.n) < 0.2 + 0.5 * case.strength * (a == 0)
    x = np.clip(0.3 * rng.standard_normal(case.n) + case.strength * (a == 0), -1, 1)
    u = np.clip(case.strength * x + 0.3 * rng.standard_normal(case.n), -1, 1)
    return pl.DataFrame({"a": a.astype(str), "y": np.where(y, "yes", "no"), "x": x, "b": b.astype(str), "u": u})


def schema(case: Case) -> dict[str, dict[str, Column]]:
    a, b = (Categorical(tuple(str(k) for k in range(size))) for size in case.levels)
    own: dict[str, Column] = {"a": a, "y": Binary(("no", "yes")), "x": Numeric(-1, 1)}
    return {"P1": own, "P2": {"b": b, "u": Numeric(-1, 1)}}


@dataclass(frozen=True)
class Line:
    """One kind of interval in one case."""

    case: str
    kind: str
    given: int
    covered: int
    covered_by_half: int
    """Were the distances from the estimate to the ends half of what they are."""
    not_known: int
    outside: int
    """Estimates outside their own interval: must be 0."""

    @property
    def share(self) -> float:
        return self.covered / self.given if self.given else float("nan")


Found = tuple[str, float, float, float, float]
"""Kind, truth, estimate and the ends; an estimate that is nan is said not to be known."""


def answers(case: Case, rng: np.random.Generator, seed: int) -> Iterator[Found]:
    """Every interval of one release beside its truth."""
    frame, columns = records(case, rng), schema(case)
    data = {party: table_from(party, frame.select(list(own)), own) for party, own in columns.items()}
    terms = {"delta": case.delta, "collusion": 1, "release": "full", "product": "plain"}
    agreement = Agreement.from_terms("coverage", Schema(columns), "P1.y", Task.LOGISTIC, case.epsilon, **terms)  # type: ignore[arg-type]
    opened = run_unguarded(agreement, data, "none", Randomness(rng.bytes(16))).release
    released = Released(opened)
    tables, nan = Tables.of(released), float("nan")
    names = {released.short(i): i for i in released.tabular}
    for first, second in combinations(names, 2):
        cross = tables.cross(names[first], names[second])
        true = np.array(
            [[((frame[first] == p) & (frame[second] == q)).sum() for q in cross.columns] for p in cross.rows]
        )
        for cell in zip(true.ravel(), cross.count.ravel(), cross.low.ravel(), cross.high.ravel(), strict=True):
            yield "count", *map(float, cell)
    for one in every_dependence(tables, seed):
        counts = frame.group_by(one.names).len().pivot(one.names[1], index=one.names[0], values="len").fill_null(0)
        exact = mutual_information(counts.drop(one.names[0]).to_numpy().astype(np.float64))
        yield "information", exact, one.information if one.known else nan, one.low, one.high
    for i in released.numbers:
        number, values = tables.number(i), frame[released.short(i)].to_numpy()
        for kind, part, exact in (("mean", number.mean, values.mean()), ("deviation", number.std, values.std())):
            yield kind, float(exact), *((part.value, part.low, part.high) if part else (nan, nan, nan))
    try:
        found = components(released)
    except ReleaseError:
        return
    spread = np.column_stack(
        [frame[c].to_numpy() if c in frame.columns else (frame[c[0]] == c[2:]).to_numpy() for c in found.names]
    )
    exact_correlations = np.corrcoef(spread.astype(np.float64), rowvar=False)
    for i, j in combinations(range(len(found.names)), 2):
        if found.names[i][0] != found.names[j][0]:
            numbers = (exact_correlations[i, j], found.correlations[i, j], found.low[i, j], found.high[i, j])
            yield "correlation", *map(float, numbers)


def run_case(case: Case, releases: int, seed: int) -> list[Line]:
    """All kinds of a case."""
    seen: dict[str, list[Found]] = defaultdict(list)
    for number in range(releases):
        rng = np.random.default_rng([seed, number])
        for found in answers(case, rng, number):
            seen[found[0]].append(found)
    out = []
    for kind, every in seen.items():
        truth, value, low, high = np.array([numbers for _, *numbers in every]).T
        told = np.isfinite(value)
        # An exact count is a whole number: rounding of the ends is no miss.
        slack = 1e-9 + (kind == "count") * 0.01
        inside = (low - slack <= truth) & (truth <= high + slack)
        half = ((low + value) / 2 - slack <= truth) & (truth <= (high + value) / 2 + slack)
        outside = told & ((value < low - 1e-9) | (value > high + 1e-9))
        sums = ((told).sum(), (told & inside).sum(), (told & half).sum(), (~told).sum(), outside.sum())
        out.append(Line(case.name, kind, *(int(s) for s in sums)))
    return out


def summary(lines: Sequence[Line], releases: int, seed: int) -> dict[str, Any]:
    """All cases of a kind together, and its cell that covers least."""
    pooled = {}
    for kind in dict.fromkeys(line.kind for line in lines):
        own = [line for line in lines if line.kind == kind]
        given, unknown = (sum(line.given for line in own), sum(line.not_known for line in own))
        least = min((line for line in own if line.given), key=lambda line: line.share, default=own[0])
        pooled[kind] = {
            "given": given,
            "covered": sum(line.covered for line in own) / max(given, 1),
            "covered_by_half": sum(line.covered_by_half for line in own) / max(given, 1),
            "least": least.share,
            "least_of": least.given,
            "least_case": least.case,
            "not_known": unknown / max(given + unknown, 1),
            "outside_their_interval": sum(line.outside for line in own),
        }
    good = all(told["covered"] >= POOLED and told["outside_their_interval"] == 0 for told in pooled.values())
    short = not good or any(line.share < LEAST for line in lines if line.given)
    lines_ = [asdict(line) for line in lines]
    return {"releases": releases, "seed": seed, "pooled": pooled, "short": short, "lines": lines_}


def markdown(found: Mapping[str, Any]) -> str:
    """Return the section of docs/results/uncertainty.md."""
    out = [
        "# How often the intervals of tables, correlations and dependences hold the truth",
        "",
        f"Made by `python -m experiments coverage-answers --releases {found['releases']} --seed {found['seed']}`: so",
        f"many releases of each of {len({one['case'] for one in found['lines']})} cases (levels, how often one column",
        "follows the other, n, privacy), records drawn anew for each; the truth is counted on them. By half: were the",
        "distances from the estimate to the ends half of what they are. Not known: said so, in place of an interval.",
        "",
        "| kind | intervals | covered | by half | least of a case | of | that case | not known |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, told in found["pooled"].items():
        out.append(
            f"| {kind} | {told['given']:,} | {told['covered']:.3f} | {told['covered_by_half']:.3f} | "
            f"{told['least']:.3f} | {told['least_of']:,} | {told['least_case']} | {told['not_known']:.1%} |"
        )
    out += ["", "| case | kind | intervals | covered | not known |", "|---|---|---|---|---|"]
    for line in (Line(**line) for line in found["lines"]):
        share = f"{line.share:.3f}" if line.given else ""
        out.append(f"| {line.case} | {line.kind} | {line.given} | {share} | {line.not_known} |")
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=100, help="of each case")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--write", action="store_true", help="write its section of docs/results/uncertainty.md")
    options = parser.parse_args()
    lines = [line for case in CASES for line in run_case(case, options.releases, options.seed)]
    found = summary(lines, options.releases, options.seed)
    if options.write:
        publish("coverage_answers", markdown(found))
    print(json.dumps(found) if options.json else markdown(found))
    return int(found["short"])


if __name__ == "__main__":
    raise SystemExit(main())
