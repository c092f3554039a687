"""Bytes and CPU time that a plan expects, from public sizes and from costs measured on one core."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.crypto.alignment.frames import ROUNDS as MATCHING_ROUNDS
from colonnade.crypto.alignment.sizes import Sizes
from colonnade.crypto.product import SERVER
from colonnade.foundation.matching import HYBRID, matches_ids
from colonnade.foundation.schema import column_to
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.messages import (
    VERSION,
    Accept,
    Body,
    Confirm,
    Done,
    Envelope,
    Hello,
    Join,
    ParcelBody,
    Piece,
    Ready,
    Step,
    encode_body,
    versions,
)

# docs/results/speed.md: base transfers of a partner, and the rest for each id of it and the hub's.
SECONDS_A_PARTNER = 0.21
SECONDS_AN_ID = 6.5e-6  # measured, as above
COUNT_BYTES = 8
"""Of the number of words in front of a submission."""


@dataclass(frozen=True)
class Cost:
    """What a run will take: bytes that each party sends, and CPU seconds of each step, all parties together."""

    sent: dict[str, int]
    seconds: dict[str, float]
    hub: int = 0
    """What the party with the fewest ids sends besides: which one that is, no plan knows."""

    @property
    def total(self) -> int:
        """Sent by all together."""
        return sum(self.sent.values()) + self.hub


def expected_cost(session: SessionPlan, alignment: str) -> Cost:
    """A rough forecast; alignment is counted as if every party held just the common records."""
    rows, parties = session.rows, len(session.parties)
    sent = {name: size + _message_bytes(session, name, alignment) for name, size in session.sent.items()}
    seconds: dict[str, float] = {}
    hub = 0
    if matches_ids(alignment, session.parties):
        seconds["align"] = (parties - 1) * (SECONDS_A_PARTNER + rows * SECONDS_AN_ID)
        # Of equally long lists the first is the hub's, and the last is not.
        hub, partner = (Sizes((rows,) * parties).sent(k, rows, alignment == HYBRID) for k in (0, parties - 1))
        # It speaks four times with each partner, who speaks once with each of its own; both with the server.
        hub += (3 * (parties - 1) - 2) * _parcel_bytes(session, session.parties[0], MATCHING_ROUNDS, "") - partner
        sent = {name: size + partner for name, size in sent.items()}
    if session.spec.crosses:
        seconds["products"] = session.backend.seconds(session.spec)
    return Cost(sent, seconds, hub)


def _parcel_bytes(session: SessionPlan, party: str, rounds: tuple[str, ...], plan: str) -> int:
    """Around a parcel's payload."""
    body = encode_body(ParcelBody(rounds[0], b""))
    return len(Envelope(session.identity, plan, party, session.parties[-1], Step.PARCEL, body).encode())


def _message_bytes(session: SessionPlan, party: str, alignment: str) -> int:
    """All that a party sends around its parcels' and its submission's payloads, written as its role writes it.

    Signatures are not counted: a run in one process has none.
    """
    identity, agreed, others = session.identity, session.digest, len(session.parties) - 1

    def size(step: Step, body: Body, plan: str = "") -> int:
        # A hello comes before the session's id is known.
        known = b"" if step is Step.HELLO else identity
        return len(Envelope(known, plan, party, SERVER, step, encode_body(body)).encode())

    def rounds(names: tuple[str, ...], parcels: int, plan: str) -> int:
        return parcels * _parcel_bytes(session, party, names, plan) + sum(
            size(Step.DONE, Done(name), plan) for name in names
        )

    columns = {name: column_to(column) for name, column in session.agreement.schema.parties[party].items()}
    total = size(Step.HELLO, Hello(VERSION, agreed, False, []), versions()) + size(Step.READY, Ready())
    total += size(Step.JOIN, Join(columns, session.rows, bytes(32)))
    total += size(Step.ACCEPT, Accept(agreed), agreed) + size(Step.CONFIRM, Confirm(), agreed)
    total += size(Step.SUBMIT, Piece(0, 1, bytes(COUNT_BYTES)), agreed)
    if matches_ids(alignment, session.parties):
        total += rounds(MATCHING_ROUNDS, 4 + others, "")
    if session.product_rounds:
        total += rounds(session.product_rounds, others, agreed)
    return total
