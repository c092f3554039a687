"""Releases of made-up classes without the protocol: exact sums of a split plus noise of a plan's law and scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import rankdata

from colonnade.analysis.denoise import denoise
from colonnade.analysis.equations import target_of
from colonnade.analysis.from_moments import released_share
from colonnade.analysis.solve import solve
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Moments, Role
from colonnade.mechanism.objective import Task

Array = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]


def coordinates(columns: Columns, layout: Layout) -> Array:
    """Full records of a layout from raw columns: numbers on [-1, 1], levels as texts, the label "no" or "yes"."""
    rows = len(next(iter(columns.values())))
    z = np.ones((rows, layout.width))
    for i, attribute in enumerate(layout.attributes):
        span, own = layout.span(i), columns[attribute.ref.column]
        if attribute.kind is Encoding.SIMPLEX:
            levels = [name.split("=", 1)[1] for name in attribute.coordinates]
            z[:, span] = own[:, None] == np.array(levels)
        elif attribute.role is Role.LABEL:
            # An unsplit logistic label stands as 1 - 2y.
            z[:, span.start] = np.where(own == "yes", -1.0, 1.0)
        else:
            z[:, span.start] = own
    return z


def draw(plan: Moments, z: Array, rng: np.random.Generator) -> Moments:
    """The release of records `z` with the noise that a release of the same plan, `plan`, states."""
    return noisy(plan, z.T @ z, len(z), rng)


def noisy(plan: Moments, exact: Array, n: int, rng: np.random.Generator) -> Moments:
    """The release of n records whose sums of products are `exact`."""

    def noise(shape: tuple[int, ...]) -> Array:
        return (
            rng.laplace(scale=np.sqrt(0.5), size=shape)
            if plan.law is Distribution.LAPLACE
            else rng.standard_normal(shape)
        )

    drawn = noise(plan.std.shape)
    drawn = np.triu(drawn) + np.triu(drawn, 1).T
    known = np.isfinite(plan.std)
    value = np.where(known, exact + np.where(known, plan.std, 0.0) * drawn, 0.0)
    traces = tuple(
        replace(trace, value=float(np.diag(exact)[list(trace.coordinates)].sum() + trace.std * noise((1,))[0]))
        for trace in plan.traces
    )
    return replace(plan, n=n, value=value, traces=traces)


def log_loss(score: Array, y: Array) -> float:
    """Mean log-loss of log-odds."""
    return float(np.mean(np.logaddexp(0.0, score) - y * score))


def auc(score: Array, y: Array) -> float:
    """The chance that a positive record scores higher than a negative one."""
    positive = float(y.sum())
    ranks = float(rankdata(score)[y > 0.5].sum())
    return (ranks - positive * (positive + 1) / 2) / (positive * (len(y) - positive))


def scores(moments: Moments, unseen: Mapping[str, Array], y: Array, share: float) -> dict[str, float]:
    """What one release is worth on test rows, beside the share of the training rows and the share as released."""
    model = solve(moments, Task.LOGISTIC)
    score = model.decision(np.column_stack([unseen[name] for name in model.features]))
    known = released_share(denoise(moments), target_of(moments.layout, Task.LOGISTIC, None))
    return {
        "log_loss": log_loss(score, y),
        "accuracy": float(np.mean((score > 0) == (y > 0.5))),
        "auc": auc(score, y),
        "base": log_loss(np.full(len(y), float(logit(share))), y),
        "known": log_loss(np.full(len(y), float(logit(known))), y),
    }


def made_up(columns: Columns, test: int, number: int, plan: Moments, seed: bytes) -> dict[str, float]:
    """One split of a made-up data set, one release of its training rows, and its scores on the last `test` rows."""
    rows = len(columns["label"])
    order = np.random.default_rng([1000, number]).permutation(rows)
    z = coordinates(columns, plan.layout)
    moments = draw(plan, z[order[:-test]], np.random.default_rng(int.from_bytes(seed)))
    unseen = dict(zip(plan.layout.names, z[order[-test:]].T, strict=True))
    y = (columns["label"] == "yes").astype(np.float64)
    return scores(moments, unseen, y[order[-test:]], float(y[order[:-test]].mean()))
