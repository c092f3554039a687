"""Pairwise masks that cancel in the sum of all parties' submissions: X25519, then HKDF, then a stream cipher.

Each pair of parties agrees on one stream; the earlier party adds it and the later one subtracts it (Bonawitz et al.,
CCS 2017, section 4, without the recovery of drop-outs: a run that loses a party reveals nothing). What one party, or
any number short of all honest ones, submits is uniform to whoever does not hold one of the two keys of each pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.crypto.product import Words
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, Stream, derive

KEY_BYTES = 32  # of X25519 (RFC 7748)
SESSION_BYTES = 32  # 256 bits from the server, or of all parties' coins


def fingerprint(public: bytes) -> str:
    """Sixteen bytes of SHA-256 of a public key, in hexadecimal, for people to compare."""
    return hashlib.sha256(b"colonnade/1 mask key " + public).hexdigest()[:32]


class MaskKeys:
    """One party's X25519 key pair; fresh for each session."""

    def __init__(self, randomness: Randomness) -> None:
        self._private = X25519PrivateKey.from_private_bytes(randomness.bytes(KEY_BYTES))
        self.public: bytes = self._private.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    @proven("masks")
    def mask(self, session: bytes, me: int, publics: Sequence[bytes], length: int, modulus_bits: int) -> Words:
        """This party's mask, from the session and all keys; all parties' masks add up to zero modulo 2^modulus_bits.

        The same call gives the same words again: a mask hides one submission, so a session submits once.

        Domain: session: 32 bytes; publics: one X25519 key a party, the own one at `me`; 1 to 64 bits.
        Unit: words modulo 2^modulus_bits.
        Guarantee: given the sum, submissions of two and more honest parties are pseudo-random. Proof: masks,
            claims 1 and 2.
        """
        if len(session) != SESSION_BYTES:
            raise ProtocolError(f"a session id must have {SESSION_BYTES} bytes, got {len(session)}")
        if not 1 <= modulus_bits <= 64:
            raise ProtocolError(f"the modulus of a mask must have 1 to 64 bits, got modulus_bits={modulus_bits}")
        if not 0 <= me < len(publics) or publics[me] != self.public:
            raise ProtocolError(f"the list of {len(publics)} mask keys must hold this party's own key at place {me}")
        total = np.zeros(length, dtype=np.uint64)
        for peer, public in enumerate(publics):
            if peer == me:
                continue
            words = Stream(self._pair_key(session, me, peer, public)).words(length)
            if me < peer:
                total += words
            else:
                total -= words
        total &= np.uint64((1 << modulus_bits) - 1)
        return total

    def _pair_key(self, session: bytes, me: int, peer: int, public: bytes) -> bytes:
        if len(public) != KEY_BYTES:
            raise ProtocolError(f"the mask key of party {peer} must have {KEY_BYTES} bytes, got {len(public)}")
        if public == self.public:
            raise ProtocolError(f"the mask key of party {peer} must differ from that of party {me}, got the same key")
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:  # the library refuses an all-zero secret (RFC 7748, section 6.1)
            raise ProtocolError(f"the mask key of party {peer} must not be a point of small order, got one") from error
        first, second = (self.public, public) if me < peer else (public, self.public)
        # Every part has a fixed length, so the concatenation has one reading.
        return derive(shared + session + first + second, f"mask {min(me, peer)} {max(me, peer)}")

    def __repr__(self) -> str:
        return f"MaskKeys(fingerprint={self.fingerprint})"
