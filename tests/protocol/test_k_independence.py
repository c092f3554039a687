"""Claim 1: with collusion = 0 the release is that of one curator with all columns, however many parties there are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from colonnade.analysis.solve import solve
from colonnade.audit.transcript import OnePlan
from colonnade.data.table import Table, table_from
from colonnade.foundation.grid import LARGEST_BOUND
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.runs import Outcome
from colonnade.simulation import run_unguarded
from tests.helpers.sessions import tapped_session

LABEL = "y"


def _study(frame: pl.DataFrame, K: int, epsilon: float, delta: float = 0.0) -> tuple[Agreement, dict[str, Table]]:
    """The frame's columns dealt to K parties in runs; the first one holds the label."""
    features = [name for name in frame.columns if name != LABEL]
    runs = np.array_split(np.array(features), K)
    columns = {f"p{k}": {str(name): Numeric(-1, 1) for name in run} for k, run in enumerate(runs)}
    columns["p0"][LABEL] = Numeric(-1, 1)
    agreement = Agreement.from_terms(
        name="k",
        schema=Schema(columns),
        label=f"p0.{LABEL}",
        task=Task.LINEAR,
        epsilon=epsilon,
        delta=delta,
        collusion=0,
        product="plain",
        # A "trace" release has one trace for each party, so it does depend on K.
        release="full",
    )
    return agreement, {name: table_from(name, frame, own) for name, own in columns.items()}


def _frame(n: int, d: int) -> pl.DataFrame:
    draw = np.random.default_rng(11)
    X = _on_grid(draw.uniform(-1, 1, (n, d)) @ (np.eye(d) * 0.6 + 0.4 / d))
    y = _on_grid(np.clip(X @ draw.uniform(-0.5, 0.5, d) + 0.1 + 0.05 * draw.standard_normal(n), -1, 1))
    return pl.DataFrame({**{f"x{j}": X[:, j] for j in range(d)}, LABEL: y})


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values on odd steps of the finest grid, halves of which are on it too: rounding moves none of them."""
    return (2 * np.rint((values * LARGEST_BOUND - 1) / 2) + 1) / LARGEST_BOUND


def _fixed_point(outcome: Outcome, tables: dict[str, Table]) -> dict[str, NDArray[np.float64]]:
    """Every coordinate as the session's integers say it, by name."""
    session = outcome.session
    layout, out = session.plan.layout, {}
    for owner, table in tables.items():
        integers = table.encode(layout, session.grid, bytes(32))
        names = [c for a in layout.attributes if a.owner == owner for c in a.coordinates]
        matrix = np.asarray(integers.rows(0, integers.shape[0]), dtype=np.float64) / session.grid.bound
        out |= {name: matrix[:, j] for j, name in enumerate(names)}
    return out


@pytest.mark.parametrize("method", ["default", "raw"])
def test_without_noise_every_k_gives_least_squares_on_the_fixed_point_data(method: str) -> None:
    frame = _frame(300, 8)
    found = {}
    for K in (1, 2, 4, 8):
        agreement, tables = _study(frame, K, epsilon=1e9)
        outcome = run_unguarded(agreement, tables, "none", Randomness(seed=b"same"))
        model = solve(outcome.release.moments(), Task.LINEAR, method=method, ridge=0.0)
        assert len(outcome.session.parties) == K
        values = _fixed_point(outcome, tables)
        design = np.column_stack([np.ones(300), *(values[name] for name in model.features)])
        label = values[LABEL] if LABEL in values else values[f"{LABEL}+"] - values[f"{LABEL}-"]
        weights = np.linalg.lstsq(design, label, rcond=None)[0]
        assert [model.intercept, *model.coefficients] == pytest.approx(weights, abs=1e-6)
        found[K] = dict(zip(model.features, model.coefficients, strict=True))
    for K in (2, 4, 8):
        assert found[K] == pytest.approx(found[1], abs=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_plan_adds_the_same_noise_for_every_k(delta: float) -> None:
    frame = _frame(200, 8)
    spread = {}
    for K in (1, 2, 4, 8):
        session = plan_session(_study(frame, K, 2.0, delta)[0], 200, bytes(32))
        spread[K] = {i.block.role: session.plan.noise_std(i) for i in session.plan.blocks}
        assert len({(i.block.role, i.scale) for i in session.plan.blocks}) == len(spread[K])
    for K in (2, 4, 8):
        # The L2 bound is found by a numeric search, which ends in its last digits elsewhere.
        assert spread[K] == pytest.approx(spread[1], rel=0 if delta == 0 else 1e-6)


def _coefficients(frame: pl.DataFrame, K: int, epsilon: float, runs: int) -> NDArray[np.float64]:
    agreement, tables = _study(frame, K, epsilon)
    # Hundreds of runs of one plan: only the session's identity is new in each.
    planner, rows = OnePlan(), []
    for run in range(runs):
        wire = tapped_session(agreement, f"{K} parties, run {run}".encode(), tables=tables, planner=planner)
        wire.run()
        assert wire.release is not None
        model = solve(wire.release.moments(), Task.LINEAR, method="raw", ridge=0.05)
        weights = dict(zip(model.features, model.coefficients, strict=True))
        rows.append([weights[name] for name in sorted(weights)])
    return np.array(rows)


def _likelihood(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The smallest p-value that both are of one law, by the coefficients and by their distances from the middle."""
    middle = np.median(np.concatenate([first, second]), axis=0)
    return min(
        float(ks_2samp(shape(first[:, j]), shape(second[:, j])).pvalue)
        for j in range(first.shape[1])
        for shape in (np.array, lambda values, j=j: np.abs(values - middle[j]))
    )


@pytest.mark.statistical
def test_with_noise_the_law_of_the_coefficients_does_not_depend_on_k() -> None:
    frame = _frame(60, 4)
    one = _coefficients(frame, 1, 20.0, 250)
    four = _coefficients(frame, 4, 20.0, 130)
    # Seeds are fixed, so this is no lottery.
    assert _likelihood(one, four) > 1e-4
    # The same comparison notices the noise of half the epsilon.
    assert _likelihood(_coefficients(frame, 1, 10.0, 250), four) < 1e-6
