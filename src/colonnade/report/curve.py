"""The privacy-utility curve that a plan predicts: the same study planned at smaller and larger epsilons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import erf, sqrt

from colonnade.foundation.errors import ColonnadeError
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import foretold

FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # of the study's epsilon: a decade on either side
STRENGTHS = (0.1, 0.3, 0.5)
"""Shares of a label's variance that columns may explain: which one holds, no plan can know."""


def scaled(agreement: Agreement, factor: float) -> Agreement:
    """The agreement with its epsilon, or every party's offer with its parts, times a factor."""
    return replace(agreement, budget=agreement.budget.times(factor))


def accuracy_of(explained: float) -> float:
    """The accuracy of a model of two equally common classes that explains this share of the label's variance.

    For scores that are normal within each class: they lie d = 2 sqrt(r / (1 - r)) standard deviations apart, and the
    accuracy is the normal distribution function at d / 2.
    """
    return (1 + erf(sqrt(explained / (1 - explained)) / sqrt(2))) / 2


def quality_curves(points: Sequence[tuple[float, float]], logistic: bool) -> dict[float, list[tuple[float, float]]]:
    """By the share that the columns explain without noise, the accuracy or R² that is left of it at each epsilon."""
    return {
        strength: [(e, accuracy_of(strength * s) if logistic else strength * s) for e, s in points]
        for strength in STRENGTHS
    }


def forecast_curve(agreement: Agreement, rows: int) -> list[tuple[float, float]]:
    """(epsilon of a record, share of what could be explained that survives the noise), from public facts alone.

    An epsilon that the secure product cannot serve is left out.
    """
    out = []
    for factor in FACTORS:
        try:
            epsilon, share = foretold(scaled(agreement, factor), rows)
        except ColonnadeError:
            continue
        if share is not None:
            out.append((epsilon, share))
    return out
