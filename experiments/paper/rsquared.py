"""R^2 as a release states it against R^2 on its records: `python -m experiments.paper rsquared`."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from colonnade.analysis.explained import WIDEST
from colonnade.analysis.solve import solve
from colonnade.data.table import table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema, column_from
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded
from experiments.data import Dataset, adult_hours, cps_wages, encode, partition
from experiments.data.dataset import categorical, numeric
from experiments.paper.listing import read
from experiments.paper.methods import APPROXIMATE, PURE

RELEASES = 100
ROWS = 10_000
PARTIES, COLLUSION = 2, 1
LIMIT, COVER = 0.02, 0.93
CELLS = ((PURE, 1.0), (PURE, 10.0), (APPROXIMATE, 1.0))


def made(signal: float, rows: int = ROWS) -> Dataset:
    """Six numbers, two of them alike, and a column of levels; they explain about `signal` of the label."""
    rng = np.random.default_rng([18, rows])
    x = rng.uniform(-1, 1, (rows, 6))
    x[:, 1] = np.clip(0.8 * x[:, 0] + 0.2 * x[:, 1], -1, 1)
    level = rng.integers(0, 4, rows)
    score = x @ rng.normal(size=6) + np.array([-0.5, 0.0, 0.5, 1.0])[level]
    score = (score - score.mean()) / score.std()
    y = np.clip(0.3 * (np.sqrt(signal) * score + np.sqrt(1 - signal) * rng.standard_normal(rows)), -1, 1)
    columns = {f"x{j}": numeric(-1, 1) for j in range(6)} | {"c": categorical(list("abcd")), "y": numeric(-1, 1)}
    frame = {f"x{j}": x[:, j] for j in range(6)} | {"c": np.array(list("abcd"))[level], "y": y}
    return Dataset(f"Made, signal {signal:g}", pl.DataFrame(frame), columns, "y", "linear")


DATA = {
    "no-signal": lambda: made(0.0),
    "middle": lambda: made(0.3),
    "strong": lambda: made(0.7),
    "no-signal-2000": lambda: made(0.0, 2_000),
    "cps-wages": cps_wages,
    "adult-hours": adult_hours,
}


@dataclass(frozen=True)
class Row:
    """A cell of the study; figures are of the releases that state an R^2."""

    data: str
    privacy: str
    epsilon: float
    releases: int
    stated: int
    mean: float
    truth: float
    difference: float
    half: float
    """Mean half-width of the intervals."""
    cover: float
    rule: str


@lru_cache(maxsize=1)
def _load(key: str) -> Dataset:
    return DATA[key]()


def measure(key: str, privacy: str, epsilon: float, releases: int) -> Row:
    """One cell: stated and true R^2 over seeded releases of the same records."""
    dataset = _load(key)
    deal = partition(dataset.features, PARTIES)
    deal[0] = [*deal[0], dataset.label]
    columns = {f"P{k}": {c: column_from(c, dataset.columns[c]) for c in part} for k, part in enumerate(deal, 1)}
    tables = {name: table_from(name, dataset.frame, own) for name, own in columns.items()}
    X, y, names = encode(dataset)
    agreement = Agreement.from_terms(
        key, Schema(columns), f"P1.{dataset.label}", Task.LINEAR, epsilon=epsilon,
        delta=1 / len(y) if privacy == APPROXIMATE else 0.0, collusion=COLLUSION, product="plain",
        release="full", label_square=True,
    )  # fmt: skip
    found = []
    for number in range(releases):
        seed = f"{key} {privacy} {epsilon} {number}".encode()
        model = solve(run_unguarded(agreement, tables, "none", Randomness(seed=seed)).release.moments(), Task.LINEAR)
        if model.r_squared_interval is not None:
            order = [names.index(feature) for feature in model.features]
            left = y - X[:, order] @ np.array(model.coefficients) - model.intercept
            low, high = model.r_squared_interval
            found.append((model.r_squared, 1 - float(np.mean(left**2)) / float(y.var()), low, high))
    values = np.array(found).reshape(-1, 4)
    return _row(key, privacy, epsilon, releases, values)


def _row(key: str, privacy: str, epsilon: float, releases: int, values: np.ndarray) -> Row:
    if not len(values):
        nan = float("nan")
        return Row(key, privacy, epsilon, releases, 0, nan, nan, nan, nan, nan, "not stated")
    stated, truth, low, high = values.T
    difference, cover = float((stated - truth).mean()), float(((low <= truth) & (truth <= high)).mean())
    rule = "holds" if abs(difference) <= LIMIT and cover >= COVER else "broken"
    half = float((high - low).mean()) / 2
    means = float(stated.mean()), float(truth.mean())
    return Row(key, privacy, epsilon, releases, len(values), *means, difference, half, cover, rule)


def run(data: Sequence[str], releases: int, workers: int) -> list[Row]:
    """Every cell."""
    jobs = [(key, privacy, epsilon, releases) for key in data for privacy, epsilon in CELLS]
    start, rows = time.monotonic(), []
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(measure, *zip(*jobs, strict=True)):
            rows.append(row)
            sys.stderr.write(f"{row}, {time.monotonic() - start:.0f} s\n")
    return rows


def markdown(text: str) -> str:
    """The table of a csv."""
    out, rows = read(text)
    out += [
        f"The rule: where an R² is stated, its mean is within {LIMIT} of the mean R² of the same models on the",
        f"records, and the 95% intervals cover at least {COVER:.0%}. R² is not stated where its interval would reach",
        f"farther than {WIDEST} on either side. Without a model R² is 0. It is stated in",
        f"{sum(r['rule'] != 'not stated' for r in rows)} of {len(rows)} cells, and the rule holds in "
        f"{sum(r['rule'] == 'holds' for r in rows)} of these.",
        "",
        "| data | privacy | ε | stated in | R² stated | R² on the records | difference | half-width | covered | rule |",
        "|---" * 10 + "|",
    ]
    for r in rows:
        figures = [r["mean"], r["truth"], r["difference"], r["half"], r["cover"]]
        told = ["" if v == "nan" else f"{float(v):.3f}" for v in figures]
        place = f"| {r['data']} | {r['privacy']} | {float(r['epsilon']):g} | {r['stated']} of {r['releases']} | "
        out.append(place + " | ".join([*told, r["rule"]]) + " |")
    return "\n".join(out) + "\n"
