"""Accountable sessions in one process: evidence in memory, and a signer for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.foundation.errors import SignatureError
from colonnade.protocol.coins import Opening
from colonnade.protocol.evidence import WITHDRAWN, Kept
from colonnade.protocol.messages import Envelope, Resumable


class SharedSigner:
    """Signs by a key that all parties know; what counts is when and about what."""

    def __init__(self, name: str) -> None:
        self._name = name

    def sign(self, statement: bytes) -> bytes:
        return hashlib.sha256(self._name.encode() + statement).digest()

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        if proof != hashlib.sha256(peer.encode() + statement).digest():
            raise SignatureError(f"the signature of {peer} does not fit what came in its name")


@dataclass
class Remembered:
    """Evidence in memory, in the order in which it was noted."""

    opening: Opening | None = None
    notes: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    sent: list[Envelope] = field(default_factory=list)
    received: list[Envelope] = field(default_factory=list)
    kept: Kept | None = None
    decided: str = ""

    def begin(self, session: bytes, opening: Opening) -> None:
        assert not self.sent, "nothing leaves that cannot be opened"
        self.opening = opening

    def rename(self, session: bytes) -> None: ...

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        self.notes.append((what, facts))

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        self.sent.append(envelope)

    def keep_received(self, envelope: Envelope, digest: bytes) -> None:
        self.received.append(envelope)

    def keep_submission(self, kept: Kept | None) -> None:
        assert self.decided == ""
        self.kept = kept

    def decide(self, choice: str) -> str:
        self.decided = self.decided or choice
        if self.decided == WITHDRAWN:
            self.kept = None
        return self.decided

    def drop_submission(self) -> None:
        self.kept, self.decided = None, self.decided or WITHDRAWN

    def offers(self) -> list[Resumable]:
        return [] if self.kept is None else [self.kept.offer]

    def resume(self, session: bytes) -> Kept | None:
        return self.kept

    def of(self, what: str) -> list[Mapping[str, Any]]:
        return [facts for noted, facts in self.notes if noted == what]
