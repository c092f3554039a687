"""Certificates by signing request: keys stay, names are checked, sessions and old certificates outlive a renewal."""

from __future__ import annotations

import base64
import json
import shutil
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

pytest.importorskip("nvflare", reason="the extra flare is not installed")


from colonnade.flare import renewal
from colonnade.flare.certificates import Address, check_certificate, install_list
from colonnade.flare.deploy import deploy_new
from colonnade.flare.doctor import examine
from colonnade.flare.provision import COORDINATOR
from colonnade.flare.renewal import approve_request, install_certificate, request_certificate, revoke_certificate
from colonnade.flare.signing import CertificateSigner
from colonnade.foundation.errors import PolicyError, SignatureError, StudyError
from colonnade.sites.site import read_site
from tests.helpers.cli_study import runner
from tests.helpers.wires import PARTIES, write_study


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keyless")
    write_study(place)
    deploy_new(place / "study.toml", place / "sites", Address("localhost", 8002), keyless=True)
    return place / "sites"


@pytest.fixture
def empty(keyless: Path, tmp_path: Path) -> Path:
    shutil.copytree(keyless, tmp_path / "sites")
    return tmp_path / "sites"


def renew(sites: Path, name: str) -> bytes:
    site = read_site(sites / name)
    signed = approve_request(sites / "authority", request_certificate(site)[0])
    install_certificate(site, signed.pem)
    return signed.pem


@pytest.fixture
def sites(empty: Path) -> Path:
    """All parties have asked, and have what they asked for."""
    for name in PARTIES:
        renew(empty, name)
    return empty


def test_a_keyless_deployment_holds_no_key_but_the_authoritys(keyless: Path) -> None:
    holders = [
        p.relative_to(keyless).parts[0] for p in keyless.rglob("*") if p.is_file() and b"PRIVATE" in p.read_bytes()
    ]
    assert holders == ["authority"]
    with pytest.raises(PolicyError, match=r"bank has no certificate: startup/client\.crt is missing"):
        check_certificate(keyless / "bank", "bank")
    for name in ("bank", "server", "coordinator"):
        text = (keyless / name / "README.md").read_text()
        assert "holds the key" not in text and all(f"cert {word}" in text for word in ("request", "approve", "install"))


@pytest.mark.parametrize("name", [*PARTIES, "server", "coordinator"])
def test_a_site_gets_its_certificate_and_its_key_stays(empty: Path, name: str) -> None:
    site = read_site(empty / name)
    bears, basename = renewal.bearer(site)
    asked, fingerprint = request_certificate(site)
    assert b"PRIVATE" not in asked
    assert request_certificate(site)[1] == fingerprint, "asked again, the key is the same"
    signed = approve_request(empty / "authority", asked)
    assert (signed.name, signed.fingerprint) == (bears, fingerprint)
    install_certificate(site, signed.pem)
    check_certificate(empty / name, bears, basename)
    key = empty / name / "startup" / f"{basename}.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and not (empty / name / "startup" / "next.key").exists()
    shown = x509.load_pem_x509_certificate(signed.pem)
    # A site whose clock is an hour behind can use it.
    assert shown.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=59)
    roles = [a.value for a in shown.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)]
    assert roles == (["lead"] if name == "coordinator" else [])
    kept = [p for p in (empty / "authority").rglob("*") if p.is_file() and key.read_bytes() in p.read_bytes()]
    assert kept == []


def made_up(name: str, bits: int = 2048, role: str = "project_admin") -> bytes:
    key = rsa.generate_private_key(65537, bits)
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role)]
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts)).sign(key, SHA256())
    return asked.public_bytes(Encoding.PEM)


def test_the_authority_signs_names_that_it_knows_and_no_more(empty: Path) -> None:
    authority = empty / "authority"
    with pytest.raises(PolicyError, match="this deployment has no eve: it has bank, coordinator@"):
        approve_request(authority, made_up("eve"))
    with pytest.raises(PolicyError, match="RSA of 2048 bits or more"):
        approve_request(authority, made_up("bank", 1024))
    with pytest.raises(StudyError, match="must be a signing request in PEM"):
        approve_request(authority, b"nothing")
    # Whoever has no key to a public one, such as a partner's, cannot ask for a certificate of it.
    lines = made_up("bank").decode().splitlines()
    der = bytearray(base64.b64decode("".join(lines[1:-1])))
    der[-1] ^= 1
    bent = "\n".join([lines[0], base64.b64encode(bytes(der)).decode(), lines[-1]])
    with pytest.raises(PolicyError, match="is not signed by the key that it names"):
        approve_request(authority, bent.encode())
    with pytest.raises(StudyError, match="must be the folder authority/"):
        approve_request(empty / "bank", made_up("bank"))
    # Whoever asks cannot choose a role.
    shown = x509.load_pem_x509_certificate(approve_request(authority, made_up("bank")).pem)
    assert not shown.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
    assert not (authority / "revoked.jsonl").exists() and "bank" in (authority / "issued.jsonl").read_text()


def test_a_certificate_for_another_key_or_name_is_not_installed(empty: Path) -> None:
    bank = read_site(empty / "bank")
    request_certificate(bank)
    other = approve_request(empty / "authority", made_up("bank")).pem
    with pytest.raises(PolicyError, match="is not for the key that waits here"):
        install_certificate(bank, other)
    town = approve_request(empty / "authority", made_up("town")).pem
    with pytest.raises(PolicyError, match="is for town, this folder is bank's"):
        install_certificate(bank, town)
    with pytest.raises(PolicyError, match="not from the authority"):
        install_certificate(bank, b"nothing")
    assert not (empty / "bank" / "startup" / "client.crt").exists()


def test_an_installation_that_broke_half_way_goes_on(sites: Path) -> None:
    bank = read_site(sites / "bank")
    signed = approve_request(sites / "authority", request_certificate(bank)[0])
    start = sites / "bank" / "startup"
    (start / "next.key").rename(start / "client.key")
    with pytest.raises(PolicyError, match="is not that of its certificate"):
        check_certificate(sites / "bank", "bank")
    install_certificate(bank, signed.pem)
    check_certificate(sites / "bank", "bank")


def test_a_renewal_breaks_no_session_that_runs_and_keeps_the_old_certificate(sites: Path) -> None:
    before, peer = CertificateSigner(sites / "bank", "bank"), CertificateSigner(sites / "town", "town")
    old = (sites / "bank" / "startup" / "client.crt").read_bytes()
    renew(sites, "bank")
    after = CertificateSigner(sites / "bank", "bank")
    # One session, one certificate; the next session has the other.
    peer.check("bank", b"said", before.sign(b"said"))
    with pytest.raises(SignatureError, match="two certificates in one session"):
        peer.check("bank", b"said", after.sign(b"said"))
    CertificateSigner(sites / "town", "town").check("bank", b"said", after.sign(b"said"))
    (kept,) = (sites / "bank" / "startup" / "past").iterdir()
    assert kept.read_bytes() == old


def test_what_is_revoked_is_refused_by_sessions_that_begin_later(sites: Path) -> None:
    stolen, running = CertificateSigner(sites / "bank", "bank"), CertificateSigner(sites / "town", "town")
    old = (sites / "bank" / "startup" / "client.crt").read_bytes()
    name, listed = revoke_certificate(sites / "authority", old, "the laptop was stolen")
    assert name == "bank" and install_list(sites / "town", listed) == 1
    time.sleep(1.1)
    running.check("bank", b"said", stolen.sign(b"said"))
    fresh = CertificateSigner(sites / "town", "town")
    with pytest.raises(SignatureError, match="the certificate that bank signs by was revoked on"):
        fresh.check("bank", b"said", stolen.sign(b"said"))
    # The bank itself notices, renews, and is in again; nobody else had to change anything but the list.
    install_list(sites / "bank", listed)
    with pytest.raises(PolicyError, match="the certificate of bank was revoked on"):
        CertificateSigner(sites / "bank", "bank")
    assert any(f.about == "certificate" and "was revoked on" in f.sentence for f in examine([sites / "bank"]))
    renew(sites, "bank")
    fresh.check("bank", b"said", CertificateSigner(sites / "bank", "bank").sign(b"said"))


def test_a_list_of_another_authority_or_an_older_one_is_refused(sites: Path, keyless: Path) -> None:
    folder, authority = sites / "town", sites / "authority"
    first = revoke_certificate(authority, (sites / "bank" / "startup" / "client.crt").read_bytes())[1]
    time.sleep(1.1)
    second = revoke_certificate(authority, (sites / "works" / "startup" / "client.crt").read_bytes())[1]
    assert install_list(folder, second) == 2
    with pytest.raises(PolicyError, match="does not name 1 certificate that the one in the folder names"):
        install_list(folder, first)
    # A newer one may have forgotten somebody, where an authority has lost its book; and one of the same may be older.
    book = authority / "revoked.jsonl"
    lines = book.read_text().splitlines(keepends=True)
    book.write_text("")
    time.sleep(1.1)
    forgot = revoke_certificate(authority, (sites / "works" / "startup" / "client.crt").read_bytes())[1]
    with pytest.raises(PolicyError, match="does not name 1 certificate that the one in the folder names"):
        install_list(folder, forgot)
    book.write_text("".join(lines))
    time.sleep(1.1)
    third = revoke_certificate(authority, (sites / "works" / "startup" / "client.crt").read_bytes())[1]
    assert install_list(folder, third) == 2
    with pytest.raises(PolicyError, match="is older than the one in the folder"):
        install_list(folder, second)
    write_study(sites)
    deploy_new(sites / "study.toml", sites / "others", Address("localhost", 8002))
    foreign = revoke_certificate(
        sites / "others" / "authority", (sites / "others/bank/startup/client.crt").read_bytes()
    )[1]
    with pytest.raises(PolicyError, match="is not from the authority of this study"):
        install_list(folder, foreign)
    with pytest.raises(PolicyError, match="not from this authority"):
        revoke_certificate(authority, (sites / "others" / "bank" / "startup" / "client.crt").read_bytes())


def test_the_commands_go_the_whole_way(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capfd)
    monkeypatch.chdir(empty)
    asked = run("cert", "request", "bank", "--json").json
    assert asked["request"] == "bank.csr" and asked["name"] == "bank"
    wrong = run("cert", "approve", "authority", "bank.csr", "--fingerprint", "00ff")
    assert wrong.code == 1 and "another was read out" in wrong.err
    signed = run("cert", "approve", "authority", "bank.csr", "--fingerprint", asked["fingerprint"], "--json").json
    assert signed["certificate"] == "bank.crt" and signed["fingerprint"] == asked["fingerprint"]
    assert "valid until" in run("cert", "install", "bank", "bank.crt").out
    check_certificate(empty / "bank", "bank")
    assert run("cert", "revoke", "authority", "bank.crt", "--reason", "lost").code == 0
    assert "knows of 1 revoked" in run("cert", "install", "bank", "revoked.crl").out
    notes = [json.loads(line) for line in (empty / "authority" / "revoked.jsonl").read_text().splitlines()]
    assert [(n["name"], n["reason"]) for n in notes] == [("bank", "lost")]
    assert COORDINATOR not in asked["name"]
