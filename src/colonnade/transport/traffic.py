"""How much passed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """Bytes that each party sent and received."""

    sent: dict[str, int]
    received: dict[str, int]
