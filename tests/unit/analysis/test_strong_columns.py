"""Columns that follow the label closely, released with the label alone: what is guessed of them must be possible."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.analysis.denoise import denoise
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Moments, Role


def test_a_guess_does_not_move_squares_that_were_released() -> None:
    rng, n = np.random.default_rng(5), 20_000
    y = rng.integers(0, 2, n)
    numbers = np.clip(0.5 * (2 * y - 1)[:, None] + 0.3 * rng.standard_normal((n, 3)), -1, 1)
    attributes = [Attribute(ColumnRef("A", f"x{k}"), Encoding.SIGNED, (f"x{k}",)) for k in range(3)]
    attributes.append(Attribute(ColumnRef("A", "y"), Encoding.SIMPLEX, ("y=no", "y=yes"), Role.LABEL, drop=0))
    layout = Layout(tuple(attributes))
    records = np.column_stack([np.ones(n), numbers, 1 - y, y])
    std = np.full((6, 6), np.inf)
    std[:4, 4:] = std[4:, :4] = std[np.arange(1, 4), np.arange(1, 4)] = 0.01
    std[0, 0] = std[4, 5] = std[5, 4] = 0.0
    value = np.where(np.isfinite(std), records.T @ records, 0.0)
    found = denoise(Moments(n, layout, value, std, Distribution.LAPLACE))
    # The label explains three quarters of each: 1 / BEHIND times that would be more than all there is.
    assert np.corrcoef(numbers[:, 0], y)[0, 1] ** 2 > 0.7
    assert np.diag(found.value)[1:4] == pytest.approx((numbers**2).sum(axis=0), rel=1e-4)
    assert np.linalg.eigvalsh(found.covariance[1:4, 1:4]).min() > -1e-6 * n
