"""Functions of symmetric matrices, beside scipy's of any matrix and numpy's generalised inverse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm

from colonnade.numerics.spectra import eigen, positive_part, solve_usable, spectral, symmetric_root, usable_power

DRAWN = np.random.default_rng(1).normal(size=(5, 5))
SQUARE, SIGNED = DRAWN @ DRAWN.T, DRAWN + DRAWN.T


@pytest.mark.parametrize("matrix", [SQUARE, np.diag([3.0, 0.5, 2.0])])
def test_the_root_is_scipys(matrix: NDArray[np.float64]) -> None:
    assert symmetric_root(matrix) == pytest.approx(np.real(sqrtm(matrix)), abs=1e-9)


def test_the_positive_part_is_the_rest_beside_that_of_the_negative() -> None:
    above, below = positive_part(SIGNED), positive_part(-SIGNED)
    assert above - below == pytest.approx(SIGNED)
    assert above @ below == pytest.approx(np.zeros((5, 5)), abs=1e-12)
    assert np.linalg.eigvalsh(positive_part(SIGNED, 0.5)).min() == pytest.approx(0.5)
    assert positive_part(SQUARE) == pytest.approx(SQUARE)
    assert positive_part(np.zeros((0, 0))).shape == (0, 0)


def test_diagonal_matrices_are_taken_apart_at_once() -> None:
    values, vectors = eigen(np.diag([3.0, -1.0, 2.0]))
    assert values.tolist() == [-1.0, 2.0, 3.0]
    assert (vectors * values) @ vectors.T == pytest.approx(np.diag([3.0, -1.0, 2.0]))
    assert np.array_equal(spectral(np.diag([3.0, -1.0]), np.abs), np.diag([3.0, 1.0]))


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_directions_without_information_get_nothing(ridge: float) -> None:
    flat = DRAWN[:, :3] @ DRAWN[:, :3].T
    right = flat @ np.arange(5.0)
    found = solve_usable(flat, right, lambda values: values > 1e-9 + ridge, ridge)
    inverse = np.linalg.pinv(flat) if not ridge else np.linalg.inv(flat + ridge * np.eye(5))
    assert found == pytest.approx(inverse @ right, abs=1e-8)
    assert usable_power(np.array([4.0, 0.0]), -0.5, np.array([True, False])).tolist() == [0.5, 0.0]
