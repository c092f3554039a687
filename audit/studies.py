"""Lean studies, one or two columns a party: few released numbers, so that a black-box bound can be tight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.foundation.schema import Column, Numeric, Schema, derive_columns
from colonnade.mechanism.objective import Calibration, Task
from colonnade.planning.agreement import Agreement

EPSILON = 2.0
DELTA = 0.05
"""Large, so that a bound from some thousand sessions can come near epsilon; no study should use it."""


@dataclass(frozen=True)
class Mechanism:
    """A calibration and a law of noise, by the name that the tables give them."""

    name: str
    changes: dict[str, Any]


MECHANISMS = (
    Mechanism("exact, Laplace", {"release": "trace"}),
    Mechanism("exact, Gaussian", {"release": "trace", "delta": DELTA}),
    Mechanism("paper, Laplace", {"calibration": Calibration.PAPER}),
)


def lean(parties: int, collusion: int = 0, **changes: Any) -> Agreement:
    """p0 holds the label, p1, p2, ... one number each."""
    columns: dict[str, dict[str, Column]] = {"p0": {"y": Numeric(-1, 1)}}
    for k in range(1, parties):
        columns[f"p{k}"] = {f"x{k}": Numeric(-1, 1)}
    return Agreement.from_terms(
        "audit", Schema(columns), "y", Task.LINEAR, EPSILON, collusion=collusion, release="trace"
    ).with_terms(**changes)


def uneven(**changes: Any) -> Agreement:
    """p0 holds the label and three numbers, p1 one: cross terms weigh most for p1."""
    columns: dict[str, dict[str, Column]] = {
        "p0": {"y": Numeric(-1, 1), **{f"x{i}": Numeric(-1, 1) for i in range(1, 4)}},
        "p1": {"x4": Numeric(-1, 1)},
    }
    return Agreement.from_terms("uneven", Schema(columns), "y", Task.LINEAR, EPSILON, collusion=0).with_terms(**changes)


def lopsided(**changes: Any) -> Agreement:
    """One party whose number reaches from -1 to 8: its two bounds are far from alike."""
    columns: dict[str, dict[str, Column]] = {"p0": {"y": Numeric(-1, 1), "x1": Numeric(-1, 8)}}
    return Agreement.from_terms(
        "lopsided", Schema(columns), "y", Task.LINEAR, EPSILON, collusion=0, release="trace"
    ).with_terms(**changes)


def powered(**changes: Any) -> Agreement:
    """One party with a number and its cube, which is a derived column."""
    own: dict[str, Column] = {"y": Numeric(-1, 1), "x1": Numeric(-1, 1)}
    columns = {"p0": own | derive_columns({"d1": "x1^3"}, own, "derived")}
    return Agreement.from_terms(
        "powered", Schema(columns), "y", Task.LINEAR, EPSILON, collusion=0, release="trace"
    ).with_terms(**changes)
