"""Declared columns: what is accepted, what is refused with which sentence, and how values map."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.foundation.errors import SchemaError
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema, column_from, column_to

COLUMNS = [
    Numeric(0, 10),
    Numeric(-1.5, 2.5, bins=(0.0, 1.0), fill=0.5),
    Categorical(("a", "b")),
    Categorical(("a",), other=True, drop="a", fill="other"),
    Binary(("no", "yes"), fill="no"),
]

VALUES = st.sampled_from(
    [None, True, 0, 3, -1, 10**30, 0.5, math.nan, math.inf, "", "a", [], ["a", "b"], [1, 2], [[1], {}], {}, b"a", (3,)]
)


def test_a_question_mark_beside_other_levels_is_a_level() -> None:
    assert column_from("c", {"kind": "binary", "levels": ["?", "known"]}) == Binary(("?", "known"))


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_travel(column: Any) -> None:
    assert column_from("c", column_to(column)) == column


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (
            {"kind": "text"},
            "column c: kind must be one of numeric, categorical, binary, .*date.*got kind='text'",
        ),
        ({}, "kind must be one of"),
        ({"kind": "numeric", "low": 0}, "a numeric column needs 'high'"),
        ({"kind": "numeric", "low": 0, "high": 1, "hihg": 2}, "a numeric column has no key 'hihg'"),
        ({"kind": "numeric", "low": 1, "high": 0}, "low must be below high, got low=1, high=0"),
        ({"kind": "numeric", "low": 1, "high": 1}, "low must be below high"),
        ({"kind": "numeric", "low": 0, "high": math.inf}, "high must be a finite number, got high=inf"),
        ({"kind": "numeric", "low": math.nan, "high": 1}, "low must be a finite number, got low=nan"),
        ({"kind": "numeric", "low": "0", "high": 1}, "low must be a finite number"),
        ({"kind": "numeric", "low": True, "high": 2}, "low must be a finite number"),
        ({"kind": "numeric", "low": 0, "high": 4, "bins": [3, 1]}, "bins must increase strictly between low and high"),
        ({"kind": "numeric", "low": 0, "high": 4, "bins": [0, 1]}, "bins must increase strictly"),
        (
            {"kind": "numeric", "low": 0, "high": 4, "bins": 4},
            "column c: bins must be a list of the numbers at which a new interval begins, got bins=4$",
        ),
        ({"kind": "numeric", "low": 0, "high": 4, "bins": "123"}, "bins must be a list of .*, got bins='123'"),
        ({"kind": "numeric", "low": 0, "high": 4, "bins": {3: 1}}, "bins must be a list of"),
        ({"kind": "numeric", "low": 0, "high": 4, "fill": 9}, "fill must lie between low and high, got fill=9"),
        ({"kind": "categorical", "levels": ["a"]}, "needs at least 2 levels"),
        ({"kind": "categorical", "levels": ["a", "a"]}, "levels must be distinct"),
        ({"kind": "categorical", "levels": ["a", "other"], "other": True}, "levels must be distinct"),
        ({"kind": "categorical", "levels": ["a", "b"], "drop": "z"}, "drop must be one of the levels, got drop='z'"),
        ({"kind": "categorical", "levels": 5}, "levels must be a list of texts, got levels=5"),
        ({"kind": "categorical", "levels": "yes"}, "levels must be a list of texts, got levels='yes'"),
        ({"kind": "categorical", "levels": ["a", "b"], "other": "no"}, "other must be true or false, got other='no'"),
        (
            {"kind": "categorical", "levels": ["?"]},
            'column c: levels still has the "\\?" of a draft: replace it by what',
        ),
        ({"kind": "binary", "levels": ["?", "?"]}, 'column c: levels still has the "\\?" of a draft'),
        ({"kind": "numeric", "low": "?", "high": 3}, 'column c: low still has the "\\?" of a draft'),
        ({"kind": "numeric", "low": date(2020, 1, 31), "high": 3}, "low must be a finite number, got low=2020-01-31"),
        (
            {"kind": "numeric", "low": 0, "high": 3, "bins": [datetime(2020, 1, 31, 8, 30)]},
            "bins must be a finite number, got bins=2020-01-31T08:30:00",
        ),
        ({"kind": date(2020, 1, 31)}, "got kind=2020-01-31"),
        ({"kind": "binary", "levels": ["a", "b", "c"]}, "a binary column needs 2 distinct levels"),
        ({"kind": "binary", "levels": ["a", "a"]}, "a binary column needs 2 distinct levels"),
        ({"kind": "binary", "levels": ["a", "b"], "fill": "z"}, "fill must be one of the levels"),
    ],
)
def test_wrong_declarations(declared: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        column_from("c", declared)


@pytest.mark.parametrize("wrong", [4, "ab", None, {"a": 1}])
def test_what_is_no_list_is_refused_in_python(wrong: Any) -> None:
    for make, what in ((lambda: Numeric(0, 9, wrong), "bins"), (lambda: Binary(wrong), "levels")):
        with pytest.raises(SchemaError, match=f"{what} must be a list of"):
            make()
    with pytest.raises(SchemaError, match="levels must be a list of texts"):
        Categorical(wrong)
    assert Numeric(0, 9, np.array([3, 6])).bins == (3, 6)  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("low", "high", "bins", "levels", "fill", "drop"), VALUES)))
def test_any_declaration_is_read_or_refused(declared: dict[str, Any]) -> None:
    for kind in ("numeric", "categorical", "binary"):
        try:
            column_from("c", {**declared, "kind": kind})
        except SchemaError:
            continue


def test_schemas() -> None:
    number = Numeric(0, 1)
    with pytest.raises(SchemaError, match="a schema needs at least one party"):
        Schema({})
    with pytest.raises(SchemaError, match="party a declares no column"):
        Schema({"a": {}})
    with pytest.raises(SchemaError, match=r"without a dot, got 'a\.b'"):
        Schema({"a.b": {"x": number}})
    twice = Schema({"a": {"x": number}, "b": {"x": number}})
    assert twice.find("b.x") == ("b", "x") and [twice.title(ref) for ref in twice.columns] == ["a.x", "b.x"]
    with pytest.raises(SchemaError, match=r"column x may be a\.x or b\.x: say of which party"):
        twice.find("x")
    schema = Schema.of({"a": {"x": {"kind": "numeric", "low": 0, "high": 1}}, "b": {"y": number}})
    assert schema.find("a.x") == schema.find("x") == ("a", "x")
    assert Schema.of(schema.to()) == schema
    for missing in ("b.x", "z", "a.z"):
        with pytest.raises(SchemaError, match=f"column {missing} is declared by no party"):
            schema.find(missing)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_signed_values_stay_in_the_box(low: float, width: float, values: list[float]) -> None:
    column = Numeric(low, low + width) if low < low + width else Numeric(low, low + 1e3)
    signed = column.signed(np.array([*values, column.low, column.high]))
    assert np.abs(signed).max() <= 1.0
    assert signed[-2] == pytest.approx(-1.0) and signed[-1] == pytest.approx(1.0)


def test_bins() -> None:
    column = Numeric(0, 10, bins=(2.0, 5.0))
    assert column.codes(np.array([0, 1.99, 2, 4.99, 5, 10])).tolist() == [0, 0, 1, 1, 2, 2]
    assert column.coordinates("x") == ("x<2", "2<=x<5", "x>=5")


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ({"low": 0, "high": 2.5, "integer": True}, "whole bounds"),
        ({"low": 0, "high": 5, "integer": "yes"}, "true or false"),
        ({"low": 0, "high": 5, "integer": True, "bins": [1.2, 1.8]}, "holds a whole number"),
    ],
)
def test_integers_say_what_they_are(declared: dict[str, object], rule: str) -> None:
    with pytest.raises(SchemaError, match=rule):
        column_from("grade", {"kind": "numeric", **declared})


def test_an_integer_is_declared_and_told_as_such() -> None:
    column = column_from("grade", {"kind": "numeric", "low": 1, "high": 3, "integer": True})
    assert column_to(column) == {"kind": "numeric", "low": 1, "high": 3, "integer": True}
    assert column.describe(5) == "1 to 3, whole numbers"
    assert column_from("grade", {"kind": "numeric", "low": 1, "high": 3}) != column
