"""A multiplier that spells out its partner's sealing key, with an honest server: it works, and its audit names it.

The default policy refuses such plans beforehand: `test_cheating` has the sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade.audit.session import audit_session
from colonnade.consent.policy import Policy
from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.words import Planes
from colonnade.data.table import table_from
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.evidence import EvidenceFolder, KeptEvidence, read_key
from colonnade.transport.in_process import InProcess
from tests.helpers.accounts import SharedSigner

ROWS, LEVELS, DIGIT = 10_000, 300, 5
BINARY = {"kind": "binary", "levels": ["n", "y"]}
SCHEMA = Schema.of(
    {
        "hospital": {"hiv": BINARY, "label": BINARY},
        "shop": {"zip": {"kind": "categorical", "levels": [str(i) for i in range(LEVELS)]}},
    }
)
AGREEMENT = Agreement.from_terms("s", SCHEMA, "hospital.label", Task.LOGISTIC, epsilon=9.0, collusion=1, release="full")
SECRETS: list[Any] = []
"""Of the honest party, for the test's eyes alone."""


class Honest(LatticeParty):
    def wipe(self) -> None:
        if self._secrets.any():
            SECRETS.append(self._secrets.copy())
        super().wipe()


class Recovering(LatticeParty):
    """Sends multiples of powers of five in place of u, and adds nothing of its own to what is opened."""

    base, digits = 0, 0

    def _multiply(self) -> Any:
        spec, count = self._spec, len(self._right)
        u = np.zeros((count, N), np.uint64)
        for place in range(min(N, count * self.digits)):
            power = self.base * DIGIT ** (place % self.digits)
            u[place // self.digits, place] = np.uint64(power % (1 << spec.modulus_bits))
        for parcel in parcel_places(count, 0):
            planes = Planes.empty((parcel.columns, N), spec.modulus_bits, self._states.own.scratch)
            planes.write(slice(None), 0, u[parcel.all_columns])
            yield self._states.own.frames.wrap(1, self._me, parcel, planes)

    def _share(self, cross: Any) -> Any:
        return np.zeros(cross.shape, np.uint64)


def task_of(name: str, cheats: bool) -> FitParty:
    draw = np.random.default_rng(1)
    frames = {
        "hospital": {"hiv": draw.choice(["n", "y"], ROWS), "label": draw.choice(["n", "y"], ROWS)},
        "shop": {"zip": draw.integers(0, LEVELS, ROWS).astype(str)},
    }
    own = table_from(name, pl.DataFrame(frames[name]), SCHEMA.parties[name])
    task = FitParty(name, AGREEMENT, "none", lambda: own, Unguarded())
    if cheats:
        task.product = lambda session, workers: Honest if name == "hospital" else recovering(session)
    return task


def recovering(session: SessionPlan) -> type[LatticeParty]:
    spread = max(float(session.noise(i).stds().max()) for i, x in enumerate(session.plan.blocks) if not x.block.single)
    Recovering.base, Recovering.digits = int(12 * spread), 0
    while 2 * Recovering.base * DIGIT ** (Recovering.digits + 1) < 1 << (session.spec.modulus_bits - 1):
        Recovering.digits += 1
    return Recovering


def test_a_spelled_out_key_is_refused_beforehand_and_named_by_the_audit(tmp_path: Path) -> None:
    key = read_key(tmp_path / "key", make=True)
    tasks = {name: task_of(name, cheats=True) for name in SCHEMA.names}
    kept = {name: EvidenceFolder(tmp_path / name, key, {"party": name, "terms": t.terms}) for name, t in tasks.items()}
    roles = {
        name: PartyRole(task, Randomness(), SharedSigner(name), account=SessionAccount(kept[name]))
        for name, task in tasks.items()
    }
    server = FitServer(AGREEMENT, "none")
    InProcess(ServerRole(server, Randomness(), accountable=True), roles).carry()
    # Nobody's own checks have seen anything: the release is there, and with it the partner's key.
    assert server.release is not None and server.session is not None
    right = recovered(server.session, {i: b.values for i, b in enumerate(server.release.blocks)})
    assert right > 0.99
    places = {name: folder.place for name, folder in kept.items()}
    evidence = {name: KeptEvidence.read(place) for name, place in places.items() if place is not None}
    found = audit_session(
        evidence["shop"],
        evidence["shop"].opening(key),
        task_of("shop", False),
        [evidence["hospital"]],
        checker=SharedSigner("auditor"),
    )
    assert [(quote.holder, quote.round) for quote in found.quotes] == [("hospital", "multiply")]
    honest = audit_session(evidence["hospital"], evidence["hospital"].opening(key), task_of("hospital", False))
    assert honest.passed
    # A default policy does not let it come so far.
    plan = plan_session(AGREEMENT, ROWS, bytes(32))
    with pytest.raises(PolicyError, match="smallest_key_bits is 100, the plan leaves"):
        Policy("hospital", ("shop",), 10.0, Cap(10.0)).check(plan)


def recovered(session: SessionPlan, blocks: dict[int, Any]) -> float:
    """How much of what was read of the key is right."""
    (cross,) = session.spec.crosses
    assert session.parties[cross.left] == "hospital"
    opened = np.zeros(session.length, np.int64)
    for i, values in blocks.items():
        opened[session.positions[i]] = values
    table = opened[session.cross_start :].reshape(cross.shape)
    secrets, (digits, base) = SECRETS[-1].astype(int), (Recovering.digits, Recovering.base)
    covered = min(N, cross.shape[1] * digits)
    read = np.zeros((cross.shape[0], covered), int)
    for row in range(cross.shape[0]):
        for place in range(0, covered, digits):
            rest = (-int(table[row, place // digits]) + base // 2) // base
            for t in range(min(digits, covered - place)):
                digit = (rest + 2) % DIGIT - 2
                read[row, place + t], rest = digit, (rest - digit) // DIGIT
    assert covered > 500, "too little is read for the test to say anything"
    return float((read == secrets[:, :covered]).mean())
