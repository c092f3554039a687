"""Order 2 against order 4 of the logistic objective, with and without interactions, two parties and three.

The label follows a product of two parties' columns besides the columns themselves. Every row is a whole session in one
process, judged on fresh records, beside maximum likelihood on the same records.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.analysis.quartic import INTERVAL, quartic_fit
from colonnade.analysis.solve import solve
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study

Floats = NDArray[np.float64]
EPSILONS = (0.1, 1.0, 10.0)
SMALL, LARGE, FRESH = 20_000, 1_000_000, 100_000
NUMBER = '{ kind = "numeric", low = -1, high = 1 }'


@dataclass(frozen=True)
class Setting:
    """One row of the table; epsilon None is the model without noise."""

    parties: int
    d: int
    n: int
    product: str
    interactions: bool
    order: int
    epsilon: float | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("abc"[: self.parties])

    def owner(self, column: str) -> str:
        return self.names[int(column[1:]) % self.parties]

    @property
    def products(self) -> tuple[tuple[str, ...], ...]:
        """The signal, and with three parties a product of all three that explains nothing."""
        found = (("x0", "x1"), ("x0", "x1", "x2"))
        return found[: self.parties - 1] if self.interactions else ()


@dataclass(frozen=True)
class Found:
    """What a setting came to."""

    count: int | None
    accuracy: float
    loss: float
    told: float | None
    """Share of records outside the interval, as the model of order 4 tells it."""
    outside: float


@cache
def _draw(d: int, n: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (n, d))
    score = 3 * x[:, 0] * x[:, 1] + 2 * x[:, 0] - x[:, 2] + 0.5
    return x, generator.uniform(size=n) < 1 / (1 + np.exp(-score))


def settings() -> Iterator[Setting]:
    for parties, (d, n, kind) in product((2, 3), ((4, SMALL, "lattice"), *((d, LARGE, "plain") for d in (4, 6, 8)))):
        for interactions in (False, True):
            for epsilon in EPSILONS:
                for order in (2, 4):
                    yield Setting(parties, d, n, kind, interactions, order, epsilon)
            yield Setting(parties, d, n, "", interactions, 0, None)


def run(setting: Setting) -> Found:
    """One session, or one exact fit."""
    x, y = _draw(setting.d, setting.n, 1)
    count, told = None, None
    if setting.epsilon is None:
        weights = _likeliest(_design(x, setting), y)
    else:
        count, weights, told = _session(setting, x, y)
    fresh, wanted = _draw(setting.d, FRESH, 2)
    score = _design(fresh, setting) @ weights
    loss = float(np.mean(np.logaddexp(0, score) - wanted * score))
    accuracy = float(np.mean((score > 0) == wanted))
    return Found(count, accuracy, loss, told, float(np.mean(np.abs(score) > INTERVAL)))


def _design(x: Floats, setting: Setting) -> Floats:
    made = [np.prod([x[:, int(c[1:])] for c in columns], axis=0) for columns in setting.products]
    return np.column_stack([np.ones(len(x)), x, *made])


def _session(setting: Setting, x: Floats, y: NDArray[np.bool_]) -> tuple[int, Floats, float | None]:
    """Numbers released, weights with the intercept first, and the share outside that the model tells."""
    named = [[f"{setting.owner(c)}.{c}" for c in columns] for columns in setting.products]
    lines = [
        f'[study]\nname = "o"\ntask = "logistic"\nlabel = "a.y"\nepsilon = {setting.epsilon}\nalignment = "none"',
        f'product = "{setting.product}"\nrelease = "full"\norder = {setting.order}\ninteractions = {json.dumps(named)}',
    ]
    columns = [f"x{j}" for j in range(setting.d)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for party in setting.names:
            own = {c: x[:, int(c[1:])] for c in columns if setting.owner(c) == party}
            lines.append(f'[party.{party}]\ndata = "{party}.parquet"\n[party.{party}.columns]')
            lines += [f"{c} = {NUMBER}" for c in own]
            frame = pl.DataFrame(own)
            if party == "a":
                frame = frame.with_columns(y=pl.Series(np.where(y, "yes", "no")))
                lines.append('y = { kind = "binary", levels = ["no", "yes"] }')
            frame.write_parquet(path / f"{party}.parquet")
        (path / "s.toml").write_text("\n".join(lines), encoding="utf-8")
        release = fit(read_study(path / "s.toml"), RunOptions(randomness=Randomness(b"order"))).release
    moments, told = release.moments(), None
    if setting.order > 2:
        # What `solve` takes too.
        found = quartic_fit(moments)
        names, told = [moments.layout.names[c] for c in moments.layout.features], found.outside
        by_name = dict(zip(["", *names], found.weights, strict=True))
    else:
        model = solve(moments, Task.LOGISTIC)
        by_name = dict(zip(["", *model.features], [model.intercept, *model.coefficients], strict=True))
    wanted = ["", *columns, *(":".join(product) for product in setting.products)]
    return sum(b.values.size for b in release.blocks), np.array([by_name[name] for name in wanted]), told


def _likeliest(design: Floats, y: NDArray[np.bool_]) -> Floats:
    w = np.zeros(design.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-design @ w))
        w += np.linalg.solve((design.T * (chance * (1 - chance))) @ design, design.T @ (y - chance))
    return np.asarray(w)


def study(kept: Path | None, stored: bool = False) -> list[tuple[Setting, Found]]:
    """All rows; those that `kept` has from an earlier run are taken from there, and new ones are added to it.

    With `stored` nothing is run: rows that were not finished are left out.
    """
    known: dict[str, Found] = {}
    if kept is not None and kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            known[json.dumps(entry["setting"])] = Found(**entry["found"])
    out = []
    for setting in settings():
        key = json.dumps(asdict(setting))
        if key not in known and stored:
            continue
        if key not in known:
            known[key] = run(setting)
            sys.stderr.write(f"{setting} {known[key]}, {_memory()} MB\n")
            if kept is not None:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"setting": asdict(setting), "found": asdict(known[key])}) + "\n")
        out.append((setting, known[key]))
    return out


def _memory() -> int:
    """The most that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def markdown(kept: Path | None = None, stored: bool = False) -> str:
    """The table."""
    rows = study(kept, stored)
    _, y = _draw(4, FRESH, 2)
    share = float(np.mean(y))
    larger = max(share, 1 - share)
    base = -share * np.log(share) - (1 - share) * np.log(1 - share)
    lines = [
        "# Order 2 and order 4 of the logistic objective",
        "",
        "`python -m experiments.paper polynomial --write`: K parties hold d numbers, drawn evenly from -1 to 1, and",
        "one of them the label, with log-odds 3 x0 x1 + 2 x0 - x2 + 0.5; x0 and x1 are of two parties. With",
        "interactions the model has a weight for x0 x1, and with K = 3 for x0 x1 x2, of three parties, which explains",
        f"nothing. Accuracy and log-loss on {FRESH:,} fresh records; the larger class has {larger:.3f} and",
        f"its base rate {base:.3f}. Not private: maximum likelihood on the same records. Outside: the share of records",
        f"whose score may lie beyond ±{INTERVAL:g}, as the model of order 4 tells it (at most), and that of the fresh",
        "records. One seeded session for each row, collusion 1, pure epsilon for a whole record.",
        "",
        "| K | d | n | product | interactions | epsilon | order | numbers | accuracy | log-loss | told | outside |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for s, found in rows:
        size = f"| {s.parties} | {s.d} | {s.n:,} | {s.product} | {'with' if s.interactions else 'without'}"
        if s.epsilon is None:
            lines.append(
                f"{size} | not private | | | {found.accuracy:.4f} | {found.loss:.4f} | | {found.outside:.1%} |"
            )
            continue
        told = "" if found.told is None else f"{found.told:.1%}"
        lines.append(
            f"{size} | {s.epsilon:g} | {s.order} | {found.count} | {found.accuracy:.4f} | {found.loss:.4f} | {told} | "
            f"{found.outside:.1%} |"
        )
    missing = len(list(settings())) - len(rows)
    left = [f"{missing} of {missing + len(rows)} rows were not run when this was written."] if missing else []
    return "\n".join([*lines, "", *_summary(rows), *left]) + "\n"


def _summary(rows: list[tuple[Setting, Found]]) -> list[str]:
    """Where order 4 does better than order 2, counted."""
    losses = {setting: found.loss for setting, found in rows}
    pairs = [
        (loss, losses[Setting(s.parties, s.d, s.n, s.product, s.interactions, 2, s.epsilon)])
        for s, loss in losses.items()
        if s.order == 4 and Setting(s.parties, s.d, s.n, s.product, s.interactions, 2, s.epsilon) in losses
    ]
    better = sum(four < two for four, two in pairs)
    return [f"Order 4 has the smaller log-loss in {better} of the {len(pairs)} pairs of rows."]
