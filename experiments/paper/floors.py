"""The floors that the utility of one release is held against, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from experiments.paper.document import RUN, Document, Row
from experiments.paper.methods import APPROXIMATE, OURS, PURE


@dataclass(frozen=True)
class Floor:
    """What a mean must reach: accuracy at least, or error over a reference's error at most."""

    data: str
    privacy: str
    epsilon: float
    value: float
    over: str = ""
    """The method whose mean error ours is divided by; empty for an accuracy."""
    colluding: float | None = None
    """What is asked for at c = 1, where it is something else."""


def _row(data: str, privacy: str, values: tuple[float, float, float], over: str = "") -> list[Floor]:
    return [Floor(data, privacy, e, v, over) for e, v in zip((0.1, 1.0, 10.0), values, strict=True)]


# Measured by a trial before the project began, or asked for where the trial suggested that more is possible.
FLOORS: tuple[Floor, ...] = (
    *_row("adult-41", PURE, (0.800, 0.835, 0.840)),
    *_row("adult-77", PURE, (0.812, 0.848, 0.8595)),
    *_row("dutch-36", PURE, (0.800, 0.829, 0.832)),
    *_row("adult-41", APPROXIMATE, (0.823, 0.836, 0.837)),
    *_row("dutch-36", APPROXIMATE, (0.821, 0.830, 0.830)),
    *_row("cps-wages", PURE, (1.045, 1.005, 1.0005), "non-private"),
    *_row("adult-hours", PURE, (0.96, 0.85, 0.817), "mean"),
    *(Floor(f"synthetic-{s}", APPROXIMATE, 1.0, 0.18, "w = 0", 0.22) for s in (0.1, 0.5, 1.0)),
)


def _value(floor: Floor, row: Row, rows: Sequence[Row]) -> float | None:
    if not floor.over or row.mean is None:
        return row.mean
    reference = _reference(floor.data, floor.over, row, rows)
    return None if not reference else row.mean / reference


def _reference(data: str, method: str, row: Row, rows: Sequence[Row]) -> float | None:
    """The mean of another method over the splits of a row, which may be the first of them alone."""
    found = next((r for r in rows if (r.data, r.method) == (data, method)), None)
    return None if found is None else fmean(found.scores[: row.runs]) if found.scores else found.mean


def _without_noise(floor: Floor, collusion: int, rows: Sequence[Row]) -> str:
    """What there is without privacy on the same splits."""
    own = next((r for r in rows if _is_floors(floor, r) and r.collusion == collusion), None)
    value = None if own is None else _reference(floor.data, "non-private", own, rows)
    over = _reference(floor.data, floor.over, own, rows) if own is not None and floor.over else 1.0
    return "" if value is None or not over else f"{value / over:.4f}"


def _is_floors(floor: Floor, row: Row) -> bool:
    return (row.data, row.method, row.privacy, row.epsilon) == (floor.data, OURS, floor.privacy, floor.epsilon)


def standing(document: Document) -> Iterator[tuple[Floor, int, list[tuple[int, float]]]]:
    """For each floor and collusion the values that our rows have, by K."""
    rows = [row for row in document.rows if row.source == RUN]
    for floor in FLOORS:
        own = [r for r in rows if _is_floors(floor, r)]
        for collusion in sorted({r.collusion for r in own}):
            values = [(r.parties, _value(floor, r, rows)) for r in own if r.collusion == collusion]
            yield floor, collusion, [(k, v) for k, v in values if v is not None]


def _told(floor: Floor, collusion: int, value: float) -> str:
    """A value, in brackets where it misses what is asked for."""
    asked = _asked(floor, collusion)
    return f"{value:.4f}" if (value <= asked if floor.over else value >= asked) else f"({value:.4f})"


def _asked(floor: Floor, collusion: int) -> float:
    return floor.value if not collusion or floor.colluding is None else floor.colluding


def _place(floor: Floor, collusion: int) -> str:
    what = f"{_asked(floor, collusion):g}" + (f" of {floor.over}" if floor.over else "")
    return f"| {floor.data} | {floor.privacy} | {floor.epsilon:g} | {what} | {collusion} | "


SHOWN = ("Accuracy and error against their thresholds",)
"""Headings whose tables stay on the page of results."""


def markdown(document: Document) -> str:
    """Where we stand, for every floor, K and collusion, and in the mean over K."""
    parties = sorted({row.parties for row in document.rows if row.method == OURS})
    rows = [row for row in document.rows if row.source == RUN]
    out = [
        "# Accuracy and error against their thresholds",
        "",
        f"Made from utility.csv, of `{document.header['command']}`.",
        "",
        "Accuracy must be at least the floor, an error over its reference at most; a value that is not stands in",
        "brackets. The first table has means over K at the largest c; lines of c = 1 and of (epsilon, 1/n) have fewer",
        "splits. Not private: on the same splits.",
        "",
        "| data | privacy | ε | floor | c | mean over K | not private |",
        "|" + "---|" * 7,
    ]
    default = {floor: collusion for floor, collusion, _ in standing(document)}
    for floor, collusion, values in standing(document):
        if collusion != default[floor]:
            continue
        mean = _told(floor, collusion, fmean(value for _, value in values)) if values else ""
        out.append(f"{_place(floor, collusion)}{mean} | {_without_noise(floor, collusion, rows)} |")
    out += ["", "## By K", ""]
    out.append(
        "| data | privacy | ε | floor | c | " + " | ".join(f"K = {k}" for k in parties) + " | all | no privacy |"
    )
    out.append("|---" * (7 + len(parties)) + "|")
    for floor, collusion, values in standing(document):
        found = dict(values)
        cells = [_told(floor, collusion, found[k]) if k in found else "" for k in parties]
        cells.append(_told(floor, collusion, fmean(found.values())) if found else "")
        cells.append(_without_noise(floor, collusion, rows))
        out.append(_place(floor, collusion) + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"
