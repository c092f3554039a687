"""The paper's product under signatures: an honest session passes, and what passes between parties cannot be altered."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec
import pytest

from colonnade.crypto.frames import HEADER, pack
from colonnade.crypto.product import SERVER as MIDDLE
from colonnade.foundation.errors import SignatureError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.protocol.codes import Code
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import Envelope, ParcelBody, Step, body_of, encode_body
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.transport.in_process import InProcess
from tests.helpers.conversations import AGREEMENT, COLUMNS, PLANS, Book, Notes, table

PAIR = ("works", "bank")
BGN = replace(AGREEMENT, product="bgn", schema=Schema({name: COLUMNS[name] for name in PAIR}))


class OwnSigner:
    """Signs by a key that the two parties know and the server does not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def sign(self, statement: bytes) -> bytes:
        return hashlib.sha256(b"key of " + self._name.encode() + statement).digest()

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        if proof != hashlib.sha256(b"key of " + peer.encode() + statement).digest():
            raise SignatureError(f"the signature of {peer} does not fit what came in its name")


def signed() -> tuple[ServerRole, dict[str, PartyRole], dict[str, Book]]:
    source, books = Randomness(b"bgn"), {name: Book() for name in PAIR}
    parties = {
        name: PartyRole(
            FitParty(name, BGN, "none", lambda n=name: table(n, False), books[name], planner=PLANS),
            source,
            OwnSigner(name),
        )
        for name in PAIR
    }
    return ServerRole(FitServer(BGN, "none", PLANS), source, Notes()), parties, books


def test_a_signed_session_opens_its_release() -> None:
    server, parties, books = signed()
    passed: list[tuple[Step, bool]] = []

    def wire(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        passed.append((envelope.step, MIDDLE in (envelope.sender, envelope.recipient)))
        return (envelope,)

    InProcess(server, parties, wire).carry()
    assert {book.state for book in books.values()} == {"released"}
    assert passed.count((Step.SIGNATURE, False)) >= 2 * len(PAIR)
    for role in parties.values():
        assert isinstance(role.task, FitParty) and role.task.kept is not None


def test_a_server_cannot_put_a_key_of_its_own_into_the_common_key() -> None:
    """The parcel is made anew as the server can make it, digest and all: the signature alone tells."""
    server, parties, books = signed()
    keys: dict[str, bytes] = {}
    put: list[str] = []

    def wire(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        between = MIDDLE not in (envelope.sender, envelope.recipient)
        if envelope.step is not Step.PARCEL or not between:
            return (envelope,)
        parcel = body_of(envelope, ParcelBody)
        if parcel.round != "keys":
            return (envelope,)
        keys.setdefault(envelope.sender, parcel.payload[HEADER.size :])
        if up or envelope.recipient not in keys:
            return (envelope,)
        task = parties[envelope.recipient].task
        assert isinstance(task, FitParty) and task.session is not None
        put.append(envelope.sender)
        other = pack(task.session.spec, "keys", envelope.sender, envelope.recipient, 0, keys[envelope.recipient])
        return (msgspec.structs.replace(envelope, body=encode_body(ParcelBody("keys", other))),)

    with pytest.raises(SignatureError, match=r"is not what .* signed"):
        InProcess(server, parties, wire).carry()
    assert put
    assert server.end is not None and server.end.code is Code.SIGNATURE and not server.end.opened
    assert all("book" not in book.calls for book in books.values()), "nothing was spent"
