"""What one organisation shows another: evidence, starts, findings and verdicts, signing requests, lists, receipts."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from colonnade.audit.quoted import Quote, contexts_in
from colonnade.audit.session import AuditOutcome, SessionAudit
from colonnade.audit.verdict import (
    _signed,
    note_audit,
    public_key,
    read_start,
    read_verdict,
    require_few,
    said_of,
    sign_finding,
    write_finding,
    write_start,
)
from colonnade.flare.certificates import parse_list
from colonnade.flare.renewal import request_fingerprint
from colonnade.foundation.errors import ColonnadeError
from colonnade.protocol.messages import Envelope, Step
from colonnade.transport.evidence import RECORD, TRAFFIC, KeptEvidence, write_message
from fuzz.choices import Choices, altered

SESSION, DIGEST = "ab" * 32, "cd" * 32
AUDITOR = Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32)
QUOTE = Quote("b", "columns", DIGEST, [["context", SESSION]], "bind", "bind", DIGEST, "ef" * 64, DIGEST)
RECORDS: list[dict[str, Any]] = [
    {"what": "session", "session": SESSION, "party": "a", "kind": "a release", "terms": DIGEST, "format": "f/2"},
    {"what": "sent", "step": "ready", "from": "a", "to": "", "digest": DIGEST, "bytes": 1},
    {"what": "received", "step": "parcel", "from": "b", "to": "a", "round": "bind", "digest": DIGEST, "bytes": 9},
    {"what": "commitment", "from": "b", "seed": DIGEST, "coin": DIGEST, "ids": "", "data": DIGEST, "software": "x"},
    {"what": "named", "session": SESSION},
    {"what": "context", "stage": "coins", "context": DIGEST, "of": [SESSION, DIGEST]},
    {"what": "plan", "digest": DIGEST},
    {"what": "binding", "from": "b", "columns": DIGEST, "noise": DIGEST},
    {"what": "start", **json.loads(write_start(SESSION, "b", AUDITOR))},
]


@cache
def _place() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="colonnade-fuzz-")
    _held.append(holder)
    return Path(holder.name)


_held: list[tempfile.TemporaryDirectory[str]] = []


def _lines(records: list[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def records() -> list[bytes]:
    return [_lines(RECORDS), _lines(RECORDS[:3])]


def evidence(data: bytes) -> None:
    """A peer's record, as an audit reads it."""
    (_place() / RECORD).write_bytes(data)
    kept = KeptEvidence.read(_place())
    contexts_in(kept.records)
    require_few(kept, [kept], [public_key(AUDITOR)], len(kept.session))


def evidence_tree(data: bytes) -> None:
    """Lines that are JSON, and hold something else."""
    choices, lines = Choices(data), list[Any](RECORDS)
    for _ in range(1 + choices.below(2)):
        place = choices.below(len(lines))
        lines[place] = altered(lines[place], choices)
    try:
        record = _lines(lines)
    except (TypeError, ValueError):
        return
    evidence(record)


def messages() -> list[bytes]:
    file = BytesIO()
    for step in (Step.HELLO, Step.PARCEL):
        write_message(file, Envelope(bytes(32), DIGEST, "b", "a", step, b"\x80" * 20))
    return [file.getvalue()]


def traffic(data: bytes) -> None:
    """What came in a session, as it was kept."""
    (_place() / TRAFFIC).write_bytes(data)
    list(KeptEvidence(_place(), ()).received())


@cache
def _audit() -> SessionAudit:
    told = {"left_out": ("a",), "compared": ("b",), "doubts": (), "authority": "", "quotes": (QUOTE,)}
    kinds = {"ran": "1", "replayed_by": "1"}
    return SessionAudit(SESSION, "b", AuditOutcome.DEVIATED, "why", 3, 1, **told, **kinds)  # type: ignore[arg-type]


@cache
def _verdicts() -> list[bytes]:
    start = json.loads(write_start(SESSION, "b", AUDITOR))
    verdict = sign_finding(write_finding(_audit()), AUDITOR)
    return [write_start(SESSION, "b", AUDITOR), write_finding(_audit(), [], start), verdict]


def verdicts() -> list[bytes]:
    return _verdicts()


def verdict(data: bytes) -> None:
    """A start, a finding or a verdict; what is taken is noted in one's own evidence."""
    refused: ColonnadeError | None = None
    for read in (read_start, read_verdict, lambda shown: json.loads(sign_finding(shown, AUDITOR))):
        try:
            told = read(data)
        except ColonnadeError as error:
            refused = error
            continue
        if "outcome" in told:
            said_of(told)
        own = _place() / "own"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        (own / RECORD).write_bytes(_lines(RECORDS))
        note_audit(KeptEvidence.read(own), told)
        return
    assert refused is not None
    raise refused


def verdict_tree(data: bytes) -> None:
    """Signed well, with another content."""
    choices = Choices(data)
    content = altered(json.loads(_verdicts()[choices.below(3)]), choices)
    if not isinstance(content, dict):
        return
    content.pop("proof", None)
    try:
        signed = _signed(content, AUDITOR)
    except (TypeError, ValueError, KeyError, ColonnadeError, RecursionError):
        return
    verdict(signed)


@cache
def _authority() -> tuple[Ed25519PrivateKey, x509.Certificate]:
    key = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7)
    builder = builder.not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2120, 1, 1))
    return key, builder.sign(key, None)


@cache
def _requests() -> list[bytes]:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(AUDITOR, None)
    return [made.public_bytes(Encoding.PEM)]


def requests() -> list[bytes]:
    return _requests()


def request(data: bytes) -> None:
    """What the authority is asked to sign."""
    request_fingerprint(data)


@cache
def _lists() -> list[bytes]:
    key, root = _authority()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(root.subject).last_update(now)
    builder = builder.next_update(now + timedelta(days=9))
    one = x509.RevokedCertificateBuilder().serial_number(5).revocation_date(now).build()
    return [builder.add_revoked_certificate(one).sign(key, None).public_bytes(Encoding.PEM)]


def lists() -> list[bytes]:
    return _lists()


def revoked(data: bytes) -> None:
    """A list of revoked certificates, as a folder gets it."""
    for entry in parse_list(data, _authority()[1]):
        assert entry.serial_number and entry.revocation_date_utc
