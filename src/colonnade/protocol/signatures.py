"""Parties sign to each other for their keys and for all that passes between them through the server's hands.

A party signs, for each peer, its mask key of the session, and after each round one running digest of all that it sent
to that peer so far. The peer keeps the same digest of what has come, and goes on only when the two are equal: before a
round of the alignment, before it agrees to a plan, before a round of the product, and before it books and submits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import ProtocolError, SignatureError
from colonnade.protocol.messages import Signature

LABEL = b"colonnade/1 vouch"
COINS, ALIGNMENT, SESSION = "coins", "alignment", "session"
"""Stages. The first is of accountable sessions, before they have an id that nobody chose."""
MASK_KEY, PASSED = "mask key", "passed"
SUBMISSION, OPENED, WITHDRAWN = "submission", "opened", "withdrawn"
NUMBER_BYTES = 8
"""Of the number of parcels, ahead of their digest."""
TOLD = (SUBMISSION, OPENED)
"""What an accountable party signs besides: digests of its masked submission and of what was opened to it."""


class Signer(Protocol):
    """Signs in a party's name, and knows whether a peer did."""

    def sign(self, statement: bytes) -> bytes: ...

    def check(self, peer: str, statement: bytes, proof: bytes) -> object: ...


def packed(*parts: bytes) -> bytes:
    """Parts behind their lengths, so that the whole has one reading."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    """The parts of a statement."""
    parts, place = [], len(LABEL)
    while place < len(data):
        start = place + 8
        place = start + int.from_bytes(data[place:start], "big")
        parts.append(data[start:place])
    return parts


def statement(stage: str, context: bytes, sender: str, recipient: str, about: str, value: bytes) -> bytes:
    """What is signed; it starts as nothing does that TLS has the same key sign."""
    texts = [text.encode() for text in (stage, sender, recipient, about)]
    return LABEL + packed(context, *texts, value)


class BodyDigest:
    """SHA-256 of bodies. The last is remembered: signatures and evidence are about the same, which can be large."""

    def __init__(self) -> None:
        self._last: tuple[bytes, bytes] = (b"", hashlib.sha256().digest())

    def __call__(self, body: bytes) -> bytes:
        if self._last[0] is not body:
            self._last = body, hashlib.sha256(body).digest()
        return self._last[1]


class _Passed:
    """What one party has sent to another, as a digest, and whether it was signed to the end."""

    def __init__(self) -> None:
        self._digest, self._count = hashlib.sha256(), 0
        self.open = False

    def add(self, round: str, digest: bytes) -> None:
        self._digest.update(packed(round.encode(), digest))
        self._count += 1
        self.open = True

    def value(self) -> bytes:
        """How many parcels passed, and their digest: what is said of each number of them is a statement of its own."""
        return self._count.to_bytes(NUMBER_BYTES, "big") + self._digest.digest()


class SignedTraffic:
    """One party's side; without a signer it asks for nothing and signs nothing."""

    def __init__(
        self, name: str, peers: Sequence[str], signer: Signer | None, digest_of: BodyDigest | None = None
    ) -> None:
        self._name, self._signer = name, signer
        self._digest_of = digest_of or BodyDigest()
        self._peers = [peer for peer in peers if peer != name]
        self._stage, self._context = "", b""
        self._made_of: tuple[bytes, ...] = ()
        self._sent: dict[str, _Passed] = {}
        self._came: dict[str, _Passed] = {}
        self._keys: dict[str, bytes] = {}
        self.told: dict[tuple[str, str], bytes] = {}
        """What peers signed of their submissions and of what was opened to them."""

    @property
    def signs(self) -> bool:
        return self._signer is not None

    @property
    def stage(self) -> tuple[str, bytes, tuple[bytes, ...]]:
        """What statements are about at present, and what the digest of it is made of."""
        return self._stage, self._context, self._made_of

    def begin(self, stage: str, identity: bytes, *facts: bytes) -> None:
        """Statements are about this alignment, or this session, and these facts, on which all must agree."""
        self.require_all()
        self._stage = stage
        self._make_context(identity, *facts)
        self._sent = {peer: _Passed() for peer in self._peers}
        self._came = {peer: _Passed() for peer in self._peers}
        self._keys = {}

    def restore(self, stage: str, made_of: Sequence[bytes], told: dict[tuple[str, str], bytes]) -> None:
        """Go on where another process of this party ended; what passed before was compared then."""
        self.begin(stage, *made_of)
        self.told.update(told)

    def sign_key(self, key: bytes) -> Iterator[tuple[str, Signature]]:
        """This party's key of the session, for every peer."""
        if self._signer is not None:
            self._keys[self._name] = key
            for peer in self._peers:
                yield peer, self._signed(peer, MASK_KEY, key)

    def sign_about(self, about: str, value: bytes) -> Iterator[tuple[str, Signature]]:
        """The same statement for every peer."""
        if self._signer is not None:
            for peer in self._peers:
                yield peer, self._signed(peer, about, value)

    def lacking(self, about: str) -> list[str]:
        """Peers that have not signed this; none is asked where nobody signs."""
        return [peer for peer in self._peers if self.signs and (about, peer) not in self.told]

    def withdrawals(self, proofs: Sequence[tuple[str, bytes]]) -> list[str]:
        """Peers that have signed to this party that they have not submitted and will not."""
        found = set()
        for peer, proof in proofs:
            if self._signer is not None and peer in self._peers:
                with suppress(SignatureError, ProtocolError):
                    self._signer.check(peer, self._statement(peer, self._name, WITHDRAWN, b""), proof)
                    found.add(peer)
        return sorted(found)

    def note_sent(self, peer: str, round: str, payload: bytes) -> None:
        if self._signer is not None and peer in self._sent:
            self._sent[peer].add(round, self._digest_of(payload))

    def note_received(self, peer: str, round: str, payload: bytes) -> None:
        """What the server says a peer sent; what it sends in its own name is not the peers' to sign."""
        if self._signer is not None and peer != SERVER:
            self._known(peer).add(round, self._digest_of(payload))

    def sign_rounds(self) -> Iterator[tuple[str, Signature]]:
        """For each peer that was sent anything since the last time."""
        for peer, passed in self._sent.items():
            if passed.open:
                passed.open = False
                yield peer, self._signed(peer, PASSED, passed.value())

    def take(self, peer: str, signature: Signature) -> None:
        """A peer's signature must be its own, and about what came in its name."""
        if self._signer is None:
            return
        passed = self._known(peer)
        if signature.about not in (MASK_KEY, PASSED, *TOLD):
            raise SignatureError(f"a party signs for a mask key or for what it sent, {peer} did for something else")
        about = self._statement(peer, self._name, signature.about, signature.value)
        self._signer.check(peer, about, signature.proof)
        if signature.about == MASK_KEY:
            if self._keys.setdefault(peer, signature.value) != signature.value:
                raise SignatureError(f"party {peer} has signed two mask keys for one session")
        elif signature.about in TOLD:
            if self.told.setdefault((signature.about, peer), signature.value) != signature.value:
                raise SignatureError(f"party {peer} has signed two digests of one {signature.about}")
        elif signature.value != passed.value():
            raise SignatureError(f"what came in the name of {peer} is not what {peer} signed")
        else:
            passed.open = False

    def require_all(self) -> None:
        """Raise unless all that has come in the name of peers was signed."""
        for peer, passed in self._came.items():
            if passed.open:
                raise SignatureError(f"what came in the name of {peer} bears no signature of {peer}")

    def require_keys(self, names: Sequence[str], keys: Sequence[bytes]) -> None:
        """The plan's mask keys must be those that each party signed; from here on these keys name the session."""
        if self._signer is None:
            return
        if len(keys) != len(names) or set(names) != {self._name, *self._peers}:
            raise SignatureError(f"the plan must list the mask keys of {len(names)} parties, got {len(keys)}")
        for name, key in zip(names, keys, strict=True):
            if name not in self._keys:
                raise SignatureError(f"the mask key of {name} in the plan bears no signature of {name}")
            if self._keys[name] != key:
                raise SignatureError(f"the mask key of {name} in the plan is not the one that {name} signed")
        # A server may choose a session's id twice, and no party's key: what is signed now fits no other session.
        self._make_context(self._context, *(self._keys[name] for name in sorted(names)))

    def _make_context(self, *parts: bytes) -> None:
        self._made_of, self._context = parts, hashlib.sha256(packed(*parts)).digest()

    def _known(self, peer: str) -> _Passed:
        if peer not in self._came:
            raise SignatureError(f"nobody but {', '.join(self._peers)} is a peer here, and something came of another")
        return self._came[peer]

    def _signed(self, peer: str, about: str, value: bytes) -> Signature:
        assert self._signer is not None
        return Signature(about, value, self._signer.sign(self._statement(self._name, peer, about, value)))

    def _statement(self, sender: str, recipient: str, about: str, value: bytes) -> bytes:
        return statement(self._stage, self._context, sender, recipient, about, value)
