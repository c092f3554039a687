"""What is opened is the truth but for its noise: on wide and dense data, and over random studies of every kind."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.answers import Look, is_sentence
from audit.drawn import HUGE, Drawn
from audit.integrity import Study, draw_study, farthest_value, search, try_study
from colonnade.analysis.solve import solve
from colonnade.crypto.backends import BACKENDS
from colonnade.crypto.lattice.backend import LATTICE, sizes
from colonnade.data.table import table_from
from colonnade.foundation.errors import ProductError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning import precision
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.simulation import run_unguarded


def wide_study(rows: int, width: int, epsilon: float, **terms: Any) -> Study:
    """Two parties with so many dense uniform columns each, and a label that all of them explain."""
    draw = np.random.default_rng(0)
    values = draw.uniform(-1, 1, (rows, 2 * width))
    score = values @ draw.normal(size=2 * width)
    columns = {f"x{i}": values[:, i] for i in range(2 * width)} | {"y": np.clip(score / (4 * score.std()), -1, 1)}
    schema = {
        party: {f"x{i}": Numeric(-1, 1) for i in own}
        for party, own in (("a", range(width)), ("b", range(width, 2 * width)))
    }
    schema["a"]["y"] = Numeric(-1, 1)
    agreement = Agreement.from_terms("wide", Schema(schema), "a.y", Task.LINEAR, epsilon=epsilon)
    return Study(agreement.with_terms(**terms), columns)


def opened(study: Study) -> ReleaseRecord:
    frame = pl.DataFrame(study.columns)
    tables = {party: table_from(party, frame, own) for party, own in study.agreement.schema.parties.items()}
    return run_unguarded(study.agreement, tables, "none", Randomness(seed=b"wide")).release


def error_of(study: Study, release: ReleaseRecord) -> float:
    """The model's mean squared error on the study's own records, over that of w = 0."""
    model = solve(release.moments(), Task.LINEAR)
    y = np.asarray(study.columns["y"])
    found = model.intercept + sum(
        w * np.asarray(study.columns[n]) for n, w in zip(model.features, model.coefficients, strict=True)
    )
    return float(((y - found) ** 2).mean() / (y**2).mean())


@pytest.mark.parametrize(("epsilon", "delta"), [(10.0, 0.0), (10.0, 1e-6)])
def test_wide_dense_data_in_default_settings(epsilon: float, delta: float) -> None:
    """A trace sums n d squares; words that hold a product of two columns do not hold it."""
    study = wide_study(6000, 40, epsilon, delta=delta, release="trace")
    release = opened(study)
    assert any(b.summed and abs(b.values[0]) > 1000 * b.unit for b in release.blocks)
    assert farthest_value(study, release)[0] < 5.5
    plain = error_of(study, opened(replace(study, agreement=replace(study.agreement, product="plain"))))
    assert error_of(study, release) < 1.3 * plain < 1.0


def test_the_comparison_finds_words_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect that was: words sized for products alone."""
    forgetful = replace(LATTICE, name="forgetful", sizes=lambda needs: sizes(replace(needs, own_reach=0)))
    BACKENDS.add("forgetful", forgetful)
    try:
        study = wide_study(6000, 40, 10.0, release="trace", product="forgetful")
        with pytest.raises(ProductError, match=r"\(trace\) may reach .* bits cannot hold"):
            opened(study)
        monkeypatch.setattr("colonnade.planning.session_plan.require_room", lambda *given: None)
        assert farthest_value(study, opened(study))[0] > 100
    finally:
        del BACKENDS["forgetful"]


def test_opened_values_of_random_studies() -> None:
    found = search(8, seed=5)
    assert not found["wrong"], found
    assert sum(found["opened"].values()) == 8


def planned(seed: int, rows: int) -> SessionPlan:
    agreement = draw_study(np.random.default_rng(seed)).agreement
    if agreement.product == "bgn":
        rows = min(rows, 1000)
    return plan_session(agreement, rows, bytes(32))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([2, 300, 20_000, 10**6, 10**8, 2**31]))
def test_no_block_of_any_plan_can_wrap(seed: int, rows: int) -> None:
    try:
        session = planned(seed, rows)
    except ProductError as error:
        assert "modulus" in str(error) or "hold" in str(error)
        return
    half = 2 ** (session.spec.modulus_bits - 1)
    for item in session.plan.blocks:
        # Every record at the bounds, in every term, and noise as far as it gets once in 2^45 times.
        terms = len(item.block.factors) if item.block.summed else 1
        gain = 1 if item.block.single else session.spec.gain
        shares = 1 if item.block.single else len(session.parties) / session.plan.shares
        weight = 1.0 if item.block.summed else np.abs(item.block.weights).min()
        noise = float(item.scale) * gain * session.grid.bound**2 / weight
        noise = sqrt(2) * noise if session.plan.law is Distribution.LAPLACE else sqrt(noise**2 + 4)
        # A sum of Laplace shares is wider in the middle and has the same tail as one whole noise.
        far = 20 + 2 * shares**0.5 if session.plan.law is Distribution.LAPLACE else 7.7 * shares**0.5
        most = gain * terms * rows * session.grid.bound**2 + far * noise
        assert most < half, item.block.name


def test_a_refused_study_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    study = replace(wide_study(30, 2, 1.0))
    assert try_study(study, b"x").refusal == ""
    monkeypatch.setattr(precision, "MOST_ROWS", 29)
    assert try_study(study, b"x").refusal == "StudyError"


def test_answers_beside_the_truth_find_what_is_wrong_and_nothing_else() -> None:
    """A study without noise has no finding; with records other than those that were fitted it has some of each kind."""
    draw = np.random.default_rng(3)
    kinds: dict[str, dict[str, dict[str, Any]]] = {"p0": {"a": {"kind": "numeric", "low": -2, "high": 3}}}
    kinds["p1"] = {"b": {"kind": "binary", "levels": ["u", "v"]}}
    kinds["p1"]["y"] = {"kind": "numeric", "low": -5, "high": 5}
    kinds["p0"]["c"] = {"kind": "binary", "levels": ["u", "v"]}
    a, b, c = draw.uniform(-2, 3, 400), draw.choice(["u", "v"], 400), draw.choice(["u", "v"], 400)
    y = np.clip(a + 2 * (b == "u") + draw.normal(0, 0.3, 400), -5, 5)
    frame = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    clean = Look(Drawn("linear", HUGE, "plain", kinds, frame, terms={"label_square": True}), 1)
    clean.look(whole=True)
    assert clean.kind == "linear plain huge" and not clean.found, clean.found
    assert {"rows", "coefficient", "page and --json", "model, lasso"} <= clean.answered.keys() and not clean.refused
    other = Look(replace(clean.drawn, frame=frame.with_columns(a=-pl.col("a"), b=pl.lit("u"))), 1)
    other.release, other.models = clean.release, clean.models
    for check in (other.tables, other.components, other.solve, other.rows):
        before = len(other.found)
        check()
        assert len(other.found) > before, check
    told = {each.where.partition(",")[0] for each in other.found}
    assert {"margin", "cross table", "mean", "correlation", "model", "R²", "rows"} <= told


def test_a_refusal_is_a_sentence() -> None:
    assert is_sentence("a feature needs its square, which the release lacks for x")
    assert not is_sentence("a number needs bounds, low below high; the binary column has None")
    assert not is_sentence("KeyError: 'x'")
