"""Declared products under a condition: which ones are constant or another feature there, and what they tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colonnade.mechanism.moments import Layout


def held_coordinates(layout: Layout, at: Sequence[int], given: Mapping[int, int]) -> dict[int, int | None]:
    """Products that conditions make 0 (None), or equal to another feature: that one."""
    fixed = {layout.starts[i] + j: j == level for i, level in given.items() for j in range(layout.attributes[i].size)}
    single = {layout.factors[k]: k for k in at}
    out: dict[int, int | None] = {}
    for k in at:
        factors = layout.factors[k]
        rest = tuple(c for c in factors if c not in fixed)
        if not all(fixed.get(c, True) for c in factors):
            out[k] = None
        elif rest != factors and rest in single:
            out[k] = single[rest]
    return out


def held_sums(layout: Layout, k: int, given: Mapping[int, int]) -> tuple[int, list[tuple[int, int]]] | None:
    """The coordinate of a condition, and others, with signs, that add up to x_k where it holds and to 0 elsewhere.

    None where no product of the feature with a condition's column was declared. One that was declared with the first of
    several conditions stands for all of them: nothing is released of how they act together.
    """
    place = {factors: c for c, factors in enumerate(layout.factors)}
    for i, level in given.items():
        own = range(layout.span(i).start, layout.span(i).stop)
        found = {c: place.get(tuple(sorted((*layout.factors[k], c)))) for c in own}
        if (here := found.pop(own[level])) is not None:
            return own[level], [(here, 1)]
        if None not in found.values():
            return own[level], [(k, 1), *((c, -1) for c in found.values() if c is not None)]
    return None
