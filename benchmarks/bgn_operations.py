"""CPU seconds of single operations of the product bgn on this machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from colonnade.crypto.bgn.logarithm import Costs
from colonnade.crypto.bgn.pairing import curve as load_curve
from colonnade.foundation.randomness import Randomness


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
