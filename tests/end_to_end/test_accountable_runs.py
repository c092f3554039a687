"""Accountable runs in one process, and the commands by which each of their parties is audited."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as cn
from colonnade.audit.verdict import auditor_key, public_key
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.planning.agreement import Agreement
from colonnade.runs import RunOptions, fit
from colonnade.study import StudySpec, read_study
from tests.helpers.cli_study import Answer, Run, runner
from tests.helpers.wires import PARTIES, write_study


def kept(folder: Path) -> dict[str, Path]:
    return {name: folder / "kept" / name for name in PARTIES}


def place(folder: Path, name: str) -> Path:
    (own,) = (kept(folder)[name] / "evidence").iterdir()
    return own


@pytest.fixture
def ran(tmp_path: Path) -> StudySpec:
    study = write_study(tmp_path)
    fit(study, RunOptions(evidence=kept(tmp_path)))
    return study


def test_every_party_of_a_run_can_be_audited(
    ran: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, key, peers = runner(monkeypatch, capfd), tmp_path / "auditor.pem", list(PARTIES[1:])
    own = ("--study", tmp_path / "study.toml", "--key", kept(tmp_path)[PARTIES[0]] / "evidence.key")
    against = [part for peer in peers for part in ("--against", place(tmp_path, peer))]
    command = ("audit", "session", place(tmp_path, PARTIES[0]), *own, *against, "--sign", key)
    done = run(*command, "--out", tmp_path / "one.json")
    assert done.code == 0 and "No certificates were at hand: no signature could be checked" in done.out, done.err
    assert "any key may have signed" in done.out
    noted = run("audit", "verify", tmp_path / "one.json", "--evidence", place(tmp_path, "bank"))
    assert noted.code == 0 and "works followed the protocol" in noted.out and "had no certificates" in noted.out
    assert "any key may have signed" in noted.out
    signer = noted.out.partition("Auditor ")[2][:64]
    assert run("audit", "verify", tmp_path / "one.json", "--auditor", signer.upper()).code == 0
    # A part of the key is another key.
    for other in ("ab" * 32, signer[:63], signer[:1], ""):
        named = run("audit", "verify", tmp_path / "one.json", "--auditor", other)
        assert named.code == 1 and "not by the auditor who was named" in named.err


def test_agreed_auditors_start_and_sign_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, key, other = runner(monkeypatch, capfd), tmp_path / "auditor.pem", tmp_path / "other.pem"
    write_study(tmp_path)
    agreed = public_key(auditor_key(key))
    with (tmp_path / "study.toml").open("a") as file:
        file.write(f'\n[audit]\nauditors = ["{agreed}"]\n')
    study = read_study(tmp_path / "study.toml")
    assert study.agreement.auditors == (agreed,) and Agreement.of(study.agreement.to()) == study.agreement
    fit(study, RunOptions(evidence=kept(tmp_path)))
    session = place(tmp_path, "works").name

    def audit(name: str, *more: object) -> Answer:
        own = ("--study", tmp_path / "study.toml", "--key", kept(tmp_path)[name] / "evidence.key")
        return run("audit", "session", place(tmp_path, name), *own, "--out", tmp_path / f"{name}.json", *more)

    # Nothing begins without the word of an agreed auditor, and its key does not come to the audited party.
    assert audit("works").code == 1 and audit("works", "--sign", key).code == 1
    start = tmp_path / "start.json"
    begin = ("audit", "start", "--session", session, "--party", "works", "--sign")
    assert run(*begin, other, "--out", tmp_path / "strange.json").code == 0
    assert "not agreed" in audit("works", "--start", tmp_path / "strange.json").err
    assert not (tmp_path / "works.json").exists()
    assert run(*begin, key, "--out", start).code == 0
    done = audit("works", "--start", start)
    assert done.code == 0 and "The finding is in" in done.out, done.err
    finding, verdict = tmp_path / "works.json", tmp_path / "verdict.json"
    assert run("audit", "sign", finding, "--sign", other, "--out", verdict).code == 1 and not verdict.exists()
    signed = run("audit", "sign", finding, "--sign", key, "--out", verdict)
    assert signed.code == 0 and "works followed the protocol" in signed.out and "any key" not in signed.out
    # A peer notes the start, and no second party's audit begins, whatever that party wrote itself.
    for told in (start, verdict):
        assert run("audit", "verify", told, "--evidence", place(tmp_path, "bank")).code == 0
    assert run("audit", "verify", tmp_path / "strange.json", "--evidence", place(tmp_path, "bank")).code == 1
    begin = ("audit", "start", "--session", session, "--party", "town", "--sign", key)
    assert run(*begin, "--out", tmp_path / "second.json").code == 0
    refused = audit("town", "--start", tmp_path / "second.json", "--against", place(tmp_path, "bank"))
    assert refused.code == 1 and "audits of works have started in this session" in refused.err


@pytest.mark.parametrize("keys", ['["ab"]', '["zz"]', f'["{"a" * 64}", "{"a" * 64}"]', '"ab"', "[3]"])
def test_auditors_are_named_by_their_keys(keys: str, tmp_path: Path) -> None:
    write_study(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(path.read_text() + f"\n[audit]\nauditors = {keys}\n")
    with pytest.raises(StudyError):
        read_study(path)


def test_what_a_party_cannot_show_fails_its_audit(
    ran: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, name, out = runner(monkeypatch, capfd), PARTIES[0], tmp_path / "verdict.json"
    own = ("--study", tmp_path / "study.toml", "--key", kept(tmp_path)[name] / "evidence.key")
    command = ("audit", "session", place(tmp_path, name), *own, "--sign", tmp_path / "auditor.pem", "--out")
    for mistyped in (
        ("--key", tmp_path / "no.key"),
        ("--data", tmp_path / "no.csv"),
        ("--data", tmp_path / "bank.csv"),
    ):
        wrong = run(*command, tmp_path / f"{mistyped[0]}{mistyped[1].stem}.json", *mistyped)
        assert wrong.code == 1 and "is not shown to have followed the protocol" in wrong.err, wrong.err
        assert run("audit", "verify", tmp_path / f"{mistyped[0]}{mistyped[1].stem}.json").code == 0
    # Lines that anybody can write block nothing.
    with (place(tmp_path, name) / "evidence.jsonl").open("a") as file:
        file.write('{"what": "audit", "party": "town", "auditor": "00"}\n{"what": "start", "party": "town"}\n')
    false = run(*command, tmp_path / "false.json")
    assert false.code == 1 and (tmp_path / "false.json").exists() and "line" in false.err
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
        fit(study, RunOptions(evidence={"bank": tmp_path}))


def test_a_seeded_run_with_evidence_says_so(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    release = fit(study, RunOptions(randomness=Randomness(b"again"), evidence=kept(tmp_path))).release
    assert release.provenance["seeded"] is True
    assert '"simulated": true' in (place(tmp_path, "bank") / "evidence.jsonl").read_text()


def audited(run: Run, folder: Path, evidence: Path, name: str, *more: object) -> Answer:
    (own,) = (evidence / name / "evidence").iterdir()
    named = ("--study", folder / "study.toml", "--key", evidence / name / "evidence.key", *more)
    return run("audit", "session", own, *named, "--out", folder / f"{len(list(folder.iterdir()))}.finding")


def test_a_fit_and_an_evaluation_are_kept_and_audited_by_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, study, model = runner(monkeypatch, capfd), tmp_path / "study.toml", tmp_path / "model.json"
    write_study(tmp_path)
    release, fitted, evaluated = tmp_path / "release.json", tmp_path / "fitted", tmp_path / "evaluated"
    done = run("fit", study, "--out", release, "--model", model, "--evidence", fitted)
    assert done.code == 0 and "it convicts nobody" in " ".join(done.out.split()), done.err
    terms = ("--epsilon", 3, "--rows", 40, "--release", release, "--evidence", evaluated)
    done = run("evaluate", study, model, *terms, "--out", tmp_path / "evaluation.json")
    assert done.code == 0 and "it convicts nobody" in " ".join(done.out.split()), done.err
    for name in PARTIES:
        done = audited(run, tmp_path, fitted, name)
        assert done.code == 0 and "Not made again" not in done.out, done.err
        done = audited(run, tmp_path, evaluated, name, "--model", model, "--release", release)
        assert done.code == 0 and "Not made again" not in done.out, done.err
    # Where scores lie was taken from the release: without it these are other terms.
    other = audited(run, tmp_path, evaluated, "bank", "--model", model)
    assert other.code == 1 and "its files state another session" in other.err
    unnamed = audited(run, tmp_path, evaluated, "bank")
    assert unnamed.code == 1 and "is not shown" in unnamed.err
    another = audited(run, tmp_path, fitted, "bank", "--model", model)
    assert another.code == 1 and "an agreement lacks or misstates a field" in another.err


def test_python_keeps_evidence_of_fits_and_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, places = runner(monkeypatch, capfd), {name: tmp_path / "fit" / name for name in PARTIES}
    write_study(tmp_path)
    study = cn.Study.read(tmp_path / "study.toml")
    release = study.fit(evidence={name: str(place) for name, place in places.items()}, progress=False)
    model = release.solve()
    model.save(tmp_path / "model.json")
    study.evaluate(model, evidence=tmp_path / "evaluation", progress=False)
    for name in PARTIES:
        assert audited(run, tmp_path, tmp_path / "fit", name).code == 0
        found = audited(run, tmp_path, tmp_path / "evaluation", name, "--model", tmp_path / "model.json")
        assert found.code == 0, found.err
