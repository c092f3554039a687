"""Made-up classes that are hard for a solver: nearly dependent columns, rare classes, few records, no signal.

No constant of the solver was fitted to them, but its design was judged with them and with Adult and Dutch in view. Each
is a function of its seed, with the schema in public.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.data.dataset import ColumnSpec, Dataset, binary, categorical, numeric

Array = NDArray[np.float64]
Levels = NDArray[np.int64]
TEST = 5_000
"""Records beyond the training rows, for the test."""


def _letters(count: int) -> list[str]:
    return [f"l{k:02d}" for k in range(count)]


def _labelled(
    name: str, columns: dict[str, ColumnSpec], values: dict[str, Array | Levels], score: Array, share: float, seed: int
) -> Dataset:
    """The data set whose label has the given share and log-odds `score` up to a constant."""
    rng = np.random.default_rng([seed, len(score)])
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float((1 / (1 + np.exp(-score - middle))).mean()) < share else (low, middle)
    positive = rng.random(len(score)) < 1 / (1 + np.exp(-score - low))
    frame: dict[str, object] = {}
    for column, spec in columns.items():
        own = values[column]
        frame[column] = np.array(spec["levels"])[own] if spec["kind"] != "numeric" else np.clip(own, -1, 1)
    frame["label"] = np.where(positive, "yes", "no")
    return Dataset(name, pl.DataFrame(frame), columns | {"label": binary("no", "yes")}, "label", "logistic")


def copies(n: int = 20_000, groups: int = 8, each: int = 4, share: float = 0.3, blur: float = 0.05) -> Dataset:
    """Numbers that are noisy copies of each other; the label follows what is behind them."""
    rng = np.random.default_rng(11)
    behind = rng.uniform(-0.9, 0.9, (n + TEST, groups))
    names = [f"x{g}{k}" for g in range(groups) for k in range(each)]
    blurred = np.repeat(behind, each, axis=1) + blur * rng.standard_normal((n + TEST, groups * each))
    score = behind @ rng.normal(size=groups) * 2
    columns = {name: numeric(-1, 1) for name in names}
    return _labelled("Copies", columns, dict(zip(names, blurred.T, strict=True)), score, share, 11)


def nested(n: int = 20_000, share: float = 0.25, rows: int = TEST) -> Dataset:
    """Levels that nearly determine other levels and numbers, as a region does its towns and a grade its years."""
    rng = np.random.default_rng(12)
    m = n + rows
    town = rng.choice(24, m, p=np.geomspace(1, 0.05, 24) / np.geomspace(1, 0.05, 24).sum())
    region = np.where(rng.random(m) < 0.99, town // 3, rng.integers(0, 8, m))
    coast = np.where(rng.random(m) < 0.99, region % 2, rng.integers(0, 2, m))
    years = rng.uniform(-1, 1, m)
    grade = np.clip(((years + 1) * 4 + 0.1 * rng.standard_normal(m)).astype(int), 0, 7)
    step = np.where(rng.random(m) < 0.98, grade // 2, rng.integers(0, 4, m))
    pay = years * 0.8 + 0.05 * rng.standard_normal(m)
    other = rng.uniform(-1, 1, m)
    columns = {
        "town": categorical(_letters(24)), "region": categorical(_letters(8)), "coast": binary("no", "yes"),
        "years": numeric(-1, 1), "grade": categorical(_letters(8)), "step": categorical(_letters(4)),
        "pay": numeric(-1, 1), "other": numeric(-1, 1),
    }  # fmt: skip
    values = dict(zip(columns, (town, region, coast, years, grade, step, pay, other), strict=True))
    score = 0.8 * rng.normal(size=24)[town] + 1.5 * years + 0.8 * (grade == 5) + other
    return _labelled("Nested", columns, values, score, share, 12)


def rare(n: int = 30_000, share: float = 0.01, strength: float = 1.0) -> Dataset:
    """A rare class on twelve columns of both kinds."""
    rng = np.random.default_rng(13)
    m = n + TEST
    numbers = rng.uniform(-1, 1, (m, 6))
    levels = rng.integers(0, 5, (m, 6))
    columns = {f"x{j}": numeric(-1, 1) for j in range(6)} | {f"c{j}": categorical(_letters(5)) for j in range(6)}
    values = dict(zip(columns, [*numbers.T, *levels.T], strict=True))
    score = numbers @ rng.normal(size=6) + np.array([rng.normal(size=5)[own] for own in levels.T]).sum(axis=0) * 0.5
    return _labelled(f"Rare {share:g}", columns, values, strength * score, share, 13)


def wide(n: int = 20_000, share: float = 0.4) -> Dataset:
    """64 columns, half of them binary, in clusters that depend on each other."""
    rng = np.random.default_rng(14)
    m = n + TEST
    behind = rng.standard_normal((m, 8))
    mixed = behind @ rng.normal(size=(8, 64)) / np.sqrt(8) + 0.5 * rng.standard_normal((m, 64))
    numbers, levels = np.tanh(0.7 * mixed[:, :32]), (mixed[:, 32:] > 0.5).astype(np.int64)
    columns = {f"x{j:02d}": numeric(-1, 1) for j in range(32)} | {f"b{j:02d}": binary("no", "yes") for j in range(32)}
    values = dict(zip(columns, [*numbers.T, *levels.T], strict=True))
    return _labelled("Wide", columns, values, behind @ rng.normal(size=8) * 0.6, share, 14)


def tiny(n: int = 300, share: float = 0.35) -> Dataset:
    """Few records of nested levels."""
    rng = np.random.default_rng(15)
    m = n + TEST
    a = rng.uniform(-1, 1, m)
    b = np.clip(a + 0.1 * rng.standard_normal(m), -1, 1)
    c = np.where(rng.random(m) < 0.95, (a > 0).astype(int), rng.integers(0, 2, m))
    d = rng.integers(0, 4, m)
    columns = {"a": numeric(-1, 1), "b": numeric(-1, 1), "c": binary("no", "yes"), "d": categorical(_letters(4))}
    score = 1.5 * a + np.array([-0.5, 0.0, 0.5, 1.0])[d]
    return _labelled("Tiny", columns, dict(zip(columns, (a, b, c, d), strict=True)), score, share, 15)


def silent(n: int = 5_000, share: float = 0.2) -> Dataset:
    """No column says anything of the label; the columns are those of `nested`."""
    base = nested(n, share)
    rng = np.random.default_rng(16)
    label = np.where(rng.random(base.frame.height) < share, "yes", "no")
    return Dataset("Silent", base.frame.with_columns(pl.Series("label", label)), base.columns, "label", "logistic")


def certain(n: int = 10_000, share: float = 0.3) -> Dataset:
    """Classes that two nearly equal numbers almost separate."""
    rng = np.random.default_rng(17)
    m = n + TEST
    a = rng.uniform(-1, 1, m)
    b = a + 0.02 * rng.standard_normal(m)
    c = rng.integers(0, 6, m)
    columns = {"a": numeric(-1, 1), "b": numeric(-1, 1), "c": categorical(_letters(6))}
    values = dict(zip(columns, (a, b, c), strict=True))
    return _labelled("Certain", columns, values, 14 * a + 2.0 * (c == 2), share, 17)


HARD: dict[str, Callable[[], Dataset]] = {
    "copies": copies,
    "copies-rare": lambda: copies(10_000, 5, 3, 0.02, 0.1),
    "nested": nested,
    "nested-small": lambda: nested(2_000, 0.15),
    "rare-1": rare,
    "rare-2": lambda: rare(8_000, 0.02, 1.5),
    "wide": wide,
    "tiny": tiny,
    "silent": silent,
    "certain": certain,
}
"""By name; all but the last `TEST` records are for training, in a random order."""
