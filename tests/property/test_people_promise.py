"""Neighbours that differ in one person, in all of its rows: searched from raw rows to opened integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade.audit.findings import attacks, scopes_of
from colonnade.audit.likelihood import Ratio
from colonnade.audit.pairs import exact_vector
from colonnade.data.sources import FrameSource, Source
from colonnade.data.table import Table
from colonnade.foundation.columns import Aggregate, Column
from colonnade.foundation.schema import Binary, Boolean, Categorical, Date, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

PEOPLE = 12
FLOAT_ERROR = 1e-12
FAR = [-1e300, -1e9, 1e9, 1e300, float("inf"), float("nan"), None]
DAYS = ["1900-01-01", "2024-05-31", "2024-01-01", "2999-12-31", "no day", None]
CLINIC: dict[str, Column] = {
    "stays": Numeric(0, 9, people=Aggregate("count")),
    "cost": Numeric(0, 100, people=Aggregate("sum", "bill")),
    "usual": Numeric(-5, 5, people=Aggregate("mean", "bill"), missing="indicator", fill=1),
    "worst": Numeric(0, 100, bins=(10, 50), people=Aggregate("max", "bill"), missing="level"),
    "smokes": Boolean(people=Aggregate("any", "smoker"), missing="level"),
    "often": Numeric(0, 1, people=Aggregate("share", "smoker")),
    "ward": Categorical(("a", "b"), other=True, people=Aggregate("last", "ward", "day")),
    "since": Date("2000-01-01", "2025-01-01", people=Aggregate("min", "day")),
}
BANK: dict[str, Column] = {
    "paid": Numeric(0, 10, people=Aggregate("first", "amount", "day"), missing="fill", fill=3),
    "late": Binary(("no", "yes"), people=Aggregate("last", "late", "day")),
}


def clinic_rows(person: str, draw: np.random.Generator) -> list[dict[str, Any]]:
    """A person's rows; nearly always they pull everything to one side."""
    bill, smoker, ward = (
        draw.choice(np.array(v, dtype=object)) for v in (FAR, ["yes", "no", "?", None], ["a", "b", "z"])
    )
    return [
        {
            "id": person,
            "bill": bill if draw.random() < 0.9 else draw.choice(np.array(FAR, dtype=object)),
            "smoker": smoker,
            "ward": ward,
            "day": draw.choice(np.array(DAYS, dtype=object)),
        }
        for _ in range(int(draw.choice([1, 1, 2, 40])))
    ]


def bank_rows(person: str, draw: np.random.Generator) -> list[dict[str, Any]]:
    found = [draw.choice(np.array(v, dtype=object)) for v in (FAR, ["no", "yes", None])]
    return [
        {"id": person, "amount": found[0], "late": found[1], "day": draw.choice(np.array(DAYS, dtype=object))}
        for _ in range(int(draw.choice([1, 3])))
    ]


def table(party: str, rows: list[dict[str, Any]], columns: dict[str, Column]) -> Table:
    frame = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    found = Source(FrameSource(frame), "id").read(party, columns)
    assert found.rows == PEOPLE
    return found


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_person_moves_more_than_the_stated_epsilon(delta: float) -> None:
    schema = Schema({"clinic": CLINIC, "bank": BANK})
    agreement = Agreement.from_terms("people", schema, "bank.late", Task.LOGISTIC, 1.0, delta=delta, collusion=1)
    session = plan_session(agreement, PEOPLE, bytes(32))
    draw = np.random.default_rng(52)
    makers = {"clinic": clinic_rows, "bank": bank_rows}
    columns = {party: dict(own) for party, own in schema.parties.items()}
    others = {p: [row for k in range(1, PEOPLE) for row in make(f"p{k}", draw)] for p, make in makers.items()}
    found: dict[tuple[str, ...], float] = {}
    for _ in range(60):
        one = {p: make("p0", draw) for p, make in makers.items()}
        for scope in scopes_of(session.parties, 1):
            two = {p: make("p0", draw) if p in scope else one[p] for p, make in makers.items()}
            vectors = [
                exact_vector(session, {p: table(p, own[p] + others[p], columns[p]) for p in makers})
                for own in (one, two)
            ]
            for _, known, claimed, read in attacks(session, scope):
                if claimed and read not in (Ratio.of_retries, Ratio.of_cut):
                    ratio = Ratio(session, *vectors, known).loss() / claimed
                    found[scope] = max(found.get(scope, 0.0), ratio)
    assert set(found) == set(scopes_of(session.parties, 1))
    assert all(ratio <= 1 + FLOAT_ERROR for ratio in found.values()), found
    # The search is no empty one: it comes near what is claimed for a whole person.
    assert max(found.values()) > 0.5, found
