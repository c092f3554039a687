"""Nobody ever holds an exact cross-party product: all arrays that a role can reach are searched after each message."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.messages import Envelope
from colonnade.protocol.party import Party
from colonnade.protocol.server import Server
from colonnade.transport.in_process import InProcess

ROWS = 300


def _tables() -> dict[str, Table]:
    generator = np.random.default_rng(7)
    columns: dict[str, dict[str, Any]] = {
        "a": {"x1": Numeric(-1, 1), "c": Categorical(("u", "v", "w")), "y": Numeric(-1, 1)},
        "b": {"x2": Numeric(-1, 1), "x3": Numeric(-1, 1)},
        "c": {"x4": Numeric(-1, 1)},
    }
    tables = {}
    for party, declared in columns.items():
        values: dict[str, Any] = {
            name: generator.integers(0, 3, ROWS).astype(np.int32) if name == "c" else generator.uniform(-1, 1, ROWS)
            for name in declared
        }
        tables[party] = Table(party, declared, values, ROWS)
    return tables


def _arrays(root: object) -> Iterator[np.ndarray[Any, Any]]:
    """Every integer or float array that can be reached from an object without passing through modules or classes."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        if (
            id(item) in seen
            or isinstance(item, type)
            or type(item).__name__ in ("module", "function", "builtin_function_or_method")
        ):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            if item.dtype.kind in "iuf" and item.size:
                yield item
            continue
        stack.extend(gc.get_referents(item))


class _Searching(InProcess):
    """Looks through all roles after each delivery."""

    def __init__(self, server: Server, parties: dict[str, Party], tables: dict[str, Table]) -> None:
        super().__init__(server, parties)
        self.tables = tables
        self.coins = {n: Randomness(b"search").child(n).child("rounding").bytes(32) for n in tables}
        self.looked = 0
        self.found: list[str] = []
        self._exact: set[int] = set()

    def _learn(self) -> None:
        session = self._server.session
        if session is None or self._exact:
            return
        encoded = {
            n: t.encode(session.plan.layout, session.grid, self.coins[n]).rows(0, ROWS).astype(np.int64)
            for n, t in self.tables.items()
        }
        for cross in session.spec.crosses:
            left, right = (encoded[session.parties[k]] for k in (cross.left, cross.right))
            product = left.T @ right
            for factor in (1, session.spec.gain):
                # Small values would be met by chance.
                self._exact |= {int(v) * factor for v in product.ravel() if abs(int(v)) * factor > 10_000}

    def _look(self, role: str, holder: object) -> None:
        self._learn()
        session = self._server.session
        if session is None:
            return
        bits = session.spec.modulus_bits
        wanted = np.array(sorted({v % (1 << bits) for v in self._exact} | self._exact_small()), dtype=np.float64)
        for array in _arrays(holder):
            self.looked += 1
            values = array.ravel()
            if values.dtype.kind == "f":
                values = values[np.isfinite(values)]
            hits = np.isin(np.mod(values.astype(np.float64), float(1 << bits)), wanted)
            if hits.sum() >= 3:
                self.found.append(f"{role}: {int(hits.sum())} exact products in an array of shape {array.shape}")

    def _exact_small(self) -> set[int]:
        return {v for v in self._exact if v > 0}

    def _to_server(self, envelope: Envelope) -> None:
        super()._to_server(envelope)
        self._look("server", self._server)

    def _to_party(self, envelope: Envelope) -> None:
        super()._to_party(envelope)
        for name, party in self._parties.items():
            self._look(name, party)


def _run(product: str) -> _Searching:
    tables = _tables()
    schema = Schema({name: table.columns for name, table in tables.items()})
    agreement = Agreement("search", schema, "y", Task.LINEAR, epsilon=1.0, product=product)
    source = Randomness(b"search")
    server = Server(agreement, source.child("server"))
    parties = {n: Party(n, t.columns, t.rows, t.encode, source.child(n)) for n, t in tables.items()}
    transport = _Searching(server, parties, tables)
    transport.run()
    return transport


def test_nobody_holds_an_exact_product_of_the_lattice() -> None:
    transport = _run("lattice")
    assert transport.looked > 100
    assert transport.found == []


def test_the_search_would_notice() -> None:
    """The simulated product does hold exact products at the multiplying party."""
    assert any("exact products" in line for line in _run("plain").found)


def test_the_search_sees_what_a_role_holds() -> None:
    array = np.arange(5)
    assert any(found is array for found in _arrays({"deep": [({"er": array},)]}))


@pytest.mark.parametrize("product", ["lattice"])
def test_secrets_are_wiped(product: str) -> None:
    tables = _tables()
    schema = Schema({name: table.columns for name, table in tables.items()})
    agreement = Agreement("wipe", schema, "y", Task.LINEAR, epsilon=1.0, product=product)
    source = Randomness(b"wipe")
    server = Server(agreement, source.child("server"))
    parties = {n: Party(n, t.columns, t.rows, t.encode, source.child(n)) for n, t in tables.items()}
    InProcess(server, parties).run()
    for party in parties.values():
        assert party._product is None and party._own == {}
