"""Certificates by signing request: a site makes its key, the authority signs, and the key never leaves the site.

The engine's own `nvflare cert` asks for another shape of authority and hands back kits with scripts that we do not
ship; its building blocks (keys, names, certificates) are what makes certificates here, as in `deploy new`.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_pri_key, x509_name

from colonnade.flare.agent import SIGNING_CERTIFICATE, find_key, key_of, named_agent
from colonnade.flare.certificates import REVOKED, authority_of, common_name, issued, own_address
from colonnade.flare.provision import COORDINATOR as COORDINATOR_NAME
from colonnade.flare.signing import SMALLEST_RSA
from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.foundation.files import append_durably, put, write_new
from colonnade.sites.site import COORDINATOR, SERVER, SITE, STARTUP, Site

NEXT_KEY = "next.key"
PAST = "past"
ISSUED, TAKEN_BACK = "issued.jsonl", "revoked.jsonl"
LIST_DAYS = 3650  # ten years: an old list of revoked certificates still counts
VALID_DAYS = 360  # as FLARE gives its own certificates
BACK = timedelta(hours=1)
"""A certificate begins so long before it is signed: clocks of other sites may be behind."""
RequestedKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True)
class Signed:
    """A certificate that the authority gave."""

    name: str
    pem: bytes
    fingerprint: str
    """Of the key, as the request showed it: to be compared by telephone."""
    until: datetime


def fingerprint(key: Any) -> str:
    """The first 128 bits of a public key's SHA-256, in groups that can be read aloud."""
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    return " ".join(digest[i : i + 4] for i in range(0, 32, 4))


def bearer(site: Site) -> tuple[str, str]:
    """The name in a site's certificate, and what its files are called."""
    if site.role == SERVER:
        return own_address(site.folder)[1], "server"
    return (COORDINATOR_NAME if site.role == COORDINATOR else site.party), "client"


def request_certificate(site: Site) -> tuple[bytes, str]:
    """A signing request and its key's fingerprint. The new key waits beside the one in use; asked again, it stays."""
    place = site.folder / STARTUP / NEXT_KEY
    if place.exists():
        key = _read_key(place)
    else:
        key, _ = generate_keys()
        write_new(place, serialize_pri_key(key))
    return _request(site, key)


def request_signing(site: Site, comment: str) -> tuple[bytes, str]:
    """A signing request for a key that the site's agent holds, and the key's fingerprint."""
    if site.signing_agent is None:
        raise PolicyError(f"{site.folder.name}/{SITE} must name a signing_agent, and names none")
    key = find_key(named_agent(site.folder, site.signing_agent), comment)
    return _request(site, key)


def _request(site: Site, key: Any) -> tuple[bytes, str]:
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509_name(bearer(site)[0])).sign(key, digest)
    return asked.public_bytes(Encoding.PEM), fingerprint(key.public_key())


def own_certificate(site: Site) -> tuple[str, x509.Certificate]:
    """The name in a site's certificate, and the certificate, whether it counts or not."""
    name, basename = bearer(site)
    return name, x509.load_pem_x509_certificate((site.folder / STARTUP / f"{basename}.crt").read_bytes())


def _read_key(path: Path) -> Any:
    try:
        return load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        raise PolicyError(f"{STARTUP}/{path.name} cannot be read") from None


def open_authority(folder: Path) -> tuple[x509.Certificate, Any, dict[str, x509.Certificate]]:
    """The authority's certificate and key, and the first certificate of each name that it knows."""
    found = sorted(folder.rglob("cert.json"))
    if len(found) != 1:
        raise StudyError(f"{folder} must be the folder authority/ that deploy new wrote, and is not")
    content = json.loads(found[0].read_text(encoding="utf-8"))
    root = x509.load_pem_x509_certificate(content["root_cert"].encode())
    key = load_pem_private_key(content["root_pri_key"].encode(), None)
    given = {
        name: x509.load_pem_x509_certificate(made["cert"].encode())
        for name, made in content.items()
        if isinstance(made, dict)
    }
    return root, key, given


def request_fingerprint(content: bytes) -> str:
    """The fingerprint of a request's key."""
    return fingerprint(_read_request(content)[0])


def _read_request(content: bytes) -> tuple[RequestedKey, str]:
    """A request's key and name; it must be signed by the key."""
    try:
        asked = x509.load_pem_x509_csr(content)
        key, name, sound = asked.public_key(), common_name(asked), asked.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StudyError("the request cannot be read: it must be a signing request in PEM") from None
    if not sound:
        raise PolicyError("the request is not signed by the key that it names")
    if not isinstance(key, RequestedKey) or (isinstance(key, rsa.RSAPublicKey) and key.key_size < SMALLEST_RSA):
        raise PolicyError(f"a request's key must be RSA of {SMALLEST_RSA} bits or more, P-256 or Ed25519")
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, ec.SECP256R1):
        raise PolicyError(f"a request's elliptic curve must be P-256, got {key.curve.name}")
    return key, name


def approve_request(authority: Path, content: bytes, days: int = VALID_DAYS, connections_only: bool = False) -> Signed:
    """Sign a request, if its name is one of this deployment; role and organisation are what the authority knows.

    A certificate for connections only is refused by whoever checks signatures: its party signs by another.
    """
    key, name = _read_request(content)
    root, root_key, given = open_authority(authority)
    if name not in given:
        raise PolicyError(f"this deployment has no {name or 'site without a name'}: it has {', '.join(sorted(given))}")
    first = given[name].subject
    org, role = (
        next((str(a.value) for a in first.get_attributes_for_oid(oid)), None)
        for oid in (NameOID.ORGANIZATION_NAME, NameOID.UNSTRUCTURED_NAME)
    )
    now = datetime.now(UTC)
    until = min(now + timedelta(days=days), root.not_valid_after_utc)
    issuer, valid = Identity(common_name(root)), {"not_valid_before": now - BACK, "not_valid_after": until}
    made = generate_cert(Identity(name, org, role), issuer, root_key, key, **valid)
    if connections_only:
        made = _for_connections(made, root_key)
    told = fingerprint(key)
    known = {"time": now.isoformat(timespec="seconds"), "name": name, "serial": f"{made.serial_number:x}"}
    entry = {**known, "until": until.isoformat(timespec="seconds"), "key": told}
    append_durably(authority / ISSUED, json.dumps(entry) + "\n")
    return Signed(name, made.public_bytes(Encoding.PEM), told, until)


def _for_connections(made: x509.Certificate, root_key: Any) -> x509.Certificate:
    """The same certificate, with a purpose in it."""
    builder = x509.CertificateBuilder(made.issuer, made.subject, made.public_key(), made.serial_number)
    builder = builder.not_valid_before(made.not_valid_before_utc).not_valid_after(made.not_valid_after_utc)
    for extension in made.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return builder.add_extension(purpose, critical=False).sign(root_key, SHA256())


def install_certificate(site: Site, content: bytes) -> datetime:
    """Put a new certificate, and the key that waits for it, in the place of the old; when it ends.

    Who has read the old pair goes on with it: a session under way is not broken. The old certificate is kept.
    """
    name, basename = bearer(site)
    start = site.folder / STARTUP
    new = issued(content, authority_of(site.folder), "the new certificate is not from the authority of this study")
    if (found := common_name(new)) != name:
        raise PolicyError(f"the new certificate is for {found or 'nobody'}, this folder is {name}'s")
    # An earlier try may have ended after the key was put in place.
    waiting = start / NEXT_KEY
    kept = waiting if waiting.exists() else start / f"{basename}.key"
    if not kept.exists() or _read_key(kept).public_key() != new.public_key():
        if site.signing_agent is None:
            raise PolicyError(
                "the new certificate is not for the key that waits here: colonnade cert request asks again"
            )
        key_of(named_agent(site.folder, site.signing_agent), new.public_key())
        _replace_certificate(start / SIGNING_CERTIFICATE, content)
        return new.not_valid_after_utc
    if waiting.exists():
        os.replace(waiting, start / f"{basename}.key")
    _replace_certificate(start / f"{basename}.crt", content)
    return new.not_valid_after_utc


def _replace_certificate(place: Path, content: bytes) -> None:
    """The old one is kept: what it signed stays."""
    if place.exists():
        before = x509.load_pem_x509_certificate(place.read_bytes())
        (place.parent / PAST).mkdir(exist_ok=True)
        put(place.parent / PAST / f"{before.serial_number:x}.crt", place.read_bytes())
    put(place, content)


def revoke_certificate(authority: Path, content: bytes, reason: str = "") -> tuple[str, bytes]:
    """Take a certificate back: whose it was, and the authority's new list, which every folder must get."""
    root, root_key, _ = open_authority(authority)
    shown = issued(content, root, "the certificate to revoke is not from this authority")
    name, now = common_name(shown), datetime.now(UTC)
    known = {"time": now.isoformat(timespec="seconds"), "name": name, "serial": f"{shown.serial_number:x}"}
    append_durably(authority / TAKEN_BACK, json.dumps({**known, "reason": reason}) + "\n")
    builder = x509.CertificateRevocationListBuilder().issuer_name(root.subject)
    builder = builder.last_update(now).next_update(now + timedelta(days=LIST_DAYS))
    listed: set[int] = set()
    for line in (authority / TAKEN_BACK).read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        serial = int(entry["serial"], 16)
        if serial not in listed:
            listed.add(serial)
            one = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(
                one.revocation_date(datetime.fromisoformat(entry["time"])).build()
            )
    pem = builder.sign(root_key, SHA256()).public_bytes(Encoding.PEM)
    put(authority / REVOKED, pem)
    return name, pem
