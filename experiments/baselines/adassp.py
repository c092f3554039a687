"""AdaSSP: Gaussian noise on X'X, X'y and the smallest eigenvalue, and a ridge that adapts to the latter.

Source: Wang, "Revisiting differentially private linear regression", UAI 2018, Algorithm 2. It splits (epsilon, delta)
in three equal parts with a noise of sqrt(log(6/delta)) / (epsilon/3), for neighbours that add or remove a record.

Chosen here: neighbours replace a record, as everywhere in this project, so the three sensitivities are
B^2 (smallest eigenvalue), sqrt(2) B^2 (X'X in Frobenius norm) and 2 B (X'y, |y| <= 1), where B bounds a record's L2
norm. The three Gaussians are calibrated jointly and exactly, each with mu/sqrt(3) where mu is the whole's;
that is less noise than the source's own formula. Off-diagonal entries of X'X are released once. The failure
probability in the ridge is 0.05, as in the source.

Left open by the source: how B is known. `fit` takes it as an argument; sqrt(d) holds for any features in [-1, 1], and
sqrt(number of attributes) for one-hot features, since each attribute's encoding has norm at most 1.

Accounting: (epsilon, delta), replacement of one record, exact composition of three Gaussian mechanisms.
"""

import math

import numpy as np
from numpy.typing import NDArray

from experiments.baselines.accounting import gaussian_mu

Array = NDArray[np.float64]
FAILURE = 0.05


def deviations(epsilon: float, delta: float, B: float) -> tuple[float, float, float]:
    """Standard deviations of the noise on the smallest eigenvalue, on X'X and on X'y."""
    mu = gaussian_mu(epsilon, delta) / math.sqrt(3)
    return B * B / mu, math.sqrt(2) * B * B / mu, 2 * B / mu


def fit(X: Array, y: Array, epsilon: float, delta: float, rng: np.random.Generator, B: float | None = None) -> Array:
    """Weights of the linear regression; B defaults to sqrt(d)."""
    d = X.shape[1]
    s_min, s_xx, s_xy = deviations(epsilon, delta, math.sqrt(d) if B is None else B)
    G = X.T @ X
    margin = s_min * math.sqrt(math.log(6 / delta))
    smallest = max(0.0, float(np.linalg.eigvalsh(G)[0]) + s_min * rng.standard_normal() - margin)
    ridge = max(0.0, s_xx * math.sqrt(d * math.log(2 * d * d / FAILURE)) - smallest)
    # The upper triangle carries each off-diagonal entry once: its L2 sensitivity is below the Frobenius norm's.
    drawn = np.triu(s_xx * rng.standard_normal((d, d)))
    noise = drawn + np.triu(drawn, 1).T
    noisy = G + noise + ridge * np.eye(d)
    return np.asarray(np.linalg.solve(noisy, X.T @ y + s_xy * rng.standard_normal(d)), dtype=np.float64)
