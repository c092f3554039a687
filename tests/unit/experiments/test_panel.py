"""The development panel: simulated releases of a made set, and gradient descent that pays for its tuning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.baselines import private_gd
from experiments.baselines.accounting import zcdp_rho
from experiments.paper import listing, panel
from experiments.paper.methods import APPROXIMATE, OURS, PURE, Cell


def test_a_large_epsilon_comes_close_to_no_privacy() -> None:
    free = panel.measure("rare-1", panel.NON_PRIVATE, "none", 0.0, 0, b"seed")
    ours = panel.measure("rare-1", OURS, APPROXIMATE, 10.0, 0, b"seed")
    assert free["auc"] - 0.02 < ours["auc"] < free["auc"] + 0.02
    assert ours["label"] == 0.0 and ours["explained"] > 0.9


def test_cells_have_every_method_and_goal() -> None:
    cells = [cell for cell, _ in panel.cells("nested", 2)]
    named = {"base rate", "non-private", OURS, "DP-GD", "AdaSSP", "diffprivlib", "DPSGD"}
    assert {c.method for c in cells} == named | {panel.BINNED, panel.ORACLE}
    assert Cell("nested", OURS, PURE, 0.1, panel.PARTIES) in cells
    assert set(panel.GOALS) < {(c.privacy, c.epsilon) for c in cells if c.method == OURS}


def test_an_oracle_knows_all_but_the_products_with_the_label() -> None:
    plan = panel.template(panel.panelled("rare-1").session(1000, 1.0, release="label"))
    known, label = panel.knowing(plan), plan.layout.span(plan.layout.label)
    np.testing.assert_array_equal(known.std[label], plan.std[label])
    others = np.delete(np.delete(known.std, np.r_[label], axis=0), np.r_[label], axis=1)
    assert others.max() == panel.EXACT


def row_of(method: str, privacy: str, epsilon: float, gap: float, data: str = "nested") -> panel.Row:
    return panel.Row(data, method, privacy, epsilon, 2, 0.8, gap, 0.001, 0.7, 0.0, 0.4, 0.5, "full", 0.9, 0, 5, 100)


def test_a_gap_stands_in_brackets_where_the_oracle_has_none() -> None:
    cells = [(p, e) for p in (PURE, APPROXIMATE) for e in panel.EPSILONS]
    rows = [row_of(panel.BINNED, p, e, 0.1) for p, e in cells]
    rows += [row_of(panel.ORACLE, p, e, 0.001 if e == 1 else 0.08) for p, e in cells]
    rows.append(row_of(panel.NON_PRIVATE, "none", 0.0, 0.0))
    old = [row_of(OURS, p, e, 0.1, "votes") for p, e in cells] + [row_of("DPSGD", PURE, 1.0, 0.2)]
    old.append(row_of(panel.NON_PRIVATE, "none", 0.0, 0.0, "votes"))
    kept = panel.kept(rows, listing.csv_text(old, {"title": "T"}))
    assert [r.data for r in kept] == ["nested"] * 14 + ["votes"] * 7
    page = panel.markdown(listing.csv_text(kept, {"title": "T"}))
    assert page.count("(0.1000 ± 0.0010) / 0.0010") == 2
    assert page.count("| 0.1000 ± 0.0010 / 0.0800") == 4
    assert page.count("(0.1000 ± 0.0010) |") == len(panel.GOALS)


def test_gradient_descent_spends_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of all settings and the choice among them add up to rho."""
    spent: list[float] = []

    def train(X: np.ndarray, y: np.ndarray, steps: int, size: float, sigma: float, rng: object) -> np.ndarray:
        spent.append(steps * 2.0**2 / (2 * sigma**2))
        return np.zeros(X.shape[1])

    monkeypatch.setattr(private_gd, "train", train)
    private_gd.fit(np.ones((4, 1)), np.ones(4), 1.0, 1e-5, np.random.default_rng(0))
    rho = zcdp_rho(1.0, 1e-5)
    assert sum(spent) == pytest.approx((1 - private_gd.CHOOSING) * rho)


def test_gradient_descent_learns() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(-1, 1, (20_000, 2)), np.ones(20_000)])
    y = (rng.random(20_000) < 1 / (1 + np.exp(-4 * X[:, 0]))).astype(float)
    w = private_gd.fit(X, y, 1.0, 1e-5, rng)
    assert w[0] > 3 * abs(w[1]) and math.isfinite(float(w.sum()))
    assert np.mean((X @ w > 0) == (y > 0.5)) > 0.75
