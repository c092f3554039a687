"""Who guards a party's data: by policy alone, by policy and ledger, or nobody, and then by that name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colonnade.consent.entries import DataSet, EntryKind, Note
from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import Policy
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, StudyError
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.objective import Task
from colonnade.planning.prediction import Prediction
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.tasks import Guard, Unguarded
from colonnade.runs import predict_guarded, run_guarded
from tests.helpers.sessions import agreement_of, people_of, tables_of

AGREEMENT = agreement_of(2, product="lattice")
POLICY = Policy("p0", ("p1",), 1.0, Cap(3.0), smallest_rows=10)
DATA = DataSet("p0.csv", "d" * 64)
IDENTITY = bytes(range(32))


def guard(folder: Path, policy: Policy = POLICY, **more: Any) -> ConsentGuard:
    return ConsentGuard("p0", policy, Ledger(folder / "p0.ledger"), DATA, **more)


def planned(identity: bytes = IDENTITY, **changes: Any) -> SessionPlan:
    return plan_session(AGREEMENT.with_terms(**changes), 60, identity)


def kinds(of: ConsentGuard) -> list[EntryKind]:
    return [entry.kind for entry in of.ledger.entries()]


@pytest.mark.parametrize("changes", [{"epsilon": 2.0}, {"task": Task.LINEAR, "product": "plain"}])
def test_a_policy_alone_judges_terms_foresees_and_consents(changes: dict[str, Any]) -> None:
    alone = PolicyGuard("p0", POLICY)
    alone.judge(AGREEMENT, True)
    alone.foresee(AGREEMENT, 60, True)
    alone.consent(planned())
    agreement = AGREEMENT.with_terms(**changes)
    with pytest.raises(PolicyError):
        alone.foresee(agreement, 60, True)
    with pytest.raises(PolicyError):
        alone.consent(planned(**changes))


def test_a_policy_alone_judges_what_the_terms_decide() -> None:
    with pytest.raises(PolicyError, match="partners"):
        PolicyGuard("p0", replace(POLICY, partners=("bank",))).judge(AGREEMENT, False)
    with pytest.raises(PolicyError, match="smallest_rows"):
        PolicyGuard("p0", replace(POLICY, smallest_rows=100)).foresee(AGREEMENT, 60, True)


def test_a_policy_alone_books_nothing() -> None:
    alone = PolicyGuard("p0", replace(POLICY, largest_list=7))
    assert alone.largest_list == 7 and alone.pending("small") == []
    alone.settle({"ab": "void"})
    alone.align("ab", "small", ["p0", "p1"])
    alone.book(planned())
    alone.release()
    alone.void("over")
    prediction = Prediction("0" * 64, "p1", AGREEMENT.schema.parties)
    for ask in (lambda: alone.foresee_scores(prediction, True), lambda: alone.consent_scores(prediction, 60)):
        with pytest.raises(PolicyError, match="scores_to"):
            ask()


def test_a_guard_judges_policy_ledger_and_matchings(tmp_path: Path) -> None:
    guard(tmp_path).judge(AGREEMENT, True)
    with pytest.raises(PolicyError, match="partners"):
        guard(tmp_path, replace(POLICY, partners=("bank",))).judge(AGREEMENT, False)
    once = guard(tmp_path, replace(POLICY, largest_alignments=1))
    once.align("ab", "small", ["p0", "p1"])
    with pytest.raises(PolicyError, match="largest_alignments"):
        once.judge(AGREEMENT, True)
    # Where no ids are matched the number of matchings does not count.
    once.judge(AGREEMENT, False)
    assert once.ledger.entries() == []


def test_a_guard_whose_ledger_cannot_be_written_judges_nothing_good(tmp_path: Path) -> None:
    (tmp_path / "p0.ledger").write_text("no ledger at all, and long enough to be looked at as one" * 20)
    with pytest.raises(LedgerError):
        guard(tmp_path).judge(AGREEMENT, False)


def test_what_was_booked_is_pending_until_it_is_settled(tmp_path: Path) -> None:
    own = guard(tmp_path)
    sessions = [bytes([k]) * 32 for k in range(3)]
    for identity in sessions:
        guard(tmp_path, replace(POLICY, cap=Cap(9.0))).book(planned(identity))
    names = [identity.hex() for identity in sessions]
    assert own.pending("small") == names
    # Other studies, and other parties who share the file, are not told of.
    assert own.pending("other") == []
    assert replace(own, party="p1").pending("small") == []
    own.settle({names[0]: "void", names[1]: "opened", names[2]: "who knows"})
    assert own.pending("small") == [names[2]]
    last = {entry.booking.session: entry for entry in own.ledger.entries()}
    assert (last[names[0]].kind, last[names[1]].kind) == (EntryKind.VOID, EntryKind.RELEASED)
    assert "the server says" in (last[names[0]].reason or "")
    assert own.spent().sessions == 2


def test_a_word_about_a_session_that_was_never_booked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="was never booked"):
        guard(tmp_path).settle({"ab" * 32: "void"})


@pytest.mark.parametrize("end", ["release", "void"])
def test_a_booking_is_settled_by_how_it_ended(tmp_path: Path, end: str) -> None:
    own = guard(tmp_path)
    own.release()
    own.void("nothing was booked")
    assert kinds(own) == []
    own.book(planned())
    own.release() if end == "release" else own.void("the session ended")
    assert kinds(own) == [EntryKind.BOOKED, EntryKind.RELEASED if end == "release" else EntryKind.VOID]
    with pytest.raises(LedgerError):
        guard(tmp_path).book(planned())


def test_consent_spends_nothing_and_asks_a_person(tmp_path: Path) -> None:
    asked: list[str] = []

    def no(summary: str) -> bool:
        asked.append(summary)
        return False

    careful = guard(tmp_path, replace(POLICY, require_approval=True), ask=no)
    with pytest.raises(PolicyError):
        careful.consent(planned())
    assert len(asked) == 1 and "would spend epsilon=" in asked[0] and kinds(careful) == []
    guard(tmp_path, replace(POLICY, require_approval=True), approved=[planned().terms]).consent(planned())


def test_nobody_is_without_a_guard_but_by_name() -> None:
    agreement = agreement_of(2)
    with pytest.raises(StudyError, match="every party needs a guard, or Unguarded by name, got none for p1"):
        run_guarded(agreement, tables_of(agreement), {"p0": Unguarded()}, "none")
    open_to_all: dict[str, Guard] = {"p0": Unguarded(), "p1": Unguarded()}
    assert run_guarded(agreement, tables_of(agreement), open_to_all, "none").release.n == 60


def test_a_prediction_needs_a_guard_for_every_party() -> None:
    agreement = agreement_of(2)
    prediction = Prediction("0" * 64, "p1", agreement.schema.parties)
    with pytest.raises(StudyError, match="every party needs a guard, or Unguarded by name, got none for p1"):
        predict_guarded(None, prediction, {}, {"p0": Unguarded()})  # type: ignore[arg-type]


def test_guards_of_all_parties_book_and_note_one_matching(tmp_path: Path) -> None:
    agreement = agreement_of(2, product="lattice")
    guards = {
        name: ConsentGuard(
            name,
            Policy(name, ("*",), 5.0, Cap(9.0)),
            Ledger(tmp_path / name),
            DataSet(f"{name}.csv", name[1] * 64),
        )
        for name in agreement.schema.names
    }
    outcome = run_guarded(agreement, people_of(tables_of(agreement)), guards)
    assert outcome.release.n == 59
    for own in guards.values():
        assert kinds(own) == [EntryKind.BOOKED, EntryKind.RELEASED]
        assert own.pending("small") == []
        assert [n.alignment.session for n in own.ledger.lines() if isinstance(n, Note)] == [
            outcome.session.identity.hex()
        ]
    with pytest.raises(ColonnadeError):
        guards["p0"].book(outcome.session)
