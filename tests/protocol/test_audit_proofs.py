"""An audit believes nobody: proofs are checked by certificates, and what cannot be produced fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.audit.session import SessionAudit, audit_session, replay, unproduced
from colonnade.audit.verdict import FORMAT, note_audit, read_verdict, said_of, write_verdict
from colonnade.flare.signing import CertificateChecker
from colonnade.foundation.errors import ColonnadeError, SignatureError, SiteError
from colonnade.protocol.coins import BIND
from colonnade.protocol.fit import FitServer
from colonnade.protocol.kinds import PartyTask
from colonnade.protocol.messages import Envelope, ParcelBody, Step, body_of
from colonnade.transport.evidence import RECORD, SECRETS, TRAFFIC, KeptEvidence, read_messages, write_message
from tests.helpers.authority import Authority
from tests.helpers.conversations import NAMES, PLANS
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
        [kept[name] for name in NAMES if name != CHEAT],
        checker_of=(lambda evidence: CertificateChecker(AUTHORITY.root)) if checked else None,
        authority="ab" * 32 if checked else "",
        came=came or [],
    )


def test_an_honest_session_passes_by_its_certificates(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    found = audit(kept)
    assert found.passed and (found.deviation, found.left_out, found.doubts) == (None, (), ())
    assert found.replayed == len(kept[CHEAT].of("sent"))


def test_certificates_count_that_were_valid_when_the_session_was(signed: Path, tmp_path: Path) -> None:
    """Years later they have ended, and were replaced: the evidence holds those that signed."""
    held = next(held for held in copied(signed, tmp_path)[PEER].of("signature") if held["from"] == CHEAT)
    from colonnade.audit.session import _statement

    proof, later = bytes.fromhex(held["proof"]), datetime.now(UTC) + timedelta(days=400)
    CertificateChecker(AUTHORITY.root, datetime.now(UTC)).check(CHEAT, _statement(held), proof)
    with pytest.raises(SignatureError, match="is valid from"):
        CertificateChecker(AUTHORITY.root, later).check(CHEAT, _statement(held), proof)
    with pytest.raises(SignatureError, match="not from the authority"):
        CertificateChecker(Authority().root).check(CHEAT, _statement(held), proof)


def invented(lines: Lines) -> Lines:
    """The peer writes another value than the one that was signed to it."""
    return [{**x, "value": "00" * 32} if x.get("from") == CHEAT and x["what"] == "signature" else x for x in lines]


def test_a_peer_cannot_invent_what_a_party_signed(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    kept[PEER] = rewrite(kept[PEER], invented)
    found = audit(kept)
    assert found.passed and "does not fit what came in its name" in found.doubts[0]
    # Without certificates its word would have counted.
    assert audit(kept, checked=False).deviation is not None


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
    assert found.passed and "bank notes otherwise what it signed" in found.doubts[0]


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
    found = audit(kept).deviation
    assert found is not None and "had to say: what came in the name of bank is not what bank signed" in found.sentence


# What cannot be produced.


def test_what_was_not_kept_is_made_again_by_its_senders(tmp_path: Path) -> None:
    """Each peer makes its messages again from its own seed; they are taken if they are what came."""
    kept = session(tmp_path, keep_traffic=False)
    alone = audit(kept)
    assert alone.deviation is None and alone.missing and not alone.passed
    assert any("was not kept" in told for told in alone.left_out)
    assert "is not shown to have followed the protocol" in said_of(read_verdict(write_verdict(alone, key())))
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
        assert found.missing and not found.passed
        return
    with pytest.raises(SiteError, match="not there any more") as error:
        kept[CHEAT].opening(KEY)
    found = unproduced(kept[CHEAT], str(error.value))
    assert not found.passed and found.deviation is not None
    assert "it cannot show what it committed to" in found.deviation.sentence


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6])
def test_evidence_that_was_cut_off_does_not_pass(share: float, signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    path = kept[CHEAT].place / RECORD
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    kept[CHEAT] = KeptEvidence.read(kept[CHEAT].place)
    assert not audit(kept).passed


@pytest.mark.parametrize("byte", [b"\xff", b"[", b"\x00"])
def test_a_damaged_record_is_one_sentence(byte: bytes, signed: Path, tmp_path: Path) -> None:
    path = copied(signed, tmp_path)[CHEAT].place / RECORD
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 40):
        path.write_bytes(data[:place] + byte + data[place + 1 :])
        try:
            kept = {**copied_once(path), PEER: KeptEvidence.read(path.parent.parent.parent / PEER / path.parent.name)}
            audit_session(kept[CHEAT], kept[CHEAT].opening(KEY), fit_task(CHEAT, False), [kept[PEER]])
        except ColonnadeError as error:
            assert len(str(error)) < 400


def copied_once(path: Path) -> dict[str, KeptEvidence]:
    return {CHEAT: KeptEvidence.read(path.parent)}


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
        '{"what": "commitment", "from": "wor\\u202eks", "seed": "", "coin": "", "ids": "", "data": ""}',
        "[" * 100_000,
    ],
)
def test_a_record_of_another_shape_is_refused(line: str, signed: Path, tmp_path: Path) -> None:
    path = copied(signed, tmp_path)[CHEAT].place / RECORD
    path.write_text(path.read_text() + line + "\n{}\n")
    with pytest.raises(SiteError, match="cannot be read: line"):
        KeptEvidence.read(path.parent)


def test_a_renamed_party_is_refused(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    renamed = rewrite(kept[PEER], lambda lines: [{**lines[0], "party": CHEAT}, *lines[1:]])
    with pytest.raises(SiteError, match="must be a peer's evidence of the same session"):
        audit({**kept, PEER: renamed})
    with pytest.raises(SiteError, match="the evidence is of another session: its party is 'bank'"):
        own = KeptEvidence.read(kept["town"].place)
        bank = rewrite(own, lambda lines: [{**lines[0], "party": PEER}, *lines[1:]])
        audit_session(bank, bank.opening(KEY), fit_task("town", False))
    with pytest.raises(SiteError, match="must be given once"):
        audit_session(kept[CHEAT], kept[CHEAT].opening(KEY), fit_task(CHEAT, False), [kept["town"]] * 2)


# Verdicts.


@pytest.fixture(scope="module")
def guilty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    found = audit(session(tmp_path_factory.mktemp("guilty"), plant=another_submission))
    assert found.deviation is not None
    return write_verdict(found, key())


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def test_verdicts_of_others(signed: Path, tmp_path: Path) -> None:
    kept = copied(signed, tmp_path)
    found = audit(kept)
    verdict = read_verdict(write_verdict(found, key()))
    # Heard twice, it is one audit.
    assert len(note_audit(note_audit(kept[PEER], verdict), verdict).of("audit")) == 1
    with pytest.raises(SiteError, match="about another session"):
        note_audit(kept[PEER], {**verdict, "session": "ab" * 32})
    stranger = read_verdict(write_verdict(replace(found, party="mallory"), key()))
    with pytest.raises(SiteError, match="is about mallory, and the session had bank, town, works"):
        note_audit(kept[PEER], stranger)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"party": "town"}, "not what its auditor signed"),
        ({"deviation": None}, "not what its auditor signed"),
        ({"missing": 0.5}, "must have the format"),
        ({"deviation": {"sentence": 3}}, "must have the format"),
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
