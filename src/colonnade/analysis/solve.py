"""From the noisy moments to a model. Everything here is post-processing and costs no privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colonnade.analysis.fit import fit
from colonnade.analysis.model import FittedModel
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Known
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Moments
from colonnade.mechanism.objective import Task


def solve(
    moments: Moments,
    task: Task,
    *,
    method: str = "default",
    ridge: float | None = None,
    features: Sequence[str] | None = None,
    label: str | None = None,
    intercept: bool = True,
    numbers: Mapping[int, Column] | None = None,
) -> FittedModel:
    """The model of a release; `features` (columns) and `label` choose among what was released, at no cost.

    `numbers` are attributes released by their bins that the model has one weight for (`slopes.bin_numeric_columns`).
    Alg. 1, lines 16 and 17.
    """
    chosen = None if features is None else tuple(features)
    question = Question(label, task.value, strength=ridge, features=chosen, method=method, intercept=intercept)
    return fit(Held(Known(moments), numbers=numbers or {}), question)
