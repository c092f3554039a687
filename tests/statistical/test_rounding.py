"""Rounding to the grid has no bias, whatever values a column takes: ages, answers from 1 to 5, years of schooling."""

from __future__ import annotations

from math import sqrt

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from audit.integrity import Study, record_matrix
from colonnade.data.table import table_from
from colonnade.foundation.schema import Column, Numeric, Schema
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.precision import SHARES, rounding_share
from colonnade.planning.session_plan import SessionPlan, plan_session

PARTIES: dict[str, dict[str, Column]] = {
    "a": {"likert": Numeric(1, 5), "age": Numeric(17, 90), "y": Numeric(0, 20)},
    "b": {"school": Numeric(1, 16), "share": Numeric(-1, 1), "half": Numeric(0, 3)},
}
BIAS = 0.02
COINS = 12


def integer_study(rows: int, release: str, epsilon: float, delta: float) -> Study:
    draw = np.random.default_rng(rows)
    columns = {
        "likert": draw.choice([1, 2, 3, 4, 5], rows, p=[0.05, 0.1, 0.2, 0.35, 0.3]),
        "age": np.clip(draw.normal(40, 13, rows).round(), 17, 90),
        "school": np.clip(draw.normal(10, 2.5, rows).round(), 1, 16),
        "share": draw.uniform(-1, 1, rows),
        "half": np.full(rows, 0.7),
    }
    scale = columns["school"] / 2 + columns["likert"] + draw.normal(0, 2, rows)
    agreement = Agreement.from_terms(
        "integers",
        Schema(PARTIES),
        "a.y",
        Task.LINEAR,
        epsilon=epsilon,
        delta=delta,
        release=release,
        label_square=release == "full",
    )
    return Study(agreement, columns | {"y": np.clip(scale.round(), 0, 20)})


def opened_without_noise(session: SessionPlan, study: Study, coins: bytes) -> list[NDArray[np.float64]]:
    """Each block as parties form it, own sums from their own pass, products of two parties from the integers."""
    frame = pl.DataFrame(study.columns)
    integers = np.full((study.rows, session.plan.layout.width), session.grid.bound, dtype=np.int64)
    grams = {}
    for party, own in PARTIES.items():
        columns = table_from(party, frame, own).encode(session.plan.layout, session.grid, (coins + party.encode())[:32])
        integers[:, session.columns_of(party)] = columns.rows(0, study.rows)
        grams[party] = (session.columns_of(party).start - 1, columns.sums.unbiased())
    products = integers.T @ integers
    out = []
    for item in session.plan.blocks:
        factors = item.block.factors[:, -2:]
        if item.block.single:
            offset, gram = grams[item.block.owners[0]]
            values = gram[tuple(np.where(factors == 0, 0, factors - offset).T)]
        else:
            values = products[tuple(factors.T)]
        out.append((values.sum(keepdims=True) if item.block.summed else values) / session.grid.unit)
    return out


def biases(session: SessionPlan, study: Study) -> list[float]:
    """Of each block the largest mean error over several coins, in deviations of one share of its noise."""
    noise = sqrt(2) if session.plan.law is Distribution.LAPLACE else 1.0
    records = record_matrix(study, session.plan.layout)
    truth = records.T @ records
    runs = [opened_without_noise(session, study, bytes([i] * 31)) for i in range(COINS)]
    out = []
    for i, item in enumerate(session.plan.blocks):
        exact = truth[tuple(item.block.factors[:, -2:].T)]
        exact = exact.sum(keepdims=True) if item.block.summed else exact
        error = np.mean([run[i] for run in runs], axis=0) - exact
        weights = 1.0 if item.block.summed else np.abs(item.block.weights)
        out.append(float((np.abs(error) * weights).max()) / (noise * float(item.scale)))
    return out


@pytest.mark.parametrize("release", ["full", "trace"])
@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(10_000, 1.0, 0.0), (10_000, 10.0, 1e-6), (10**6, 1.0, 1e-6)])
def test_sums_products_squares_and_traces_have_no_bias(rows: int, epsilon: float, delta: float, release: str) -> None:
    study = integer_study(rows, release, epsilon, delta)
    session = plan_session(study.agreement, rows, bytes(32))
    assert rounding_share(session.plan, rows, session.grid.bound) <= SHARES[0][0]
    assert max(biases(session, study)) < BIAS


def test_the_same_comparison_rejects_the_nearest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect that was: every answer 4 of 5 rounded to the same side."""
    half = np.uint32(1 << 31)
    monkeypatch.setattr(
        "colonnade.data.gate.Coding.toss", lambda self, start, stop: np.full((stop - start, len(self.rounded)), half)
    )
    study = integer_study(10**6, "full", 1.0, 1e-6)
    session = plan_session(study.agreement, 10**6, bytes(32))
    assert max(biases(session, study)) > 5 * BIAS
