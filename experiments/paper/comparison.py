"""Cell by cell: what the paper prints, what the same method gives here, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from experiments.paper.document import PRINTED, RUN, Document, Row, cell_text
from experiments.paper.methods import OURS, OURS_LATTICE

BESIDE = {"FM": ("FM repaired", "FM printed"), "non-private": ("non-private, no intercept", "non-private")}
"""Our rows for a printed column: the paper says nothing of indefinite forms and of intercepts."""
DEVIATIONS = 2.0


@dataclass(frozen=True)
class Compared:
    """A printed cell beside one of ours."""

    printed: Row
    ours: Row

    @property
    def distance(self) -> float | None:
        """How many printed standard deviations lie between the means; None where there is nothing to compare."""
        if self.ours.mean is None or self.printed.mean is None or not self.printed.std:
            return None
        return abs(self.ours.mean - self.printed.mean) / self.printed.std

    @property
    def verdict(self) -> str:
        if self.printed.data != self.ours.data:
            return "other data"
        if self.distance is None or self.printed.mean is None or self.printed.std is None:
            return "not run"
        if self.printed.metric == "MSE" and self.printed.std > 2.5 * self.printed.mean:
            # Ten non-negative runs with such a spread are nine zeros and one other number: no target (erratum d).
            return "printed spread is not one of ten runs"
        return "within two deviations" if self.distance <= DEVIATIONS else "apart"


def compared(documents: Iterable[Document]) -> list[Compared]:
    """Every printed cell with each of our rows that runs the same method, on the same data where we have it."""
    out = []
    for document in documents:
        ran = [row for row in document.rows if row.source == RUN]
        for told in (row for row in document.rows if row.source == PRINTED):
            data = told.data if any(row.data == told.data for row in ran) else next((row.data for row in ran), "")
            for method in BESIDE.get(told.method, (told.method,)):
                found = [r for r in ran if r.data == data and r.method == method and r.epsilon == told.epsilon]
                out += [Compared(told, row) for row in found[:1]]
    return out


def gaps(rows: Sequence[Row]) -> tuple[float, float]:
    """The largest difference between the means of some cells, and how many standard errors that is."""
    largest, errors = 0.0, 0.0
    for a, b in combinations([row for row in rows if row.runs], 2):
        assert a.mean is not None and b.mean is not None and a.std is not None and b.std is not None
        difference = abs(a.mean - b.mean)
        error = math.sqrt(a.std**2 / max(1, a.runs - 1) + b.std**2 / max(1, b.runs - 1))
        largest, errors = max(largest, difference), max(errors, difference / error if error else 0.0)
    return largest, errors


def alike(documents: Iterable[Document]) -> list[tuple[str, Row, int, float, float]]:
    """Claim 1 (utility does not depend on K, c = 0), and that the lattice product changes nothing."""
    out = []
    for document in documents:
        ran = [row for row in document.rows if row.source == RUN and row.runs]
        claims: dict[tuple[str, str, str, float | None], list[Row]] = {}
        for row in ran:
            if row.method == OURS and row.collusion == 0:
                claims.setdefault(("K", row.data, row.privacy, row.epsilon), []).append(row)
            if row.method == OURS_LATTICE:
                place = (row.data, row.privacy, row.epsilon, row.parties, row.collusion)
                claims[("lattice", *place[:3])] = [
                    row,
                    *(
                        other
                        for other in ran
                        if other.method == OURS
                        and (other.data, other.privacy, other.epsilon, other.parties, other.collusion) == place
                    ),
                ]
        for (claim, *_), rows in claims.items():
            if len(rows) > 1:
                out.append((claim, rows[0], len(rows), *gaps(rows)))
    return out


def markdown(documents: Sequence[Document]) -> str:
    """The comparison as a page."""
    out = ["# The paper's cells beside ours", ""]
    out.append(
        "Made by `python -m experiments.paper tables` from table1.csv, table2.csv and table3.csv. Distances are in the "
        "printed standard deviation."
    )
    rows = compared(documents)
    for document in documents:
        own = [c for c in rows if any(c.ours is row for row in document.rows)]
        out += ["", f"## {document.header['title']}", ""]
        out += ["| data | ε | printed | | ours | | distance | verdict |", "|---|---|---|---|---|---|---|---|"]
        for c in own:
            epsilon = "" if c.printed.epsilon is None else f"{c.printed.epsilon:g}"
            distance = "" if c.distance is None or c.verdict == "other data" else f"{c.distance:.1f}"
            out.append(
                f"| {c.printed.data} | {epsilon} | {c.printed.method} | {cell_text(c.printed)} | {c.ours.method} "
                f"({c.ours.data}) | {cell_text(c.ours)} | {distance} | {c.verdict} |"
            )
    same = alike(documents)
    out += ["", "## Ours for different K at c = 0, and with the lattice product", ""]
    out += [
        f"Of {len(same)} comparisons {sum(errors <= 3 for *_, errors in same)} differ by at most three standard",
        f"errors; the largest difference is {max((errors for *_, errors in same), default=0.0):.1f}.",
        "",
    ]
    out += ["| what varies | data | privacy | ε | cells | largest difference | standard errors |", "|---" * 7 + "|"]
    for claim, row, count, largest, errors in same:
        what = "K" if claim == "K" else f"lattice or plain, K = {row.parties}, c = {row.collusion}"
        out.append(
            f"| {what} | {row.data} | {row.privacy} | {row.epsilon:g} | {count} | {largest:.4f} | {errors:.1f} |"
        )
    return "\n".join(out) + "\n"
