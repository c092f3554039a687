"""What an auditor found of one party in one session, signed, for all others to check."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.audit.session import SessionAudit
from colonnade.foundation.canonical import canonical_digest
from colonnade.foundation.errors import SignatureError, SiteError
from colonnade.foundation.names import require_texts
from colonnade.transport.evidence import KeptEvidence

FORMAT = "colonnade-verdict/1"
LABEL = b"colonnade/1 verdict"
LARGEST = 1 << 24
LONGEST_SENTENCE = 1 << 14


class _Deviation(msgspec.Struct, forbid_unknown_fields=True):
    step: str
    round: str
    recipient: str
    number: int
    sentence: str


class _Verdict(msgspec.Struct, forbid_unknown_fields=True):
    """What a verdict's file must hold: it comes from others."""

    format: str
    session: str
    party: str
    replayed: int
    missing: int
    left_out: list[str]
    compared: list[str]
    doubts: list[str]
    authority: str
    deviation: _Deviation | None
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
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(key.private_bytes(*form))
        except OSError as error:
            raise SiteError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
        return key
    return read_auditor_key(path)


def _statement(content: Mapping[str, Any]) -> bytes:
    unsigned = {name: value for name, value in content.items() if name != "proof"}
    return LABEL + bytes.fromhex(canonical_digest(unsigned))


def write_verdict(found: SessionAudit, key: Ed25519PrivateKey) -> bytes:
    """The finding as JSON, with the auditor's public key and signature."""
    content = json.loads(json.dumps({"format": FORMAT, **asdict(found)}))
    content["auditor"] = key.public_key().public_bytes_raw().hex()
    return (json.dumps({**content, "proof": key.sign(_statement(content)).hex()}, sort_keys=True) + "\n").encode()


def read_verdict(data: bytes) -> dict[str, Any]:
    """A verdict that is as its auditor signed it; whose key that is, people must compare."""
    try:
        content: Any = json.loads(data) if len(data) <= LARGEST else None
        if msgspec.convert(content, _Verdict).format != FORMAT:
            raise ValueError
        require_texts("what a verdict says", content, SiteError, LONGEST_SENTENCE)
        proof, auditor = bytes.fromhex(content["proof"]), bytes.fromhex(content["auditor"])
        key, statement = Ed25519PublicKey.from_public_bytes(auditor), _statement(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SiteError(f"a verdict must have the format {FORMAT}, and this file has not") from None
    try:
        key.verify(proof, statement)
    except InvalidSignature:
        raise SignatureError("the verdict is not what its auditor signed") from None
    return dict(content)


def said_of(verdict: Mapping[str, Any]) -> str:
    """What the verdict comes to, in one sentence."""
    party, found = verdict["party"], verdict["deviation"]
    if found is not None:
        return f"{party} did not follow the protocol: {found['sentence']}"
    if verdict["missing"]:
        lost = (
            f"{verdict['missing']:,} of {verdict['replayed'] + verdict['missing']:,} messages could not be made again"
        )
        return f"{party} is not shown to have followed the protocol: {lost}"
    return f"{party} followed the protocol"


def note_audit(kept: KeptEvidence, verdict: Mapping[str, Any]) -> KeptEvidence:
    """Audits add up: each is noted in the evidence of whoever hears of it."""
    if verdict["session"] != kept.facts["session"]:
        raise SiteError("the verdict is about another session than this evidence")
    names = {str(made["from"]) for made in kept.of("commitment")} | {str(kept.facts["party"])}
    if verdict["party"] not in names:
        raise SiteError(f"the verdict is about {verdict['party']}, and the session had {', '.join(sorted(names))}")
    if verdict["party"] not in {known["party"] for known in kept.of("audit")}:
        kept.append({"what": "audit", "party": verdict["party"], "auditor": verdict["auditor"]})
    return KeptEvidence.read(kept.place)


def require_few(kept: KeptEvidence, collusion: int) -> None:
    """Raise when as many other parties of the session were audited as may collude: one more is all the noise.

    One party may always be audited: whoever audits it knows what that party knew itself.
    """
    party = str(kept.facts["party"])
    others = sorted({str(known["party"]) for known in kept.of("audit")} - {party})
    if len(others) >= max(1, collusion):
        raise SiteError(
            f"the session has had audits of {', '.join(others)}, and collusion is {collusion}: with the "
            f"seed of {party} an auditor would know more of the noise than the plan allows"
        )
