"""One party's side of all products of a session: of two owners, and of more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from colonnade.crypto.backends import chain_party
from colonnade.crypto.product import (
    ChainParty,
    Contribution,
    Cross,
    Integers,
    Parcel,
    PartyProduct,
)
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import Workers
from colonnade.planning.session_plan import SessionPlan

NOTHING = Contribution(np.zeros(0, dtype=np.uint64))  # of a session without products


class SessionProducts:
    """Each round goes to the product that has it; both contributions stand one behind the other."""

    def __init__(
        self,
        session: SessionPlan,
        product: type[PartyProduct],
        me: int,
        columns: IntegerColumns,
        noise: Integers,
        randomness: Randomness,
        workers: Workers,
    ) -> None:
        self._name = session.parties[me]
        self._pairs: PartyProduct | None = None
        self._chain: ChainParty | None = None
        self._chain_rounds: tuple[str, ...] = ()
        if session.spec.crosses:
            of_crosses, start = dict[Cross, Integers](), 0
            for cross in session.spec.crosses:
                stop = start + cross.shape[0] * cross.shape[1]
                of_crosses[cross] = noise[start:stop].reshape(cross.shape)
                start = stop
            self._pairs = product(session.spec, me, columns, of_crosses, randomness.child("product"))
            self._pairs.workers = workers
        if session.chains is not None:
            rest = noise[session.chain_start - session.cross_start :]
            chain = chain_party(session.agreement.product)
            self._chain_rounds = chain.rounds(session.chains)
            self._chain = chain(session.chains, me, columns, rest, randomness.child("chains"))

    def _running(self, round: str) -> PartyProduct | ChainParty:
        found = self._chain if round in self._chain_rounds else self._pairs
        if found is None:
            raise ProtocolError(f"party {self._name} runs no product")
        return found

    def send(self, round: str) -> Iterator[Parcel]:
        return self._running(round).send(round)  # Alg. 1, line 11

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        self._running(round).receive(round, sender, payload)

    def contribute(self) -> Contribution:
        """The shares of all products, noise included."""
        found = NOTHING if self._pairs is None else self._pairs.contribute()
        if self._chain is None:
            return found
        return replace(found, vector=np.concatenate([found.vector, self._chain.contribute()]))

    def wipe(self) -> None:
        for product in (self._pairs, self._chain):
            if product is not None:
                product.wipe()
