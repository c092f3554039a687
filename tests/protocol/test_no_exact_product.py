"""Nobody ever holds an exact cross-party product: all arrays that a role can reach are searched after each message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from colonnade.data.table import Table
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Envelope
from tests.helpers.sessions import TappedSession, arrays_in, coins_of, secrets_in, tapped_session

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


class _Search:
    """Looks through all roles whenever a message is on the wire, on either way: before the next one is worked on."""

    def __init__(self, tables: dict[str, Table]) -> None:
        self.tables = tables
        self.wire: TappedSession | None = None
        self.looked = 0
        self.found: list[str] = []
        self._exact: set[int] = set()

    def __call__(self, envelope: Envelope, up: bool) -> Iterable[Envelope]:
        assert self.wire is not None
        self._look("server", self.wire.server)
        for name, party in self.wire.parties.items():
            self._look(name, party)
        return (envelope,)

    def _learn(self) -> None:
        assert self.wire is not None and isinstance(self.wire.server.task, FitServer)
        session = self.wire.server.task.session
        if session is None or self._exact:
            return
        encoded = {
            n: t.encode(session.plan.layout, session.grid, coins_of(n, b"search")).rows(0, ROWS).astype(np.int64)
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
        if self.wire is None or not self._exact:
            return
        bits = self.wire.session.spec.modulus_bits
        wanted = np.array(sorted({v % (1 << bits) for v in self._exact} | self._exact_small()), dtype=np.float64)
        for array in arrays_in(holder):
            self.looked += 1
            values = array.ravel()
            if values.dtype.kind == "f":
                values = values[np.isfinite(values)]
            hits = np.isin(np.mod(values.astype(np.float64), float(1 << bits)), wanted)
            if hits.sum() >= 3:
                self.found.append(f"{role}: {int(hits.sum())} exact products in an array of shape {array.shape}")

    def _exact_small(self) -> set[int]:
        return {v for v in self._exact if v > 0}


def _agreement(product: str) -> tuple[Agreement, dict[str, Table]]:
    tables = _tables()
    schema = Schema({name: table.columns for name, table in tables.items()})
    return Agreement.from_terms("search", schema, "y", Task.LINEAR, epsilon=1.0, product=product), tables


def _run(product: str) -> _Search:
    agreement, tables = _agreement(product)
    search = _Search(tables)
    search.wire = tapped_session(agreement, b"search", tables=tables, meddle=search)
    search.wire.run()
    assert search.wire.release is not None
    return search


def test_nobody_holds_an_exact_product_of_the_lattice() -> None:
    search = _run("lattice")
    assert search.looked > 100
    assert search.found == []


def test_the_search_would_notice() -> None:
    """The simulated product does hold exact products at the multiplying party."""
    assert any("exact products" in line for line in _run("plain").found)


def test_the_search_sees_what_a_role_holds() -> None:
    array = np.arange(5)
    assert any(found is array for found in arrays_in({"deep": [({"er": array},)]}))


@pytest.mark.parametrize("product", ["lattice"])
def test_secrets_are_wiped(product: str) -> None:
    agreement, tables = _agreement(product)
    wire = tapped_session(agreement, b"wipe", tables=tables)
    wire.run()
    for party in wire.parties.values():
        assert secrets_in(party) == []
