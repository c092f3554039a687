"""DPFW-K: block-coordinate Frank-Wolfe over K parties that share active columns through a private projection.

Source: Lou and Cheung, "Uplink communication efficient differentially private sparse optimization with feature-wise
distributed data", AAAI 2018. One party is drawn per step and takes a private Frank-Wolfe step over its own features;
a feature that became active is shared once with the others as a noisy Johnson-Lindenstrauss projection of its column
(Kenthapadi, Korolova, Mironov and Mishra 2013), from which they update their partial gradients. Uplink n^(2/3).
Only the abstract was at hand when this was written; what it does not fix was chosen as follows.

- Domain: a product of L1 balls, radius C/K each, so that the sum of all weights stays in DPFW-C's ball.
- Parties are drawn uniformly; step 2K / (t + 2K) (Lacoste-Julien et al. 2013); T and C as in DPFW-C.
- Projection: m = n^(2/3) buckets, each record goes to one bucket with a random sign (a sparse Johnson-Lindenstrauss
  transform). One record then touches one entry, so the sensitivity is exact; the projection is public.
- The label is shared in the same way, at the start, by its owner (the first party).

Accounting: (epsilon, delta) under replacement of one record, half of the zCDP budget on sharing, half on choosing.
Sharing: at most A = 1 + min(d, T) columns, each moves by at most 2 in one entry: a Gaussian mechanism of L2 sensitivity
2 sqrt(A). Choosing: given what was shared, with residual r in the projected space, one record moves a score by at most
2 C_k (max|r| + C_k + [1 for the label's owner]) / n; r is known from the messages, so the temperature may follow it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from experiments.baselines.accounting import selection_epsilon, zcdp_rho
from experiments.baselines.frank_wolfe import RADIUS, noisy_vertex, steps_for

Array = NDArray[np.float64]


def sharing_deviation(rho: float, columns: int) -> float:
    """Standard deviation of the noise on every shared entry, for `columns` shared columns at a cost of rho."""
    return 2 * math.sqrt(columns) / math.sqrt(2 * rho)


def choice_sensitivity(ball: float, residual: Array, owns_label: bool, n: int) -> float:
    """How far one record can move a score of a party with an L1 ball of this radius, given what was shared."""
    return 2 * ball * (float(np.max(np.abs(residual))) + ball + float(owns_label)) / n


class Projection:
    """A public random map from n records to m buckets with random signs."""

    def __init__(self, n: int, m: int, rng: np.random.Generator) -> None:
        self._bucket = rng.integers(0, m, n)
        self._sign = rng.choice([-1.0, 1.0], n)
        self._m = m

    def __call__(self, column: Array) -> Array:
        """The m bucket sums of a column."""
        sums: Array = np.bincount(self._bucket, weights=self._sign * column, minlength=self._m).astype(np.float64)
        return sums


def fit(
    X: Array,
    y: Array,
    parties: list[list[int]],
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    radius: float = RADIUS,
    steps: int | None = None,
) -> Array:
    """Weights of the linear regression; parties[k] lists the columns of X that party k holds, the first owns y."""
    n, d = X.shape
    K = len(parties)
    T = steps_for(n, epsilon) if steps is None else steps
    rho = zcdp_rho(epsilon, delta) / 2
    project = Projection(n, math.ceil(n ** (2 / 3)), rng)
    sigma = sharing_deviation(rho, 1 + min(d, T))
    choose = selection_epsilon(rho, T)

    def share(column: Array) -> Array:
        clean = project(column)
        return clean + sigma * rng.standard_normal(len(clean))

    projected = [np.column_stack([project(X[:, j]) for j in columns]) for columns in parties]
    own = [X[:, columns].T @ X[:, columns] / n for columns in parties]
    label = X[:, parties[0]].T @ y / n
    shared_y = share(y)
    shared: dict[int, Array] = {}
    ball = radius / K
    w = np.zeros(d)
    for t in range(T):
        k = int(rng.integers(K))
        columns = parties[k]
        r = sum((w[j] * z for j, z in shared.items() if j not in columns), np.zeros(len(shared_y)))
        if k:
            r = r - shared_y
        gradient = projected[k].T @ r / n + own[k] @ w[columns] - (0.0 if k else label)
        temperature = 2 * choice_sensitivity(ball, r, k == 0, n) / choose
        j, value = noisy_vertex(gradient, ball, temperature, rng)
        gamma = 2 * K / (t + 2 * K)
        w[columns] *= 1 - gamma
        w[columns[j]] += gamma * value
        if columns[j] not in shared:
            shared[columns[j]] = share(X[:, columns[j]])
    return w
