"""What a party signs with the key of its certificate, and how a peer's signature is checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from colonnade.flare.certificates import (
    check_certificate,
    common_name,
    read_certificate,
    read_revoked,
    revoked_since,
)
from colonnade.foundation.errors import LapsedError, PolicyError, SignatureError
from colonnade.sites.site import SITE, STARTUP

LARGEST_PROOF = 1 << 13
"""A proof above this is refused before it is read: a certificate has about 800 bytes, a signature 256."""
SMALLEST_RSA = 2048  # bits; what NIST SP 800-57 allows to 2030
_PSS = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """A certificate in DER, and a signature by its key."""

    certificate: bytes
    signature: bytes


class SignedBy(NamedTuple):
    """By what a statement was found to be signed."""

    certificate: bytes
    revoked: bool
    """Since then: whoever signs by it today may be a thief."""


_decoder = msgspec.msgpack.Decoder(Proof)


def read_proof(peer: str, data: bytes) -> Proof:
    """A proof's two parts; nothing is believed yet."""
    if len(data) > LARGEST_PROOF:
        raise SignatureError(f"a proof of {peer} must have at most {LARGEST_PROOF} bytes, got {len(data)}")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
        raise SignatureError(f"a proof of {peer} with {len(data)} bytes cannot be decoded") from None


class CertificateChecker:
    """Knows by an authority's certificate whether a peer's own, valid at some time, signed a statement."""

    def __init__(
        self, root: x509.Certificate, at: datetime | None = None, revoked: Mapping[int, datetime] | None = None
    ) -> None:
        """Without a time, certificates must be valid now, and not be on the list of those that were revoked."""
        self._root, self._at, self._revoked = root, at, revoked

    def check(self, peer: str, statement: bytes, proof: bytes) -> SignedBy:
        """Raise SignatureError unless the peer's own certificate, by this study's authority, signed the statement.

        What is signed well, by a certificate that does not count at that time, raises LapsedError.
        """
        shown = read_proof(peer, proof)
        try:
            certificate = x509.load_der_x509_certificate(shown.certificate)
            found = common_name(certificate)
            certificate.verify_directly_issued_by(self._root)
            first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            key = certificate.public_key()
        except (InvalidSignature, x509.InvalidVersion, UnsupportedAlgorithm, ValueError, TypeError):
            raise SignatureError(
                f"the certificate that {peer} signs by is not from the authority of this study"
            ) from None
        if found != peer:
            # The authority gave these names, so that they may be told.
            raise SignatureError(f"what came in the name of {peer} is signed by {found or 'nobody'}")
        if for_connections_only(certificate):
            raise SignatureError(f"the certificate that {peer} signs by is for connections only")
        try:
            if isinstance(key, rsa.RSAPublicKey) and key.key_size >= SMALLEST_RSA:
                key.verify(shown.signature, statement, _PSS, SHA256())
            elif isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(shown.signature, statement, ec.ECDSA(SHA256()))
            elif isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(shown.signature, statement)
            else:
                raise SignatureError(f"the certificate of {peer} has a key of a kind that nobody signs by")
        except (InvalidSignature, UnsupportedAlgorithm):
            raise SignatureError(f"the signature of {peer} does not fit what came in its name") from None
        at = self._at or datetime.now(UTC)
        if not first <= at <= last:
            raise LapsedError(f"the certificate that {peer} signs by is valid from {first:%Y-%m-%d} to {last:%Y-%m-%d}")
        since = revoked_since(certificate, self._revoked or {})
        if since is not None and since <= at:
            raise LapsedError(f"the certificate that {peer} signs by was revoked on {since:%Y-%m-%d}")
        return SignedBy(shown.certificate, since is not None)


def for_connections_only(certificate: x509.Certificate) -> bool:
    """Whether the authority gave it for connections, its party signing by another key."""
    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def read_authority(path: Path) -> x509.Certificate:
    """An authority's certificate in a PEM file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise PolicyError(f"{path} must hold the certificate of an authority (PEM)") from None


def agent_key(folder: Path, name: str, agent: str) -> tuple[object, x509.Certificate]:
    """The key that an agent holds for the folder's signing certificate."""
    from colonnade.flare.agent import SIGNING_CERTIFICATE, key_of, named_agent

    if not (folder / STARTUP / SIGNING_CERTIFICATE).is_file():
        raise PolicyError(
            f"{name} signs by an agent, and has no certificate for that: colonnade cert request --signing asks for one"
        )
    own = read_certificate(folder, name, SIGNING_CERTIFICATE)
    return key_of(named_agent(folder, agent), own.public_key()), own


class CertificateSigner(CertificateChecker):
    """Signs for one site; checks peers by the authority in its own folder. The key stays in here."""

    def __init__(self, folder: Path, name: str, agent: str | None = None) -> None:
        """By the key of the connection's certificate; or by one that an agent holds, with a certificate of its own."""
        # As of now: a session is not broken by a list that comes while it runs.
        super().__init__(read_authority(folder / STARTUP / "rootCA.pem"), revoked=read_revoked(folder))
        key, own = check_certificate(folder, name) if agent is None else agent_key(folder, name, agent)
        if not isinstance(key, PrivateKey):
            raise PolicyError(f"the key of {name} must be RSA, elliptic-curve or Ed25519, got another kind")
        if for_connections_only(own):
            raise PolicyError(f"the certificate of {name} is for connections only: {SITE} must name a signing_agent")
        self._name, self._key, self._own = name, key, own.public_bytes(Encoding.DER)
        self._seen: dict[str, bytes] = {}

    def check(self, peer: str, statement: bytes, proof: bytes) -> SignedBy:
        """The same; a peer signs all of a session by one certificate."""
        shown = super().check(peer, statement, proof)
        if self._seen.setdefault(peer, shown.certificate) != shown.certificate:
            raise SignatureError(f"party {peer} signs by two certificates in one session")
        return shown

    def sign(self, statement: bytes) -> bytes:
        """A proof that this site says so."""
        key = self._key
        if isinstance(key, rsa.RSAPrivateKey):
            signature = key.sign(statement, _PSS, SHA256())
        elif isinstance(key, ec.EllipticCurvePrivateKey):
            signature = key.sign(statement, ec.ECDSA(SHA256()))
        else:
            signature = key.sign(statement)
        return msgspec.msgpack.encode(Proof(self._own, signature))

    def __repr__(self) -> str:
        return f"CertificateSigner({self._name!r})"
