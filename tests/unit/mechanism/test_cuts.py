"""Bins that a plan chooses for numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.cuts import SPANNED, choose_bins, describe_binning, log_edges, value_edges
from colonnade.mechanism.objective import Task
from colonnade.study import study_from

SCHEMA = Schema.of(
    {
        "a": {"gain": {"kind": "numeric", "low": 0, "high": 99_999}, "y": {"kind": "binary", "levels": ["no", "yes"]}},
        "b": {"age": {"kind": "numeric", "low": 17, "high": 90}, "job": {"kind": "categorical", "levels": list("pqr")}},
    }
)


def test_cuts_stand_in_the_uppermost_decades() -> None:
    assert log_edges(0, 99_999) == (1, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
    assert log_edges(0, 1e6) == (1, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5)
    assert log_edges(0, 999) == log_edges(1, 99_999) == ()


@pytest.mark.parametrize(("n", "epsilon", "cut"), [(40_000, 1.0, True), (500, 0.1, False)])
def test_bins_are_chosen_where_their_noise_costs_less_than_they_are_worth(n: int, epsilon: float, cut: bool) -> None:
    schema, cuts = choose_bins(SCHEMA, "a.y", Task.LOGISTIC, n, epsilon, 0.0)
    assert [str(c.column) for c in cuts] == ["a.gain"]
    assert (cuts[0].price < SPANNED) is cuts[0].chosen is cut
    assert schema.parties["b"] == SCHEMA.parties["b"]
    assert schema.parties["a"]["gain"].has_levels is cut
    assert ("11 bins, on a log scale" in describe_binning(cuts)) is cut


def test_declared_bins_and_the_label_are_left_alone() -> None:
    declared = Numeric(0, 99_999, (5000,))
    own = {"a": {"gain": declared, "y": Numeric(0, 5000)}, "b": SCHEMA.parties["b"]}
    schema, cuts = choose_bins(Schema(own), "a.y", Task.LINEAR, 40_000, 1.0, 0.0)
    assert not cuts and schema == Schema(own)
    assert "stay as they are" in describe_binning(cuts)


def study_with(**terms: Any) -> dict[str, Any]:
    head = {"name": "s", "task": "logistic", "label": "a.y", "epsilon": 1.0, "alignment": "none", **terms}
    return {"study": head, "party": {name: {"columns": columns} for name, columns in SCHEMA.to().items()}}


def test_a_study_may_leave_bins_to_the_plan() -> None:
    left = study_from(study_with(numeric="auto", rows=40_000), Path())
    assert left.cuts is not None and left.agreement.schema.parties["a"]["gain"].has_levels
    with pytest.raises(ColonnadeError, match="needs rows in"):
        study_from(study_with(numeric="auto"), Path())
    with pytest.raises(ColonnadeError, match="numeric must be one of declared, auto"):
        study_from(study_with(numeric="maybe", rows=10), Path())
    with pytest.raises(ColonnadeError, match="order = 2"):
        study_from(study_with(numeric="auto", rows=10, calibration="paper"), Path())


def test_an_integer_of_few_values_may_have_a_bin_for_each() -> None:
    assert value_edges(Numeric(0, 3, integer=True)) == (0.5, 1.5, 2.5)
    assert value_edges(Numeric(0, 3)) == value_edges(Numeric(1, 17, integer=True)) == ()
    assert len(value_edges(Numeric(1, 16, integer=True))) == 15
    own = {"a": {"grade": Numeric(1, 4, integer=True), "y": SCHEMA.parties["a"]["y"]}, "b": SCHEMA.parties["b"]}
    schema, cuts = choose_bins(Schema(own), "a.y", Task.LOGISTIC, 40_000, 1.0, 0.0)
    assert schema.parties["a"]["grade"].coordinates("grade") == ("grade=1", "grade=2", "grade=3", "grade=4")
    assert "4 bins, one for every value" in describe_binning(cuts)


def test_a_study_that_says_nothing_leaves_bins_to_the_plan_where_it_tells_its_rows() -> None:
    assert study_from(study_with(rows=40_000), Path()).agreement.schema.parties["a"]["gain"].has_levels
    assert study_from(study_with(rows=40_000, numeric="declared"), Path()).agreement.schema == SCHEMA
    assert study_from(study_with(), Path()).agreement.schema == SCHEMA
    linear = study_with(rows=40_000, task="linear", label="b.age")
    assert study_from(linear, Path()).agreement.schema == SCHEMA


def test_many_integers_together_pay_no_more_than_one_may() -> None:
    grades = {f"g{k:02d}": Numeric(1, 5 + k % 3, integer=True) for k in range(30)}
    for own, n, cut in ((grades, 40_000, False), (dict(list(grades.items())[:2]), 40_000, True), (grades, 10**7, True)):
        schema = Schema({"a": {**own, "y": SCHEMA.parties["a"]["y"]}, "b": SCHEMA.parties["b"]})
        found, cuts = choose_bins(schema, "a.y", Task.LOGISTIC, n, 1.0, 0.0)
        assert len(cuts) == len(own) and {c.chosen for c in cuts} == {cut}
        assert (sum(c.price for c in cuts) < SPANNED) is cut and (found == schema) is not cut
        assert all(c.price < SPANNED for c in cuts)
