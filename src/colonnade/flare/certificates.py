"""What can be known of a folder's certificates before the engine starts, each refusal in one sentence.

The authority's list of revoked ones lies in the folder too: it is read before sessions, and by the server.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.foundation.files import put
from colonnade.sites.site import STARTUP

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
HOST, PORT = re.compile(rf"({_LABEL}\.)*{_LABEL}"), re.compile(r"[0-9]{0,5}")
PROBE_SECONDS = 10.0  # a server across the world answers in one; a wrong address must not hold a person
NOT_YET, EXPIRED = 9, 10
"""OpenSSL's numbers for a certificate out of date."""
VERDICT_SECONDS = (0.2, 1.0)
"""How long a server's verdict on a certificate is waited for, at least and at most: five times its handshake."""

REVOKED = "revoked.crl"
WATCH_SECONDS = 5.0  # a certificate that is revoked keeps its line so long at most
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where the server is reached: the host is also the name in its certificate."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        host, _, port = text.partition(":")
        if not HOST.fullmatch(host) or not PORT.fullmatch(port) or not 0 < int(port or 8002) < 65536:
            raise StudyError(
                f"a server's address must be HOST or HOST:PORT, a host's name of letters, digits, - and ., got {text!r}"
            )
        return cls(host, int(port or 8002))


def common_name(shown: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Whom a certificate names, or a request; nobody who is one of ours where it names several."""
    return ", ".join(str(a.value) for a in shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def authority_of(folder: Path) -> x509.Certificate:
    """The study's authority, as the folder has it."""
    return x509.load_pem_x509_certificate((folder / STARTUP / "rootCA.pem").read_bytes())


def issued(content: bytes, root: x509.Certificate, refusal: str) -> x509.Certificate:
    """A certificate in PEM that this authority gave; raises PolicyError with the sentence for any other."""
    try:
        shown = x509.load_pem_x509_certificate(content)
        shown.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        raise PolicyError(refusal) from None
    return shown


def check_certificate(folder: Path, name: str, basename: str = "client") -> tuple[object, x509.Certificate]:
    """The folder's key and certificate: there, in date, signed by the folder's authority, with the name in it."""
    start = folder / STARTUP
    require_pair(folder, name, basename)
    own = read_certificate(folder, name, f"{basename}.crt")
    try:
        key = load_pem_private_key((start / f"{basename}.key").read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PolicyError(f"the key of {name} cannot be read: {STARTUP}/{basename}.key") from None
    if key.public_key() != own.public_key():
        raise PolicyError(f"the key of {name} is not that of its certificate: {STARTUP}/{basename}.key")
    return key, own


def require_pair(folder: Path, name: str, basename: str = "client") -> None:
    """Certificate and key are there, or the sentence says how a site gets them."""
    for file in (f"{basename}.crt", f"{basename}.key", "rootCA.pem"):
        if not (folder / STARTUP / file).is_file():
            raise PolicyError(
                f"{name} has no certificate: {STARTUP}/{file} is missing; colonnade cert request makes a key and a "
                "request, cert approve signs it at the authority, cert install puts the certificate here"
            )


def read_certificate(folder: Path, name: str, file: str) -> x509.Certificate:
    """One of the folder's certificates, wherever its key may be: in date, by the folder's authority, for the name."""
    try:
        content, root = (folder / STARTUP / file).read_bytes(), authority_of(folder)
        own = x509.load_pem_x509_certificate(content)
    except ValueError:
        raise PolicyError(f"the certificate of {name} cannot be read") from None
    if (found := common_name(own)) != name:
        raise PolicyError(f"the certificate is for {found or 'nobody'}, this folder is {name}'s")
    issued(content, root, f"the certificate of {name} is not from the authority of this study")
    now = datetime.now(UTC)
    if now < own.not_valid_before_utc:
        raise PolicyError(
            f"the certificate of {name} is not valid before {own.not_valid_before_utc:%Y-%m-%d %H:%M}, and the clock "
            f"of this machine says {now:%Y-%m-%d %H:%M}: is it behind?"
        )
    if now > own.not_valid_after_utc:
        raise PolicyError(f"the certificate of {name} ended on {own.not_valid_after_utc:%Y-%m-%d}")
    if (since := revoked_since(own, read_revoked(folder))) is not None:
        raise PolicyError(f"the certificate of {name} was revoked on {since:%Y-%m-%d}")
    return own


def server_address(folder: Path) -> tuple[Address, str]:
    """Where the folder's configuration says the server is, and the name that its certificate must bear."""
    if not (folder / STARTUP / "fed_admin.json").is_file():
        return _address_in(folder, "fed_client.json", "identity")
    content = read_config(folder, "fed_admin.json")
    try:
        server = content["admin"]
        return Address(str(server["host"]), int(server["port"])), str(server["server_identity"])
    except (KeyError, TypeError, ValueError):
        raise PolicyError(f"{STARTUP}/fed_admin.json must say where the server is, and does not") from None


def own_address(folder: Path) -> tuple[Address, str]:
    """At the server: where it listens, and the name that its own certificate must bear."""
    return _address_in(folder, "fed_server.json", "admin_server")


def _address_in(folder: Path, file: str, name: str) -> tuple[Address, str]:
    content = read_config(folder, file)
    try:
        server = content["servers"][0]
        return Address.of(server["service"]["target"]), str(server[name])
    except (KeyError, IndexError, TypeError):
        raise PolicyError(f"{STARTUP}/{file} must say where the server is, and does not") from None


def read_config(folder: Path, file: str) -> dict[str, Any]:
    """One of FLARE's own files in the folder."""
    try:
        content = json.loads((folder / STARTUP / file).read_text(encoding="utf-8"))
    except OSError:
        raise PolicyError(f"{folder.name}/{STARTUP}/{file} is missing: copy it back, or deploy anew") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise PolicyError(f"{folder.name}/{STARTUP}/{file} cannot be read: it must be JSON")
    return content


def probe(
    folder: Path, name: str, address: Address, server: str, seconds: float = PROBE_SECONDS, basename: str = "client"
) -> str:
    """A handshake with the server, both sides showing certificates; why there is none yet, or an empty text.

    Raises PolicyError where either side refuses the other, which no further try would change.
    """
    start, place = folder / STARTUP, f"{address.host}:{address.port}"
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(start / "rootCA.pem"))
    context.check_hostname = False
    context.load_cert_chain(start / f"{basename}.crt", start / f"{basename}.key")
    begun = time.monotonic()
    try:
        plain = socket.create_connection((address.host, address.port), timeout=seconds)
    except OSError:
        return f"the server cannot be reached at {place}"
    try:
        # The deadline is the whole handshake's.
        with context.wrap_socket(plain, server_hostname=address.host) as connection:
            shown = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
            if (found := common_name(shown)) != server:
                raise PolicyError(f"the server shows a certificate for {found}, it must be {server}")
            if (since := revoked_since(shown, read_revoked(folder))) is not None:
                raise PolicyError(f"the server shows a certificate that was revoked on {since:%Y-%m-%d}")
            # The server's verdict on our certificate comes after its part of the handshake.
            least, most = VERDICT_SECONDS
            connection.settimeout(min(most, max(least, 5 * (time.monotonic() - begun))))
            return _verdict(connection, name, place)
    except ssl.SSLCertVerificationError as error:
        raise PolicyError(_why_unfit(error)) from None
    except TimeoutError:
        return f"{place} takes connections and does not shake hands within {seconds:.0f} s"
    except (ssl.SSLEOFError, ConnectionError):
        return f"{place} takes connections and closes them before a handshake: it is crowded, or not the server"
    except ssl.SSLError as error:
        if "ALERT" in str(error.reason):
            raise PolicyError(f"the server refuses the certificate of {name}") from None
        return f"{place} does not speak TLS: something that is not the server answers"
    except ValueError:
        raise PolicyError("the server shows no certificate") from None


def probe_own(folder: Path) -> str:
    """At the server: whether its own port shakes hands; why not, or an empty text."""
    address, name = own_address(folder)
    host = address.host if address.host.startswith("127.") else "127.0.0.1"
    return probe(folder, name, Address(host, address.port), name, basename="server")


def _verdict(connection: ssl.SSLSocket, name: str, place: str) -> str:
    """What the server makes of our certificate: silence is consent."""
    try:
        return "" if connection.recv(1) else f"{place} shakes hands and then closes the line"
    except TimeoutError:
        return ""
    except ConnectionError:
        raise PolicyError(f"the server refuses the certificate of {name}") from None


def _why_unfit(error: ssl.SSLCertVerificationError) -> str:
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    if error.verify_code == NOT_YET:
        return f"the server's certificate is not valid yet: is the clock of this machine behind? It says {now}"
    if error.verify_code == EXPIRED:
        return f"the server's certificate has ended: is the clock of this machine ahead? It says {now}"
    return "the server's certificate is not from the authority of this study"


# What was revoked.


def parse_list(content: bytes, root: x509.Certificate) -> x509.CertificateRevocationList:
    """A list that the study's own authority signed; raises PolicyError for any other."""
    try:
        shown = x509.load_pem_x509_crl(content)
        signed = shown.is_signature_valid(root.public_key())  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise PolicyError("the list of revoked certificates cannot be read") from None
    if not signed or shown.issuer != root.subject:
        raise PolicyError("the list of revoked certificates is not from the authority of this study")
    return shown


def read_revoked(folder: Path) -> dict[int, datetime]:
    """Serial numbers with the day from which they are worth nothing; none where the folder has no list."""
    path = folder / STARTUP / REVOKED
    if not path.exists():
        return {}
    listed = parse_list(path.read_bytes(), authority_of(folder))
    return {entry.serial_number: entry.revocation_date_utc for entry in listed}


def revoked_since(certificate: x509.Certificate, revoked: Mapping[int, datetime]) -> datetime | None:
    """When it was revoked, if it is."""
    since = revoked.get(certificate.serial_number)
    return since if since is not None and since <= datetime.now(UTC) else None


def install_list(folder: Path, content: bytes) -> int:
    """Put a newer list into a folder; how many it names. An older one is refused: it may have forgotten somebody."""
    root, path = authority_of(folder), folder / STARTUP / REVOKED
    listed = parse_list(content, root)
    if path.exists():
        known = parse_list(path.read_bytes(), root)
        lost = {entry.serial_number for entry in known} - {entry.serial_number for entry in listed}
        if lost:
            count = f"{len(lost)} certificate{'s' * (len(lost) > 1)}"
            raise PolicyError(f"the list does not name {count} that the one in the folder names: whose were they?")
        if listed.last_update_utc < known.last_update_utc:
            raise PolicyError(
                f"the list of {listed.last_update_utc:%Y-%m-%d %H:%M} is older than the one in the folder, of "
                f"{known.last_update_utc:%Y-%m-%d %H:%M}"
            )
    put(path, content)
    return len(list(listed))


def refuse_revoked(folder: Path, context: ssl.SSLContext) -> None:
    """Make a listener refuse revoked certificates; a list that comes later is read within seconds."""
    _load(folder, context)
    threading.Thread(target=_watch, args=(folder, context), daemon=True).start()


def _load(folder: Path, context: ssl.SSLContext) -> None:
    path = folder / STARTUP / REVOKED
    if path.exists():
        context.load_verify_locations(str(path))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _watch(folder: Path, context: ssl.SSLContext) -> None:
    path, last = folder / STARTUP / REVOKED, 0
    while True:
        time.sleep(WATCH_SECONDS)
        try:
            now = path.stat().st_mtime_ns
            if now != last:
                last = now
                # Somebody else's list is not read: it could shut everybody out.
                read_revoked(folder)
                _load(folder, context)
        except FileNotFoundError:
            continue
        except (OSError, PolicyError) as error:
            log.warning("the list of revoked certificates is not used: %s", error)
