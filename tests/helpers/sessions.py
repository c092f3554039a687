"""Small whole sessions for the protocol's tests: K parties' tables, and a wire that can be listened to and cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.messages import Envelope
from colonnade.protocol.party import Party, Summed
from colonnade.protocol.server import Server
from colonnade.protocol.session_plan import SessionPlan

ROWS = 60
Drop = Callable[[Envelope], bool]


def agreement_of(parties: int = 2, **changes: Any) -> Agreement:
    """A study over p0 (numeric, categorical, label), p1 (numeric, binary), p2 (numeric) and so on."""
    columns: dict[str, dict[str, Column]] = {
        "p0": {"x0": Numeric(0, 10), "c0": Categorical(("a", "b", "c")), "y": Numeric(-5, 5)}
    }
    for k in range(1, parties):
        columns[f"p{k}"] = {f"x{k}": Numeric(-1, 1)}
        if k == 1:
            columns["p1"]["b1"] = Binary(("no", "yes"))
    agreement = Agreement(
        "small", Schema(columns), "p0.y", Task.LINEAR, epsilon=1.0, collusion=min(1, parties - 1), product="plain"
    )
    return replace(agreement, **changes)


def tables_of(agreement: Agreement, rows: int = ROWS, seed: int = 0) -> dict[str, Table]:
    generator = np.random.default_rng(seed)
    out = {}
    for party, columns in agreement.schema.parties.items():
        values: dict[str, Any] = {}
        for name, column in columns.items():
            if isinstance(column, Numeric):
                values[name] = generator.uniform(column.low, column.high, rows)
            else:
                values[name] = generator.integers(0, len(column.all_levels), rows).astype(np.int32)
        out[party] = Table(party, columns, values, rows)
    return out


def parties_of(agreement: Agreement, tables: Mapping[str, Table], source: Randomness, **hooks: Any) -> dict[str, Party]:
    return {
        name: Party(name, table.columns, table.rows, table.encode, source.child(f"party {name}"), **hooks)
        for name, table in tables.items()
    }


class Wire:
    """Carries envelopes depth first, keeps a copy of each, and loses those that `drop` picks."""

    def __init__(self, server: Server, parties: Mapping[str, Party], drop: Drop = lambda _: False) -> None:
        self.server, self.parties, self.drop = server, parties, drop
        self.seen: list[Envelope] = []

    def run(self) -> None:
        for party in self.parties.values():
            self.carry(party.join(self.server.identity))

    def carry(self, envelope: Envelope) -> None:
        self.seen.append(envelope)
        if self.drop(envelope):
            return
        whole = Envelope.decode(envelope.encode())
        receiver = self.parties[whole.recipient] if whole.sender == "" else None
        # A party's parcel to another party passes through the server.
        answers = self.server.receive(whole) if receiver is None else receiver.receive(whole)
        for answer in answers:
            if answer.sender != "" and receiver is None:
                self.deliver(answer)
            else:
                self.carry(answer)

    def deliver(self, envelope: Envelope) -> None:
        for answer in self.parties[envelope.recipient].receive(Envelope.decode(envelope.encode())):
            self.carry(answer)


def wired(agreement: Agreement, seed: bytes | None = b"seed", drop: Drop = lambda _: False, **hooks: Any) -> Wire:
    source = Randomness(seed)
    return Wire(
        Server(agreement, source.child("server")),
        parties_of(agreement, tables_of(agreement), source, **hooks),
        drop,
    )


def coins_of(party: str, seed: bytes = b"seed") -> bytes:
    """The coins by which a party of a seeded session rounds."""
    return Randomness(seed).child(f"party {party}").child("rounding").bytes(32)


def exact_moments(session: SessionPlan, tables: Mapping[str, Table]) -> NDArray[np.float64]:
    """Sums of all products of coordinates on the session's grid, the constant first, squares corrected."""
    parts, grams = [np.full((session.rows, 1), session.grid.bound, dtype=np.float64)], []
    for name in session.parties:
        columns = tables[name].encode(session.plan.layout, session.grid, coins_of(name))
        assert isinstance(columns, Summed)
        parts.append(np.asarray(columns.rows(0, session.rows), dtype=np.float64))
        grams.append((session.columns_of(name), columns.gram[1:, 1:]))
    record = np.concatenate(parts, axis=1)
    out = record.T @ record
    for own, gram in grams:
        out[own, own] = gram
    return out / session.grid.unit
