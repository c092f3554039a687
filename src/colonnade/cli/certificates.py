"""The `cert` commands: keys that stay where they are made, certificates renewed and revoked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colonnade.cli.options import Json, flag, group, option, path_argument, path_option, require_engine
from colonnade.cli.screen import tell
from colonnade.foundation.errors import PolicyError

app = group("Certificates of a deployed study: request, approve, install, revoke.")
Folder = Annotated[Path, path_argument("FOLDER", "The organisation's folder.")]
AuthorityFolder = Annotated[Path, path_argument("AUTHORITY", "The folder authority/ that deploy new wrote.")]
Out = Annotated[Path | None, path_option("--out", "File to write; NAME if not given.")]


def _write(path: Path, content: bytes) -> None:
    from colonnade.foundation.files import places

    with places(path) as (file,):
        file.write(content)


@app.command(short_help="Make a key here, and a request for its certificate.")
def request(
    folder: Folder,
    signing: Annotated[
        str | None,
        option(
            "--signing",
            "COMMENT",
            "For the key of this comment in the agent that site.toml names: the party signs by it.",
        ),
    ] = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Make a new key in the folder, where it stays, and write a request for its certificate, for the authority."""
    require_engine()
    from colonnade.flare.renewal import bearer, request_certificate, request_signing
    from colonnade.sites.site import read_site

    site = read_site(folder)
    content, fingerprint = request_certificate(site) if signing is None else request_signing(site, signing)
    path = out or Path(f"{site.name}.csr")
    _write(path, content)
    tell(
        json,
        {"request": str(path), "name": bearer(site)[0], "fingerprint": fingerprint},
        f"The request is in {path}; send it to whoever keeps authority/. The key stays where it is.",
        f"Its fingerprint, to be compared by telephone: {fingerprint}",
    )


@app.command(short_help="Sign a request, at the authority.")
def approve(
    authority: AuthorityFolder,
    request: Annotated[Path, path_argument("REQUEST", "A site's request.")],
    fingerprint: Annotated[
        str | None, option("--fingerprint", "HEX", "What the site read out; another is refused.")
    ] = None,
    days: Annotated[int, option("--days", "N", "How long it is valid.", min=1)] = 360,
    connections_only: Annotated[
        bool, flag("--connections-only", "No peer takes a signature by it: the party signs by an agent's key.")
    ] = False,
    out: Out = None,
    json: Json = False,
) -> None:
    """Sign a site's request, for a name of this deployment. Compare the fingerprint with what the site says."""
    require_engine()
    from colonnade.flare.renewal import approve_request, request_fingerprint

    content = request.read_bytes()
    if fingerprint is not None and "".join(fingerprint.split()) != "".join(request_fingerprint(content).split()):
        raise PolicyError(f"the request's fingerprint is {request_fingerprint(content)}, another was read out")
    signed = approve_request(authority, content, days, connections_only)
    path = out or Path(f"{signed.name}.crt")
    _write(path, signed.pem)
    known = {"name": signed.name, "fingerprint": signed.fingerprint, "until": signed.until.isoformat()}
    said = f"The certificate of {signed.name}, valid until {signed.until:%Y-%m-%d}, is in {path}; send it back."
    tell(json, {"certificate": str(path), **known}, said, f"The key's fingerprint: {signed.fingerprint}")


@app.command(short_help="Put a signed certificate, or a list of revoked ones, into a folder.")
def install(
    folder: Folder,
    file: Annotated[Path, path_argument("FILE", "A certificate, or a list of revoked ones.")],
    json: Json = False,
) -> None:
    """Put a signed certificate into the folder, with the key that waited for it; or the authority's list of revoked."""
    require_engine()
    from colonnade.flare.certificates import install_list
    from colonnade.flare.renewal import install_certificate
    from colonnade.sites.site import read_site

    content, site = file.read_bytes(), read_site(folder)
    if b"BEGIN X509 CRL" in content:
        count = install_list(folder, content)
        told: dict[str, int | str] = {"revoked": count}
        said = f"{site.name} knows of {count} revoked certificates; sessions that begin now refuse them."
    else:
        until = install_certificate(site, content)
        told = {"until": until.isoformat()}
        said = f"The certificate of {site.name} is valid until {until:%Y-%m-%d}. " + (
            "Restart the server to show it." if site.role == "server" else "It is used from the next connection on."
        )
    tell(json, {"site": site.name, **told}, said)


@app.command(short_help="Take a certificate back, at the authority.")
def revoke(
    authority: AuthorityFolder,
    certificate: Annotated[Path, path_argument("CERTIFICATE", "The one to revoke.")],
    reason: Annotated[str, option("--reason", "TEXT", "Kept at the authority.")] = "",
    out: Annotated[
        Path | None, path_option("--out", "The list to write, for all sites; revoked.crl if not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a certificate to the authority's list, and write the list; every site gets it by `cert install`."""
    require_engine()
    from colonnade.flare.renewal import revoke_certificate

    name, content = revoke_certificate(authority, certificate.read_bytes(), reason)
    out = Path("revoked.crl") if out is None else out
    _write(out, content)
    said = f"The certificate of {name} is revoked; every site needs the list: colonnade cert install FOLDER {out}"
    tell(json, {"name": name, "list": str(out)}, said)
