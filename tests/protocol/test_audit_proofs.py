"""An audit believes nobody: proofs are checked by certificates, and what cannot be produced fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.audit.quoted import Statement
from colonnade.audit.session import AuditOutcome, SessionAudit, audit_session, judge, replay, unproduced
from colonnade.audit.verdict import FORMAT, note_audit, read_verdict, said_of, sign_finding, write_finding
from colonnade.flare.signing import CertificateChecker
from colonnade.foundation.errors import SignatureError, SiteError
from colonnade.protocol.coins import BIND, Opening
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Envelope, ParcelBody, Signature, Step, body_of
from colonnade.protocol.tasks import PartyTask
from colonnade.transport.evidence import RECORD, SECRETS, TRAFFIC, KeptEvidence, read_messages, write_message
from tests.helpers.authority import Authority
from tests.helpers.cli_study import runner
from tests.helpers.conversations import NAMES, PLANS
from tests.pins.studies import read_lines
from tests.protocol.test_session_audit import CHEAT, KEY, LATTICE, another_submission, carry, fit_task, honest

PEER = "bank"
AUTHORITY = Authority()
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest session whose parties sign by certificates; tests spoil copies of it."""
    folder = tmp_path_factory.mktemp("signed")
    session(folder)
    return folder


def session(folder: Path, **more: Any) -> dict[str, KeptEvidence]:
    signers = {name: AUTHORITY.signer(folder / "certificates", name) for name in NAMES}
    tasks: dict[str, PartyTask] = {name: fit_task(name, False) for name in NAMES}
    plant = more.pop("plant", honest)
    return carry(FitServer(LATTICE, "none", PLANS), tasks, folder / "kept", plant, signers=signers, **more)


def copied(signed: Path, folder: Path) -> dict[str, KeptEvidence]:
    import shutil

    shutil.copytree(signed / "kept", folder / "kept")
    return {name: KeptEvidence.read(next((folder / "kept" / name).iterdir())) for name in NAMES}


def rewrite(kept: KeptEvidence, change: Callable[[Lines], Lines]) -> KeptEvidence:
    path = kept.place / RECORD
    lines = change([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return KeptEvidence.read(kept.place)


def bodied(envelope: Envelope, body: bytes) -> Envelope:
    return msgspec.structs.replace(envelope, body=body)


def audit(kept: Mapping[str, KeptEvidence], checked: bool = True, came: list[Envelope] | None = None) -> SessionAudit:
    mine = kept[CHEAT]
    return audit_session(
        mine,
        mine.opening(KEY),
        fit_task(CHEAT, False),
        [kept[name] for name in NAMES if name != CHEAT and name in kept],
        checker=CertificateChecker(AUTHORITY.root, datetime.now(UTC)) if checked else None,
        authority="ab" * 32 if checked else "",
        came=came or [],
    )


def test_an_honest_session_passes_by_its_certificates(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    found = audit(kept)
    assert found.passed and (found.quotes, found.left_out, found.doubts) == ((), (), ())
    assert found.replayed == len(kept[CHEAT].of("sent"))


def test_certificates_count_that_were_valid_when_the_session_was(signed: Path, tmp_path: Path) -> None:
    """Years later they have ended, and were replaced: the evidence holds those that signed."""
    held = next(held for held in copied(signed, tmp_path)[PEER].of("signature") if held["from"] == CHEAT)
    said = Statement.noted(held).encode()
    proof, later = bytes.fromhex(held["proof"]), datetime.now(UTC) + timedelta(days=400)
    CertificateChecker(AUTHORITY.root, datetime.now(UTC)).check(CHEAT, said, proof)
    with pytest.raises(SignatureError, match="is valid from"):
        CertificateChecker(AUTHORITY.root, later).check(CHEAT, said, proof)
    with pytest.raises(SignatureError, match="not from the authority"):
        CertificateChecker(Authority().root).check(CHEAT, said, proof)


def invented(lines: Lines) -> Lines:
    """The peer writes another value than the one that was signed to it."""
    return [{**x, "value": "00" * 32} if x.get("from") == CHEAT and x["what"] == "signature" else x for x in lines]


def test_a_peer_cannot_invent_what_a_party_signed(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    kept[PEER] = rewrite(kept[PEER], invented)
    found = audit(kept)
    assert found.passed and "does not fit what came in its name" in found.doubts[0]
    # Without certificates nobody's word counts.
    assert audit(kept, checked=False).outcome is AuditOutcome.FOLLOWED


def mine(lines: Lines) -> list[int]:
    """Where the peer's record holds signatures of the audited party."""
    return [i for i, x in enumerate(lines) if x["what"] == "signature" and x["from"] == CHEAT]


def deleted(lines: Lines, at: int) -> Lines:
    return lines[:at] + lines[at + 1 :]


def repeated(lines: Lines, at: int) -> Lines:
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


def swapped(lines: Lines, at: int) -> Lines:
    other, changed = mine(lines)[0], list(lines)
    changed[at], changed[other] = lines[other], lines[at]
    return changed


@pytest.mark.parametrize("edit", [deleted, repeated, swapped])
def test_no_genuine_line_of_a_peer_convicts_an_honest_party(
    edit: Callable[[Lines, int], Lines], signed: Path, tmp_path: Path
) -> None:
    """Each line that it signed to the peer, left out, written twice, or in another's place."""
    kept = copied(signed, tmp_path)
    made = replay(kept[CHEAT], kept[CHEAT].opening(KEY), fit_task(CHEAT, False))
    lines = [dict(x) for x in kept[PEER].records]
    assert len(mine(lines)) > 5
    for at in mine(lines):
        peer = rewrite(kept[PEER], lambda _, at=at: edit(lines, at))  # type: ignore[misc]
        found = judge(kept[CHEAT], made, [peer], CertificateChecker(AUTHORITY.root))
        assert found.outcome is AuditOutcome.FOLLOWED and found.compared == (PEER,)


def test_a_signature_delivered_twice_is_one(tmp_path: Path) -> None:
    """A server that meddles with nothing else: the honest peer notes it twice."""

    def twice(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        again = not up and envelope.step is Step.SIGNATURE and envelope.sender == CHEAT
        return (envelope, envelope) if again and body_of(envelope, Signature).about == "submission" else (envelope,)

    assert audit(session(tmp_path, wire=twice)).passed


def test_a_stolen_key_of_a_certificate_that_ended_convicts_nobody(signed: Path, tmp_path: Path) -> None:
    """The peer dates its own evidence back; the audited party's date counts."""
    kept, day = copied(signed, tmp_path), timedelta(days=1)
    old = AUTHORITY.late(tmp_path / "old", CHEAT, -800 * day, -400 * day)

    def forge(lines: Lines) -> Lines:
        lines[0]["began"] = (datetime.now(UTC) - 500 * day).isoformat(timespec="seconds")
        (line,) = (x for x in lines if x["what"] == "signature" and (x["about"], x["from"]) == ("submission", CHEAT))
        line["value"] = "00" * 32
        line["proof"] = old.sign(Statement.noted(line).encode()).hex()
        return lines

    kept[PEER] = rewrite(kept[PEER], forge)
    found = audit(kept)
    assert found.passed and any("is valid from" in told for told in found.doubts)
    # Nor does one that is in date, and that the party did not sign the session by.
    other = AUTHORITY.signer(tmp_path / "other", CHEAT)

    def renew(lines: Lines) -> Lines:
        (line,) = (x for x in lines if x["what"] == "signature" and (x["about"], x["from"]) == ("submission", CHEAT))
        line["proof"] = other.sign(Statement.noted(line).encode()).hex()
        return lines

    kept[PEER] = rewrite(kept[PEER], renew)
    found = audit(kept)
    assert found.passed and any("another certificate" in told for told in found.doubts)


def test_a_party_that_dates_its_session_out_of_its_certificate_is_not_shown(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    made = replay(kept[CHEAT], kept[CHEAT].opening(KEY), fit_task(CHEAT, False))
    peers = [kept[name] for name in NAMES if name != CHEAT]
    late = CertificateChecker(AUTHORITY.root, datetime.now(UTC) + timedelta(days=400))
    assert judge(kept[CHEAT], made, peers, late).outcome is AuditOutcome.NOT_SHOWN


def test_a_certificate_that_was_revoked_since_convicts_nobody(tmp_path: Path) -> None:
    """Whoever stole the key could have signed what a peer shows; nor is the party shown to have followed."""
    kept = session(tmp_path, plant=another_submission)
    from cryptography import x509

    held = next(held for held in kept[PEER].of("signature") if held["from"] == CHEAT)
    shown = CertificateChecker(AUTHORITY.root).check(
        CHEAT, Statement.noted(held).encode(), bytes.fromhex(held["proof"])
    )
    number = x509.load_der_x509_certificate(shown.certificate).serial_number
    now = datetime.now(UTC)
    task, peers = fit_task(CHEAT, False), [kept[name] for name in NAMES if name != CHEAT]
    for since, at, outcome in (
        (now - timedelta(minutes=1), now - timedelta(hours=1), AuditOutcome.NOT_SHOWN),
        (now + timedelta(hours=1), now, AuditOutcome.DEVIATED),
    ):
        checker = CertificateChecker(AUTHORITY.root, at, {number: since})
        found = audit_session(kept[CHEAT], kept[CHEAT].opening(KEY), task, peers, checker=checker)
        assert found.outcome is outcome


def test_a_withdrawal_convicts_nobody(signed: Path, tmp_path: Path) -> None:
    """It is signed, and no replay makes it: a peer that writes it into its record gains nothing."""
    kept = copied(signed, tmp_path)
    signer = AUTHORITY.signer(tmp_path / "same name", CHEAT)
    held = next(dict(x) for x in kept[PEER].of("signature") if x["from"] == CHEAT and x["about"] == "opened")
    held |= {"about": "withdrawn", "value": ""}
    held["proof"] = signer.sign(Statement.noted(held).encode()).hex()
    kept[PEER] = rewrite(kept[PEER], lambda lines: [*lines, held])
    found = audit(kept)
    assert found.passed and any("no replay makes" in told for told in found.doubts)


def test_one_id_of_the_server_for_two_sessions_convicts_nobody(tmp_path: Path) -> None:
    """The server gives both sessions one id and one of the alignment: a peer shows lines of the other session."""
    first, kept = (session(tmp_path / str(k), identity=bytes(32)) for k in (1, 2))
    foreign = [dict(x) for x in first[PEER].records if x["what"] in ("signature", "context")]
    kept[PEER] = rewrite(kept[PEER], lambda lines: [*lines, *foreign])
    found = audit(kept)
    assert found.passed and found.doubts
    # Nor does a session whose id the server gives to the next one.
    again = session(tmp_path / "again", identity=bytes.fromhex(kept[CHEAT].session))
    foreign = [dict(x) for x in again[PEER].records if x["what"] in ("signature", "context")]
    kept[PEER] = rewrite(kept[PEER], lambda lines: [*lines, *foreign])
    assert audit(kept).passed


def test_a_signature_of_another_session_does_not_count(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    other = session(tmp_path / "other")[PEER]
    foreign = [dict(x) for x in other.records if x["what"] in ("signature", "context")]
    kept[PEER] = rewrite(kept[PEER], lambda lines: [lines[0], *foreign, *lines[1:]])
    found = audit(kept)
    assert found.passed and found.doubts and all("is not of this session" in told for told in found.doubts)


def test_a_peer_that_notes_otherwise_what_it_signed_accuses_nobody(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    kept[PEER] = rewrite(kept[PEER], lambda lines: [x for x in lines if x["what"] != "sent"])
    found = audit(kept)
    assert found.passed and "bank does not note that it sent" in found.doubts[0]


def test_a_party_cannot_invent_what_came(signed: Path, tmp_path: Path) -> None:
    """It changes a peer's parcel in what it keeps, and the digest in its notes: the peer's signature tells."""
    from hashlib import sha256

    from colonnade.protocol.evidence import described

    kept = copied(signed, tmp_path)
    mine = kept[CHEAT]
    envelopes, changed = list(mine.received()), {}
    for number, envelope in enumerate(envelopes):
        if envelope.step is Step.PARCEL and envelope.sender == PEER and body_of(envelope, ParcelBody).round == BIND:
            other = bodied(envelope, envelope.body[:-1] + bytes([envelope.body[-1] ^ 1]))
            old, new = (described(e, sha256(e.body).digest())["digest"] for e in (envelope, other))
            envelopes[number], changed[old] = other, new
    assert changed
    with (mine.place / TRAFFIC).open("wb") as file:
        for envelope in envelopes:
            write_message(file, envelope)
    kept[CHEAT] = rewrite(mine, lambda ls: [{**x, "digest": changed.get(x.get("digest"), x.get("digest"))} for x in ls])
    found = audit(kept)
    assert found.outcome is AuditOutcome.NOT_SHOWN
    assert "had to say: what came in the name of bank is not what bank signed" in found.sentence


# What cannot be produced.


def test_what_was_not_kept_is_made_again_by_its_senders(tmp_path: Path) -> None:
    """Each peer makes its messages again from its own seed; they are taken if they are what came."""
    kept = session(tmp_path, keep_traffic=False)
    alone = audit(kept)
    assert alone.outcome is AuditOutcome.NOT_SHOWN and alone.missing
    assert any("was not kept" in told for told in alone.left_out)
    assert "is not shown to have followed the protocol" in said_of(
        read_verdict(sign_finding(write_finding(alone), key()))
    )
    came: list[Envelope] = []
    for _ in range(3):
        for name in NAMES:
            if name != CHEAT:
                own = fit_task(name, False)
                replay(kept[name], kept[name].opening(KEY), own, came=came, keep=came.append)
        replay(kept[CHEAT], kept[CHEAT].opening(KEY), fit_task(CHEAT, False), came=came, keep=came.append)
    assert audit(kept, came=came).passed
    # What is not what came is not taken for it.
    bad = [bodied(e, e.body + b"!") for e in came]
    assert audit(kept, came=bad).missing == alone.missing


def test_messages_survive_a_file(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)[CHEAT]
    whole = list(kept.received())
    path = tmp_path / "messages"
    with path.open("wb") as file:
        for envelope in whole:
            write_message(file, envelope)
    assert list(read_messages(path)) == whole
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read_messages(path)) == whole[:-1]


@pytest.mark.parametrize("lost", [SECRETS, TRAFFIC])
def test_a_party_that_cannot_show_what_it_should_have_kept_fails(lost: str, signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    (kept[CHEAT].place / lost).unlink()
    if lost == TRAFFIC:
        found = audit(kept)
        assert found.missing and found.outcome is AuditOutcome.NOT_SHOWN
        return
    with pytest.raises(SiteError, match="not there any more") as error:
        kept[CHEAT].opening(KEY)
    found = unproduced(kept[CHEAT], str(error.value))
    assert found.outcome is AuditOutcome.NOT_SHOWN and "it cannot show what it committed to" in found.sentence


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4, 0.6])
def test_evidence_that_was_cut_off_does_not_pass(share: float, signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    path = kept[CHEAT].place / RECORD
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    kept[CHEAT] = KeptEvidence.read(kept[CHEAT].place)
    assert audit(kept).outcome is AuditOutcome.NOT_SHOWN


@pytest.mark.parametrize("byte", [b"\xff", b"[", b"\x00"])
def test_a_damaged_record_of_the_party_is_no_verdict_against_it(byte: bytes, signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    path = kept[CHEAT].place / RECORD
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 20):
        path.write_bytes(data[:place] + byte + data[place + 1 :])
        try:
            found = audit({**kept, CHEAT: KeptEvidence.read(path.parent)})
        except SiteError as error:
            # Which session and party it is about cannot be told.
            assert len(str(error)) < 400 and (byte == b"\xff" or place < 1000)
        else:
            assert found.outcome is not AuditOutcome.DEVIATED and len(found.sentence) < 600


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "7",
        '"text"',
        '{"what": 3}',
        '{"what": "sent"}',
        '{"what": "signature", "from": "works", "to": 3}',
        '{"what": "received", "step": "parcel", "from": "x", "to": "y", "digest": "zz"}',
        '{"what": "context", "stage": "session", "context": "ab", "of": "ab"}',
        '{"what": "context", "stage": "session", "context": "ab", "of": []}',
        '{"what": "context", "stage": "session", "context": "ab"}',
        '{"what": "commitment", "from": "wor\\u202eks", "seed": "", "coin": "", "ids": "", "data": ""}',
        "[" * 100_000,
    ],
)
def test_a_line_of_another_shape_is_passed_over_and_told(line: str, signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    for name, outcome in ((PEER, AuditOutcome.FOLLOWED), (CHEAT, AuditOutcome.NOT_SHOWN)):
        path = kept[name].place / RECORD
        path.write_text(path.read_text() + line + "\n{}\n")
        kept[name] = KeptEvidence.read(path.parent)
        found = audit(kept)
        assert len(kept[name].damaged) == 2 and found.outcome is outcome
        assert any("cannot be read" in told for told in found.doubts)


def test_evidence_of_nobody_it_should_be_of_is_a_doubt(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    for name in (CHEAT, "mallory"):
        renamed = rewrite(kept[PEER], lambda lines, name=name: [{**lines[0], "party": name}, *lines[1:]])  # type: ignore[misc]
        found = audit({**kept, PEER: renamed})
        assert found.passed and found.compared == ("town",) and "is not a peer's of this session" in found.doubts[0]
    # Given twice, it is one.
    again = audit_session(
        kept[CHEAT],
        kept[CHEAT].opening(KEY),
        fit_task(CHEAT, False),
        [kept["town"]] * 2,
        checker=CertificateChecker(AUTHORITY.root),
    )
    assert again.passed and again.compared == ("town",)
    # The files that are shown must be of this party and these terms.
    for change in ({"party": "town"}, {"terms": "0" * 64}):
        own = rewrite(kept[CHEAT], lambda lines, change=change: [{**lines[0], **change}, *lines[1:]])  # type: ignore[misc]
        found = audit_session(own, own.opening(KEY), fit_task(CHEAT, False))
        assert found.outcome is AuditOutcome.NOT_SHOWN and "its files state another session" in found.sentence


# Versions.


def test_evidence_of_another_version_convicts_nobody(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    other = {name: rewrite(kept[name], lambda lines: [{**lines[0], "protocol": 9}, *lines[1:]]) for name in NAMES}
    assert audit(other).outcome is AuditOutcome.NOT_REPLAYED
    # The party's own word is not enough for it.
    found = audit({**kept, CHEAT: other[CHEAT]})
    assert found.outcome is AuditOutcome.NOT_SHOWN and "names another version than its peers'" in found.sentence


def test_a_record_of_0_1_0_is_for_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its seed and data were not kept with it, and contexts and ids were others then."""
    (tmp_path / RECORD).write_text("\n".join(read_lines("evidence")) + "\n")
    kept, task = KeptEvidence.read(tmp_path), fit_task(CHEAT, False)
    found = audit_session(kept, Opening(bytes(32), bytes(32), bytes(32)), task)
    assert found.outcome is AuditOutcome.NOT_REPLAYED and "colonnade 0.1.0 or unknown" in found.sentence
    own = ("--study", tmp_path / "no.toml", "--key", tmp_path / "no.key", "--out", tmp_path / "finding")
    done = runner(monkeypatch, capfd)("audit", "session", tmp_path, *own)
    assert done.code == 1 and "cannot be replayed by this version" in done.err
    assert '"cannot be replayed"' in (tmp_path / "finding").read_text()


def test_a_replay_by_other_software_than_was_committed_to_convicts_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = session(tmp_path, plant=another_submission)
    assert audit(kept).outcome is AuditOutcome.DEVIATED
    monkeypatch.setattr("colonnade.audit.session.versions", lambda: "colonnade 0.9.0, protocol 3")
    found = audit(kept)
    assert found.outcome is AuditOutcome.NOT_REPLAYED and "0.9.0" in found.sentence
    monkeypatch.undo()
    # It is committed to, so that it cannot be said otherwise later.
    own = rewrite(kept[CHEAT], lambda lines: [{**lines[0], "software": "colonnade 0.9.0, protocol 3"}, *lines[1:]])
    assert audit({**kept, CHEAT: own}).outcome is AuditOutcome.NOT_SHOWN


def test_another_plan_of_the_software_convicts_nobody(signed: Path, tmp_path: Path) -> None:
    """An update computes another plan for the same terms, as the peers' records show."""
    kept, task = copied(signed, tmp_path), fit_task(CHEAT, False)

    def other(agreement: Any, rows: int, identity: bytes) -> Any:
        return PLANS(agreement.with_terms(epsilon=agreement.budget.epsilon + 1), rows, identity)

    task.planner = other
    made = replay(kept[CHEAT], kept[CHEAT].opening(KEY), task)
    checker, peers = CertificateChecker(AUTHORITY.root), [kept[PEER], kept["town"]]
    assert judge(kept[CHEAT], made, peers, checker).outcome is AuditOutcome.NOT_REPLAYED
    edited = rewrite(kept[PEER], lambda ls: [{**x, "digest": "ab"} if x["what"] == "plan" else x for x in ls])
    for against in ([], [edited], [edited, kept["town"]]):
        assert judge(kept[CHEAT], made, against, checker).outcome is AuditOutcome.NOT_SHOWN


# Verdicts.


@pytest.fixture(scope="module")
def guilty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    found = audit(session(tmp_path_factory.mktemp("guilty"), plant=another_submission))
    assert found.outcome is AuditOutcome.DEVIATED and found.quotes
    return sign_finding(write_finding(found), key())


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def test_verdicts_of_others(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    found = audit(kept)
    verdict = read_verdict(sign_finding(write_finding(found), key()))
    with pytest.raises(SiteError, match="about another session"):
        note_audit(kept[PEER], {**verdict, "session": "ab" * 32})
    stranger = read_verdict(sign_finding(write_finding(msgspec.structs.replace(found, party="mallory")), key()))
    with pytest.raises(SiteError, match="is about mallory, and the session had bank, town, works"):
        note_audit(kept[PEER], stranger)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"party": "town"}, "not what its auditor signed"),
        ({"outcome": "followed"}, "not what its auditor signed"),
        ({"quotes": []}, "not what its auditor signed"),
        ({"missing": 0.5}, "must have the format"),
        ({"quotes": [{"value": 3}]}, "must have the format"),
        ({"outcome": "guilty"}, "must have the format"),
        ({"compared": "bank"}, "must have the format"),
        ({"auditor": "zz"}, "must have the format"),
        ({"auditor": "ab"}, "must have the format"),
        ({"auditor": "00" * 32}, "not what its auditor signed|must have the format"),
        ({"format": FORMAT + "0"}, "must have the format"),
        ({"more": 1}, "must have the format"),
        ({"party": "to\u202ewn"}, "visible"),
    ],
)
def test_a_forged_verdict_is_refused(change: dict[str, Any], says: str, guilty: bytes) -> None:
    forged = json.dumps({**json.loads(guilty), **change}).encode()
    with pytest.raises((SiteError, SignatureError), match=says):
        read_verdict(forged)


def test_random_edits_of_peers_evidence_convict_the_cheat_and_nobody_else() -> None:
    """Of one or both peers of an honest party, and of one of a cheat's two; the drill does ten thousand."""
    from drills.evidence_edits import run

    found = run(300, seed=7)
    assert found["wrong"] == 0, found
    assert sum(found["honest"].values()) == 270 and found["cheat"] == {"did not follow": 30}
