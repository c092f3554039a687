"""The cells that the paper prints, typed in from its Tables 1-3: the only figures here that no run produced.

Source: Xu, Yuan and Wu, "Achieving Differential Privacy in Vertically Partitioned Multiparty Learning", Tables 1, 2
and 3, mean and standard deviation over ten replicates. A method's name is the one under which our tables carry the
same algorithm; the printed FM column is set beside both of our readings of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """One printed cell; epsilon is None where the paper prints one value for all of them."""

    table: int
    data: str
    method: str
    epsilon: float | None
    mean: float
    std: float


def _column(table: int, data: str, method: str, *cells: tuple[float, float]) -> list[Printed]:
    return [Printed(table, data, method, e, *cell) for e, cell in zip((0.1, 1.0, 10.0), cells, strict=True)]


PRINTED: tuple[Printed, ...] = (
    Printed(1, "US", "non-private", None, 0.0044, 0.0132),
    *_column(1, "US", "DPFW-C", (0.0912, 0.0007), (0.0905, 0.0008), (0.0903, 0.0008)),
    *_column(1, "US", "DPFW-2", (0.1286, 0.0154), (0.1334, 0.0235), (0.1329, 0.0204)),
    *_column(1, "US", "FM", (0.0101, 0.0305), (0.0087, 0.0261), (0.0086, 0.0259)),
    Printed(1, "Brazil", "non-private", None, 0.0044, 0.0132),
    *_column(1, "Brazil", "DPFW-C", (0.0470, 0.0007), (0.0454, 0.0007), (0.0453, 0.0006)),
    *_column(1, "Brazil", "DPFW-2", (0.1502, 0.0921), (0.1989, 0.1390), (0.2013, 0.1469)),
    *_column(1, "Brazil", "FM", (0.0070, 0.0230), (0.0045, 0.0136), (0.0044, 0.0132)),
    Printed(2, "synthetic-0.1", "non-private", None, 0.0033, 0.0101),
    Printed(2, "synthetic-0.1", "DPFW-C", 1.0, 0.5487, 0.1907),
    Printed(2, "synthetic-0.1", "DPFW-2", 1.0, 1.2980, 0.4537),
    Printed(2, "synthetic-0.1", "DPFW-4", 1.0, 2.2719, 0.7423),
    Printed(2, "synthetic-0.1", "DPFW-8", 1.0, 4.6538, 2.0663),
    Printed(2, "synthetic-0.1", "FM", 1.0, 0.0035, 0.0107),
    Printed(2, "synthetic-0.5", "non-private", None, 0.0052, 0.0157),
    Printed(2, "synthetic-0.5", "DPFW-C", 1.0, 40.392, 5.132),
    Printed(2, "synthetic-0.5", "DPFW-2", 1.0, 85.264, 10.560),
    Printed(2, "synthetic-0.5", "DPFW-4", 1.0, 164.95, 19.60),
    Printed(2, "synthetic-0.5", "DPFW-8", 1.0, 338.16, 31.41),
    Printed(2, "synthetic-0.5", "FM", 1.0, 0.0058, 0.0174),
    Printed(2, "synthetic-1.0", "non-private", None, 0.0050, 0.0154),
    Printed(2, "synthetic-1.0", "DPFW-C", 1.0, 271.09, 27.75),
    Printed(2, "synthetic-1.0", "DPFW-2", 1.0, 638.66, 59.70),
    Printed(2, "synthetic-1.0", "DPFW-4", 1.0, 1206.4, 66.2),
    Printed(2, "synthetic-1.0", "DPFW-8", 1.0, 2441.0, 174.2),
    Printed(2, "synthetic-1.0", "FM", 1.0, 0.0056, 0.0172),
    Printed(3, "adult-41", "non-private", None, 0.8368, 0.0029),
    *_column(3, "adult-41", "DPSGD", (0.6000, 0.0738), (0.6956, 0.0229), (0.8023, 0.0071)),
    *_column(3, "adult-41", "FM", (0.6412, 0.1463), (0.7315, 0.0379), (0.8132, 0.0231)),
    Printed(3, "dutch-36", "non-private", None, 0.8303, 0.0040),
    *_column(3, "dutch-36", "DPSGD", (0.5060, 0.0684), (0.6867, 0.0373), (0.8003, 0.0182)),
    *_column(3, "dutch-36", "FM", (0.5783, 0.0572), (0.7166, 0.0489), (0.8105, 0.0086)),
)


def beside(table: int, data: str, method: str) -> dict[float | None, Printed]:
    """The printed cells to set beside one of our rows, by epsilon."""
    name = "FM" if method.startswith("FM") else "non-private" if method.startswith("non-private") else method
    return {p.epsilon: p for p in PRINTED if (p.table, p.data, p.method) == (table, data, name)}


def impossible(p: Printed, runs: int = 10, unit: float = 1e-4) -> bool:
    """Whether no `runs` non-negative numbers have this mean and standard deviation, whatever was rounded to `unit`.

    For a given sum the spread is largest when one number carries all of it: then the sample standard deviation is
    sqrt(runs) times the mean, and the population one sqrt(runs - 1) times.
    """
    return p.std - unit / 2 > math.sqrt(runs) * (p.mean + unit / 2)
