"""A plan, a model and scores in the forms that programs read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from colonnade.analysis.models import ClassModel

if TYPE_CHECKING:
    from colonnade.scoring import PublicModel, Scores


def model_json(public: PublicModel) -> dict[str, Any]:
    """A model with its coefficients by feature."""
    model = public.model
    several: dict[str, Any] = {}
    if isinstance(model, ClassModel):
        rows = zip(model.classes, model.by_class, model.intercepts, strict=True)
        several["classes"] = {
            name: {"coefficients": dict(zip(model.features, row, strict=True)), "intercept": b} for name, row, b in rows
        }
    return {
        "task": model.task,
        "label": model.label,
        "coefficients": dict(zip(model.features, model.coefficients, strict=True)),
        "intercept": model.intercept,
        "method": model.method,
        "ridge": model.ridge,
        "effective_parameters": model.freedom,
        # A file from before intervals states an R² that is not corrected for noise.
        "r_squared": None if model.r_squared_interval is None else model.r_squared,
        "r_squared_interval": None if model.r_squared_interval is None else list(model.r_squared_interval),
        **several,
    }


def scores_csv(public: PublicModel, scores: Scores, id_column: str | None) -> str:
    """One line for each record: its id, and the probability and level or the value that the model gives it."""
    import polars as pl

    if id_column in ("probability", "predicted"):
        id_column += "_"
    columns: dict[str, Any] = {} if scores.ids is None or id_column is None else {id_column: list(scores.ids)}
    if isinstance(public.model, ClassModel):
        for k, name in enumerate(public.model.classes):
            columns[f"probability {name}"] = scores.values[:, k]
        columns["predicted"] = [public.model.classes[k] for k in scores.values.argmax(axis=1)]
    elif public.model.task == "logistic":
        name, column, level = public.label
        no = column.base(name) if level == column.positive else f"not {level}"
        columns["probability"] = scores.values
        columns["predicted"] = [level if p >= 0.5 else no for p in scores.values]
    else:
        columns["predicted"] = scores.values
    return pl.DataFrame(columns).write_csv()


def finite(value: Any) -> Any:
    """JSON has no nan and no infinity: both become null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
