"""The paper's 80,000 x 800 records: exact sums of a split, and the noise of plans drawn many times over.

A whole session at this size takes seconds; its release has the law of these sums plus the plan's noise
(tests/unit/test_rehearsal.py, tests/unit/experiments/test_wide.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

import numpy as np

from colonnade.analysis.solve import solve
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session_plan import plan_session
from experiments.data import split
from experiments.data.synthetic import NORM_MARGIN, synthetic_arrays
from experiments.paper.catalogue import SPARSITIES
from experiments.paper.listing import read
from experiments.paper.panel import template
from experiments.paper.protocol import Array
from experiments.paper.simulated import noisy

SETTINGS = ((1, 0), (2, 0), (2, 1))
"""K and c."""
GOALS = {0: 0.18, 1: 0.22}
"""Squared error over that of w = 0 that is asked for, by c."""
DRAWS = 10


@dataclass(frozen=True)
class Row:
    """Squared errors on test rows over that of w = 0."""

    s: float
    parties: int
    collusion: int
    noise: float
    """Largest standard deviation of the noise on a product with the label."""
    draws: int
    ours: float
    std: float
    not_private: float


def _agreement(d: int, s: float, parties: int, collusion: int, n: int) -> Agreement:
    deal = np.array_split([f"x{j:03d}" for j in range(d)], parties)
    columns = {f"P{k}": {str(name): Numeric(-1, 1) for name in part} for k, part in enumerate(deal, 1)}
    columns["P1"]["y"] = Numeric(-1, 1)
    norms = {f"P{k}": NORM_MARGIN * sqrt(s / 3 * len(part)) for k, part in enumerate(deal, 1)}
    schema = Schema(columns, norms)
    agreed = Agreement("wide", schema, "P1.y", Task.LINEAR, epsilon=1.0, delta=1 / n)
    # What the plan would choose at d = 800.
    return replace(agreed, collusion=collusion, product="plain", release="trace")


def _sums(X: Array, y: Array, norms: list[tuple[slice, float]]) -> tuple[Array, Array]:
    """X'y and the squares of columns, of records that each party shortens to its norm."""
    products, squares = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for part, norm in norms:
        own = X[:, part]
        shrink = np.minimum(1.0, norm / np.maximum(np.sqrt(np.einsum("ij,ij->i", own, own)), 1e-12))
        products[part] = own.T @ (shrink * y)
        squares[part] = (shrink**2) @ own**2
    return products, squares


def measure(s: float, draws: int = DRAWS, n: int = 80_000, d: int = 800) -> Iterator[Row]:
    """The rows of one data set, on its first split."""
    X, y, _ = synthetic_arrays(n, d, s)
    train, test = split(n, 0)
    unseen, y_test = X[test], y[test]
    X, y = X[train], y[train]
    trivial = float(np.mean(y_test**2))
    exact = np.linalg.solve(X.T @ X, X.T @ y)
    without = float(np.mean((unseen @ exact - y_test) ** 2)) / trivial
    for parties, collusion in SETTINGS:
        agreement = _agreement(d, s, parties, collusion, len(y))
        session = plan_session(agreement, len(y), bytes(32))
        plan = template(session)
        layout = plan.layout
        features, label = list(layout.features), layout.span(layout.label).start
        widths = [len(columns) - (name == "P1") for name, columns in agreement.schema.parties.items()]
        ends = np.cumsum([0, *widths])
        spans = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        products, squares = _sums(X, y, list(zip(spans, agreement.schema.norms.values(), strict=True)))
        sums = np.zeros((layout.width, layout.width))
        sums[features, label] = sums[label, features] = products
        sums[features, features] = squares
        sums[label, label], sums[0, label], sums[label, 0] = y @ y, y.sum(), y.sum()
        rng = np.random.default_rng([round(10 * s), parties, collusion])
        errors = []
        for _ in range(draws):
            model = solve(noisy(plan, sums, len(y), rng), Task.LINEAR)
            scores = unseen @ np.array(model.coefficients) + model.intercept
            errors.append(float(np.mean((scores - y_test) ** 2)) / trivial)
        std = max(float(session.plan.noise_std(i)) for i in session.plan.blocks if i.block.size > 1)
        row = Row(s, parties, collusion, std, draws, float(np.mean(errors)), float(np.std(errors)), without)
        sys.stderr.write(f"{row}\n")
        yield row


def run(draws: int = DRAWS) -> list[Row]:
    """All rows."""
    return [row for s in SPARSITIES for row in measure(s, draws)]


def markdown(text: str) -> str:
    """The table, each value beside what is asked for."""
    head, rows = read(text)
    out = [
        *head,
        "Squared error on the test rows of one split over that of w = 0. A value above the goal stands in brackets.",
        "",
        "| s | K | c | noise on X'y | draws | goal | ours | not private |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        goal = GOALS[int(row["collusion"])]
        told = f"{float(row['ours']):.4f} ± {float(row['std']):.4f}"
        told = told if float(row["ours"]) <= goal else f"({told})"
        out.append(
            f"| {row['s']} | {row['parties']} | {row['collusion']} | {float(row['noise']):.1f} | {row['draws']} | "
            f"{goal} | {told} | {float(row['not_private']):.4f} |"
        )
    return "\n".join(out) + "\n"
