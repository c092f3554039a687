"""How often an evaluation's intervals hold the truth: `python -m experiments.paper evaluation-coverage`.

Random models of random columns (rare and strong levels, numbers that are levels in truth, numbers at the end of their
range), each evaluated on other records; the truth is scikit-learn's, of the scores of those records.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from colonnade.analysis.solve import solve
from colonnade.data.table import table_from
from colonnade.evaluation import evaluate_by
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.model import PublicModel, publish
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec

ROWS = (3_000, 20_000, 100_000)
EPSILONS = (1.0, 100.0)
PARTIES = (2, 3, 4)
CASES = 200
TRAINED = 4_000
"""Records that a model is made of."""
WANTED, LEAST = 0.93, 0.89
"""Of all intervals, and of those of any one cell."""
SHARED = 0.25
"""Of the evaluations have no release of the model to take scores' places from; as many are of linear models."""


@dataclass(frozen=True)
class Case:
    """Declared columns, records that a model is made of, and other records."""

    columns: Mapping[str, Mapping[str, Column]]
    task: Task
    old: pl.DataFrame
    new: pl.DataFrame


def draw_case(draw: np.random.Generator, parties: int, n: int) -> Case:
    rows = TRAINED + n
    columns: dict[str, dict[str, Column]] = {}
    values: dict[str, Any] = {}
    odds = np.zeros(rows)
    rare = draw.random() < 0.4
    for k in range(parties):
        columns[f"p{k}"] = {}
        for j in range(int(draw.integers(1, 4))):
            name = f"c{k}{j}"
            columns[f"p{k}"][name], values[name], x = _column(draw, rows, rare)
            odds += x
    task = Task.LINEAR if draw.random() < SHARED else Task.LOGISTIC
    if task is Task.LINEAR:
        columns["p0"]["y"] = Numeric(-10.0, 10.0)
        values["y"] = np.clip(odds - odds.mean() + draw.normal(0, 2, rows), -10, 10)
    else:
        columns["p0"]["y"] = Binary(("no", "yes"))
        start = np.quantile(odds, draw.uniform(0.1, 0.9)) if not rare else draw.uniform(2.0, 3.0)
        values["y"] = np.where(draw.random(rows) < 1 / (1 + np.exp(start - odds)), "yes", "no")
    frame = pl.DataFrame(values)
    return Case(columns, task, frame[:TRAINED], frame[TRAINED:])


def _column(draw: np.random.Generator, rows: int, rare: bool) -> tuple[Column, Any, NDArray[np.float64]]:
    """A declared column, its values, and what they add to the score."""
    kind = "rare" if rare and draw.random() < 0.6 else str(draw.choice(["even", "number", "ends", "skew", "several"]))
    weight = draw.normal() * 1.5
    if kind in ("rare", "even"):
        has = draw.random(rows) < (draw.uniform(0.005, 0.05) if kind == "rare" else 0.4)
        odds = np.where(has, 4.0 if kind == "rare" else weight, 0.0)
        return Binary(("0", "1")), np.where(has, "1", "0"), odds
    if kind == "several":
        codes, by = draw.choice(5, rows, p=draw.dirichlet(np.ones(5))), draw.normal(size=5)
        return Categorical(tuple("abcde")), np.array(list("abcde"))[codes], by[codes]
    if kind == "number":
        x = draw.uniform(-1, 1, rows)
    elif kind == "ends":
        x = np.where(draw.random(rows) < draw.uniform(0.02, 0.6), 1.0, -1.0)
    else:
        x = 2 * draw.beta(0.5, 8, rows) - 1.0
    return Numeric(-1.0, 1.0), x, weight * x


def true_measures(public: PublicModel, case: Case, about: float) -> dict[str, float]:
    """By hand, of every record's score."""
    score = np.full(case.new.height, public.model.intercept)
    weights = dict(zip(public.model.features, public.model.coefficients, strict=True))
    for party in case.columns.values():
        for name in party:
            if name != "y":
                score += _part(party[name], name, case.new[name].to_numpy(), weights)
    y = case.new["y"].to_numpy()
    if case.task is Task.LINEAR:
        errors = score - y / 10
        squares = float(errors @ errors)
        return {
            "rmse": 10 * float(np.sqrt(squares / len(y))),
            "r_squared": 1 - squares / float(((y / 10 - about) ** 2).sum()),
        }
    yes, chance = (y == "yes").astype(int), 1 / (1 + np.exp(-score))
    found = {
        "accuracy": float(np.mean((score >= 0) == yes)),
        "log_loss": float(log_loss(yes, chance, labels=[0, 1])),
        "brier": float(brier_score_loss(yes, chance)),
    }
    return found | ({"auc": float(roc_auc_score(yes, score))} if 0 < yes.sum() < len(yes) else {})


def _part(column: Column, name: str, values: Any, weights: Mapping[str, float]) -> NDArray[np.float64]:
    if isinstance(column, Numeric):
        return np.asarray(values * weights.get(name, 0.0), dtype=np.float64)
    # Levels stand in order here, and each has a coordinate of its own.
    own: NDArray[np.float64] = np.array([weights.get(f"{name}={level}", 0.0) for level in column.all_levels])
    return np.asarray(own[np.searchsorted(list(column.all_levels), values)])


def evaluate_case(seed: tuple[int, ...], parties: int, n: int, epsilon: float) -> list[dict[str, Any]]:
    """Every measure of one evaluation with its interval and the truth."""
    draw = np.random.default_rng(seed)
    case = draw_case(draw, parties, n)
    schema = Schema(case.columns)
    noise = Randomness(seed=repr(seed).encode())

    def run(agreement: Agreement, tables: Mapping[str, Any], name: str) -> Any:
        return run_unguarded(agreement, tables, "none", noise.child(name)).release

    terms = Agreement.from_terms("made", schema, "p0.y", case.task, epsilon=20.0, product="plain")
    release = run(terms, {p: table_from(p, case.old, own) for p, own in case.columns.items()}, "model")
    public = publish(release, solve(release.moments(), case.task))
    asked = Agreement.from_terms("made", schema, "p0.y", case.task, epsilon=epsilon, product="plain")
    known = None if draw.random() < SHARED else release
    evaluation = evaluate_by(StudySpec(asked, {}, "none"), public, release=known, rows=n)
    parts = {p: table_from(p, case.new, evaluation.needs(p)) for p in evaluation.agreement.schema.names}
    opened = run(evaluation.agreement, {p: evaluation.derive(t) for p, t in parts.items()}, "evaluation")
    found = evaluation.measure(opened).measures
    return [
        {
            "parties": parties,
            "n": n,
            "epsilon": epsilon,
            "seed": list(seed),
            "measure": name,
            "truth": value,
            "low": found[name].low if name in found else None,
            "high": found[name].high if name in found else None,
        }
        for name, value in true_measures(public, case, evaluation.label.centre).items()
    ]


def run(cases: int, seed: int, rows: tuple[int, ...] = ROWS) -> dict[str, Any]:
    """So many evaluations of each cell."""
    lines, begun = [], time.process_time()
    for parties, n, epsilon in product(PARTIES, rows, EPSILONS):
        for i in range(cases):
            lines += evaluate_case((seed, parties, n, int(epsilon), i), parties, n, epsilon)
        print(f"K={parties} n={n} epsilon={epsilon:g}: {time.process_time() - begun:.0f} s", file=sys.stderr)
    return summary(lines, cases, seed)


def summary(lines: list[dict[str, Any]], cases: int, seed: int) -> dict[str, Any]:
    told = [line for line in lines if line["low"] is not None]
    missed = [line for line in told if not line["low"] <= line["truth"] <= line["high"]]
    by = Counter((line["parties"], line["n"], line["epsilon"]) for line in told)
    bad = Counter((line["parties"], line["n"], line["epsilon"]) for line in missed)
    cells = [
        {"parties": p, "n": n, "epsilon": e, "told": count, "covered": 1 - bad[p, n, e] / count}
        for (p, n, e), count in sorted(by.items())
    ]
    pooled = 1 - len(missed) / max(len(told), 1)
    widths = []
    for p, n, e, m in sorted({(x["parties"], x["n"], x["epsilon"], x["measure"]) for x in lines}):
        own = [x for x in lines if (x["parties"], x["n"], x["epsilon"], x["measure"]) == (p, n, e, m)]
        half = [(x["high"] - x["low"]) / 2 for x in own if x["low"] is not None]
        held = [x["low"] <= x["truth"] <= x["high"] for x in own if x["low"] is not None]
        line = {"parties": p, "n": n, "epsilon": e, "measure": m, "asked": len(own), "told": len(half)}
        told_of = {"covered": float(np.mean(held)), "half_width": float(np.median(half))} if half else {}
        widths.append({**line, **told_of})
    short = pooled < WANTED or min((c["covered"] for c in cells), default=0.0) < LEAST
    return {
        "cases": cases,
        "seed": seed,
        "pooled": pooled,
        "cells": cells,
        "measures": widths,
        "missed": missed,
        "short": short,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Return the section of docs/results/uncertainty.md."""
    lines = [
        "# How often an evaluation's intervals hold the truth",
        "",
        f"Made by `python -m experiments.paper evaluation-coverage --cases {found['cases']} --seed {found['seed']} "
        "--write`:",
        f"{found['cases']} evaluations of each number of parties, n and epsilon, each of another random model on other",
        "records; rare and strong levels, and numbers at the ends of their range, are among the columns. One in four",
        "is of a linear model, one in four has no release to take scores' places from. Truth: scikit-learn's, of the",
        "records' own scores. Told: how often a measure was stated, and not said to be unknown; half width: the median",
        "of stated intervals.",
        "",
        f"All stated 95% intervals together: {found['pooled']:.1%} hold the truth.",
        "",
        "| K | n | epsilon | stated | covered |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {c['parties']} | {c['n']} | {c['epsilon']:g} | {c['told']} | {c['covered']:.3f} |" for c in found["cells"]
    ]
    lines += ["", "| K | n | epsilon | measure | told | covered | half width |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {m['parties']} | {m['n']} | {m['epsilon']:g} | {m['measure']} | {m['told']}/{m['asked']} | "
        + (f"{m['covered']:.3f} | {m['half_width']:.4f} |" if m["told"] else "| |")
        for m in found["measures"]
    ]
    return "\n".join(lines) + "\n"
