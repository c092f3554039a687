"""A release without a session: exact sums of rows that somebody may see, with the noise of a plan.

The sums, the rounding and the noise are those of a session; only the secure product and the messages are left out.
"""

from __future__ import annotations

import numpy as np

from colonnade.crypto.product import Integers
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Floats, Moments
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.fit import released


def simulate_release(session: SessionPlan, gram: Floats, randomness: Randomness) -> Moments:
    """The moments of a release whose sums of products of grid integers are `gram`; first is the constant, the bound."""
    values: Integers = np.zeros(session.length, dtype=np.int64)
    for i, item in enumerate(session.plan.blocks):
        a, b = item.block.factors[:, -2], item.block.factors[:, -1]
        exact = gram[a, b].sum(keepdims=True) if item.block.summed else gram[a, b]
        noise = session.noise(i)
        if item.block.single:
            drawn = noise.draw(1, randomness)
        else:
            exact = exact * session.spec.gain
            shares = [session.noise(i, session.plan.share(party)) for party in session.parties]
            drawn = np.sum([share.draw(session.plan.shares, randomness) for share in shares], axis=0)
        values[session.positions[i]] = np.rint(exact).astype(np.int64) + drawn
    return released(session, values, {}).moments()
