"""`python -m audit.keys --plans 2000`: random plans, and the bits of key that each leaves to those who see hints.

Whoever multiplies with its columns, and pools what it knows with those that may collude, sees sums of errors and keys
under the noise of the others. Bits are computed here from the final plan, by the distributions of
docs/secure-product.md, and not by the way in which a plan chose its modulus: every accepted plan must have 128.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from colonnade.crypto.chains.last import LastStep
from colonnade.crypto.lattice.security import key_bits
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session

FLOOR = 128
DIMENSION = 2048
ERROR, SECRET, WIDE, WIDEST = 2 * (8**2 - 1) / 12, 1.0, 2 * (16**2 - 1) / 12, 4 * (4096**2 - 1) / 12
"""Variances of e, s, rho and e2: differences of uniform numbers of 3, 4 and (two of them) 12 bits, four fair bits."""


@dataclass(frozen=True)
class Hinted:
    """The worst column of a plan."""

    bits: float
    hints: int
    share: float
    """The lattice error's standard deviation over that of the noise that the others add."""
    modulus_bits: int
    chain: bool


def hinted(session: SessionPlan) -> Hinted | None:
    """What is left of the sealing key that is worst off; None where nothing is sealed."""
    found = []
    part = min(session.plan.share(party) for party in session.parties)
    noise = session.cross_noise(part)
    deviations = np.zeros(noise.size)
    for spread, where in noise.spreads:
        deviations[where] = sqrt(2) * float(spread) if noise.law is Distribution.LAPLACE else sqrt(float(spread))
    split = session.chain_start - session.cross_start
    if session.spec.crosses:
        found += list(_columns(session, session.spec, deviations[:split], 1, chain=False))
    if session.chains is not None:
        last = LastStep(session.chains)
        holders = max(len(chain.holders) for chain in session.chains.chains)
        found += list(_columns(session, last.product, deviations[split:][list(last.values)], holders, chain=True))
    return min(found, key=lambda one: one.bits, default=None)


def _columns(
    session: SessionPlan, spec: ProductSpec, deviations: np.ndarray, holders: int, *, chain: bool
) -> Iterator[Hinted]:
    """For every party that seals and every set of those that may look together, its column with most hints."""
    parties = len(spec.parties)
    together = max(1, session.plan.collusion)
    # Each of K shares has 1/(K - c) of the variance; those who look together know their own.
    honest = (parties - together) / (parties - session.plan.collusion)
    error = holders * (spec.rows * spec.bound**2 * ERROR + DIMENSION * (ERROR + SECRET) * WIDE + WIDEST)
    starts = np.cumsum([0, *(c.shape[0] * c.shape[1] for c in spec.crosses)])
    for left in {c.left for c in spec.crosses}:
        for coalition in combinations({c.right for c in spec.crosses if c.left == left}, together):
            told: dict[int, list[float]] = {}
            for start, cross in zip(starts, spec.crosses, strict=False):
                if cross.left == left and cross.right in coalition:
                    values = deviations[start : start + cross.shape[0] * cross.shape[1]].reshape(cross.shape)
                    for row, column in enumerate(range(cross.left_start, cross.left_stop)):
                        told.setdefault(column, []).extend(values[row])
            if told:
                most = max(told.values(), key=len)
                least = min(min(own) for own in told.values())
                share = float(sqrt(error / honest) / least)
                shrunk = sqrt(2 * (1 + len(most) * share**2))
                bits = key_bits(DIMENSION, spec.modulus_bits, sqrt(SECRET) / shrunk, sqrt(ERROR) / shrunk)
                yield Hinted(bits, len(most), share, spec.modulus_bits, chain)


def random_plan(draw: np.random.Generator) -> tuple[Agreement, int]:
    """Two to four parties, up to 2^31 records, one number to 60 columns a party, every collusion, chains among them."""
    chained = draw.random() < 0.3
    count = int(draw.integers(3, 5)) if chained else int(draw.integers(2, 5))
    task = Task.LINEAR if draw.random() < 0.5 else Task.LOGISTIC
    parties: dict[str, dict[str, Column]] = {}
    for k in range(count):
        size = int(draw.integers(1, 4)) if chained else round(10 ** draw.uniform(0, 1.8))
        kinds: list[Column] = [Numeric(-1, 1), Numeric(-1, 1), Binary(("no", "yes"))]
        parties[f"p{k}"] = {f"x{k}_{j}": kinds[int(draw.integers(3))] for j in range(size)}
        if not chained and draw.random() < 0.1:
            parties[f"p{k}"][f"level{k}"] = Categorical(tuple(f"v{i}" for i in range(int(draw.integers(3, 200)))))
    parties["p0"]["y"] = Numeric(-1, 1) if task is Task.LINEAR else Binary(("no", "yes"))
    collusion = int(draw.choice([0, 0, 1, *range(count)])) % count
    # Short of records no plan is near the floor: most of them are long.
    rows = int(10 ** (draw.uniform(2, 7) if draw.random() < 0.3 else draw.uniform(7, 9.33)))
    agreement = Agreement.from_terms(
        "keys",
        Schema(parties),
        "p0.y",
        task,
        epsilon=float(10 ** draw.uniform(-2, 1.3)),
        delta=float(draw.choice([0.0, 1e-9, 1e-6])),
        collusion=collusion,
        release="auto" if chained else str(draw.choice(["auto", "full", "label"])),
        interactions=(tuple(f"p{k}.x{k}_0" for k in range(int(draw.integers(2, count + 1)))),) if chained else (),
    )
    return agreement, rows


def search(plans: int, seed: int) -> dict[str, Any]:
    """The fewest bits of any accepted plan, by number of parties that may collude, chains apart."""
    worst: dict[str, dict[str, Any]] = {}
    accepted, under, drawn = 0, [], 0
    refused: dict[str, int] = {}
    while accepted < plans:
        agreement, rows = random_plan(np.random.default_rng([seed, drawn]))
        drawn += 1
        try:
            session = plan_session(agreement, rows, bytes(32))
        except ColonnadeError as error:
            refused[type(error).__name__] = refused.get(type(error).__name__, 0) + 1
            continue
        found = hinted(session)
        if found is None:
            continue
        accepted += 1
        told = {"number": drawn - 1, "n": session.rows, **vars(found), "bits": round(found.bits, 3)}
        kind = f"collusion {session.plan.collusion}{', chain' if found.chain else ''}"
        if kind not in worst or told["bits"] < worst[kind]["bits"]:
            worst[kind] = told
        if found.bits < FLOOR:
            under.append(told)
    return {"plans": accepted, "seed": seed, "drawn": drawn, "refused": refused, "worst": worst, "under": under}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m audit.keys", description=__doc__)
    parser.add_argument("--plans", type=int, default=2000, help="accepted plans to look at")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    found = search(options.plans, options.seed)
    if options.json:
        print(json.dumps(found | {"seconds": round(time.monotonic() - began, 1)}))
    else:
        for kind, one in sorted(found["worst"].items()):
            print(f"{kind}: {one['bits']:.1f} bits (plan {one['number']}, n = {one['n']:,}, 2^{one['modulus_bits']})")
        print(f"{len(found['under'])} of {found['plans']} accepted plans under {FLOOR} bits; {found['drawn']} drawn")
    return int(bool(found["under"]))


if __name__ == "__main__":
    sys.exit(main())
