"""A plan and a model in the forms that programs read."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from colonnade.analysis.models import ClassModel

if TYPE_CHECKING:
    from colonnade.model import PublicModel


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
        "outcome": None if model.outcome is None else asdict(model.outcome),
        "notes": public.warnings,
    }


def finite(value: Any) -> Any:
    """JSON has no nan and no infinity: both become null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
