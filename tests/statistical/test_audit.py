"""The audit proves what is there and no more: bounds, pairs, transcripts, views, and the paper's leak."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audit import precision, reconstruction
from audit.studies import MECHANISMS, Mechanism, lean
from audit.survey import grids
from colonnade.audit.bounds import limits, lower_bound
from colonnade.audit.findings import Finding, Stage, attacks, scopes_of
from colonnade.audit.likelihood import Ratio, bare_noise
from colonnade.audit.pairs import exact_vector
from colonnade.audit.transcript import OnePlan, collect
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import View
from colonnade.mechanism.sampling import discrete_laplace
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

pytestmark = pytest.mark.statistical


def test_limits_are_clopper_and_pearsons() -> None:
    low, high = limits(np.array([0, 5, 10]), 10, 0.025)
    # Two-sided 95% limits of 5 in 10, as tabulated: 0.187 and 0.813.
    assert np.allclose(low, [0.0, 0.1871, 0.6915], atol=1e-4)
    assert np.allclose(high, [0.3085, 0.8129, 1.0], atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_bound_comes_near_and_stays_under(epsilon: float) -> None:
    source = Randomness(b"bounds")
    scale = Fraction(1000)
    one, two = (
        discrete_laplace(scale, 40_000, source.child(name)) + shift
        for name, shift in (("D", 0), ("D'", int(1000 * epsilon)))
    )
    proved = lower_bound(one.astype(float), two.astype(float))
    assert 0.8 * epsilon < proved <= epsilon
    # With half the noise the same claim is refuted.
    assert lower_bound(one / 2, two / 2 + 250 * epsilon) > epsilon


def test_equal_samples_prove_nothing() -> None:
    source = Randomness(b"equal")
    one, two = (discrete_laplace(Fraction(50), 5_000, source.child(n)).astype(float) for n in "ab")
    assert lower_bound(one, two) == 0.0
    assert lower_bound(np.zeros(100), np.zeros(100)) == 0.0


def test_delta_is_subtracted() -> None:
    """An event of probability 0.04 that never happens under the neighbour is within delta = 0.05."""
    one, two = np.zeros(10_000), np.zeros(10_000)
    one[::25] = 1.0
    assert lower_bound(one, two, 0.05) == 0.0
    assert lower_bound(one, two, 0.0) > 2.0


MIXED = Schema(
    {
        "a": {"x": Numeric(0, 10), "c": Categorical(("u", "v", "w")), "y": Numeric(-5, 5)},
        "b": {"z": Numeric(-1, 1), "b": Binary(("no", "yes")), "binned": Numeric(0, 9, (3, 6))},
    }
)


@pytest.mark.parametrize(
    "changes", [{}, {"delta": 1e-3}, {"calibration": Calibration.PAPER}], ids=["exact", "gaussian", "paper"]
)
def test_hard_pairs_nearly_spend_what_is_claimed(changes: dict[str, Any]) -> None:
    stage = Stage(Agreement.from_terms("mixed", MIXED, "y", Task.LINEAR, 1.0, **changes))
    base = exact_vector(stage.session, stage.tables[0])
    for i, pair in enumerate(stage.pairs):
        # A party's part is told most of to the other party, which knows its own share of the noise.
        known = () if changes or len(pair.scope) > 1 else tuple(p for p in stage.session.parties if p not in pair.scope)
        ratio = Ratio(stage.session, base, exact_vector(stage.session, stage.tables[i + 1]), known)
        claimed = stage.session.views(pair.scope[0] if len(pair.scope) == 1 else None)[View.COALITION]
        assert claimed is not None
        # Only c = 0 leaves an outsider without spare noise, and the paper claims about twice what it spends.
        assert (0.3 if changes else 0.9) * claimed < ratio.loss() <= claimed * (1 + 1e-6)
        held = {p for p in stage.session.parties if pair.before[p] != pair.after[p]}
        assert held <= set(pair.scope)


def test_a_remembered_plan_is_the_plan() -> None:
    agreement = lean(3, 1)
    planner = OnePlan()
    first = [planner(agreement, 20, bytes([i]) * 32) for i in range(3)]
    again = [plan_session(agreement, 20, bytes([i]) * 32) for i in range(3)]
    assert [s.digest for s in first] == [s.digest for s in again]
    assert [s.spec for s in first] == [s.spec for s in again]
    assert planner(agreement, 20, bytes([2]) * 32) is first[2] and planner(agreement, 21, bytes(32)).rows == 21


@pytest.mark.parametrize("parties", [2, 3])
def test_transcripts_hold_exact_values_and_noise(parties: int) -> None:
    """Less all shares, an opened cross-party value is the exact one up to the lattice's own error."""
    stage = Stage(lean(parties, 1))
    sample = stage.sample(0, 4, Randomness(b"exact"))
    session, exact = stage.session, exact_vector(stage.session, stage.tables[0])
    left = sample.released - sample.shares.sum(axis=1) - exact
    assert np.abs(left[:, session.cross_start :]).max() < 0.05 * session.spec.gain * session.grid.unit
    assert np.abs(sample.shares[:, :, session.cross_start :]).min() >= 0
    assert not sample.shares[:, :, : session.cross_start].any()
    assert (sample.again == sample.again[:, :1]).all()


def test_scopes_and_views_cover_every_promise() -> None:
    session = plan_session(lean(5, 2), 20, bytes(32))
    scopes = list(scopes_of(session.parties, 2))
    assert scopes[0] == session.parties and ("p0",) in scopes and ("p1",) in scopes
    views = {(name, len(known)) for scope in scopes for name, known, _, _ in attacks(session, scope)}
    expected = {("outsider", 0), ("server", 0), ("party", 1), ("server and 1", 1), ("server and 2", 2)}
    assert expected | {("server that asks again", 0), ("server, run cut short", 0)} == views
    for scope in scopes:
        for _, known, _, _ in attacks(session, scope):
            assert not set(known) & set(scope)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize(("parties", "collusion"), [(2, 0), (2, 1), (3, 2)])
def test_no_view_is_broken(mechanism: Mechanism, parties: int, collusion: int) -> None:
    """A bounded form of `make audit`: few sessions on each data set, and noise without sessions."""
    stage = Stage(lean(parties, collusion, **mechanism.changes))
    source = Randomness(b"views").child(f"{mechanism.name} {parties} {collusion}")
    samples = [stage.sample(i, 30 if parties == 2 else 12, source.child(str(i))) for i in range(len(stage.tables))]
    findings = stage.findings(samples, 150_000, source.child("draws"))
    assert not [f for f in findings if f.broken]
    assert {f.view for f in findings} >= {"outsider", "server", "server that asks again", "server, run cut short"}
    alike = [f.alike for f in findings if f.alike is not None]
    assert min(alike) > 1e-4
    best = max(f.drawn / f.claimed for f in findings if f.drawn and f.claimed)
    assert best > (0.4 if mechanism.name.startswith("paper") else 0.6)


def test_no_claim_is_made_where_none_would_hold() -> None:
    """With c = 0 and Laplace noise a party's view has no epsilon, and the audit shows why."""
    stage = Stage(lean(2, 0), scopes=[("p0",)])
    samples = [stage.sample(i, 8, Randomness(b"none").child(str(i))) for i in (0, 1)]
    party = next(f for f in stage.findings(samples, 400_000, Randomness(b"none")) if f.view == "party")
    assert party.claimed is None and not party.broken
    assert party.drawn is not None and party.drawn > stage.session.plan.epsilon


def test_bare_noise_has_as_many_shares_as_asked() -> None:
    session = plan_session(lean(3, 1), 20, bytes(32))
    noise = bare_noise(session, [("p0",), ()], 20_000, Randomness(b"bare"))
    crossed = slice(session.cross_start, None)
    two, three = (noise[known][:, crossed].std(axis=0) for known in (("p0",), ()))
    assert np.allclose(three / two, np.sqrt(3 / 2), rtol=0.06)
    own = slice(0, session.cross_start)
    assert np.array_equal(noise[("p0",)][:, own], noise[()][:, own])


def test_broken_and_tight_by_definition() -> None:
    held = Finding("server", ("p0",), (), 1.0, 1.0, 0.5, 10, 0.9)
    assert not held.broken and held.tightness == pytest.approx(0.9)
    assert Finding("server", ("p0",), (), 1.0, 1.0, 1.1, 10).broken
    assert Finding("server", ("p0",), (), 1.0, 1.1, 0.1, 10).broken
    assert not Finding("party", ("p0",), (), None, np.inf, 9.0, 10).broken


def test_paper_leaks_a_column_and_we_do_not() -> None:
    paper = reconstruction.against_paper(16, 1.0, 3)
    ours = reconstruction.against_ours(16, 1.0, 3, Randomness(b"column"))
    assert paper.error < 1e-6 and paper.signs == 1.0
    assert ours.error > 0.8 and ours.signs < 0.9
    # The attack itself works: it succeeds where the noise is switched off, in effect.
    open_handed = reconstruction.against_ours(16, 1e6, 3, Randomness(b"column"))
    assert open_handed.error < 0.1


def test_membership_stays_under_its_bound() -> None:
    found = reconstruction.membership(2.0, 4, 20, Randomness(b"membership"))
    assert found.least <= found.bound
    assert -0.5 < found.advantage < found.bound


def test_precision_attack_sees_through_floats_and_not_through_integers() -> None:
    own, other = precision.gaps(4.0, 1.0, Randomness(b"floats").words(5_000))
    assert own == 0.0 and other > 0.3
    assert precision.off_grid(discrete_laplace(Fraction(4), 5_000, Randomness(b"integers"))) == 0.0
    assert precision.off_grid(np.array([0.5, 1.0])) == 0.5


def test_released_values_lie_on_the_grid() -> None:
    found = grids(2, Randomness(b"grids"))
    assert found.values > 30 and found.off == 0 and found.impossible == 0.0


def test_samples_are_repeatable_by_seed() -> None:
    stage = Stage(lean(2), scopes=[("p0", "p1")])
    one, two = (collect(stage.agreement, stage.tables[0], 2, Randomness(b"same")) for _ in range(2))
    assert np.array_equal(one.submitted, two.submitted)
