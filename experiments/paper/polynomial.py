"""What interactions of several owners bring and cost: models with and without them, beside models without noise.

Three parties hold d numbers; what the label follows is a product of two parties' columns. Each model is fitted by a
whole session in one process and judged on fresh records.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.analysis.solve import solve
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study

Floats = NDArray[np.float64]
PARTIES = ("a", "b", "c")
INTERACTIONS = (("x0", "x1"), ("x0", "x1", "x2"))
"""The signal, a product of two owners' columns, and one of three owners' that explains nothing."""
EPSILONS = (0.1, 1.0, 10.0)
SIZES = ((4, 20_000, "lattice"), (4, 100_000, "plain"), (6, 100_000, "plain"), (8, 100_000, "plain"))
FRESH = 20_000
HEAD = "| task | d | n | product | epsilon | without | with | not private, without | not private, with |"


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    task: Task
    d: int
    n: int
    product: str
    epsilon: float

    def draw(self, n: int, seed: int) -> tuple[dict[str, Floats], Floats]:
        """Columns by name, and the label: a number, or 0 and 1."""
        generator = np.random.default_rng(seed)
        columns = {f"x{j}": generator.uniform(-1, 1, n) for j in range(self.d)}
        signal = columns["x0"] * columns["x1"]
        if self.task is Task.LINEAR:
            return columns, np.clip(0.8 * signal + 0.1 * columns["x2"] + 0.1 * generator.normal(size=n), -1, 1)
        chance = 1 / (1 + np.exp(-(6 * signal + 0.5 * columns["x2"])))
        return columns, (generator.uniform(size=n) < chance).astype(float)

    def rows(self) -> tuple[float, float, float, float]:
        """R² or accuracy on fresh records: without and with interactions, private and not."""
        columns, label = self.draw(self.n, 1)
        fresh, wanted = self.draw(FRESH, 2)
        found = []
        for private in (True, False):
            for interactions in ((), INTERACTIONS):
                names = [*columns, *(":".join(i) for i in interactions)]
                weights = (
                    self._private(columns, label, interactions)
                    if private
                    else dict(zip(["", *names], _least_squares(columns, label, names), strict=True))
                )
                score = weights.get("", 0.0) + sum(w * _value(fresh, name) for name, w in weights.items() if name)
                found.append(self._quality(np.asarray(score), wanted, private))
        return found[0], found[1], found[2], found[3]

    def _quality(self, score: Floats, wanted: Floats, private: bool) -> float:
        if self.task is Task.LINEAR:
            return float(1 - np.mean((np.clip(score, -1, 1) - wanted) ** 2) / np.var(wanted))
        # Least squares of 0 and 1 puts the border at a half, the logistic score at 0.
        return float(np.mean((score > (0.0 if private else 0.5)) == (wanted > 0.5)))

    def _private(
        self, columns: dict[str, Floats], label: Floats, interactions: tuple[tuple[str, ...], ...]
    ) -> dict[str, float]:
        owner = {name: PARTIES[j % len(PARTIES)] for j, name in enumerate(columns)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "s.toml").write_text(self._study(owner, interactions), encoding="utf-8")
            y = label if self.task is Task.LINEAR else np.where(label > 0, "yes", "no")
            for party in PARTIES:
                own = {name: columns[name] for name in columns if owner[name] == party}
                pl.DataFrame(own | ({"y": y} if party == "a" else {})).write_parquet(path / f"{party}.parquet")
            release = fit(read_study(path / "s.toml"), RunOptions(randomness=Randomness(b"polynomial"))).release
        model = solve(release.moments(), self.task)
        return {"": model.intercept, **dict(zip(model.features, model.coefficients, strict=True))}

    def _study(self, owner: dict[str, str], interactions: tuple[tuple[str, ...], ...]) -> str:
        number = '{ kind = "numeric", low = -1, high = 1 }'
        label = number if self.task is Task.LINEAR else '{ kind = "binary", levels = ["no", "yes"] }'
        named = [[f"{owner[c]}.{c}" for c in columns] for columns in interactions]
        lines = [
            f'[study]\nname = "p"\ntask = "{self.task.value}"\nlabel = "a.y"\nepsilon = {self.epsilon}',
            f'alignment = "none"\nproduct = "{self.product}"\nrelease = "full"',
            f"interactions = {json.dumps(named)}",
        ]
        for party in PARTIES:
            lines.append(f'[party.{party}]\ndata = "{party}.parquet"\n[party.{party}.columns]')
            lines += [f"{name} = {number}" for name in owner if owner[name] == party]
            lines += [f"y = {label}"] if party == "a" else []
        return "\n".join(lines)


def _value(columns: dict[str, Floats], name: str) -> Floats:
    return np.asarray(np.prod([columns[factor] for factor in name.split(":")], axis=0))


def _least_squares(columns: dict[str, Floats], label: Floats, names: list[str]) -> Floats:
    design = np.column_stack([np.ones(len(label)), *(_value(columns, name) for name in names)])
    return np.asarray(np.linalg.lstsq(design, label, rcond=None)[0])


def cases() -> Iterator[Case]:
    for task in (Task.LINEAR, Task.LOGISTIC):
        for d, n, product in SIZES:
            for epsilon in EPSILONS:
                yield Case(task, d, n, product, epsilon)


def markdown() -> str:
    """The table; every row is two sessions."""
    lines = [
        "# Interactions of several owners",
        "",
        "`python -m experiments.paper polynomial --write`: three parties hold d numbers, drawn evenly from -1 to 1,",
        "and one of them the label. It follows x0 · x1, of two parties, with a little of x2. Without interactions the",
        "model has d features; with them also x0:x1 and x0:x1:x2, of three parties, which explains nothing. Linear: R²",
        f"on {FRESH:,} fresh records (0 is the mean's). Logistic, order 2: accuracy (0.5 is the coin's). Not private:",
        "least squares on the same records. One seeded session for each number, collusion 1, pure epsilon for a whole",
        "record.",
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases():
        told = " | ".join(f"{value:.3f}" for value in case.rows())
        lines.append(f"| {case.task.value} | {case.d} | {case.n:,} | {case.product} | {case.epsilon:g} | {told} |")
    return "\n".join(lines) + "\n"
