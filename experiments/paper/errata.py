"""Numeric checks of the four errata that keep the paper's tables from being reproduced (d, e, i and j)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.baselines import functional, nonprivate, scores
from experiments.paper import catalogue
from experiments.paper.printed import PRINTED, impossible


def report() -> Iterator[str]:
    """One line for each number that docs/paper.md speaks of."""
    yield from _spreads()
    yield from _drowned()
    yield from _taylor()
    yield from _majority()


def _spreads() -> Iterator[str]:
    """d: standard deviations of three times the mean."""
    told = [p for p in PRINTED if p.table < 3 and p.method in ("FM", "non-private")]
    ratios = [p.std / p.mean for p in told]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    yield f"d: deviation over mean of the {len(told)} printed FM and non-private errors: {spread}"
    others = [p.std / p.mean for p in PRINTED if p.table < 3 and p.method not in ("FM", "non-private")]
    yield f"d: the same for the {len(others)} printed DPFW errors: {min(others):.3f} to {max(others):.3f}"
    yield f"d: most that ten non-negative numbers allow: {np.sqrt(10):.3f} (sample), {np.sqrt(9):.3f} (population)"
    for p in told:
        if impossible(p):
            yield f"d: beyond that, however rounded: {p.data}, {p.method}, epsilon {p.epsilon}: {p.mean} ± {p.std}"


def _drowned(d: int = 800, n: int = 64_000, epsilon: float = 1.0) -> Iterator[str]:
    """e: noise against the largest coefficient at d = 800."""
    scale = functional.sensitivity(d, "linear") / epsilon
    yield f"e: Laplace scale at d={d}, epsilon={epsilon:g}: {scale:.4g}"
    yield f"e: n={n} products of numbers in [-1, 1] add up to at most {n}"


def _taylor() -> Iterator[str]:
    """i: the degree-2 expansion without any noise, which has no epsilon in it."""
    for key in ("adult-41", "dutch-36"):
        if catalogue.missing(key):
            yield f"i: {key} not run: {catalogue.missing(key)}"
            continue
        r = catalogue.replicate(key, 0)
        X, X_test = r.X[:, :-1], r.X_test[:, :-1]
        expanded = functional.stationary_point(functional.objective(X, r.y, "logistic")).w
        exact = nonprivate.fit_logistic(X, r.y)
        with_expansion, with_loss = (scores.accuracy(X_test, r.y_test, w) for w in (expanded, exact))
        told = f"accuracy {with_expansion:.4f} with the expansion, {with_loss:.4f} with the exact loss"
        yield f"i: {key}, split 0, no noise: {told}, whatever epsilon is"


def _majority() -> Iterator[str]:
    """j: printed accuracies below the larger class."""
    for key in ("adult-41", "dutch-36"):
        if catalogue.missing(key):
            yield f"j: {key} not run: {catalogue.missing(key)}"
            continue
        r = catalogue.replicate(key, 0)
        level = scores.majority_accuracy(r.y, r.y_test)
        below = [
            f"{p.method} {p.epsilon:g}: {p.mean}" for p in PRINTED if p.data == key and p.epsilon and p.mean < level
        ]
        yield f"j: {key}, larger class {level:.4f}; printed below it: {', '.join(below) or 'none'}"
