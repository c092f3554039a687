"""Made studies of one to three parties, with a model of each and people whom it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade import runs
from colonnade.analysis.solve import solve
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import ReleaseRecord
from colonnade.model import PublicModel, publish, score_files
from colonnade.study import StudySpec, study_from

NUMBER = {"kind": "numeric", "low": -1, "high": 1}


@dataclass(frozen=True)
class Made:
    """A study with its release and model; `people` writes others and tells how the model does on them."""

    folder: Path
    task: str
    parties: int
    release: ReleaseRecord
    public: PublicModel

    def study(self, epsilon: float, which: str = "new", **terms: object) -> StudySpec:
        return study_of(self.folder, self.task, self.parties, epsilon, which, **terms)

    def people(self, n: int, seed: int) -> dict[str, float]:
        """Write people whom the model has not seen; the true measures."""
        y = write_people(self.folder, self.task, self.parties, n, seed, "new")
        files = [f"p{k}={self.folder / f'new{k}.parquet'}" for k in range(self.parties)]
        predicted = score_files(self.public, files).values
        if self.task == "linear":
            errors, about = float(((predicted - y) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
            return {"rmse": float(np.sqrt(errors / n)), "r_squared": 1 - errors / about}
        yes = y > 0.5
        ranks = np.argsort(np.argsort(predicted)) + 1.0
        area = (ranks[yes].sum() - yes.sum() * (yes.sum() + 1) / 2) / (yes.sum() * (~yes).sum())
        likely = np.clip(np.where(yes, predicted, 1 - predicted), 1e-12, 1)
        return {
            "accuracy": float(((predicted >= 0.5) == yes).mean()),
            "auc": float(area),
            "log_loss": float(-np.log(likely).mean()),
            "brier": float(((predicted - yes) ** 2).mean()),
        }


def write_people(folder: Path, task: str, parties: int, n: int, seed: int, which: str) -> NDArray[np.float64]:
    """Each party has two numbers and a category; the first has the label too."""
    draw = np.random.default_rng(seed)
    numbers = [draw.uniform(-1, 1, (n, 2)) for _ in range(parties)]
    kinds = [draw.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]) for _ in range(parties)]
    odds = sum(x @ np.array([1.5, -0.8]) for x in numbers) + sum(0.8 * (k == "a") for k in kinds) - 1.0 - 0.3 * parties
    if task == "linear":
        label = np.clip(0.15 * odds + 0.2 * draw.normal(size=n), -1, 1)
    else:
        label = (draw.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    for k in range(parties):
        frame = pl.DataFrame({f"x{k}": numbers[k][:, 0], f"z{k}": numbers[k][:, 1], f"c{k}": kinds[k]})
        if k == 0:
            told = pl.Series("y", label if task == "linear" else np.where(label > 0.5, "yes", "no"))
            frame = frame.with_columns(told)
        frame.write_parquet(folder / f"{which}{k}.parquet")
    return np.asarray(label)


def study_of(folder: Path, task: str, parties: int, epsilon: float, which: str, **terms: object) -> StudySpec:
    label = NUMBER if task == "linear" else {"kind": "binary", "levels": ["no", "yes"]}
    own = {}
    for k in range(parties):
        columns: dict[str, object] = {f"x{k}": NUMBER, f"z{k}": NUMBER}
        columns[f"c{k}"] = {"kind": "categorical", "levels": ["a", "b", "c"]}
        own[f"p{k}"] = {"data": f"{which}{k}.parquet", "columns": columns | ({"y": label} if k == 0 else {})}
    head = {"name": "made", "task": task, "label": "y", "epsilon": epsilon, "alignment": "none", "product": "plain"}
    return study_from({"study": {**head, **terms}, "party": own}, folder)


def make(folder: Path, task: str, parties: int, n: int = 6000) -> Made:
    """A study's release and its model, with little noise."""
    write_people(folder, task, parties, n, 1, "old")
    study = study_of(folder, task, parties, 50.0, "old")
    release = runs.fit(study, runs.RunOptions(randomness=Randomness(seed=b"made"))).release
    return Made(folder, task, parties, release, publish(release, solve(release.moments(), study.agreement.task)))
