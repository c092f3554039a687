"""AIM of dpmm with its inference done by `clique_tree`: the same steps, settings and random draws, other code.

Three functions of the package are replaced. Mirror descent moves small tables where the package moves whole
potentials. `project` of one or two attributes reads a table that was made with the model. The size that a model would
have is counted without building it. `check_fast_aim.py` compares all three with the package's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from clique_tree import Attributes, CliqueTree, Measured, NumpySums, descend, model_cells, pair_tables
from dpmm.models import aim
from dpmm.models.base.mbi import CliqueVector, Factor, FactoredInference, GraphicalModel
from scipy import sparse

Measurement = tuple[Any, Any, float, Attributes]
_package_project = GraphicalModel.project
aim.Identity = sparse.identity  # scipy 1.18 cannot read the package's own


def sums_by(inference: str) -> Callable[..., Any]:
    """The sums of a clique tree in numpy or on a GPU, which needs CuPy."""
    if inference == "gpu":
        from cuda_sums import CudaSums

        return CudaSums
    return NumpySums


def install(sums: Callable[..., Any]) -> None:
    """Let the package use this module, with the sums of a clique tree made by `sums`."""

    def mirror_descent(
        self: FactoredInference, measurements: list[Measurement], total: float | None = None, callback: object = None
    ) -> None:
        begun = time.monotonic()
        self._setup(measurements, total)
        fit(self.model, measurements, self.iters, sums)
        told = f"{len(measurements)} tables, the last at sigma {measurements[-1][2]:.2f}"
        size = f"{len(self.model.cliques)} cliques, {self.model.size * 8 / 2**20:.2f} MB"
        sys.stderr.write(f"{time.monotonic():.1f} {told}; {size}; {time.monotonic() - begun:.2f} s\n")

    FactoredInference.mirror_descent = mirror_descent
    GraphicalModel.project = _project
    aim.filter_candidates = filter_candidates


def fit(model: GraphicalModel, measurements: list[Measurement], iterations: int, sums: Callable[..., Any]) -> None:
    """Potentials, marginals and all tables of two attributes of a model, from where its potentials are."""
    edges = model.junction_tree.tree.edges
    tree = CliqueTree(model.domain.config, model.cliques, edges, (m[3] for m in measurements))
    start = np.concatenate([model.potentials[clique].values.ravel() for clique in tree.cliques])
    made = sums(tree, start, model.total)
    small, tables = descend(made, _measured(tree, measurements), tree.table_count, model.total, iterations)
    for name in ("potentials", "marginals"):
        cells = getattr(made, name)()
        parts = {clique: cells[place : place + tree.size(clique)] for clique, place in tree.cell_place.items()}
        factors = {clique: Factor(model.domain.project(clique), part) for clique, part in parts.items()}
        setattr(model, name, CliqueVector(factors))
    model.tables = {(name,): _part(tree, tables, (name,)) for name in tree.sizes}
    model.tables |= pair_tables(tree, made, small, tables, model.total)


def _part(tree: CliqueTree, tables: Any, attributes: Attributes) -> Any:
    place = tree.table_place[attributes]
    return tables[place : place + tree.size(attributes)]


def _measured(tree: CliqueTree, measurements: list[Measurement]) -> Measured:
    """The package's measurements; each of its matrices is diagonal."""
    where = [tree.table_place[table] + np.arange(tree.size(table)) for _, _, _, table in measurements]
    weight = [_diagonal(matrix) / noise for matrix, _, noise, _ in measurements]
    seen = [np.asarray(answer).ravel() / noise for _, answer, noise, _ in measurements]
    return Measured(np.concatenate(where), np.concatenate(weight), np.concatenate(seen))


def _diagonal(matrix: Any) -> Any:
    ones = np.ones(matrix.shape[1])
    found = matrix @ ones
    mixed = np.arange(1.0, len(ones) + 1)
    if matrix.shape[0] != len(ones) or not np.allclose(matrix @ mixed, found * mixed):
        raise ValueError("a measurement must be a diagonal matrix times a table")
    return found


def _project(self: GraphicalModel, attributes: Iterable[str]) -> Factor:
    table = getattr(self, "tables", {}).get(tuple(attributes))
    if table is None:
        return _package_project(self, attributes)
    return Factor(self.domain.project(tuple(attributes)), table.copy())


def filter_candidates(
    candidates: Mapping[Attributes, float], model: GraphicalModel, size_limit: float | None
) -> dict[Attributes, float]:
    """The candidates that the model holds already, or that leave it within so many megabytes."""
    held = [set(clique) for clique in model.cliques]

    def fits(candidate: Attributes) -> bool:
        if size_limit is None or any(set(candidate) <= clique for clique in held):
            return True
        return model_cells(model.domain.config, [*model.cliques, candidate]) * 8 / 2**20 <= size_limit

    return {candidate: weight for candidate, weight in candidates.items() if fits(candidate)}
