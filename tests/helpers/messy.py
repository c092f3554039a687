"""A school's, a town's and a bus company's files as they come in Hungary, all invented: for a newcomer's walk.

    python -m tests.helpers.messy FOLDER [PEOPLE]

iskola.csv: Windows-1250, bars, two lines above the header, line ends of both kinds, a note with a line break in
quotes, ids such as OM-0071234, days as 2007.03.14., decimal commas, igen and nem, a dash for no value.
onkormanyzat.feather: ids that a missing one made floats, NaN for no income, spaces behind levels. busz.csv.gz: a
byte-order mark, semicolons, no-break spaces for thousands, several journeys a person. Who left school (at the school)
depends on all three.
"""

from __future__ import annotations

import gzip
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

KINDS = ("község", "város", "főváros")


def write_messy(folder: Path, people: int = 3000) -> None:
    """Write the three files; nine of ten people are in each."""
    draw = np.random.default_rng(1956)
    number = draw.permutation(99_999)[:people] + 1
    grade, income = draw.uniform(1, 5, people), np.exp(draw.normal(12.3, 0.5, people))
    kind, far, trips = draw.integers(0, 3, people), draw.random(people) < 0.4, 1 + draw.poisson(3, people)
    score = -1.5 - 1.6 * (grade - 3) - 0.8 * (np.log(income) - 12.3) + 0.9 * far + 0.25 * (trips - 4)
    left = draw.random(people) < 1 / (1 + np.exp(-score))

    def some() -> list[int]:
        return [int(i) for i in draw.permutation(people)[: people * 9 // 10]]

    folder.mkdir(parents=True, exist_ok=True)
    lines = ["Tanulói kimutatás", "2025. tavasz", "OM azonosító|Születés|Jegyátlag|Bejáró|Megjegyzés|Lemorzsolódott"]
    for i in some():
        born = date(2006, 9, 1) + timedelta(days=int(draw.integers(0, 730)))
        mean = "–" if draw.random() < 0.07 else f"{grade[i]:.2f}".replace(".", ",")
        note = '"szülői értekezlet\nigazolt"' if draw.random() < 0.1 else ""
        yes = ["igen" if truth else "nem" for truth in (far[i], left[i])]
        lines.append(f"OM-{number[i]:07d}|{born:%Y.%m.%d.}|{mean}|{yes[0]}|{note}|{yes[1]}")
    text = "".join(line + ("\r\n" if k % 3 else "\n") for k, line in enumerate(lines))
    (folder / "iskola.csv").write_bytes(text.encode("cp1250"))

    rows = some()
    pl.DataFrame(
        {
            "azonosito": [*(float(number[i]) for i in rows), None],
            "jovedelem": [*(float("nan") if draw.random() < 0.08 else round(income[i], 0) for i in rows), 0.0],
            "telepules": [*(KINDS[kind[i]] + " " * int(draw.integers(0, 2)) for i in rows), KINDS[0]],
        }
    ).write_ipc(folder / "onkormanyzat.feather")

    bus = ["Kártyaszám;Időpont;Viteldíj (Ft)"]
    for i in some():
        for _ in range(trips[i]):
            when = datetime(2025, 1, 1) + timedelta(minutes=int(draw.integers(0, 180_000)))
            bus.append(f"{number[i]};{when:%Y-%m-%d %H:%M};{draw.integers(150, 2500):,}".replace(",", "\u00a0"))
    (folder / "busz.csv.gz").write_bytes(gzip.compress(("\n".join(bus) + "\n").encode("utf-8-sig"), mtime=0))


if __name__ == "__main__":
    write_messy(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
