"""A site signs with the key of its certificate, and a signature that is not the peer's own is refused by a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from colonnade.flare.signing import LARGEST_PROOF, CertificateSigner, PrivateKey, Proof, read_proof
from colonnade.foundation.errors import PolicyError, SignatureError
from colonnade.protocol.codes import Code, code_of
from tests.helpers.authority import DAY, Authority, as_deployed, edwards, elliptic, small

SAID = b"colonnade/1 vouch bank's mask key"


@pytest.fixture
def ours() -> Authority:
    return Authority()


@pytest.fixture
def town(ours: Authority, tmp_path: Path) -> CertificateSigner:
    return ours.signer(tmp_path, "town")


@pytest.fixture
def bank(ours: Authority, tmp_path: Path) -> CertificateSigner:
    return ours.signer(tmp_path, "bank")


@pytest.mark.parametrize("key", [elliptic, edwards, as_deployed])
def test_a_signature_is_the_signers_about_what_was_signed(
    ours: Authority, town: CertificateSigner, tmp_path: Path, key: Callable[[], PrivateKey]
) -> None:
    bank = ours.signer(tmp_path, "bank", key)
    proof = bank.sign(SAID)
    town.check("bank", SAID, proof)
    assert len(proof) < LARGEST_PROOF // 2
    for other in (SAID + b"\0", SAID[:-1], b""):
        with pytest.raises(SignatureError, match="the signature of bank does not fit what came in its name"):
            town.check("bank", other, proof)
    with pytest.raises(SignatureError, match="what came in the name of works is signed by bank"):
        town.check("works", SAID, proof)


def test_every_flipped_bit_is_refused(town: CertificateSigner, bank: CertificateSigner) -> None:
    proof = bank.sign(SAID)
    authoritys = x509.load_der_x509_certificate(read_proof("bank", proof).certificate).signature
    padding = proof.index(authoritys) - 1
    for place in range(len(proof)):
        spoilt = bytearray(proof)
        spoilt[place] ^= 1 << (place % 8)
        # Whether a last bit counts, of a signature that ends in a zero, is nobody's matter.
        if place != padding:
            with pytest.raises(SignatureError):
                town.check("bank", SAID, bytes(spoilt))


def test_another_authority_of_the_same_name(town: CertificateSigner, tmp_path: Path) -> None:
    stranger = Authority().signer(tmp_path / "elsewhere", "bank")
    with pytest.raises(SignatureError, match="that bank signs by is not from the authority of this study"):
        town.check("bank", SAID, stranger.sign(SAID))


def test_a_certificate_that_a_party_issued_is_none(
    ours: Authority, town: CertificateSigner, bank: CertificateSigner
) -> None:
    """The bank's key signs a certificate in the name of works."""
    bankers = Authority("bank")
    bankers._key = bank._key
    certificate = bankers._certificate("works", bank._key, -DAY, DAY, ca=False)
    bank._own = certificate.public_bytes(Encoding.DER)
    with pytest.raises(SignatureError, match="not from the authority of this study"):
        town.check("works", SAID, bank.sign(SAID))


@pytest.mark.parametrize(("start", "end"), [(-9 * DAY, -DAY), (DAY, 9 * DAY)], ids=["expired", "not yet"])
def test_out_of_date(ours: Authority, town: CertificateSigner, tmp_path: Path, start: object, end: object) -> None:
    late = ours.late(tmp_path, "bank", start, end)  # type: ignore[arg-type]
    with pytest.raises(SignatureError, match=r"the certificate that bank signs by is valid from [0-9-]+ to [0-9-]+"):
        town.check("bank", SAID, late.sign(SAID))


def test_a_weak_key_signs_nothing(ours: Authority, town: CertificateSigner, tmp_path: Path) -> None:
    weak = ours.signer(tmp_path, "bank", small)
    with pytest.raises(SignatureError, match="a key of a kind that nobody signs by"):
        town.check("bank", SAID, weak.sign(SAID))


def test_a_proof_is_measured_before_it_is_read(town: CertificateSigner) -> None:
    huge = msgspec.msgpack.encode(Proof(bytes(LARGEST_PROOF), b""))
    with pytest.raises(SignatureError, match=f"must have at most {LARGEST_PROOF} bytes, got {len(huge)}"):
        town.check("bank", SAID, huge)
    for junk in (b"", b"\xc1", b"\x92\xc4", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode([b"x"])):
        with pytest.raises(SignatureError, match=f"a proof of bank with {len(junk)} bytes cannot be decoded"):
            town.check("bank", SAID, junk)
    with pytest.raises(SignatureError, match="not from the authority"):
        town.check("bank", SAID, msgspec.msgpack.encode(Proof(b"no certificate", b"")))


def test_a_signer_needs_its_own_key(ours: Authority, tmp_path: Path) -> None:
    folder, other = ours.folder(tmp_path, "bank"), ours.folder(tmp_path, "town")
    with pytest.raises(PolicyError, match="the certificate is for bank, this folder is town's"):
        CertificateSigner(folder, "town")
    (folder / "startup" / "client.key").write_bytes((other / "startup" / "client.key").read_bytes())
    with pytest.raises(PolicyError, match="the key of bank is not that of its certificate"):
        CertificateSigner(folder, "bank")
    (folder / "startup" / "client.key").write_bytes(b"no key")
    with pytest.raises(PolicyError, match="the key of bank cannot be read"):
        CertificateSigner(folder, "bank")


def test_others_are_told_a_code() -> None:
    assert code_of(SignatureError("the numbers of the bank")) is Code.SIGNATURE
