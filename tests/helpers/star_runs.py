"""All sides of an alignment by hand, every parcel recorded and, if asked, altered; base transfers that cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

from colonnade.crypto.alignment import star
from colonnade.crypto.alignment.base_ot import CHOICE_BYTES, COUNT, BaseSender
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER
from colonnade.foundation.randomness import Randomness

SESSION = bytes(range(32))
HEAD = 24
Tamper = Callable[[str, str, str, bytes], bytes]


def people(parties: int, common: int = 12, alone: int = 7, shared: int = 5) -> dict[str, list[str]]:
    """Shuffled ids: some of all parties, some of each neighbouring pair, some of one party only."""
    ids = {}
    for k in range(parties):
        pair = [
            f"pair {min(k, o)}-{max(k, o)}-{i}" for o in {(k + 1) % parties, (k - 1) % parties} for i in range(shared)
        ]
        everyone = [f"Zoë 陳 №{i}" for i in range(common)]
        mine = [*everyone, *[f"only {k} {i} ø" for i in range(alone)], *(pair if parties > 2 else [])]
        order = np.argsort(Randomness(seed=f"people {k}".encode()).words(len(mine)))
        ids[f"party {k}"] = [mine[i] for i in order]
    return ids


@dataclass
class Star:
    """All sides; the first of equally long lists is the hub's."""

    ids: dict[str, list[str]]
    tamper: Tamper = lambda round, sender, recipient, payload: payload
    session: bytes = SESSION
    named: dict[str, Any] = field(default_factory=dict)
    """Arguments of every party."""
    parcels: list[tuple[str, str, str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = tuple(self.ids)
        self.server = AlignmentServer(self.session, names)
        self.parties = {
            name: AlignmentParty(
                self.session, names, k, self.ids[name], Randomness(seed=self.session + name.encode()), **self.named
            )
            for k, name in enumerate(names)
        }

    def carry(self, round: str, sender: str, recipient: str, payload: bytes) -> None:
        self.parcels.append((round, sender, recipient, payload))
        altered = self.tamper(round, sender, recipient, payload)
        receiver = self.server if recipient == SERVER else self.parties[recipient]
        receiver.receive(round, sender, altered)

    def run(self, until: str | None = None) -> Star:
        for round in self.server.rounds:
            if round == until:
                break
            for name, party in self.parties.items():
                for parcel in party.send(round):
                    self.carry(round, name, parcel.recipient, parcel.payload)
            for parcel in self.server.send(round):
                self.carry(round, SERVER, parcel.recipient, parcel.payload)
        return self

    def found(self) -> list[list[str]]:
        """The common ids, as each party has them in order."""
        return [[self.ids[name][row] for row in party.rows()] for name, party in self.parties.items()]


class FreeReceiver:
    """Both ends know all seeds: for tests of what comes after the base transfers."""

    def __init__(self, context: bytes, public: bytes, bits: np.ndarray, randomness: Randomness) -> None:
        self.choices = blake2b(context).digest() * (CHOICE_BYTES // 64)
        both = free_seeds(context)
        self.seeds = [both[bit][j] for j, bit in enumerate(bits.tolist())]


def free_seeds(context: bytes) -> tuple[list[bytes], list[bytes]]:
    zeros, ones = (
        [blake2b(context + bytes([slot]) + j.to_bytes(2, "big"), digest_size=32).digest() for j in range(COUNT)]
        for slot in range(2)
    )
    return zeros, ones


@contextmanager
def free_transfers() -> Iterator[None]:
    """512 base transfers take a fifth of a second for each partner; most tests are not about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(star, "BaseReceiver", FreeReceiver)
        patch.setattr(BaseSender, "seeds", lambda self, context, choices: free_seeds(context))
        yield
