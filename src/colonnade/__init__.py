"""One differentially private regression over columns that different organisations hold about the same people."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.api.model import Model
    from colonnade.api.party import Party
    from colonnade.api.plan import Plan
    from colonnade.api.release import Release
    from colonnade.api.study import Study
    from colonnade.estimators import VerticalLinearRegression, VerticalLogisticRegression, VerticalPoissonRegressor
    from colonnade.foundation.errors import ColonnadeError
    from colonnade.foundation.schema import Binary, Boolean, Categorical, Date, Numeric, Schema

__all__ = [
    "Binary",
    "Boolean",
    "Categorical",
    "ColonnadeError",
    "Date",
    "Model",
    "Numeric",
    "Party",
    "Plan",
    "Release",
    "Schema",
    "Study",
    "VerticalLinearRegression",
    "VerticalLogisticRegression",
    "VerticalPoissonRegressor",
]

_HOMES = {
    **{name: f"colonnade.api.{name.lower()}" for name in ("Model", "Party", "Plan", "Release", "Study")},
    **dict.fromkeys(("Binary", "Boolean", "Categorical", "Date", "Numeric", "Schema"), "colonnade.foundation.schema"),
    "ColonnadeError": "colonnade.foundation.errors",
    "VerticalLinearRegression": "colonnade.estimators",
    "VerticalLogisticRegression": "colonnade.estimators",
    "VerticalPoissonRegressor": "colonnade.estimators",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use: scikit-learn and scipy take longer to import than many commands take to run.
    if name == "__version__":
        return import_module("importlib.metadata").version("colonnade")
    if name not in _HOMES:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
