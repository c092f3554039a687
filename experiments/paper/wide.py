"""Wide numeric data: `python -m experiments.paper wide`. What one release of d columns leaves, beside what could be.

Features are uniform on [-1, 1], all weights of the truth normal, the label has four standard deviations in its bounds
(experiments/data/synthetic.py, s = 1). Sums over n records are drawn from their own law (a Gram matrix by the central
limit theorem, X'y and y'y given it), so that a million records cost no more than a thousand; a release is these sums
with the noise of a session's plan. The error of weights v is exact: noise of the label + |v - w|^2 / 3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.integrate import quad

from colonnade.analysis.marginal_fit import log_likelihood
from colonnade.analysis.solve import solve
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.forecast import best_columns
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Moments, Role
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from experiments.data.synthetic import NOISE_SHARE
from experiments.paper.listing import read
from experiments.paper.panel import template
from experiments.paper.protocol import Array
from experiments.paper.simulated import noisy

WIDTHS = (100, 200, 400, 800)
ROWS = (20_000, 80_000, 1_000_000)
PRIVACIES = ((1.0, False), (10.0, False), (1.0, True))
"""Epsilon, and whether delta is 1/n."""
DRAWS = 5
FULL_DRAWS = 2
"""Draws where all products are released: their spread is small, and so many pairs take their time."""
FEW = 200
"""Columns up to which there are lines of the most records: then the plan would release all products of more."""
LABEL = 1 / 16
"""Variance of the label: a quarter of its bounds is a standard deviation."""
UNEXPLAINED = LABEL * NOISE_SHARE / (1 + NOISE_SHARE)
SQUARE = 1 / 3


@dataclass(frozen=True)
class Row:
    """Squared errors over that of w = 0, in the mean over draws."""

    d: int
    n: int
    privacy: str
    epsilon: float
    released: str
    columns: int
    """How many of the d columns the study declares."""
    ours: float
    std: float
    oracle: float
    """What the same noise on X'y leaves to somebody who knows how large the weights are."""
    not_private: float
    forecast: float
    """Error over that of w = 0 by the plan's own forecast."""
    draws: int
    ratio: float
    """Noise against signal on X'y by the plan's forecast, for a label of this spread."""


@dataclass(frozen=True)
class Sums:
    """Exact sums of n records of `columns` of the features."""

    gram: Array
    sums: Array
    products: Array
    """X'y."""
    label: float
    square: float
    weights: Array


def draw_sums(d: int, n: int, columns: int, rng: np.random.Generator, weights: Array | None = None) -> Sums:
    """One data set's sums; features that are left out stand in the label as noise."""
    if weights is None:
        weights = sqrt((LABEL - UNEXPLAINED) / (d * SQUARE)) * rng.standard_normal(d)
    other = UNEXPLAINED + SQUARE * float(weights[columns:] @ weights[columns:])
    own = weights[:columns]
    gram = sqrt(n) * SQUARE * rng.standard_normal((columns, columns))
    gram = np.triu(gram, 1) + np.triu(gram, 1).T
    np.fill_diagonal(gram, n * SQUARE + sqrt(n * 4 / 45) * rng.standard_normal(columns))
    # X'e given X has the covariance of e times X'X, which is near a multiple of the identity.
    error = sqrt(other * n * SQUARE) * rng.standard_normal(columns)
    square = float(own @ gram @ own + 2 * own @ error) + n * other
    sums = sqrt(n * SQUARE) * rng.standard_normal(columns)
    label = float(sums @ own) + sqrt(n * other) * float(rng.standard_normal())
    return Sums(gram, sums, gram @ own + error, label, square, weights)


def moments_of(layout: Layout, n: int, sums: Sums) -> Array:
    """The sums of products of a layout's coordinates; the label is one number or its two halves."""
    columns = len(sums.sums)
    # The label's coordinates are a (constant) + b (label).
    whole = np.zeros((columns + 2, columns + 2))
    whole[0, 0], whole[-1, -1] = n, sums.square
    whole[0, 1:-1] = whole[1:-1, 0] = sums.sums
    whole[0, -1] = whole[-1, 0] = sums.label
    whole[1:-1, 1:-1] = sums.gram
    whole[1:-1, -1] = whole[-1, 1:-1] = sums.products
    turn = np.zeros((layout.width, columns + 2))
    turn[0, 0] = 1.0
    place = 1
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        if attribute.role is Role.LABEL:
            halves = attribute.kind is Encoding.SIMPLEX
            turn[span, 0] = 0.5 if halves else 0.0
            turn[span, -1] = np.array([-0.5, 0.5]) if halves else 1.0
        else:
            turn[span, place] = 1.0
            place += 1
    result: Array = turn @ whole @ turn.T
    return result


def agreement(d: int, epsilon: float, delta: float, release: str = "auto") -> Agreement:
    """One party, c = 0: with c = 0 every K has the same noise. Records are declared as long as they are expected."""
    columns = {f"x{j:03d}": Numeric(-1, 1) for j in range(d)} | {"y": Numeric(-1, 1)}
    schema = Schema({"P1": columns}, {"P1": sqrt(d * SQUARE)})
    agreed = Agreement.from_terms("wide", schema, "y", Task.LINEAR, epsilon=epsilon, delta=delta)
    return agreed.with_terms(collusion=0, product="plain", release=release)


def measure(
    d: int,
    n: int,
    columns: int,
    epsilon: float,
    approximate: bool,
    draws: int,
    rng: np.random.Generator,
    release: str = "auto",
) -> Row:
    """A line of the table."""
    session = plan_session(agreement(columns, epsilon, 1 / n if approximate else 0.0, release), n, bytes(32))
    plan = template(session)
    errors = []
    draws = draws if session.released == "trace" else min(draws, FULL_DRAWS)
    for _ in range(draws):
        sums = draw_sums(d, n, columns, rng)
        release = noisy(plan, moments_of(plan.layout, n, sums), n, rng)
        model = solve(release, Task.LINEAR)
        found = np.zeros(d)
        found[:columns] = model.coefficients
        missed = found - sums.weights
        errors.append((UNEXPLAINED + SQUARE * float(missed @ missed) + model.intercept**2) / LABEL)
    # The forecast takes a label that fills its bounds evenly, of variance 1/3.
    ratio = (session.forecast.noise_to_signal or 0.0) * sqrt(SQUARE / LABEL)
    explained = 1 / (1 + ratio**2)
    return Row(
        d,
        n,
        "(epsilon, 1/n)" if approximate else "pure",
        epsilon,
        session.released,
        columns,
        float(np.mean(errors)),
        float(np.std(errors)),
        oracle(plan, d, n, columns),
        UNEXPLAINED / LABEL * (1 + d / max(n - d - 1, 1)),
        1 - columns / d * explained,
        draws,
        ratio,
    )


def oracle(plan: Moments, d: int, n: int, columns: int) -> float:
    """The error of the posterior mean under the true prior, with X'X known and the plan's noise on X'y alone."""
    label = plan.layout.span(plan.layout.label)
    # Halves of a label are two noisy numbers whose difference is the product with it.
    halves = plan.std[plan.layout.features[0], label]
    std = float(np.sqrt((halves**2).sum())) / n
    signal = (LABEL - UNEXPLAINED) * SQUARE / d
    sampling = (LABEL - (LABEL - UNEXPLAINED) * columns / d) * SQUARE / n
    if plan.law is Distribution.GAUSSIAN or len(halves) > 1:
        left = (std**2 + sampling) / (std**2 + sampling + signal)
    else:
        left = _laplace_left(signal / (std**2 / 2), sampling / (std**2 / 2))
    kept = columns / d * (1 - left)
    return UNEXPLAINED / LABEL + (1 - UNEXPLAINED / LABEL) * (1 - kept)


def _laplace_left(signal: float, sampling: float) -> float:
    """The share of a normal signal's variance that Laplace noise of scale 1 leaves unknown."""
    two = np.array([2.0])

    def information(x: float) -> float:
        log_density, slope = log_likelihood(np.array([x]), np.array([signal + sampling]), two, Distribution.LAPLACE)
        return float(np.exp(log_density[0]) / 2 * slope[0] ** 2)

    # The posterior mean is the signal times the slope of the log-density; its mean square is signal^2 J.
    far = 40 + 10 * sqrt(signal + sampling)
    fisher = 2 * quad(information, 0, far, limit=400)[0]
    return float(1 - signal * fisher)


def run(widths: tuple[int, ...] = WIDTHS, rows: tuple[int, ...] = ROWS, draws: int = DRAWS) -> Iterator[Row]:
    """All lines; in pure epsilon also with as many columns as the plan advises, and a trace where it plans none."""
    for d in widths:
        for n in rows if d <= FEW else rows[:-1] or rows:
            for epsilon, approximate in PRIVACIES:
                rng = np.random.default_rng([d, n, round(10 * epsilon), approximate])
                row = measure(d, n, d, epsilon, approximate, draws, rng)
                sys.stderr.write(f"{row}\n")
                yield row
                if row.released != "trace":
                    yield measure(d, n, d, epsilon, approximate, draws, rng, "trace")
                elif not approximate and (fewer := best_columns(d, row.ratio)) < d:
                    yield measure(d, n, fewer, epsilon, approximate, draws, rng)


def markdown(text: str) -> str:
    """The table."""
    head, rows = read(text)
    out = [
        *head,
        "Squared error over that of w = 0, so that 1 is the trivial model. *Oracle*: the same noise on X'y, with X'X",
        "and the law of the weights known. *Forecast*: by the plan, before anything is spent, if columns fill their",
        "bounds evenly and explain all of a label of this spread. Fewer columns than d are the first ones; what the",
        "others would tell is noise in the label. The plan cannot know that these columns are independent: "
        "where X'X can",
        "be told from its noise it releases that, and the line below says what a trace would have left. Weights are",
        "drawn anew each time, and the oracle's figure is an expectation: a few draws may lie on either side of it.",
        "",
        "| d | n | privacy | ε | released | columns | draws | ours | oracle | not private | forecast |",
        "|---" * 11 + "|",
    ]
    for row in rows:
        ours = f"{float(row['ours']):.4f} ± {float(row['std']):.4f}"
        out.append(
            f"| {row['d']} | {int(row['n']):,} | {row['privacy']} | {row['epsilon']} | {row['released']} | "
            f"{row['columns']} | {row['draws']} | {ours} | {float(row['oracle']):.4f} | "
            f"{float(row['not_private']):.4f} | {float(row['forecast']):.4f} |"
        )
    return "\n".join(out) + "\n"
