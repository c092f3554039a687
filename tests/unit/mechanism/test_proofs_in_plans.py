"""Plans with proofs: how large words become, who is refused with which advice, and what falls back and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from colonnade.consent.policy import Policy, policy_from
from colonnade.crypto.lattice.parameters import SECURITY_FLOOR, choose_parameters, proved_security, proved_tau
from colonnade.foundation.errors import PolicyError, ProductError, StudyError
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import REQUIRED, WHERE_THEY_FIT, Agreement
from colonnade.planning.proofs import (
    DEVIATES,
    FOLLOWS,
    MOST_COMMITTED,
    committed_bits,
    promise_of,
    require_expected,
)
from colonnade.planning.session_plan import SessionPlan, plan_session
from tests.helpers.sessions import agreement_of


def study(epsilon: float, levels: int, numbers: int, **terms: Any) -> Agreement:
    """Two parties, each with so many numbers and one column of so many levels, and a binary label at the first."""
    parties: dict[str, dict[str, Column]] = {}
    for name in ("a", "b"):
        parties[name] = {f"{name}{i}": Numeric(0, 1) for i in range(numbers)}
        if levels:
            parties[name][f"{name}c"] = Categorical(tuple(map(str, range(levels))))
    parties["a"]["y"] = Binary(("no", "yes"))
    full = {"release": "full", "collusion": 1, "proofs": REQUIRED, **terms}
    return Agreement.from_terms("t", Schema(parties), "a.y", Task.LOGISTIC, epsilon=epsilon, **full)


def planned(rows: int, *columns: Any, **terms: Any) -> SessionPlan:
    return plan_session(study(*columns, **terms), rows, bytes(32))


@pytest.mark.parametrize(
    ("rows", "columns", "delta", "without", "with_proofs"),
    [
        (1_000, (1, 10, 5), 0.0, (36, 31), (44, 31)),
        (14_146, (10, 14, 3), 0.0, (40, 1023), (50, 1023)),
        (80_000, (1, 100, 0), 0.0, (35, 1), (45, 1)),
        (80_000, (1, 0, 100), 1e-9, (36, 63), (46, 63)),
        (10**6, (1, 100, 0), 0.0, (39, 1), (49, 1)),
        (10**6, (1, 10, 5), 0.0, (45, 511), (50, 31)),
    ],
)
def test_words_grow_as_the_design_says(
    rows: int, columns: Any, delta: float, without: tuple[int, int], with_proofs: tuple[int, int]
) -> None:
    """By the table that was made before this code was written, modulus and grid."""
    for proofs, expected in (("", without), (REQUIRED, with_proofs)):
        spec = planned(rows, *columns, delta=delta, proofs=proofs).spec
        assert (spec.modulus_bits, spec.bound) == expected
    session = planned(rows, *columns, delta=delta)
    levels = max(columns[1], 2)
    assert session.plan.error_factor >= 1 + levels * proved_tau(rows) / (session.spec.gain * session.spec.bound)
    assert session.exposures == () and session.tellings == ()


def test_a_plan_that_would_need_longer_words_is_refused_with_advice() -> None:
    with pytest.raises(ProductError, match=r"128 bits of security.*smaller epsilon.*fewer levels, or a study without"):
        planned(10**6, 10, 10, 5)
    back = planned(10**6, 10, 10, 5, proofs=WHERE_THEY_FIT)
    assert not back.proved and "128 bits of security" in back.unproved and promise_of(back) == FOLLOWS


def test_hints_are_hidden_by_the_honest_noise_alone() -> None:
    """r of rho at tau = 5,412 is sqrt(2048 (5412^2 + 4) 42.5) = 1.597e6 over the noise; 3.2 is left of 6.52."""
    assert proved_security(44, 14_146, 15, 25, 1e12) >= SECURITY_FLOOR
    # 6.519 / sqrt(2 (1 + r^2)) = 3.2 at r = 1.037: one hint, whose own size is a little above the noise, is too much.
    assert proved_security(44, 14_146, 15, 1, 1.597e6 / 1.03) > 0
    assert proved_security(44, 14_146, 15, 1, 1.597e6 / 1.05) == 0
    # A plan asks for it: 200 hints leave 3.2 where r <= 0.0733, so at n = 16,384 and noise 1 a gain of 2.32e7.
    chosen = choose_parameters(16_384, 1, 1.0, 200, 400, levels=2, hints=200, proved=16_384)
    assert (chosen.modulus_bits, chosen.gain) == (40, 33_149_747)
    bits = [proved_security(44, 14_146, 15, d, 1e8) for d in (1, 100, 10_000)]
    assert bits == sorted(bits, reverse=True) and bits[0] > bits[2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"product": "plain"}, 'does not go with product = "plain"'),
        ({"product": "bgn"}, 'does not go with product = "bgn"'),
        ({"collusion": 0}, "does not go with collusion = 0"),
        ({"interactions": (("p0.x0", "p1.x1"),)}, "does not go with products that a party makes"),
        (
            {"task": Task.POLYNOMIAL, "objective": "(y - w * x1)^2", "parameters": ("w",), "ball": 1.0},
            "does not go with a declared objective",
        ),
    ],
)
def test_what_is_not_proved_is_refused_where_proofs_are_required(changes: dict[str, Any], said: str) -> None:
    agreement = agreement_of(2, **{"product": "lattice", "proofs": REQUIRED} | changes)
    with pytest.raises(StudyError, match=said):
        plan_session(agreement, 1000, bytes(32))
    back = plan_session(agreement.with_terms(proofs=WHERE_THEY_FIT), 1000, bytes(32))
    assert not back.proved and said in back.unproved
    assert any("prove nothing" in warning for warning in back.warnings())
    assert back.describe()["without_proofs"] == back.unproved


def test_declared_norms_are_refused() -> None:
    agreement = agreement_of(2, product="lattice", proofs=REQUIRED, release="trace")
    normed = replace(agreement, schema=Schema(agreement.schema.parties, {"p1": 1.0}))
    with pytest.raises(StudyError, match="a declared norm"):
        plan_session(normed, 1000, bytes(32))


def test_costly_or_coarser_proofs_are_left_out_where_nobody_requires_them() -> None:
    costly = planned(80_000, 1, 0, 100, delta=1e-9, proofs=WHERE_THEY_FIT)
    assert not costly.proved and "bits to each other, more than 20,000,000" in costly.unproved
    assert max(committed_bits(planned(80_000, 1, 0, 100, delta=1e-9).spec).values()) > MOST_COMMITTED
    coarser = planned(10**6, 1, 10, 5, proofs=WHERE_THEY_FIT)
    assert not coarser.proved and "rounds numbers to 31 steps, one without to 511" in coarser.unproved
    fits = planned(1_000, 1, 10, 5, proofs=WHERE_THEY_FIT)
    assert fits.proved and not fits.unproved and promise_of(fits) == DEVIATES


def test_a_partner_cannot_switch_proofs_off_by_more_common_ids() -> None:
    """A party decides by its own list, before ids are matched."""
    agreement = study(1, 0, 20, proofs=WHERE_THEY_FIT)
    fits, beyond = (plan_session(agreement, rows, bytes(32)) for rows in (5_000, 200_000))
    assert fits.proved and not beyond.proved
    require_expected(agreement, 5_000, fits)
    require_expected(agreement, 200_000, beyond)
    with pytest.raises(PolicyError, match="proofs fit this party's own 5,000 records"):
        require_expected(agreement, 5_000, beyond)
    # A list so long that no study takes all of it is no reason to refuse what is common.
    require_expected(agreement, 2**31 + 1, beyond)


def test_agreements_without_the_key_are_what_they_were() -> None:
    without = agreement_of(2, product="lattice")
    assert "proofs" not in without.to() and "promise" not in plan_session(without, 100, bytes(32)).describe()
    with_key = without.with_terms(proofs=REQUIRED)
    assert with_key.to() == {**without.to(), "proofs": REQUIRED} and Agreement.of(with_key.to()) == with_key
    with pytest.raises(StudyError, match="'required' or 'where they fit', got proofs='always'"):
        without.with_terms(proofs="always")


def test_a_policy_can_require_the_promise() -> None:
    terms = {"party": "p1", "partners": ["p0"], "proofs": "required"}
    content = {"policy": terms, "session": {"epsilon": 9.0}, "total": {"epsilon": 9.0}}
    policy = policy_from(content)
    agreement = agreement_of(2, product="lattice")
    policy.check(plan_session(agreement.with_terms(proofs=REQUIRED), 200, bytes(32)))
    with pytest.raises(PolicyError, match='proofs is "required", the study asks for none'):
        policy.check(plan_session(agreement, 200, bytes(32)))
    beyond = study(1, 0, 20, proofs=WHERE_THEY_FIT)
    own = Policy("b", ("a",), 9.0, Cap(9.0), proofs=REQUIRED)
    with pytest.raises(PolicyError, match='proofs is "required", the plan has none: two parties would commit'):
        own.check(plan_session(beyond, 200_000, bytes(32)))
    with pytest.raises(PolicyError, match="where they fit"):
        policy_from({**content, "policy": {**terms, "proofs": "never"}})


def test_with_three_parties_a_party_at_large_is_spoken_of() -> None:
    one, two = (agreement_of(3, product="lattice", proofs=REQUIRED, collusion=c) for c in (1, 2))
    said = "collusion = 2 covers both"
    assert any(said in warning for warning in plan_session(one, 100, bytes(32)).warnings())
    assert not any(said in warning for warning in plan_session(two, 100, bytes(32)).warnings())
