"""Bytes and CPU time that a plan expects, from public sizes and from costs measured on one core."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.crypto.alignment.sizes import Sizes
from colonnade.crypto.bgn.cost import predicted_seconds
from colonnade.crypto.bgn.product import planned_bytes
from colonnade.crypto.lattice.slots import BLOCK
from colonnade.crypto.lattice.words import width
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.matching import HYBRID, NONE
from colonnade.protocol.session_plan import SessionPlan

# docs/results/alignment.md: base transfers of a partner, and the rest for each id of it and the hub's.
SECONDS_A_PARTNER = 0.21
SECONDS_AN_ID = 6.5e-6
# The cost model of the lattice product that `make overhead` fits, in docs/results/overhead.json.
SECONDS_A_SESSION = 8.97e-3
SECONDS_A_SEALED_WORD = 19.5e-9
SECONDS_A_RECEIVED_WORD = 14.24e-9
SECONDS_A_TERM = 0.0913e-9

# Greetings, keys, consent and endings of one party, seen with two parties in one process: 1,356 and 1,612.
MESSAGE_BYTES = 1_500


@dataclass(frozen=True)
class Cost:
    """What a run will take: bytes that each party sends, and CPU seconds of each step, all parties together."""

    sent: dict[str, int]
    seconds: dict[str, float]


def expected_cost(session: SessionPlan, alignment: str) -> Cost:
    """A rough forecast; alignment is counted as if every party held just the common records."""
    spec, rows, parties = session.spec, session.rows, len(session.parties)
    sent = {
        name: MESSAGE_BYTES + 8 * session.length + _product_bytes(session, k) for k, name in enumerate(session.parties)
    }
    seconds: dict[str, float] = {}
    if alignment != NONE and parties > 1:
        sizes = Sizes((rows,) * parties)
        seconds["align"] = (parties - 1) * (SECONDS_A_PARTNER + rows * SECONDS_AN_ID)
        post_quantum = alignment == HYBRID
        sent = {name: sent[name] + sizes.sent(k, rows, post_quantum) for k, name in enumerate(session.parties)}
    if spec.crosses:
        seconds["products"] = _product_seconds(session)
    return Cost(sent, seconds)


def _product_seconds(session: SessionPlan) -> float:
    spec = session.spec
    if session.agreement.product == "bgn":
        return predicted_seconds(spec)
    sealed = [_columns(spec, k, left=True) for k in range(len(spec.parties))]
    received = sum(count * _receivers(spec, k) for k, count in enumerate(sealed))
    terms = sum(c.shape[0] * c.shape[1] for c in spec.crosses)
    each = sum(sealed) * SECONDS_A_SEALED_WORD + received * SECONDS_A_RECEIVED_WORD + terms * SECONDS_A_TERM
    return SECONDS_A_SESSION + spec.rows * each


def _product_bytes(session: SessionPlan, party: int) -> int:
    spec = session.spec
    if not spec.crosses:
        return 0
    if session.agreement.product == "bgn":
        return planned_bytes(spec, party)
    to_right = _receivers(spec, party)
    to_left = len({c.left for c in spec.crosses if c.right == party})
    left, right = _columns(spec, party, left=True), _columns(spec, party, left=False)
    if session.agreement.product == "plain":
        return 2 * to_right * left * spec.rows
    # Sealed columns with one block more for the key, and one ring element for each multiplied column.
    return width(spec.modulus_bits) * (to_right * left * (spec.rows + BLOCK) + to_left * right * BLOCK)


def _receivers(spec: ProductSpec, party: int) -> int:
    """How many parties its sealed columns go to."""
    return len({c.right for c in spec.crosses if c.left == party})


def _columns(spec: ProductSpec, party: int, *, left: bool) -> int:
    """The distinct columns of a party that it seals, or that it multiplies."""
    spans = [
        (c.left_start, c.left_stop) if left else (c.right_start, c.right_stop)
        for c in spec.crosses
        if (c.left if left else c.right) == party
    ]
    return len({i for start, stop in spans for i in range(start, stop)})
