"""Many columns, by central simulation: a second round on the strongest pairs, coarser levels, margins alone.

Noise is added to the exact tables of NIST's ACS as a release of three parties would have it; tables are shrunk by a
short stand-in for `denoise`. Nothing here is a release: it says what would be worth building.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from experiments.paper.synthesis import Codes, Truth, release_of, replicate
from experiments.paper.synthesis_rows import KEPT

Array = NDArray[np.float64]
Pair = tuple[int, int]
PARTIES = 3
CROSSED = np.sqrt(PARTIES / (PARTIES - 1))
POWER = 1 / 3
"""Of a table's cells, that its weight goes with."""
FIRST = (0.3, 0.5)
"""Share of the budget that the first round gets."""
STRONGEST = (24, 60)
COARSE = (3, 5)
"""Levels that a column is cut down to."""
MARGINS = 0.2
"""Share of the budget for margins beside coarser tables."""
SEEDS = 2
SETTINGS = (("pure 1", 1.0, 0), ("pure 3", 3.0, 0), ("pure 10", 10.0, 0), ("(0.1, 1/n)", 0.1, 1), ("(1, 1/n)", 1.0, 1))


@dataclass(frozen=True)
class Exact:
    """The exact tables of rows."""

    codes: Codes
    sizes: tuple[int, ...]

    @cached_property
    def pairs(self) -> list[Pair]:
        return list(combinations(range(len(self.sizes)), 2))

    @cached_property
    def margins(self) -> list[Array]:
        return [np.bincount(c, minlength=s) / len(c) for c, s in zip(self.codes.T, self.sizes, strict=True)]

    @cached_property
    def tables(self) -> dict[Pair, Array]:
        out = {}
        for i, j in self.pairs:
            cell = self.codes[:, i] * self.sizes[j] + self.codes[:, j]
            counts = np.bincount(cell, minlength=self.sizes[i] * self.sizes[j])
            out[i, j] = counts.reshape(self.sizes[i], self.sizes[j]) / len(self.codes)
        return out

    def distance(self, found: Mapping[Pair, Array]) -> float:
        return float(np.mean([0.5 * np.abs(found[p] - self.tables[p]).sum() for p in self.pairs]))


@dataclass(frozen=True)
class Noise:
    """A law, its budget (epsilon or rho) and its source."""

    gaussian: bool
    budget: float
    rng: np.random.Generator

    def std(self, exact: Exact, weights: Mapping[Pair, float], share: float) -> dict[Pair, float]:
        """Of each table's cells, in shares of the rows; a column (i, i) stands for its margin."""
        weight, budget = np.array(list(weights.values())), self.budget * share
        whole = np.sqrt((weight**2).sum() / budget) if self.gaussian else np.sqrt(8.0) * weight.sum() / budget
        owner = [i * PARTIES // len(exact.sizes) for i in range(len(exact.sizes))]
        crossed = {p: 1.0 if owner[p[0]] == owner[p[1]] else float(CROSSED) for p in weights}
        return {p: float(whole) / w / len(exact.codes) * crossed[p] for p, w in weights.items()}

    def add(self, table: Array, std: float) -> Array:
        drawn = (
            self.rng.normal(0, std, table.shape)
            if self.gaussian
            else self.rng.laplace(0, std / np.sqrt(2), table.shape)
        )
        return table + drawn


def simulate(exact: Exact, noise: Noise) -> dict[str, float]:
    """Total variation of tables of two columns by what is released."""
    pairs, sizes = exact.pairs, exact.sizes
    weights = {(i, j): float(sizes[i] * sizes[j]) ** POWER for i, j in pairs}
    std = noise.std(exact, weights, 1.0)
    out = {"all pairs": exact.distance(_cleaned(exact, {p: noise.add(exact.tables[p], std[p]) for p in pairs}, std))}
    for share in FIRST:
        first = noise.std(exact, weights, share)
        seen = {p: noise.add(exact.tables[p], first[p]) for p in pairs}
        for count in STRONGEST:
            found = _second_round(exact, noise, weights, seen, first, (share, count))
            out[f"{share:g} first, then {count} pairs"] = exact.distance(found)
    alone = {(i, i): float(s) ** (1 / 3 if noise.gaussian else 1 / 2) for i, s in enumerate(sizes)}
    own = noise.std(exact, alone, 1.0)
    margins = [_on_simplex(noise.add(m, own[i, i])) for i, m in enumerate(exact.margins)]
    out["margins alone"] = exact.distance({(i, j): np.outer(margins[i], margins[j]) for i, j in pairs})
    for most in COARSE:
        out[f"at most {most} levels"] = exact.distance(_coarse(exact, noise, alone, most))
    return out


def _second_round(
    exact: Exact,
    noise: Noise,
    weights: Mapping[Pair, float],
    seen: Mapping[Pair, Array],
    first: Mapping[Pair, float],
    terms: tuple[float, int],
) -> dict[Pair, Array]:
    share, count = terms
    margins, guess = _margins(exact.sizes, seen, first), _cleaned(exact, seen, first)
    strength = {p: float(np.abs(t - np.outer(margins[p[0]], margins[p[1]])).sum()) for p, t in guess.items()}
    top = sorted(exact.pairs, key=lambda p: -strength[p])[:count]
    second = noise.std(exact, {p: weights[p] for p in top}, 1.0 - share)
    both, std = dict(seen), dict(first)
    for p in top:
        again = noise.add(exact.tables[p], second[p])
        variance = 1.0 / (first[p] ** -2 + second[p] ** -2)
        both[p] = variance * (seen[p] / first[p] ** 2 + again / second[p] ** 2)
        std[p] = float(np.sqrt(variance))
    return _cleaned(exact, both, std)


def _coarse(exact: Exact, noise: Noise, alone: Mapping[Pair, float], most: int) -> dict[Pair, Array]:
    """Tables of columns cut down in the order of their levels, spread over the levels by margins."""
    own = noise.std(exact, alone, MARGINS)
    fine = [_on_simplex(noise.add(m, own[i, i])) for i, m in enumerate(exact.margins)]
    groups = [np.eye(min(s, most))[np.arange(s) * most // s if s > most else np.arange(s)] for s in exact.sizes]
    cells = {(i, j): float(groups[i].shape[1] * groups[j].shape[1]) ** POWER for i, j in exact.pairs}
    std = noise.std(exact, cells, 1.0 - MARGINS)
    out = {}
    for i, j in exact.pairs:
        seen = noise.add(groups[i].T @ exact.tables[i, j] @ groups[j], std[i, j])
        down, across = groups[i].T @ fine[i], groups[j].T @ fine[j]
        ratio = _shrunk(seen, down, across, std[i, j]) / np.maximum(np.outer(down, across), 1e-12)
        out[i, j] = np.outer(fine[i], fine[j]) * (groups[i] @ ratio @ groups[j].T)
    return out


def _cleaned(exact: Exact, seen: Mapping[Pair, Array], std: Mapping[Pair, float]) -> dict[Pair, Array]:
    margins = _margins(exact.sizes, seen, std)
    return {(i, j): _shrunk(table, margins[i], margins[j], std[i, j]) for (i, j), table in seen.items()}


def _margins(sizes: tuple[int, ...], seen: Mapping[Pair, Array], std: Mapping[Pair, float]) -> list[Array]:
    """Of all noisy copies of a margin their weighted mean."""
    sums, precision = [np.zeros(s) for s in sizes], np.zeros(len(sizes))
    for (i, j), table in seen.items():
        for own, other, axis in ((i, j, 1), (j, i, 0)):
            variance = sizes[other] * std[i, j] ** 2
            sums[own] += table.sum(axis=axis) / variance
            precision[own] += 1.0 / variance
    return [_on_simplex(s / p) for s, p in zip(sums, precision, strict=True)]


def _shrunk(table: Array, down: Array, across: Array, std: float) -> Array:
    """The table's interaction over its margins, shrunk by how much of it the noise explains."""
    base = np.outer(down, across)
    inner, own = (t - t.mean(axis=1, keepdims=True) - t.mean(axis=0) + t.mean() for t in (table, base))
    away, (rows, columns) = inner - own, table.shape
    spread = np.outer(down * (1 - down), across * (1 - across)) + 1e-12
    noise = std**2 * (1 - 1 / rows) * (1 - 1 / columns)
    dependence = max(0.0, float((away**2 - noise).sum() / spread.sum()))
    fitted = np.maximum(base + away * dependence * spread / (dependence * spread + noise), 0.0)
    fitted += 1e-12 * np.outer(down + 1e-9, across + 1e-9)
    for _ in range(20):
        fitted *= (down / np.maximum(fitted.sum(axis=1), 1e-300))[:, None]
        fitted *= across / np.maximum(fitted.sum(axis=0), 1e-300)
    return fitted


def _on_simplex(values: Array) -> Array:
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[(ordered > excess).sum() - 1], 0)


def rounds_study() -> Iterator[dict[str, object]]:
    """One line for each privacy setting; kept in .cache."""
    rows = replicate("ACS")
    from colonnade.analysis.released import Released

    truth = Truth.of(rows, Released(release_of(rows, "ACS", 10.0, True, b"shape")))
    exact = Exact(truth.train, tuple(s.stop - s.start for s in truth.spans))
    KEPT.mkdir(parents=True, exist_ok=True)
    for name, epsilon, gaussian in SETTINGS:
        place = KEPT / f"rounds-{'approximate' if gaussian else 'pure'}-{epsilon:g}.json"
        if not place.exists():
            open_ = np.log(len(exact.codes))
            # rho + 2 sqrt(rho log(1/delta)) = epsilon.
            budget = float((np.sqrt(open_ + epsilon) - np.sqrt(open_)) ** 2) if gaussian else epsilon
            found = [simulate(exact, Noise(bool(gaussian), budget, np.random.default_rng(s))) for s in range(SEEDS)]
            line = {"privacy": name, **{key: float(np.mean([f[key] for f in found])) for key in found[0]}}
            place.write_text(json.dumps(line), encoding="utf-8")
            sys.stderr.write(f"{line}\n")
        yield json.loads(place.read_text(encoding="utf-8"))
