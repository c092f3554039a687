"""What products share: checks of a session's inputs, a book of parcels, numbered frames around what these carry.

A frame's digest is a checksum over the whole specification, round, sender, recipient, number and body, so that a parcel
which was cut, altered, replayed, misdirected or made for another shape or modulus is refused. Anybody can compute it:
it does not stand in for the signatures of the protocol.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from colonnade.crypto.product import SERVER, ChainSpec, Cross, Integers, ProductSpec, Words
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.integers import IntegerColumns

SESSION_BYTES = 32  # 256 bits from the server: no two sessions are alike
DIGEST_BYTES = 16  # 128 bits that bind a parcel to its place
HEADER = struct.Struct(f"<8sI{DIGEST_BYTES}s")
LARGEST_ENTRY = 32_767  # columns are 16-bit integers


def check_spec(spec: ProductSpec) -> None:
    """Refuse a specification that no backend could run."""
    if len(spec.session) != SESSION_BYTES:
        raise ProductError(f"a session id must have {SESSION_BYTES} bytes, got {len(spec.session)}")
    if len(set(spec.parties)) != len(spec.parties) or SERVER in spec.parties:
        raise ProductError(f"parties must have distinct names that are not empty, got {spec.parties}")
    if spec.rows < 1:
        raise ProductError(f"a product must have at least one row, got rows={spec.rows}")
    if not 1 <= spec.bound <= LARGEST_ENTRY:
        raise ProductError(f"the bound of the entries must be within 1 and {LARGEST_ENTRY}, got bound={spec.bound}")
    if not 1 <= spec.modulus_bits <= 64:
        raise ProductError(f"the modulus must have 1 to 64 bits, got modulus_bits={spec.modulus_bits}")
    if spec.gain < 1:
        raise ProductError(f"the gain must be positive, got gain={spec.gain}")
    if not 0 < spec.reach < 1 << (spec.modulus_bits - 1):
        raise ProductError(f"the reach must be positive and under half the modulus, got reach={spec.reach}")
    if len(set(spec.crosses)) != len(spec.crosses):
        raise ProductError("a cross must be listed once, got one twice")
    for cross in spec.crosses:
        owners_exist = 0 <= cross.left < len(spec.parties) and 0 <= cross.right < len(spec.parties)
        ranges_exist = 0 <= cross.left_start < cross.left_stop and 0 <= cross.right_start < cross.right_stop
        if not owners_exist or not ranges_exist or cross.left == cross.right:
            raise ProductError(f"a cross must join columns of two different parties, got {cross}")


def check_columns(spec: ProductSpec | ChainSpec, me: int, columns: IntegerColumns) -> None:
    """Refuse columns that were verified for a larger bound than the plan has, or of other records."""
    if not 0 <= me < len(spec.parties):
        raise ProductError(f"the party's place must be within 0 and {len(spec.parties) - 1}, got me={me}")
    if columns.bound > spec.bound:
        name = spec.parties[me]
        raise ProductError(f"an entry of {name} must be within {spec.bound} of zero, got columns of {columns.bound}")
    if columns.shape[0] != spec.rows:
        raise ProductError(f"party {spec.parties[me]} must have {spec.rows} rows, got {columns.shape[0]}")


def check_party(
    spec: ProductSpec, me: int, columns: IntegerColumns, width: int, noise: Mapping[Cross, Integers]
) -> None:
    """Refuse what does not fit the specification; crosses may name so many columns."""
    check_columns(spec, me, columns)
    for cross in spec.crosses:
        needed = max(cross.left_stop if cross.left == me else 0, cross.right_stop if cross.right == me else 0)
        if needed > width:
            raise ProductError(f"party {spec.parties[me]} must have {needed} columns for {cross}, got {width}")
        if cross not in noise or noise[cross].shape != cross.shape:
            raise ProductError(f"party {spec.parties[me]} must bring a noise share of shape {cross.shape} for {cross}")


def check_round(rounds: Sequence[str], round: str) -> None:
    """Refuse a round that the backend does not have."""
    if round not in rounds:
        raise ProtocolError(f"the rounds of this product are {', '.join(rounds)}, got {round!r}")


class Rounds:
    """One side's book: each round is answered once, and so many parcels of it are due from each sender."""

    def __init__(self, side: str, names: Sequence[str], due: Mapping[tuple[str, str], int]) -> None:
        self._side, self._names, self._due = side, tuple(names), due
        self._taken = dict.fromkeys(due, 0)
        self._answered: set[str] = set()
        self._closed = False

    def answer(self, round: str, *before: str) -> None:
        """Raise unless this side may send a round, once: other data under the same secrets would show."""
        check_round(self._names, round)
        if self._closed or round in self._answered or not self._answered.issuperset(before):
            raise ProtocolError(f"{self._side} answers a round once and in its turn, got round {round}")
        self._answered.add(round)

    def next(self, round: str, sender: str) -> int:
        """The number of the parcel that comes next; raises where none does."""
        check_round(self._names, round)
        due, number = self._due.get((round, sender), 0), self._taken.get((round, sender), 0)
        if self._closed or number == due:
            raise MessageError(f"{self._side} expects {due} parcels of round {round} from {sender!r}, got another")
        return number

    def take(self, round: str, sender: str) -> None:
        """Count a parcel that was as it should be."""
        self._taken[round, sender] += 1

    def complete(self, round: str, sender: str) -> bool:
        """Whether all of a round from one sender was taken."""
        return self._taken[round, sender] == self._due[round, sender]

    def require(self, *rounds: str) -> None:
        """Raise unless all that is due in these rounds was taken."""
        for (round, sender), due in self._due.items():
            if round in rounds and self._taken[round, sender] < due:
                raise ProductError(
                    f"{self._side} needs {due} parcels of round {round} from {sender or 'the server'}, "
                    f"got {self._taken[round, sender]}"
                )

    def close(self) -> None:
        """Raise unless all rounds are answered and complete; from here on nothing is sent or taken."""
        self.require(*self._names)
        if self._closed or len(self._answered) < len(self._names):
            raise ProductError(f"{self._side} contributes once, after its rounds {', '.join(self._names)}")
        self._closed = True


def flat_noise(spec: ProductSpec, noise: Mapping[Cross, Integers]) -> Words:
    """A party's noise shares in the order of a contribution, as residues modulo 2^64."""
    parts = [np.ascontiguousarray(noise[cross], dtype=np.int64).ravel() for cross in spec.crosses]
    return np.concatenate(parts or [np.zeros(0, dtype=np.int64)]).view(np.uint64)


def offsets(spec: ProductSpec) -> dict[Cross, slice]:
    """Where each cross lies in the vector of a contribution."""
    place, at = {}, 0
    for cross in spec.crosses:
        size = cross.shape[0] * cross.shape[1]
        place[cross] = slice(at, at + size)
        at += size
    return place


def entries(spec: ProductSpec) -> int:
    """The number of integers that the session opens."""
    return sum(cross.shape[0] * cross.shape[1] for cross in spec.crosses)


@lru_cache(maxsize=64)
def _spec_digest(spec: ProductSpec | ChainSpec) -> bytes:
    return hashlib.sha256(repr(spec).encode()).digest()


def _digest(
    spec: ProductSpec | ChainSpec, round: str, sender: str, recipient: str, number: int, body: bytes | memoryview
) -> bytes:
    names = "\x00".join((round, sender, recipient, str(number))).encode()
    # SHA-256 has its own instructions on most machines and passes about 1 GB per second.
    state = hashlib.sha256(_spec_digest(spec) + struct.pack("<I", len(names)) + names)
    state.update(body)
    return state.digest()[:DIGEST_BYTES]


def pack(spec: ProductSpec | ChainSpec, round: str, sender: str, recipient: str, number: int, body: bytes) -> bytes:
    """A parcel's payload: session, number and digest in front of the body."""
    digest = _digest(spec, round, sender, recipient, number, body)
    return HEADER.pack(spec.session[:8], number, digest) + body


def unpack(
    spec: ProductSpec | ChainSpec, round: str, sender: str, recipient: str, number: int, payload: bytes
) -> memoryview:
    """The body of the parcel that must come next; any other parcel raises MessageError."""
    name = f"a parcel of round {round} from {sender or 'the server'}"
    if len(payload) < HEADER.size:
        raise MessageError(f"{name} must have at least {HEADER.size} bytes, got {len(payload)}")
    session, got, digest = HEADER.unpack_from(payload)
    if session != spec.session[:8]:
        raise MessageError(f"{name} must belong to session {spec.session[:8].hex()}, got {session.hex()}")
    if got != number:
        raise MessageError(f"{name} must be number {number}, got number {got}")
    body = memoryview(payload)[HEADER.size :]
    if not hmac.compare_digest(digest, _digest(spec, round, sender, recipient, number, body)):
        raise MessageError(f"{name} must match its digest, got number {got} altered, cut, misdirected or misplanned")
    return body
