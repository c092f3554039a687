"""Random studies as users declare them, with their records, and the same records as matrices of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import colonnade as cn

Floats = NDArray[np.float64]
HUGE = 1e5
TASKS = {"linear": 0.26, "logistic": 0.26, "multinomial": 0.26, "poisson": 0.14, "objective": 0.08}
LABEL = {
    "linear": {"kind": "numeric", "low": -5, "high": 5},
    "logistic": {"kind": "binary", "levels": ["no", "yes"]},
    "multinomial": {"kind": "categorical", "levels": ["u", "v", "w"]},
    "poisson": {"kind": "numeric", "low": 0, "high": 30},
    "objective": {"kind": "numeric", "low": -5, "high": 5},
}
OBJECTIVES = ("(y - w0 - w1*{a})^2", "(y - w0 - w1*{a}^3)^2", "(y - w0 - w1*{a})^2 + w1^4", "(y - w0 - w1^2*{a})^2")
"""Squares, a cube of a column, and fourth powers of a parameter; {a} is a number's name."""
BALL = 3.0
MANY = 400
"""Levels of a column now and then."""


@dataclass
class Drawn:
    """A random study with its records."""

    task: str
    epsilon: float
    product: str
    kinds: dict[str, dict[str, dict[str, Any]]]
    frame: pl.DataFrame
    derived: dict[str, dict[str, str]] = field(default_factory=dict)
    terms: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        return {name: kind for own in self.kinds.values() for name, kind in own.items()}

    @property
    def huge(self) -> bool:
        return self.epsilon == HUGE

    def study(self) -> cn.Study:
        parties = {}
        for party, own in self.kinds.items():
            more: dict[str, Any] = {"derived": self.derived[party]} if party in self.derived else {}
            parties[party] = cn.Party(self.frame[list(own)], own, **more)
        task = {"poisson": "linear", "objective": "polynomial"}.get(self.task, self.task)
        return cn.Study("y", parties, epsilon=self.epsilon, task=task, product=self.product, **self.terms)


def draw_answers(draw: np.random.Generator) -> Drawn:
    """One to four parties; numbers alone, levels alone or both; constant, rare, binned and derived columns."""
    n, parties = int(draw.integers(300, 1000)), int(draw.integers(1, 5))
    mix = str(draw.choice(["both", "numbers", "levels"]))
    task = str(draw.choice(list(TASKS), p=list(TASKS.values())))
    product = str(draw.choice(["plain", "lattice"], p=[0.85, 0.15]))
    dot = "." if draw.random() < 0.15 else ""
    many = draw.random() < 0.02 and product == "plain" and task != "objective"
    kinds: dict[str, dict[str, dict[str, Any]]] = {f"p{k}": {} for k in range(parties)}
    values: dict[str, Any] = {}
    score = np.zeros(n)
    for k in range(parties):
        for j in range(int(draw.integers(1, 4))):
            name = f"c{dot}{k}{j}"
            first = task == "objective" and not values
            kinds[f"p{k}"][name], values[name], x = _draw(draw, n, "plain" if first else mix, MANY if many else 0)
            many, score = False, score + draw.normal() * x
    odds = 1.5 * score / max(float(score.std()), 1e-9)
    kinds[f"p{draw.integers(parties)}"]["y"] = LABEL[task]
    values["y"] = _label(draw, task, odds)
    numbers = [c for c, kind in kinds["p0"].items() if is_number(kind) and c != "y"]
    derived = {"p0": {"square": f"{numbers[0]}^2"}} if numbers and not dot and draw.random() < 0.15 else {}
    epsilon = HUGE if draw.random() < 0.6 else float(np.exp(draw.uniform(np.log(0.05), np.log(2))))
    terms: dict[str, Any] = {}
    if task in ("linear", "poisson"):
        terms = {"label_square": bool(draw.random() < 0.5)}
    elif task == "objective":
        name = next(iter(values))
        derived, text = {}, str(draw.choice(OBJECTIVES)).format(a=f"'{name}'" if dot else name)
        terms = {"objective": text, "parameters": ["w0", "w1"], "ball": BALL}
    return Drawn(task, epsilon, product, kinds, pl.DataFrame(values), derived, terms)


def _label(draw: np.random.Generator, task: str, odds: Floats) -> Any:
    n = len(odds)
    if task in ("linear", "objective"):
        return np.clip(odds + draw.normal(0, draw.choice([0.3, 2.0]), n), -5, 5)
    if task == "poisson":
        return np.minimum(
            draw.poisson(np.exp(np.clip(0.4 * (odds - odds.mean()), -2, 2) + draw.choice([0.0, 1.0]))), 30
        )
    if task == "logistic":
        return np.where(draw.random(n) < 1 / (1 + np.exp(draw.choice([0.0, 3.5]) - odds)), "yes", "no")
    logits = np.stack([np.zeros(n), odds - draw.choice([0.0, 2.5]), -odds - 1], axis=1)
    return np.array(["u", "v", "w"])[(logits + draw.gumbel(size=logits.shape)).argmax(axis=1)]


def _draw(draw: np.random.Generator, n: int, mix: str, many: int) -> tuple[dict[str, Any], Any, Floats]:
    """A declared column, its values, and a number that the label may depend on."""
    if not many and (mix in ("numbers", "plain") or (mix == "both" and draw.random() < 0.5)):
        low, high = sorted(draw.normal(size=2) * 10 ** draw.uniform(-2, 4))
        high += 0.1
        at = (
            "even"
            if mix == "plain"
            else draw.choice(["even", "constant", "clumped", "binned"], p=[0.4, 0.15, 0.25, 0.2])
        )
        unit = {"constant": np.full(n, 0.3), "clumped": draw.beta(1, 6, n)}.get(str(at), draw.random(n))
        kind = {"kind": "numeric", "low": float(low), "high": float(high)}
        if at == "binned":
            kind["bins"] = [float(v) for v in np.linspace(low, high, 5)[1:-1]]
        return kind, low + (high - low) * unit, 3 * unit
    count = many or int(draw.integers(2, 6))
    levels = [f"l{i}" for i in range(count)]
    shares = draw.dirichlet(np.full(count, draw.choice([0.4, 3.0])))
    codes = np.zeros(n, int) if draw.random() < 0.1 else draw.choice(count, n, p=shares)
    kind = {"kind": "binary" if count == 2 else "categorical", "levels": levels}
    return kind, np.array(levels)[codes], draw.normal(size=count)[codes]


def is_number(kind: Mapping[str, Any]) -> bool:
    """Whether a column is a number that was declared without bins."""
    return kind["kind"] == "numeric" and "bins" not in kind


def signed(values: Floats, kind: Mapping[str, Any]) -> Floats:
    """From -1 to 1 over the declared range."""
    found: Floats = (2 * np.clip(values, kind["low"], kind["high"]) - kind["low"] - kind["high"]) / (
        kind["high"] - kind["low"]
    )
    return found


def levels_of(name: str, kind: Mapping[str, Any]) -> list[str]:
    """The names of a column's levels or bins; none of a number's."""
    if is_number(kind):
        return []
    if kind["kind"] != "numeric":
        return list(kind["levels"])
    cuts = [f"{v:g}" for v in kind["bins"]]
    return [f"{name}<{cuts[0]}", *(f"{a}<={name}<{b}" for a, b in pairwise(cuts)), f"{name}>={cuts[-1]}"]


def codes_of(values: Any, kind: Mapping[str, Any]) -> NDArray[np.int64]:
    """The place of each value's level or bin."""
    if kind["kind"] == "numeric":
        return np.searchsorted(kind["bins"], values, side="right")
    place = {level: i for i, level in enumerate(kind["levels"])}
    return np.array([place[v] for v in values])


def design(drawn: Drawn, coded: bool) -> tuple[list[str], Floats]:
    """Every feature's name and values: levels and bins count 0 or 1, numbers in their own units or from -1 to 1.

    Of a column's levels the first is left out.
    """
    names, parts = [], []
    for name, kind in drawn.columns.items():
        if name == "y":
            continue
        values = drawn.frame[name].to_numpy()
        if is_number(kind):
            names.append(name)
            parts.append((signed(values, kind) if coded else values)[:, None])
            continue
        levels = levels_of(name, kind)
        names += [level if kind["kind"] == "numeric" else f"{name}={level}" for level in levels[1:]]
        parts.append(np.eye(len(levels))[codes_of(values, kind)][:, 1:])
    for texts in drawn.derived.values():
        for made, text in texts.items():
            x = drawn.frame[text.removesuffix("^2")].to_numpy() ** 2
            names.append(made)
            parts.append(((x - x.min()) / max(x.max() - x.min(), 1e-12) if coded else x)[:, None])
    return names, np.concatenate(parts, axis=1)
