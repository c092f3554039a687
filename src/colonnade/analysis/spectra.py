"""Eigenvalues and eigenvectors, at once where matrices are diagonal: a release of a trace knows nothing else."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from colonnade.mechanism.moments import Floats


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
