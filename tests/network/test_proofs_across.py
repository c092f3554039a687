"""Sessions with proofs over the wire between threads: the bytes of one process, and a cheat is refused there, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colonnade.crypto.ranges.party import ANSWER
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.planning.agreement import REQUIRED
from colonnade.protocol.fit import FitParty
from colonnade.protocol.tasks import Guard, PartyTask
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec
from tests.helpers import wires
from tests.helpers.proven import changing, spell_a_key
from tests.helpers.signers import signers_of
from tests.helpers.wires import PARTIES, guard, unmatched, write_study

SEED = b"proofs across"
PATIENT = replace(wires.QUICK, silence=30.0)


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    plain = unmatched(write_study(tmp_path), tmp_path)
    return replace(plain, agreement=plain.agreement.with_terms(proofs=REQUIRED))


def test_the_release_is_that_of_one_process(study: StudySpec, tmp_path: Path) -> None:
    out = wires.run(study, tmp_path, SEED, patience=PATIENT, signers=signers_of(*PARTIES))
    assert not out.errors, out.errors
    tables = {name: s.read(name, study.agreement.schema.parties[name]) for name, s in study.sources.items()}
    alone = write_release(run_unguarded(study.agreement, tables, study.alignment, Randomness(SEED)).release)
    assert out.release is not None
    assert {write_release(release) for release in (out.release, *out.releases.values())} == {alone}


def test_a_party_that_deviates_is_refused_and_nobody_has_spent(
    study: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """works answers with words of its own making: a partner refuses, and right after that ledgers say so."""
    honest, guards = wires.party_task, {name: guard(tmp_path, name) for name in PARTIES}

    def task(mine: StudySpec, name: str, own: Guard, whole: StudySpec | None = None) -> PartyTask:
        made = honest(mine, name, own, whole)
        if name == "works":
            assert isinstance(made, FitParty)
            made.product = lambda session, workers: changing(spell_a_key)
        return made

    monkeypatch.setattr(wires, "party_task", task)
    out = wires.run(study, tmp_path, patience=PATIENT, signers=signers_of(*PARTIES), guards=guards)
    assert out.release is None and "(protocol-error)" in out.told and "nothing is spent" in out.told
    assert any(f"refuses works in round {ANSWER}" in role.doubt for role in out.roles.values())
    for name in PARTIES:
        assert guards[name].spent().epsilon == 0.0 and not guards[name].ledger.entries()
        with pytest.raises(PolicyError, match="1 session"):
            guards[name].ledger.check_attempts(guards[name].data, 1)
