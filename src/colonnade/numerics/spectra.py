"""Functions of a symmetric matrix's eigenvalues; at once where matrices are diagonal, as those of a trace are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]


def diagonal(matrix: Floats) -> bool:
    """Whether nothing stands beside the diagonal."""
    return bool(np.count_nonzero(matrix) == np.count_nonzero(np.diagonal(matrix)))


def eigenvalues(matrix: Floats) -> Floats:
    """Of a symmetric matrix, ascending."""
    result = np.sort(np.diagonal(matrix)) if diagonal(matrix) else np.linalg.eigvalsh(matrix)
    return np.asarray(result, dtype=np.float64)


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
    if diagonal(matrix):
        order = np.argsort(np.diagonal(matrix), kind="stable")
        return np.diagonal(matrix)[order], np.eye(len(matrix))[:, order]
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def joint_eigen(matrix: Floats, base: Floats) -> tuple[Floats, Floats]:
    """Values and vectors of matrix v = value base v, with v' base v = 1; `base` is positive definite."""
    if diagonal(matrix) and diagonal(base):
        scale = np.diagonal(base)
        return np.diagonal(matrix) / scale, np.diag(1.0 / np.sqrt(scale))
    values, vectors = eigh(matrix, base)
    return values, vectors


def spectral(matrix: Floats, function: Callable[[Floats], Floats]) -> Floats:
    """The function of a matrix, symmetric but for rounding: it is applied to the eigenvalues."""
    values, vectors = eigen(0.5 * (matrix + matrix.T))
    result: Floats = (vectors * function(values)) @ vectors.T
    return result


def positive_part(matrix: Floats, least: float = 0.0) -> Floats:
    """The nearest matrix that has no eigenvalue below `least`."""
    return spectral(matrix, lambda values: np.maximum(values, least))


def symmetric_root(matrix: Floats) -> Floats:
    """The symmetric root of the positive part."""
    return spectral(matrix, lambda values: np.sqrt(np.maximum(values, 0.0)))


def usable_power(values: Floats, power: float, usable: NDArray[np.bool_]) -> Floats:
    """A power of the usable values, and 0 for the others: directions without information count nothing."""
    result: Floats = np.where(usable, np.where(usable, values, 1.0) ** power, 0.0)
    return result


def solve_usable(
    matrix: Floats, right: Floats, usable: Callable[[Floats], NDArray[np.bool_]], ridge: float = 0.0
) -> Floats:
    """The solution of (matrix + ridge) x = right in the span of the eigenvectors whose shifted values serve."""
    values, vectors = eigen(matrix)
    shifted = values + ridge
    result: Floats = vectors @ (usable_power(shifted, -1.0, usable(shifted)) * (vectors.T @ right))
    return result
