"""`python -m audit.search --studies 2000`: random studies, hard neighbours from raw rows, the largest ratio by view.

Neighbours differ in one record beside a table that is chosen, too: numbers of its records lie on the grid, but for a
few whose excess over rounding leaves a sum just below a half, so that one more record turns what is rounded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.audit.findings import attacks, scopes_of
from colonnade.audit.likelihood import Ratio
from colonnade.audit.pairs import PairSearch, Record, exact_vector, middle
from colonnade.data.table import Table, table_from
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import Offer
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session

Floats = NDArray[np.float64]
LITTLE = 0.002
"""How far, in steps, a number stands off the grid that is rounded back to it but for 1 time in 500."""
FLOAT_ERROR = 1e-12
"""Of a ratio of two sums of floats: noise is planned so that the hardest pair reaches its epsilon exactly."""
OFF_GRID = 3
"""Records of the table that have an excess."""


def random_study(draw: np.random.Generator) -> Agreement:
    """One to four parties; every release; one epsilon or one each; declared norms; both distributions of noise."""
    count = int(draw.integers(1, 5))
    release = str(draw.choice(["trace", "trace", "full", "label", "margins"]))
    task = Task.LINEAR if draw.random() < 0.6 and release != "margins" else Task.LOGISTIC
    first, last = {"trace": (0, 2), "margins": (2, 4)}.get(release, (0, 4))
    parties: dict[str, dict[str, Column]] = {}
    for k in range(count):
        size = int(draw.choice([1, 2, 3, 5, 9]))
        kinds: list[Column] = [Numeric(-1, 1), Numeric(-3, 5), Binary(("no", "yes")), Categorical(("a", "b", "c"))]
        wanted = draw.integers(first, last, size)
        parties[f"p{k}"] = {f"x{k}{j}": kinds[i] for j, i in enumerate(wanted)}
    parties["p0"]["y"] = Numeric(-1, 1) if task is Task.LINEAR else Binary(("no", "yes"))
    norms = {}
    if release == "trace":
        norms = {p: float(draw.choice([0.05, 0.3, 1.0])) for p in parties if draw.random() < 0.4}
    epsilon = float(draw.choice([0.1, 0.5, 2.0]))
    terms: dict[str, Any] = {"epsilon": epsilon}
    if draw.random() < 0.5:
        parts = [None if draw.random() < 0.4 else float(draw.choice([0.5, 0.9, 0.97])) * epsilon for _ in parties]
        terms = {"offers": {p: Offer(epsilon, own) for p, own in zip(parties, parts, strict=True)}}
    return Agreement.from_terms(
        "search",
        Schema(parties, norms),
        "p0.y",
        task,
        delta=float(draw.choice([0.0, 1e-6])),
        collusion=int(draw.integers(0, count)) if count > 1 else 0,
        calibration=Calibration.EXACT,
        product=str(draw.choice(["lattice", "plain"])),
        release=release,
        purpose=Purpose.ALL if release == "margins" else Purpose.LABEL,
        **terms,
    )


@dataclass(frozen=True)
class Place:
    """A raw number of a session, and how its steps of the grid are written."""

    party: str
    name: str
    low: float
    high: float
    bound: int
    step: float
    """Two steps of a number carried as two halves are one of theirs."""

    def write(self, steps: Floats) -> Floats:
        """Raw values from steps of the grid, counted from the middle of the bounds."""
        return np.asarray(self.low + (self.high - self.low) * (0.5 + self.step * steps / (2 * self.bound)))


class Table0:
    """The other records of a session: the same for both neighbours."""

    def __init__(self, session: SessionPlan, draw: np.random.Generator) -> None:
        self.session, self._draw = session, draw
        layout, bound = session.plan.layout, session.grid.bound
        label = layout.attributes[layout.label]
        self.places = []
        for party, columns in session.agreement.schema.parties.items():
            for name, column in columns.items():
                if isinstance(column, Numeric) and not column.bins:
                    halves = label.ref == ColumnRef(party, name) and label.size == 2
                    self.places.append(Place(party, name, column.low, column.high, bound, 2.0 if halves else 1.0))

    def frames(self, target: float) -> dict[str, dict[str, list[Any]]]:
        """By party and column all records but the first; the excess of every number adds up to `target` steps."""
        session, rows = self.session, self.session.rows - 1
        out: dict[str, dict[str, list[Any]]] = {}
        for party, columns in session.agreement.schema.parties.items():
            out[party] = {name: [middle(c, session.grid.bound)] * rows for name, c in columns.items()}
        f = 0.5 - np.sqrt(0.25 - target / OFF_GRID)
        for place in self.places:
            # Short records: a declared norm would move longer ones off the grid.
            steps = np.zeros(rows)
            steps[:OFF_GRID] = f
            steps += 0.5 if place.step == 2.0 else 0.0
            out[place.party][place.name] = list(place.write(steps))
        return out

    def tables(self, record: Record, target: float) -> dict[str, Table]:
        frames, schema = self.frames(target), self.session.agreement.schema
        return {
            party: table_from(party, pl.DataFrame({n: [record[party][n], *v] for n, v in own.items()}), columns)
            for (party, own), columns in zip(frames.items(), schema.parties.values(), strict=True)
        }

    def moved(self, record: Record, scope: Sequence[str], steps: float) -> Record:
        """The record with the numbers of these parties so many steps off where they were."""
        out = {party: dict(values) for party, values in record.items()}
        for place in self.places:
            if place.party in scope:
                here = float(np.clip(out[place.party][place.name], place.low, place.high))
                inward = -1.0 if here > (place.low + place.high) / 2 else 1.0
                width = (place.high - place.low) * place.step / (2 * place.bound)
                out[place.party][place.name] = here + inward * steps * width
        return out

    def long(self, record: Record, scope: Sequence[str]) -> Record:
        """The record with the numbers of these parties as long as their norms, in whole steps."""
        out, norms = {party: dict(values) for party, values in record.items()}, self.session.agreement.schema.norms
        label = self.session.agreement.label.rpartition(".")[2]
        for party in scope:
            own = [place for place in self.places if place.party == party and place.name != label]
            rest = (norms.get(party, np.sqrt(max(1, len(own)))) * self.session.grid.bound) ** 2 * 0.9999
            each = np.ceil(np.sqrt(rest / max(1, len(own))))
            for place in own:
                steps = min(np.floor(np.sqrt(rest)), each)
                rest -= steps**2
                out[party][place.name] = float(place.write(np.array(steps)))
        return out

    def middle(self, record: Record, scope: Sequence[str], steps: float) -> Record:
        """The record with the numbers of these parties so many steps off the middle."""
        out = {party: dict(values) for party, values in record.items()}
        for place in self.places:
            if place.party in scope:
                at = steps + (0.5 if place.step == 2.0 else 0.0)
                out[place.party][place.name] = float(place.write(np.array(at)))
        return out


def neighbours(table: Table0, climber: PairSearch, scope: tuple[str, ...]) -> Iterator[tuple[Record, Record]]:
    """The pair that moves most on the grid, and pairs between and beside its steps."""
    pair = climber.climb(scope)
    yield pair.before, pair.after
    for one, two in ((0.0, LITTLE), (LITTLE, 0.0), (0.5, 0.0), (0.0, 0.5)):
        yield table.moved(pair.before, scope, one), table.moved(pair.after, scope, two)
    far = table.long(pair.before, scope)
    for off in (LITTLE, -LITTLE, 0.5):
        yield far, table.middle(far, scope, off)
        yield table.long(pair.after, scope), table.middle(pair.after, scope, off)


def ratios(agreement: Agreement, rows: int, draw: np.random.Generator) -> dict[str, float]:
    """By view the largest epsilon of any pair that was tried, over the one that the plan claims."""
    session = plan_session(agreement, rows, bytes(32))
    table, climber = Table0(session, draw), PairSearch(session, Randomness(draw.bytes(16)))
    summed = max((len(i.block.factors) for i in session.plan.blocks if i.block.summed), default=1)
    # Every number's own excess just below a half; or that of a whole sum.
    targets = {0.5 - LITTLE / 2, (summed // 2 + 0.5 - LITTLE / 2 * summed) / summed}
    out: dict[str, float] = {}
    for scope in scopes_of(session.parties, agreement.collusion):
        for before, after in neighbours(table, climber, scope):
            for target in sorted(t for t in targets if 0 < t < OFF_GRID / 4):
                one, two = (exact_vector(session, table.tables(record, target)) for record in (before, after))
                for view, known, claimed, read in attacks(session, scope):
                    if claimed and read not in (Ratio.of_retries, Ratio.of_cut):
                        found = Ratio(session, one, two, known).loss() / claimed
                        name = f"{view}, {'record' if scope == session.parties else 'part'}"
                        out[name] = max(out.get(name, 0.0), found)
    return out


def traced(features: int = 40, norm: float | None = None, **changes: Any) -> Agreement:
    """Two parties; one has many numbers and spends nearly all on the sum of their squares."""
    own: dict[str, Column] = {f"x{j}": Numeric(-1, 1) for j in range(features)}
    schema = Schema({"p0": {"y": Numeric(-1, 1)}, "p1": own}, {} if norm is None else {"p1": norm})
    offers = {"p0": Offer(0.1), "p1": Offer(0.1, 0.09)}
    return Agreement.from_terms("traced", schema, "p0.y", Task.LINEAR, offers=offers, release="trace").with_terms(
        **changes
    )


def kind_of(agreement: Agreement) -> str:
    """By which studies are counted apart."""
    told = "trace with norms" if agreement.schema.norms else agreement.query.word
    return f"{told}, {'gaussian' if agreement.delta else 'laplace'}"


def search(studies: int, seed: int) -> dict[str, Any]:
    """The largest ratio by view and by kind of study, with the number of the study that has it."""
    views: dict[str, tuple[float, int]] = {}
    kinds: dict[str, tuple[float, int]] = {}
    refused = 0
    for number in range(studies):
        draw = np.random.default_rng([seed, number])
        agreement = random_study(draw)
        try:
            found = ratios(agreement, int(draw.integers(8, 60)), draw)
        except ColonnadeError as error:
            refused += 1
            sys.stderr.write(f"study {number} is refused: {error}\n")
            continue
        for view, value in found.items():
            views[view] = max(views.get(view, (0.0, 0)), (value, number))
        kind = kind_of(agreement)
        kinds[kind] = max(kinds.get(kind, (0.0, 0)), (max(found.values(), default=0.0), number))
    return {"studies": studies, "seed": seed, "refused": refused, "views": views, "kinds": kinds}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m audit.search", description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    found = search(options.studies, options.seed)
    largest = max((value for value, _ in found["views"].values()), default=0.0)
    if options.json:
        print(json.dumps(found | {"largest": largest, "seconds": round(time.monotonic() - began, 1)}))
    else:
        for key in ("views", "kinds"):
            for name, (value, number) in sorted(found[key].items()):
                print(f"{name}: {value:.4f} (study {number})")
        print(f"largest ratio {largest:.4f}; {found['refused']} of {options.studies} studies refused; 1 is allowed")
    return int(largest > 1 + FLOAT_ERROR)


if __name__ == "__main__":
    sys.exit(main())
