"""The plan says what else could be released, why it was not, and what other terms would buy."""

from __future__ import annotations

import pytest

from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.weights import release_risks
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.report.choices import Options

LEVELS = tuple("abcdef")


def session_of(epsilon: float = 1.0, rows: int = 30_000, columns: int = 10, **changes: object) -> SessionPlan:
    """Two parties with categories, a few numbers and a binary label."""
    names = {f"c{i}": Categorical(LEVELS) for i in range(columns - 3)} | {f"x{i}": Numeric(0, 1) for i in range(3)}
    first, second = dict(list(names.items())[::2]), dict(list(names.items())[1::2])
    schema = Schema({"a": {**first, "y": Binary(("n", "y"))}, "b": second})
    agreement = Agreement.from_terms("s", schema, "a.y", Task.LOGISTIC, epsilon=epsilon, collusion=1, product="plain")
    return plan_session(agreement.with_terms(**changes), rows, bytes(32))


def noise(session: SessionPlan) -> float:
    return Options(session).choices[0].label_noise


def test_pairs_that_are_all_noise_cost_the_label_nothing() -> None:
    """At a small epsilon the plan leaves pairs out; at a larger one, or with a delta, it releases them."""
    small = session_of(0.1)
    assert small.released == "label"
    full = session_of(0.1, release="full")
    assert noise(small) < 0.95 * noise(full)
    assert session_of(1.0).released == session_of(0.1, delta=1e-5).released == session_of(10.0).released == "full"


def test_where_nothing_can_be_learned_all_is_released() -> None:
    assert session_of(0.1, rows=200).released == "full"


def test_the_release_is_a_function_of_the_agreement_and_n() -> None:
    assert session_of(0.1).digest == session_of(0.1).digest
    assert session_of(0.1).digest != session_of(0.1, release="label").digest


@pytest.mark.parametrize("changes", [{}, {"release": "label"}, {"delta": 1e-6}, {"calibration": Calibration.PAPER}])
def test_every_choice_is_foretold(changes: dict[str, object]) -> None:
    session = session_of(0.5, **changes)
    told = Options(session).facts["release_choice"]
    assert told["chosen"] == session.released == told["choices"][0]["release"]
    if "calibration" not in changes:
        assert {c["release"] for c in told["choices"]} == {"full", "label"}
        assert all(c["label_noise"] > 0 for c in told["choices"]) and 0 < told["choices"][0]["explained"] < 1
    assert Options(session).text.startswith(f"Release {session.released} (")


def test_the_chosen_release_is_the_one_foretold_best() -> None:
    for epsilon in (0.05, 0.1, 0.3, 1.0, 3.0):
        session = session_of(epsilon)
        risks = release_risks(session.plan.layout, session.rows, session.agreement.law, epsilon, 0.0)
        assert session.released == min(risks, key=risks.__getitem__), (epsilon, risks)


def test_a_tiny_delta_and_no_collusion_are_priced_as_planned() -> None:
    session = session_of(1.0)
    delta, collusion = Options(session).alternatives
    assert delta.term == "delta = 1e-12" and collusion.term == "collusion = 0"
    assert delta.ratio == pytest.approx(noise(session_of(1.0, delta=1e-12)) / noise(session), rel=0.05)
    assert collusion.ratio == pytest.approx(noise(session_of(1.0, collusion=0)) / noise(session), rel=0.05)
    assert collusion.ratio < 1 and "no guarantee against a party" in collusion.caution
    assert [a.term for a in Options(session_of(1.0, delta=1e-6, collusion=0)).alternatives] == []


def wide(columns: int, **changes: object) -> SessionPlan:
    """One party with many numbers and a numeric label."""
    schema = Schema({"a": {f"x{i}": Numeric(-1, 1) for i in range(columns)} | {"y": Numeric(-1, 1)}})
    agreement = Agreement.from_terms("w", schema, "y", Task.LINEAR, epsilon=1.0, collusion=0, product="plain")
    return plan_session(agreement.with_terms(**changes), 20_000, bytes(32))


def test_fewer_columns_are_advised_where_pure_noise_drowns_many() -> None:
    session = wide(300)
    fewer = Options(session).alternatives[-1]
    chosen = int(fewer.term.split()[0])
    assert session.released == "trace" and fewer.term.startswith(f"{chosen} of the 300 columns") and 1 < chosen < 300
    assert fewer.ratio == chosen / 300 and fewer.left is None
    assert f"{chosen} of the 300 columns" in Options(session).text
    assert not any("columns" in a.term for a in Options(wide(300, delta=1e-6)).alternatives)
