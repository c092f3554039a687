"""Accountable runs in one process, and the commands by which each of their parties is audited."""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.runs import fit
from colonnade.study import Study
from tests.helpers.cli_study import runner
from tests.helpers.wires import PARTIES, write_study


def kept(folder: Path) -> dict[str, Path]:
    return {name: folder / "kept" / name for name in PARTIES}


def place(folder: Path, name: str) -> Path:
    (own,) = (kept(folder)[name] / "evidence").iterdir()
    return own


@pytest.fixture
def ran(tmp_path: Path) -> Study:
    study = write_study(tmp_path)
    fit(study, evidence=kept(tmp_path))
    return study


def test_every_party_of_a_run_can_be_audited(
    ran: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, key, peers = runner(monkeypatch, capfd), tmp_path / "auditor.pem", list(PARTIES[1:])
    own = ("--study", tmp_path / "study.toml", "--key", kept(tmp_path)[PARTIES[0]] / "evidence.key")
    against = [part for peer in peers for part in ("--against", place(tmp_path, peer))]
    command = ("audit", "session", place(tmp_path, PARTIES[0]), *own, *against, "--sign", key)
    done = run(*command, "--out", tmp_path / "one.json")
    assert done.code == 0 and "No certificates were at hand: signatures were believed" in done.out, done.err
    assert "Compared with what is held by bank, town" in done.out
    # Audits add up at those who hear of them; whose verdict it is must be known.
    noted = run("audit", "verify", tmp_path / "one.json", "--evidence", place(tmp_path, "bank"))
    assert noted.code == 0 and "works followed the protocol" in noted.out and "had no certificates" in noted.out
    named = run("audit", "verify", tmp_path / "one.json", "--auditor", "ab" * 32)
    assert named.code == 1 and "not by the auditor who was named" in named.err
    study, bank_key = ("--study", tmp_path / "study.toml"), kept(tmp_path)["bank"] / "evidence.key"
    second = ("audit", "session", place(tmp_path, "bank"), *study, "--key", bank_key, "--sign", key)
    refused = run(*second, "--out", tmp_path / "two.json")
    assert refused.code == 1 and "the session has had audits of works" in refused.err


def test_what_a_party_cannot_show_fails_its_audit(
    ran: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, name, out = runner(monkeypatch, capfd), PARTIES[0], tmp_path / "verdict.json"
    own = ("--study", tmp_path / "study.toml", "--key", kept(tmp_path)[name] / "evidence.key")
    command = ("audit", "session", place(tmp_path, name), *own, "--sign", tmp_path / "auditor.pem", "--out")
    strange = run(*command[:-3], "--site", tmp_path, "--sign", tmp_path / "auditor.pem", "--out", out)
    assert strange.code == 1 and "has no site" in strange.err
    # Its peers can make again what it did not keep.
    (place(tmp_path, name) / "traffic").write_bytes(b"")
    lost = run(*command, out)
    assert lost.code == 1 and "is not shown to have followed the protocol" in lost.err, lost.err
    again = ("audit", "resend", place(tmp_path, "bank"), "--study", tmp_path / "study.toml")
    bank_key = kept(tmp_path)["bank"] / "evidence.key"
    sent = run(*again, "--key", bank_key, "--to", name, "--out", tmp_path / "again")
    assert sent.code == 0 and f"messages to {name} were made again" in sent.out
    nobody = run(*again, "--key", bank_key, "--to", "mallory", "--out", tmp_path / "never")
    assert nobody.code == 1 and "no peer 'mallory'" in nobody.err and not (tmp_path / "never").exists()
    damaged = run(*command, tmp_path / "third.json", "--came", tmp_path / "study.toml")
    assert damaged.code == 1 and "is not shown" in damaged.err
    (place(tmp_path, name) / "secrets").unlink()
    gone = run(*command, tmp_path / "second.json")
    assert gone.code == 1 and "it cannot show what it committed to: " in gone.err
    assert run("audit", "verify", tmp_path / "second.json").code == 0


def test_evidence_is_for_all_parties_or_for_none(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    with pytest.raises(StudyError, match="evidence must name a folder for each of works, bank, town, got bank"):
        fit(study, evidence={"bank": tmp_path})


def test_a_seeded_run_with_evidence_says_so(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    release = fit(study, randomness=Randomness(b"again"), evidence=kept(tmp_path)).release
    assert release.provenance["seeded"] is True
    assert '"simulated": true' in (place(tmp_path, "bank") / "evidence.jsonl").read_text()
