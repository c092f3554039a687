"""Six studies unlike the demo: several classes, numbers alone, a rare class, a trace, margins, three parties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from colonnade.studio.form import to_toml

SEED = "49"
"""Of the noise: every run gives the same release."""


def _number(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"kind": "numeric", "low": low, "high": high, **more}


def _study(label: str, task: str, **terms: Any) -> dict[str, Any]:
    known = {"name": "six", "label": label, "task": task, "delta": 0, "collusion": 0, "product": "plain"}
    return {**known, "alignment": "none", **terms}


def _party(**columns: Any) -> dict[str, Any]:
    return {"columns": columns}


LEVELS = ["clerk", "smith", "baker", "nurse"]
BINARY = {"kind": "binary", "levels": ["no", "yes"]}
STUDIES: Mapping[str, dict[str, Any]] = {
    "classes": {
        "study": _study("works.job", "multinomial", epsilon=60.0),
        "party": {
            "works": _party(job={"kind": "categorical", "levels": LEVELS}, hours=_number(0, 80)),
            "bank": _party(savings=_number(0, 1000), owner={"kind": "boolean"}),
        },
    },
    "numbers": {
        "study": _study("works.pay", "linear", epsilon=40.0, label_square=True, release="full"),
        "party": {
            "works": _party(pay=_number(0, 10), hours=_number(0, 80)),
            "bank": _party(savings=_number(0, 1000), age=_number(18, 90)),
        },
    },
    "rare": {
        "study": _study("bank.ill", "logistic", epsilon=30.0),
        "party": {
            "works": _party(job={"kind": "categorical", "levels": LEVELS}, hours=_number(0, 80)),
            "bank": _party(ill=BINARY, age=_number(18, 90, bins=[30, 50, 70])),
        },
    },
    "trace": {
        "study": _study("works.pay", "linear", epsilon=4.0, release="trace"),
        "party": {
            "works": _party(pay=_number(0, 10), hours=_number(0, 80)),
            "bank": _party(savings=_number(0, 1000), age=_number(18, 90)),
        },
    },
    "margins": {
        "study": _study("works.rich", "logistic", epsilon=2.0, release="margins", purpose="all"),
        "party": {
            "works": _party(rich=BINARY, job={"kind": "categorical", "levels": LEVELS}),
            "bank": _party(age=_number(18, 90, bins=[30, 50, 70]), owner={"kind": "boolean"}),
        },
    },
    "parties": {
        "study": _study("works.rich", "logistic", epsilon=80.0, collusion=1),
        "party": {
            "works": _party(rich=BINARY, hours=_number(0, 80)),
            "bank": _party(savings=_number(0, 1000)),
            "town": _party(
                job={"kind": "categorical", "levels": LEVELS},
                moved={"kind": "date", "earliest": "2000-01-01", "latest": "2020-12-31"},
            ),
        },
    },
}


def write_six(folder: Path, name: str, people: int = 700) -> Path:
    """A study's file with its parties' data beside it."""
    draw = np.random.default_rng(49)
    hours, savings, age = draw.uniform(10, 60, people), draw.uniform(0, 1000, people), draw.uniform(18, 90, people)
    pay = np.clip(hours / 10 + savings / 300 + draw.normal(0, 0.5, people), 0, 10)
    job = draw.integers(0, 4, people) * (draw.random(people) < 0.5) + (hours > 40) * (draw.random(people) < 0.5)
    columns: dict[str, Any] = {
        "hours": hours,
        "savings": savings,
        "age": age,
        "pay": pay,
        "job": [LEVELS[min(int(k), 3)] for k in job],
        "owner": (draw.random(people) < savings / 1000).tolist(),
        "rich": np.where(pay > 5, "yes", "no").tolist(),
        "ill": np.where(draw.random(people) < 0.06 * age / 90, "yes", "no").tolist(),
        "moved": [f"20{k:02d}-05-{k + 1:02d}" for k in draw.integers(0, 20, people)],
    }
    content = {"study": dict(STUDIES[name]["study"]), "party": {}}
    for party, declared in STUDIES[name]["party"].items():
        pl.DataFrame({key: columns[key] for key in declared["columns"]}).write_csv(folder / f"{party}.csv")
        content["party"][party] = {"data": f"{party}.csv", **declared}
    place = folder / "study.toml"
    place.write_text(to_toml(content), encoding="utf-8")
    return place
