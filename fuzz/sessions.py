"""Parcels between parties of a session, one of which is another: products, products of three, and matching ids.

Who sends is a partner that holds all keys: what it sends bears right digests and seals, and says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.columns import resident
from colonnade.crypto.alignment.frames import Channel, Frame
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.chains.party import LatticeChain
from colonnade.crypto.frames import HEADER, pack
from colonnade.crypto.lattice.frames import _HEADER, START
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.plain import PlainParty
from colonnade.crypto.product import SERVER, Chain, ChainParty, ChainSpec, Cross, Parcel, PartyProduct, ProductSpec
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from fuzz.choices import TOKENS, Choices
from tests.helpers.star_runs import free_transfers

NAMES = ("a", "b", "c")
IDENTITY = bytes(range(32))
ROWS, BOUND, BITS = 6, 3, 48
CROSSES = tuple(Cross(i, j, 0, 1 + i, 0, 1 + j) for i in range(3) for j in range(i + 1, 3))
PRODUCT = ProductSpec(IDENTITY, NAMES, ROWS, BOUND, CROSSES, BITS, 1, ROWS * BOUND**2 + 300)
CHAINS = ChainSpec(IDENTITY, NAMES, ROWS, BOUND, (Chain((0, 1, 2), ((0, 0, 0), (0, 1, 1))),), BITS, (1 << 16,))
IDS = {"a": [f"i{i}" for i in range(5)], "b": [f"i{i}" for i in range(3, 11)], "c": [f"i{i}" for i in range(2, 9)]}
Side = PartyProduct | ChainParty


def changed(body: bytes, choices: Choices) -> bytes:
    """Bytes of which a few are set, cut off, put in or repeated; more often than not as many as before."""
    data = bytearray(body)
    for _ in range(1 + choices.below(3)):
        at, what = choices.below(len(data) + 1), choices.below(9)
        token = TOKENS[choices.below(len(TOKENS))]
        if what < 5:
            piece = token if what < 3 else bytes([choices.below(256)])
            data[at : at + len(piece)] = piece[: len(data) - at]
        elif what == 5:
            data[at:at] = token
        elif what == 6:
            del data[at:]
        elif what == 7:
            del data[at : at + 1 + choices.below(16)]
        else:
            data[at:at] = data[: choices.below(64)]
    return bytes(data)


# --- products, and products of three


@dataclass
class Due:
    """A party that waits for a parcel, and the parcel that it should get."""

    to: Side
    round: str
    sender: str
    recipient: str
    payload: bytes


def _sides(kind: str) -> list[Side]:
    draw = np.random.default_rng(1)
    data = [resident(draw.integers(-BOUND, BOUND + 1, (ROWS, 1 + k)).astype(np.int16), BOUND) for k in range(3)]
    source = [Randomness(b"fuzz %d" % k) for k in range(3)]
    if kind == "chain":
        return [LatticeChain(CHAINS, k, data[k], np.zeros(CHAINS.values, np.int64), source[k]) for k in range(3)]
    made = LatticeParty if kind == "lattice" else PlainParty
    return [made(PRODUCT, k, data[k], {c: np.zeros(c.shape, np.int64) for c in CROSSES}, source[k]) for k in range(3)]


def _session(kind: str) -> Iterator[Due]:
    """Each parcel of an honest session before it is taken."""
    sides = _sides(kind)
    for round in LatticeChain.rounds(CHAINS) if kind == "chain" else sides[0].rounds:
        for name, side in zip(NAMES, sides, strict=True):
            for parcel in side.send(round):
                if parcel.recipient != SERVER:
                    to = sides[NAMES.index(parcel.recipient)]
                    yield Due(to, round, name, parcel.recipient, parcel.payload)
                    to.receive(round, name, parcel.payload)


@cache
def _count(kind: str) -> int:
    return sum(1 for _ in _session(kind))


_waiting: dict[tuple[str, int], Due] = {}


def parcel(kind: str, data: bytes) -> None:
    """Another parcel than the one that is due. A product that refuses it waits on for the right one."""
    choices = Choices(data)
    number = choices.below(_count(kind))
    if (kind, number) not in _waiting:
        session = _session(kind)
        _waiting[kind, number] = next(due for i, due in enumerate(session) if i == number)
    due = _waiting.pop((kind, number))
    try:
        due.to.receive(due.round, due.sender, _another(kind, due, choices))
    except ColonnadeError:
        if kind != "chain":
            _waiting[kind, number] = due
        raise


def _another(kind: str, due: Due, choices: Choices) -> bytes:
    if choices.below(8) == 0:
        return changed(due.payload, choices)
    if due.payload.startswith(b"CLa1"):
        # The tag's key is the session's: whoever takes part can make one for any words.
        side = due.to if isinstance(due.to, LatticeParty) else due.to._prepared()  # type: ignore[union-attr]
        head, words = due.payload[: _HEADER.size], changed(due.payload[START:], choices)
        return head + side._states.own.frames._tag(head, [memoryview(words)]) + words
    spec = CHAINS if kind == "chain" else PRODUCT
    number = HEADER.unpack_from(due.payload)[1]
    return pack(spec, due.round, due.sender, due.recipient, number, changed(due.payload[HEADER.size :], choices))


# --- matching


def matching(data: bytes) -> None:
    """A whole matching of three, in which one body says something else under its right seal."""
    choices = Choices(data)
    at, seen = choices.below(30), 0
    sealed, seal = Channel.sealed, Frame.seal

    def meddled(body: bytes) -> bytes:
        nonlocal seen
        seen += 1
        return changed(body, choices) if seen - 1 == at else body

    def sealed_another(self: Channel, round: str, body: bytes) -> Iterator[Parcel]:
        return sealed(self, round, meddled(body))

    def seal_another(self: Frame, round: str, sender: str, to: str, body: bytes, number: int = 0) -> Parcel:
        return seal(self, round, sender, to, meddled(body), number)

    Channel.sealed, Frame.seal = sealed_another, seal_another  # type: ignore[method-assign]
    try:
        # The 512 base transfers of each partner take most of the time.
        with free_transfers() if choices.below(64) else nullcontext():
            _matched()
    finally:
        Channel.sealed, Frame.seal = sealed, seal  # type: ignore[method-assign]


def _matched() -> None:
    parties = {
        name: AlignmentParty(IDENTITY, NAMES, k, IDS[name], Randomness(name.encode())) for k, name in enumerate(NAMES)
    }
    server = AlignmentServer(IDENTITY, NAMES)
    for round in server.rounds:
        for name, party in parties.items():
            for one in party.send(round):
                receiver = server if one.recipient == SERVER else parties[one.recipient]
                receiver.receive(round, name, one.payload)
        for one in server.send(round):
            parties[one.recipient].receive(round, SERVER, one.payload)
    for party in parties.values():
        party.rows()


def parcel_of(kind: str) -> Callable[[bytes], None]:
    return lambda data: parcel(kind, data)
