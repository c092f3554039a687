"""However large the noise, a linear fit is never much worse than the model that looks at nothing."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.analysis.posterior import NoisyEquations, posterior
from colonnade.analysis.solve import solve
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded

pytestmark = pytest.mark.statistical
TRIALS = 40


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("width", [3, 30, 150])
@pytest.mark.parametrize("loudness", [0.1, 1.0, 10.0, 1000.0])
def test_noise_alone_costs_at_most_a_quarter(law: str, width: int, loudness: float, known: bool) -> None:
    """The features explain nothing; the noise has `loudness` times the variance that they could explain.

    With its law known weights may be taken as sparse, too.
    """
    random = np.random.default_rng(7)
    variance, square = 0.05, 0.3
    std = np.sqrt(loudness * variance * square / width)
    excess = []
    for _ in range(TRIALS):
        drawn = random.normal(size=width) if law == "gaussian" else random.laplace(scale=np.sqrt(0.5), size=width)
        system = NoisyEquations(
            square * np.eye(width),
            std * drawn,
            np.zeros((width, width)),
            np.full(width, std**2),
            1e-9,
            tuple(range(width)),
            explainable=variance,
            law=Distribution(law) if known else None,
        )
        weights = posterior(system).weights
        excess.append(square * float(weights @ weights))
    error = np.std(excess) / np.sqrt(TRIALS)
    assert np.mean(excess) - 3 * error <= variance * (0.288 if known and law == "laplace" else 0.25)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (0.5, 0.0), (0.05, 1e-3), (1.0, 1e-3)])
@pytest.mark.parametrize(("width", "released"), [(4, "full"), (40, "full"), (40, "trace"), (150, "trace")])
def test_never_beyond_the_stated_bound(epsilon: float, delta: float, width: int, released: str) -> None:
    random = np.random.default_rng(width)
    rows = 1500
    X = random.uniform(-1, 1, (2 * rows, width))
    signal = X @ random.normal(size=width) / np.sqrt(width)
    y = np.clip(0.3 * signal + 0.1 * random.normal(size=2 * rows), -1, 1)
    columns = {f"x{j}": Numeric(-1, 1) for j in range(width)} | {"y": Numeric(-1, 1)}
    agreement = Agreement.from_terms(
        "bound", Schema({"P1": columns}), "y", Task.LINEAR, epsilon=epsilon, delta=delta, collusion=0, product="plain",
        release=released,
    )  # fmt: skip
    values = {f"x{j}": X[:rows, j] for j in range(width)} | {"y": y[:rows]}
    table = Table("P1", columns, values, rows)
    trivial = np.mean((y[rows:] - y[:rows].mean()) ** 2)
    excess = []
    for seed in range(8):
        release = run_unguarded(agreement, {"P1": table}, "none", Randomness(bytes([seed]))).release
        model = solve(release.moments(), Task.LINEAR)
        weights = dict(zip(model.features, model.coefficients, strict=True))
        predicted = X[rows:] @ np.array([weights[f"x{j}"] for j in range(width)]) + model.intercept
        excess.append(np.mean((predicted - y[rows:]) ** 2) - trivial)
    # The label's square is known in a trace release; else its range alone bounds the variance.
    assert np.mean(excess) <= (trivial if released == "trace" else 1.0) / 4, excess
