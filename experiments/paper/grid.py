"""Which cells the tables and the utility study consist of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from experiments.paper import catalogue
from experiments.paper.methods import (
    APPROXIMATE,
    FM_PROTOCOL,
    FM_REPAIRED_PROTOCOL,
    OURS,
    OURS_LATTICE,
    PURE,
    Cell,
)

EPSILONS = (0.1, 1.0, 10.0)
PARTIES = (1, 2, 4, 8)
COLLUSIONS = (0, 1)
WIDE_EPSILON = 1.0
"""The epsilon of Table 2; a fit at d = 800 takes so long that the utility study leaves out the others."""
WIDE_PARTIES = (2, 4)
"""K of the rows at d = 800 that allow a collusion, for the same reason; pure epsilon, of no use there, has K = 1."""
UTILITY_WIDE_PARTIES = (1, 2)
"""K of all rows at d = 800 in the utility study; Table 2 has more."""
WIDE_RUNS, COLLUDING_RUNS, APPROXIMATE_RUNS = 2, 6, 3
"""Splits of the rows at d = 800, and elsewhere of those with c = 1, and of (epsilon, 1/n), whose noise is small."""
LATTICE_PARTIES = 4
"""K of the one row per table that is run again with the product "lattice", and of the paper's mechanism in ours."""


@dataclass(frozen=True)
class Extent:
    """How far a grid goes."""

    epsilons: tuple[float, ...] = EPSILONS
    parties: tuple[int, ...] = PARTIES
    collusions: tuple[int, ...] = COLLUSIONS


FULL = Extent()
QUICK = Extent(parties=(1, 2))


def ours(data: str, extent: Extent) -> Iterator[Cell]:
    """Our fits, both kinds of privacy; one party has nobody to collude with."""
    for privacy in (PURE, APPROXIMATE):
        for collusion in extent.collusions:
            for parties in extent.parties:
                if data in catalogue.SYNTHETIC and not _wide_row(privacy, parties, collusion):
                    continue
                if collusion < max(parties, 2) and (parties > 1 or collusion == min(extent.collusions)):
                    for epsilon in extent.epsilons:
                        yield Cell(data, OURS, privacy, epsilon, parties, collusion if parties > 1 else 0)


def _wide_row(privacy: str, parties: int, collusion: int) -> bool:
    return parties == 1 if privacy == PURE else collusion == 0 or parties in WIDE_PARTIES


def references(data: str) -> Iterator[Cell]:
    """The models that look at no feature, and the one without privacy."""
    if catalogue.task_of(data) == "logistic":
        yield Cell(data, "majority")
    else:
        yield Cell(data, "w = 0")
        yield Cell(data, "mean")
    yield Cell(data, "non-private")


def utility(data: Sequence[str], extent: Extent) -> list[Cell]:
    """The utility study: references and ours; the wide synthetic data at epsilon 1 alone, where that is asked for."""
    out: list[Cell] = []
    for key in data:
        alone = key in catalogue.SYNTHETIC and WIDE_EPSILON in extent.epsilons
        few = tuple(k for k in extent.parties if k in UTILITY_WIDE_PARTIES)
        own = replace(extent, epsilons=(WIDE_EPSILON,), parties=few) if alone else extent
        out += [*references(key), *ours(key, own)]
    return out


def fewer_runs(cell: Cell, runs: int) -> int:
    """How many of the splits a cell of the utility study is run on; what there is without noise on all."""
    if cell.data in catalogue.SYNTHETIC:
        return min(runs, WIDE_RUNS)
    if cell.method != OURS:
        return runs
    if cell.privacy == APPROXIMATE:
        return min(runs, APPROXIMATE_RUNS)
    return min(runs, COLLUDING_RUNS) if cell.collusion else runs


def rows_of(data: str, extent: Extent) -> list[Cell]:
    """Every row of a data set's table (docs/results), one cell for each epsilon."""
    logistic, wide = catalogue.task_of(data) == "logistic", data.startswith("synthetic")
    out = list(references(data))
    if not wide:
        out.append(Cell(data, "non-private, no intercept"))
    each = extent.epsilons
    for method in ("FM printed", "FM repaired"):
        out += [Cell(data, method, PURE, e) for e in each]
    most = max(k for k in extent.parties if k <= LATTICE_PARTIES)
    if not wide and most > 1:
        for method in (FM_PROTOCOL, FM_REPAIRED_PROTOCOL):
            out += [Cell(data, method, PURE, e, most) for e in each]
    if logistic:
        out += [Cell(data, "DPSGD", PURE, e) for e in each]
    else:
        out += [Cell(data, "DPFW-C", APPROXIMATE, e) for e in each]
        out += [Cell(data, f"DPFW-{k}", APPROXIMATE, e, k) for k in extent.parties if k > 1 for e in each]
        out += [Cell(data, "AdaSSP", APPROXIMATE, e) for e in each]
    out += [Cell(data, "diffprivlib", PURE, e) for e in each]
    out += ours(data, extent)
    if most > 1:
        for privacy in (APPROXIMATE,) if wide else (PURE, APPROXIMATE):
            out += [Cell(data, OURS_LATTICE, privacy, e, most, min(1, max(extent.collusions))) for e in each]
    return out
