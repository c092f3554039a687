"""One fit: the rule that takes one of twelve estimators, and the gate that stands behind each.

`RULE` is read from the top, and the first estimator that serves a question is taken. What it makes is judged by
`accepted`, and says which estimator it was, why that one, whether it converged, what was asked and what was used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from colonnade.analysis.accepted import BASE_RATE, Found, accepted
from colonnade.analysis.from_moments import (
    MOST_COLUMNS,
    Solved,
    base_rate,
    by_posterior,
    by_raw,
    by_zhang,
    expansion,
    fisher,
    has_pairs,
    log_odds_of,
    numbers,
    trace,
)
from colonnade.analysis.model import FitOutcome, FittedModel
from colonnade.analysis.penalised import penalised
from colonnade.analysis.polynomials import declared_objective
from colonnade.analysis.quartic import quartic
from colonnade.analysis.question import Held, Problem, Question
from colonnade.foundation.threads import small_on_one_thread


class Estimator(NamedTuple):
    """One way to a model."""

    name: str
    serves: Callable[[Problem], str]
    """Why it is the one for a question, where no estimator before it is; empty where it is not."""
    fit: Callable[[Problem], Found]


def _when(because: str, condition: Callable[[Problem], bool]) -> Callable[[Problem], str]:
    return lambda problem: because if condition(problem) else ""


def _ended(solved: Callable[[Problem], Solved]) -> Callable[[Problem], Found]:
    """From weights of a linear fit that nothing shrinks to the model of the question's label."""

    def fit(problem: Problem) -> Found:
        end = numbers if problem.family.identity else fisher if problem.centred else expansion
        return end(problem, solved(problem))

    return fit


def _is_trace(problem: Problem) -> bool:
    if problem.question.strength is not None or not problem.moments.traces:
        return False
    return bool(np.isfinite(problem.estimate.std[0, problem.target.coordinate]))


def _is_plain(problem: Problem) -> bool:
    asked = problem.question
    own = asked.label is None and asked.strength is None and asked.intercept
    return not problem.family.identity and asked.method == "default" and own


RULE: tuple[Estimator, ...] = (
    Estimator(
        "objective",
        _when("the release was made for a declared objective", lambda p: p.held.declared),
        declared_objective,
    ),
    Estimator(
        "conditions",
        _when("conditions leave a part of the records", lambda p: bool(p.question.given)),
        lambda p: penalised(p.held, p.question),
    ),
    Estimator(
        "penalised",
        _when(
            "classes, counts and sparse penalties are fitted to plausible records",
            lambda p: not p.question.from_moments,
        ),
        lambda p: penalised(p.held, p.question),
    ),
    Estimator("quartic", _when("the release is of order 4", lambda p: bool(p.moments.sums) and _is_plain(p)), quartic),
    Estimator(BASE_RATE, _when("the release holds margins alone", lambda p: p.centred and not has_pairs(p)), base_rate),
    Estimator("raw", _when("method raw was asked for", lambda p: p.question.method == "raw"), _ended(by_raw)),
    Estimator("zhang", _when("method zhang was asked for", lambda p: p.question.method == "zhang"), _ended(by_zhang)),
    Estimator(
        "linear",
        _when("a model of the label itself", lambda p: p.family.identity),
        lambda p: numbers(p, by_posterior(p)),
    ),
    Estimator(
        "trace",
        _when("the features' products were released as one sum", lambda p: not p.centred and _is_trace(p)),
        lambda p: trace(p, by_posterior(p)),
    ),
    Estimator(
        "expansion",
        _when("means of columns were not released, or no intercept is wanted", lambda p: not p.centred),
        lambda p: expansion(p, by_posterior(p)),
    ),
    Estimator(
        "log-odds",
        _when(
            "margins and products of the features are known",
            lambda p: p.question.strength is None and len(p.columns) <= MOST_COLUMNS,
        ),
        log_odds_of,
    ),
    Estimator(
        "discriminant",
        _when("columns are many, or a penalty was asked for", lambda p: True),
        lambda p: fisher(p, by_posterior(p)),
    ),
)
"""Every estimator, in the order in which they are asked."""


@small_on_one_thread
def fit(held: Held, question: Question) -> FittedModel:
    """The model that is asked for, by the first estimator that serves."""
    problem = Problem(held, question)
    for estimator in RULE:
        if because := estimator.serves(problem):
            found = estimator.fit(problem)
            break
    model = found.model
    used = {"parameters": model.freedom, "features": float(len(model.features))}
    outcome = FitOutcome(estimator.name, because=because, asked=question.asked, used=used)
    return accepted(found, outcome)
