"""A tiny authority for tests: folders with a certificate, its key, and the authority's own certificate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from colonnade.flare.signing import CertificateSigner, PrivateKey
from colonnade.sites.site import STARTUP

DAY = timedelta(days=1)


def elliptic() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def edwards() -> PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def small() -> PrivateKey:
    return rsa.generate_private_key(65537, 1024)


def as_deployed() -> PrivateKey:
    """The kind of key that nvflare's provisioning makes."""
    return rsa.generate_private_key(65537, 2048)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])


class Authority:
    """Issues certificates; two authorities of one name are still two."""

    def __init__(self, name: str = "study", key: Callable[[], PrivateKey] = elliptic) -> None:
        self._name, self._key = _named(name), key()
        self.root = self._certificate(name, self._key, -DAY, 30 * DAY, ca=True)

    def _certificate(self, name: str, key: PrivateKey, start: timedelta, end: timedelta, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, _named(name), key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now + start).not_valid_after(now + end)
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        return builder.sign(self._key, None if isinstance(self._key, ed25519.Ed25519PrivateKey) else SHA256())

    def folder(
        self,
        place: Path,
        name: str,
        start: timedelta = -DAY,
        end: timedelta = 30 * DAY,
        key: Callable[[], PrivateKey] = elliptic,
    ) -> Path:
        """An organisation's folder, as far as certificates go."""
        made = key()
        startup = place / name / STARTUP
        startup.mkdir(parents=True)
        certificate = self._certificate(name, made, start, end, ca=False)
        (startup / "client.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        (startup / "client.key").write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (startup / "rootCA.pem").write_bytes(self.root.public_bytes(Encoding.PEM))
        return place / name

    def signer(self, place: Path, name: str, key: Callable[[], PrivateKey] = elliptic) -> CertificateSigner:
        return CertificateSigner(self.folder(place, name, key=key), name)

    def late(self, place: Path, name: str, start: timedelta, end: timedelta) -> CertificateSigner:
        """A signer whose own folder is in order, and which shows a certificate of other dates."""
        signer = self.signer(place, name)
        signer._own = self._certificate(name, signer._key, start, end, ca=False).public_bytes(Encoding.DER)
        return signer
