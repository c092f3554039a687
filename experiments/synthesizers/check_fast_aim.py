"""Compare fast_aim.py with the package it replaces parts of: python check_fast_aim.py [--device gpu]."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import clique_tree
import fast_aim
import numpy as np
from dpmm.models.aim import hypothetical_model_size
from dpmm.models.base.mbi import Domain, FactoredInference
from scipy import sparse

SIZES = dict(zip("abcdefgh", (4, 3, 5, 2, 6, 3, 4, 2), strict=True))
PAIRS = ("ab", "bc", "cd", "be", "ae", "fg", "ab", "ce", "ef")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    sums: Any = clique_tree.NumpySums
    if parser.parse_args().device == "gpu":
        from cuda_sums import CudaSums as sums
    random = np.random.default_rng(7)
    domain = Domain.fromdict(SIZES)
    joint = random.dirichlet(np.full(domain.size(), 0.02)).reshape(domain.shape) * 5000
    measurements: list[Any] = []
    package, ours = (FactoredInference(domain, iters=50, warm_start=True) for _ in range(2))
    worst: dict[str, float] = {}
    for round_, table in enumerate([*((a,) for a in SIZES), *(tuple(pair) for pair in PAIRS)]):
        others = tuple(k for k, name in enumerate(SIZES) if name not in table)
        seen = joint.sum(axis=others).ravel()
        noise = 8.0 / (1 + round_ // 6)
        weight = random.uniform(0.5, 1, seen.size) if len(table) == 1 else np.ones(seen.size)
        matrix = sparse.diags(weight) if len(table) == 1 else sparse.identity(seen.size)
        measurements.append((matrix, weight * seen + random.normal(0, noise, seen.size), noise, table))
        if len(measurements) >= len(SIZES):
            _compare(package, ours, list(measurements), sums, worst)
    for name, found in worst.items():
        print(f"{name}: {found:.1e}")
    if max(worst.values()) > 1e-9:
        raise SystemExit("they differ by more than 1e-9")


def _compare(package: Any, ours: Any, measurements: list[Any], sums: Any, worst: dict[str, float]) -> None:
    """One round from where both are: what they end with, and all tables and sizes that AIM asks of it."""
    if hasattr(package, "model"):
        ours.model = package.model
    package.estimate(measurements)
    ours._setup(ours.fix_measurements(measurements), None)
    fast_aim.fit(ours.model, measurements, ours.iters, sums)
    found: dict[str, float] = {}
    for name in ("potentials", "marginals"):
        one, other = getattr(package.model, name), getattr(ours.model, name)
        gaps = [_gap(one[clique].values, other[clique].values) for clique in package.model.cliques]
        found[name] = max(gaps)
    pairs = list(itertools.combinations(SIZES, 2))
    tables = [_gap(package.model.project(pair).datavector(), ours.model.tables[pair]) for pair in pairs]
    found["tables of two"] = max(tables)
    for pair in pairs:
        asked = [*package.model.cliques, pair]
        sizes = hypothetical_model_size(package.domain, asked), fast_aim.model_cells(SIZES, asked) * 8 / 2**20
        found["size of a model"] = max(found.get("size of a model", 0.0), _gap(*map(np.array, sizes)))
    for name, gap in found.items():
        worst[name] = max(worst.get(name, 0.0), gap)


def _gap(one: Any, other: Any) -> float:
    """Largest difference, relative to the largest number."""
    return float(np.abs(one - other).max() / np.abs(one).max())


if __name__ == "__main__":
    main()
