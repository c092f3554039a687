"""Compare fast_aim.py with the package: python check_fast_aim.py [--inference gpu] [--source IN.npz].

First inference, from the same potentials and the same noisy tables, as tables are added one by one: small cliques, and
cliques of many cells. Then AIM as a whole, twice, with the same noise, 4 MB and 100 iterations: it must choose the same
tables and draw the same rows, for a frame made here or for a file that fit_rows.py reads. Numbers agree as long as no
step of the line search is decided by rounding, which happens once a round has converged.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import Any

import fast_aim
import numpy as np
import pandas as pd
from clique_tree import model_cells
from dpmm.models import aim
from dpmm.models.base.mbi import Domain, FactoredInference
from scipy import sparse

CLOSE = 1e-9
SMALL = (4, 3, 5, 2, 6, 3, 4, 2)
LARGE = (16, 3, 25, 2, 20, 3, 14, 2)
PAIRS = ("ab", "bc", "cd", "be", "ae", "fg", "ab", "ce", "ef", "ac", "ag")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inference", choices=["numpy", "gpu"], default="numpy")
    parser.add_argument("--source")
    options = parser.parse_args()
    sums = fast_aim.sums_by(options.inference)
    worst = 0.0
    for shape in (SMALL, LARGE):
        found = compare_rounds(dict(zip("abcdefgh", shape, strict=True)), sums)
        print(shape, ", ".join(f"{name}: {gap:.1e}" for name, gap in found.items()))
        worst = max(worst, *found.values())
    if worst > CLOSE:
        raise SystemExit(f"they differ by {worst:.1e}, more than {CLOSE}")
    frame, sizes = _read(options.source) if options.source else _made()
    one, other = (whole_run(frame, sizes, which) for which in (None, sums))
    same = one[0] == other[0], one[1].equals(other[1])
    print(f"whole runs: {len(one[0])} tables, the same: {same[0]}, rows too: {same[1]}")
    print(f"{one[2]:.0f} seconds by the package, {other[2]:.0f} by this")
    if not all(same):
        raise SystemExit("whole runs differ")


def compare_rounds(sizes: dict[str, int], sums: Any) -> dict[str, float]:
    """The largest relative differences over rounds of 50 iterations, each from where the package ended the last."""
    random = np.random.default_rng(7)
    domain = Domain.fromdict(sizes)
    codes = [random.zipf(1.6, 5000) * (k + 1) % size for k, size in enumerate(sizes.values())]
    measurements: list[Any] = []
    package, ours = (FactoredInference(domain, iters=50, warm_start=True) for _ in range(2))
    worst: dict[str, float] = {}
    for table in [*((a,) for a in sizes), *(tuple(pair) for pair in PAIRS)]:
        chosen = [codes[list(sizes).index(name)] for name in table]
        seen = np.zeros([sizes[name] for name in table])
        np.add.at(seen, tuple(chosen), 1)
        weight = random.uniform(0.5, 1, seen.size) if len(table) == 1 else np.ones(seen.size)
        answer = weight * seen.ravel() + random.normal(0, 3.0, seen.size)
        measurements.append((sparse.diags(weight), answer, 3.0, table))
        if len(measurements) >= len(sizes):
            for name, gap in _compare(package, ours, list(measurements), sums).items():
                worst[name] = max(worst.get(name, 0.0), gap)
    return worst


def _compare(package: Any, ours: Any, measurements: list[Any], sums: Any) -> dict[str, float]:
    """One round: what both end with, and all tables and sizes that AIM asks of it."""
    if hasattr(package, "model"):
        ours.model = package.model
    package.estimate(measurements)
    ours._setup(ours.fix_measurements(measurements), None)
    fast_aim.fit(ours.model, measurements, ours.iters, sums)
    found: dict[str, float] = {}
    for name in ("potentials", "marginals"):
        one, other = getattr(package.model, name), getattr(ours.model, name)
        found[name] = max(_gap(one[clique].values, other[clique].values) for clique in package.model.cliques)
    pairs = list(itertools.combinations(package.domain.attrs, 2))
    tables = [_gap(package.model.project(pair).datavector(), ours.model.tables[pair]) for pair in pairs]
    found["tables of two"] = max(tables)
    asked = [[*package.model.cliques, pair] for pair in pairs]
    sizes = [aim.hypothetical_model_size(package.domain, cliques) for cliques in asked]
    cells = [model_cells(package.domain.config, cliques) for cliques in asked]
    found["size of a model"] = _gap(np.array(sizes), np.array(cells) * 8 / 2**20)
    return found


def _gap(one: Any, other: Any) -> float:
    """Largest difference, relative to the largest number."""
    return float(np.abs(one - other).max() / np.abs(one).max())


def _made() -> tuple[pd.DataFrame, dict[str, int]]:
    random = np.random.default_rng(3)
    hidden = random.integers(0, 3, 4000)
    sizes = {"a": 6, "b": 5, "c": 4, "d": 3, "e": 4, "f": 2}
    return pd.DataFrame({name: (hidden + random.poisson(1, 4000)) % size for name, size in sizes.items()}), sizes


def _read(source: str) -> tuple[pd.DataFrame, dict[str, int]]:
    held = np.load(source)
    names = [f"c{k}" for k in range(held["codes"].shape[1])]
    return pd.DataFrame(held["codes"].astype(int), columns=names), dict(zip(names, held["sizes"].tolist(), strict=True))


def whole_run(
    frame: pd.DataFrame, sizes: dict[str, int], sums: Any
) -> tuple[list[tuple[str, ...]], pd.DataFrame, float]:
    """AIM with seeded noise, by the package alone if `sums` is None: tables it measured, rows it drew, seconds."""
    random = np.random.default_rng(5)
    before = (aim.gaussian_noise, aim.filter_candidates, FactoredInference.mirror_descent, aim.GraphicalModel.project)
    aim.gaussian_noise = lambda sigma, size: random.normal(0, sigma, size)
    if sums is not None:
        fast_aim.install(sums)
    try:
        choices = np.random.RandomState(1)
        settings = {"max_model_size": 4, "n_iters": 100, "n_jobs": 1, "domain": sizes, "random_state": choices}
        model, start = aim.AIMGM(epsilon=0.6, delta=1 / len(frame), **settings), time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(frame)
            rows = model.generate(n_records=len(frame))
        return model.generator.cliques, rows, time.monotonic() - start
    finally:
        aim.gaussian_noise, aim.filter_candidates = before[:2]
        FactoredInference.mirror_descent, aim.GraphicalModel.project = before[2:]


if __name__ == "__main__":
    main()
