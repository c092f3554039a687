"""Polynomials in names, written out exactly: for each product of names its coefficient."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from colonnade.foundation.errors import SchemaError

Names = tuple[str, ...]
"""Factors of a product in the order of the alphabet, each as often as it is one."""
Expansion = Mapping[Names, Fraction]
MOST_TERMS = 5_000
MOST_FACTORS = 32
MOST_BITS = 1 << 13
"""Of a coefficient's numerator or denominator."""


def constant(value: float) -> Expansion:
    return {(): Fraction(value)} if value else {}


def named(name: str) -> Expansion:
    return {(name,): Fraction(1)}


def added(left: Expansion, right: Expansion, sign: int) -> Expansion:
    """left + sign * right."""
    out = dict(left)
    for names, weight in right.items():
        out[names] = out.get(names, Fraction(0)) + sign * weight
    return _kept(out)


def multiplied(left: Expansion, right: Expansion) -> Expansion:
    """Every product of a term of the one with a term of the other."""
    if len(right) == 1 and () in right:
        return _kept({names: weight * right[()] for names, weight in left.items()})
    if len(left) * len(right) > 10 * MOST_TERMS:
        raise _too_many(len(left) * len(right))
    out: dict[Names, Fraction] = {}
    for first, weight in left.items():
        for second, other in right.items():
            names = tuple(sorted(first + second))
            if len(names) > MOST_FACTORS:
                raise SchemaError(f"a polynomial's products have at most {MOST_FACTORS} factors, got {len(names)}")
            out[names] = out.get(names, Fraction(0)) + weight * other
    return _kept(out)


def _kept(found: Mapping[Names, Fraction]) -> Expansion:
    kept = {names: weight for names, weight in found.items() if weight}
    if len(kept) > MOST_TERMS:
        raise _too_many(len(kept))
    if any(max(w.numerator.bit_length(), w.denominator.bit_length()) > MOST_BITS for w in kept.values()):
        raise SchemaError("a polynomial's coefficients must be shorter than this one's")
    return kept


def _too_many(count: int) -> SchemaError:
    return SchemaError(f"a polynomial is written out in at most {MOST_TERMS} terms, got {count}")
