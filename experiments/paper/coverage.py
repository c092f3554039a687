"""How often the intervals of a release hold the truth, coefficient by coefficient, the choice of the model included.

On Adult the truth of a release is the fit of its own reduced model to all records. On made-up records, drawn anew for
every release, it is the fit of the reduced model to the law that they are drawn from.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import binom

from colonnade.analysis.intervals import Interval, intervals
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import Task
from docs.sections import publish
from experiments.data import Dataset, adult_41, adult_hours
from experiments.data.dataset import binary, categorical, numeric
from experiments.data.panel import PANEL
from experiments.paper.central import Array, Central, central, exact_sums
from experiments.paper.methods import APPROXIMATE, PURE

RELEASES = 400
DROWNED_RELEASES = 100
"""At epsilon 0.1, where hardly an interval is given."""
GOAL = 0.93
PARTIES, COLLUSION = 3, 1
FIXED: dict[str, Callable[[], Dataset]] = {"adult-41": adult_41, "adult-hours": adult_hours, **PANEL}
"""Data sets whose records are the same in every release."""
POPULATION = 1_000_000
MADE_ROWS = 20_000
ENOUGH = 100
"""Releases that give a coefficient an interval before its own share means something by itself."""


@dataclass(frozen=True)
class Case:
    """A data set at one privacy."""

    data: str
    privacy: str
    epsilon: float

    def delta(self, n: int) -> float:
        return 1.0 / n if self.privacy == APPROXIMATE else 0.0


@dataclass(frozen=True)
class Line:
    """What became of one coefficient over all releases of a case."""

    data: str
    privacy: str
    epsilon: float
    coefficient: str
    releases: int
    full_model: int
    """Coefficients of the full model."""
    in_model: int
    """Releases whose reduced model has this coefficient."""
    given: int
    """Releases that give it an interval."""
    covered: int
    covered_by_half: int
    """Releases in which an interval half as wide would still hold the truth: a check that covering is not free."""
    median_factor: float
    """Median of the interval's half-width over that of the non-private interval of the same reduced model."""
    largest_factor: float

    @property
    def share(self) -> float:
        return self.covered / self.given if self.given else math.nan

    @property
    def refuted(self) -> bool:
        """Whether a coverage of `GOAL` would lead to so few hits less than once in a hundred times."""
        return bool(self.given) and float(binom.cdf(self.covered, self.given, GOAL)) < 0.01


DATA = ("adult-41", "adult-hours", "made-up-class", "made-up-number")
CASES = tuple(
    Case(data, privacy, epsilon)
    for data in DATA
    for privacy, epsilon in ((PURE, 1.0), (APPROXIMATE, 1.0), (PURE, 10.0), (PURE, 0.1))
)

PANEL_CASES = tuple(
    Case(data, privacy, epsilon)
    for data in PANEL
    # Of copies a trace is released at epsilon 1, which has no intervals.
    if data != "copies"
    for privacy, epsilon in ((PURE, 1.0), (APPROXIMATE, 1.0), (PURE, 10.0))
)
PANEL_RELEASES = 100


def made_up(n: int, rng: np.random.Generator, task: str) -> Dataset:
    """Dependent columns of both kinds, two of them close to each other; some coefficients are 0."""
    region = rng.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    size = np.where(rng.random(n) < 0.4, region % 3, rng.choice(3, n))
    member = rng.random(n) < 0.3 + 0.1 * size
    height = np.clip(0.2 * (region - 1.5) + 0.4 * rng.standard_normal(n), -1, 1)
    income = np.clip(-0.3 + 0.2 * size + 0.3 * height + 0.4 * rng.standard_normal(n), -1, 1)
    wealth = np.clip(0.8 * income + 0.15 * rng.standard_normal(n), -1, 1)
    debt = np.clip(0.35 * rng.standard_normal(n), -1, 1)
    score = 0.5 * (region == 1) - 0.4 * (size == 2) + 0.6 * member + 0.8 * height + 0.5 * income - 0.7 * debt - 0.2
    if task == "logistic":
        label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * score)), "yes", "no").tolist()
    else:
        label = np.clip(0.3 * score + 0.15 * rng.standard_normal(n), -1, 1).tolist()
    frame = pl.DataFrame(
        {
            "region": np.array(["a", "b", "c", "d", "e"])[region],
            "size": np.array(["s", "m", "l"])[size],
            "member": np.where(member, "yes", "no"),
            "height": height,
            "income": income,
            "wealth": wealth,
            "debt": debt,
            "label": label,
        }
    )
    columns = {
        "region": categorical(["a", "b", "c", "d", "e"]),
        "size": categorical(["s", "m", "l"]),
        "member": binary("no", "yes"),
        **{name: numeric(-1, 1) for name in ("height", "income", "wealth", "debt")},
        "label": binary("no", "yes") if task == "logistic" else numeric(-1, 1),
    }
    return Dataset("made-up", frame, columns, "label", "logistic" if task == "logistic" else "linear")


@dataclass(frozen=True)
class Source:
    """Where the records of a case come from."""

    mechanism: Central
    truth: Array
    """Sums of products by which the truth is computed, for as many records as the release has."""
    sums: Callable[[np.random.Generator], Array]


def source_of(case: Case) -> Source:
    """The mechanism of a case, its truth, and its records: always the same, or drawn anew."""
    if case.data in FIXED:
        dataset = FIXED[case.data]()
        n = dataset.frame.height
        mechanism = central(dataset, n, case.epsilon, case.delta(n), PARTIES, COLLUSION)
        sums = exact_sums(dataset, mechanism.layout)
        return Source(mechanism, sums, lambda rng: sums)
    task, n = "logistic" if case.data.endswith("class") else "linear", MADE_ROWS
    small = made_up(10, np.random.default_rng(0), task)
    mechanism = central(small, n, case.epsilon, case.delta(n), PARTIES, COLLUSION)
    whole = made_up(POPULATION, np.random.default_rng(1), task)
    truth = exact_sums(whole, mechanism.layout) * (n / POPULATION)
    return Source(mechanism, truth, lambda rng: exact_sums(made_up(n, rng, task), mechanism.layout))


def truth_of(layout: Layout, sums: Array, n: int, task: Task, found: Sequence[Interval]) -> tuple[Array, Array]:
    """The coefficients of a reduced model by exact sums, and their 95% half-widths without noise."""
    marks = np.zeros((layout.width, len(found)))
    for j, one in enumerate(found):
        marks[[layout.names.index(name) for name in one.levels or (one.feature,)], j] = 1.0
    at = layout.span(layout.label).stop - 1
    means = sums[0] @ marks / n
    gram = marks.T @ sums @ marks / n - np.outer(means, means)
    mean = sums[0, at] / n
    right = marks.T @ sums[:, at] / n - means * mean
    variance = sums[at, at] / n - mean**2
    weights = np.linalg.solve(gram, right)
    left = variance - weights @ right
    half = 1.959964 * np.sqrt(left * np.diag(np.linalg.inv(gram)) / n)
    # The label of a linear task is twice its upper half less one; a discriminant divides by what is left.
    scale = 2.0 if task is Task.LINEAR else 1.0 / left
    return scale * weights, scale * half


@dataclass
class Tally:
    """Hits and widths of one coefficient."""

    in_model: int = 0
    covered: int = 0
    covered_by_half: int = 0
    factors: list[float] = field(default_factory=list)


def run_case(case: Case, releases: int, seed: int) -> list[Line]:
    """Every coefficient of a case."""
    source = source_of(case)
    mechanism = source.mechanism
    tallies: dict[str, Tally] = {}
    for number in range(releases):
        rng = np.random.default_rng([seed, number])
        moments = mechanism.release(source.sums(rng), rng)
        found = intervals(moments, mechanism.task).coefficients
        if not found:
            continue
        truth, half = truth_of(mechanism.layout, source.truth, mechanism.n, mechanism.task, found)
        for one, value, width in zip(found, truth, half, strict=True):
            tally = tallies.setdefault(one.feature, Tally())
            tally.in_model += 1
            if one.given:
                tally.covered += bool(one.low <= value <= one.high)
                low, high = (0.5 * (one.estimate + end) for end in (one.low, one.high))
                tally.covered_by_half += bool(low <= value <= high)
                tally.factors.append((one.high - one.low) / (2.0 * float(width)))
    order = {name: i for i, name in enumerate(mechanism.layout.names)}
    named = sorted(tallies.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    return [_line(case, name, tally, releases, len(mechanism.layout.features)) for name, tally in named]


def _line(case: Case, name: str, tally: Tally, releases: int, full: int) -> Line:
    middle, top = (round(float(f(tally.factors)), 2) if tally.factors else math.nan for f in (np.median, np.max))
    return Line(
        *(case.data, case.privacy, case.epsilon, name, releases, full),
        *(tally.in_model, len(tally.factors), tally.covered, tally.covered_by_half, middle, top),
    )


def study(cases: Sequence[Case], releases: int, workers: int, seed: int) -> Iterator[list[Line]]:
    """The lines of one case after the other, each in a process of its own."""
    start = time.monotonic()
    with ProcessPoolExecutor(min(workers, len(cases)), mp_context=get_context("spawn")) as pool:
        counts = [releases if case.epsilon >= 1 else min(releases, DROWNED_RELEASES) for case in cases]
        futures = [pool.submit(run_case, case, n, seed) for case, n in zip(cases, counts, strict=True)]
        for case, future in zip(cases, futures, strict=True):
            yield future.result()
            told = f"{case.data} {case.privacy} {case.epsilon:g} done, {time.monotonic() - start:.0f} s"
            sys.stderr.write(told + "\n")


def csv_text(lines: Sequence[Line], command: str, seed: int) -> str:
    out = io.StringIO()
    out.write(f"# {command}, seed {seed}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f.name for f in fields(Line)])
    writer.writerows(asdict(line).values() for line in lines)
    return out.getvalue()


HEAD = f"""# {{title}}

Made by `{{command}}` (seed {{seed}}): {{releases}} fresh releases of {PARTIES} parties for each row ({DROWNED_RELEASES}
at ε = 0.1), collusion {COLLUSION}. In each release the reduced model is chosen anew, and the truth is that model's own
fit: to all records; on those named made-up, {MADE_ROWS:,} drawn anew for every release, to their law. For a class
the quantity is the coefficient of the linear discriminant, for a number that of least squares, with the label's square
released.

A coefficient is one name, such as `age` or `marital_status=Never-married`. "Coverage" is that of the single coefficient
that is covered least often, among those that at least {ENOUGH} releases gave an interval; "rarer ones" are the others,
all together. "Below {GOAL:.0%}" counts coefficients of any number of intervals for which a coverage of {GOAL:.0%} is
refuted (one-sided binomial test at 1%). "By half" is the mean coverage of intervals
half as wide. "Width" is the half-width over that of the non-private 95% interval of the same
reduced model: the median over all intervals, the largest median of a coefficient, and the largest of all.

| data | privacy | ε | columns of the reduced model | given, of the full model | mean coverage | by half \
| least coverage | rarer ones | below {GOAL:.0%} | width: median | largest median | largest |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def markdown(lines: Sequence[Line], command: str, seed: int) -> str:
    """The summary: a row for each case."""
    releases = max((line.releases for line in lines), default=0)
    title = "Coverage on the development panel" if "--panel" in command else "Coverage of the intervals"
    out = HEAD.replace(" \\\n", " ").format(title=title, command=command, seed=seed, releases=releases)
    if "--panel" in command:
        # What the columns are stands in the first of the two sections.
        explained, table = out.index("In each release"), out.index("| data |")
        out = f"{out[:explained].rstrip()} The rest is as above.\n\n{out[table:]}"
    often = min((x.share for x in lines if x.given >= ENOUGH), default=1.0)
    told = f"Least of all: {often:.1%}; below {GOAL:.0%}: {sum(x.refuted for x in lines)} coefficients.\n\n"
    rows = "".join(_row(case, [x for x in lines if _case(x) == case]) for case in _cases(lines))
    return out.replace("| data |", f"{told}| data |", 1) + rows


def _case(line: Line) -> Case:
    return Case(line.data, line.privacy, line.epsilon)


def _cases(lines: Sequence[Line]) -> list[Case]:
    return list(dict.fromkeys(_case(line) for line in lines))


def _row(case: Case, own: Sequence[Line]) -> str:
    releases = own[0].releases
    given = sum(x.given for x in own)
    full = own[0].full_model
    cells = [case.data, case.privacy, f"{case.epsilon:g}", f"{sum(x.in_model for x in own) / releases:.1f}"]
    cells.append(f"{given / releases:.1f} of {full} ({given / releases / full:.0%})")
    often = [x for x in own if x.given >= ENOUGH]
    rare = [x for x in own if 0 < x.given < ENOUGH]
    cells.append(f"{sum(x.covered for x in own) / given:.1%}" if given else "none given")
    cells.append(f"{sum(x.covered_by_half for x in own) / given:.1%}" if given else "-")
    least = min(often, key=lambda x: x.share, default=None)
    cells.append(f"{least.share:.1%} ({least.coefficient})" if least else "-")
    counted = sum(x.given for x in rare)
    cells.append(f"{sum(x.covered for x in rare) / counted:.1%} of {counted}" if counted else "-")
    cells.append(str(sum(x.refuted for x in own)))
    if given:
        widths = np.repeat([x.median_factor for x in own], [x.given for x in own])
        cells += [f"{np.median(widths):.1f}", f"{max(x.median_factor for x in own if x.given):.1f}"]
        cells.append(f"{max(x.largest_factor for x in own if x.given):.1f}")
    else:
        cells += ["-", "-", "-"]
    return "| " + " | ".join(cells) + " |\n"


def write(lines: Sequence[Line], folder: Path, command: str, seed: int, name: str = "coverage") -> None:
    """Write every line as csv, and the summary as its section of the page of results."""
    (folder / f"{name}.csv").write_text(csv_text(lines, command, seed), encoding="utf-8")
    publish(name, markdown(lines, command, seed), folder=folder)
