"""Small whole sessions for the protocol's tests: K parties' tables, and a wire that can be listened to and cut."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import SERVER
from colonnade.data.table import Table
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.matching import NONE
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.fit import FitParty, FitServer, Planner
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import Signer
from colonnade.protocol.tasks import Guard, Unguarded
from colonnade.transport.in_process import InProcess, Wire, pass_on
from colonnade.transport.wire import Traffic

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
    agreement = Agreement.from_terms(
        "small", Schema(columns), "p0.y", Task.LINEAR, epsilon=1.0, collusion=min(1, parties - 1), product="plain"
    )
    return agreement.with_terms(**changes)


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


def people_of(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The same tables with ids: each party lacks a few of the people, and has the others in an order of its own."""
    out = {}
    for k, (name, table) in enumerate(tables.items()):
        order = np.roll(np.arange(k, table.rows), 7 * k)
        out[name] = replace(table.take(order), ids=[f"person {i}" for i in order])
    return out


class Scripted(Unguarded):
    """Consent without conditions, but for the calls that a test takes over."""

    def __init__(self, **calls: Callable[..., Any]) -> None:
        vars(self).update(calls)


def server_of(agreement: Agreement, source: Randomness, alignment: str = NONE, **options: Any) -> ServerRole:
    return ServerRole(FitServer(agreement, alignment, **options), source)


def parties_of(
    agreement: Agreement,
    tables: Mapping[str, Any],
    source: Randomness,
    alignment: str = NONE,
    guards: Mapping[str, Guard] | None = None,
    signers: Mapping[str, Signer] | None = None,
    **options: Any,
) -> dict[str, PartyRole]:
    """Each party's role, unguarded where no guard is given for it."""
    out = {}
    for name in agreement.schema.names:
        guard = (guards or {}).get(name, Unguarded())
        task = FitParty(name, agreement, alignment, partial(tables.__getitem__, name), guard, **options)
        out[name] = PartyRole(task, source, (signers or {}).get(name))
    return out


class TappedSession:
    """A server's and parties' roles, and a wire that keeps a copy of each message and loses those that `drop` picks.

    `meddle` stands on the wire before that; without a last word of the server `run` is content if a message was lost.
    """

    def __init__(
        self,
        server: ServerRole,
        parties: Mapping[str, PartyRole],
        drop: Drop = lambda _: False,
        meddle: Wire = pass_on,
    ) -> None:
        self.server, self.parties, self.drop, self.meddle = server, parties, drop, meddle
        self.seen: list[Envelope] = []
        """Each message once, as it was sent: what the server hands on is not kept again."""
        self.lost = 0
        self._carrier = InProcess(server, parties, self._pass)

    @property
    def traffic(self) -> Traffic:
        return self._carrier.traffic

    def run(self) -> None:
        try:
            self._carrier.carry()
        except ProtocolError as error:
            if not self.lost or "without a last word" not in str(error):
                raise

    def _pass(self, envelope: Envelope, up: bool) -> Iterator[Envelope]:
        for passed in self.meddle(envelope, up):
            if not up and passed.sender != SERVER:
                yield passed
                continue
            self.seen.append(passed)
            if self.drop(passed):
                self.lost += 1
            else:
                yield passed

    def sent(self, *steps: Step) -> list[Envelope]:
        return [envelope for envelope in self.seen if envelope.step in steps]

    @property
    def session(self) -> SessionPlan:
        assert isinstance(self.server.task, FitServer) and self.server.task.session is not None
        return self.server.task.session

    @property
    def release(self) -> ReleaseRecord | None:
        """What the server has opened."""
        assert isinstance(self.server.task, FitServer)
        return self.server.task.release

    def kept(self, party: str) -> ReleaseRecord | None:
        """What a party has put where it stays."""
        task = self.parties[party].task
        assert isinstance(task, FitParty)
        return task.kept


def tapped_session(
    agreement: Agreement,
    seed: bytes | None = b"seed",
    drop: Drop = lambda _: False,
    tables: Mapping[str, Any] | None = None,
    alignment: str = NONE,
    meddle: Wire = pass_on,
    planner: Planner = plan_session,
    **options: Any,
) -> TappedSession:
    source = Randomness(seed)
    own = tables_of(agreement) if tables is None else tables
    parties = parties_of(agreement, own, source, alignment, planner=planner, **options)
    return TappedSession(server_of(agreement, source, alignment, planner=planner), parties, drop, meddle)


def altered(envelope: Envelope, **changes: Any) -> Envelope:
    """The same message but for some fields."""
    return msgspec.structs.replace(envelope, **changes)


def arrays_in(root: object) -> Iterator[NDArray[Any]]:
    """Every array of numbers that can be reached from an object without passing through modules or classes."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        kind = type(item).__name__
        if id(item) in seen or isinstance(item, type) or kind in ("module", "function", "builtin_function_or_method"):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            if item.dtype.kind in "iuf" and item.size:
                yield item
        else:
            stack.extend(gc.get_referents(item))


def secrets_in(role: PartyRole) -> list[NDArray[Any]]:
    """Arrays of a party's role that are not all zero, beside those of plan, release and data."""
    task = role.task
    assert isinstance(task, FitParty)
    known = {id(array) for array in arrays_in((task.session, task.agreement, task.source, task.kept))}
    return [array for array in arrays_in(role) if id(array) not in known and array.any()]


def coins_of(party: str, seed: bytes = b"seed") -> bytes:
    """The coins by which a party of a seeded session rounds."""
    return Randomness(seed).child(f"party {party}").child("rounding").bytes(32)


def exact_moments(session: SessionPlan, tables: Mapping[str, Table]) -> NDArray[np.float64]:
    """Sums of all products of coordinates on the session's grid, the constant first, squares corrected."""
    parts, grams = [np.full((session.rows, 1), session.grid.bound, dtype=np.float64)], []
    for name in session.parties:
        columns = tables[name].encode(session.plan.layout, session.grid, coins_of(name))
        parts.append(np.asarray(columns.rows(0, session.rows), dtype=np.float64))
        grams.append((session.columns_of(name), columns.sums.unbiased()[1:, 1:]))
    record = np.concatenate(parts, axis=1)
    out = record.T @ record
    for own, gram in grams:
        out[own, own] = gram
    return out / session.grid.unit
