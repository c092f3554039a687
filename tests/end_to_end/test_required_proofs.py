"""Studies that require proofs: accountable runs, their audits, and what is left when a party's proof fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from colonnade.audit.session import AuditOutcome, SessionAudit, audit_session
from colonnade.consent.guard import ConsentGuard
from colonnade.crypto.product import PartyProduct
from colonnade.crypto.ranges.party import ROUNDS
from colonnade.foundation.errors import PolicyError, ProofError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.planning.agreement import Agreement
from colonnade.planning.proofs import DEVIATES, promise_of
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.study import StudySpec, read_study
from colonnade.transport.evidence import EvidenceFolder, KeptEvidence, read_key
from colonnade.transport.in_process import InProcess
from tests.helpers.accounts import SharedSigner
from tests.helpers.cli_study import runner
from tests.helpers.proven import changing, spell_a_key
from tests.helpers.wires import PARTIES, guard, unmatched, write_study


def requiring(folder: Path, value: str = "required") -> StudySpec:
    """The study of three parties, with this word about proofs."""
    write_study(folder)
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('product = "lattice"', f'product = "lattice"\nproofs = "{value}"'))
    return read_study(path)


def task_of(study: StudySpec, name: str) -> FitParty:
    source = partial(study.sources[name].read, name, study.agreement.schema.parties[name], matched=False)
    return FitParty(name, study.agreement, study.alignment, source, Unguarded())


def carried(
    study: StudySpec, folder: Path, kinds: Mapping[str, type[PartyProduct]], guards: Mapping[str, ConsentGuard]
) -> tuple[FitServer, dict[str, PartyRole], dict[str, KeptEvidence], Mapping[str, bytes]]:
    """An accountable, signed session in this process, ended well or refused; its roles and what each has kept."""
    key, roles, kept = read_key(folder / "key", make=True), {}, {}
    for name in PARTIES:
        task = task_of(study, name)
        task.guard = guards.get(name, task.guard)
        if name in kinds:
            task.product = lambda session, workers, kind=kinds[name]: kind
        kept[name] = EvidenceFolder(folder / "kept" / name, key, {"party": name, "terms": task.terms})
        roles[name] = PartyRole(task, Randomness(), SharedSigner(name), account=SessionAccount(kept[name]))
    server = FitServer(study.agreement, study.alignment)
    try:
        InProcess(ServerRole(server, Randomness(), accountable=True), roles).carry()
    finally:
        places = {name: folder.place for name, folder in kept.items()}
        evidence = {name: KeptEvidence.read(place) for name, place in places.items() if place is not None}
    return server, roles, evidence, key


def audited(study: StudySpec, evidence: Mapping[str, KeptEvidence], name: str, key: bytes) -> SessionAudit:
    mine, task = evidence[name], task_of(study, name)
    return audit_session(
        mine, mine.opening(key), task, [evidence[p] for p in PARTIES if p != name], checker=SharedSigner("auditor")
    )


def test_a_study_says_that_it_requires_proofs(tmp_path: Path) -> None:
    study = requiring(tmp_path)
    assert study.agreement.proofs == "required" and Agreement.of(study.agreement.to()) == study.agreement
    session = study.session(60)
    assert session.proved and promise_of(session) == DEVIATES
    assert "proofs" not in write_study(tmp_path).agreement.to()
    with pytest.raises(StudyError, match=r"proofs must be (one of )?.*required.*where they fit"):
        requiring(tmp_path, "always")


def test_the_command_line_says_which_promise_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    requiring(tmp_path)
    run, promise = runner(monkeypatch, capfd), "The epsilons hold against parties that deviate from the protocol"
    shown = run("plan", tmp_path / "study.toml", "--rows", "60", "--full")
    assert shown.code == 0 and promise in " ".join(shown.out.split()), shown.err
    told = json.loads(run("plan", tmp_path / "study.toml", "--rows", "60", "--json").out)
    assert told["promise"].endswith(DEVIATES) and told["if_a_party_cheats"] == []
    assert told["if_a_partner_breaks_the_protocol"] is None
    page = tmp_path / "page.html"
    assert run("plan", tmp_path / "study.toml", "--rows", "60", "--html", page).code == 0
    text = page.read_text()
    assert "holds against 1 party that breaks the protocol" in text
    assert "not against those who break the protocol" not in text
    done = run("fit", tmp_path / "study.toml", "--out", tmp_path / "release.json", "--force")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "release.json").read_text())["plan"]["promise"].endswith(DEVIATES)
    # An evaluation of its models would have no proofs: it is refused, and where they need not be it says so.
    assert run("solve", tmp_path / "release.json", "--out", tmp_path / "model.json").code == 0
    call = ("evaluate", tmp_path / "study.toml", tmp_path / "model.json", "--rows", "1500", "--plan")
    refused = run(*call)
    assert refused.code == 1 and 'proofs = "required" does not go with an evaluation' in refused.err
    requiring(tmp_path, "where they fit")
    told = run(*call, "--json").json["warnings"]
    assert told[0].startswith("parties prove nothing of what they send") and told[0].endswith("with an evaluation")
    write_study(tmp_path)
    assert promise not in run("plan", tmp_path / "study.toml", "--rows", "60", "--full").out


def test_honest_parties_are_audited_and_followed(tmp_path: Path) -> None:
    study = unmatched(requiring(tmp_path), tmp_path)
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    server, roles, evidence, key = carried(study, tmp_path, {}, guards)
    assert server.release is not None and not any(role.doubt for role in roles.values())
    for name in PARTIES:
        found = audited(study, evidence, name, key)
        assert found.passed, (name, found)


def test_a_refused_proof_costs_nothing_names_the_cheat_and_convicts_it(tmp_path: Path) -> None:
    """town and bank seal to works or to each other; works answers with words of its own making."""
    study = unmatched(requiring(tmp_path), tmp_path)
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    cheat = "works"
    assert any(c.right == study.agreement.schema.names.index(cheat) for c in study.session(50).spec.crosses)
    with pytest.raises(ProofError, match=f"refuses {cheat} in round proof answer"):
        carried(study, tmp_path, {cheat: changing(spell_a_key)}, guards)
    # Nothing is booked, and the session counts as an attempt, right after the abort.
    for name in PARTIES:
        assert guards[name].spent().epsilon == 0 and not guards[name].pending("pay")
        with pytest.raises(PolicyError, match="1 session"):
            guards[name].ledger.check_attempts(guards[name].data, 1)
    key = (tmp_path / "key").read_bytes()
    evidence = {name: KeptEvidence.read(next((tmp_path / "kept" / name).iterdir())) for name in PARTIES}
    told = [facts["sentence"] for kept in evidence.values() for facts in kept.of("doubt")]
    assert told and all(f"refuses {cheat} in round proof answer" in sentence for sentence in told)
    # Its own coins make other words than it signed and sent.
    found = audited(study, evidence, cheat, key)
    assert not found.passed and {quote.round for quote in found.quotes} <= set(ROUNDS) and found.quotes
    for name in set(PARTIES) - {cheat}:
        assert audited(study, evidence, name, key).outcome is AuditOutcome.FOLLOWED
