"""What a party that cheats could read: the bound on it, the estimate of what is left, and who refuses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import e, log2, pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from colonnade.consent.guard import PolicyGuard
from colonnade.consent.policy import Policy
from colonnade.crypto.lattice.backend import key_left
from colonnade.crypto.lattice.parameters import SECRET_DISTRIBUTION, WIDE_DISTRIBUTION, N
from colonnade.crypto.lattice.security import entropy, key_bits, readable_coefficients
from colonnade.crypto.product import Chain, ChainSpec, Cross, ProductSpec
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.schema import Schema
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.leakage import exposures, most_values, people_sentence, tellings, value_bits
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.study import read_study


def levels_session(levels: int, rows: int = 60_000, **changes: object) -> SessionPlan:
    """A hospital's three columns and a shop's one, of so many levels."""
    binary = {"kind": "binary", "levels": ["n", "y"]}
    schema = Schema.of(
        {
            "hospital": {"hiv": binary, "age": {"kind": "numeric", "low": 18, "high": 100}, "L": binary},
            "shop": {"zip": {"kind": "categorical", "levels": [str(i) for i in range(levels)]}},
        }
    )
    agreement = Agreement.from_terms(
        name="s", schema=schema, label="hospital.L", task=Task.LOGISTIC, epsilon=1.0, collusion=1, release="full"
    )
    return plan_session(agreement.with_terms(**changes), rows, bytes(32))  # type: ignore[arg-type]


def laplace(spread: float, size: int) -> IntegerNoise:
    return IntegerNoise(Distribution.LAPLACE, ((Fraction(spread), np.arange(size)),), size)


# By malb/lattice-estimator 27a581b (docs/secure-product.md): bits of a whole key, or of the rest of one, by dimension,
# log2 q and the widths of secret and error.
TERNARY = sqrt(2 / 3)
ESTIMATED = [
    *((2048, q, TERNARY, 3.2, bits) for q, bits in ((40, 173), (44, 157), (48, 143), (53, 129))),
    *((2048, q, 0.71, 2.2, bits) for q, bits in ((40, 169), (44, 153), (49, 137), (51, 132), (52, 129), (53, 127))),
    *((2048, q, 0.47, 1.53, bits) for q, bits in ((48, 135), (51, 127))),
    *((2048, q, 0.3, 1.0, bits) for q, bits in ((44, 142), (48, 131), (51, 123))),
    *((n, q, 1.0, 3.24, bits) for n, q, bits in ((1248, 37, 113), (1536, 46, 111), (1648, 50, 110), (1024, 50, 68))),
]


@pytest.mark.parametrize(("dimension", "modulus", "secret", "error", "bits"), ESTIMATED)
def test_the_estimate_is_near_the_estimators_and_not_above(
    dimension: int, modulus: int, secret: float, error: float, bits: int
) -> None:
    assert bits - 2.5 < key_bits(dimension, modulus, secret, error) < bits + 0.5


def test_less_of_a_key_is_less_secure() -> None:
    bits = [key_bits(n, 46, 1.0, 3.24) for n in (2048, 1024, 512, 256, 65, 64, 0)]
    assert bits == sorted(bits, reverse=True) and bits[-1] == 0
    assert key_bits(2048, 51, 1.0, 3.24) < key_bits(2048, 50, 1.0, 3.24)


def test_a_coefficient_has_the_entropy_of_its_law() -> None:
    assert entropy((1, 1, 1, 1)) == 2
    assert entropy(SECRET_DISTRIBUTION) == pytest.approx(2.0306, abs=1e-3)
    assert entropy(WIDE_DISTRIBUTION) == pytest.approx(4.716, abs=1e-3)
    bits = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1)[:, 4:].astype(int)
    drawn = bits[:, 0] + bits[:, 1] - bits[:, 2] - bits[:, 3]
    assert tuple(np.unique(drawn, return_counts=True)[1]) == SECRET_DISTRIBUTION
    apart = np.subtract.outer(np.arange(16), np.arange(16))
    assert tuple(np.unique(apart, return_counts=True)[1]) == WIDE_DISTRIBUTION


@pytest.mark.parametrize("spread", [0.7, 3.0, 50.0])
def test_the_noise_has_the_entropy_that_is_counted(spread: float) -> None:
    values = np.arange(-4000, 4001)
    for law, weights in (
        (Distribution.LAPLACE, np.exp(-np.abs(values) / spread)),
        (Distribution.GAUSSIAN, np.exp(-(values**2) / (2 * (spread**2 + 10)))),
    ):
        held = weights[weights > 1e-300] / weights.sum()
        counted = Fraction(spread) if law is Distribution.LAPLACE else Fraction(spread**2 + 10)
        noise = IntegerNoise(law, ((counted, np.arange(1)),), 1)
        assert 20 - value_bits(noise, 20, alone=False)[0] == pytest.approx(-(held * np.log2(held)).sum(), abs=1e-6)
    wide = IntegerNoise(Distribution.LAPLACE, ((Fraction(1 << 30), np.arange(1)),), 1)
    assert 46 - value_bits(wide, 46, alone=False)[0] == pytest.approx(log2(2 * e) + 30, abs=1e-6)
    assert 46 - value_bits(wide, 46, alone=True)[0] == pytest.approx(1.737 + 30, abs=1e-2)
    narrow = IntegerNoise(Distribution.GAUSSIAN, ((Fraction(1 << 20), np.arange(1)),), 1)
    assert 46 - value_bits(narrow, 46, alone=True)[0] == pytest.approx(log2(2 * pi * e * 2**19) / 2)
    assert value_bits(laplace(2.0**40, 2), 32, alone=False).tolist() == [0, 0]


def test_no_reading_beats_the_bound() -> None:
    """Multiples of powers of five, at several distances from the noise, read fewer than the bound, but over half."""
    rng = np.random.default_rng(1)
    modulus_bits, spread, values = 40, 2.0**24, 400
    bound = readable_coefficients(
        values * value_bits(laplace(spread, 1), modulus_bits, alone=False)[0], SECRET_DISTRIBUTION
    )
    secret = rng.choice([-2, -1, 0, 1, 2], p=np.array(SECRET_DISTRIBUTION) / 16, size=N)
    best = 0
    for digits, margin in product(range(2, 7), (6, 14, 20)):
        weight = margin * sqrt(2) * spread
        if weight * 5**digits > 2**modulus_bits:
            continue
        read = secret[: values * digits].reshape(-1, digits)[:N]
        noise = rng.laplace(scale=spread, size=len(read))
        opened = read @ (weight * 5.0 ** np.arange(digits)) + noise
        rounded = np.rint(opened / weight).astype(int)
        right = 0
        for t in range(digits):
            digit = (rounded + 2) % 5 - 2
            rounded = (rounded - digit) // 5
            right += int((digit == read[:, t]).sum())
        assert right > 0.97 * read.size
        best = max(best, right)
    assert bound / 2 < best <= bound


def test_colluding_readers_add_up() -> None:
    crosses = (Cross(0, 1, 0, 2, 0, 30), Cross(0, 2, 1, 2, 0, 50), Cross(1, 2, 0, 30, 0, 50))
    spec = ProductSpec(bytes(32), ("a", "b", "c"), 1000, 7, crosses, 40, 100, 1000)
    noise = laplace(2.0**24, 2 * 30 + 50 + 30 * 50)
    each = value_bits(noise, 40, alone=False)[0]
    found = {(x.partner, x.cheaters): x for x in exposures(spec, noise, 1, key_left)}
    assert set(found) == {(p, (q,)) for p in "abc" for q in "abc" if p != q}
    assert found["a", ("c",)].information == pytest.approx(50 * each) and found["a", ("c",)].sealed
    assert found["c", ("b",)].information == pytest.approx(30 * each) and not found["c", ("b",)].sealed
    both = {(x.partner, x.cheaters): x for x in exposures(spec, noise, 2, key_left)}
    # Column 1 of a is multiplied by both; one that seals and one that multiplies read different keys.
    assert both["a", ("b", "c")].information == pytest.approx(80 * each) and both["a", ("b", "c")].values == 80
    assert both["b", ("c",)].sealed and both["c", ("a", "b")].information == pytest.approx(31 * each)
    alone = {(x.partner, x.cheaters): x for x in exposures(spec, noise, 0, key_left)}
    assert alone["a", ("c",)].information == pytest.approx(50 * (each + 0.706))


def test_those_who_learn_most_together_are_counted() -> None:
    """b and d multiply column 0 of a, by 30 and 20; c multiplies column 1, by 40, which tells nothing of column 0."""
    crosses = (Cross(0, 1, 0, 1, 0, 30), Cross(0, 2, 1, 2, 0, 40), Cross(0, 3, 0, 1, 0, 20))
    spec = ProductSpec(bytes(32), ("a", "b", "c", "d"), 1000, 7, crosses, 40, 100, 1000)
    noise = laplace(2.0**24, 30 + 40 + 20)
    each = value_bits(noise, 40, alone=False)[0]
    found = {x.cheaters: x.information / each for x in exposures(spec, noise, 2, key_left) if x.partner == "a"}
    assert found == {("b", "d"): pytest.approx(50), ("c", "b"): pytest.approx(40), ("d", "b"): pytest.approx(50)}


def test_people_are_counted_in_every_direction() -> None:
    """a's column 1 is sealed for b and for c and multiplies with d's; each value tells 12 bits, one a person."""
    crosses = (Cross(0, 1, 0, 2, 0, 30), Cross(0, 2, 1, 2, 0, 50), Cross(3, 0, 0, 4, 0, 2))
    spec = ProductSpec(bytes(32), ("a", "b", "c", "d"), 1000, 7, crosses, 40, 100, 1000)
    bits = np.full(2 * 30 + 50 + 4 * 2, 12.0)

    def told(collusion: int) -> dict[str, tuple[tuple[str, ...], float]]:
        found = tellings(spec, bits, None, np.zeros(0), collusion)
        return {one.partner: (one.cheaters, one.bits) for one in found}

    assert (
        told(0)
        == told(1)
        == {
            "a": (("c",), 50 * 12),
            "b": (("a",), 2 * 12),
            "c": (("a",), 1 * 12),
            "d": (("a",), 2 * 12),
        }
    )
    assert told(2)["a"] == (("c", "b"), 80 * 12)
    # Sealed or not: it is the same column of the same people.
    assert told(3)["a"] == (("c", "b", "d"), (80 + 4) * 12)


def test_any_owner_of_a_chain_may_be_told_of_any_other() -> None:
    chain = Chain((0, 1, 2), ((0, 0, 0), (0, 1, 0), (1, 1, 0)))
    chains = ChainSpec(bytes(32), ("a", "b", "c"), 1000, 7, (chain,), 40, (16,))
    spec = ProductSpec(bytes(32), ("a", "b", "c"), 1000, 7, (Cross(1, 0, 0, 1, 0, 1),), 40, 100, 1000)
    found = tellings(spec, np.array([5.0]), chains, np.array([1.0, 2.0, 4.0]), 1)
    # Columns 0 of a and 1 of b stand in the first two and the last two terms, that of c in all.
    assert [(x.partner, x.cheaters, x.bits) for x in found] == [
        ("a", ("b",), 4 + 5),
        ("b", ("a",), 6 + 5),
        ("c", ("b",), 7),
    ]


def test_people_of_a_study_by_the_entropy_of_its_noise() -> None:
    """By hand: log2 q less log2(2 e b) for each of the shop's levels, b the narrowest share in opened integers."""
    session = levels_session(40)
    pairs = [i for i in session.plan.blocks if i.block.owners == ("hospital", "shop")]
    unit = session.grid.bound**2 * session.spec.gain * float(min(session.plan.share(p) for p in session.parties))
    each = [session.spec.modulus_bits - log2(2 * e * float(i.scale) * unit) for i in pairs]
    columns = [i.block.size // 40 for i in pairs]
    people = {told.partner: told.people for told in session.tellings}
    assert sum(columns) == 5 and people["hospital"] == pytest.approx(40 * max(each), abs=1)
    assert people["shop"] == pytest.approx(sum(c * b for c, b in zip(columns, each, strict=True)), abs=1)


def test_a_policy_bounds_what_partners_could_be_told() -> None:
    session = levels_session(100)
    people = {told.partner: told.people for told in session.tellings}
    policy = Policy("hospital", ("shop",), 10.0, Cap(10.0))
    assert people["hospital"] > 1000 and min(x.key.bits for x in session.exposures) >= 100
    with pytest.raises(PolicyError, match=f"largest_bits_told is 1000, the plan has {people['hospital']}"):
        policy.check(session)
    with pytest.raises(PolicyError, match="largest_bits_told"):
        PolicyGuard("hospital", policy).foresee(session.agreement, 60_000, aligned=False)
    replace(policy, largest_bits_told=people["hospital"]).check(session)
    Policy("shop", ("hospital",), 10.0, Cap(10.0), largest_bits_told=people["shop"]).check(session)
    policy.check(levels_session(40))


def test_the_default_admits_the_demo_and_its_page_says_how_many() -> None:
    study = read_study(Path(__file__).parents[2] / "tests" / "studies" / "income" / "study.toml")
    # Ids that all three files have in common.
    session = study.session(14_146)
    assert {told.partner: told.people for told in session.tellings} == {"employer": 179, "registry": 137, "bank": 137}
    for name in session.parties:
        Policy(name, ("*",), 10.0, Cap(10.0)).check(session)
    assert "the exact values of up to 179 people; it would leave evidence" in people_sentence(
        session.tellings, session.rows
    )


def test_how_many_columns_would_do() -> None:
    spec = ProductSpec(bytes(32), ("a", "b"), 1000, 7, (Cross(0, 1, 0, 1, 0, 500),), 46, 100, 1000)
    weak = exposures(spec, laplace(2.0**32, 500), 1, key_left)[0]
    most = most_values(weak, 46, 100, key_left)
    assert weak.key.bits < 100 and 0 < most < 500
    for columns, enough in ((most, True), (most + 1, False)):
        narrow = replace(spec, crosses=(Cross(0, 1, 0, 1, 0, columns),))
        left = exposures(narrow, laplace(2.0**32, columns), 1, key_left)[0].key
        assert (left.bits >= 100) is enough


def test_the_default_policy_refuses_the_study_that_was_read_whole() -> None:
    """1,024 levels and 60,000 records: one session of it gave every sealed integer to a cheating multiplier."""
    session = levels_session(1024)
    policy = Policy("hospital", ("shop",), 10.0, Cap(10.0))
    with pytest.raises(PolicyError) as refused:
        policy.check(session)
    assert str(refused.value) == (
        "smallest_key_bits is 100, the plan leaves 0: if shop cheats, the 1,024 opened values of a column of hospital "
        "can tell up to 2,048 of the 2,048 coefficients of its key; at most 89 columns or levels of shop would leave "
        "100 at the same modulus of 2^48; fewer records and a smaller epsilon raise the number too"
    )
    replace(policy, smallest_key_bits=0, largest_bits_told=20_000).check(session)
    # The shop's own column is hidden by rho, of which five sealed columns tell little.
    Policy("shop", ("hospital",), 10.0, Cap(10.0)).check(session)
    policy.check(levels_session(40))


def test_what_no_number_of_records_could_mend_is_refused_before_ids_are_matched() -> None:
    guard = PolicyGuard("hospital", Policy("hospital", ("shop",), 10.0, Cap(10.0)))
    with pytest.raises(PolicyError, match="smallest_key_bits is 100, the plan leaves 0: if shop cheats"):
        guard.foresee(levels_session(1024, rows=2).agreement, 60_000, aligned=True)
    guard.foresee(levels_session(40, rows=2).agreement, 60_000, aligned=True)


def test_other_products_have_no_key_to_spell() -> None:
    for name in ("bgn", "plain"):
        assert levels_session(4, product=name).exposures == ()
    # Opened integers of bgn are searched for within their reach, and tell what that holds above the noise.
    lattice, bgn = levels_session(4).tellings, levels_session(4, product="bgn").tellings
    assert 0 < bgn[0].bits < lattice[0].bits and levels_session(4, product="plain").tellings == ()
