"""Releases of made-up records, with noise from numpy: what denoise, solve and intervals are tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Moments, Role, Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """Full encoded records: constant, colour (4 levels), size (3 levels), two numbers, label."""

    layout: Layout
    encoded: Floats

    @property
    def features(self) -> Floats:
        return self.encoded[:, list(self.layout.features)]

    @property
    def target(self) -> Floats:
        """1 for the positive class, or (1+y)/2."""
        return self.encoded[:, self.layout.span(self.layout.label).stop - 1]


COLOURS = ("red", "green", "blue", "grey")
SIZES = ("small", "middle", "large")


def layout_with(label: tuple[str, str]) -> Layout:
    return Layout(
        (
            Attribute(ColumnRef("a", "colour"), Encoding.SIMPLEX, tuple(f"colour={c}" for c in COLOURS), drop=0),
            Attribute(ColumnRef("a", "height"), Encoding.SIGNED, ("height",)),
            Attribute(ColumnRef("b", "size"), Encoding.SIMPLEX, tuple(f"size={s}" for s in SIZES), drop=0),
            Attribute(ColumnRef("b", "income"), Encoding.SIGNED, ("income",)),
            Attribute(ColumnRef("b", "label"), Encoding.SIMPLEX, label, Role.LABEL, drop=0),
        )
    )


def make_records(n: int, seed: int, *, logistic: bool, strength: float = 1.0) -> Records:
    """Dependent features; the label follows them."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    size = np.where(rng.random(n) < 0.5, colour % 3, rng.choice(3, n))
    height = np.clip(0.3 * (colour - 1) + 0.35 * rng.standard_normal(n), -1, 1)
    income = np.clip(-0.5 + 0.3 * size + 0.3 * height + 0.25 * rng.standard_normal(n), -1, 1)
    score = strength * (0.8 * (colour == 2) - 0.6 * (size == 1) + 0.7 * height + 0.9 * income)
    if logistic:
        positive = (rng.random(n) < 1 / (1 + np.exp(-2.0 * score - 0.2))).astype(float)
    else:
        positive = 0.5 * (1 + np.clip(0.25 * score + 0.1 * rng.standard_normal(n), -1, 1))
    columns = [np.ones((n, 1)), np.eye(4)[colour], height[:, None], np.eye(3)[size], income[:, None]]
    label = ("no", "yes") if logistic else ("y-", "y+")
    return Records(layout_with(label), np.hstack([*columns, np.stack([1 - positive, positive], axis=1)]))


def stds(layout: Layout, feature: float, label: float, *, indicators: bool, square: bool = False) -> Floats:
    """Noise of an exact release: every pair table once, label-split sums, squares of numbers."""
    std = np.full((layout.width, layout.width), feature)
    at = layout.span(layout.label)
    std[at, :] = std[:, at] = label
    std[0, :] = std[:, 0] = np.inf
    std[0, 0] = 0.0
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        if attribute.kind is Encoding.SIMPLEX:
            halves = attribute.role is Role.LABEL and not indicators
            own = np.full((attribute.size, attribute.size), np.inf if halves else 0.0)
            np.fill_diagonal(own, np.inf)
            if halves and square:
                own[0, 1] = own[1, 0] = label
            std[span, span] = own
    return std


def release(
    exact: Floats, n: int, layout: Layout, std: Floats, law: Distribution, seed: int, traces: tuple[Trace, ...] = ()
) -> Moments:
    """The exact sums with symmetric noise where something was released."""
    rng = np.random.default_rng(seed)
    draw = (
        rng.laplace(scale=np.sqrt(0.5), size=std.shape)
        if law is Distribution.LAPLACE
        else rng.standard_normal(std.shape)
    )
    draw = np.triu(draw) + np.triu(draw, 1).T
    released = np.isfinite(std)
    value = np.where(released, exact + np.where(released, std, 0.0) * draw, 0.0)
    return Moments(n, layout, value, std, law, traces)


def release_of(
    records: Records,
    feature: float,
    label: float,
    seed: int,
    *,
    indicators: bool,
    law: Distribution = Distribution.LAPLACE,
    square: bool = False,
) -> Moments:
    exact = records.encoded.T @ records.encoded
    std = stds(records.layout, feature, label, indicators=indicators, square=square)
    return release(exact, len(records.encoded), records.layout, std, law, seed)
