"""How large a share of cross-party noise each of two parties draws where each must be hidden from the other.

With K = 2 and c = 1 a party's own share alone hides its part of the record from the other, and both together hide the
whole record from everybody else. A part moves less than the whole, so neither share need be the whole noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import sqrt

from colonnade.foundation.proven import proven
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Distribution, Layout

Joint = Callable[[str | None, float], float]
"""How far replacing a party's part of a record (None: all of it) moves a release, cross-party rates times a factor."""

STEPS = 64  # shares' scales are sixty-fourths: exact, and near enough to the best
LEAST = STEPS // 4
"""A share keeps a quarter, by judgement: it hides keys from a party that cheats, too (proofs/key_reading.md)."""
MOST_VALUES = 1 << 24
"""Cross-party sums of which all Gaussian shares together are within the slack of the law that is accounted for."""


@proven("views")
def narrow_shares(
    layout: Layout, blocks: Sequence[Block], law: Distribution, collusion: int, joint: Joint
) -> tuple[float, Mapping[str, Fraction]]:
    """What all scales are in proportion to, and which part of its scale each party's share has, where not all of it.

    Domain: two parties and collusion 1; otherwise nothing is narrowed.
    Unit: parts of a scale, in 64ths.
    Guarantee: each party's part against the other, and the record against all, keep the planned epsilon. Proof:
        views, narrower shares.
    """
    total, parties = joint(None, 1.0), layout.owners
    crossed = sum(b.size for b in blocks if not b.single)
    if len(parties) != 2 or collusion != 1 or not 0 < crossed <= MOST_VALUES:
        return total, {}
    first, second = sorted(parties, key=lambda party: joint(party, 1.0))
    if not law.stable:
        # A sum of two Laplace shares hides no more than the wider one does.
        return total, {first: _narrowest(total, lambda f: joint(first, 1 / f)), second: Fraction(1)}
    needed = min(total, max(joint(second, 1.0), joint(None, 1 / sqrt(2))))

    def together(*factors: float) -> float:
        return joint(None, 1 / sqrt(sum(f**2 for f in factors)))

    one = _narrowest(needed, lambda f: max(joint(first, 1 / f), together(f, 1.0)))
    two = _narrowest(needed, lambda f: max(joint(second, 1 / f), together(float(one), f)))
    return needed, {first: one, second: two}


def _narrowest(allowed: float, moved: Callable[[float], float]) -> Fraction:
    """The least part of a scale under which no more is moved than allowed; it moves more the narrower the noise."""
    low, high = LEAST - 1, STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if moved(middle / STEPS) <= allowed else (middle, high)
    return Fraction(high, STEPS)
