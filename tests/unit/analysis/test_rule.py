"""The rule: which estimator makes a model, by name, for every release of the corpus and every way to ask."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from colonnade.analysis import fit
from colonnade.analysis.accepted import BASE_RATE
from colonnade.analysis.model import FitOutcome
from colonnade.analysis.question import Question
from colonnade.analysis.request import ModelRequest
from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.release import ReleaseRecord, read_release
from tests.pins.studies import STUDIES, read_lines

OWN = {
    "logistic": "log-odds",
    "line": "log-odds",
    "linear": "linear",
    "gaussian": "linear",
    "trace": "linear",
    "label": "log-odds",
    "margins": BASE_RATE,
    "pairs": "log-odds",
    "tables": "log-odds",
    "quartic": "quartic",
    "objective": "objective",
    "classes": "penalised",
    "counts": "linear",
    "paper": "expansion",
    "products": "log-odds",
}
"""Of the study's own model."""
ASKED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("logistic", {"penalty": "lasso"}, "penalised"),
    ("logistic", {"penalty": "elastic-net", "strength": 0.01}, "penalised"),
    ("logistic", {"task": "multinomial"}, "log-odds"),
    ("logistic", {"label": "c"}, "penalised"),
    ("logistic", {"label": "c=g", "task": "logistic"}, "log-odds"),
    ("logistic", {"label": "x", "task": "linear"}, "linear"),
    ("logistic", {"method": "raw"}, "raw"),
    ("logistic", {"method": "zhang"}, "zhang"),
    ("logistic", {"strength": 0.05}, "discriminant"),
    ("linear", {"strength": 0.05}, "linear"),
    ("linear", {"method": "raw", "strength": 0.05}, "raw"),
    ("linear", {"penalty": "lasso"}, "penalised"),
    ("tables", {"given": ("k=yes",)}, "conditions"),
    ("counts", {"task": "poisson"}, "penalised"),
    ("quartic", {"features": ("x",)}, "quartic"),
    ("quartic", {"strength": 0.1}, "discriminant"),
    ("paper", {"strength": 0.1}, "expansion"),
    ("paper", {"method": "raw"}, "raw"),
)


@cache
def release(name: str) -> ReleaseRecord:
    return read_release((read_lines("releases")[list(STUDIES).index(name)] + "\n").encode())


def outcome(name: str, asked: dict[str, Any]) -> FitOutcome:
    found = ModelRequest(release(name), Question(**asked)).model().outcome
    assert found is not None
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_the_estimator_of_every_study(name: str) -> None:
    found = outcome(name, {})
    assert found.estimator == OWN[name] and found.converged and found.because


@pytest.mark.parametrize(("name", "asked", "estimator"), ASKED)
def test_the_estimator_of_every_way_to_ask(name: str, asked: dict[str, Any], estimator: str) -> None:
    assert outcome(name, asked).estimator == estimator


def test_many_columns_are_taken_as_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MOST_COLUMNS", 3)
    assert outcome("logistic", {}).estimator == "discriminant"


def test_every_estimator_of_the_rule_is_named_by_a_test() -> None:
    named = {*OWN.values(), *(estimator for _, _, estimator in ASKED), "discriminant"}
    # A trace release of a yes or no: tests/unit/mechanism/test_solve.py has one.
    assert {estimator.name for estimator in fit.RULE} - named == {"trace"}


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("margins", {"strength": 0.1}, "got ridge=0.1"),
        ("margins", {"method": "raw"}, "got method='raw'"),
        ("objective", {"strength": 0.1}, "got ridge=0.1"),
        ("objective", {"features": ("x",)}, "and no other model"),
        ("logistic", {"method": "zhang", "penalty": "lasso"}, "linear and logistic models of all records"),
        ("logistic", {"numbers": ("v",), "penalty": "lasso"}, "linear and logistic models of all records"),
        ("logistic", {"method": "zhang", "strength": 0.1}, "got ridge=0.1"),
    ],
)
def test_what_an_estimator_cannot_use_is_refused(name: str, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ColonnadeError, match=told):
        outcome(name, asked)


@pytest.mark.parametrize(("name", "asked"), [*((name, {}) for name in STUDIES), *(case[:2] for case in ASKED)])
def test_the_recorded_request_gives_the_same_model(name: str, asked: dict[str, Any]) -> None:
    first = ModelRequest(release(name), Question(**asked)).model()
    assert first.outcome is not None
    again = {k: tuple(v) if isinstance(v, list) else v for k, v in first.outcome.asked.items()}
    strength = again.pop("ridge", None)
    second = ModelRequest(release(name), Question(strength=strength, **again)).model()
    assert second.features == first.features and second.outcome == first.outcome
    assert np.array_equal(second.weights, first.weights) and np.array_equal(second.constants, first.constants)
