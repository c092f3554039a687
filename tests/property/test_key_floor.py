"""Every accepted plan keeps 128 bits of its sealing keys from those who see hints, one party that looks alone too."""

from __future__ import annotations

from math import sqrt

import pytest

from audit.keys import hinted, search
from colonnade.crypto.lattice.security import key_bits
from colonnade.foundation.errors import ProductError
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session


def numbers(rows: int, columns: int, epsilon: float, parties: int = 2, collusion: int = 0) -> SessionPlan:
    """Numeric columns dealt out evenly, all products, Gaussian noise."""
    owned = {f"p{k}": {f"x{k}_{j}": Numeric(-1, 1) for j in range(columns // parties)} for k in range(parties)}
    owned["p0"]["y"] = Numeric(-1, 1)
    agreement = Agreement.from_terms(
        "s", Schema(owned), "p0.y", Task.LINEAR, epsilon=epsilon, delta=1e-9, collusion=collusion, release="full"
    )
    return plan_session(agreement, rows, bytes(32))


def left(session: SessionPlan, unknown: float, hints: int) -> float:
    """By hand: variances as in docs/secure-product.md, and the part of the noise's variance that is not known."""
    bound, gain, rows = session.grid.bound, session.spec.gain, session.rows
    error = 10.5 * rows * bound**2 + 2048 * (10.5 + 1) * 42.5 + 4 * (4096**2 - 1) / 12
    crossed = [item for item in session.plan.blocks if len(item.block.owners) == 2]
    noise = unknown * min(float(item.scale) * bound**2 * gain for item in crossed) ** 2
    shrunk = sqrt(2 * (1 + hints * error / noise))
    return key_bits(2048, session.spec.modulus_bits, 1 / shrunk, sqrt(10.5) / shrunk)


def test_the_own_share_of_one_that_looks_alone_hides_nothing() -> None:
    """With two parties half of the variance is its own: counted whole, the modulus of 2^50 seemed enough, at 127.2."""
    session = numbers(200_000_000, 40, 2.0)
    # p0 has 20 features and a numeric label, which takes two columns.
    assert session.spec.modulus_bits == 51 and left(session, 1 / 2, 22) >= 128
    found = hinted(session)
    assert found is not None and found.bits == pytest.approx(left(session, 1 / 2, found.hints), abs=0.2)


def test_a_plan_that_one_party_could_read_is_refused() -> None:
    """126.8 bits were left where 128 were counted."""
    with pytest.raises(ProductError, match="126 bits of security"):
        numbers(400_000_000, 60, 1.0)


def test_where_parties_may_collude_the_other_shares_are_all_of_the_noise() -> None:
    session = numbers(200_000_000, 40, 2.0, parties=3, collusion=1)
    found = hinted(session)
    assert (
        found is not None
        and found.bits == pytest.approx(left(session, 1.0, found.hints), abs=0.2)
        and found.bits >= 128
    )


def test_no_drawn_plan_is_under_the_floor() -> None:
    """`python -m audit.keys --plans 2000` draws more."""
    found = search(4, seed=1)
    assert found["under"] == [] and found["plans"] == 4
