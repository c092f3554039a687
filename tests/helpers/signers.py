"""Signers for tests: an HMAC under a key of each party, which all of them hold."""

from __future__ import annotations

import hmac

from colonnade.foundation.errors import SignatureError


class KeyedSigner:
    """Signs in one party's name."""

    def __init__(self, party: str) -> None:
        self._party = party

    def sign(self, statement: bytes) -> bytes:
        return proof_of(self._party, statement)

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        if not hmac.compare_digest(proof_of(peer, statement), proof):
            raise SignatureError(f"the signature of {peer} is not its own")


def proof_of(party: str, statement: bytes) -> bytes:
    return hmac.digest(b"key of " + party.encode(), statement, "sha256")


def signers_of(*parties: str) -> dict[str, KeyedSigner]:
    return {party: KeyedSigner(party) for party in parties}
