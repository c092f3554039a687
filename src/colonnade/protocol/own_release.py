"""A release that the server hands out, beside the session that a party agreed to: only the values may be news."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

import numpy as np

from colonnade.crypto.product import Words, centred
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.shown import shown
from colonnade.mechanism.blocks import NoisyBlock
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.session_plan import SessionPlan

ALIKE = 1e-6
"""Floats of a plan that decide nothing may differ by the machine that computed them."""
NUMBER_BYTES = 80
"""A value, its two factors and its deviation as a release writes them, with room to spare."""


def require_own(release: ReleaseRecord, session: SessionPlan, seeded: bool) -> None:
    """Raise unless it is this session's: n, layout, blocks with units and spreads, plan, terms and session id."""
    provenance = release.provenance
    for what, theirs, mine in (
        ("session", provenance.get("session"), session.identity.hex()),
        ("plan digest", provenance.get("plan_digest"), session.digest),
        ("number of records", release.n, session.rows),
        ("agreement", provenance.get("agreement"), session.agreement.to()),
        ("seeded mark", provenance.get("seeded"), seeded),
        ("simulation mark", provenance.get("simulation"), session.in_the_clear),
        ("law of noise", release.law.value, session.plan.law.value),
    ):
        if type(theirs) is not type(mine) or theirs != mine:
            raise ReleaseError(f"the release is not of this session: its {what} is {shown(theirs)}, not {shown(mine)}")
    # A release states a layout without the norms, which its agreement has.
    if release.layout.attributes != session.plan.layout.attributes:
        raise ReleaseError("the release is not of this session: it has other columns, or the same in another order")
    if len(release.blocks) != len(session.plan.blocks):
        raise ReleaseError(
            f"the release is not of this session: it has {len(release.blocks)} blocks, not {len(session.plan.blocks)}"
        )
    for i, (block, planned) in enumerate(zip(release.blocks, session.plan.blocks, strict=True)):
        own = planned.block
        same = (
            (block.owners, block.role, block.summed, block.unit)
            == (own.owners, own.role, own.summed, session.unit(own))
            and np.array_equal(block.factors, own.factors)
            and np.allclose(block.std, session.released_std(i), rtol=ALIKE, atol=0)
        )
        if not same:
            raise ReleaseError(f"the release is not of this session: block {own.name} has other terms, unit or spread")
    if (key := _differing(release.plan, session.described)) is not None:
        raise ReleaseError(f"the release is not of this session: the plan that it prints has another {key}")


def require_sum(release: ReleaseRecord, session: SessionPlan, total: Words) -> None:
    """Raise unless every released integer is the sum of what all parties handed in; none is released besides."""
    values = centred(total, session.spec.modulus_bits)
    for i, block in enumerate(release.blocks):
        if not np.array_equal(block.values, values[session.positions[i]]):
            name = session.plan.blocks[i].block.name
            raise ReleaseError(f"the release is not the sum of what all parties handed in: block {name} differs")


def require_blocks(release: ReleaseRecord, session: SessionPlan, own: Mapping[int, NoisyBlock]) -> None:
    """Raise unless the sums of one party's own columns are those that it handed in, noise included."""
    for i, block in own.items():
        handed_in = centred(block.values.view(np.uint64), session.spec.modulus_bits)
        if not np.array_equal(release.blocks[i].values, handed_in):
            name = session.plan.blocks[i].block.name
            raise ReleaseError(f"the release has other values than this party handed in: block {name} differs")


def largest_release(session: SessionPlan) -> int:
    """Bytes that a release of this session cannot have: more are not even gathered."""
    numbers = sum(len(item.block.factors) + item.block.size for item in session.plan.blocks)
    texts = len(canonical_json(session.describe())) + len(canonical_json(session.agreement.to()))
    return (1 << 20) + 4 * texts + NUMBER_BYTES * numbers


def _differing(theirs: Any, mine: Any, key: str = "part") -> str | None:
    """Where two plans differ by more than the rounding of floats; None where they do not."""
    if isinstance(mine, Mapping):
        if not isinstance(theirs, Mapping) or theirs.keys() != mine.keys():
            return key
        return next((found for k in mine if (found := _differing(theirs[k], mine[k], str(k))) is not None), None)
    if isinstance(mine, list):
        if not isinstance(theirs, list) or len(theirs) != len(mine):
            return key
        pairs = zip(theirs, mine, strict=True)
        return next((found for a, b in pairs if (found := _differing(a, b, key)) is not None), None)
    if isinstance(mine, float) and isinstance(theirs, float):
        return None if theirs == mine or isclose(theirs, mine, rel_tol=ALIKE) else key
    return None if type(theirs) is type(mine) and theirs == mine else key
