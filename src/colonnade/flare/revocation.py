"""The authority's list of revoked certificates in a site's folder: read before sessions, and by the server."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from colonnade.foundation.errors import PolicyError
from colonnade.foundation.files import places
from colonnade.sites.site import STARTUP

REVOKED = "revoked.crl"
WATCH_SECONDS = 5.0  # a certificate that is revoked keeps its line so long at most
log = logging.getLogger(__name__)


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
    root = x509.load_pem_x509_certificate((folder / STARTUP / "rootCA.pem").read_bytes())
    listed = parse_list(path.read_bytes(), root)
    return {entry.serial_number: entry.revocation_date_utc for entry in listed}


def revoked_since(certificate: x509.Certificate, revoked: Mapping[int, datetime]) -> datetime | None:
    """When it was revoked, if it is."""
    since = revoked.get(certificate.serial_number)
    return since if since is not None and since <= datetime.now(UTC) else None


def install_list(folder: Path, content: bytes) -> int:
    """Put a newer list into a folder; how many it names. An older one is refused: it may have forgotten somebody."""
    root = x509.load_pem_x509_certificate((folder / STARTUP / "rootCA.pem").read_bytes())
    path = folder / STARTUP / REVOKED
    listed = parse_list(content, root)
    if path.exists():
        known = parse_list(path.read_bytes(), root)
        lost = {entry.serial_number for entry in known} - {entry.serial_number for entry in listed}
        if lost or listed.last_update_utc < known.last_update_utc:
            raise PolicyError(
                f"the list of {listed.last_update_utc:%Y-%m-%d %H:%M} is older than the one in the folder, of "
                f"{known.last_update_utc:%Y-%m-%d %H:%M}"
            )
    with places(path) as (file,):
        file.write(content)
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
