"""Honest parties that prove what they send are never refused: whole sessions, and every sum that they prove.

    python -m drills.proofs [--sessions 200] [--seed 1] [--json]

Each session is a study drawn at random of two or three parties. Its release is compared, integer by integer, with that
of the same plan without proofs. Of every sum that is proved, how much of its range it takes is noted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from colonnade.crypto.ranges.relations import TrueSums
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import REQUIRED, Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.in_process import InProcess


class Ranges:
    """How many sums were proved, and the largest share of its range that one took."""

    def __init__(self) -> None:
        self.sums, self.largest = 0, {"z of S": 0.0, "h of S": 0.0, "z of M": 0.0, "h of M": 0.0}

    def watch(self) -> None:
        """Look on where sums are spelt."""
        spell, ranges = TrueSums.bits, self

        def watched(sums: TrueSums, keys: Any) -> Any:
            out, statement, at = spell(sums, keys), sums._statement, 0
            kind = "S" if statement.seals else "M"
            for _ in statement.spans:
                for name, reach, weights in zip("zh", (statement.z, statement.h), statement.sum_weights, strict=True):
                    size = 64 * statement.columns * len(weights)
                    spelt = out[at : at + size].reshape(-1, len(weights)).astype(np.int64) @ np.array(weights) - reach
                    at += size
                    share = float(np.abs(spelt).max()) / reach
                    ranges.largest[f"{name} of {kind}"] = max(ranges.largest[f"{name} of {kind}"], share)
                    ranges.sums += len(spelt)
            return out

        TrueSums.bits = watched  # type: ignore[method-assign]


def drawn_study(draw: np.random.Generator) -> tuple[Agreement, dict[str, Table]]:
    """Two or three parties with a few columns of every kind, and a label that is a number or has two levels."""
    count, rows, linear = int(draw.integers(2, 4)), int(draw.integers(20, 5000)), bool(draw.integers(2))
    columns: dict[str, dict[str, Column]] = {}
    for k in range(count):
        own: dict[str, Column] = {}
        for i in range(int(draw.integers(1, 4))):
            levels = tuple(f"l{j}" for j in range(int(draw.integers(3, 7))))
            kinds: tuple[Column, ...] = (Numeric(-1, 1), Binary(("no", "yes")), Categorical(levels))
            own[f"x{k}{i}"] = kinds[int(draw.integers(3))]
        columns[f"p{k}"] = own
    columns["p0"]["y"] = Numeric(0, 1) if linear else Binary(("no", "yes"))
    agreement = Agreement.from_terms(
        "drill", Schema(columns), "p0.y", Task.LINEAR if linear else Task.LOGISTIC, epsilon=float(draw.uniform(0.5, 2)),
        collusion=int(draw.integers(1, count)), proofs=REQUIRED,
    )  # fmt: skip
    tables = {}
    for party, own in columns.items():
        values: dict[str, Any] = {}
        for name, column in own.items():
            if isinstance(column, Numeric):
                values[name] = draw.uniform(column.low, column.high, rows)
            else:
                values[name] = draw.integers(0, len(column.all_levels), rows).astype(np.int32)  # type: ignore[attr-defined]
        tables[party] = Table(party, own, values, rows)
    return agreement, tables


def opened(agreement: Agreement, tables: dict[str, Table], seed: bytes, planner: Callable[..., SessionPlan]) -> Any:
    """The release of one session, and its plan; raises what a party refuses."""
    source, server = Randomness(seed), FitServer(agreement, "none", planner)
    roles = {}
    for name in agreement.schema.names:
        task = FitParty(name, agreement, "none", partial(tables.__getitem__, name), Unguarded(), planner=planner)
        roles[name] = PartyRole(task, source)
    InProcess(ServerRole(server, source), roles).carry()
    return server.release, server.session


def without_proofs(agreement: Agreement, rows: int, identity: bytes) -> SessionPlan:
    """The same plan, in which nothing is proved."""
    session = plan_session(agreement, rows, identity)
    return replace(session, spec=replace(session.spec, groups=()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    ranges, refused, alike, proved = Ranges(), list[str](), 0, 0
    ranges.watch()
    for number in range(given.sessions):
        draw = np.random.default_rng([given.seed, number])
        agreement, tables = drawn_study(draw)
        seed = draw.bytes(32)
        try:
            release, session = opened(agreement, tables, seed, plan_session)
            proved += session.proved
            other, _ = opened(agreement, tables, seed, without_proofs)
            pairs = zip(release.blocks, other.blocks, strict=True)
            alike += all((one.values == two.values).all() for one, two in pairs)
        except ColonnadeError as error:
            refused.append(f"{number}: {error}")
    told = {
        "sessions": given.sessions,
        "with_products": proved,
        "refused": refused,
        "alike": alike,
        "sums": ranges.sums,
        "largest_share_of_a_range": {name: round(share, 3) for name, share in ranges.largest.items()},
    }
    print(json.dumps(told, indent=None if given.json else 1))
    return int(bool(refused) or alike < given.sessions)


if __name__ == "__main__":
    sys.exit(main())
