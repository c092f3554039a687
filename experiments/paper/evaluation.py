"""How far an evaluation across parties is from the truth: `python -m experiments.paper evaluation`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from sklearn.metrics import log_loss, roc_auc_score

from colonnade.analysis.solve import solve
from colonnade.data.table import table_from
from colonnade.evaluation import evaluate_by
from colonnade.foundation.schema import Schema, column_from
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.model import PublicModel, partial_scores, predict, publish
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec
from experiments.data import Dataset, cps_wages, partition
from experiments.data.adult import adult_77
from experiments.data.dataset import binary, categorical, numeric

DRAWS = 30
EPSILONS = (0.1, 1.0)
PARTIES = (2, 3)
MODEL_EPSILON = 5.0


def made(rows: int = 80_000) -> Dataset:
    """Six numbers and two categories, of which the log-odds of the label are a sum."""
    rng = np.random.default_rng(23)
    x = rng.uniform(-1, 1, (rows, 6))
    kinds = [rng.choice(list("abc"), rows, p=[0.6, 0.3, 0.1]) for _ in range(2)]
    odds = x @ np.array([1.5, -0.8, 0.3, 1.2, -1.0, 0.5]) + sum(0.8 * (k == "a") for k in kinds) - 1.5
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(6)} | {f"c{i}": k for i, k in enumerate(kinds)} | {"y": y})
    columns = {f"x{j}": numeric(-1, 1) for j in range(6)} | {f"c{i}": categorical(["a", "b", "c"]) for i in range(2)}
    return Dataset("made", frame, {**columns, "y": binary("no", "yes")}, "y", "logistic")


DATA = {
    "made": (made, (5_000, 50_000)),
    "adult-77": (adult_77, (5_000, 20_000)),
    "cps-wages": (cps_wages, (5_000, 50_000)),
}


@dataclass(frozen=True)
class Setting:
    """A model that was fitted on the first rows, and the rest to evaluate it on."""

    data: Dataset
    parties: int
    public: PublicModel
    release: ReleaseRecord
    rest: pl.DataFrame

    @property
    def schema(self) -> Schema:
        return self.public.schema


@lru_cache
def setting(name: str, parties: int) -> Setting:
    data = DATA[name][0]()
    order = np.random.default_rng(5).permutation(data.frame.height)
    frame = data.frame[order]
    train = min(25_000, frame.height - max(DATA[name][1]))
    held = partition(list(data.features), parties)
    own = {f"p{k}": {c: column_from(c, data.columns[c]) for c in columns} for k, columns in enumerate(held)}
    own["p0"][data.label] = column_from(data.label, data.columns[data.label])
    agreement = Agreement.from_terms(
        name, Schema(own), data.label, Task(data.task), epsilon=MODEL_EPSILON, product="plain"
    )
    tables = {p: table_from(p, frame[:train], columns) for p, columns in own.items()}
    release = run_unguarded(agreement, tables, "none").release
    public = publish(release, solve(release.moments(), agreement.task))
    return Setting(data, parties, public, release, frame[train:])


def truth(here: Setting, frame: pl.DataFrame) -> dict[str, float]:
    tables = {p: table_from(p, frame, columns) for p, columns in here.schema.parties.items()}
    total = np.asarray(sum(partial_scores(table, here.public.model) for table in tables.values()))
    name, column, level = here.public.label
    values = column.encode(name, tables["p0"].values[name][:])  # type: ignore[index]
    if here.public.model.task == "linear":
        score, y = total + here.public.model.intercept, values[name]
        errors, about = float(((score - y) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
        return {"r_squared": 1 - errors / about}
    yes, chance = values[f"{name}={level}"], predict(here.public, total)
    return {
        "auc": float(roc_auc_score(yes, chance)),
        "accuracy": float(((chance >= 0.5) == (yes > 0.5)).mean()),
        "log_loss": float(log_loss(yes, chance)),
    }


def run(names: tuple[str, ...], draws: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in names:
        for parties in PARTIES:
            here = setting(name, parties)
            for n in DATA[name][1]:
                for epsilon in EPSILONS:
                    began = time.process_time()
                    rows += _cell(here, n, epsilon, draws)
                    print(
                        f"{name} K={parties} n={n} epsilon={epsilon:g}: {time.process_time() - began:.0f} s",
                        file=sys.stderr,
                    )
    return rows


def _cell(here: Setting, n: int, epsilon: float, draws: int) -> list[dict[str, object]]:
    found: dict[str, list[tuple[float, float, bool, float]]] = {}
    told: dict[str, int] = {}
    terms = Agreement.from_terms(
        "s", here.schema, here.data.label, Task(here.data.task), epsilon=epsilon, product="plain"
    )
    evaluation = evaluate_by(StudySpec(terms, {}, "none"), here.public, release=here.release, rows=n)
    for draw in range(draws):
        frame = here.rest[np.random.default_rng([n, draw]).permutation(here.rest.height)[:n]]
        exact = truth(here, frame)
        tables = {
            p: evaluation.derive(table_from(p, frame, evaluation.needs(p))) for p in evaluation.agreement.schema.names
        }
        measured = evaluation.measure(run_unguarded(evaluation.agreement, tables, "none").release)
        for measure, value in exact.items():
            told.setdefault(measure, 0)
            if measure in measured.measures:
                got = measured.measures[measure]
                held = got.low <= value <= got.high
                found.setdefault(measure, []).append(
                    (got.value - value, (got.high - got.low) / 2, held, got.trivial or 0.0)
                )
                told[measure] += 1
    out: list[dict[str, object]] = []
    for measure in told:
        got = np.array(found.get(measure, []), dtype=float).reshape(-1, 4)
        known = len(got) > 0
        out.append(
            {
                "data": here.data.name,
                "K": here.parties,
                "n": n,
                "epsilon": epsilon,
                "measure": measure,
                "truth": f"{exact[measure]:.4f}",
                "trivial": f"{got[:, 3].mean():.4f}" if known else "",
                "error": f"{np.sqrt((got[:, 0] ** 2).mean()):.4f}" if known else "",
                "bias": f"{got[:, 0].mean():+.4f}" if known else "",
                "half width": f"{got[:, 1].mean():.4f}" if known else "",
                "covered": f"{got[:, 2].mean():.2f}" if known else "",
                "told": f"{told[measure]}/{draws}",
            }
        )
    return out


def markdown(rows: list[dict[str, object]], draws: int) -> str:
    """Return the section of docs/results/uncertainty.md."""
    head = list(rows[0])
    lines = [
        "# How far an evaluation is from the truth",
        "",
        f"Made by `python -m experiments.paper evaluation --write`: {draws} evaluations a line, each on other held-out "
        "records;",
        f"pure epsilon, collusion 1, model fitted with epsilon {MODEL_EPSILON:g} on other records. Truth: of the last "
        "draw's records;",
        "error: root mean square of measured less true; half width: of the 95% interval; told: how often noise let the "
        "measure be",
        "stated. With three parties values of a logistic model are what normal scores within classes would have.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    lines += ["| " + " | ".join(str(row[key]) for key in head) + " |" for row in rows]
    return "\n".join(lines) + "\n"
