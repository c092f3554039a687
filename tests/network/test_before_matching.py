"""Before ids are matched: what is refused anyway is refused then, and each matching is noted and limited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard, PolicyGuard, foresee
from colonnade.consent.policy import Policy
from colonnade.foundation.errors import LedgerError, PolicyError
from colonnade.foundation.matching import HYBRID
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.composition import Cap, charge_of
from colonnade.mechanism.objective import Task
from colonnade.mechanism.plan import View
from colonnade.mechanism.release import write_release
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.messages import Done, ParcelBody, Step, body_of
from colonnade.study import StudySpec
from colonnade.transport.relay import Relay
from tests.helpers.wires import PARTIES, Run, Wire, guard, message_in, run, write_study


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path)


def ruled(folder: Path, name: str = "bank", total: float = 50.0, **rules: Any) -> dict[str, ConsentGuard]:
    """Everybody's guard, one of them with further rules."""
    guards = {party: guard(folder, party, total=total if party == name else 1e6) for party in PARTIES}
    guards[name].policy = replace(guards[name].policy, **rules)
    return guards


def kinds(kept: ConsentGuard) -> list[EntryKind]:
    """What its book has beside sessions that failed."""
    return [line.kind for line in kept.ledger.lines() if line.kind is not EntryKind.FAILED]


def watched(seen: list[tuple[str, str]], guards: dict[str, ConsentGuard] | None = None) -> Callable[[Relay], Wire]:
    """A wire that keeps what each party sends of an alignment, and what its book says at that moment."""

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            message = message_in(data)
            if message is not None and message.step in (Step.PARCEL, Step.DONE) and not message.plan:
                body = body_of(message, ParcelBody) if message.step is Step.PARCEL else body_of(message, Done)
                seen.append((name, body.round))
                if guards is not None:
                    assert [line.kind for line in guards[name].ledger.lines()] == [EntryKind.ALIGNED], name
            return relay.handle(name, data)

        return carry

    return wire


def refused(out: Run, says: str, code: str, step: str) -> None:
    assert not out.releases
    assert out.sentence("bank").startswith("bank refuses: ") and says in out.sentence("bank"), out.sentence("bank")
    assert out.sentence("bank").endswith("; nothing is spent")
    for other in ("works", "town"):
        told = out.sentence(other)
        assert told.startswith(f"the session ended at bank ({code})") and "nothing is spent" in told, told
        assert f"it was at step {step};" in told and says not in told, told


@pytest.mark.parametrize(
    ("rules", "says", "code", "step"),
    [
        ({"partners": ("works",)}, "partners allows works, the session has town", "policy", "wait"),
        ({"labels": ("works.hours",)}, "labels allows works.hours, the session has works.pay", "policy", "wait"),
        ({"columns": ("debts",)}, "columns allows debts, the session has savings", "policy", "wait"),
        ({"tasks": ("logistic",)}, "tasks allows logistic, the session has linear", "policy", "wait"),
        ({"products": ("bgn",)}, "products allows bgn, the session has lattice", "policy", "wait"),
        ({"calibrations": ("paper",)}, "calibrations allows paper, the session has exact", "policy", "wait"),
        ({"smallest_collusion": 2}, "smallest_collusion is 2, the plan has 1", "policy", "wait"),
        ({"smallest_rows": 58}, "smallest_rows is 58, bank itself has n=57", "policy", "read"),
        ({"epsilon": 0.5}, "session.epsilon is at most 0.5, the plan has ", "policy", "read"),
        ({"cap": Cap(0.25)}, "may spend at most epsilon=0.25 in total, this session alone asks", "budget", "read"),
        ({"largest_alignments": 0}, "largest_alignments is 0", "policy", "wait"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_no_n_makes_right_is_refused_before_ids_are_matched(
    study: StudySpec, tmp_path: Path, rules: dict[str, Any], says: str, code: str, step: str
) -> None:
    guards, seen = ruled(tmp_path, **rules), list[tuple[str, str]]()
    refused(run(study, tmp_path, guards=guards, wire=watched(seen)), says, code, step)
    # Not even a greeting was sent, by anybody; a book may say that the session failed, and nothing else.
    assert not seen and not any(kinds(kept) for kept in guards.values())


def test_a_view_without_a_guarantee_is_refused_before_ids_are_matched(study: StudySpec, tmp_path: Path) -> None:
    alone = replace(study, agreement=replace(study.agreement, collusion=0))
    guards, seen = ruled(tmp_path, smallest_collusion=0), list[tuple[str, str]]()
    for name in ("works", "town"):
        guards[name].policy = replace(guards[name].policy, smallest_collusion=0, views=(View.OUTSIDER,))
    out = run(alone, tmp_path, guards=guards, wire=watched(seen))
    refused(out, "views asks for a guarantee against party, the plan has none", "policy", "read")
    assert not seen


def test_a_simulation_goes_by_its_policy_too(study: StudySpec, tmp_path: Path) -> None:
    guards, seen = ruled(tmp_path, labels=("works.hours",)), list[tuple[str, str]]()
    policies = {name: PolicyGuard(name, kept.policy) for name, kept in guards.items()}
    out = run(study, tmp_path, b"seed", guards=policies, wire=watched(seen))
    refused(out, "labels allows works.hours", "policy", "wait")
    assert not seen


def test_a_matching_is_noted_before_its_first_parcel_leaves(study: StudySpec, tmp_path: Path) -> None:
    guards, seen = ruled(tmp_path, require_approval=True), list[tuple[str, str]]()
    out = run(study, tmp_path, guards=guards, wire=watched(seen, guards))
    # The plan is known after the matching: what a person is asked to approve has its number of records and its price.
    plan = study.session(55)
    charge = charge_of(plan.plan, "bank").epsilon
    says = (
        f"bank refuses: require_approval is set and nobody approved the plan {plan.terms}; bank: study pay with n=55 "
        f"would spend epsilon={charge:.6g} of data set bank.csv, 0 of 50 is spent; a partner that breaks "
    )
    assert out.sentence("bank").startswith(says) and out.sentence("bank").endswith("; nothing is spent")
    assert {name for name, _ in seen} == set(PARTIES)
    note, failed = guards["bank"].ledger.lines()
    assert failed.kind is EntryKind.FAILED
    assert note.kind is EntryKind.ALIGNED and note.to()["partners"] == ["works", "town"]
    assert (note.to()["study"], note.data.name) == ("pay", "bank.csv")


def test_a_list_that_could_test_too_many_ids_is_refused_after_the_greetings(study: StudySpec, tmp_path: Path) -> None:
    """57 ids at the bank, 60 at works: tables of 3 x (26 + 32) + 64 slots."""
    guards, seen = ruled(tmp_path, largest_list=237), list[tuple[str, str]]()
    out = run(study, tmp_path, guards=guards, wire=watched(seen))
    refused(out, "largest_list is 237, works could test 238 ids", "policy", "align")
    # Another party may have sent its base transfers by then; the bank, and all that depends on ids, stays at home.
    assert {round for _, round in seen} <= {"greet", "choose"}
    assert {round for name, round in seen if name == "bank"} == {"greet"}
    out = run(study, tmp_path, guards=ruled(tmp_path, largest_list=238))
    assert set(out.releases) == set(PARTIES), out.errors


def test_hybrid_matching_is_a_term_of_the_study(study: StudySpec, tmp_path: Path) -> None:
    hybrid = replace(study, alignment=HYBRID)
    out = run(hybrid, tmp_path, b"seed")
    assert set(out.releases) == set(PARTIES), out.errors
    # The rows are those of the study without it, so that a seeded release is the same.
    plain = run(study, tmp_path, b"seed")
    assert {write_release(r) for r in out.releases.values()} == {write_release(r) for r in plain.releases.values()}
    other = run(study, tmp_path, b"seed", studies={"bank": hybrid})
    assert "its study file states other terms than the server's" in other.sentence("bank")


def test_matchings_are_counted_for_each_data_set(study: StudySpec, tmp_path: Path) -> None:
    for _ in range(2):
        assert "nobody approved" in run(
            study, tmp_path, guards=ruled(tmp_path, require_approval=True, largest_alignments=2)
        ).sentence("bank")
    seen = list[tuple[str, str]]()
    again = ruled(tmp_path, largest_alignments=2)
    out = run(study, tmp_path, guards=again, wire=watched(seen))
    refused(out, "largest_alignments is 2, and the ids of data set bank.csv were matched 2 times", "policy", "wait")
    assert not seen and kinds(again["works"]) == [EntryKind.ALIGNED] * 2
    out = run(study, tmp_path, guards=ruled(tmp_path, largest_alignments=3))
    assert set(out.releases) == set(PARTIES), out.errors


def test_a_ledger_that_cannot_be_written_is_noticed_before_anything(study: StudySpec, tmp_path: Path) -> None:
    guards, seen = ruled(tmp_path), list[tuple[str, str]]()
    guards["bank"].ledger.path = Path("/proc/l.sqlite")
    out = run(study, tmp_path, guards=guards, wire=watched(seen))
    refused(out, "ledger l.sqlite cannot be used", "budget", "wait")
    assert not seen


MIXED = Agreement.from_terms(
    name="mixed",
    schema=Schema(
        {
            "a": {"x": Categorical(tuple("pqrst")), "u": Categorical(tuple("pqr")), "y": Numeric(0, 1)},
            "b": {"v": Categorical(tuple("pqrs"))},
        }
    ),
    label="a.y",
    task=Task.LINEAR,
    epsilon=1.0,
    product="lattice",
)


def test_a_charge_that_falls_with_n_is_not_refused_too_early() -> None:
    """The price depends on n: what a smaller n makes right is left to be judged once n is known."""
    rows = 1_000_000
    prices = {n: charge_of(plan_session(MIXED, n, bytes(32)).plan, "b").epsilon for n in (100, rows)}
    assert prices[100] < 0.99 * prices[rows]
    between = (prices[100] + prices[rows]) / 2

    def ask(limit: float, total: float = 9.0, aligned: bool = True) -> None:
        foresee(Policy("b", ("a",), limit, Cap(9.0)), "b", MIXED, rows, aligned, lambda _, charge: room(charge, total))

    def room(charge: Any, total: float) -> None:
        if charge.epsilon > total:
            raise LedgerError(f"no room for {charge.epsilon:.10g}")

    ask(9.0)
    ask(between)
    ask(9.0, between)
    with pytest.raises(PolicyError, match=rf"session\.epsilon is at most .*, the plan has {prices[rows]:.10g}"):
        ask(0.9 * prices[100])
    # The sentence has the price as it is, and not as it was lowered for the comparison.
    with pytest.raises(LedgerError, match=f"no room for {prices[rows]:.10g}"):
        ask(9.0, 0.9 * prices[100])
    # Where rows match as they stand, n is known.
    with pytest.raises(PolicyError, match=r"session\.epsilon is at most"):
        ask(between, aligned=False)
