"""Sessions of secure products for tests: data, noise, and a relay that runs all sides in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.columns import resident
from colonnade.crypto.product import (
    SERVER,
    Contribution,
    Cross,
    Integers,
    PartyProduct,
    ProductSpec,
    ServerProduct,
)
from colonnade.foundation.errors import MessageError
from colonnade.foundation.randomness import Randomness

MakeParty = Callable[..., PartyProduct]
MakeServer = Callable[[ProductSpec], ServerProduct]


@dataclass
class Session:
    spec: ProductSpec
    data: list[NDArray[np.int16]]
    noise: list[Mapping[Cross, Integers]]

    @staticmethod
    def make(
        parties: int = 3,
        rows: int = 40,
        widths: tuple[int, ...] | None = None,
        bound: int = 15,
        modulus_bits: int = 48,
        gain: int = 1,
        noise: int = 100,
        seed: int = 1,
    ) -> Session:
        """Every pair of parties crossed, random columns, a noise share of every party in every entry."""
        widths = widths or tuple(1 + k % 2 for k in range(parties))
        generator = np.random.default_rng(seed)
        crosses = tuple(Cross(i, j, 0, widths[i], 0, widths[j]) for i in range(parties) for j in range(i + 1, parties))
        names = tuple(f"party {k}" for k in range(parties))
        reach = gain * rows * bound * bound + parties * noise
        spec = ProductSpec(generator.bytes(32), names, rows, bound, crosses, modulus_bits, gain, reach)
        data = [generator.integers(-bound, bound + 1, (rows, w)).astype(np.int16) for w in widths]
        shares = [{c: generator.integers(-noise, noise + 1, c.shape) for c in crosses} for _ in names]
        return Session(spec, data, list(shares))

    def exact(self) -> Integers:
        """gain * X'Y, all crosses in order."""
        parts = [
            self.data[c.left][:, c.left_start : c.left_stop].astype(np.int64).T
            @ self.data[c.right][:, c.right_start : c.right_stop].astype(np.int64)
            for c in self.spec.crosses
        ]
        return np.concatenate([self.spec.gain * part.ravel() for part in parts])

    def expected(self) -> Integers:
        """What may be opened: gain * X'Y plus all noise shares."""
        parts = [np.sum([share[c] for share in self.noise], axis=0).ravel() for c in self.spec.crosses]
        return self.exact() + np.concatenate(parts)


@dataclass
class Sent:
    round: str
    sender: str
    recipient: str
    payload: bytes
    bad: bool = False
    """Whether the recipient must refuse it."""


Tamper = Callable[[Sent], Iterator[Sent]]


@dataclass
class Relay:
    """All sides of one session; `tamper` stands between them and may change, drop or repeat parcels."""

    session: Session
    make_party: MakeParty
    make_server: MakeServer
    tamper: Tamper | None = None
    seed: bytes = b"relay"
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        spec = self.session.spec
        self.parties = [
            self.make_party(
                spec, k, resident(self.session.data[k]), self.session.noise[k], Randomness(self.seed + b"%d" % k)
            )
            for k in range(len(spec.parties))
        ]
        self.server = self.make_server(spec)

    def deliver(self, sent: Sent) -> None:
        self.sent.append(sent)
        for parcel in self.tamper(sent) if self.tamper else iter((sent,)):
            names = self.session.spec.parties
            to = self.server if parcel.recipient == SERVER else self.parties[names.index(parcel.recipient)]
            with pytest.raises(MessageError) if parcel.bad else nullcontext():
                to.receive(parcel.round, parcel.sender, parcel.payload)

    def rounds(self) -> None:
        names = self.session.spec.parties
        for round in self.parties[0].rounds:
            for k, party in enumerate(self.parties):
                for parcel in party.send(round):
                    self.deliver(Sent(round, names[k], parcel.recipient, parcel.payload))
            for parcel in self.server.send(round):
                self.deliver(Sent(round, SERVER, parcel.recipient, parcel.payload))

    def contributions(self) -> list[Contribution]:
        self.rounds()
        return [party.contribute() for party in self.parties]

    def open(self, given: list[Contribution]) -> Integers:
        total = np.sum([contribution.vector for contribution in given], axis=0, dtype=np.uint64)
        total &= np.uint64((1 << self.session.spec.modulus_bits) - 1)
        return self.server.open(total, [contribution.payload for contribution in given])


def run(session: Session, make_party: MakeParty, make_server: MakeServer) -> Integers:
    """The opened integers of an honest run."""
    relay = Relay(session, make_party, make_server)
    return relay.open(relay.contributions())


def arrays(root: object) -> Iterator[np.ndarray]:
    """Every array that can be reached from an object."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set):
            waiting += item
        elif type(item).__module__.startswith("colonnade"):
            waiting += [getattr(item, name) for name in getattr(item, "__slots__", ()) if hasattr(item, name)]
            waiting += getattr(item, "__dict__", {}).values()
