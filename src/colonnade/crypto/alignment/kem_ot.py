"""The same transfers against a quantum computer: Masny and Rindal's over ML-KEM-768, to be mixed with X25519's.

A key of ML-KEM is a vector t of 768 numbers modulo 3329 and a seed rho. For a bit c the receiver draws r_(1-c), and
sends it with r_c = t - H(r_(1-c)) and rho; the sender wraps a secret for each of r_0 + H(r_1) and r_1 + H(r_0), and the
receiver can unwrap one of them. One more secret, wrapped for an ordinary key, is for what both seal afterwards.
"""

from __future__ import annotations

from hashlib import blake2b, shake_128
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from colonnade.crypto.alignment.base_ot import COUNT, SEED_BYTES, Bits, ordered
from colonnade.crypto.alignment.encapsulation import MESSAGE, VECTOR, Numbers, Q, below, encapsulated, unpacked
from colonnade.foundation.errors import MessageError, StudyError
from colonnade.foundation.randomness import Randomness

_LIBRARY = "cryptography.hazmat.primitives.asymmetric.mlkem"
_NUMBERS = 768  # a vector of ML-KEM-768: 3 polynomials of 256
_RHO = 32  # bytes of the seed of a key's matrix (FIPS 203)
_CIPHER = 1088  # bytes of a ciphertext of ML-KEM-768 (FIPS 203)
_KEY_SEED = 64  # bytes: d and z of FIPS 203
_SAMPLED = 1800  # bytes: 1,200 candidates, of which 975 +- 14 are below 3329


def kem_choice_bytes(count: int) -> int:
    """Bytes that ask for a secret of each transfer."""
    return (2 * VECTOR + _RHO) * count + VECTOR + _RHO


def kem_reply_bytes(count: int) -> int:
    """Bytes of the answer."""
    return 2 * _CIPHER * count + _CIPHER


KEM_CHOICE_BYTES, KEM_REPLY_BYTES = kem_choice_bytes(COUNT), kem_reply_bytes(COUNT)
"""Of a matching."""


def require_post_quantum() -> None:
    """Raise StudyError unless the library has ML-KEM."""
    if find_spec(_LIBRARY) is None:
        raise StudyError("post_quantum needs ML-KEM, which the installed version of cryptography does not have")


def _library() -> Any:
    return import_module(_LIBRARY)


class KemSender:
    """Wraps two secrets for each transfer."""

    def __init__(self, context: bytes, choices: bytes, randomness: Randomness) -> None:
        cut = len(choices) - VECTOR - _RHO
        parts = np.frombuffer(choices[:cut], np.uint8).reshape(-1, 2 * VECTOR + _RHO)
        count = len(parts)
        vectors = [np.ascontiguousarray(parts[:, i * VECTOR : (i + 1) * VECTOR]) for i in range(2)]
        last = np.frombuffer(choices[cut:-_RHO], np.uint8)[None]
        numbers = [unpacked(v) for v in (*vectors, last)]
        if max(int(n.max()) for n in numbers) >= Q:
            raise MessageError(f"numbers of a key of ML-KEM must be below {Q}, got one that is not")
        keys = []
        for j in range(count):
            rho = parts[j, 2 * VECTOR :].tobytes()
            for slot in range(2):
                key = (numbers[slot][j] + _hash(context, j, slot, vectors[1 - slot][j].tobytes(), rho)) % Q
                keys.append(_packed(key[None]) + rho)
        drawn = randomness.bytes(MESSAGE * (2 * count + 1))
        messages = [drawn[i : i + MESSAGE] for i in range(0, len(drawn), MESSAGE)]
        secrets, ciphers = encapsulated([*keys, choices[cut:]], messages)
        self.keys = secrets[0:-1:2], secrets[1:-1:2]
        self.secret, self.reply = secrets[-1], b"".join(ciphers)


class KemReceiver:
    """Asks for one secret of each transfer by secret bits, and unwraps it when the reply is there."""

    def __init__(self, context: bytes, bits: Bits, randomness: Randomness) -> None:
        mlkem, self._bits = _library(), bits
        self._own = mlkem.MLKEM768PrivateKey.from_seed_bytes(randomness.bytes(_KEY_SEED))
        seeds = randomness.bytes(_KEY_SEED * len(bits))
        cut = (seeds[i : i + _KEY_SEED] for i in range(0, len(seeds), _KEY_SEED))
        self._keys = [mlkem.MLKEM768PrivateKey.from_seed_bytes(seed) for seed in cut]
        publics = [key.public_key().public_bytes_raw() for key in self._keys]
        others = [_uniform(randomness.bytes(_KEY_SEED)) for _ in bits]
        mine = []
        for j, (public, other) in enumerate(zip(publics, others, strict=True)):
            vector = unpacked(np.frombuffer(public[:VECTOR], np.uint8)[None])[0]
            hashed = _hash(context, j, int(bits[j]), _packed(other[None]), public[VECTOR:])
            mine.append(_packed(((vector - hashed) % Q)[None]))
        pairs = ordered(b"".join(mine), _packed(np.stack(others)), bits)
        both = np.frombuffer(pairs, np.uint8).reshape(len(bits), -1)
        rhos = np.frombuffer(b"".join(p[VECTOR:] for p in publics), np.uint8).reshape(len(bits), -1)
        public = self._own.public_key().public_bytes_raw()
        self.choices = np.concatenate([both, rhos], axis=1).tobytes() + public

    def keys(self, reply: bytes) -> list[bytes]:
        """The secrets that the bits ask for; the reply's two are chosen between by masks."""
        both = np.frombuffer(reply[:-_CIPHER], np.uint8).reshape(-1, 2, _CIPHER)
        chosen = both[:, 0] ^ ((both[:, 0] ^ both[:, 1]) & (-self._bits)[:, None])
        return [key.decapsulate(chosen[j].tobytes()) for j, key in enumerate(self._keys)]

    def secret(self, reply: bytes) -> bytes:
        """The one more secret, which both sides know."""
        return bytes(self._own.decapsulate(reply[-_CIPHER:]))


def mixed(seeds: list[bytes], keys: list[bytes]) -> list[bytes]:
    """Seeds that stay unknown as long as one of the two parts does."""
    return [
        blake2b(b"colonnade/1 hybrid" + seed + key, digest_size=SEED_BYTES).digest()
        for seed, key in zip(seeds, keys, strict=True)
    ]


def _hash(context: bytes, j: int, slot: int, vector: bytes, rho: bytes) -> Numbers:
    return _uniform(b"colonnade/1 kem transfer" + context + j.to_bytes(2, "big") + bytes([slot]) + vector + rho)


def _uniform(data: bytes) -> Numbers:
    """Uniform numbers modulo 3329 from a hash, by rejection."""
    return below([shake_128(data).digest(_SAMPLED)], _NUMBERS).reshape(-1)


def _packed(numbers: Numbers) -> bytes:
    n = numbers.reshape(-1, 2)
    packed = np.stack([n[:, 0] & 255, n[:, 0] >> 8 | (n[:, 1] & 15) << 4, n[:, 1] >> 4], axis=1)
    return packed.astype(np.uint8).tobytes()
