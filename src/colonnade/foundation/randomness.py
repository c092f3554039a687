"""The one door to randomness: an AES-CTR stream keyed by the operating system, or by a seed in tests."""

from __future__ import annotations

import secrets

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

REKEY_BYTES = 1 << 36  # 64 GB, 2^32 blocks: AES-CTR is told from random bits by less than 2^-64


def derive(secret: bytes, label: str, length: int = 32) -> bytes:
    """HKDF-SHA256 of a secret under a label."""
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=b"colonnade/1 " + label.encode()).derive(
        secret
    )


class Stream:
    """The AES-256-CTR key stream of one key: public expansion, masks, and the body of Randomness."""

    def __init__(self, key: bytes, start: int = 0) -> None:
        """The stream from byte `start` on, a multiple of 16."""
        # A key is used for one stream only, so the counter may start at zero.
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR((start // 16).to_bytes(16, "big"))).encryptor()

    def bytes(self, count: int) -> bytes:
        return self._encryptor.update(bytes(count))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, freshly owned by the caller."""
        out = np.zeros(count, dtype=np.uint64)
        self.add_to(out)
        return out

    def add_to(self, words: NDArray[np.uint64]) -> None:
        """Add the stream's next words, bit by bit modulo 2, to these."""
        view = words.view(np.uint8).data
        self._encryptor.update_into(view, view)


class Randomness:
    """Secret random bytes: the operating system's, with `seed` those of tests and simulations, or `derived` ones."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._seed, self._simulated = seed, seed is not None
        self._rekey()

    @classmethod
    def derived(cls, secret: bytes, simulated: bool = False) -> Randomness:
        """A source that can be drawn from again by whoever is shown a secret that was drawn at random: for audits.

        It is no simulation unless the secret is one's.
        """
        source = cls(secret)
        source._simulated = simulated
        return source

    def _rekey(self) -> None:
        self._stream = Stream(secrets.token_bytes(32) if self._seed is None else derive(self._seed, "stream"))
        self._used = 0

    @property
    def seeded(self) -> bool:
        """Whether anyone who knows a seed could draw the same: a release must say so."""
        return self._simulated

    def child(self, label: str) -> Randomness:
        """An independent source; a seeded or derived one depends on the secret and the label alone."""
        if self._seed is None:
            return Randomness()
        return Randomness.derived(derive(self._seed, "child " + label), self._simulated)

    def again(self) -> Randomness:
        """A source that gives the same children each time: this one, or one of a secret that is drawn now."""
        return Randomness.derived(self.bytes(32)) if self._seed is None else self

    def _count(self, size: int) -> None:
        self._used += size
        if self._seed is None and self._used > REKEY_BYTES:
            self._rekey()

    def bytes(self, count: int) -> bytes:
        self._count(count)
        return self._stream.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words."""
        self._count(8 * count)
        return self._stream.words(count)

    def __repr__(self) -> str:
        return f"Randomness(seeded={self.seeded})"
