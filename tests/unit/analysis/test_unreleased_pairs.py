"""Columns that were not released together: a model that took each as news would be far too certain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from colonnade.analysis import denoise as denoising
from colonnade.analysis.solve import solve
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Moments, Role
from colonnade.mechanism.objective import Task

ROWS, COPIES = 20_000, 6


def label_release() -> tuple[Moments, np.ndarray, np.ndarray]:
    """Six noisy copies of one yes-or-no column that the label follows, released with the label alone."""
    rng = np.random.default_rng(3)
    behind = rng.random(ROWS) < 0.4
    y = rng.random(ROWS) < np.where(behind, 0.7, 0.15)
    copies = np.where(rng.random((ROWS, COPIES)) < 0.9, behind[:, None], rng.random((ROWS, COPIES)) < 0.4)
    attributes = [
        Attribute(ColumnRef("A", f"x{i}"), Encoding.SIMPLEX, (f"x{i}=no", f"x{i}=yes"), drop=0) for i in range(COPIES)
    ]
    attributes.append(Attribute(ColumnRef("A", "y"), Encoding.SIMPLEX, ("y=no", "y=yes"), Role.LABEL, drop=0))
    layout = Layout(tuple(attributes))
    levels = np.column_stack([copies, y])
    z = np.ones((ROWS, layout.width))
    z[:, 1::2], z[:, 2::2] = ~levels, levels
    std = np.full((layout.width, layout.width), np.inf)
    std[0, 0] = 0.0
    for i in range(COPIES + 1):
        own = layout.span(i)
        std[own, own] = np.where(np.eye(2, dtype=bool), np.inf, 0.0)
        if i < COPIES:
            label = layout.span(COPIES)
            std[own, label] = std[label, own] = 20.0
    exact = z.T @ z
    value = np.where(np.isfinite(std), exact, 0.0)
    return Moments(ROWS, layout, value, std, Distribution.LAPLACE), copies.astype(np.float64), y.astype(np.float64)


def loss(moments: Moments, copies: np.ndarray, y: np.ndarray) -> float:
    model = solve(moments, Task.LOGISTIC)
    chance = np.clip(expit(model.decision(copies)), 1e-9, 1 - 1e-9)
    return float(-np.mean(y * np.log(chance) + (1 - y) * np.log(1 - chance)))


def test_copies_of_one_column_are_not_counted_as_news(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, copies, y = label_release()
    share = y.mean()
    base = float(-(share * np.log(share) + (1 - share) * np.log(1 - share)))
    guessed = loss(moments, copies, y)
    monkeypatch.setattr(denoising, "BEHIND", np.inf)
    # Other moments: an estimate is made once of each.
    independent = loss(label_release()[0], copies, y)
    assert guessed < base - 0.05
    assert guessed < independent - 0.05
