"""Two attacks that need no record to be replaced: a party's column from inner products, and membership of a record."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from audit.studies import lean
from colonnade.audit.bounds import limits
from colonnade.audit.likelihood import Ratio
from colonnade.audit.pairs import Record, exact_vector, tables_with
from colonnade.audit.transcript import collect, listen
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Recovered:
    """How well a curious party knows another party's column afterwards."""

    error: float
    """Length of the error over the length of the column; guessing 0 everywhere gives 1."""
    signs: float
    """Share of records whose sign is right."""


def _judged(guess: Floats, truth: Floats) -> Recovered:
    error = float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))
    return Recovered(error, float((np.sign(guess) == np.sign(truth)).mean()))


def _columns(records: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """The attacker's n columns, and the column of plus and minus ones that it wants."""
    return generator.uniform(-1, 1, (records, records)), generator.choice([-1.0, 1.0], records)


def paper_view(own: Floats, other: Floats, scale: float, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """What a party of the paper's Algorithm 1 sees: it decrypts its pair's inner products, then adds noise.

    Lines 11 to 13: the product comes out of the decryption exact, and the noise that is sent on is drawn by the pair.
    """
    decrypted = own.T @ other
    share = generator.gamma(0.5, scale, len(decrypted)) - generator.gamma(0.5, scale, len(decrypted))
    return decrypted, decrypted + share


def against_paper(records: int, epsilon: float, seed: int) -> Recovered:
    """d^k = n: as many exact equations as unknown entries."""
    generator = np.random.default_rng(seed)
    own, other = _columns(records, generator)
    delta = 2.0 * (1 + records + 1) ** 2
    seen, _ = paper_view(own, other, delta / epsilon, generator)
    return _judged(np.asarray(np.linalg.solve(own.T, seen), dtype=np.float64), other)


def against_ours(records: int, epsilon: float, seed: int, randomness: Randomness) -> Recovered:
    """The same attack on a session: the release, less the attacker's own share, with the best ridge for that noise."""
    generator = np.random.default_rng(seed)
    own, other = _columns(records, generator)
    columns: dict[str, dict[str, Column]] = {
        "p0": {"y": Numeric(-1, 1)},
        "p1": {f"x{j}": Numeric(-1, 1) for j in range(records)},
    }
    agreement = Agreement.from_terms(
        "columns", Schema(columns), "y", Task.LINEAR, epsilon, collusion=1, release="trace"
    )
    session = plan_session(agreement, records, bytes(32))
    rows: list[Record] = [
        {"p0": {"y": float(other[i])}, "p1": {f"x{j}": float(own[i, j]) for j in range(records)}}
        for i in range(records)
    ]
    seen = listen(agreement, tables_with(session, rows, records), randomness)
    cross = next(i for i, item in enumerate(session.plan.blocks) if not item.block.single)
    places = session.positions[cross]
    party = session.parties.index("p1")
    unit = session.unit(session.plan.blocks[cross].block)
    products = (seen.released - seen.shares[party])[places] / unit
    variance = float(np.mean((session.noise(cross).stds() / unit) ** 2))
    label = session.plan.layout.starts[session.plan.layout.label]
    factors = session.plan.blocks[cross].block.factors
    found = {int(f.sum()) - label: float(p) for f, p in zip(factors, products, strict=True)}
    order = [session.plan.layout.names.index(f"x{j}") for j in range(records)]
    vector = np.array([found[at] for at in order])
    guess = np.linalg.solve(own @ own.T + variance * np.eye(records), own @ vector)
    return _judged(guess, other)


@dataclass(frozen=True)
class Membership:
    """How often an attacker who knows all other records tells which of two records was in the study."""

    epsilon: float
    sessions: int
    advantage: float
    """True less false positives."""
    least: float
    """What the counts prove of it."""
    bound: float
    """(e^epsilon - 1) / (e^epsilon + 1)."""


def membership(epsilon: float, targets: int, sessions: int, randomness: Randomness, seed: int = 0) -> Membership:
    """Random people instead of worst cases: the likelihood ratio decides, on releases of real sessions."""
    generator = np.random.default_rng(seed)
    agreement, rows = lean(2, epsilon=epsilon), 30
    session = plan_session(agreement, rows, bytes(32))
    hits = alarms = total = 0
    for target in range(targets):
        people: list[Record] = [
            {"p0": {"y": float(generator.uniform(-1, 1))}, "p1": {"x1": float(generator.uniform(-1, 1))}}
            for _ in range(rows + 1)
        ]
        inside, outside = (tables_with(session, r, rows) for r in (people[:-1], [people[-1], *people[1:-1]]))
        ratio = Ratio(session, exact_vector(session, inside), exact_vector(session, outside))
        source = randomness.child(f"target {target}")
        said = [
            ratio.of_release(collect(agreement, tables, sessions, source.child(name))) > 0
            for name, tables in (("in", inside), ("out", outside))
        ]
        hits, alarms, total = hits + int(said[0].sum()), alarms + int(said[1].sum()), total + sessions
    low = float(limits(np.array(hits), total, 0.0005)[0]) - float(limits(np.array(alarms), total, 0.0005)[1])
    bound = (exp(epsilon) - 1) / (exp(epsilon) + 1)
    return Membership(epsilon, 2 * total, (hits - alarms) / total, max(0.0, low), bound)
