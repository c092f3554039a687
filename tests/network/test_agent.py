"""A party signs by a key that a real SSH agent holds, in its memory or on a PKCS#11 token; the key never leaves it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.flare.agent import Agent, find_key
from colonnade.flare.certificates import Address, install_list
from colonnade.flare.deploy import deploy_new
from colonnade.flare.doctor import examine
from colonnade.flare.renewal import install_certificate, revoke_certificate
from colonnade.flare.signing import CertificateSigner
from colonnade.foundation.errors import PolicyError, SignatureError
from colonnade.sites.site import read_site
from tests.helpers import cli_study
from tests.helpers.cli_study import Run
from tests.helpers.wires import PARTIES, run, unmatched, write_study

LIBRARY = next((p for p in Path("/usr/lib").glob("**/libsofthsm2.so")), None)
PIN = "1234"
agent_needed = pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="there is no ssh-agent (openssh-client)")


@pytest.fixture
def socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real agent that ends with the test; a socket's path must be short."""
    # The agent's helper reads where tokens lie.
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm.conf"))
    path = Path(f"/tmp/colonnade-{os.getpid()}-{threading.get_ident() % 9973}.sock")
    path.unlink(missing_ok=True)
    told = subprocess.run(["ssh-agent", "-a", path, "-P", "/usr/lib/*"], capture_output=True, text=True, check=True)
    number = int(told.stdout.split("SSH_AGENT_PID=")[1].split(";")[0])
    yield path
    os.kill(number, signal.SIGTERM)
    path.unlink(missing_ok=True)


def add(path: Path, *words: str, pin: str = "", place: Path | None = None) -> None:
    env = {**os.environ, "SSH_AUTH_SOCK": str(path)}
    if place is not None:
        asker = place / "askpass"
        asker.write_text(f"#!/bin/sh\necho {pin}\n")
        asker.chmod(0o700)
        env |= {"SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    subprocess.run(["ssh-add", *words], env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def in_memory(path: Path, place: Path) -> str:
    """An Ed25519 key whose file is gone once the agent has it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "colonnade", "-f", place / "k"], check=True)
    add(path, str(place / "k"))
    (place / "k").unlink()
    return "colonnade"


def on_token(path: Path, place: Path) -> str:
    """A P-256 key on a SoftHSM token, which the agent reaches by PKCS#11."""
    if LIBRARY is None or shutil.which("softhsm2-util") is None:
        pytest.skip("there is no PKCS#11 token: softhsm2 is not installed")
    from tests.helpers.authority import elliptic

    (place / "tokens").mkdir()
    (place / "softhsm.conf").write_text(f"directories.tokendir = {place / 'tokens'}\nobjectstore.backend = file\n")
    (place / "k.pem").write_bytes(elliptic().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    make = ["softhsm2-util", "--init-token", "--free", "--label", "bank", "--pin", PIN, "--so-pin", PIN]
    subprocess.run(make, check=True, capture_output=True)
    put = ["softhsm2-util", "--import", place / "k.pem", "--token", "bank", "--label", "colonnade", "--id", "01"]
    subprocess.run([*put, "--pin", PIN], check=True, capture_output=True)
    (place / "k.pem").unlink()
    add(path, "-s", str(LIBRARY), pin=PIN, place=place)
    (key,) = Agent(str(path)).list_keys()
    return key.comment


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return cli_study.runner(monkeypatch, capfd)


@pytest.fixture
def sites(tmp_path: Path, socket_path: Path) -> Path:
    write_study(tmp_path)
    deploy_new(tmp_path / "study.toml", tmp_path / "sites", Address("localhost", 8002))
    site = tmp_path / "sites" / "bank" / "site.toml"
    site.write_text(site.read_text().replace("[site]\n", f'[site]\nsigning_agent = "{socket_path}"\n', 1))
    return tmp_path / "sites"


def certify(runner: Run, sites: Path, comment: str) -> None:
    """By the three commands of an administrator."""
    bank, asked, signed = sites / "bank", sites / "bank.csr", sites / "bank.crt"
    for words in (
        ["cert", "request", bank, "--signing", comment, "--out", asked],
        ["cert", "approve", sites / "authority", asked, "--out", signed],
        ["cert", "install", bank, signed],
    ):
        assert runner(*words).code == 0


def signing_of(sites: Path) -> tuple[str, str]:
    (found,) = [d for d in examine([sites / "bank"]) if d.about == "signing"]
    return found.verdict, found.sentence


@agent_needed
@pytest.mark.parametrize("hold", [in_memory, on_token])
def test_a_session_signed_by_an_agent(
    hold: Callable[[Path, Path], str], runner: Run, sites: Path, socket_path: Path, tmp_path: Path
) -> None:
    """Request, approve, install, doctor, and a whole session of three parties that check the signatures."""
    comment = hold(socket_path, tmp_path)
    assert signing_of(sites)[0] == "fault" and "cert request --signing" in signing_of(sites)[1]
    certify(runner, sites, comment)
    assert signing_of(sites) == ("ok", f"by a key that the agent at {socket_path} holds")
    agents = {"bank": str(socket_path)}
    signers = {name: CertificateSigner(sites / name, name, agents.get(name)) for name in PARTIES}
    study = unmatched(write_study(tmp_path), tmp_path)
    out = run(study, tmp_path, signers=signers)
    assert not out.errors and set(out.releases) == set(PARTIES)
    # No file of the folder holds the key that signed.
    shown = signers["bank"].sign(b"said")
    signers["town"].check("bank", b"said", shown)
    assert shown[:900] != CertificateSigner(sites / "bank", "bank").sign(b"said")[:900]
    with pytest.raises(SignatureError):
        signers["town"].check("bank", b"another", shown)
    with pytest.raises(PolicyError, match="cannot be taken out"):
        find_key(Agent(str(socket_path)), comment).private_bytes()


@agent_needed
def test_what_an_agent_lacks_is_named(runner: Run, sites: Path, socket_path: Path, tmp_path: Path) -> None:
    comment = in_memory(socket_path, tmp_path)
    with pytest.raises(PolicyError, match="must hold one Ed25519 or P-256 key 'other', got 0; it holds 'colonnade'"):
        find_key(Agent(str(socket_path)), "other")
    in_memory(socket_path, tmp_path)
    with pytest.raises(PolicyError, match="got 2; it holds 'colonnade', 'colonnade'"):
        find_key(Agent(str(socket_path)), comment)
    add(socket_path, "-D")
    in_memory(socket_path, tmp_path)
    certify(runner, sites, comment)
    signer = CertificateSigner(sites / "bank", "bank", str(socket_path))
    add(socket_path, "-D")
    assert "does not hold the key of signing.crt" in signing_of(sites)[1]
    with pytest.raises(PolicyError, match="refuses"):
        signer.sign(b"said")
    # A revoked signing certificate is refused as any other is.
    _, listed = revoke_certificate(sites / "authority", (sites / "bank" / "startup" / "signing.crt").read_bytes())
    install_list(sites / "bank", listed)
    assert "was revoked on" in signing_of(sites)[1]


@agent_needed
def test_a_certificate_for_connections_only_signs_nothing(runner: Run, sites: Path, tmp_path: Path) -> None:
    """A stolen folder cannot sign: by its own rules, and in the eyes of peers whatever it does. It still connects."""
    before = CertificateSigner(sites / "bank", "bank")
    for words in (
        ["cert", "request", sites / "bank", "--out", sites / "bank.csr"],
        ["cert", "approve", sites / "authority", sites / "bank.csr", "--connections-only", "--out", sites / "bank.crt"],
        ["cert", "install", sites / "bank", sites / "bank.crt"],
    ):
        assert runner(*words).code == 0
    with pytest.raises(PolicyError, match=r"the certificate of bank is for connections only: site\.toml must name"):
        CertificateSigner(sites / "bank", "bank")
    start = sites / "bank" / "startup"
    before._key = load_pem_private_key((start / "client.key").read_bytes(), None)  # type: ignore[assignment]
    before._own = x509.load_pem_x509_certificate((start / "client.crt").read_bytes()).public_bytes(Encoding.DER)
    with pytest.raises(SignatureError, match="the certificate that bank signs by is for connections only"):
        CertificateSigner(sites / "town", "town").check("bank", b"said", before.sign(b"said"))
    assert shake_hands(start, sites / "server" / "startup") == "bank"


def shake_hands(client: Path, server: Path) -> str:
    """Mutual TLS with the folders' own files; whom the server has seen."""
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.check_hostname = False
    theirs.verify_mode = ssl.CERT_REQUIRED
    for context, folder, name in ((ours, client, "client"), (theirs, server, "server")):
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
        context.load_verify_locations(folder / "rootCA.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one, other = ours.wrap_bio(to_client, to_server), theirs.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (one, other):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = other.getpeercert()
    assert shown is not None
    return str(dict(pair for (pair,) in shown["subject"])["commonName"])  # type: ignore[misc, union-attr]


def test_an_agent_that_is_gone_or_talks_nonsense() -> None:
    path = f"/tmp/colonnade-nonsense-{os.getpid()}.sock"
    with pytest.raises(PolicyError, match="does not answer"):
        Agent(path).list_keys()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(4)

        def answer() -> None:
            for said in (struct.pack(">I", 1 << 30), struct.pack(">IBI", 5, 12, 9), b"\0\0"):
                line, _ = listening.accept()
                with line:
                    line.recv(64)
                    line.sendall(said)

        teller = threading.Thread(target=answer)
        teller.start()
        for told in ("at most 262144 are read", "ends too soon", "does not answer"):
            with pytest.raises(PolicyError, match=told):
                Agent(path).list_keys()
        teller.join()
    Path(path).unlink()


def test_a_certificate_for_another_key_is_not_taken(tmp_path: Path) -> None:
    write_study(tmp_path)
    deploy_new(tmp_path / "study.toml", tmp_path / "sites", Address("localhost", 8002))
    town = tmp_path / "sites" / "town"
    (town / "startup" / "client.key").write_bytes((tmp_path / "sites" / "bank" / "startup" / "client.key").read_bytes())
    with pytest.raises(PolicyError, match="not for the key that waits here"):
        install_certificate(read_site(town), (town / "startup" / "client.crt").read_bytes())


def test_the_environment_may_name_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/somewhere")
    assert Agent.of("environment") == Agent("/somewhere")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(PolicyError, match="SSH_AUTH_SOCK"):
        Agent.of("environment")
