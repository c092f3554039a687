"""Consent at its edges, without a server: what a book's file says it is, which numbers of records are foreseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.consent import guard
from colonnade.consent.entries import Booking, DataSet
from colonnade.consent.guard import ConsentGuard, PolicyGuard, _lowered, foresee
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import Approvals, Policy, check_approvals, policy_from, read_policy
from colonnade.consent.shared_ledger import SharedLedger
from colonnade.foundation.errors import LedgerError, PolicyError
from colonnade.mechanism.composition import Cap, Charge
from colonnade.planning.prediction import Prediction
from colonnade.planning.session_plan import SessionPlan, plan_session
from tests.helpers.sessions import agreement_of

POLICY = Policy("p0", ("p1",), 1.0, Cap(3.0), smallest_rows=30)
AGREEMENT = agreement_of(2, product="lattice")


def booking(session: str, data: DataSet) -> Booking:
    return Booking(session, "p0", "small", "a" * 64, data, Charge(0.5, 0.0, 0.1), 0.5)


def test_a_books_file_says_whose_it_is(tmp_path: Path) -> None:
    """SQLite's header: the version of its user at bytes 60 to 63, the application at 68 to 71."""
    Ledger(tmp_path / "p0.ledger").book(booking("ab", DataSet("a.csv", "d" * 64)), Cap(1.0))
    header = (tmp_path / "p0.ledger").read_bytes()[:100]
    assert header[68:72] == b"Colo" and int.from_bytes(header[60:64], "big") == 3


def test_a_renamed_copy_and_an_edited_file_are_the_same_peoples_data(tmp_path: Path) -> None:
    book, cap = Ledger(tmp_path / "p0.ledger"), Cap(2.0)
    one, copy, edited = (DataSet(n, d * 64) for n, d in (("a.csv", "d"), ("b.csv", "d"), ("b.csv", "e")))
    for session, data in (("ab", one), ("cd", copy), ("ef", edited)):
        book.book(booking(session, data), cap)
    assert [book.spent(data, cap).sessions for data in (one, copy, edited, DataSet("a.csv", "f" * 64))] == [3] * 4
    assert book.spent(DataSet("c.csv", "f" * 64), cap).sessions == 0


def test_approvals_are_files_that_are_used_up(tmp_path: Path) -> None:
    left = Approvals(tmp_path)
    left.leave("AB" * 10)
    assert left.waiting() == ["ab" * 10] and (tmp_path / "approved").stat().st_mode & 0o777 == 0o700
    assert not left.take("cd" * 32) and left.take("ab" * 32) and not left.take("ab" * 32)
    left.leave("ef" * 10)
    left.withdraw("EF" * 10)
    with pytest.raises(PolicyError):
        left.withdraw("ef" * 10)


def test_only_a_digest_approves_or_is_withdrawn(tmp_path: Path) -> None:
    ledger, plan = tmp_path / "ledger.sqlite", "4" + "e" * 63
    ledger.write_bytes(b"what was spent")
    left = Approvals(tmp_path)
    for wrong in ("../ledger.sqlite", str(ledger), "4", "", plan[:15], plan + "4", "\u0664" * 16, plan[:16] + "\n"):
        for change in (left.leave, left.withdraw):
            with pytest.raises(PolicyError, match="an approval must"):
                change(wrong)
    assert ledger.read_bytes() == b"what was spent" and not (tmp_path / "approved").exists()
    for name in ("4", plan[:15], ".DS_Store"):
        left._place.mkdir(exist_ok=True)
        (left._place / name).touch()
    (left._place / plan[:17]).mkdir()
    assert left.waiting() == [] and not left.take(plan)
    left.leave(plan[:16])
    assert left.waiting() == [plan[:16]] and left.take(plan) and not left.take(plan)


@pytest.mark.parametrize(
    "text", ["x days", "-1 days", "1.5 days", "1_0 days", "\u0663 days", "0 days", "100000 days", "5"]
)
def test_days_of_evidence(text: str) -> None:
    policy: dict[str, Any] = {"party": "p0", "partners": ["p1"], "keep_evidence": text}
    content = {"policy": policy, "session": {"epsilon": 1.0}, "total": {"epsilon": 1.0}}
    with pytest.raises(PolicyError):
        policy_from(content)
    for good, days in (("1 day", 1), ("90 days", 90), ("99999 days", 99999)):
        policy["keep_evidence"] = good
        assert policy_from(content).evidence_days == days


def test_who_has_no_column_of_a_release_has_none_of_its_products() -> None:
    none = replace(POLICY, largest_owners=0, largest_degree=0)
    none._check_products(plan_session(AGREEMENT, 60, bytes(32)).plan, "somebody else")
    with pytest.raises(PolicyError):
        replace(none, largest_degree=9)._check_products(plan_session(AGREEMENT, 60, bytes(32)).plan, "p0")
    # Sums have one factor, products two: the most of them counts.
    replace(POLICY, largest_degree=2)._check_products(plan_session(AGREEMENT, 60, bytes(32)).plan, "p0")
    with pytest.raises(PolicyError):
        replace(POLICY, largest_degree=1)._check_products(plan_session(AGREEMENT, 60, bytes(32)).plan, "p0")


def test_of_several_keys_the_worst_is_judged() -> None:
    def exposed(*bits: int) -> Any:
        keys = [
            SimpleNamespace(partner=p, key=SimpleNamespace(bits=b), tell=str) for p, b in zip("AAB", bits, strict=True)
        ]
        return SimpleNamespace(exposures=keys, tellings=(), leave_bits=lambda exposure, least: f"{exposure.key.bits}")

    strict = replace(POLICY, smallest_key_bits=100)
    strict.check_keys(exposed(150, 100, 1), "A")
    with pytest.raises(PolicyError):
        strict.check_keys(exposed(150, 99, 1), "A")


def test_a_charge_is_lowered_by_a_share_and_its_rho_by_both_factors() -> None:
    assert _lowered(Charge(1.0, 1e-6, 0.5), 0.25) == Charge(0.75, 1e-6, 0.28125)
    assert _lowered(Charge(1.0, 1e-6, None, 0.5), 0.25) == Charge(0.75, 1e-6, None, 0.28125)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of records that a plan was made for."""
    found: list[int] = []

    def noted(agreement: Any, rows: int, identity: bytes) -> SessionPlan:
        found.append(rows)
        return plan_session(agreement, 60, identity)

    monkeypatch.setattr(guard, "plan_session", noted)
    return found


@pytest.mark.parametrize(("aligned", "rows"), [(True, [5000, 500, 50, 30]), (False, [5000])])
def test_numbers_of_records_that_are_foreseen(aligned: bool, rows: list[int], tried: list[int]) -> None:
    """A tenth each time, down to what the policy takes; told is the charge of the first, as it stands."""
    asked: list[float] = []

    def full(session: SessionPlan, charge: Charge) -> None:
        asked.append(charge.epsilon)
        raise LedgerError(f"{len(asked)}: {charge.epsilon}")

    with pytest.raises(LedgerError) as refusal:
        foresee(POLICY, "p0", AGREEMENT, 5000, aligned, full)
    assert tried == rows
    whole = max(asked)
    assert str(refusal.value) == f"2: {whole}"
    assert min(asked) == pytest.approx(whole * (0.99 if aligned else 1.0), rel=1e-12)


def test_one_number_of_records_that_passes_is_enough(tried: list[int]) -> None:
    PolicyGuard("p0", POLICY).foresee(AGREEMENT, 5000, True)
    assert tried == [5000]


class Stub:
    """A connection to a database that answers as it is told."""

    def __init__(self, comment: str | None, settings: str = "on") -> None:
        self.comment, self.settings, self.asked = comment, settings, ""

    def execute(self, asked: str, *values: Any) -> Stub:
        self.asked = asked
        return self

    def fetchone(self) -> tuple[Any, ...]:
        return (self.settings,) if self.asked.startswith("SHOW") else (self.comment, self.comment is not None)

    def close(self) -> None: ...


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Stub], SharedLedger]:
    """The ledger of a file that names a database, and what its connections are."""
    driver = pytest.importorskip("psycopg", reason="the extra sql is not installed")
    (tmp_path / "book.toml").write_text('[ledger]\npostgres = "host=/tmp dbname=colonnade"\n')

    def book(stub: Stub) -> SharedLedger:
        monkeypatch.setattr(driver, "connect", lambda *_, **__: stub)
        return SharedLedger(tmp_path / "book.toml")

    return book


def test_a_table_of_this_version_or_the_one_before_is_read(database: Callable[[Stub], SharedLedger]) -> None:
    assert not database(Stub(None)).exists
    for version, read in ((1, False), (2, True), (3, True), (4, False)):
        book = database(Stub(f"colonnade ledger, version {version}"))
        if read:
            assert book.exists and book._application(Stub(f"colonnade ledger, version {version}")) == version
        else:
            with pytest.raises(LedgerError):
                _ = book.exists
    with pytest.raises(LedgerError):
        _ = database(Stub("somebody's table")).exists


def test_a_database_that_may_lose_what_it_committed_is_refused(database: Callable[[Stub], SharedLedger]) -> None:
    with pytest.raises(LedgerError):
        _ = database(Stub(None, settings="off")).exists


def test_a_booking_says_what_could_be_told_where_that_is_anything() -> None:
    plain = booking("ab", DataSet("a.csv", "d" * 64))
    assert "bits_told" not in plain.to() and "zcdp" not in plain.to()["charge"]
    assert replace(plain, bits_told=5).to()["bits_told"] == 5


def test_approvals_have_16_characters_of_a_digest() -> None:
    check_approvals(["0123456789abcdef", "F" * 64])
    for given in ("0123456789abcde", "0123456789abcdeg", "f" * 65):
        with pytest.raises(PolicyError):
            check_approvals([given])


def test_a_policy_is_no_longer_than_a_megabyte(tmp_path: Path) -> None:
    text = '[policy]\nparty = "a"\npartners = ["*"]\n[session]\nepsilon = 1\n[total]\nepsilon = 1\n#'
    path = tmp_path / "policy.toml"
    path.write_text(text + " " * ((1 << 20) - len(text)))
    assert read_policy(path).party == "a"
    path.write_text(text + " " * ((1 << 20) - len(text) + 1))
    with pytest.raises(PolicyError):
        read_policy(path)


@pytest.mark.parametrize(("scores", "told"), [(1, "n=60 records by"), (3, "n=60 records, 3 of each, by")])
def test_a_person_is_told_how_many_scores_are_opened(scores: int, told: str, tmp_path: Path) -> None:
    """A sentence that a person approves."""
    asked: list[str] = []
    policy = replace(POLICY, scores_to=("p1",), require_approval=True)
    prediction = Prediction("0" * 64, "p1", AGREEMENT.schema.parties, scores=scores)
    ledger, data = Ledger(tmp_path / "p0.ledger"), DataSet("a.csv", "d" * 64)
    ConsentGuard("p0", policy, ledger, data, ask=lambda text: not asked.append(text)).consent_scores(prediction, 60)
    assert len(asked) == 1 and told in asked[0]
