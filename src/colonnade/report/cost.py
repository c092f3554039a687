"""Bytes and CPU time that a plan expects, from public sizes and from costs measured on one core."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.crypto.alignment.sizes import Sizes
from colonnade.foundation.matching import HYBRID, NONE
from colonnade.protocol.session_plan import SessionPlan

# docs/results/alignment.md: base transfers of a partner, and the rest for each id of it and the hub's.
SECONDS_A_PARTNER = 0.21
SECONDS_AN_ID = 6.5e-6

# Greetings, keys, consent and endings of one party, seen with two parties in one process: 1,356 and 1,612.
MESSAGE_BYTES = 1_500


@dataclass(frozen=True)
class Cost:
    """What a run will take: bytes that each party sends, and CPU seconds of each step, all parties together."""

    sent: dict[str, int]
    seconds: dict[str, float]


def expected_cost(session: SessionPlan, alignment: str) -> Cost:
    """A rough forecast; alignment is counted as if every party held just the common records."""
    rows, parties = session.rows, len(session.parties)
    sent = {name: MESSAGE_BYTES + size for name, size in session.sent.items()}
    seconds: dict[str, float] = {}
    if alignment != NONE and parties > 1:
        sizes = Sizes((rows,) * parties)
        seconds["align"] = (parties - 1) * (SECONDS_A_PARTNER + rows * SECONDS_AN_ID)
        post_quantum = alignment == HYBRID
        sent = {name: sent[name] + sizes.sent(k, rows, post_quantum) for k, name in enumerate(session.parties)}
    if session.spec.crosses:
        seconds["products"] = session.backend.seconds(session.spec)
    return Cost(sent, seconds)
