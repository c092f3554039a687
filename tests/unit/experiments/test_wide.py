"""The study of wide data: sums drawn from their law against sums of records, and its lines in order."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.analysis.solve import solve
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.forecast import best_columns
from colonnade.mechanism.objective import Task
from colonnade.planning.session_plan import plan_session
from colonnade.simulation import run_unguarded
from experiments.data.synthetic import synthetic_arrays
from experiments.paper import listing, wide, wide800


@pytest.mark.parametrize("release", ["trace", "full"])
def test_drawn_sums_are_those_of_records(release: str) -> None:
    """The same means and spreads as sums over real records, in either layout of the label."""
    d, n, draws = 3, 400, 400
    rng = np.random.default_rng(5)
    plan = wide.template(plan_session(wide.agreement(d, 1.0, 1e-6, release), n, bytes(32)))
    weights = np.array([0.3, -0.2, 0.1])
    drawn, real = [], []
    for _ in range(draws):
        drawn.append(wide.moments_of(plan.layout, n, wide.draw_sums(d, n, d, rng, weights)))
        X = rng.uniform(-1, 1, (n, d))
        y = X @ weights + np.sqrt(wide.UNEXPLAINED) * rng.standard_normal(n)
        label = y[:, None] if release == "trace" else np.column_stack([(1 - y) / 2, (1 + y) / 2])
        z = np.column_stack([np.ones(n), X, label])
        real.append(z.T @ z)
    spread = np.std(real, axis=0)
    assert np.abs(np.mean(drawn, axis=0) - np.mean(real, axis=0)).max() < 6 * spread.max() / np.sqrt(draws)
    # Squares of the label have other tails than the formula's, which are of no importance beside their noise.
    known = np.s_[: d + 1, :]
    assert np.std(drawn, axis=0)[known] == pytest.approx(spread[known], rel=0.2, abs=1e-9)


def test_lines_come_near_fits_of_real_records() -> None:
    d, n = 40, 4000
    drawn = wide.measure(d, n, d, 1.0, True, 12, np.random.default_rng(1))
    assert drawn.released == "trace"
    errors = []
    for seed in range(8):
        X, y, w = synthetic_arrays(n, d, 1.0, seed)
        agreed = wide.agreement(d, 1.0, 1 / n)
        columns = dict(agreed.schema.parties["P1"])
        values = {f"x{j:03d}": X[:, j] for j in range(d)} | {"y": y}
        release = run_unguarded(
            agreed, {"P1": Table("P1", columns, values, n)}, "none", Randomness(bytes([seed]))
        ).release
        model = solve(release.moments(), Task.LINEAR)
        missed = np.array(model.coefficients) - w
        errors.append((wide.UNEXPLAINED + wide.SQUARE * missed @ missed) / wide.LABEL)
    assert np.mean(errors) == pytest.approx(drawn.ours, abs=0.06)
    assert drawn.not_private < drawn.oracle < drawn.ours + 0.03 < 1


def test_the_advised_number_of_columns_is_the_best_of_all() -> None:
    for ratio in (0.5, 1.7, 4.0, 50.0):
        chosen = best_columns(120, ratio)
        shares = [k / 120 / (1 + (k / 120 * ratio) ** 2) for k in range(1, 121)]
        assert shares[chosen - 1] == pytest.approx(max(shares), rel=0.01)


def test_the_page_has_a_line_for_each_row() -> None:
    rows = list(wide.run((30,), (2000,), 1))
    assert [row.columns for row in rows if row.privacy != "pure" or row.epsilon == 10] == [30, 30]
    text = listing.csv_text(rows, {"title": "T", "command": "x"})
    page = wide.markdown(text)
    assert page.count("| 30 | 2,000 |") == len(rows) and "| pure | 1 | trace |" in page


def test_the_papers_records_in_small() -> None:
    rows = list(wide800.measure(1.0, 3, 4000, 20))
    assert [(row.parties, row.collusion) for row in rows] == list(wide800.SETTINGS)
    assert rows[0].noise == pytest.approx(rows[1].noise, rel=0.01) and rows[2].noise > 1.1 * rows[1].noise
    assert all(row.not_private < row.ours < 0.5 for row in rows)
    page = wide800.markdown(listing.csv_text(rows, {"title": "T", "command": "x"}))
    assert page.count("| 1 | 2 | 1 |") == 1
