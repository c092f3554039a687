"""The parameters that minimise a declared objective, from the sums that were released for it."""

from __future__ import annotations

import numpy as np

from colonnade.analysis.accepted import accepted
from colonnade.analysis.model import FittedModel
from colonnade.analysis.polynomials import Minimum, Polynomial, minimise, released_sums
from colonnade.foundation.errors import ReleaseError
from colonnade.mechanism.declared import DeclaredObjective
from colonnade.mechanism.moments import Moments
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord


def objective_of(release: ReleaseRecord) -> DeclaredObjective:
    """The objective that a release was made for."""
    agreement = release.agreement
    try:
        text, parameters = str(agreement["objective"]), tuple(map(str, agreement["parameters"]))
        return DeclaredObjective(text, parameters, agreement["ball"])
    except (KeyError, TypeError):
        raise ReleaseError("the release was made for no declared objective") from None


def noisy_objective(moments: Moments, declared: DeclaredObjective) -> Polynomial:
    """The objective as a polynomial in its parameters, its coefficients divided by n."""
    sums, place = released_sums(moments), {name: i for i, name in enumerate(declared.parameters)}
    terms: dict[tuple[int, ...], float] = {}
    for names, columns in declared.written(moments.layout).items():
        value = sum(weight * sums[term] for term, weight in columns.items()) / moments.n
        terms[tuple(place[name] for name in names)] = value
    return Polynomial.of(terms, len(declared.parameters))


def minimum_of(release: ReleaseRecord) -> Minimum:
    """Where the released objective is least in its ball."""
    declared = objective_of(release)
    size = len(declared.parameters)
    return minimise(noisy_objective(release.moments(), declared), declared.ball, np.eye(size))


def declared_model(release: ReleaseRecord) -> FittedModel:
    """The parameters as a model's coefficients; it scores nothing."""
    declared, found = objective_of(release), minimum_of(release)
    told = f"minimum in the ball of radius {declared.ball:g}"
    if found.on_edge:
        told += ", on its edge: the objective may have no minimum, or one farther out"
    nan, name = float("nan"), release.layout.columns[release.layout.label]
    weights = tuple(float(w) for w in found.weights)
    model = FittedModel(
        Task.POLYNOMIAL.value, name, declared.parameters, weights, 0.0, told, nan, float(len(weights)), nan
    )
    edge = (
        f"the declared objective is least on the edge of its ball: it may have no minimum of radius {declared.ball:g}"
    )
    return accepted(model, "minimum of the declared objective", known=edge if found.on_edge else "")
