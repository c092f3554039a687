"""Bytes and CPU time that a plan expects, from sizes that are public and costs measured on one core."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.crypto.bgn_cost import predicted_seconds
from colonnade.crypto.lattice import N
from colonnade.protocol.session import Session

# docs/alignment.md: X25519 multiplications, and the hashing, checks and tables around them.
SECONDS_A_POINT = 50e-6
ALIGNMENT_BYTES_A_POINT = 32
TABLE_BYTES_AN_ID = 21


@dataclass(frozen=True)
class Cost:
    """What a run will take: bytes that each party sends, CPU seconds of each step, all parties together."""

    sent: dict[str, int]
    seconds: dict[str, float]
