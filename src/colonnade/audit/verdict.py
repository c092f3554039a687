"""What an auditor signs: that it starts, before it sees a seed, and what it found of one party, for all to check.

A finding is written where the party is audited. It is signed elsewhere, so that the key which signs verdicts never lies
on the audited machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.audit.session import AuditOutcome, SessionAudit
from colonnade.foundation.canonical import canonical_digest
from colonnade.foundation.errors import ColonnadeError, SignatureError, SiteError
from colonnade.foundation.files import telling, write_new
from colonnade.foundation.names import require_texts
from colonnade.transport.evidence import KeptEvidence

FINDING, FORMAT, START = "colonnade-finding/1", "colonnade-verdict/2", "colonnade-start/1"
LARGEST = 1 << 24  # 16 MB: a verdict lists findings, and hostile ones must not fill memory
LONGEST_SENTENCE = 1 << 14  # far above what an audit writes of one finding


class _Start(msgspec.Struct, forbid_unknown_fields=True):
    """An auditor's word that it is about to audit a party."""

    format: str
    session: str
    party: str
    date: str
    auditor: str
    proof: str


class _Finding(SessionAudit, frozen=True, forbid_unknown_fields=True):
    """What a finding's file must hold: it comes from others."""

    format: str
    auditors: list[str]
    """The keys that the parties agreed on."""
    start: _Start | None


class _Verdict(_Finding, frozen=True, forbid_unknown_fields=True):
    auditor: str
    proof: str


def read_auditor_key(path: Path) -> Ed25519PrivateKey:
    """An auditor's Ed25519 key in a PEM file."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        raise SiteError(f"{path} must hold an Ed25519 key without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SiteError(f"{path} must hold an Ed25519 key, and holds another")
    return key


def auditor_key(path: Path) -> Ed25519PrivateKey:
    """The same; a fresh one is made where there is no file yet, for its owner's eyes."""
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        with telling(f"{path} cannot be written", SiteError):
            write_new(path, key.private_bytes(*form))
        return key
    return read_auditor_key(path)


def public_key(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def _statement(content: Mapping[str, Any]) -> bytes:
    unsigned = {name: value for name, value in content.items() if name != "proof"}
    return f"{content['format']} signed ".encode() + bytes.fromhex(canonical_digest(unsigned))


def _signed(content: Mapping[str, Any], key: Ed25519PrivateKey) -> bytes:
    content = {**content, "auditor": public_key(key)}
    return _written({**content, "proof": key.sign(_statement(content)).hex()})


def _written(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, sort_keys=True) + "\n").encode()


def _read(data: bytes, shape: type[_Start] | type[_Finding], form: str) -> dict[str, Any]:
    """A file of one of these forms; what is signed must be as its auditor signed it."""
    what = form.split("/")[0].removeprefix("colonnade-")
    try:
        content: Any = json.loads(data) if len(data) <= LARGEST else None
        if msgspec.convert(content, shape).format != form:
            raise ValueError
        require_texts(f"what a {what} says", content, SiteError, LONGEST_SENTENCE)
        if shape is _Finding:
            return dict(content)
        proof, auditor = bytes.fromhex(content["proof"]), bytes.fromhex(content["auditor"])
        key, statement = Ed25519PublicKey.from_public_bytes(auditor), _statement(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SiteError(f"a {what} must have the format {form}, and this file has not") from None
    try:
        key.verify(proof, statement)
    except InvalidSignature:
        raise SignatureError(f"the {what} is not what its auditor signed") from None
    return dict(content)


def write_start(session: str, party: str, key: Ed25519PrivateKey) -> bytes:
    """An auditor's word, today, that it is about to audit a party of a session."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return _signed({"format": START, "session": session, "party": party, "date": date}, key)


def read_start(data: bytes) -> dict[str, Any]:
    return _read(data, _Start, START)


def write_finding(found: SessionAudit, auditors: Sequence[str] = (), start: Mapping[str, Any] | None = None) -> bytes:
    """What was found, for the auditor to sign elsewhere."""
    agreed = {"auditors": list(auditors), "start": None if start is None else dict(start)}
    return _written({"format": FINDING, **msgspec.to_builtins(found), **agreed})


def sign_finding(data: bytes, key: Ed25519PrivateKey) -> bytes:
    """The verdict: by one of the auditors that the parties agreed on, where they agreed on any."""
    content = _read(data, _Finding, FINDING)
    if content["auditors"] and public_key(key) not in content["auditors"]:
        raise SiteError(
            f"the parties agreed on other auditors than {public_key(key)}: {', '.join(content['auditors'])}"
        )
    return _signed({**content, "format": FORMAT}, key)


def read_verdict(data: bytes) -> dict[str, Any]:
    """A verdict that is as its auditor signed it, by an agreed key if there are any."""
    content = _read(data, _Verdict, FORMAT)
    if content["auditors"] and content["auditor"] not in content["auditors"]:
        raise SignatureError("the verdict is signed by none of the auditors that it says the parties agreed on")
    return content


def said_of(verdict: Mapping[str, Any]) -> str:
    """What the verdict comes to, in one sentence."""
    party, why = verdict["party"], verdict["sentence"]
    match AuditOutcome(verdict["outcome"]):
        case AuditOutcome.FOLLOWED:
            return f"{party} followed the protocol"
        case AuditOutcome.DEVIATED:
            return f"{party} did not follow the protocol: {why}"
        case AuditOutcome.NOT_SHOWN:
            return f"{party} is not shown to have followed the protocol: {why}"
        case AuditOutcome.NOT_REPLAYED:
            return f"what {party} did cannot be replayed by this version: {why}"


def _of_session(kept: KeptEvidence, told: Mapping[str, Any], what: str) -> None:
    if told["session"] != kept.session:
        raise SiteError(f"the {what} is about another session than this evidence")
    names = {str(made["from"]) for made in kept.of("commitment")} | {str(kept.facts["party"])}
    if told["party"] not in names:
        raise SiteError(f"the {what} is about {told['party']}, and the session had {', '.join(sorted(names))}")


def note_audit(kept: KeptEvidence, told: Mapping[str, Any]) -> KeptEvidence:
    """Audits add up: a start, alone or in a verdict, is noted in the evidence of whoever hears of it."""
    _of_session(kept, told, "start" if told["format"] == START else "verdict")
    start = told if told["format"] == START else told["start"]
    if start is not None and not any(known["proof"] == start["proof"] for known in kept.of("start")):
        kept.append({"what": "start", **start})
    return KeptEvidence.read(kept.place)


def require_start(kept: KeptEvidence, start: Mapping[str, Any] | None, auditors: Sequence[str]) -> None:
    """Raise unless an agreed auditor has signed that it starts an audit of this party in this session."""
    if start is None:
        raise SiteError(
            "the parties agreed on auditors: one of them signs a start (colonnade audit start), which --start names"
        )
    if start["auditor"] not in auditors:
        raise SiteError(f"the start is signed by {start['auditor'][:16]}, on whom the parties have not agreed")
    _of_session(kept, start, "start")
    if start["party"] != kept.facts["party"]:
        raise SiteError(f"the start is for an audit of {start['party']}, and the evidence is of {kept.facts['party']}")


def require_few(kept: KeptEvidence, peers: Sequence[KeptEvidence], auditors: Sequence[str], collusion: int) -> None:
    """Raise when audits of as many other parties of the session have started as may collude: one more is all the noise.

    What counts is a start that an agreed auditor signed, whoever shows it. One party may always be audited: whoever
    audits it knows what that party knew itself.
    """
    party, others = str(kept.facts["party"]), set()
    for known in (known for evidence in (kept, *peers) for known in evidence.of("start")):
        try:
            start = read_start(_written({name: value for name, value in known.items() if name != "what"}))
        except ColonnadeError:
            continue
        if start["auditor"] in auditors and start["session"] == kept.session:
            others.add(str(start["party"]))
    others -= {party}
    if len(others) >= max(1, collusion):
        raise SiteError(
            f"audits of {', '.join(sorted(others))} have started in this session, and collusion is {collusion}: with "
            f"the seed of {party} auditors would know more of the noise than the plan allows"
        )
