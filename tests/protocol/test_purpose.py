"""Noise spread for all columns: the same promise, less noise on larger tables, and the default as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.accounting import epsilon_of_gaussian
from colonnade.mechanism.forecast import forecast_tables
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import Offer
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from tests.helpers.sessions import agreement_of, exact_moments, tables_of, tapped_session

IDENTITY = bytes(range(32))


def census(sizes: tuple[int, ...], delta: float) -> Agreement:
    """Two parties with categories of so many levels in turn; the last column is the label, of two."""
    columns: dict[str, dict[str, Column]] = {"p0": {}, "p1": {}}
    for k, size in enumerate(sizes[:-1]):
        columns[f"p{k % 2}"][f"c{k}"] = Categorical(tuple(f"l{i}" for i in range(size)))
    columns["p0"]["y"] = Binary(("no", "yes"))
    return Agreement.from_terms(
        "census", Schema(columns), "p0.y", Task.LOGISTIC, epsilon=1.0, delta=delta, product="plain"
    )


def session_of(agreement: Agreement, rows: int = 60) -> SessionPlan:
    return plan_session(agreement, rows, IDENTITY)


def test_the_default_is_the_label_and_is_not_written() -> None:
    agreement = agreement_of(3)
    assert agreement.query.purpose is Purpose.LABEL and "purpose" not in agreement.to()
    every = agreement.with_terms(purpose=Purpose.ALL)
    assert every.to()["purpose"] == "all" and Agreement.of(every.to()) == every
    assert session_of(every).digest != session_of(agreement).digest
    with pytest.raises(StudyError, match="misstates a field"):
        Agreement.of({**every.to(), "purpose": "some"})


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"release": "trace"}, 'release = "trace" has none'), ({"calibration": Calibration.PAPER}, "the paper's calib")],
)
def test_a_release_without_tables_cannot_serve_all_columns(changes: dict[str, object], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        agreement_of(3, purpose=Purpose.ALL, **changes)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_larger_tables_get_less_noise_at_the_same_epsilon(delta: float) -> None:
    agreement = census((3, 2, 12, 2), delta=delta)
    label, every = (session_of(agreement.with_terms(purpose=p), 20_000) for p in Purpose)
    assert label.plan.epsilon == pytest.approx(every.plan.epsilon, rel=1e-3)
    scale = {b.block.cells: b.scale for b in every.plan.blocks}
    assert len(scale) > 2 and sorted(scale.values(), reverse=True) == [scale[c] for c in sorted(scale)]  # type: ignore
    names = [b.block.name for b in every.plan.blocks]
    assert len(set(names)) == len(names) and any("up to 64 cells" in name for name in names)
    before, after = (forecast_tables(s.plan, 20_000) for s in (label, every))
    assert before is not None and after is not None and after.expected < before.expected


@pytest.mark.parametrize("offers", [False, True])
@pytest.mark.parametrize("product", ["plain", "lattice"])
def test_every_block_is_opened_at_its_place(product: str, offers: bool) -> None:
    """At a huge epsilon the noise is nothing, and what is opened is what a look at all tables gives."""
    each = {f"p{k}": Offer(1e6) for k in range(3)}
    terms: dict[str, object] = {"epsilon": None, "offers": each} if offers else {"epsilon": 1e6}
    agreement = agreement_of(3, product=product, purpose=Purpose.ALL, **terms)
    tables = tables_of(agreement, 12)
    tapped = tapped_session(agreement, tables=tables)
    tapped.run()
    assert tapped.release is not None
    moments, exact = tapped.release.moments(), exact_moments(tapped.session, tables)
    known = np.isfinite(moments.std) & (moments.std > 0)
    assert known.sum() > 20
    assert np.abs(moments.value - exact)[known].max() < 0.05


def test_many_columns_in_pure_epsilon_release_margins_alone() -> None:
    agreement = census((12,) * 40 + (2,), delta=0.0)
    every = agreement.with_terms(purpose=Purpose.ALL)
    session = session_of(every, 20_000)
    assert session.released == "margins" and session.forecast.explained is None and not session.spec.crosses
    assert any("margins alone are released" in note for note in session.warnings())
    others = [session_of(every.with_terms(release=name), 20_000).table_forecast for name in ("full", "label")]
    own = session.table_forecast
    assert own is not None and all(other is not None and own.expected < other.expected for other in others)
    few = session_of(census((4, 4, 4, 2), delta=0.0).with_terms(purpose=Purpose.ALL), 20_000)
    assert few.released == "full" and not any("independent" in note for note in few.warnings())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("product", ["plain", "lattice"])
def test_margins_are_opened_at_their_places_and_cost_what_is_told(product: str, delta: float) -> None:
    agreement = census((3, 20, 5, 2), delta).with_terms(product=product, purpose=Purpose.ALL, release="margins")
    plan = session_of(agreement, 1000).plan
    # A replaced record moves every margin by 2, and by sqrt 2 in L2, at most and at worst.
    scale = {k: float(i.scale) for i in plan.blocks for k in plan.layout.alone_of(i.block.factors)}
    assert len(scale) == 4 and scale[1] != min(scale.values()) and plan.epsilon == pytest.approx(1.0, rel=1e-3)
    if not delta:
        assert sum(2 / s for s in scale.values()) == pytest.approx(plan.epsilon, rel=1e-6)
    else:
        spent = epsilon_of_gaussian(Fraction(sum(1 / s**2 for s in scale.values())), delta)
        assert spent == pytest.approx(plan.epsilon, rel=1e-3)
    clear = agreement.with_terms(epsilon=1e6)
    tables = tables_of(clear, 12)
    tapped = tapped_session(clear, tables=tables)
    tapped.run()
    assert tapped.release is not None
    moments, exact = tapped.release.moments(), exact_moments(tapped.session, tables)
    assert np.isfinite(moments.std[0, 1:]).all() and np.abs(moments.value[0] - exact[0]).max() < 0.05
    # Nothing of two columns is there; levels of one exclude each other, which is known.
    apart = moments.layout.attribute_of[1:, None] != moments.layout.attribute_of[1:]
    assert np.isinf(moments.std[1:, 1:][apart]).all()


WITH_NUMBER = replace(
    census((3, 3, 2), 0.0), schema=Schema({"p0": {"y": Binary(("no", "yes"))}, "p1": {"x": Numeric(0, 1)}})
)


@pytest.mark.parametrize(
    ("agreement", "told"),
    [
        (lambda: census((3, 3, 2), 0.0).with_terms(release="margins"), 'needs task = "logistic" and purpose = "all"'),
        (lambda: WITH_NUMBER.with_terms(purpose=Purpose.ALL, release="margins"), "column x is a number without bins"),
    ],
)
def test_margins_need_levels_and_serve_no_model(agreement: Callable[[], Agreement], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        agreement()
