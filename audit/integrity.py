"""Random studies, run as users run them; every opened value, and every answer made of them, beside the truth.

    python -m audit.integrity --studies 1000 --json

The truth is computed in floats from the raw columns, without the package's encoding, grid or products. An opened value
may differ from it by its noise and by rounding, both of known deviation; what lies farther off is told and fails. What
is downstream of opened values is in audit/answers.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from audit.answers import in_order, search_answers
from colonnade.data.table import table_from
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.names import Coordinate
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.moments import Attribute, Layout, Role
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import Offer
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded

Floats = NDArray[np.float64]
FARTHEST = 16.0
"""Deviations: Laplace noise passes them once in 10^9 values."""


@dataclass(frozen=True)
class Study:
    """What a random user declares, and the columns."""

    agreement: Agreement
    columns: Mapping[str, Any]

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class Verdict:
    """How one study went: refused with a sentence, or opened, with the farthest value of any block."""

    kind: str
    refusal: str = ""
    farthest: float = 0.0
    block: str = ""


def draw_study(draw: np.random.Generator) -> Study:
    """A study of one to four parties: wide or mixed, few records or many, any law, release, product and calibration."""
    parties, wide = int(draw.integers(1, 5)), draw.random() < 0.35
    rows = int(np.exp(draw.uniform(np.log(40), np.log(3_000))))
    product = str(draw.choice(["lattice", "plain", "bgn"], p=[0.75, 0.2, 0.05]))
    if product == "bgn":
        parties, wide, rows = 2, False, int(draw.integers(8, 20))
    schema: dict[str, dict[str, Column]] = {}
    data: dict[str, Any] = {}
    for k in range(parties):
        own: dict[str, Column] = {}
        for j in range(int(draw.integers(1, 30 if wide else 3 if product == "bgn" else 5))):
            name = f"p{k}c{j}"
            own[name], data[name] = _draw_column(draw, rows, wide)
        schema[f"p{k}"] = own
    owner, linear = f"p{draw.integers(parties)}", draw.random() < 0.6
    if linear:
        schema[owner]["y"], data["y"] = Numeric(-1, 1), draw.uniform(-1, 1, rows) * draw.choice([1.0, 0.1])
    else:
        schema[owner]["y"], data["y"] = Binary(("n", "y")), draw.choice(["n", "y"], rows, p=[0.7, 0.3])
    paper = not wide and draw.random() < 0.1
    terms: dict[str, Any] = {
        "delta": 0.0 if paper else float(draw.choice([0.0, 1e-6])),
        "collusion": int(draw.integers(0, parties)) if parties > 1 else 0,
        "product": product,
        "calibration": Calibration.PAPER if paper else Calibration.EXACT,
        "release": str(draw.choice(["auto", "auto", "full", "trace"])) if linear and not paper else "auto",
        "label_square": bool(linear and not paper and draw.random() < 0.3),
    }
    epsilons = np.exp(draw.uniform(np.log(0.05), np.log(1000), parties))
    if draw.random() < 0.2:
        terms["offers"] = {f"p{k}": Offer(float(epsilons[k])) for k in range(parties)}
    else:
        terms["epsilon"] = float(epsilons[0])
    norms = {p: float(np.exp(draw.uniform(-1, 2))) for p in schema} if draw.random() < 0.2 else {}
    task = Task.LINEAR if linear else Task.LOGISTIC
    return Study(Agreement.from_terms("random", Schema(schema, norms), f"{owner}.y", task, **terms), data)


def _draw_column(draw: np.random.Generator, rows: int, numeric: bool) -> tuple[Column, Any]:
    kind = draw.random() * (0.3 if numeric else 1.0)
    if kind < 0.45:
        low, high = sorted(draw.normal(size=2) * 10 ** draw.uniform(-2, 4))
        high += 1e-3
        values = [
            lambda: draw.uniform(low, high, rows),
            lambda: np.where(draw.random(rows) < 0.5, low, high),
            lambda: np.full(rows, high),
            lambda: draw.normal((low + high) / 2, high - low, rows),
            lambda: low + (high - low) * draw.integers(0, 6, rows) / 5,
        ][draw.integers(5)]()
        cuts = np.linspace(low, high, int(draw.integers(3, 8)))[1:-1] if draw.random() < 0.3 else []
        return Numeric(float(low), float(high), tuple(float(c) for c in cuts)), values
    if kind < 0.65:
        return Binary(("a", "b")), draw.choice(["a", "b"], rows, p=[0.9, 0.1])
    levels = tuple(f"l{i}" for i in range(int(draw.integers(2, 30))))
    return Categorical(levels), draw.choice(levels, rows, p=draw.dirichlet(np.full(len(levels), 0.5)))


def record_matrix(study: Study, layout: Layout) -> Floats:
    """Every coordinate of every record in floats, from the raw columns."""
    out = np.ones((study.rows, layout.width))
    for i, attribute in enumerate(layout.attributes):
        out[:, layout.span(i)] = _coordinates(study, attribute)
    for owner, norm in layout.norms:
        own = [layout.starts[i] for i, a in enumerate(layout.attributes) if a.owner == owner and _clipped(a)]
        length = np.linalg.norm(out[:, own], axis=1, keepdims=True)
        out[:, own] *= np.minimum(1.0, norm / np.maximum(length, 1e-300))
    return out


def _clipped(attribute: Attribute) -> bool:
    return attribute.role is Role.FEATURE and attribute.kind.value == "signed"


def _coordinates(study: Study, attribute: Attribute) -> Floats:
    column = study.agreement.schema.parties[attribute.owner][attribute.ref.column]
    only = attribute.of.place if isinstance(attribute.of, Coordinate) else None
    values = np.asarray(study.columns[attribute.ref.column])
    if isinstance(column, Numeric) and not column.bins:
        signed = (2 * np.clip(values, column.low, column.high) - column.low - column.high) / (column.high - column.low)
        return np.stack([(1 - signed) / 2, (1 + signed) / 2], 1) if attribute.size == 2 else signed[:, None]
    if isinstance(column, Numeric):
        codes = np.searchsorted(column.bins, values, side="right")
        count = len(column.bins) + 1
    else:
        codes = np.array([column.all_levels.index(str(v)) for v in values])
        count = len(column.all_levels)
    indicators = np.eye(count)[codes]
    if only is not None:
        return indicators[:, [only]]
    return 1 - 2 * indicators[:, [1]] if attribute.size == 1 else indicators


def farthest_value(study: Study, release: ReleaseRecord) -> tuple[float, str]:
    """The largest distance of an opened value from the truth, in deviations of noise and rounding, and its block."""
    records = record_matrix(study, release.layout)
    truth, bound = records.T @ records, release.plan["grid"]["bound"]
    worst = (0.0, "")
    for block in release.blocks:
        exact = truth[block.factors[:, -2], block.factors[:, -1]]
        terms = len(exact) if block.summed else 1
        if block.summed:
            exact = exact.sum(keepdims=True)
        # Beside noise: rounding of n terms, and one step of the products' grid for the correction of squares.
        spread = np.sqrt(block.std**2 + study.rows * terms / bound**2) + (terms + 1) / bound**2
        far = float((np.abs(block.values / block.unit - exact) / spread).max())
        worst = max(worst, (far, f"{' x '.join(block.owners)} {block.role.value}{' trace' * block.summed}"))
    return worst


def try_study(study: Study, seed: bytes) -> Verdict:
    """Run a study in one process, and look at what was opened."""
    agreement, frame = study.agreement, pl.DataFrame(study.columns)
    kind = f"{agreement.product} {'gaussian' if agreement.delta else 'laplace'}"
    tables = {party: table_from(party, frame, own) for party, own in agreement.schema.parties.items()}
    try:
        release = run_unguarded(agreement, tables, "none", Randomness(seed=seed)).release
    except ColonnadeError as error:
        return Verdict(kind, type(error).__name__)
    return Verdict(f"{kind} {release.plan['released']}", "", *farthest_value(study, release))


def open_study(numbered: tuple[int, int]) -> tuple[Verdict, float]:
    """One study by the seed and its number, and the CPU seconds that it took."""
    seed, i = numbered
    begun = time.process_time()
    verdict = try_study(draw_study(np.random.default_rng((seed, i))), f"{seed} {i}".encode())
    return verdict, time.process_time() - begun


def search(studies: int, seed: int, jobs: int = 1) -> dict[str, Any]:
    """What so many random studies opened."""
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    found, worst, seconds = [], 0.0, 0.0
    for i, (verdict, took) in enumerate(in_order(open_study, [(seed, i) for i in range(studies)], jobs)):
        seconds += took
        if verdict.refusal:
            refused[f"{verdict.kind}: {verdict.refusal}"] += 1
            continue
        kinds[verdict.kind] += 1
        worst = max(worst, verdict.farthest)
        if verdict.farthest > FARTHEST:
            found.append({"study": i, "deviations": verdict.farthest, "block": verdict.block, "kind": verdict.kind})
    return {
        "studies": studies,
        "seed": seed,
        "opened": dict(sorted(kinds.items())),
        "refused": dict(sorted(refused.items())),
        "farthest": worst,
        "wrong": found,
        "cpu_seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=("values", "answers", "all"), default="all")
    parser.add_argument("--only", type=int, help="the answers of this one study, as a finding names it")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="all figures and findings for a machine")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    if options.part != "answers" and options.only is None:
        found["values"] = search(options.studies, options.seed, options.jobs)
    if options.part != "values":
        found["answers"] = search_answers(options.studies, options.seed, options.only, options.jobs)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, part in found.items():
            told = f"{len(part['wrong'])} findings in {len({w['study'] for w in part['wrong']})}"
            print(
                f"{name}: {told} of {part['studies']} studies, seed {part['seed']}, {part['cpu_seconds']} CPU seconds"
            )
            for line in part["wrong"] if name == "values" else ():
                print(f"  {line}")
            for told, count in part["refused"].items():
                print(f"  {count} refused: {told}")
    sys.exit(any(part["wrong"] for part in found.values()))


if __name__ == "__main__":
    main()
