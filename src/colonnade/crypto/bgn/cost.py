"""What the product bgn will cost, from the costs of single operations: a plan says so before anybody waits for days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from colonnade.crypto.bgn.logarithm import table_size
from colonnade.crypto.bgn.pairing import curve as load_curve
from colonnade.crypto.frames import check_spec, entries
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.errors import ProductError
from colonnade.foundation.randomness import Randomness


@dataclass(frozen=True)
class Costs:
    """CPU seconds of one operation on one core."""

    encrypt_g1: float
    encrypt_g2: float
    read_g1: float
    read_g2: float
    miller: float
    final: float
    power: float
    check: float
    add: float


# `python benchmarks/bgn_cost.py --calibrate`, 2026-11-15, one core of a shared x86-64 server.
MEASURED = {
    "bn254": Costs(113e-6, 200e-6, 114e-6, 256e-6, 147e-6, 246e-6, 180e-6, 380e-6, 3.2e-6),
    "bls12-381": Costs(186e-6, 322e-6, 90e-6, 127e-6, 248e-6, 690e-6, 286e-6, 655e-6, 3.8e-6),
}


def predicted_seconds(spec: ProductSpec, curve: str = "bn254", costs: Costs | None = None) -> float:
    """CPU seconds of all parties and the server together; `costs` from `calibrate` are better than those kept here."""
    check_spec(spec)
    if curve not in MEASURED:
        raise ProductError(f"the curve must be one of {', '.join(MEASURED)}, got {curve!r}")
    c = costs or MEASURED[curve]
    left = {(x.left, column) for x in spec.crosses for column in range(x.left_start, x.left_stop)}
    right = {(x.right, column) for x in spec.crosses for column in range(x.right_start, x.right_stop)}
    opened, parties = entries(spec), len(spec.parties)
    if not opened:
        return 0.0
    encrypt = spec.rows * (len(left) * (c.encrypt_g1 + 2 * c.read_g1) + len(right) * (c.encrypt_g2 + 2 * c.read_g2))
    multiply = 4 * opened * (spec.rows * c.miller + c.final)
    # Six powers for each party; it checks c2, c3, c4 and the others' B_j, the server all A_k and partial decryptions.
    decrypt = parties * opened * (6 * c.power + (parties + 4) * c.check)
    steps = table_size(spec.reach, opened)
    logarithm = (steps + opened * (spec.reach / steps + 2)) * c.add
    return encrypt + multiply + decrypt + logarithm


def calibrate(clock: Callable[[], float], curve: str = "bn254", rows: int = 64) -> Costs:
    """Measure every operation on this machine with the given clock, such as time.process_time; takes 0.2 seconds."""
    groups, randomness = load_curve(curve), Randomness()
    scalars = groups.scalars(randomness, rows)

    def cost(work: Callable[[], object]) -> float:
        start = clock()
        work()
        return (clock() - start) / rows

    g1, g2, gt = groups.g1, groups.g2, groups.gt
    p, q = g1.normalize(g1.scale(groups.p, scalars)), g2.normalize(g2.scale(groups.q, scalars))
    points, powers = (g1.write(p), g2.write(q)), gt.scale(groups.g, scalars)
    written, one = gt.write(powers), groups.integers(np.array([1]))
    pair = cost(lambda: [groups.multi_pairing(p[:1], q[:1]) for _ in range(rows)])
    miller = cost(lambda: groups.multi_pairing(p, q))
    return Costs(
        encrypt_g1=cost(lambda: g1.write(g1.add(g1.scale(groups.p, scalars), g1.scale(groups.p, scalars)))),
        encrypt_g2=cost(lambda: g2.write(g2.add(g2.scale(groups.q, scalars), g2.scale(groups.q, scalars)))),
        read_g1=cost(lambda: g1.read(points[0], rows)),
        read_g2=cost(lambda: g2.read(points[1], rows)),
        miller=miller,
        final=max(0.0, pair - miller),
        power=cost(lambda: gt.scale(powers, scalars)),
        check=cost(lambda: gt.read(written, rows)),
        add=cost(lambda: gt.add(powers, gt.scale(groups.g, one))),
    )
